//! Whole requests: the golden prompts of the real chat template, and generated ones from real Jinja2.

mod common;

use common::{items, json_lines};
use lily_text::json::Value;
use lily_text::{ChatTemplate, RenderRequest, TemplateError, TokenId, Tokenizer, prepare_messages};

/// A golden's request as the template gets it. The goldens that the template refuses go to it as they are.
fn request(wire: &Value, prepare: bool) -> RenderRequest {
    let messages = items(wire.get("messages"));
    RenderRequest {
        messages: if prepare { prepare_messages(messages).unwrap() } else { messages },
        tools: items(wire.get("tools")),
        kwargs: wire.get("kwargs").and_then(Value::as_object).map(<[_]>::to_vec).unwrap_or_default(),
        add_generation_prompt: wire.get("add_generation_prompt").and_then(Value::as_bool).unwrap_or(true),
    }
}

#[test]
fn every_golden_prompt_is_byte_equal() {
    let Some(template) = common::qwen_template() else { return };
    let mut seen = 0;
    for golden in json_lines("tests/data/cases/prompts.jsonl") {
        let name = golden.get("name").and_then(Value::as_str).unwrap().to_owned();
        let wire = golden.get("request").unwrap();
        match golden.get("prompt").and_then(Value::as_str) {
            Some(expected) => {
                let prompt =
                    template.render(&request(wire, true)).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(prompt.text(), expected, "{name}");
            }
            None => {
                let expected = golden.get("refused").and_then(Value::as_str).unwrap().to_owned();
                let refused = template.render(&request(wire, false));
                assert_eq!(refused, Err(TemplateError::Refused(expected)), "{name}");
            }
        }
        seen += 1;
    }
    assert!(seen >= 20, "only {seen} goldens");
}

/// Cases that concern a prompt: what is rendered, or which message a refusal names. HTTP statuses are the server's.
#[test]
fn every_case_about_prompts_comes_out() {
    let Some(template) = common::qwen_template() else { return };
    let goldens = json_lines("tests/data/cases/prompts.jsonl");
    let mut seen = Vec::new();
    for case in json_lines("tests/data/cases/cases.jsonl") {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let (id, kind) = (text(&case, "id").unwrap(), text(&case, "kind").unwrap());
        let input = case.get("input").unwrap();
        let wire = input.get("request");
        let check = case.get("check");
        let messages = || items(wire.and_then(|wire| wire.get("messages")));
        match id.as_str() {
            // Broken arguments in the history: the message is named.
            "TMPL-14" => {
                let error = prepare_messages(messages()).unwrap_err();
                assert_eq!(error.index, 1);
                assert!(error.to_string().contains("arguments"), "{error}");
            }
            "TMPL-16" => {
                let error = prepare_messages(messages()).unwrap_err().to_string();
                assert!(
                    error.starts_with("messages[0]") && error.contains("images are not supported"),
                    "{error}"
                );
            }
            "TMPL-17" => {
                let Some(tokenizer) = common::qwen_tokenizer() else { return };
                let prompt = template.render(&request(wire.unwrap(), true)).unwrap();
                let ids = tokenizer.encode_prompt(&prompt);
                let control: Vec<String> = ids
                    .iter()
                    .filter(|id| tokenizer.is_special(**id))
                    .map(|id| tokenizer.decode(&[*id], false))
                    .collect();
                assert_eq!(control, ["<|im_start|>", "<|im_end|>", "<|im_start|>"]);
                assert_eq!(tokenizer.decode(&ids, false), prompt.text());
            }
            "REAS-05" | "REAS-08" => {
                let mut request = request(wire.unwrap(), true);
                let kwargs = wire.unwrap().get("chat_template_kwargs").and_then(Value::as_object).unwrap();
                request.kwargs = kwargs.to_vec();
                let prompt = template.render(&request).unwrap();
                let expected = |name: &str| check.and_then(|check| text(check, name));
                assert!(
                    expected("prompt_suffix").is_none_or(|suffix| prompt.as_str().ends_with(&suffix)),
                    "{id}"
                );
                assert!(
                    expected("prompt_contains").is_none_or(|part| prompt.as_str().contains(&part)),
                    "{id}"
                );
            }
            _ => {
                let Some(name) = text(input, "golden") else {
                    assert_ne!(kind, "template", "{id} is not covered");
                    continue;
                };
                let golden =
                    goldens.iter().find(|golden| text(golden, "name").as_ref() == Some(&name)).unwrap();
                let wire = golden.get("request").unwrap();
                let outcome = template.render(&request(wire, true)).map(|prompt| prompt.text());
                let expected = text(golden, "prompt")
                    .ok_or_else(|| TemplateError::Refused(text(golden, "refused").unwrap()));
                assert_eq!(outcome, expected, "{id}");
            }
        }
        seen.push(id);
    }
    let templates = seen.iter().filter(|id| id.starts_with("TMPL")).count();
    let reasoning = seen.iter().filter(|id| id.starts_with("REAS")).count();
    assert_eq!((templates, reasoning), (9, 4), "{seen:?}");
}

/// Compares with lines of `tools/template_oracle.py requests`: texts, refusals, and the ids of the whole text where no
/// request text spells a special token.
fn compare(cases: &[Value], template: &ChatTemplate, tokenizer: &Tokenizer) -> (usize, usize) {
    let (mut prompts, mut with_ids) = (0, 0);
    for case in cases {
        let outcome = template.render(&request(case, true));
        let Some(expected) = case.get("prompt").and_then(Value::as_str) else {
            let words = case.get("refused").and_then(Value::as_str).unwrap().to_owned();
            assert_eq!(outcome, Err(TemplateError::Refused(words)), "{}", case.to_python_json());
            continue;
        };
        let prompt = outcome.unwrap_or_else(|error| panic!("{error}: {}", case.to_python_json()));
        assert_eq!(prompt.as_str(), expected, "{}", case.to_python_json());
        prompts += 1;
        let ids = tokenizer.encode_prompt(&prompt);
        if let Some(expected) = case.get("ids").and_then(Value::as_array) {
            let expected: Vec<TokenId> =
                expected.iter().map(|id| TokenId(id.as_i64().unwrap() as u32)).collect();
            assert_eq!(ids, expected, "{}", case.to_python_json());
            with_ids += 1;
        }
        // Control tokens are exactly those that the template wrote.
        let control = ids.iter().filter(|id| tokenizer.is_special(**id)).count();
        assert_eq!(control, prompt.control_spans().len());
    }
    (prompts, with_ids)
}

#[test]
fn nano_prompts_are_those_of_jinja2() {
    let cases = json_lines("crates/lily-text/tests/data/nano_prompts.jsonl");
    let (prompts, with_ids) = compare(&cases, &common::nano_template(), &common::nano_tokenizer());
    assert!(prompts > 100 && with_ids > 50 && prompts < cases.len(), "{prompts} {with_ids} {}", cases.len());
}

/// As many as one likes: `LILY_NANO_PROMPTS` and `LILY_QWEN36_PROMPTS` name files that the script has written.
#[test]
fn more_prompts_are_those_of_jinja2() {
    let nano = || Some((common::nano_template(), common::nano_tokenizer()));
    let qwen = || Some((common::qwen_template()?, common::qwen_tokenizer()?));
    for (variable, model) in [
        ("LILY_NANO_PROMPTS", &nano as &dyn Fn() -> Option<(ChatTemplate, Tokenizer)>),
        ("LILY_QWEN36_PROMPTS", &qwen),
    ] {
        let Some(path) = std::env::var_os(variable) else {
            eprintln!("skipped: {variable} is not set");
            continue;
        };
        let Some((template, tokenizer)) = model() else { continue };
        let text = std::fs::read_to_string(path).unwrap();
        let cases: Vec<Value> = text.lines().map(|line| Value::parse(line).unwrap()).collect();
        let (prompts, with_ids) = compare(&cases, &template, &tokenizer);
        eprintln!("{variable}: {prompts} prompts of {}, {with_ids} with ids", cases.len());
        assert!(prompts > 0 && with_ids > 0);
    }
}
