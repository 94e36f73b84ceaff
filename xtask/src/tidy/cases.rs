//! Test cases are data: each line of `tests/data/cases/*.jsonl` is an object with an `id` or a `name` of its own.

use super::{Report, Tree};
use anyhow::Result;
use serde_json::Value;
use std::collections::HashMap;

const FOLDER: &str = "tests/data/cases/";

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    for (file, text) in tree.texts(&["jsonl"]).filter(|(file, _)| file.path.starts_with(FOLDER)) {
        let mut first: HashMap<String, usize> = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let case: Value = match serde_json::from_str(line) {
                Ok(case) => case,
                Err(error) => {
                    report.error_at(&file.path, number, format!("not JSON: {error}"));
                    continue;
                }
            };
            let Some(id) = case.get("id").or_else(|| case.get("name")).and_then(Value::as_str) else {
                report.error_at(&file.path, number, "neither an \"id\" nor a \"name\"");
                continue;
            };
            if let Some(earlier) = first.insert(id.to_owned(), number) {
                report.error_at(&file.path, number, format!("{id} is also on line {earlier}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::errors;

    fn found(lines: &str) -> Vec<String> {
        errors(check, &[("tests/data/cases/c.jsonl", lines)])
    }

    #[test]
    fn distinct_cases_pass() {
        assert!(found("{\"id\": \"A\"}\n{\"name\": \"B\"}\n").is_empty());
    }

    #[test]
    fn faults_are_found() {
        assert_eq!(
            found("{\"id\": \"A\"}\n{\"id\": \"A\"}\n"),
            ["tests/data/cases/c.jsonl:2: A is also on line 1"]
        );
        assert_eq!(found("{\"id\": 1}\n").len(), 1);
        assert_eq!(found("{}\n").len(), 1);
        assert_eq!(found("{\"id\": \"A\"\n").len(), 1);
    }
}
