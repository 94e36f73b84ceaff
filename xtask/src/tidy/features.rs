//! Features of dependencies that must stay off: cargo unifies features over the whole build, so one crate that turns
//! one on changes it for all.

use super::{Report, Tree};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{path::Path, process::Command};

/// Package, feature, and why it must stay off.
const FORBIDDEN: &[(&str, &str, &str)] = &[(
    "serde_json",
    "arbitrary_precision",
    "it changes how numbers deserialise inside untagged and flattened types, and what serde_json::Number holds",
)];

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    for lock in tree.files.iter().filter(|file| file.path.rsplit('/').next() == Some("Cargo.lock")) {
        let folder = tree.root.join(&lock.path).parent().context("a file has a folder")?.to_path_buf();
        for (package, feature, reason) in forbidden(&metadata(&folder)?) {
            report.error(&lock.path, format!("{package} is built with `{feature}`: {reason}"));
        }
    }
    Ok(())
}

/// Everything that cargo resolves with all features of the workspace on, for all targets.
pub(super) fn metadata(folder: &Path) -> Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--all-features", "--locked"])
        .current_dir(folder)
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata in {}: {}", folder.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")
}

fn forbidden(metadata: &Value) -> Vec<(&'static str, &'static str, &'static str)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&metadata["packages"]);
    let nodes = list(&metadata["resolve"]["nodes"]);
    let is_built = |name: &str, feature: &str| {
        let ids: Vec<&Value> =
            packages.iter().filter(|package| package["name"] == name).map(|p| &p["id"]).collect();
        let of_package = nodes.iter().filter(|node| ids.contains(&&node["id"]));
        of_package.flat_map(|node| list(&node["features"])).any(|on| on == feature)
    };
    FORBIDDEN.iter().copied().filter(|(package, feature, _)| is_built(package, feature)).collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::{tidy::Report, tree::Tree, tree::testing::plant};
    use std::process::Command;

    /// Errors for a package that uses a stand-in `serde_json` with the given features.
    fn found(features: &str) -> usize {
        let user = format!(
            "[package]\nname = \"user\"\nedition = \"2024\"\n\
             [dependencies]\nserde_json = {{ path = \"serde_json\", features = [{features}] }}\n"
        );
        let (folder, _) = plant(&[
            ("Cargo.toml", &user),
            ("src/lib.rs", ""),
            (
                "serde_json/Cargo.toml",
                "[package]\nname = \"serde_json\"\nversion = \"1.0.0\"\nedition = \"2024\"\n\
                 [features]\narbitrary_precision = []\nraw_value = []\n",
            ),
            ("serde_json/src/lib.rs", ""),
        ]);
        let run = |program: &str, arguments: &[&str]| {
            assert!(
                Command::new(program).args(arguments).current_dir(folder.path()).status().unwrap().success()
            );
        };
        run(env!("CARGO"), &["generate-lockfile", "--offline", "--quiet"]);
        run("git", &["init", "--quiet"]);
        let mut report = Report::default();
        check(&Tree::from_git(folder.path()).unwrap(), &mut report).unwrap();
        report.errors().len()
    }

    #[test]
    fn the_feature_is_found_when_it_is_on() {
        assert_eq!(found("\"arbitrary_precision\""), 1);
    }

    #[test]
    fn others_pass() {
        assert_eq!(found("\"raw_value\""), 0);
    }
}
