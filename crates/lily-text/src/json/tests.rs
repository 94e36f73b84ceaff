use super::*;

fn python(text: &str) -> String {
    Value::parse(text).unwrap().to_python_json()
}

#[test]
fn floats_are_written_as_python_writes_them() {
    for (input, expected) in [
        ("1.0", "1.0"),
        ("1e16", "1e+16"),
        ("1e15", "1000000000000000.0"),
        ("123456789012345678.0", "1.2345678901234568e+17"),
        ("0.0001", "0.0001"),
        ("0.00001", "1e-05"),
        ("1.5e-7", "1.5e-07"),
        ("5e-324", "5e-324"),
        ("-0.0", "-0.0"),
        ("0.1", "0.1"),
        ("1e400", "Infinity"),
        ("-1e400", "-Infinity"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("2.5E+3", "2500.0"),
    ] {
        assert_eq!(python(input), expected, "{input}");
    }
    assert_eq!(Value::Float(f64::NAN).to_python_json(), "NaN");
}

#[test]
fn integers_are_exact_at_any_size() {
    let digits = "123456789".repeat(20);
    assert_eq!(python(&digits), digits);
    assert_eq!(python("-0"), "0");
    assert_eq!(python("18446744073709551616"), "18446744073709551616");
}

#[test]
fn strings_escape_only_what_json_dumps_escapes() {
    assert_eq!(
        Value::from("\"\\/\n\r\t\u{8}\u{c}\u{1}\u{7f}é<>&'\u{2028}😀").to_python_json(),
        "\"\\\"\\\\/\\n\\r\\t\\b\\f\\u0001\u{7f}é<>&'\u{2028}😀\""
    );
    let ascii = JsonStyle { ensure_ascii: true, ..JsonStyle::default() };
    assert_eq!(Value::from("é😀\u{7f}").to_json_styled(&ascii), "\"\\u00e9\\ud83d\\ude00\\u007f\"");
}

#[test]
fn layout_follows_json_dumps() {
    let value = Value::parse(r#"{"b":[1,{}],"a":{"x":[]}}"#).unwrap();
    assert_eq!(value.to_python_json(), r#"{"b": [1, {}], "a": {"x": []}}"#);
    assert_eq!(
        value.to_json_styled(&JsonStyle::indented(2)),
        "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": {\n    \"x\": []\n  }\n}"
    );
    let sorted = JsonStyle { sort_keys: true, ..JsonStyle::default() };
    assert_eq!(value.to_json_styled(&sorted), r#"{"a": {"x": []}, "b": [1, {}]}"#);
}

#[test]
fn a_repeated_key_keeps_its_first_place_and_last_value() {
    assert_eq!(python(r#"{"a":1,"b":2,"a":3}"#), r#"{"a": 3, "b": 2}"#);
    let many: Vec<String> = (0..40).map(|index| format!("\"k{index}\":{index}")).collect();
    let text = format!("{{{},\"k1\":\"last\",\"k39\":0,\"new\":1,\"new\":2}}", many.join(","));
    let value = Value::parse(&text).unwrap();
    let entries = value.as_object().unwrap();
    assert_eq!(entries.len(), 41);
    assert_eq!(entries[1], ("k1".to_owned(), Value::from("last")));
    assert_eq!(entries[40], ("new".to_owned(), Value::from(2)));
}

#[test]
fn errors_name_the_place() {
    for (input, line, column, words) in [
        ("", 1, 1, "ends"),
        ("{\"a\": 1,\n \"b\" 2}", 2, 6, "expected `:`"),
        ("[1 2]", 1, 4, "`,` or `]`"),
        ("[01]", 1, 2, "begin with 0"),
        ("[1.]", 1, 4, "digit"),
        ("\"é\\ud800x\"", 1, 3, "surrogate"),
        ("\"\\ud800\\u0041\"", 1, 2, "surrogate"),
        ("\"\\udc00\"", 1, 2, "surrogate"),
        ("\"a\nb\"", 1, 3, "control character"),
        ("\"abc", 1, 1, "does not end"),
        ("\"\\u12g4\"", 1, 2, "hexadecimal"),
        ("\"\\x\"", 1, 2, "unknown escape"),
        ("NaN", 1, 1, "expected a value"),
        ("nul", 1, 1, "expected a value"),
        ("{} x", 1, 4, "more text"),
        ("{a:1}", 1, 2, "double quotes"),
    ] {
        let error = Value::parse(input).unwrap_err();
        assert_eq!((error.line, error.column), (line, column), "{input:?}: {error}");
        assert!(error.reason.contains(words), "{input:?}: {error}");
    }
}

#[test]
fn nesting_is_bounded() {
    let fits = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    assert!(Value::parse(&fits).is_ok());
    let deep = "[".repeat(1_000_000);
    assert!(Value::parse(&deep).unwrap_err().reason.contains("nested deeper"));
}

#[test]
fn works_inside_serde_structs_both_ways() {
    #[derive(::serde::Deserialize, ::serde::Serialize)]
    struct Wire {
        tools: Vec<Value>,
        extra: Option<Value>,
    }
    let text = r#"{"tools":[{"n":123456789012345678901234567890,"f":1.5,"s":"é"}],"extra":null}"#;
    let wire: Wire = serde_json::from_str(text).unwrap();
    assert_eq!(wire.tools[0].get("n"), Some(&Value::Integer("123456789012345678901234567890".to_owned())));
    assert_eq!(serde_json::to_string(&wire).unwrap(), text);
    assert!(serde_json::from_str::<Value>("[1,]").is_err());
}
