//! What a mask costs.

use crate::walk::{NANO, json, load, rules};
use lily_text::constraint::Rules;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time of a mask, with the full-size vocabulary where the environment says where that is: an answer in JSON and a
/// call that writes a source file, token by token.
#[test]
fn masks_are_cheap() {
    let schema = json(
        r#"{"type": "object", "required": ["items"], "additionalProperties": false, "properties": {
        "items": {"type": "array", "items": {"type": "object", "additionalProperties": false,
            "properties": {"id": {"type": "integer"}, "text": {"type": "string"}}, "required": ["id", "text"]}}}}"#,
    );
    let item = |id| format!(r#"{{"id": {id}, "text": "The {id}th of many, which has \"quotes\" and é."}}"#);
    let answer = format!(r#"{{"items": [{}]}}"#, (0..40).map(item).collect::<Vec<_>>().join(", "));
    let write = json(
        r#"{"properties": {"path": {"type": "string"}, "text": {"type": "string"}}, "required": ["path", "text"]}"#,
    );
    let functions = [("write", write, true)];
    let source = include_str!("../messages.rs");
    let call = format!(
        "<tool_call>\n<function=write>\n<parameter=path>\n/tmp/a.rs\n</parameter>\n<parameter=text>\n{source}\n</parameter>\n\
         </function>\n</tool_call>"
    );
    let full = std::env::var_os("LILY_QWEN36_DIR").map(|folder| load(Path::new(&folder)));
    if full.is_none() {
        eprintln!("skipped for the full-size vocabulary: LILY_QWEN36_DIR is not set");
    }
    let models = [("nano", Some(&*NANO)), ("full", full.as_ref())];
    for (name, model) in models {
        let Some((tokenizer, constrainer)) = model else { continue };
        for (what, text, rules) in [
            ("json", &answer, rules(Some(&schema), &[])),
            ("call", &call, Rules { required: true, parallel: false, ..rules(None, &functions) }),
        ] {
            let begun = Instant::now();
            let mut guide = constrainer.guide(&rules).expect("a guide");
            let compiled = begun.elapsed();
            let ids = tokenizer.encode(text);
            let mut times = Vec::with_capacity(ids.len());
            for id in &ids {
                let mut words = vec![u32::MAX; tokenizer.size().div_ceil(32)];
                let begun = Instant::now();
                guide.mask(&mut words).expect("a mask");
                guide.accept(*id).expect("allowed");
                times.push(begun.elapsed());
                let allowed = words[id.0 as usize / 32] & (1 << (id.0 % 32)) != 0;
                assert!(allowed, "{name} {what}: {:?} is not allowed", tokenizer.decode(&[*id], false));
            }
            assert!(guide.is_complete(), "{name} {what}");
            let mean = times.iter().sum::<Duration>() / times.len() as u32;
            times.sort_unstable();
            let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
            eprintln!(
                "{name} {what}: {} tokens, guide in {compiled:?}; mask and accept: mean {mean:?}, median {median:?}, most {most:?}",
                ids.len()
            );
            // A step of the full-size model takes milliseconds; an unoptimised test on a busy machine gets room.
            assert!(mean < Duration::from_millis(5), "{name} {what}: {mean:?}");
        }
    }
}
