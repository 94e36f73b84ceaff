//! Methods of Python's strings, dicts and lists.

use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Kwargs, Rest, Tuple, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};

use super::arguments::{arguments, optional};
use super::filters::invalid;
use super::python::is_space;

/// Calls a method that the engine does not know.
pub(super) fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => match value.as_str() {
            Some(text) => string_method(state, text, method, args),
            None => Err(Error::from(ErrorKind::UnknownMethod)),
        },
        ValueKind::Map => map_method(state, value, method, args),
        ValueKind::Seq | ValueKind::Iterable => list_method(state, value, method, args),
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn string_method(state: &State, text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    // Every method looks at its text at least once.
    state.consume_fuel(text.len() as u64 / 64)?;
    let none = || from_args::<()>(args);
    Ok(match method {
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<&str>,) = from_args(args)?;
            Value::from(strip(text, chars, method != "rstrip", method != "lstrip"))
        }
        "split" | "rsplit" => split(text, args, method == "rsplit")?,
        "splitlines" => {
            let (keep,): (Option<bool>,) = from_args(args)?;
            lines(text, keep.unwrap_or(false)).into_iter().map(Value::from).collect()
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            not_empty(separator)?;
            let found =
                if method == "partition" { text.split_once(separator) } else { text.rsplit_once(separator) };
            let parts = match found {
                Some((before, after)) => [before, separator, after],
                None if method == "partition" => [text, "", ""],
                None => ["", "", text],
            };
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "startswith" | "endswith" => affix(state, text, args, method == "startswith")?,
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "replace" => replace(state, text, args)?,
        "find" | "rfind" | "index" | "rindex" => {
            let (what, start, end): (&str, Option<i64>, Option<i64>) = from_args(args)?;
            let (window, offset) = window(text, start, end);
            let found = window.and_then(|window| {
                let at = if method.starts_with('r') { window.rfind(what) } else { window.find(what) };
                at.map(|at| (window[..at].chars().count() + offset) as i64)
            });
            match found {
                None if method.ends_with("index") => return Err(invalid("substring not found")),
                found => Value::from(found.unwrap_or(-1)),
            }
        }
        "count" => {
            let (what, start, end): (&str, Option<i64>, Option<i64>) = from_args(args)?;
            let (window, _) = window(text, start, end);
            Value::from(window.map_or(0, |window| {
                if what.is_empty() { window.chars().count() + 1 } else { window.matches(what).count() }
            }))
        }
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            join(state, text, items)?
        }
        "upper" => none().map(|()| Value::from(text.to_uppercase()))?,
        "lower" | "casefold" => none().map(|()| Value::from(text.to_lowercase()))?,
        "title" => none().map(|()| Value::from(title(text)))?,
        "capitalize" => none().map(|()| Value::from(capitalize(text)))?,
        "swapcase" => none().map(|()| {
            Value::from(text.chars().fold(String::new(), |mut out, letter| {
                if letter.is_uppercase() {
                    out.extend(letter.to_lowercase());
                } else {
                    out.extend(letter.to_uppercase());
                }
                out
            }))
        })?,
        "isspace" => none().map(|()| all(text, is_space))?,
        "isalpha" => none().map(|()| all(text, char::is_alphabetic))?,
        "isalnum" => none().map(|()| all(text, char::is_alphanumeric))?,
        "isdigit" | "isnumeric" | "isdecimal" => none().map(|()| all(text, char::is_numeric))?,
        "isascii" => none().map(|()| Value::from(text.is_ascii()))?,
        "isupper" => none().map(|()| {
            Value::from(text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase))
        })?,
        "islower" => none().map(|()| {
            Value::from(text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase))
        })?,
        "ljust" | "rjust" | "center" | "zfill" => pad(state, text, method, args)?,
        "format" => Value::from(format(FormatStyle::StrFormat, text, args)?),
        _ => return Err(Error::from(ErrorKind::UnknownMethod)),
    })
}

fn all(text: &str, test: impl Fn(char) -> bool) -> Value {
    Value::from(!text.is_empty() && text.chars().all(test))
}

/// `str.strip(chars)` at either end; without `chars`, Python's white space.
pub(super) fn strip<'a>(text: &'a str, chars: Option<&str>, start: bool, end: bool) -> &'a str {
    let strips = |letter: char| chars.map_or_else(|| is_space(letter), |chars| chars.contains(letter));
    let text = if start { text.trim_start_matches(strips) } else { text };
    if end { text.trim_end_matches(strips) } else { text }
}

fn not_empty(separator: &str) -> Result<(), Error> {
    if separator.is_empty() { Err(invalid("empty separator")) } else { Ok(()) }
}

/// `str.split(sep=None, maxsplit=-1)`.
fn split(text: &str, args: &[Value], from_end: bool) -> Result<Value, Error> {
    let (rest, kwargs): (Rest<Value>, Kwargs) = from_args(args)?;
    let [separator, limit] = arguments(&rest, &kwargs, ["sep", "maxsplit"])?;
    let separator = optional(separator);
    let limit = limit.map_or(Ok(-1), i64::try_from)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts: Vec<&str> = match &separator {
        Some(separator) => {
            let separator =
                separator.as_str().ok_or_else(|| invalid("split: the separator must be a string"))?;
            not_empty(separator)?;
            let pieces = limit.saturating_add(1);
            if from_end {
                let mut parts: Vec<&str> = text.rsplitn(pieces, separator).collect();
                parts.reverse();
                parts
            } else {
                text.splitn(pieces, separator).collect()
            }
        }
        None if from_end => rsplit_blank(text, limit),
        None => split_blank(text, limit),
    };
    Ok(parts.into_iter().map(Value::from).collect())
}

fn split_blank(text: &str, limit: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if parts.len() == limit {
            parts.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    parts
}

fn rsplit_blank(text: &str, limit: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        if parts.len() == limit {
            parts.push(rest);
            break;
        }
        let start = rest.char_indices().rev().find(|(_, letter)| is_space(*letter));
        let start = start.map_or(0, |(at, letter)| at + letter.len_utf8());
        parts.push(&rest[start..]);
        rest = rest[..start].trim_end_matches(is_space);
    }
    parts.reverse();
    parts
}

/// `str.splitlines(keepends)`.
pub(super) fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let ends = |letter: char| matches!(letter, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(ends) {
        let letter = rest[at..].chars().next().map_or(1, char::len_utf8);
        let end = at + if rest[at..].starts_with("\r\n") { 2 } else { letter };
        lines.push(&rest[..if keep_ends { end } else { at }]);
        rest = &rest[end..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// The part of a text between two indices of characters, as Python slices it, and where it begins; `None` when it
/// begins beyond its end.
fn window(text: &str, start: Option<i64>, end: Option<i64>) -> (Option<&str>, usize) {
    if start.is_none() && end.is_none() {
        return (Some(text), 0);
    }
    let length = text.chars().count() as i64;
    let clamp = |index: i64| (if index < 0 { (index + length).max(0) } else { index }) as usize;
    let start = clamp(start.unwrap_or(0));
    let end = clamp(end.unwrap_or(length)).min(length as usize);
    if start > end {
        return (None, start);
    }
    let byte = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(at, _)| at);
    (Some(&text[byte(start)..byte(end)]), start)
}

/// `str.startswith(prefix, start, end)` and `str.endswith`; the affix may be a tuple of strings.
fn affix(state: &State, text: &str, args: &[Value], at_start: bool) -> Result<Value, Error> {
    let (affix, start, end): (&Value, Option<i64>, Option<i64>) = from_args(args)?;
    let (window, _) = window(text, start, end);
    let matches = |affix: &Value| {
        let affix = affix.as_str().ok_or_else(|| {
            invalid(format!(
                "{} takes a string or a tuple of strings",
                if at_start { "startswith" } else { "endswith" }
            ))
        })?;
        Ok::<bool, Error>(
            window.is_some_and(|text| if at_start { text.starts_with(affix) } else { text.ends_with(affix) }),
        )
    };
    if affix.as_str().is_none() && matches!(affix.kind(), ValueKind::Seq | ValueKind::Iterable) {
        for one in paid(state, affix)? {
            if matches(&one)? {
                return Ok(Value::from(true));
            }
        }
        return Ok(Value::from(false));
    }
    matches(affix).map(Value::from)
}

/// `str.replace(old, new, count=-1)`.
fn replace(state: &State, text: &str, args: &[Value]) -> Result<Value, Error> {
    let (old, new, count): (&str, &str, Option<i64>) = from_args(args)?;
    let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    // The result can be far larger than the input: it is paid for before it exists.
    let at_most = if old.is_empty() { text.len() + 1 } else { text.matches(old).count() }.min(count);
    state.consume_fuel(at_most.saturating_mul(new.len()) as u64 / 64)?;
    Ok(Value::from(text.replacen(old, new, count)))
}

fn join(state: &State, separator: &str, items: &Value) -> Result<Value, Error> {
    let mut out = String::new();
    for (index, item) in items.try_iter()?.checked().enumerate() {
        let item = item?;
        let item = item.as_str().map(str::to_owned).ok_or_else(|| {
            invalid(format!("sequence item {index}: expected str instance, {} found", item.kind()))
        })?;
        state.consume_fuel((separator.len() + item.len()) as u64 / 64 + 1)?;
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(&item);
    }
    Ok(Value::from(out))
}

/// `str.title`: the first letter of every run of letters is upper case, the others are lower case.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for letter in text.chars() {
        if inside {
            out.extend(letter.to_lowercase());
        } else {
            push_title_case(letter, &mut out);
        }
        inside = letter.is_lowercase() || letter.is_uppercase();
    }
    out
}

/// `str.capitalize`.
pub(super) fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    let mut out = String::new();
    if let Some(first) = letters.next() {
        push_title_case(first, &mut out);
        out.push_str(&letters.as_str().to_lowercase());
    }
    out
}

/// The title case of a letter: of several letters, the first is upper case (`ß` becomes `Ss`, `ǆ` becomes `ǅ`).
fn push_title_case(letter: char, out: &mut String) {
    out.push_str(match letter {
        'Ǆ' | 'ǅ' | 'ǆ' => "ǅ",
        'Ǉ' | 'ǈ' | 'ǉ' => "ǈ",
        'Ǌ' | 'ǋ' | 'ǌ' => "ǋ",
        'Ǳ' | 'ǲ' | 'ǳ' => "ǲ",
        _ => {
            let mut upper = letter.to_uppercase();
            out.extend(upper.next());
            out.extend(upper.flat_map(char::to_lowercase));
            return;
        }
    });
}

fn pad(state: &State, text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let (width, fill): (i64, Option<&str>) = from_args(args)?;
    let fill = match fill {
        None if method == "zfill" => "0",
        None => " ",
        Some(fill) if method != "zfill" && fill.chars().count() == 1 => fill,
        Some(_) => {
            return Err(invalid(format!("{method}: the fill character must be exactly one character long")));
        }
    };
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(text.chars().count());
    state.consume_fuel(missing as u64)?;
    let (left, right) = match method {
        "ljust" => (0, missing),
        // CPython puts the odd blank left when the width is odd.
        "center" => {
            let left = missing / 2 + (missing & usize::try_from(width).unwrap_or(0) & 1);
            (left, missing - left)
        }
        _ => (missing, 0),
    };
    let (sign, rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) if method == "zfill" => text.split_at(text.len() - rest.len()),
        _ => ("", text),
    };
    Ok(Value::from(format!("{sign}{}{rest}{}", fill.repeat(left), fill.repeat(right))))
}

/// The items of a list, or the keys of a dict, each paid for.
fn paid(state: &State, value: &Value) -> Result<Vec<Value>, Error> {
    let pay = |item: Result<Value, Error>| state.consume_fuel(1).and(item);
    value.try_iter()?.checked().map(pay).collect()
}

fn map_method(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    Ok(match method {
        "keys" => {
            let () = from_args(args)?;
            Value::from(paid(state, value)?)
        }
        "values" => {
            let () = from_args(args)?;
            let keys = paid(state, value)?;
            Value::from(keys.iter().map(|key| value.get_item(key)).collect::<Result<Vec<_>, _>>()?)
        }
        "items" => {
            let () = from_args(args)?;
            let mut items = Vec::new();
            for key in paid(state, value)? {
                let item = value.get_item(&key)?;
                items.push(Value::from(Tuple::from([key, item])));
            }
            Value::from(items)
        }
        "get" => {
            let (key, default): (&Value, Option<Value>) = from_args(args)?;
            let known = value.get_item(key)?;
            if known.is_undefined() { default.unwrap_or_else(|| Value::from(())) } else { known }
        }
        "copy" => {
            let () = from_args(args)?;
            value.clone()
        }
        _ => return Err(forbidden(method, &["update", "pop", "popitem", "clear", "setdefault"])),
    })
}

fn list_method(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    Ok(match method {
        "count" => {
            let (what,): (&Value,) = from_args(args)?;
            Value::from(paid(state, value)?.iter().filter(|item| *item == what).count())
        }
        "index" => {
            let (what,): (&Value,) = from_args(args)?;
            let found = paid(state, value)?.iter().position(|item| item == what);
            Value::from(found.ok_or_else(|| invalid("the value is not in the list"))?)
        }
        "copy" => {
            let () = from_args(args)?;
            value.clone()
        }
        _ => {
            return Err(forbidden(
                method,
                &["append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"],
            ));
        }
    })
}

/// The sandbox of Hugging Face does not let a template change what it is given.
fn forbidden(method: &str, changing: &[&str]) -> Error {
    if changing.contains(&method) {
        invalid(format!("a chat template must not change its input with `{method}`"))
    } else {
        Error::from(ErrorKind::UnknownMethod)
    }
}
