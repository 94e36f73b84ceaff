//! The host code for Metal calls what is in a table, guarded where it is newer than the program, with the same arguments.

use super::{Report, Tree};
use crate::apple::calls;
use anyhow::Result;

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    let (files, own) = calls::texts(tree);
    if !files.is_empty() {
        for (path, line, words) in calls::faults(&files, &own) {
            report.error_at(&path, line, words);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::tidy::testing::errors;

    #[test]
    fn a_call_that_no_table_has_is_told() {
        let path = format!("{}x.rs", crate::apple::calls::FOLDER);
        let found = errors(super::check, &[(&path, "fn f() {\n    device.location();\n}\n")]);
        assert_eq!(
            found[0],
            format!("{path}:2: location is in no table: from which macOS on does it exist?")
        );
        assert_eq!(errors(super::check, &[("a.rs", "fn f() { x.location(); }")]), [""; 0]);
    }
}
