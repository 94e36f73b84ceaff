//! What a repository should not carry: large binaries, and files of the full-size model, whose terms are not ours.

use super::{Report, Tree};
use anyhow::Result;

/// Largest file, in bytes.
const LIMIT: usize = 20_000_000;
/// Largest tokenizer, in bytes: nano's has a third of a megabyte, the full-size model's eleven.
const TOKENIZER_LIMIT: usize = 5_000_000;
/// Suffixes of weights, which belong into `models/` or into test data.
const WEIGHTS: &[&str] = &["safetensors", "gguf", "npz", "npy", "bin", "pt", "pth"];
/// Length and FNV-1a hash of the full-size model's own files.
const FULL_SIZE: &[(usize, u64, &str)] = &[
    (7_764, 0x8ae3_a8bc_6e68_f114, "chat_template.jinja"),
    (3_686, 0xdf96_5235_13c1_4a76, "config.json"),
    (202, 0x1e94_4ecc_b210_51f5, "generation_config.json"),
    (11_070_396, 0x7482_7fa0_2de9_8c52, "tokenizer.json"),
    (16_718, 0xd39c_df27_c560_9066, "tokenizer_config.json"),
];

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    for file in &tree.files {
        let size = file.bytes.len();
        if size > LIMIT {
            report.error(&file.path, format!("{size} bytes, the limit is {LIMIT}"));
        }
        if file.path.ends_with("tokenizer.json") && size > TOKENIZER_LIMIT {
            report.error(
                &file.path,
                format!("{size} bytes: the tokenizer of a full-size model does not belong here"),
            );
        }
        let known = FULL_SIZE.iter().find(|(length, hash, _)| *length == size && *hash == fnv1a(&file.bytes));
        if let Some((_, _, name)) = known {
            report.error(
                &file.path,
                format!("this is the full-size model's {name}, which is not ours to give out"),
            );
        }
        if WEIGHTS.contains(&file.extension()) && !file.path.starts_with("models/") && !file.is_data() {
            report.error(&file.path, "weights belong into models/ or into tests/data/");
        }
    }
    Ok(())
}

/// 64-bit FNV-1a: enough to recognise a known file.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::{LIMIT, TOKENIZER_LIMIT, check, fnv1a};
    use crate::tidy::testing::errors;

    #[test]
    fn sizes_at_the_limit_pass_and_past_it_do_not() {
        assert!(errors(check, &[("a.dat", &"x".repeat(LIMIT))]).is_empty());
        assert_eq!(errors(check, &[("a.dat", &"x".repeat(LIMIT + 1))]).len(), 1);
        assert!(errors(check, &[("m/tokenizer.json", &"x".repeat(TOKENIZER_LIMIT))]).is_empty());
        assert_eq!(errors(check, &[("m/tokenizer.json", &"x".repeat(TOKENIZER_LIMIT + 1))]).len(), 1);
    }

    #[test]
    fn weights_outside_their_folders_are_found() {
        assert_eq!(errors(check, &[("docs/w.safetensors", "x")]).len(), 1);
        assert!(
            errors(check, &[("models/nano/model.safetensors", "x"), ("tests/data/w.npz", "x")]).is_empty()
        );
    }

    #[test]
    fn the_hash_is_fnv1a() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
