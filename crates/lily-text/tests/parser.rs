//! Reading a model's text: every case, whole, in single characters and in other pieces.

mod common;

use common::{items, json_lines};
use lily_text::json::Value;
use lily_text::parser::{End, Event, Message, MessageParser, Start, ToolCall};
use proptest::prelude::*;

/// Cases whose outcome shows elsewhere: in the server (parameters, wire fields, finish reasons), or in the rendered
/// prompt (`prompts.rs`).
const ELSEWHERE: &[&str] =
    &["TOOL-23", "REAS-06", "REAS-09", "REAS-14", "REAS-18", "REAS-05", "REAS-08", "REAS-10", "REAS-11"];

fn stream(pieces: &[&str], start: Start, tools: &[Value], end: End) -> Vec<Event> {
    read(MessageParser::new(start, tools), pieces, end)
}

fn read(mut parser: MessageParser, pieces: &[&str], end: End) -> Vec<Event> {
    let mut events: Vec<Event> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
    events.extend(parser.finish(end));
    events
}

/// What a client that joins the deltas sees, also of calls that did not end.
fn joined(events: &[Event]) -> Vec<Event> {
    let mut joined: Vec<Event> = Vec::new();
    for event in events {
        let merged = match (joined.last_mut(), event) {
            (Some(Event::Reasoning(text)), Event::Reasoning(more))
            | (Some(Event::Content(text)), Event::Content(more)) => {
                text.push_str(more);
                true
            }
            (Some(Event::CallArguments { json, .. }), Event::CallArguments { json: more, .. }) => {
                json.push_str(more);
                true
            }
            _ => false,
        };
        if !merged {
            joined.push(event.clone());
        }
    }
    joined
}

fn characters(text: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    starts.push(text.len());
    starts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

/// Pieces of one to seven characters.
fn random_pieces(text: &str, mut seed: u64) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let count = (seed >> 33) as usize % 7 + 1;
        let end = rest.char_indices().nth(count).map_or(rest.len(), |(at, _)| at);
        pieces.push(&rest[..end]);
        rest = &rest[end..];
    }
    pieces
}

fn same(whole: &[Event], pieces: &[&str], start: Start, tools: &[Value], end: End, id: &str) {
    let streamed = stream(pieces, start, tools, end);
    assert_eq!(joined(&streamed), joined(whole), "{id}: {pieces:?}");
    for event in &streamed {
        if let Event::CallStart { name, .. } = event {
            assert!(!name.is_empty(), "{id}");
        }
    }
}

/// A call's arguments are JSON text of an object, always.
fn arguments(call: &ToolCall) -> Value {
    let value = Value::parse(&call.arguments).unwrap_or_else(|error| panic!("{error}: {}", call.arguments));
    assert!(value.as_object().is_some(), "{}", call.arguments);
    value
}

fn check(id: &str, check: &Value, message: &Message, end: End) {
    let text = |name: &str| check.get(name).and_then(Value::as_str);
    let flag = |name: &str| check.get(name).and_then(Value::as_bool) == Some(true);
    if let Some(content) = text("content") {
        assert_eq!(message.content, content, "{id}");
    }
    if let Some(part) = text("content_contains") {
        assert!(message.content.contains(part), "{id}: {message:?}");
    }
    if let Some(part) = text("content_not_contains") {
        assert!(!message.content.contains(part), "{id}: {message:?}");
    }
    if flag("content_empty") {
        assert_eq!(message.content, "", "{id}");
    }
    if let Some(reasoning) = text("reasoning_content") {
        assert_eq!(message.reasoning, reasoning, "{id}");
    }
    if flag("reasoning_empty") {
        assert_eq!(message.reasoning, "", "{id}");
    }
    if let Some(calls) = check.get("tool_calls").and_then(Value::as_array) {
        assert_eq!(message.calls.len(), calls.len(), "{id}: {message:?}");
        for (call, expected) in message.calls.iter().zip(calls) {
            assert_eq!(Some(call.name.as_str()), expected.get("name").and_then(Value::as_str), "{id}");
            let got = arguments(call);
            let any = items(expected.get("arguments_any_of"));
            let exact = expected.get("arguments").into_iter().chain(&any);
            assert!(exact.clone().any(|expected| *expected == got), "{id}: {}", call.arguments);
        }
    }
    if flag("arguments_is_json_object") {
        assert!(!message.calls.is_empty(), "{id}");
        message.calls.iter().for_each(|call| drop(arguments(call)));
    }
    match text("finish_reason") {
        Some("tool_calls") => assert!(!message.calls.is_empty(), "{id}"),
        Some("length") => assert_eq!(end, End::Cut, "{id}"),
        Some("stop") => assert!(message.calls.is_empty() && end == End::Stop, "{id}"),
        _ => {}
    }
}

#[test]
fn every_case_comes_out_in_every_chunking() {
    let mut seen = Vec::new();
    for case in json_lines("tests/data/cases/cases.jsonl") {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let (id, kind) = (text(&case, "id").unwrap(), text(&case, "kind").unwrap());
        let input = case.get("input").unwrap();
        let Some(model_text) = text(input, "model_text") else {
            let ours = kind == "tool_parsing" || kind == "reasoning";
            assert!(!ours || ELSEWHERE.contains(&id.as_str()), "{id} is not covered");
            continue;
        };
        let request = input.get("request");
        let choice = request.and_then(|request| request.get("tool_choice")).and_then(Value::as_str);
        let mut tools =
            items(input.get("tools").or_else(|| request.and_then(|request| request.get("tools"))));
        if choice == Some("none") {
            tools.clear();
        }
        let start =
            Start::after_prompt(&text(input, "prompt_ends_with").unwrap_or_else(|| "<think>\n".to_owned()));
        let end = if text(input, "end").as_deref() == Some("length") { End::Cut } else { End::Stop };

        let whole = stream(&[&model_text], start, &tools, end);
        let message = Message::from_events(whole.clone());
        assert_eq!(message, Message::parse(&model_text, start, &tools, end));
        if let Some(expected) = case.get("check") {
            check(&id, expected, &message, end);
        }
        same(&whole, &characters(&model_text), start, &tools, end, &id);
        for seed in 0..50 {
            same(&whole, &random_pieces(&model_text, seed), start, &tools, end, &id);
        }
        for (at, _) in model_text.char_indices() {
            let (left, right) = model_text.split_at(at);
            same(&whole, &[left, right], start, &tools, end, &id);
        }
        if let Some(pieces) = input.get("also_feed").and_then(Value::as_array) {
            let pieces: Vec<&str> = pieces.iter().filter_map(Value::as_str).collect();
            assert_eq!(pieces.concat(), model_text, "{id}");
            same(&whole, &pieces, start, &tools, end, &id);
        }
        if let Some(at_least) =
            case.get("check").and_then(|check| check.get("min_argument_deltas")).and_then(Value::as_i64)
        {
            let streamed = stream(&characters(&model_text), start, &tools, end);
            let deltas = streamed.iter().filter(|event| matches!(event, Event::CallArguments { .. })).count();
            assert!(deltas as i64 >= at_least, "{id}: {deltas}");
        }
        seen.push(id);
    }
    let count = |kind: &str| seen.iter().filter(|id| id.starts_with(kind)).count();
    assert_eq!((count("TOOL"), count("REAS"), count("CLI")), (21, 6, 1), "{seen:?}");
}

/// What the module's documentation promises beyond the cases: text, start, and the message.
#[test]
fn tolerance_is_as_documented() {
    let tools = [Value::parse(
        r#"{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "o": {"type": "object"}}}}}"#,
    )
    .unwrap()];
    let a = r#"{"a": "x"}"#;
    for (text, content, calls) in [
        // Values.
        (
            "<tool_call>\n<function=f>\n<parameter=a>x</parameter>\n</function>\n</tool_call>",
            "",
            vec![("f", a)],
        ),
        ("<tool_call><function=f><parameter=a>x</parameter></function></tool_call>", "", vec![("f", a)]),
        (
            "<tool_call>\n<function=f>\n<parameter=a>\nx</parameter>\n</function>\n</tool_call>",
            "",
            vec![("f", a)],
        ),
        (
            "<tool_call>\n<function=f>\n  <parameter=a>\nx\n  </parameter>\n</function>\n</tool_call>",
            "",
            vec![("f", a)],
        ),
        (
            "<tool_call>\r\n<function=f>\r\n<parameter=a>\r\nx\r\n</parameter>\r\n</function>\r\n</tool_call>",
            "",
            vec![("f", a)],
        ),
        (
            "<tool_call>\n<function=f>\n<parameter=a>\n</parameter>\n</function>\n</tool_call>",
            "",
            vec![("f", r#"{"a": ""}"#)],
        ),
        (
            "<tool_call>\n<function=f>\n<parameter=a>\n\n</parameter>\n</function>\n</tool_call>",
            "",
            vec![("f", r#"{"a": ""}"#)],
        ),
        (
            "<tool_call>\n<function=f>\n<parameter=a>\n\n\n</parameter>\n</function>\n</tool_call>",
            "",
            vec![("f", r#"{"a": "\n"}"#)],
        ),
        // Missing tags.
        ("<tool_call>\n<function=f>\n<parameter=a>\nx\n</function>\n</tool_call>", "", vec![("f", a)]),
        ("<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</tool_call>", "", vec![("f", a)]),
        (
            "<tool_call>\n<function=f>\n<parameter=a>\nx\n<parameter=b>\n1\n</parameter>\n</function>\n</tool_call>",
            "",
            vec![("f", r#"{"a": "x", "b": 1}"#)],
        ),
        ("<tool_call>\n<function=f>\n<parameter=a>\nx", "", vec![("f", a)]),
        ("<tool_call>\n<function=f>\n<parameter=a>\nx\n</param", "", vec![("f", a)]),
        ("<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>", "", vec![("f", a)]),
        ("<tool_call>\n<function=f>", "", vec![("f", "{}")]),
        ("<tool_call>\n<function=f>\n<parameter=b", "", vec![("f", "{}")]),
        // Several calls.
        (
            "<tool_call>\n<function=f>\n</function>\n</tool_call>\n<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>",
            "",
            vec![("f", "{}"), ("f", a)],
        ),
        (
            "<tool_call>\n<function=f>\n</function>\n<function=g>\n</function>\n</tool_call>",
            "",
            vec![("f", "{}"), ("g", "{}")],
        ),
        (
            "<tool_call>\n<function=f>\n<tool_call>\n<function=f>\n</function>\n</tool_call>",
            "",
            vec![("f", "{}"), ("f", "{}")],
        ),
        // A parameter twice, one that is not declared, arguments as an object.
        (
            "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n<parameter=a>\ny\n</parameter>\n</function>\n</tool_call>",
            "",
            vec![("f", a)],
        ),
        (
            "<tool_call>\n<function=f>\n<parameter=z>\n7\n</parameter>\n</function>\n</tool_call>",
            "",
            vec![("f", r#"{"z": "7"}"#)],
        ),
        ("<tool_call>\n<function=f>\n{\"a\": \"x\"}\n</function>\n</tool_call>", "", vec![("f", a)]),
        // JSON in the envelope.
        (
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}{\\\"\"}}\n</tool_call>",
            "",
            vec![("f", r#"{"a": "}{\""}"#)],
        ),
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": \\\"x\\\"}\"}</tool_call>",
            "",
            vec![("f", a)],
        ),
        ("<tool_call>\n{'name': 'f', 'arguments': {'a': 'x'}}\n</tool_call>", "", vec![("f", a)]),
        (
            "<tool_call>\n{\"name\": \"f\"}\n</tool_call>\n<tool_call>\n{\"name\": \"f\", \"parameters\": {}}\n</tool_call>",
            "",
            vec![("f", "{}"), ("f", "{}")],
        ),
        (
            "<tool_call>\n{\"name\": \"\"}\n</tool_call>",
            "<tool_call>\n{\"name\": \"\"}\n</tool_call>",
            vec![],
        ),
        ("<tool_call>\n{\"a\": 1}\n</tool_call> b", "<tool_call>\n{\"a\": 1}\n</tool_call> b", vec![]),
        ("<tool_call>\n{\"a\": 1\n</tool_call> b", "<tool_call>\n{\"a\": 1\n</tool_call> b", vec![]),
        // Text that is no call, to the letter.
        ("a <tool_call> b <function=f> c", "a <tool_call> b <function=f> c", vec![]),
        ("Use `<function=f>` so.\n", "Use `<function=f>` so.\n", vec![]),
        ("<function=g>\n</function>", "<function=g>\n</function>", vec![]),
        (
            "<tool_call>\n<function= >\n</function>\n</tool_call>",
            "<tool_call>\n<function= >\n</function>\n</tool_call>",
            vec![],
        ),
        ("<tool_call>\n</tool_call>", "<tool_call>\n</tool_call>", vec![]),
        ("1 < 2 <tool", "1 < 2 <tool", vec![]),
        // Text around calls.
        ("A \n\n<tool_call>\n<function=f>\n</function>\n</tool_call>\n\nB\n", "A\n\nB\n", vec![("f", "{}")]),
        ("<tool_call>\n<function=f>\n</function>\n</tool_call>\n\nB", "B", vec![("f", "{}")]),
        ("A\n  <function=f>\n</function>\n</tool_call>\n", "A", vec![("f", "{}")]),
        // A tool that is not declared, in an envelope.
        (
            "<tool_call>\n<function=g>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>",
            "",
            vec![("g", r#"{"n": "1"}"#)],
        ),
        // Echoes of the prompt.
        ("<think>\n\n</think>\n\nHi", "Hi", vec![]),
        ("</think>\n\nHi", "Hi", vec![]),
    ] {
        let message = Message::parse(text, Start::Answer, &tools, End::Stop);
        let got: Vec<(&str, &str)> =
            message.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!((message.content.as_str(), got), (content, calls), "{text:?}");
        assert_eq!(message.incomplete, None, "{text:?}");
        let whole = stream(&[text], Start::Answer, &tools, End::Stop);
        same(&whole, &characters(text), Start::Answer, &tools, End::Stop, text);
    }
}

#[test]
fn thinking_is_as_documented() {
    let tools = [Value::parse(r#"{"type": "function", "function": {"name": "f"}}"#).unwrap()];
    let call = "<tool_call>\n<function=f>\n</function>\n</tool_call>";
    for (start, text, reasoning, content, calls) in [
        (Start::Thinking, "a\n</think>\n\nb".to_owned(), "a", "b", 0),
        (Start::Thinking, "\n</think>\n\nb\n".to_owned(), "", "b\n", 0),
        (Start::Thinking, "<think>\na\n</think>\nb".to_owned(), "a", "b", 0),
        (
            Start::Thinking,
            "a < b </thin k>\n\nc </think> d </think>".to_owned(),
            "a < b </thin k>\n\nc",
            "d </think>",
            0,
        ),
        (Start::Thinking, "cut in the tag </thi".to_owned(), "cut in the tag </thi", "", 0),
        (Start::Thinking, "never closed \n".to_owned(), "never closed", "", 0),
        (Start::Thinking, format!("a\n{call}\nb\n</think>\n\nc"), "a\nb", "c", 1),
        (Start::Thinking, format!("a\n{call}"), "a", "", 1),
        (
            Start::Thinking,
            format!("a\n{}", call.replace("=f", "=g")),
            "a\n<tool_call>\n<function=g>\n</function>\n</tool_call>",
            "",
            0,
        ),
        (Start::Thinking, "a\n<function=f>\n</function>".to_owned(), "a\n<function=f>\n</function>", "", 0),
        (Start::Thinking, "ends in <tool_call>".to_owned(), "ends in <tool_call>", "", 0),
        (Start::Within, "<think>\nhm\n</think>\nHi".to_owned(), "hm", "Hi", 0),
        (Start::Within, "  <thing> is not it".to_owned(), "", "  <thing> is not it", 0),
        (Start::Within, "<thi".to_owned(), "", "<thi", 0),
        (Start::Within, " ".to_owned(), "", " ", 0),
        (Start::Answer, "Hello <think> not a tag".to_owned(), "", "Hello <think> not a tag", 0),
        (
            Start::Raw,
            format!(" <think></think>{call}"),
            "",
            " <think></think><tool_call>\n<function=f>\n</function>\n</tool_call>",
            0,
        ),
    ] {
        let message = Message::parse(&text, start, &tools, End::Stop);
        assert_eq!(
            (message.reasoning.as_str(), message.content.as_str(), message.calls.len()),
            (reasoning, content, calls),
            "{text:?}"
        );
        let whole = stream(&[&text], start, &tools, End::Stop);
        same(&whole, &characters(&text), start, &tools, End::Stop, &text);
    }
}

#[test]
fn a_text_that_ends_in_a_call_says_so() {
    let tools =
        [Value::parse(r#"{"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}"#).unwrap()];
    let parse = |text: &str, end| Message::parse(text, Start::Answer, &tools, end);
    for text in [
        "<tool_call>",
        "<tool_call>\n",
        "<tool_call>\n<func",
        "<tool_call>\n<function=f",
        "<tool_call>\n{\"name\": \"f\"",
    ] {
        let message = parse(&format!("Well.\n\n{text}"), End::Stop);
        assert_eq!((message.content.as_str(), message.incomplete.as_deref()), ("Well.", Some(text)));
        assert!(message.calls.is_empty());
    }
    // Cut off inside a call: it was begun for whoever listened, and it is no call.
    let events =
        stream(&["<tool_call>\n<function=f>\n<parameter=a>\nlorem ipsum"], Start::Answer, &tools, End::Cut);
    assert!(matches!(&events[0], Event::CallStart { name, .. } if name == "f"));
    assert!(!events.iter().any(|event| matches!(event, Event::CallEnd { .. })));
    assert!(Message::from_events(events).calls.is_empty());
    // Cut off behind the function block: it is one.
    assert_eq!(parse("<tool_call>\n<function=f>\n</function>\n</tool", End::Cut).calls.len(), 1);
}

#[test]
fn nothing_but_what_may_be_a_tag_is_held_back() {
    let tools =
        [Value::parse(r#"{"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}"#).unwrap()];
    let mut parser = MessageParser::new(Start::Answer, &tools);
    assert_eq!(parser.push("Hello"), [Event::Content("Hello".into())]);
    assert_eq!(parser.push(" "), []);
    assert_eq!(parser.push("you <"), [Event::Content(" you".into())]);
    assert_eq!(parser.push("b>"), [Event::Content(" <b>".into())]);
    parser.push("\n<tool_call>\n<function=f>");
    assert_eq!(parser.calls(), 1);
    parser.push("\n<parameter=a>\n");
    let json = |text: &str| vec![Event::CallArguments { call: 0, json: text.into() }];
    assert_eq!(parser.push("x\"y"), json("\"x\\\"y"));
    assert_eq!(parser.push(" <b> z"), json(" <b> z"));
    // Without tools nothing can open a call, so nothing is held back at all.
    let mut parser = MessageParser::new(Start::Within, &[]);
    assert_eq!(parser.push("a <"), [Event::Content("a <".into())]);
    assert_eq!(parser.push("tool_call>\n "), [Event::Content("tool_call>\n ".into())]);
}

#[test]
fn long_texts_in_small_pieces_take_linear_time() {
    let tools = [Value::parse(
        r#"{"name": "f", "parameters": {"properties": {"a": {"type": "string"}, "o": {"type": "array"}}}}"#,
    )
    .unwrap()];
    let long = "word < \n".repeat(40_000);
    let list = format!("[{}1]", "1, \n".repeat(80_000));
    for text in [
        format!("<tool_call>\n<function=f>\n<parameter=a>\n{long}\n</parameter>\n</function>\n</tool_call>"),
        format!("<tool_call>\n<function=f>\n<parameter=o>\n{list}\n</parameter>\n</function>\n</tool_call>"),
        format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {{\"o\": {list}}}}}\n</tool_call>"),
        format!("{long}</think>{long}"),
        format!("x{}y", " ".repeat(200_000)),
        format!("<tool_call>\n<function=f>\n<parameter=a>\nx{}y\n</parameter>", " ".repeat(200_000)),
        format!("<tool_call>{}", "\n".repeat(200_000)),
        format!("<tool_call>\n<function=f>\n</function>{}", "\n".repeat(200_000)),
        "<".repeat(200_000),
        "<function=".repeat(20_000),
        "\n<function=f".repeat(20_000),
        " ".repeat(200_000),
    ] {
        let begun = std::time::Instant::now();
        for start in [Start::Answer, Start::Within] {
            let whole = stream(&[&text], start, &tools, End::Stop);
            same(&whole, &characters(&text), start, &tools, End::Stop, "long");
        }
        assert!(begun.elapsed().as_secs() < 20, "{:?}: {:?}", &text[..50], begun.elapsed());
    }
}

fn model_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<tool_call>",
        "</tool_call>",
        "<function=f>",
        "<function=g>",
        "<function=",
        "</function>",
        "<parameter=a>",
        "<parameter=b>",
        "<parameter=o>",
        "<parameter=z>",
        "<parameter=",
        "</parameter>",
        "<think>",
        "</think>",
        "\n",
        "\n",
        "\n",
        " ",
        "  ",
        "\r\n",
        "<",
        ">",
        "x",
        "text",
        "7",
        "true",
        "null",
        "\"",
        "\\",
        "{",
        "}",
        "[",
        "]",
        "'",
        ",",
        ":",
        "{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
        "{'k': True}",
        "é",
        "😀",
        "</",
        "<tool",
        "_call>",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn whole_and_streamed_agree(text in model_text(), seed in any::<u64>(), start in 0..4, cut in any::<bool>(), with_tools in any::<bool>()) {
        let tools = [Value::parse(
            r#"{"name": "f", "parameters": {"properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]},
                "o": {"type": ["string", "object", "null"]}}}}"#,
        )
        .unwrap()];
        let tools = if with_tools { &tools[..] } else { &[] };
        let start = [Start::Thinking, Start::Answer, Start::Within, Start::Raw][start as usize];
        let end = if cut { End::Cut } else { End::Stop };
        let whole = stream(&[&text], start, tools, end);
        same(&whole, &characters(&text), start, tools, end, "characters");
        same(&whole, &random_pieces(&text, seed), start, tools, end, "pieces");
        let message = Message::from_events(whole);
        message.calls.iter().for_each(|call| drop(arguments(call)));
        prop_assert!(with_tools || message.calls.is_empty());
        // The reader of text whose form was enforced, on text that has no form.
        for text_first in [true, false] {
            let parser = MessageParser::exact(start, tools, text_first);
            let whole = read(parser.clone(), &[&text], end);
            prop_assert_eq!(joined(&read(parser.clone(), &characters(&text), end)), joined(&whole));
            prop_assert_eq!(joined(&read(parser, &random_pieces(&text, seed), end)), joined(&whole));
            Message::from_events(whole).calls.iter().for_each(|call| drop(arguments(call)));
        }
    }
}
