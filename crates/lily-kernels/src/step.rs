//! The words of a step: everything that changes from token to token, in one small buffer on the device. `common.h` has
//! the same numbers as `STEP_*`.

/// Id of the token to consume.
pub const TOKEN: usize = 0;
/// Its position, the number of tokens in the cache before it.
pub const POSITION: usize = 1;
/// Low word of the index of the answer's token that is chosen next, from 0: the counter of the random numbers.
pub const CHOICE_LOW: usize = 2;
/// High word of the same.
pub const CHOICE_HIGH: usize = 3;
/// Tokens that ever entered the ring of the repetition window.
pub const HISTORY: usize = 4;
/// How sampling went: see the `STATUS_*` constants.
pub const STATUS: usize = 5;
/// Words in all.
pub const WORDS: usize = 8;

/// A token was chosen.
pub const STATUS_OK: u32 = 0;
/// A logit is NaN.
pub const STATUS_NAN: u32 = 1;
/// A logit is infinite.
pub const STATUS_INFINITE: u32 = 2;
/// No token is allowed.
pub const STATUS_NOTHING: u32 = 3;

#[cfg(test)]
mod tests {
    /// The header and this file name the same numbers.
    #[test]
    fn the_header_agrees() {
        let header = include_str!("../kernels/common.h");
        let value = |name: &str| {
            let line = header.lines().find(|line| line.starts_with(&format!("#define {name} ")))?;
            line.split_whitespace().nth(2)?.parse::<usize>().ok()
        };
        for (name, here) in [
            ("STEP_TOKEN", super::TOKEN),
            ("STEP_POSITION", super::POSITION),
            ("STEP_CHOICE_LOW", super::CHOICE_LOW),
            ("STEP_CHOICE_HIGH", super::CHOICE_HIGH),
            ("STEP_HISTORY", super::HISTORY),
            ("STEP_STATUS", super::STATUS),
            ("STEP_WORDS", super::WORDS),
            ("STATUS_OK", super::STATUS_OK as usize),
            ("STATUS_NAN", super::STATUS_NAN as usize),
            ("STATUS_INFINITE", super::STATUS_INFINITE as usize),
            ("STATUS_NOTHING", super::STATUS_NOTHING as usize),
        ] {
            assert_eq!(value(name), Some(here), "{name}");
        }
    }
}
