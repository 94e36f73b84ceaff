//! Which files of a folder hold the model's weights.

use crate::{
    CheckpointError,
    error::listed,
    files::Files,
    index::{INDEX, Index},
};

const SINGLE: &str = "model.safetensors";

/// The weight files to read.
#[derive(Debug)]
pub(crate) struct Shards {
    pub(crate) names: Vec<String>,
    pub(crate) index: Option<Index>,
    pub(crate) warnings: Vec<String>,
}

impl Shards {
    /// Finds the weight files. With an index only the files that it names count, and all of them must be there: an index
    /// left over from another version of the checkpoint is an error that says so, never a guess. Without one,
    /// `model.safetensors`, else a complete set of `model-0000k-of-0000n.safetensors`.
    pub(crate) fn find(files: &Files) -> Result<Self, CheckpointError> {
        let present = files.list()?;
        let (names, index) = match files.read_json(INDEX)? {
            Some(text) => {
                let index = Index::parse(&files.label(INDEX), &text)?;
                (index.files(), Some(index))
            }
            None if present.iter().any(|name| name == SINGLE) => (vec![SINGLE.to_owned()], None),
            None => (numbered(files, &present)?, None),
        };
        let missing: Vec<String> = names.iter().filter(|name| !present.contains(name)).cloned().collect();
        if !missing.is_empty() {
            return Err(incomplete(files, missing, &present, index.is_some()));
        }
        let stray: Vec<&String> =
            present.iter().filter(|name| name.ends_with(".safetensors") && !names.contains(name)).collect();
        let mut warnings = Vec::new();
        if !stray.is_empty() {
            let why =
                if index.is_some() { "not named by the index" } else { "not among the model's weight files" };
            warnings.push(format!("{}: not read ({why}): {}", files.place(), listed(&stray, stray.len())));
        }
        Ok(Self { names, index, warnings })
    }
}

fn incomplete(files: &Files, missing: Vec<String>, present: &[String], by_index: bool) -> CheckpointError {
    let hint = if by_index && present.iter().any(|name| name == SINGLE) {
        format!(
            "{INDEX} names {}; {SINGLE} is there but not named. If it is complete and the index is left over from another \
             version, remove the index; else download the missing files",
            if missing.len() == 1 { "this file" } else { "these files" }
        )
    } else {
        "download the missing files".to_owned()
    };
    CheckpointError::IncompleteDownload { place: files.place(), missing, hint: hint.into() }
}

/// The whole set that the files called `model-0000k-of-0000n.safetensors` belong to.
fn numbered(files: &Files, present: &[String]) -> Result<Vec<String>, CheckpointError> {
    let mut totals: Vec<u32> = present.iter().filter_map(|name| shard_total(name)).collect();
    totals.sort_unstable();
    totals.dedup();
    match totals[..] {
        [total] => Ok((1..=total).map(|k| shard_name(k, total)).collect()),
        [] => {
            let weights: Vec<&String> =
                present.iter().filter(|name| name.ends_with(".safetensors")).collect();
            let found = match (&weights[..], present) {
                ([], []) => "no files".to_owned(),
                ([], _) => format!("no *.safetensors but {}", listed(present, present.len())),
                (weights, _) => listed(weights, weights.len()),
            };
            Err(CheckpointError::NoWeights { place: files.place(), found })
        }
        _ => Err(CheckpointError::File {
            file: files.place(),
            problem: format!("files of several checkpoints: sets of {totals:?} files and no {INDEX}"),
            hint: "keep the files of one of them".into(),
        }),
    }
}

fn shard_name(number: u32, total: u32) -> String {
    format!("model-{number:05}-of-{total:05}.safetensors")
}

/// The `n` of `model-0000k-of-0000n.safetensors`; five digits, so that a name cannot ask for millions of files.
fn shard_total(name: &str) -> Option<u32> {
    let (number, total) = name.strip_prefix("model-")?.strip_suffix(".safetensors")?.split_once("-of-")?;
    let digits = |text: &str| {
        let plain = text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
        if plain { text.parse::<u32>().ok() } else { None }
    };
    digits(total).filter(|total| digits(number).is_some_and(|number| (1..=*total).contains(&number)))
}
