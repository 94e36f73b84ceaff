//! Codes of any width to bytes, without vector instructions.

/// Unpacks `n` codes, a multiple of 8: eight codes of `bits` bits lie in `bits` bytes, lowest bits first.
///
/// # Safety
/// `n / 8 * bits` readable bytes at `codes`, `n` writable ones at `out`.
#[inline(always)]
pub(super) unsafe fn unpack(bits: usize, codes: *const u8, n: usize, out: *mut u8) {
    for pack in 0..n / 8 {
        let mut word = [0u8; 8];
        // SAFETY: `pack < n / 8`, so the eight codes' bytes and their places are inside by contract.
        unsafe {
            std::ptr::copy_nonoverlapping(codes.add(pack * bits), word.as_mut_ptr(), bits);
            let word = u64::from_le_bytes(word);
            for i in 0..8 {
                *out.add(pack * 8 + i) = (word >> (i * bits)) as u8 & ((1u16 << bits) - 1) as u8;
            }
        }
    }
}
