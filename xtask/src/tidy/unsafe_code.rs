//! `unsafe` lives in SIMD, memory-map (`mapped`) and device modules, and each use says why it is sound.

use super::{Report, Tree};
use crate::scrub::{code_only, line_of, word_offsets};
use anyhow::Result;

/// Modules that may hold unsafe code: the name of a file or of a folder above it.
const ALLOWED: &[&str] = &["simd", "mapped", "device"];

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    for (file, text) in tree.texts(&["rs"]) {
        let code = code_only(text);
        let lines: Vec<&str> = text.lines().collect();
        for at in word_offsets(&code, "unsafe") {
            let line = line_of(&code, at);
            if !allowed(&file.path) {
                report.error_at(&file.path, line, format!("unsafe code outside {}", ALLOWED.join(", ")));
            }
            if !is_attribute(&code, at) && !is_justified(&lines, line) {
                report.error_at(&file.path, line, "no SAFETY line says why this is sound");
            }
        }
    }
    Ok(())
}

fn allowed(path: &str) -> bool {
    path.split('/').any(|part| ALLOWED.contains(&part.trim_end_matches(".rs")))
}

/// `#[unsafe(no_mangle)]`.
fn is_attribute(code: &str, at: usize) -> bool {
    code[..at].trim_end().ends_with("#[")
}

/// True if the comment that belongs to the statement or item on `line` (one-based) holds a safety argument.
fn is_justified(lines: &[&str], line: usize) -> bool {
    let says =
        |text: &str| text.contains("// SAFETY:") || text.contains("# Safety") || text.contains("//! SAFETY:");
    if says(lines[line - 1]) {
        return true;
    }
    for above in lines[..line - 1].iter().rev() {
        let text = above.trim();
        let comment = text.starts_with("//");
        if comment && says(text) {
            return true;
        }
        let attribute = text.starts_with("#[") || text.ends_with(")]");
        let continued = !text.is_empty() && !text.ends_with([';', '{', '}']);
        if !comment && !attribute && !continued {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::errors;

    const SOUND: &str =
        "fn f(p: *const u8) -> u8 {\n    // SAFETY: the caller's slice is not empty.\n    unsafe { *p }\n}\n";
    const SILENT: &str = "fn f(p: *const u8) -> u8 {\n    unsafe { *p }\n}\n";

    #[test]
    fn a_justified_block_in_an_allowed_module_passes() {
        for path in ["crates/c/src/simd/avx2.rs", "crates/c/src/mapped.rs", "crates/c/src/simd.rs"] {
            assert!(errors(check, &[(path, SOUND)]).is_empty(), "{path}");
        }
    }

    #[test]
    fn elsewhere_it_is_an_error() {
        let found = errors(check, &[("crates/c/src/lib.rs", SOUND)]);
        assert_eq!(found, ["crates/c/src/lib.rs:3: unsafe code outside simd, mapped, device"]);
    }

    #[test]
    fn without_a_reason_it_is_an_error() {
        let found = errors(check, &[("simd.rs", SILENT)]);
        assert_eq!(found, ["simd.rs:2: no SAFETY line says why this is sound"]);
    }

    #[test]
    fn a_reason_further_up_belongs_to_something_else() {
        let text = "// SAFETY: of g.\nfn g() {}\n\nfn f(p: *const u8) -> u8 {\n    unsafe { *p }\n}\n";
        assert_eq!(errors(check, &[("simd.rs", text)]).len(), 1);
    }

    #[test]
    fn reasons_of_items_and_of_split_statements_count() {
        let item =
            "/// Reads.\n///\n/// # Safety\n/// `p` is valid.\n#[inline]\npub unsafe fn f(p: *const u8) {}\n";
        assert!(errors(check, &[("simd.rs", item)]).is_empty());
        let split = "fn f() {\n    // SAFETY: checked above.\n    let x =\n        unsafe { g() };\n}\n";
        assert!(errors(check, &[("simd.rs", split)]).is_empty());
    }

    #[test]
    fn the_word_in_comments_and_strings_is_no_code() {
        assert!(errors(check, &[("a.rs", "// unsafe\nconst A: &str = \"unsafe\";\n")]).is_empty());
    }
}
