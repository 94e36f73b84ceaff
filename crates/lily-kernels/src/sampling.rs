//! The words of a request's sampling buffer and of what a choice leaves for the host. `sampling.h` has the same numbers as
//! `SAMPLING_*`.

/// f32 bits; greater than 0 unless the route is greedy.
pub const TEMPERATURE: usize = 0;
/// Best tokens that are candidates; 0 is off.
pub const TOP_K: usize = 1;
/// f32 bits: share of what top-k left.
pub const TOP_P: usize = 2;
/// f32 bits: least share of the best candidate's probability.
pub const MIN_P: usize = 3;
/// f32 bits.
pub const REPETITION: usize = 4;
/// f32 bits.
pub const PRESENCE: usize = 5;
/// f32 bits.
pub const FREQUENCY: usize = 6;
/// Low word of the seed.
pub const SEED_LOW: usize = 7;
/// High word of the seed.
pub const SEED_HIGH: usize = 8;
/// Tokens that the repetition penalty looks back on; 0 is off.
pub const WINDOW: usize = 9;
/// Best tokens to report with their log-probabilities.
pub const LOGPROBS: usize = 10;
/// Words in all.
pub const WORDS: usize = 12;

/// Logits of a block of the first kernel of a choice, with its default number of simdgroups.
pub const BLOCK: usize = 2048;
/// Most candidates of the bounded route; more are the whole-vocabulary route's.
pub const MOST_CANDIDATES: usize = 64;
/// Words of a block's statistics.
pub const STATISTICS: usize = 4;

/// Words of a slot of the ring that the host reads: token, status, log-probability (f32 bits), reported tokens, then pairs
/// of id and log-probability for each of `report`.
#[must_use]
pub const fn slot_words(report: usize) -> usize {
    4 + 2 * report
}

#[cfg(test)]
mod tests {
    /// The header and this file name the same numbers.
    #[test]
    fn the_header_agrees() {
        let header = include_str!("../kernels/sampling.h");
        let value = |name: &str| {
            let line = header.lines().find(|line| line.starts_with(&format!("#define {name} ")))?;
            line.split_whitespace().nth(2)?.parse::<usize>().ok()
        };
        for (name, here) in [
            ("SAMPLING_TEMPERATURE", super::TEMPERATURE),
            ("SAMPLING_TOP_K", super::TOP_K),
            ("SAMPLING_TOP_P", super::TOP_P),
            ("SAMPLING_MIN_P", super::MIN_P),
            ("SAMPLING_REPETITION", super::REPETITION),
            ("SAMPLING_PRESENCE", super::PRESENCE),
            ("SAMPLING_FREQUENCY", super::FREQUENCY),
            ("SAMPLING_SEED_LOW", super::SEED_LOW),
            ("SAMPLING_SEED_HIGH", super::SEED_HIGH),
            ("SAMPLING_WINDOW", super::WINDOW),
            ("SAMPLING_LOGPROBS", super::LOGPROBS),
            ("SAMPLING_WORDS", super::WORDS),
            ("STAT_WORDS", super::STATISTICS),
        ] {
            assert_eq!(value(name), Some(here), "{name}");
        }
    }
}
