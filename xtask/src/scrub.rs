//! Rust source without its comments and literals, so that a word search finds code only.

/// Same text with every comment and every string or character literal blanked out; lines and columns stay.
pub(crate) fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => line_end(bytes, at),
            b'/' if bytes[at..].starts_with(b"/*") => block_comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' if !follows_word(bytes, at) => raw_string_end(bytes, at).unwrap_or(at),
            b'b' | b'c' if !follows_word(bytes, at) && bytes.get(at + 1) == Some(&b'r') => {
                raw_string_end(bytes, at + 1).unwrap_or(at)
            }
            b'\'' => char_end(bytes, at).unwrap_or(at),
            _ => at,
        };
        if end == at {
            out.push(bytes[at]);
            at += 1;
        } else {
            out.extend(bytes[at..end].iter().map(|&byte| if byte == b'\n' { b'\n' } else { b' ' }));
            at = end;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Byte offsets at which `word` stands alone in `text`.
pub(crate) fn word_offsets<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let after = bytes.get(at + word.len());
        !follows_word(bytes, at) && !after.is_some_and(|&byte| is_word(byte))
    })
}

/// One-based line of a byte offset.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count() + 1
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn follows_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && is_word(bytes[at - 1])
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |n| at + n)
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0usize);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of `r"…"` or `r#"…"#` whose `r` is at `start`; `None` when it is a name or a raw identifier.
fn raw_string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let hashes = bytes[start + 1..].iter().take_while(|&&byte| byte == b'#').count();
    let open = start + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let body = open + 1;
    let found = bytes[body..].windows(close.len()).position(|window| window == close);
    Some(found.map_or(bytes.len(), |n| body + n + close.len()))
}

/// The end of a character literal at `start`; `None` when it is a lifetime or a label.
fn char_end(bytes: &[u8], start: usize) -> Option<usize> {
    if bytes.get(start + 1) == Some(&b'\\') {
        let close = bytes.get(start + 3..)?.iter().position(|&byte| byte == b'\'')?;
        return Some(start + 3 + close + 1);
    }
    let width = match bytes.get(start + 1)? {
        0..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (bytes.get(start + 1 + width) == Some(&b'\'')).then_some(start + width + 2)
}

#[cfg(test)]
mod tests {
    use super::{code_only, line_of, word_offsets};

    #[test]
    fn comments_and_literals_vanish_and_code_stays() {
        let cases = [
            ("a // b\nc", "a c"),
            ("a /* b /* c */ d */ e", "a e"),
            (r#"f("x \" y", z)"#, "f( , z)"),
            ("f(r#\"x \" y\"#, z)", "f( , z)"),
            ("f(b\"x\", 'y', '\\n', '\\'')", "f(b , , , )"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("let bar = r#type;", "let bar = r#type;"),
            ("'µ' x", "x"),
        ];
        for (source, expected) in cases {
            let code = code_only(source);
            assert_eq!(code.len(), source.len(), "{source}");
            assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{source}");
        }
    }

    #[test]
    fn unterminated_literals_end_with_the_file() {
        for source in ["\"abc", "r#\"abc", "/* abc", "'\\", "\"\\"] {
            assert_eq!(code_only(source).len(), source.len(), "{source}");
        }
    }

    #[test]
    fn words_stand_alone() {
        let found: Vec<_> = word_offsets("ab abc xab ab! _ab", "ab").collect();
        assert_eq!(found, [0, 11]);
        assert_eq!(line_of("a\nb\nc", 4), 3);
    }
}
