//! What is wrong with a text, and where.

use std::fmt;
use std::ops::Range;

/// Letters of a line that are shown on either side of the place.
const AROUND: usize = 40;

/// A text that cannot be read: what is wrong, where, and what would have been right.
///
/// ```text
/// unknown field 'sise'
///   sise >= 4K
///   ^^^^
/// did you mean 'size'?
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    what: String,
    /// The part of the text that is shown, on one line.
    shown: String,
    /// Where the marks begin in it, in letters, and how many there are.
    marks: (usize, usize),
    at: usize,
    help: Option<String>,
}

impl SyntaxError {
    /// `what` is wrong with the bytes `at` of `text`.
    pub(crate) fn new(what: impl Into<String>, text: &str, at: Range<usize>) -> SyntaxError {
        let floor = |mut place: usize| {
            place = place.min(text.len());
            while !text.is_char_boundary(place) {
                place -= 1;
            }
            place
        };
        let (start, end) = (floor(at.start), floor(at.end.max(at.start)));
        let (before, rest) = text.split_at(start);
        let (wrong, after) = rest.split_at(end - start);
        // Line ends and what could steer a terminal take one place each, so that the marks stand where they should.
        let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
        let mut shown = String::new();
        let skipped = before.chars().count().saturating_sub(AROUND);
        if skipped > 0 {
            shown.push('…');
        }
        shown.extend(before.chars().skip(skipped).map(plain));
        let first = shown.chars().count();
        let length = wrong.chars().take(AROUND + 1).count();
        shown.extend(wrong.chars().take(AROUND).map(plain));
        if length <= AROUND {
            shown.extend(after.chars().take(AROUND).map(plain));
        }
        if length > AROUND || after.chars().nth(AROUND).is_some() {
            shown.push('…');
        }
        SyntaxError { what: what.into(), shown, marks: (first, length.clamp(1, AROUND)), at: start, help: None }
    }

    /// Adds what would have been right.
    pub(crate) fn help(mut self, help: impl Into<String>) -> SyntaxError {
        self.help = Some(help.into());
        self
    }

    /// What is wrong, in a few words.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Where, in bytes from the start of the text.
    pub fn at(&self) -> usize {
        self.at
    }

    /// What would have been right, if that is known.
    pub fn expected(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, length) = self.marks;
        write!(f, "{}\n  {}\n  {}{}", self.what, self.shown, " ".repeat(first), "^".repeat(length))?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "\n{help}"))
    }
}

impl std::error::Error for SyntaxError {}

/// The one of `names` that is most like `name`, if any is like it.
pub(crate) fn nearest<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let name: String = name.chars().take(32).flat_map(char::to_lowercase).collect();
    let limit = (name.chars().count() / 3).max(1);
    names
        .into_iter()
        .map(|other| (strsim::osa_distance(&name, other), other))
        .filter(|(far, _)| *far <= limit)
        .min_by_key(|(far, _)| *far)
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stands_under_the_place() {
        let error = SyntaxError::new("unknown field 'sise'", "sise >= 4K", 0..4).help("did you mean 'size'?");
        assert_eq!(error.to_string(), "unknown field 'sise'\n  sise >= 4K\n  ^^^^\ndid you mean 'size'?");
        let error = SyntaxError::new("x", "größe\n>= ?", "größe\n>= ".len().."größe\n>= ?".len());
        assert_eq!(error.to_string(), "x\n  größe >= ?\n           ^");
        let long = "x".repeat(1 << 20);
        let error = SyntaxError::new("x", &long, 500..500).to_string();
        assert!(error.len() < 300, "{error}");
        assert_eq!(error.lines().nth(2).map(|marks| marks.len()), Some(2 + 41 + 1));
    }

    #[test]
    fn the_nearest_name_is_found() {
        let names = ["size", "site", "time", "thread"];
        assert_eq!(nearest("sise", names), Some("size"), "the first of two that are equally near");
        assert_eq!(nearest("thraed", names), Some("thread"));
        assert_eq!(nearest("Thread", names), Some("thread"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("", names), None);
    }
}
