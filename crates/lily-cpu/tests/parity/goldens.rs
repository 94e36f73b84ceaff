//! lily-nano and what mlx-lm says about it.

use lily_checkpoint::Checkpoint;
use lily_engine::{TokenId, evaluation::ReferenceFile};
use std::path::PathBuf;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The embedded model's folder, opened.
pub(crate) fn nano() -> Checkpoint {
    Checkpoint::open(&repository().join("models/nano")).expect("the nano checkpoint opens")
}

/// A reference file of `tests/data/goldens`.
pub(crate) fn golden(name: &str) -> ReferenceFile {
    ReferenceFile::read(&repository().join("tests/data/goldens").join(name)).expect("a good golden")
}

/// A chat's prompt and mlx-lm's greedy answer.
pub(crate) struct GreedyAnswer {
    pub(crate) name: String,
    pub(crate) prompt: Vec<TokenId>,
    pub(crate) answer: Vec<TokenId>,
    /// Smallest margin between the best and the second logit over the answer.
    pub(crate) min_margin: f64,
}

/// `nano-greedy.json`.
pub(crate) fn greedy_answers() -> Vec<GreedyAnswer> {
    let path = repository().join("tests/data/goldens/nano-greedy.json");
    let entries: Vec<serde_json::Value> =
        serde_json::from_slice(&std::fs::read(path).expect("the golden is there")).expect("JSON");
    let ids = |value: &serde_json::Value| {
        let ids = value.as_array().expect("ids").iter();
        ids.map(|id| TokenId(u32::try_from(id.as_u64().expect("an id")).expect("an id"))).collect()
    };
    entries
        .iter()
        .map(|entry| GreedyAnswer {
            name: entry["name"].as_str().expect("a name").into(),
            prompt: ids(&entry["prompt"]),
            answer: ids(&entry["answer"]),
            min_margin: entry["min_margin"].as_f64().expect("a margin"),
        })
        .collect()
}
