//! `lily render`.

use crate::process::{done, fed, nano_copy};
use std::{fs, path::Path};

const HI: &str = r#"[{"role": "user", "content": "Hi"}]"#;

#[test]
fn text_ids_and_json_agree() {
    let text = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n";
    assert_eq!(fed(["render"], HI).success().stdout, text);
    let object = fed(["render", "--json"], HI).success().json();
    assert_eq!(object["prompt"], text);
    let ids: Vec<u32> = serde_json::from_value(object["token_ids"].clone()).expect("ids");
    // From the `tokenizers` package of Python.
    assert_eq!(ids, HI_IDS);
    let line = ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    assert_eq!(fed(["render", "--ids"], HI).success().stdout, format!("{line}\n"));
}

const HI_IDS: &[u32] = &[5057, 347, 198, 3387, 5058, 198, 5057, 365, 198, 5080, 198];

#[test]
fn options_change_the_template_s_variables() {
    let off = fed(["render", "--think", "off"], HI).success().stdout;
    assert!(off.ends_with("<think>\n\n</think>\n\n"), "{off}");
    let wire = r#"{"messages": [{"role": "user", "content": "Hi"}], "chat_template_kwargs": {"enable_thinking": false}}"#;
    assert_eq!(fed(["render"], wire).success().stdout, off);
    assert!(fed(["render", "--think", "on"], wire).success().stdout.ends_with("<think>\n"));
    let turns = fed(["render", "--no-generation-prompt"], HI).success().stdout;
    assert_eq!(turns, "<|im_start|>user\nHi<|im_end|>\n");
}

#[test]
fn message_text_never_becomes_a_control_token() {
    let spelled = r#"[{"role": "user", "content": "<|im_end|>"}]"#;
    let object = fed(["render", "--json"], spelled).success().json();
    let ids: Vec<u32> = serde_json::from_value(object["token_ids"].clone()).expect("ids");
    assert!(object["prompt"].as_str().is_some_and(|prompt| prompt.contains("user\n<|im_end|><|im_end|>")));
    assert_eq!(ids.iter().filter(|&&id| id == 5058).count(), 1, "only the turn's own end is a token");
}

#[test]
fn needs_no_weights() {
    let folder = nano_copy(false);
    fs::remove_file(folder.path().join("config.json")).expect("removed");
    let done = fed(["render", "--model", &folder.path().display().to_string()], HI).success();
    assert_eq!(done.stdout, fed(["render"], HI).stdout);
}

#[test]
fn refusals_are_in_the_template_s_own_words() {
    for (request, words) in [
        ("[]", "There are no messages."),
        (r#"[{"role": "assistant", "content": "Hi"}]"#, "There is no user message."),
        (
            r#"[{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]"#,
            "A system message must come first.",
        ),
    ] {
        let done = fed(["render"], request);
        assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{request}");
        assert!(done.stderr.contains(words), "{request}: {}", done.stderr);
    }
}

#[test]
fn a_request_that_is_none_is_told_its_place() {
    for (request, words) in [("{\"messages\": [", "line 1"), ("{}", "messages"), ("", "line 1")] {
        let done = fed(["render"], request);
        assert_eq!(done.code, Some(1), "{request}");
        assert!(done.stderr.contains(words) && done.stderr.contains("hint:"), "{request}: {}", done.stderr);
    }
    let done = done(["render", "/no/such/request.json"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("/no/such/request.json"), "{}", done.stderr);
}

/// Golden prompts of the real model, where its tokenizer folder is at hand: the refusals and some of the rest (lily-text
/// tests all of them; here, each loads the large tokenizer anew).
#[test]
fn the_real_template_s_golden_prompts() {
    let Some(folder) = std::env::var_os("LILY_QWEN36_DIR") else {
        eprintln!("skipped: LILY_QWEN36_DIR is not set");
        return;
    };
    let folder = folder.to_str().expect("UTF-8");
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/cases/prompts.jsonl");
    let mut count = 0;
    for (index, line) in fs::read_to_string(cases).expect("read").lines().enumerate() {
        let case: serde_json::Value = serde_json::from_str(line).expect("JSON");
        if case["refused"].is_null() && index % 8 != 0 {
            continue;
        }
        // The raw text keeps what a parsed number would lose.
        let request = &line[line.find("\"request\": ").expect("a request") + "\"request\": ".len()..];
        let request =
            serde_json::Deserializer::from_str(request).into_iter::<Box<serde_json::value::RawValue>>();
        let request = request.map(|raw| raw.expect("JSON")).next().expect("a request");
        let done = fed(["render", "--model", folder], request.get());
        match case["refused"].as_str() {
            Some(words) => {
                assert_eq!(done.code, Some(1), "{}", case["name"]);
                assert!(done.stderr.contains(words), "{}: {}", case["name"], done.stderr);
            }
            None => assert_eq!(case["prompt"], done.success().stdout, "{}", case["name"]),
        }
        count += 1;
    }
    assert!(count >= 4, "only {count} cases");
}
