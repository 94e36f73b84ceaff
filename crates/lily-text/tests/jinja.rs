//! The template language against real Jinja2, set up as Hugging Face sets it up (`tools/template_oracle.py snippets`).

mod common;

use common::{items, json_lines};
use lily_text::json::Value;
use lily_text::{ChatTemplate, RenderRequest, TemplateError};

/// Snippets where we knowingly differ from Python, and why.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, z=3) }}",
        "the engine's macros take only the arguments that they name; an error, not another text",
    ),
    (
        "{{ '%s-%d' % ('a', 3) }}",
        "the engine has the format filter but not the operator; an error, not another text",
    ),
];

fn outcome(case: &Value) -> Result<String, TemplateError> {
    let template = ChatTemplate::new(case.get("template").and_then(Value::as_str).unwrap())?;
    let mut request = RenderRequest::default();
    for (name, value) in case.get("variables").and_then(Value::as_object).unwrap() {
        match name.as_str() {
            "messages" => request.messages = items(Some(value)),
            _ => request.kwargs.push((name.clone(), value.clone())),
        }
    }
    template.render(&request).map(|prompt| prompt.text())
}

#[test]
fn snippets_come_out_as_in_python() {
    let mut wrong = Vec::new();
    let cases = json_lines("crates/lily-text/tests/data/jinja.jsonl");
    for case in &cases {
        let template = case.get("template").and_then(Value::as_str).unwrap();
        let ours = outcome(case);
        let text = |name| case.get(name).and_then(Value::as_str);
        let agrees = match (text("output"), text("refused"), &ours) {
            (Some(output), _, Ok(ours)) => output == ours,
            (_, Some(words), Err(TemplateError::Refused(ours))) => words == ours,
            (None, None, Err(TemplateError::Broken { .. })) => true,
            _ => false,
        };
        let known = DIFFERENCES.iter().any(|(known, _)| *known == template);
        if known && (agrees || ours.is_ok()) {
            wrong.push(format!("no longer different, or another text instead of an error: {template}"));
        }
        if !agrees && !known {
            wrong.push(format!("{}\n   ours: {ours:?}", case.to_python_json()));
        }
    }
    assert!(cases.len() > 2000, "only {} cases", cases.len());
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
