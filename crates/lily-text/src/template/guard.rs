//! Which control tokens of a prompt the template wrote itself.
//!
//! Text of a request must never become a control token, however it gets next to other text: whole spellings in a
//! message, spellings put together from two content parts, or from a part and the template's own text. So the template
//! is rendered twice: once as it is, which gives the prompt's exact text; and once with every spelling of a control
//! token *in the template's source* replaced by a private character that the request does not contain. The request
//! itself stays untouched, so whatever the template looks for in it (`'</think>' in content`, `|trim`) comes out alike.
//! Where a private character stands in the second text, the template wrote a control token; with the spellings put
//! back, the second text must be the first, or the marks are not believed.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};

use minijinja::Value;

use super::environment::{Compiled, NOW};
use super::{Prompt, RenderRequest, TemplateError, strftime, values};
use crate::json;

/// Private-use planes, from which marks are taken.
const PRIVATE: [RangeInclusive<u32>; 2] = [0xF0000..=0xFFFFD, 0x10_0000..=0x10_FFFD];
/// A template with more different or more frequent control tokens than this is refused.
const MAX_OCCURRENCES: usize = 1024;

/// What every render may spend, whatever the size of the request.
const BASE_FUEL: u64 = 1_000_000;
/// Bytes of a request for which a render may spend one unit more: each is read and copied a few times.
const BYTES_PER_FUEL: u64 = 2;
/// Stack for each unit of fuel: nesting a list one level deeper takes five, dropping a level about 200 bytes.
const STACK_PER_FUEL: u64 = 64;
/// A template longer than this is refused; Qwen's is 8 kB long.
const MAX_SOURCE: usize = 128 << 10;
/// Stack that compiling takes: the parser recurses, in places once for each byte.
const BASE_STACK: u64 = 4 << 20;
const STACK_PER_SOURCE_BYTE: u64 = 4 << 10;

/// A template that knows which control tokens it wrote.
#[derive(Debug)]
pub(super) struct GuardedTemplate {
    source: String,
    exact: Compiled,
    /// Where the source spells a control token.
    occurrences: Vec<Range<usize>>,
    marked: Marked,
}

/// The template with marks in place of its control tokens.
#[derive(Debug)]
struct Marked {
    compiled: Compiled,
    /// Each mark and the spelling that it stands for.
    marks: Vec<(char, String)>,
}

impl GuardedTemplate {
    pub(super) fn new(source: &str) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE {
            return Err(broken(format!("it is longer than {MAX_SOURCE} bytes")));
        }
        on_stack(BASE_STACK + STACK_PER_SOURCE_BYTE * source.len() as u64, || Self::compile(source))
    }

    fn compile(source: &str) -> Result<Self, TemplateError> {
        let exact = Compiled::new(source)?;
        let occurrences = control_spellings(source);
        if occurrences.len() > MAX_OCCURRENCES {
            return Err(broken(format!("it spells control tokens more than {MAX_OCCURRENCES} times")));
        }
        let marked = Marked::new(source, &occurrences, &BTreeSet::new())?;
        Ok(GuardedTemplate { source: source.to_owned(), exact, occurrences, marked })
    }

    pub(super) fn render(&self, request: &RenderRequest) -> Result<Prompt, TemplateError> {
        check_depth(request)?;
        let variables = variables(request)?;
        let weight = request_weight(request);
        let fuel = BASE_FUEL.saturating_add(weight / BYTES_PER_FUEL);
        on_stack(fuel.saturating_mul(STACK_PER_FUEL), || self.render_here(request, &variables, fuel))
    }

    fn render_here(
        &self,
        request: &RenderRequest,
        variables: &Value,
        fuel: u64,
    ) -> Result<Prompt, TemplateError> {
        let text = self.exact.render(variables.clone(), fuel)?;
        let attempt = |marked: &Marked| match marked.compiled.render(variables.clone(), fuel) {
            Ok(rendered) => marked.expand(&rendered),
            // Whatever the marks changed so much is no better than another text.
            Err(_) => (String::new(), Vec::new()),
        };
        let recompiled;
        let private = private_letters(request);
        let marked = if self.marked.marks.iter().any(|(mark, _)| private.contains(mark)) {
            recompiled = Marked::new(&self.source, &self.occurrences, &private)?;
            &recompiled
        } else {
            &self.marked
        };
        let (expanded, control) = attempt(marked);
        if expanded == text {
            return Ok(Prompt { text, control });
        }
        // The template compares the request's text with a control token (to remove it, say), which a mark prevents.
        // Keep the marks that change nothing when they are alone.
        let mut kept = Vec::new();
        let mut compared = Vec::new();
        for occurrence in &self.occurrences {
            let alone = Marked::new(&self.source, std::slice::from_ref(occurrence), &private)?;
            let list = if attempt(&alone).0 == text { &mut kept } else { &mut compared };
            list.push(occurrence.clone());
        }
        let (expanded, control) = attempt(&Marked::new(&self.source, &kept, &private)?);
        // A spelling that is compared may also be written, by the same literal: then it must not be in the text but
        // where a mark vouches for it.
        let unclear = compared.iter().any(|occurrence| {
            let spelling = &self.source[occurrence.clone()];
            text.match_indices(spelling)
                .any(|(at, _)| !control.iter().any(|span: &Range<usize>| span.start == at))
        });
        if expanded == text && !unclear {
            return Ok(Prompt { text, control });
        }
        Err(broken(
            "its control tokens cannot be told from those spelled in the request's text\n\
             hint: remove the control tokens from the messages"
                .to_owned(),
        ))
    }
}

impl Marked {
    /// Replaces the occurrences by marks that are neither in the source nor in `avoid`.
    fn new(
        source: &str,
        occurrences: &[Range<usize>],
        avoid: &BTreeSet<char>,
    ) -> Result<Self, TemplateError> {
        let mut free = PRIVATE
            .into_iter()
            .flatten()
            .filter_map(char::from_u32)
            .filter(|letter| !source.contains(*letter) && !avoid.contains(letter));
        let mut marks: Vec<(char, String)> = Vec::new();
        let mut out = String::with_capacity(source.len());
        let mut from = 0;
        for occurrence in occurrences {
            let spelling = &source[occurrence.clone()];
            let mark = match marks.iter().find(|(_, known)| known == spelling) {
                Some((mark, _)) => *mark,
                None => {
                    let mark = free.next().ok_or_else(|| {
                        broken("the request's text uses every private character of Unicode".to_owned())
                    })?;
                    marks.push((mark, spelling.to_owned()));
                    mark
                }
            };
            out.push_str(&source[from..occurrence.start]);
            out.push(mark);
            from = occurrence.end;
        }
        out.push_str(&source[from..]);
        Ok(Marked { compiled: Compiled::new(&out)?, marks })
    }

    /// Puts the spellings back; also gives where they stand.
    fn expand(&self, rendered: &str) -> (String, Vec<Range<usize>>) {
        let mut out = String::with_capacity(rendered.len());
        let mut spans = Vec::new();
        let mut from = 0;
        for (at, letter) in rendered.char_indices() {
            if let Some((_, spelling)) = self.marks.iter().find(|(mark, _)| *mark == letter) {
                out.push_str(&rendered[from..at]);
                spans.push(out.len()..out.len() + spelling.len());
                out.push_str(spelling);
                from = at + letter.len_utf8();
            }
        }
        out.push_str(&rendered[from..]);
        (out, spans)
    }
}

/// Does work on a stack of its own. The engine recurses as deep as a template is nested, or as the values that it builds
/// are, and does not bound either; only what is used of a stack takes memory.
fn on_stack<T: Send>(
    bytes: u64,
    work: impl FnOnce() -> Result<T, TemplateError> + Send,
) -> Result<T, TemplateError> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let outcome = std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("chat-template".to_owned()).stack_size(bytes);
        builder.spawn_scoped(scope, work).map(std::thread::ScopedJoinHandle::join)
    });
    match outcome {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(broken("the template engine failed".to_owned())),
        Err(error) => Err(broken(format!("no thread to work on: {error}"))),
    }
}

/// Where a text has the form of a control token: `<|...|>` without blanks, `<`, `>` or `|` inside.
fn control_spellings(source: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = source[from..].find("<|").map(|at| from + at) {
        let inner = start + 2;
        let end = source[inner..].find(|letter: char| letter.is_whitespace() || "<>|'\"{}".contains(letter));
        from = inner;
        if let Some(length) = end
            && length > 0
            && source[inner + length..].starts_with("|>")
        {
            from = inner + length + 2;
            found.push(start..from);
        }
    }
    found
}

fn variables(request: &RenderRequest) -> Result<Value, TemplateError> {
    let list = |items: &[json::Value]| {
        Value::from_object(values::List(items.iter().map(values::from_json).collect()))
    };
    let mut all = vec![
        ("messages".to_owned(), list(&request.messages)),
        ("tools".to_owned(), if request.tools.is_empty() { Value::from(()) } else { list(&request.tools) }),
        ("documents".to_owned(), Value::from(())),
        ("add_generation_prompt".to_owned(), Value::from(request.add_generation_prompt)),
        (NOW.to_owned(), Value::from(strftime::now())),
    ];
    for (name, value) in &request.kwargs {
        if all.iter().any(|(known, _)| known == name) {
            return Err(TemplateError::Refused(format!("a template variable cannot be named `{name}`")));
        }
        all.push((name.clone(), values::from_json(value)));
    }
    Ok(Value::from_pairs(all))
}

/// Values are visited by recursion, so their depth must be bounded first. Values that were read by this crate are: a
/// message, and the arguments of its calls in it, may each be [`json::MAX_DEPTH`] deep.
fn check_depth(request: &RenderRequest) -> Result<(), TemplateError> {
    const LIMIT: usize = 2 * json::MAX_DEPTH + 8;
    let kwargs = request.kwargs.iter().map(|(_, value)| value);
    if request.messages.iter().chain(&request.tools).chain(kwargs).all(|value| fits_depth(value, LIMIT)) {
        Ok(())
    } else {
        Err(TemplateError::Refused(format!("a message or tool is nested deeper than {LIMIT} levels")))
    }
}

fn fits_depth(value: &json::Value, left: usize) -> bool {
    match value {
        json::Value::Array(items) => left > 0 && items.iter().all(|item| fits_depth(item, left - 1)),
        json::Value::Object(entries) => {
            left > 0 && entries.iter().all(|(_, item)| fits_depth(item, left - 1))
        }
        _ => true,
    }
}

/// The size of a request in bytes, with some for every value.
fn request_weight(request: &RenderRequest) -> u64 {
    let mut weight = 0;
    walk(request, &mut |text| weight += text.len() as u64 + 64);
    weight
}

/// The private-use characters of a request, each once.
fn private_letters(request: &RenderRequest) -> BTreeSet<char> {
    let mut seen = BTreeSet::new();
    walk(request, &mut |text| {
        // In UTF-8 these planes begin with 0xF3 or 0xF4.
        if text.bytes().any(|byte| byte >= 0xF3) {
            seen.extend(
                text.chars().filter(|letter| PRIVATE.iter().any(|plane| plane.contains(&u32::from(*letter)))),
            );
        }
    });
    seen
}

/// Calls `visit` with every string and key of a request, and with an empty text for every other value.
fn walk(request: &RenderRequest, visit: &mut dyn FnMut(&str)) {
    request.messages.iter().chain(&request.tools).for_each(|item| walk_value(item, visit));
    for (name, item) in &request.kwargs {
        visit(name);
        walk_value(item, visit);
    }
}

fn walk_value(value: &json::Value, visit: &mut dyn FnMut(&str)) {
    match value {
        json::Value::String(text) | json::Value::Integer(text) => visit(text),
        json::Value::Array(items) => {
            visit("");
            items.iter().for_each(|item| walk_value(item, visit));
        }
        json::Value::Object(entries) => {
            visit("");
            for (key, item) in entries {
                visit(key);
                walk_value(item, visit);
            }
        }
        json::Value::Null | json::Value::Bool(_) | json::Value::Float(_) => visit(""),
    }
}

fn broken(message: String) -> TemplateError {
    TemplateError::Broken { line: 0, message }
}
