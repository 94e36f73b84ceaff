//! `unsafe` lives in a few kinds of modules; each block says why it is sound, each function what its caller owes.

use super::{Report, Tree};
use crate::scrub::{code_only, line_of, word_offsets};
use anyhow::Result;

/// Modules that may hold unsafe code (the name of a file or of a folder above it): instruction sets, memory maps, the
/// thread pool that lends a region's borrows to its workers, devices and the emulated one.
const ALLOWED: &[&str] = &["simd", "mapped", "pool", "device", "emulator"];

/// What stands behind an `unsafe`.
#[derive(Debug, PartialEq)]
enum Kind {
    /// A block or an impl: somebody checked something.
    Claim,
    /// A function or a trait: its users owe something.
    Contract,
    /// A type of function pointers or an attribute: says nothing by itself.
    Mention,
}

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    for (file, text) in tree.texts(&["rs"]) {
        let code = code_only(text);
        let lines: Vec<&str> = text.lines().collect();
        for at in word_offsets(&code, "unsafe") {
            let line = line_of(&code, at);
            if !is_allowed(&file.path) {
                report.error_at(&file.path, line, format!("unsafe code outside {}", ALLOWED.join(", ")));
            }
            match kind(&code, at) {
                Kind::Claim if !has_reason(&lines, line) => {
                    report.error_at(&file.path, line, "no SAFETY line says why this is sound");
                }
                Kind::Contract if !has_reason(&lines, line) && !module_has_contract(tree, &file.path) => {
                    let message = "neither its documentation nor its module's has a section `# Safety`";
                    report.error_at(&file.path, line, message);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn is_allowed(path: &str) -> bool {
    path.split('/').any(|part| ALLOWED.contains(&part.trim_end_matches(".rs")))
}

/// What the `unsafe` at byte `at` is.
fn kind(code: &str, at: usize) -> Kind {
    if code[..at].trim_end().ends_with("#[") {
        return Kind::Mention;
    }
    let mut words = code[at..].split_whitespace().skip(1);
    match words.next() {
        Some("fn" | "trait" | "extern") => Kind::Contract,
        Some(word) if word.starts_with("fn(") => Kind::Mention,
        _ => Kind::Claim,
    }
}

/// True if the file's own documentation, or that of a `mod.rs` above it, has a section on safety.
fn module_has_contract(tree: &Tree, path: &str) -> bool {
    let folders = path.match_indices('/').map(|(at, _)| format!("{}/mod.rs", &path[..at]));
    folders.chain([path.to_owned()]).filter_map(|module| tree.get(&module)?.text()).any(|text| {
        text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains("# Safety"))
    })
}

/// True if the comment that belongs to the statement or item on `line` (one-based) holds a safety argument.
fn has_reason(lines: &[&str], line: usize) -> bool {
    let says = |text: &str| text.contains("// SAFETY:") || text.contains("# Safety");
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
        assert_eq!(
            found,
            ["crates/c/src/lib.rs:3: unsafe code outside simd, mapped, pool, device, emulator"]
        );
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
    fn a_contract_may_stand_in_the_module() {
        let silent = "pub unsafe fn f() {}\n";
        let module = "//! Kernels.\n//!\n//! # Safety\n//! The instruction set is there.\nmod ops;\n";
        assert_eq!(
            errors(check, &[("c/simd/ops/a.rs", silent), ("c/simd/mod.rs", "//! Kernels.\n")]).len(),
            1
        );
        assert!(errors(check, &[("c/simd/ops/a.rs", silent), ("c/simd/mod.rs", module)]).is_empty());
        assert!(errors(check, &[("c/simd.rs", &format!("//! # Safety\n{silent}"))]).is_empty());
        let block = "fn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(errors(check, &[("c/simd/ops/a.rs", block), ("c/simd/mod.rs", module)]).len(), 1);
    }

    #[test]
    fn pointer_types_and_attributes_pass() {
        let text = "struct S {\n    f: unsafe fn(&[f32]),\n}\n#[unsafe(no_mangle)]\nfn g() {}\n";
        assert!(errors(check, &[("simd.rs", text)]).is_empty());
    }

    #[test]
    fn the_word_in_comments_and_strings_is_no_code() {
        assert!(errors(check, &[("a.rs", "// unsafe\nconst A: &str = \"unsafe\";\n")]).is_empty());
    }
}
