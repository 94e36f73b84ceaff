//! The little of Markdown that the checks need: links, headings and tables, with code left out.

/// One line of a document that is not inside a fenced code block.
pub(crate) struct Line<'a> {
    /// One-based.
    pub(crate) number: usize,
    /// The text, code spans included.
    pub(crate) text: &'a str,
}

/// The lines outside fenced code blocks.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let trimmed = line.trim_start();
        let marker = ["```", "~~~"].into_iter().find(|marker| trimmed.starts_with(marker));
        match (fence, marker) {
            (None, Some(marker)) => {
                fence = Some(marker);
                None
            }
            (Some(open), Some(marker)) if open == marker => {
                fence = None;
                None
            }
            (Some(_), _) => None,
            (None, None) => Some(Line { number: index + 1, text: line }),
        }
    })
}

/// Targets of inline links and images in one line, code spans left out.
pub(crate) fn link_targets(line: &str) -> Vec<String> {
    let text = without_code_spans(line);
    let mut targets = Vec::new();
    for (at, _) in text.match_indices("](") {
        let rest = &text[at + 2..];
        let end = rest.find([')', ' ']).unwrap_or(rest.len());
        targets.push(rest[..end].trim_matches(['<', '>']).to_owned());
    }
    if let Some((label, target)) = text.split_once("]: ")
        && label.starts_with('[')
        && !label.contains(' ')
    {
        targets.push(target.trim().to_owned());
    }
    targets
}

/// The anchors that a renderer gives to the document's headings.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for line in prose(text) {
        let level = line.text.bytes().take_while(|&byte| byte == b'#').count();
        if level == 0 || level > 6 || !line.text[level..].starts_with(' ') {
            continue;
        }
        let slug = slug(line.text[level..].trim());
        let repeats = seen.iter().filter(|other| **other == slug).count();
        seen.push(if repeats == 0 { slug } else { format!("{slug}-{repeats}") });
    }
    seen
}

fn slug(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn without_code_spans(line: &str) -> String {
    line.split('`').enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "" }).collect()
}

/// What stands in backticks in a table cell.
pub(crate) fn code_spans(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::{anchors, code_spans, link_targets, prose};

    #[test]
    fn code_blocks_are_no_prose() {
        let lines: Vec<_> = prose("a\n```sh\nb\n```\nc\n").map(|line| (line.number, line.text)).collect();
        assert_eq!(lines, [(1, "a"), (5, "c")]);
    }

    #[test]
    fn links_are_found_and_code_is_not() {
        assert_eq!(
            link_targets("[a](b.md) and ![c](<d e>) `[f](g)` [h](i#j \"title\")"),
            ["b.md", "d", "i#j"]
        );
        assert_eq!(link_targets("[ref]: docs/x.md"), ["docs/x.md"]);
    }

    #[test]
    fn anchors_follow_the_renderer() {
        assert_eq!(
            anchors("# One Two!\n## `a` b\n# One Two\n```\n# no\n```\n"),
            ["one-two", "a-b", "one-two-1"]
        );
    }

    #[test]
    fn spans() {
        assert_eq!(code_spans("`a`, `b` and c"), ["a", "b"]);
    }
}
