//! Faults that the check must find, and a right text that it must let pass.

use super::{check, clang::Clang, lexical};
use anyhow::{Context, Result, bail};
use lily_kernels::Specialisation;
use std::path::Path;

/// A text with one fault.
pub(super) struct Planted {
    name: String,
    /// Words of what is to be said about it; empty if nothing is.
    expected: String,
    text: String,
}

/// Reads `//// NAME: WORDS` sections.
pub(super) fn read(path: &Path) -> Result<Vec<Planted>> {
    let text = super::read(path)?;
    let mut found: Vec<Planted> = Vec::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("//// ") {
            let (name, expected) = heading.split_once(':').with_context(|| format!("{line}: no colon"))?;
            found.push(Planted {
                name: name.to_owned(),
                expected: expected.trim().to_owned(),
                text: String::new(),
            });
        } else if let Some(last) = found.last_mut() {
            last.text.push_str(line);
            last.text.push('\n');
        }
    }
    if found.iter().filter(|one| one.expected.is_empty()).count() != 1 {
        bail!("{}: one text must be right", path.display());
    }
    Ok(found)
}

impl Planted {
    /// What is wrong with the check, if it does not say of this text what it must.
    pub(super) fn missed(&self, clang: &Clang) -> Option<String> {
        let carrier = if self.text.contains("TENSOR_") { "gemm_tensor" } else { "attention_rows" };
        let given = [("HEADS", 2), ("KV_HEADS", 1), ("HEAD", 256), ("K", 64)];
        let file = lily_kernels::find(carrier)?;
        let given: Vec<(&str, i64)> = given
            .into_iter()
            .filter(|(name, _)| file.constants.iter().any(|one| one.name == *name))
            .collect();
        let one = match Specialisation::new(file, &given) {
            Ok(one) => one.with_text(&self.text),
            Err(error) => return Some(format!("{}: {error}", self.name)),
        };
        let mut found = lexical::check(&self.text, false);
        found.extend(check(clang, &one));
        let right = if self.expected.is_empty() {
            found.is_empty()
        } else {
            found.iter().any(|problem| problem.contains(&self.expected))
        };
        (!right).then(|| format!("{}: expected `{}`, found {found:?}", self.name, self.expected))
    }
}
