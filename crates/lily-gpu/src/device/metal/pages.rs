//! Which memory a buffer can stand on without a copy.

/// Length of a buffer over `bytes` bytes at `address`: whole pages. The rest of the last page belongs to the same page and so
/// can be read, whatever is in it.
pub(super) fn without_copy(
    address: usize,
    bytes: usize,
    page: usize,
    max_buffer: u64,
) -> Result<usize, String> {
    if bytes == 0 {
        return Err("there are no bytes".to_owned());
    }
    if !page.is_power_of_two() || !address.is_multiple_of(page) {
        return Err(format!("it does not start at a page of {page} bytes"));
    }
    let length = bytes.checked_next_multiple_of(page).filter(|&length| length as u64 <= max_buffer);
    length.ok_or_else(|| format!("{bytes} bytes are more than a buffer may have ({max_buffer})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_from_a_page_on() {
        let page = 16 << 10;
        assert_eq!(without_copy(0, 1, page, 1 << 30), Ok(page));
        assert_eq!(without_copy(5 * page, page, page, 1 << 30), Ok(page));
        assert_eq!(without_copy(page, page + 1, page, 1 << 30), Ok(2 * page));
        // A page of other systems is no page here.
        assert!(without_copy(4096, 100, page, 1 << 30).is_err());
        assert!(without_copy(page, 100, page, 100).is_err());
        assert!(without_copy(0, usize::MAX, page, u64::MAX).is_err());
        assert!(without_copy(0, 0, page, u64::MAX).is_err());
    }
}
