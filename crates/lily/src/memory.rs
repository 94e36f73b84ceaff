//! Bytes of a sequence's state, from the model's dimensions.

use crate::cli::PrecisionChoice;
use lily_checkpoint::ModelConfig;

/// The f32 recurrent state of all Gated DeltaNet layers.
pub(crate) fn recurrent_bytes(config: &ModelConfig) -> u64 {
    4 * config.recurrent_state_elements() as u64
}

/// The f32 convolution windows.
pub(crate) fn conv_bytes(config: &ModelConfig) -> u64 {
    4 * config.conv_state_elements() as u64
}

/// The KV rows of one token: 16-bit, but f32 where all activations are.
pub(crate) fn kv_bytes_per_token(config: &ModelConfig, precision: Option<PrecisionChoice>) -> u64 {
    let width = if precision == Some(PrecisionChoice::F32) { 4 } else { 2 };
    width * config.kv_elements_per_token() as u64
}

/// A byte count for people: three digits and a unit (powers of 1000).
pub(crate) fn human(bytes: u64) -> String {
    scaled(bytes, [" B", " kB", " MB", " GB", " TB"])
}

/// A count for people: `27.8 M`, `35.1 B`.
pub(crate) fn count(number: u64) -> String {
    scaled(number, ["", " k", " M", " B", " T"])
}

fn scaled(number: u64, units: [&str; 5]) -> String {
    let (mut value, mut unit) = (number as f64, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        (value, unit) = (value / 1000.0, unit + 1);
    }
    let decimals = if unit == 0 || value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (15_800_000, "15.8 MB"),
            (999_600_000, "1.00 GB"),
            (123_456, "123 kB"),
        ] {
            assert_eq!(human(bytes), text);
        }
        assert_eq!((count(35_100_000_000), count(12)), ("35.1 B".to_owned(), "12".to_owned()));
    }
}
