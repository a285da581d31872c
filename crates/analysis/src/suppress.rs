//! What is not to be held against a program: files of lines `leak:pattern`, as LeakSanitizer reads them, and of errors in
//! the same way `double-free:pattern`, or `error:pattern` for all kinds.

use std::fmt;

use heapledger_format::errors::ErrorKind;

use crate::query::without_parameters;
use crate::{NamedFrame, NamedStack};

/// What a person or the C library has excused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suppressions {
    patterns: Vec<(Of, Pattern)>,
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Leaks,
    AllErrors,
    Errors(ErrorKind),
}

impl Of {
    fn parse(name: &str) -> Option<Of> {
        match name {
            "leak" => Some(Of::Leaks),
            "error" => Some(Of::AllErrors),
            _ => ErrorKind::ALL.iter().find(|kind| kind.name() == name).copied().map(Of::Errors),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Of::Leaks => "leak",
            Of::AllErrors => "error",
            Of::Errors(kind) => kind.name(),
        }
    }
}

/// Text that a name must hold; `*` stands for anything, `^` for the beginning, `$` for the end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    shown: String,
    parts: Vec<String>,
    from_start: bool,
    to_end: bool,
}

/// A line of a file of suppressions that is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppressionError {
    /// Its number, from 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
}

impl fmt::Display for SuppressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}: {:?} is not of the form leak:PATTERN, error:PATTERN or KIND:PATTERN (such as double-free)",
            self.line, self.text
        )
    }
}

impl std::error::Error for SuppressionError {}

impl Suppressions {
    /// Reads `leak:pattern`, `error:pattern` and `double-free:pattern` lines. Empty ones and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// At the first line that is neither.
    pub fn parse(text: &str) -> Result<Suppressions, SuppressionError> {
        let mut patterns = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let parts = line.split_once(':').map(|(of, pattern)| (Of::parse(of.trim()), pattern.trim()));
            let Some((Some(of), pattern)) = parts.filter(|(_, pattern)| !pattern.is_empty()) else {
                return Err(SuppressionError { line: index + 1, text: line.to_owned() });
            };
            patterns.push((of, Pattern::new(pattern)));
        }
        Ok(Suppressions { patterns })
    }

    /// Whether nothing is excused.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The pattern, as it was written, that some frame of this stack agrees with: by function, source file or module.
    pub fn find(&self, stack: &NamedStack) -> Option<&str> {
        let leaks = self.patterns.iter().filter(|(of, _)| *of == Of::Leaks);
        leaks.map(|(_, pattern)| pattern).find(|pattern| pattern.excuses(stack)).map(|pattern| pattern.shown.as_str())
    }

    /// Whether any line is about errors.
    pub fn excuse_errors(&self) -> bool {
        self.patterns.iter().any(|(of, _)| *of != Of::Leaks)
    }

    /// The line, as `double-free:pattern`, that some frame of these stacks of an error of this kind agrees with.
    pub fn find_error(&self, kind: u16, stacks: &[NamedStack]) -> Option<String> {
        let is_meant = |of: Of| match of {
            Of::Leaks => false,
            Of::AllErrors => true,
            Of::Errors(meant) => meant as u16 == kind,
        };
        let excuses = |(of, pattern): &&(Of, Pattern)| {
            is_meant(*of) && (pattern.shown == "*" || stacks.iter().any(|stack| pattern.excuses(stack)))
        };
        self.patterns.iter().find(excuses).map(|(of, pattern)| format!("{}:{}", of.name(), pattern.shown))
    }
}

impl Pattern {
    fn new(text: &str) -> Pattern {
        let (inner, from_start) = text.strip_prefix('^').map_or((text, false), |rest| (rest, true));
        let (inner, to_end) = inner.strip_suffix('$').map_or((inner, false), |rest| (rest, true));
        let parts = inner.split('*').map(str::to_owned).collect();
        Pattern { shown: text.to_owned(), parts, from_start, to_end }
    }

    fn excuses(&self, stack: &NamedStack) -> bool {
        stack.frames.iter().any(|frame| self.names(frame))
    }

    fn names(&self, frame: &NamedFrame) -> bool {
        let names = [&frame.function, &frame.raw_name, &frame.file, &frame.module];
        // A function of C++ is known by its name, too, without what it is called with: so reports show it.
        let plain = frame.function.as_deref().map(without_parameters);
        names.into_iter().flatten().map(|name| &**name).chain(plain).any(|name| self.holds(name))
    }

    /// The parts must come in this order. Taking each at its first place never misses: what is left is longest then.
    fn holds(&self, name: &str) -> bool {
        let Some((last, before)) = self.parts.split_last() else { return true };
        let mut rest = name;
        for (index, part) in before.iter().enumerate() {
            rest = match (index == 0 && self.from_start, rest.find(part.as_str())) {
                (true, _) if !rest.starts_with(part.as_str()) => return false,
                (true, _) => &rest[part.len()..],
                (false, Some(at)) => &rest[at + part.len()..],
                (false, None) => return false,
            };
        }
        match (before.is_empty() && self.from_start, self.to_end) {
            (true, true) => rest == last,
            (true, false) => rest.starts_with(last.as_str()),
            (false, true) => rest.ends_with(last.as_str()),
            (false, false) => rest.contains(last.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(functions: &[(&str, &str)]) -> NamedStack {
        let frame = |(function, module): &(&str, &str)| NamedFrame {
            function: Some((*function).into()),
            module: Some((*module).into()),
            ..NamedFrame::default()
        };
        NamedStack { frames: functions.iter().map(frame).collect(), damaged: false }
    }

    #[test]
    fn patterns_are_found_as_in_leak_sanitizer() {
        let leaks = stack(&[("xmalloc", "/usr/bin/tool"), ("cache_fill(int)", "/opt/lib/libcache.so.2")]);
        for good in [
            "leak:xmalloc",
            "leak:cache*int",
            "leak:libcache.so",
            "leak:^xm",
            "leak:loc$",
            "leak:^x*c$",
            "leak:*",
            "leak:^cache_fill$",
        ] {
            let known = Suppressions::parse(good).expect("good");
            assert_eq!(known.find(&leaks), good.strip_prefix("leak:"), "{good}");
        }
        for other in ["leak:malloc_x", "leak:^malloc", "leak:xm$", "leak:int*cache", "leak:^fill", "leak:^x*q$"] {
            assert_eq!(Suppressions::parse(other).expect("good").find(&leaks), None, "{other}");
        }
    }

    #[test]
    fn files_have_comments_and_errors_have_lines() {
        let known = Suppressions::parse("# ours\n\n  leak:one  \nleak:two\n").expect("good");
        assert_eq!(known.patterns.len(), 2);
        assert!(!known.excuse_errors());
        let known = Suppressions::parse("leak:one\nerror: a.c\n double-free :b").expect("good");
        assert!(known.excuse_errors() && known.patterns.len() == 3);
        for odd in ["leak:", "race:x", "one", "double-free:", "double:x"] {
            let error = Suppressions::parse(&format!("leak:a\n{odd}")).expect_err(odd);
            assert_eq!((error.line, error.text.as_str()), (2, odd));
        }
    }
}
