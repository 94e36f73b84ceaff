//! What comes from outside: every licence is a permissive one, and the binary's default build compiles no C.

use super::{Report, Tree, features::metadata};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::process::Command;

const LOCK: &str = "Cargo.lock";
/// Licences that ask for no more than their text (SPDX names).
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
/// Build dependencies that compile or look for code in other languages.
const BUILDERS: &[&str] = &["cc", "cmake", "pkg-config", "bindgen", "vcpkg", "system-deps"];

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    if tree.get(LOCK).is_none() {
        report.error(LOCK, "the file is missing");
        return Ok(());
    }
    let metadata = metadata(&tree.root)?;
    for fault in licence_faults(&metadata) {
        report.error(LOCK, fault);
    }
    for fault in foreign_code(&default_build(tree)?) {
        report.error(LOCK, fault);
    }
    Ok(())
}

/// Packages whose licence is not permissive, or not stated.
fn licence_faults(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let fault = |package: &Value| {
        let name = package["name"].as_str().unwrap_or("?");
        match package["license"].as_str() {
            None => Some(format!("{name} states no licence")),
            Some(terms) if !is_permissive(terms) => Some(format!("{name} is under {terms:?}")),
            Some(_) => None,
        }
    };
    packages.iter().filter_map(fault).collect()
}

/// True if every part that holds together (`AND`) offers a permissive choice (`OR`, or the old `/`).
fn is_permissive(terms: &str) -> bool {
    let terms = terms.replace('/', " OR ");
    terms.split(" AND ").all(|part| {
        let choices = part.trim().trim_start_matches('(').trim_end_matches(')');
        choices.split(" OR ").any(|choice| PERMISSIVE.contains(&choice.trim()))
    })
}

/// Names of the packages in the binary's default build on this machine, tests left out, one a line.
fn default_build(tree: &Tree) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--package", "lily", "--edges", "normal,build", "--prefix", "none", "--locked"])
        .args(["--format", "{p}"])
        .current_dir(&tree.root)
        .output()
        .context("cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What in a listing of packages builds code in other languages.
fn foreign_code(listing: &str) -> Vec<String> {
    let named = |name: &&str| listing.lines().any(|line| line.split(' ').next() == Some(name));
    let fault = |name: &str| format!("the default build needs {name}: it must compile Rust only");
    BUILDERS.iter().filter(|name| named(name)).map(|name| fault(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::{foreign_code, is_permissive, licence_faults};
    use serde_json::json;

    #[test]
    fn permissive_terms_pass() {
        for terms in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "MIT OR LGPL-2.1",
        ] {
            assert!(is_permissive(terms), "{terms}");
        }
    }

    #[test]
    fn others_do_not() {
        for terms in
            ["GPL-3.0", "MIT AND GPL-3.0", "LGPL-2.1 OR MPL-2.0", "", "(MIT OR Apache-2.0) AND MPL-2.0"]
        {
            assert!(!is_permissive(terms), "{terms}");
        }
        let metadata = json!({"packages": [
            {"name": "good", "license": "MIT"}, {"name": "bad", "license": "AGPL-3.0"}, {"name": "silent", "license": null},
        ]});
        assert_eq!(licence_faults(&metadata), ["bad is under \"AGPL-3.0\"", "silent states no licence"]);
    }

    #[test]
    fn a_compiler_of_c_is_found() {
        assert_eq!(foreign_code("lily v0.1.0 (path)\nccx v1.0.0\ncc v1.2.3\n").len(), 1);
        assert!(foreign_code("lily v0.1.0 (path)\nccx v1.0.0\n").is_empty());
    }
}
