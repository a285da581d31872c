//! Which lines of a stack say little: code of headers that was inlined into the function that a person looks for.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{NamedFrame, NamedStack, is_of_our_header};

/// What headers are recognized by, unless asked otherwise.
pub const HEADERS: &str = "*/include/*";
/// Most bytes of a glob: no file has a longer name.
const GLOB_MAX: usize = 4096;

/// Source files to look through when a frame is named.
///
/// Code of such a file that was inlined is passed over in favour of the line that it was inlined into, if that line is
/// known. A function that was called, and not inlined, is never passed over: nothing more accurate is known of its
/// return address. Functions of our own header are known by their names: a program may have it anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passing {
    globs: Vec<Vec<char>>,
    /// What was found out about files, of which there are few.
    known: HashMap<Arc<str>, bool>,
}

impl Default for Passing {
    fn default() -> Self {
        Passing::new(vec![HEADERS.to_owned()])
    }
}

impl Passing {
    /// Files whose names match one of these: `*` is any text, `/` too, `?` a letter, `[a-z]` one of these letters,
    /// and a backslash takes a meaning away.
    pub fn new(globs: Vec<String>) -> Passing {
        Passing { globs: globs.iter().map(|glob| glob.chars().collect()).collect(), known: HashMap::new() }
    }

    /// None: every line is looked at.
    pub fn none() -> Passing {
        Passing::new(Vec::new())
    }

    /// Marks those of `frames`, innermost first, that are passed over.
    pub fn apply(&mut self, frames: &mut [NamedFrame]) {
        for index in 0..frames.len() {
            let passed = self.passes(frames.get(index), frames.get(index + 1));
            if let Some(frame) = frames.get_mut(index) {
                frame.passed_over = passed;
            }
        }
    }

    fn passes(&mut self, frame: Option<&NamedFrame>, around: Option<&NamedFrame>) -> bool {
        let (Some(frame), Some(around)) = (frame, around) else { return false };
        let known = around.file.is_some() && around.line.is_some();
        let file = frame.file.as_ref().filter(|_| frame.inlined && known);
        let Some(file) = file.filter(|_| !self.globs.is_empty()) else { return false };
        if frame.function.as_deref().is_some_and(is_of_our_header) {
            return true;
        }
        if let Some(known) = self.known.get(file) {
            return *known;
        }
        let text: Vec<char> = file.chars().collect();
        let passed = self.globs.iter().any(|glob| matches(glob, &text));
        self.known.insert(Arc::clone(file), passed);
        passed
    }
}

impl NamedStack {
    /// The frames that are not [passed over](Passing).
    pub fn shown(&self) -> impl Iterator<Item = &NamedFrame> {
        self.frames.iter().filter(|frame| !frame.passed_over)
    }

    /// The frames by return address, innermost first. A level begins with what was inlined there and ends with the
    /// function that contains the address.
    pub fn levels(&self) -> impl Iterator<Item = &[NamedFrame]> {
        self.frames.split_inclusive(|frame| !frame.inlined)
    }
}

/// Reads a glob for [`Passing::new`].
///
/// # Errors
/// If a part of it is not complete: which, in half a sentence. Such a glob would match nothing that was meant.
pub fn parse_glob(text: &str) -> Result<String, &'static str> {
    if text.len() > GLOB_MAX {
        return Err("it is longer than the name of any file");
    }
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.next().is_none() => {
                return Err("it ends in a backslash, which takes the meaning of nothing away; write \\\\");
            }
            '[' => match letters.as_str().find(']') {
                None => return Err("a '[' has no ']'; write \\[ for the letter itself"),
                Some(0) => return Err("no letter is between '[' and ']'"),
                Some(end) => letters = letters.as_str().get(end + 1..).unwrap_or_default().chars(),
            },
            _ => {}
        }
    }
    Ok(text.to_owned())
}

/// Whether all of `text` matches. The work is bounded by the product of both lengths, however many stars there are:
/// only the last one is ever tried again.
fn matches(glob: &[char], text: &[char]) -> bool {
    let (mut at, mut next) = (0, 0);
    let mut star = None;
    while let Some(letter) = text.get(next) {
        if glob.get(at) == Some(&'*') {
            at += 1;
            star = Some((at, next));
        } else if let Some(length) = one(glob.get(at..).unwrap_or(&[]), *letter) {
            at += length;
            next += 1;
        } else if let Some((behind, from)) = &mut star {
            *from += 1;
            (at, next) = (*behind, *from);
        } else {
            return false;
        }
    }
    glob.get(at..).is_some_and(|rest| rest.iter().all(|letter| *letter == '*'))
}

/// How much of the glob stands for this letter; `None` if it does not.
fn one(glob: &[char], letter: char) -> Option<usize> {
    match glob {
        ['?', ..] => Some(1),
        ['\\', literal, ..] => (*literal == letter).then_some(2),
        ['[', rest @ ..] => {
            let Some(end) = rest.iter().position(|close| *close == ']') else { return (letter == '[').then_some(1) };
            let mut set = rest.get(..end)?;
            let mut found = false;
            while let Some(first) = set.first() {
                let range = set.get(1).filter(|dash| **dash == '-').and(set.get(2));
                found |= (*first..=*range.unwrap_or(first)).contains(&letter);
                set = set.get(if range.is_some() { 3 } else { 1 }..).unwrap_or(&[]);
            }
            found.then_some(end + 2)
        }
        [literal, ..] => (*literal == letter).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(glob: &str, text: &str) -> bool {
        let [glob, text] = [glob, text].map(|text| text.chars().collect::<Vec<_>>());
        matches(&glob, &text)
    }

    #[test]
    fn globs() {
        for (glob, text, expected) in [
            ("*/include/*", "/usr/include/c++/12/new", true),
            ("*/include/*", "include/x.h", false),
            ("*/include/*", "../include/x.h", true),
            ("*.h", "/a/b/harry.h", true),
            ("*.h", "/a/b/harry.hpp", false),
            ("", "", true),
            ("", "x", false),
            ("*", "", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*.[ch]", "x.c", true),
            ("*.[a-d]pp", "x.cpp", true),
            ("*.[a-b]pp", "x.cpp", false),
            ("[", "[", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("*/größe/*", "/x/größe/y", true),
        ] {
            assert_eq!(is_match(glob, text), expected, "{glob} {text}");
        }
    }

    #[test]
    fn broken_globs() {
        for glob in ["", "*", "*/include/*", "*.[ch]", "[a-d][x]", "\\[", "a]", "[\\]"] {
            assert_eq!(parse_glob(glob).as_deref(), Ok(glob));
        }
        for glob in ["[", "a[b", "[a][", "[]", "a\\", "*.[ch]\\"] {
            assert!(parse_glob(glob).is_err(), "{glob}");
        }
    }

    #[test]
    fn many_stars_do_not_hang() {
        let glob = "*a".repeat(2000) + "b";
        assert!(!is_match(&glob, &"a".repeat(20_000)));
        assert!(parse_glob(&"a".repeat(GLOB_MAX)).is_ok() && parse_glob(&glob.repeat(2)).is_err());
    }

    fn frame(function: &str, place: Option<(&str, u32)>, inlined: bool) -> NamedFrame {
        let (file, line) = place.unzip();
        NamedFrame { function: Some(function.into()), file: file.map(Into::into), line, inlined, ..Default::default() }
    }

    fn seen(passing: &Passing, frames: &[NamedFrame]) -> Vec<String> {
        let mut stack = NamedStack { frames: frames.to_vec(), damaged: false };
        passing.clone().apply(&mut stack.frames);
        stack.shown().filter_map(|frame| frame.function.as_deref().map(str::to_owned)).collect()
    }

    #[test]
    fn what_a_header_inlined_is_passed_over() {
        let frames = [
            frame("allocate", Some(("/usr/include/c++/12/new", 1)), true),
            frame("dick", Some(("/src/include/harry.h", 7)), true),
            frame("tom", Some(("/src/tom.c", 30)), false),
            frame("main", Some(("/src/include/odd/main.c", 3)), false),
        ];
        assert_eq!(seen(&Passing::default(), &frames), ["tom", "main"], "a function that was called stays");
        assert_eq!(seen(&Passing::none(), &frames).len(), 4);
        assert_eq!(seen(&Passing::new(vec!["*/c++/*".into()]), &frames), ["dick", "tom", "main"]);
        let stack = NamedStack { frames: frames.to_vec(), damaged: false };
        assert_eq!(stack.levels().map(<[NamedFrame]>::len).collect::<Vec<_>>(), [3, 1]);
    }

    #[test]
    fn our_own_header_is_passed_over_wherever_it_lies() {
        let frames = [
            frame("heapledger_weak_refused", Some(("/src/heapledger.h", 477)), true),
            frame("take", Some(("/src/pool.c", 30)), false),
        ];
        assert_eq!(seen(&Passing::default(), &frames), ["take"]);
        assert_eq!(seen(&Passing::new(vec!["*/c++/*".into()]), &frames), ["take"]);
        assert_eq!(seen(&Passing::none(), &frames).len(), 2);
    }

    #[test]
    fn only_if_something_better_is_known() {
        let unknown = [frame("dick", Some(("/src/include/harry.h", 7)), true), frame("tom", None, false)];
        assert_eq!(seen(&Passing::default(), &unknown), ["dick", "tom"]);
        let cut = [frame("dick", Some(("/src/include/harry.h", 7)), true)];
        assert_eq!(seen(&Passing::default(), &cut), ["dick"]);
    }
}
