//! Finds stop strings in a stream of text.

/// Passes text through until a stop string is complete. Held back is only what may be the beginning of one: the
/// longest end of the text that is also a beginning of a stop string.
///
/// The result does not depend on how the text was cut: the match that is complete first wins, and of several that are
/// complete at the same character the longest.
#[derive(Debug, Clone)]
pub(crate) struct StopMatcher {
    stops: Vec<String>,
    held: String,
}

/// A stop string that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StopMatch {
    /// The text before it that had not been passed on.
    pub(crate) before: String,
    /// The stop string.
    pub(crate) stop: String,
}

impl StopMatcher {
    /// A matcher for strings none of which is empty.
    pub(crate) fn new(stops: Vec<String>) -> Self {
        Self { stops, held: String::new() }
    }

    /// Takes in text and returns what can be passed on.
    ///
    /// # Errors
    /// A stop string is complete; nothing must be pushed after it.
    pub(crate) fn push(&mut self, text: &str) -> Result<String, StopMatch> {
        if self.stops.is_empty() {
            return Ok(text.to_owned());
        }
        self.held.push_str(text);
        let first = self
            .stops
            .iter()
            .filter_map(|stop| self.held.find(stop.as_str()).map(|start| (start + stop.len(), start, stop)))
            .min_by_key(|&(end, start, _)| (end, start));
        if let Some((_, start, stop)) = first {
            let stop = stop.clone();
            self.held.truncate(start);
            return Err(StopMatch { before: std::mem::take(&mut self.held), stop });
        }
        let kept = self.stops.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        Ok(std::mem::replace(&mut self.held, rest))
    }

    /// What was held back: the text has ended.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Length in bytes of the longest end of `text` that is a beginning of `stop`, but not all of it.
fn overlap(text: &str, stop: &str) -> usize {
    let longest = text.len().min(stop.len().saturating_sub(1));
    (1..=longest).rev().find(|&len| text.as_bytes().ends_with(&stop.as_bytes()[..len])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matcher(stops: &[&str]) -> StopMatcher {
        StopMatcher::new(stops.iter().map(|&stop| stop.to_owned()).collect())
    }

    /// Text passed on and the stop string, for a text cut into pieces.
    fn run<'a>(stops: &[&str], pieces: impl IntoIterator<Item = &'a str>) -> (String, Option<String>) {
        let mut matcher = matcher(stops);
        let mut out = String::new();
        for piece in pieces {
            match matcher.push(piece) {
                Ok(text) => out += &text,
                Err(found) => return (out + &found.before, Some(found.stop)),
            }
        }
        (out + &matcher.finish(), None)
    }

    /// The plain rule, over the whole text: the first character at which some stop string is complete.
    fn oracle(stops: &[&str], text: &str) -> (String, Option<String>) {
        for (at, character) in text.char_indices() {
            let so_far = &text[..at + character.len_utf8()];
            let longest = stops.iter().filter(|stop| so_far.ends_with(**stop)).max_by_key(|stop| stop.len());
            if let Some(stop) = longest {
                return (so_far[..so_far.len() - stop.len()].to_owned(), Some((*stop).to_owned()));
            }
        }
        (text.to_owned(), None)
    }

    /// Stop strings, pieces of text, text passed on, stop string found.
    type Case = (&'static [&'static str], &'static [&'static str], &'static str, Option<&'static str>);

    #[test]
    fn table() {
        let cases: [Case; 10] = [
            (&[], &["any", "thing"], "anything", None),
            (&["END"], &["the E", "N", "D of it"], "the ", Some("END")),
            (&["END"], &["the E", "N"], "the EN", None),
            (&["aab"], &["aa", "ab"], "a", Some("aab")),
            (&["abab"], &["aba", "aba", "b"], "aba", Some("abab")),
            (&["\n\n"], &["a\n", "b\n", "\nc"], "a\nb", Some("\n\n")),
            (&["abcd", "bc"], &["abcd"], "a", Some("bc")),
            (&["c", "bc", "abc"], &["xabc"], "x", Some("abc")),
            (&["ende", "end"], &["the en", "de"], "the ", Some("end")),
            (&["€"], &["10", " €"], "10 ", Some("€")),
        ];
        for (stops, pieces, text, stop) in cases {
            let expected = (text.to_owned(), stop.map(str::to_owned));
            assert_eq!(run(stops, pieces.iter().copied()), expected, "{stops:?} in {pieces:?}");
        }
    }

    #[test]
    fn holds_back_the_least() {
        let mut matcher = matcher(&["<end>", "nd!"]);
        let passed: Vec<String> =
            ["a <", "b", "<e", "n", "d"].iter().map(|piece| matcher.push(piece).expect("no match")).collect();
        assert_eq!(passed, ["a ", "<b", "", "", ""]);
        assert_eq!(matcher.push("?"), Ok("<end?".to_owned()));
        assert_eq!(matcher.finish(), "");
    }

    proptest! {
        #[test]
        fn any_chunking_gives_what_the_plain_rule_gives(
            stops in proptest::collection::vec("[abé]{1,4}", 0..4),
            text in "[abcé]{0,40}",
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
        ) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| ends[cut.index(ends.len())]).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]);
            prop_assert_eq!(run(&stops, pieces), oracle(&stops, &text));
        }
    }
}
