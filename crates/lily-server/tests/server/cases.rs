//! The shared cases: one real-world fault a line.

use serde_json::Value;
use std::sync::LazyLock;

static CASES: LazyLock<Vec<Value>> = LazyLock::new(|| lines("cases.jsonl"));
static PROMPTS: LazyLock<Vec<Value>> = LazyLock::new(|| lines("prompts.jsonl"));

fn lines(file: &str) -> Vec<Value> {
    let path = format!("{}/../../tests/data/cases/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("the cases");
    text.lines().map(|line| serde_json::from_str(line).expect("a case is JSON")).collect()
}

/// A case by its id.
pub(crate) fn case(id: &str) -> &'static Value {
    CASES.iter().find(|case| case["id"] == id).unwrap_or_else(|| panic!("there is no case {id}"))
}

/// A prompt with its request, by its name.
pub(crate) fn golden(name: &str) -> &'static Value {
    PROMPTS
        .iter()
        .find(|prompt| prompt["name"] == name)
        .unwrap_or_else(|| panic!("there is no prompt {name}"))
}

/// The ids of a kind.
pub(crate) fn ids(kind: &str) -> Vec<&'static str> {
    CASES.iter().filter(|case| case["kind"] == kind).filter_map(|case| case["id"].as_str()).collect()
}

/// Checks that every case of a kind is either tested here or left to another crate, and none is listed twice.
fn assert_covered(kind: &str, tested: &[&str], elsewhere: &[(&str, &str)]) {
    let mut known: Vec<&str> = tested.iter().copied().chain(elsewhere.iter().map(|(id, _)| *id)).collect();
    known.sort_unstable();
    let mut all = ids(kind);
    all.sort_unstable();
    assert_eq!(known, all, "the cases of kind {kind} and those that are accounted for");
}

/// `base` with the fields of `more`.
pub(crate) fn with(base: &Value, more: &Value) -> Value {
    let mut out = base.clone();
    for (key, value) in more.as_object().expect("an object") {
        out[key] = value.clone();
    }
    out
}

/// A case's request variants over a one-message conversation.
pub(crate) fn variants(id: &str) -> Vec<Value> {
    let base = serde_json::json!({"messages": [{"role": "user", "content": "Hi"}]});
    let variants = case(id)["input"]["request_variants"].as_array().expect("variants");
    variants.iter().map(|variant| with(&base, variant)).collect()
}

/// A case's test.
pub(crate) type Run = fn() -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// A table of tests by case id.
macro_rules! table {
    ($($id:literal => $test:path),* $(,)?) => {
        &[$(($id, (|| Box::pin($test())) as $crate::cases::Run)),*]
    };
}
pub(crate) use table;

/// Runs the tests of a kind, one after the other, and checks that every case of the kind is accounted for.
pub(crate) async fn run(kind: &str, tests: &[(&str, Run)], elsewhere: &[(&str, &str)]) {
    let tested: Vec<&str> = tests.iter().map(|(id, _)| *id).collect();
    assert_covered(kind, &tested, elsewhere);
    for (id, test) in tests {
        // Shown only if the test fails.
        eprintln!("case {id}");
        test().await;
    }
}
