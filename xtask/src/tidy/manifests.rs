//! Every crate of the workspace describes itself and inherits what all share.

use super::{Report, Tree};
use anyhow::Result;
use toml::{Table, Value};

const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "repository"];
const DEPENDENCIES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    for (path, manifest) in members(tree, report) {
        let Some(package) = manifest.get("package").and_then(Value::as_table) else {
            report.error(&path, "no [package]");
            continue;
        };
        if package.get("description").and_then(Value::as_str).is_none_or(|text| text.trim().is_empty()) {
            report.error(&path, "no description: say in a few words what the crate is");
        }
        for key in INHERITED {
            if !inherits(package.get(*key)) {
                report.error(&path, format!("`{key}.workspace = true` is missing"));
            }
        }
        if !inherits(manifest.get("lints")) {
            report.error(&path, "`[lints] workspace = true` is missing");
        }
        for (table, name, value) in dependencies(&manifest) {
            if !inherits(Some(value)) {
                report.error(&path, format!("{table}: declare {name} in the root Cargo.toml and inherit it"));
            }
        }
    }
    Ok(())
}

/// The manifests of the workspace's own crates; one that is no TOML is reported.
pub(super) fn members(tree: &Tree, report: &mut Report) -> Vec<(String, Table)> {
    let mut members = Vec::new();
    for (file, text) in tree.texts(&["toml"]) {
        let parts: Vec<&str> = file.path.split('/').collect();
        if !matches!(parts[..], ["crates", _, "Cargo.toml"] | ["xtask", "Cargo.toml"]) {
            continue;
        }
        match text.parse::<Table>() {
            Ok(manifest) => members.push((file.path.clone(), manifest)),
            Err(error) => report.error(&file.path, format!("not TOML: {}", error.message())),
        }
    }
    members
}

/// Every dependency: its table, its name and what the manifest says of it, those of one target included.
pub(super) fn dependencies(manifest: &Table) -> Vec<(&'static str, &str, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let scopes = std::iter::once(manifest).chain(targets.filter_map(|(_, scope)| scope.as_table()));
    let mut found = Vec::new();
    for scope in scopes {
        for table in DEPENDENCIES {
            let entries = scope.get(*table).and_then(Value::as_table).into_iter().flatten();
            found.extend(entries.map(|(name, value)| (*table, name.as_str(), value)));
        }
    }
    found
}

fn inherits(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("workspace")).and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::errors;

    const GOOD: &str = "[package]\nname = \"a\"\ndescription = \"b\"\nversion.workspace = true\n\
        edition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n\
        repository.workspace = true\n[lints]\nworkspace = true\n[dependencies]\nc.workspace = true\n";

    fn found(manifest: &str) -> Vec<String> {
        errors(check, &[("crates/a/Cargo.toml", manifest)])
    }

    #[test]
    fn a_complete_manifest_passes() {
        assert_eq!(found(GOOD), [""; 0]);
    }

    #[test]
    fn each_missing_line_is_found() {
        let planted: Vec<&str> =
            GOOD.lines().filter(|line| line.contains("workspace") || line.contains("descr")).collect();
        assert_eq!(planted.len(), 8);
        for line in planted {
            let without: Vec<&str> = GOOD.lines().filter(|other| *other != line).collect();
            assert_eq!(found(&without.join("\n")).len(), usize::from(!line.starts_with("c.")), "{line}");
        }
    }

    #[test]
    fn a_version_of_its_own_is_found_also_under_a_target() {
        assert_eq!(found(&GOOD.replace("c.workspace = true", "c = \"1\"")).len(), 1);
        let target = format!("{GOOD}[target.'cfg(unix)'.dev-dependencies]\nd = {{ path = \"../d\" }}\n");
        assert_eq!(found(&target).len(), 1);
    }

    #[test]
    fn what_is_no_toml_is_reported() {
        assert_eq!(found("[package").len(), 1);
        assert_eq!(found("").len(), 1);
    }
}
