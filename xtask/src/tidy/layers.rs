//! Which crate may use which: the table in ARCHITECTURE.md is the rule, the manifests are held to it.

use super::{
    Report, Tree,
    manifests::{dependencies, members},
};
use crate::markdown::code_spans;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- layers -->";
const END: &str = "<!-- /layers -->";
/// A cell with these words allows every crate.
const EVERYTHING: &str = "every crate";

/// What one crate may use.
#[derive(Debug, Default, PartialEq)]
struct Allowed {
    always: BTreeSet<String>,
    in_tests: BTreeSet<String>,
    everything: bool,
}

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    let manifests = members(tree, report);
    let Some(table) = tree.get(DOCUMENT).and_then(|file| file.text()).and_then(parse) else {
        report.error(DOCUMENT, format!("no table between {BEGIN} and {END} says which crate may use which"));
        return Ok(());
    };
    let name = |manifest: &toml::Table| Some(manifest.get("package")?.get("name")?.as_str()?.to_owned());
    let names: BTreeSet<String> = manifests.iter().filter_map(|(_, manifest)| name(manifest)).collect();
    for row in table.keys().filter(|row| !names.contains(*row)) {
        report.error(DOCUMENT, format!("the table has a row for {row}, which is no crate here"));
    }
    for (path, manifest) in &manifests {
        let Some(user) = name(manifest) else { continue };
        let Some(allowed) = table.get(&user) else {
            report.error(path, format!("{DOCUMENT} has no row for {user}"));
            continue;
        };
        for (scope, used, _) in
            dependencies(manifest).into_iter().filter(|(_, used, _)| names.contains(*used))
        {
            let tests = scope == "dev-dependencies";
            let fine = allowed.everything
                || allowed.always.contains(used)
                || (tests && allowed.in_tests.contains(used))
                || (tests && used == user);
            if !fine {
                let message = format!("{scope}: {user} may not use {used}, says the table in {DOCUMENT}");
                report.error(path, message);
            }
        }
    }
    Ok(())
}

/// Rows of the marked table: `` | `crate` | `may`, `use` | `in`, `tests` | ``.
fn parse(document: &str) -> Option<BTreeMap<String, Allowed>> {
    let (_, rest) = document.split_once(BEGIN)?;
    let (body, _) = rest.split_once(END)?;
    let mut table = BTreeMap::new();
    for line in body.lines().filter(|line| line.trim_start().starts_with('|')) {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
        let Some(user) = code_spans(cells[0]).first().copied() else { continue };
        let set = |index: usize| -> BTreeSet<String> {
            cells
                .get(index)
                .map(|cell| code_spans(cell).into_iter().map(str::to_owned).collect())
                .unwrap_or_default()
        };
        let everything = cells.get(1).is_some_and(|cell| cell.contains(EVERYTHING));
        table.insert(user.to_owned(), Allowed { always: set(1), in_tests: set(2), everything });
    }
    (!table.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::errors;

    const TABLE: &str = "# A\n<!-- layers -->\n| crate | may use | in tests also |\n|---|---|---|\n| `top` | every crate | |\n\
        | `mid` | `low` | `side` |\n| `low` | none | |\n| `side` | none | |\n<!-- /layers -->\n";

    fn found(table: &str, mid: &str) -> Vec<String> {
        let package = |name: &str, rest: &str| format!("[package]\nname = \"{name}\"\n{rest}");
        errors(
            check,
            &[
                ("ARCHITECTURE.md", table),
                ("crates/top/Cargo.toml", &package("top", "[dependencies]\nmid = {}\nlow = {}\nside = {}\n")),
                ("crates/mid/Cargo.toml", &package("mid", mid)),
                ("crates/low/Cargo.toml", &package("low", "[dependencies]\nserde = \"1\"\n")),
                ("crates/side/Cargo.toml", &package("side", "")),
            ],
        )
    }

    #[test]
    fn what_the_table_allows_passes() {
        assert_eq!(found(TABLE, "[dependencies]\nlow = {}\n[dev-dependencies]\nside = {}\n"), [""; 0]);
    }

    #[test]
    fn what_it_does_not_allow_is_found_in_every_scope() {
        for scope in
            ["dependencies", "build-dependencies", "dev-dependencies", "target.'cfg(unix)'.dependencies"]
        {
            assert_eq!(found(TABLE, &format!("[{scope}]\ntop = {{}}\n")).len(), 1, "{scope}");
        }
        assert_eq!(found(TABLE, "[dependencies]\nside = {}\n").len(), 1);
    }

    #[test]
    fn a_missing_table_row_or_crate_is_found() {
        assert_eq!(found("# A\n", "").len(), 1);
        assert_eq!(found(&TABLE.replace("| `mid` | `low` | `side` |\n", ""), "").len(), 1);
        assert_eq!(found(&TABLE.replace("| `mid`", "| `ghost` | |\n| `mid`"), "").len(), 1);
    }
}
