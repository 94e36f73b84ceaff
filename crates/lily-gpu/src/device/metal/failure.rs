//! What the error of a command buffer means.

use crate::GpuError;

/// `MTLCommandBufferError`: code, name, meaning and what to do.
const MEANINGS: [(isize, &str, &str); 9] = [
    (
        1,
        "internal",
        "the system ended the work: a fault in it, or it took too long on a machine with a display",
    ),
    (2, "timeout", "it took too long\nhint: a shorter prefill chunk makes shorter work"),
    (3, "page fault", "a kernel touched memory that is not its own: please report this"),
    (
        4,
        "access revoked",
        "the system took the GPU away from this program after too many faults: start it again",
    ),
    (7, "not permitted", "the program may not use the GPU, for instance because it is in the background"),
    (8, "out of memory", "the GPU's memory is full"),
    (9, "invalid resource", "a buffer was not there: please report this"),
    (11, "device removed", "the GPU is gone"),
    (12, "stack overflow", "a kernel needs more stack than there is: please report this"),
];

/// The error of a command buffer: code and text are the system's.
pub(super) fn command_buffer(label: &str, code: isize, text: &str) -> GpuError {
    let (name, meaning) = MEANINGS
        .iter()
        .find(|(known, ..)| *known == code)
        .map_or(("unknown", "the system gives no reason"), |&(_, name, meaning)| (name, meaning));
    let what = format!("{name} (code {code}): {meaning}\nthe system says: {text}");
    if code == 8 {
        return GpuError::TooLarge(format!(
            "{label}: {what}\nhint: use a shorter --context, or raise the limit: sudo sysctl iogpu.wired_limit_mb=N"
        ));
    }
    GpuError::Device { call: label.to_owned(), what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_meanings() {
        let text = command_buffer("decode", 3, "Caused GPU Address Fault").to_string();
        assert!(text.starts_with("decode: page fault (code 3): a kernel touched memory"), "{text}");
        assert!(text.ends_with("the system says: Caused GPU Address Fault"), "{text}");
        assert!(
            matches!(command_buffer("x", 8, ""), GpuError::TooLarge(text) if text.contains("wired_limit_mb"))
        );
        assert!(command_buffer("x", 99, "?").to_string().contains("unknown (code 99)"));
    }
}
