//! A template is untrusted: whatever it does, rendering ends soon, in bounded memory and stack, with an error that says
//! what it was.

use std::time::{Duration, Instant};

use lily_text::json::Value;
use lily_text::{ChatTemplate, RenderRequest, TemplateError};

/// On a stack half as large as that of a server's thread.
fn on_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap().join().unwrap()
}

fn render(source: &str) -> Result<usize, TemplateError> {
    let source = source.to_owned();
    on_small_stack(move || {
        let message = Value::parse(r#"{"role": "user", "content": "0123456789"}"#).unwrap();
        let request = RenderRequest { messages: vec![message], ..RenderRequest::default() };
        ChatTemplate::new(&source)?.render(&request).map(|prompt| prompt.as_str().len())
    })
}

#[test]
fn malicious_templates_end_in_an_error() {
    let nested_lists = format!("{{{{ {}1{} }}}}", "[".repeat(5000), "]".repeat(5000));
    let nested_blocks = format!("{}x{}", "{% if true %}".repeat(5000), "{% endif %}".repeat(5000));
    let nested_calls = format!("{{{{ {}x{} }}}}", "(".repeat(20_000), ")".repeat(20_000));
    let minus = format!("{{{{ {}1 }}}}", "-".repeat(20_000));
    let nots = format!("{{{{ {} 1 }}}}", "not ".repeat(20_000));
    let filters = format!("{{{{ 'x'{} }}}}", "|upper".repeat(20_000));
    let attributes = format!("{{{{ x{} }}}}", ".a".repeat(20_000));
    let sums = format!("{{{{ 1{} }}}}", "+1".repeat(20_000));
    let elifs = format!("{{% if x %}}{}{{% endif %}}", "{% elif x %}".repeat(20_000));
    for source in [
        "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
        "{% for a in range(10**9) %}x{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s * 2 %}{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(100000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s | tojson }}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s | string }}",
        "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s.replace('x', 'xx') %}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s | replace('x', 'xx') %}{% endfor %}",
        "{{ 'x' * 10000000000 }}",
        "{{ 'x'.center(10000000000) }}",
        "{{ 'x'.ljust(2000000000) }}",
        "{{ 'x' | center(1000000000) }}",
        "{{ 'x' | indent(1000000000) }}",
        "{{ [1] | tojson(indent=1000000000) }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ range(100000) | join('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' * 1000) }}",
        "{{ ('y' * 1000000).join(['a'] * 100000) }}",
        "{% for i in range(100000) %}{{ 'x' * 100000 }}{% endfor %}",
        "{% for i in range(100000) %}{{ ('x' * 1000000) | upper | length }}{% endfor %}",
        "{% for i in range(100000) %}{{ ('x' * 100000).strip('y').find('z') }}{% endfor %}",
        "{% for i in range(100000) %}{{ ('x' * 100000).count('z') }}{% endfor %}",
        "{% for i in range(100000) %}{{ 'z' in 'x' * 100000 }}{% endfor %}",
        "{{ 2 ** 1000000000 }}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% extends 'chat_template' %}",
        "{% include 'chat_template' %}",
        "{{ self }}{% block a %}{{ self.a() }}{% endblock %}",
        "{% if %}",
        "{{",
        "{% for %}",
        "{{ 'a' | nothing }}",
        "{{ nothing() }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({}) }}",
        nested_lists.as_str(),
        nested_blocks.as_str(),
        nested_calls.as_str(),
    ] {
        let start = Instant::now();
        let outcome = render(source);
        let took = start.elapsed();
        let shown: String = source.chars().take(90).collect();
        match outcome {
            Err(TemplateError::Broken { message, .. }) => assert!(!message.is_empty(), "{shown}"),
            other => panic!("{shown}: {other:?}"),
        }
        // Alone it is below a second; the machine may be busy.
        assert!(took < Duration::from_secs(20), "{shown}: {took:?}");
    }
    // Long but not deep, or refused: either way it ends.
    for source in [minus, nots, filters, attributes, sums, elifs] {
        let start = Instant::now();
        let _ = render(&source);
        assert!(start.elapsed() < Duration::from_secs(20), "{}", &source[..60]);
    }
}

#[test]
fn a_fault_names_its_line() {
    let error = render("line one\n\n{{ messages[0].content.nothing() }}").unwrap_err();
    assert!(matches!(error, TemplateError::Broken { line: 3, .. }), "{error}");
    let error = render("a\n{% if true %}\n{{ 1 + }}").unwrap_err();
    assert!(matches!(error, TemplateError::Broken { line: 3, .. }), "{error}");
    assert!(error.to_string().starts_with("chat template, line 3: "), "{error}");
}

#[test]
fn a_refusal_always_says_something() {
    for words in ["", " ", "\\n"] {
        let error = render(&format!("{{{{ raise_exception('{words}') }}}}")).unwrap_err();
        assert!(matches!(error, TemplateError::Refused(_)), "{error:?}");
        assert_eq!(error.to_string(), "the chat template refused the request and gave no reason");
    }
    assert_eq!(render("{{ raise_exception('No.') }}").unwrap_err().to_string(), "No.");
}

#[test]
fn deep_values_render_or_are_refused() {
    for depth in [100, 5000] {
        let outcome = on_small_stack(move || {
            let mut deep = Value::from("x");
            for _ in 0..depth {
                deep = Value::Array(vec![Value::Object(vec![("k".to_owned(), deep)])]);
            }
            let request = RenderRequest { kwargs: vec![("v".to_owned(), deep)], ..RenderRequest::default() };
            let outcome = ChatTemplate::new("{{ v | tojson }}{{ v }}").unwrap().render(&request);
            // Dropping it recurses too; leave that to a test of its own.
            std::mem::forget(request);
            outcome.map(|prompt| prompt.as_str().len())
        });
        assert_eq!(outcome.is_ok(), depth == 100, "{outcome:?}");
    }
}

#[test]
fn large_requests_are_rendered() {
    let message = |role: &str, content: String| {
        Value::Object(vec![
            ("role".to_owned(), Value::from(role)),
            ("content".to_owned(), Value::from(content)),
        ])
    };
    let source = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../models/nano/chat_template.jinja"
    ));
    let template = ChatTemplate::new(&source.unwrap()).unwrap();
    let many = (0..20_000)
        .map(|index| message(if index % 2 == 0 { "user" } else { "assistant" }, format!("{index}")));
    let long = vec![message("user", "0123456789abcdef".repeat(1 << 20))];
    for messages in [many.collect(), long] {
        let request = RenderRequest { messages, add_generation_prompt: true, ..RenderRequest::default() };
        let prompt = template.render(&request).unwrap();
        assert!(prompt.as_str().len() > 500_000);
    }
}
