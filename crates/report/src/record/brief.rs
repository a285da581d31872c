//! Names of functions as a line has room for them: which function it is, and not what it is instantiated with.
//!
//! This is the one place where names are shortened, for every report that a person reads; what a machine reads has them whole.

use std::borrow::Cow;

use heapledger_analysis::diff::plain_name;

/// What demanglers write in front of a function's name that belongs to it.
const KINDS: &[&str] = &[
    "non-virtual thunk to ",
    "virtual thunk to ",
    "covariant return thunk to ",
    "guard variable for ",
    "TLS init function for ",
    "TLS wrapper function for ",
];
/// What stands behind a function's parameters.
const BEHIND: &[&str] = &[" const", " volatile", " restrict", " noexcept", " &&", " &"];
/// Namespaces that tell versions of a library apart, and no functions.
const VERSIONS: &[&str] = &["std::__cxx11::", "std::__1::", "std::__ndk1::"];
/// Operators, the longer ones before those that they begin with.
const OPERATORS: &[&str] = &[
    "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++", "--", "+=", "-=", "*=", "/=",
    "%=", "^=", "&=", "|=", "->", "()", "[]", "+", "-", "*", "/", "%", "^", "&", "|", "~", "!", "=", "<", ">", ",",
];
/// Behind the names of levels of a call tree.
const GUESSED_LEVEL: &str = " (callers guessed)";
/// Deepest nesting of a name in others.
const NESTING_MAX: usize = 8;

/// A function of C, C++ or Rust without what it is instantiated with, what it takes and gives, and what its compiler put
/// behind it: `std::vector<…>::push_back` of `std::vector<int, std::allocator<int> >::push_back(int const&)`,
/// `<Vec<…> as Clone>::clone` of `<alloc::vec::Vec<u8> as core::clone::Clone>::clone`, `grow` of `grow.isra.0`. A name that is
/// of no form that is known stays as it is.
pub(crate) fn brief(name: &str) -> Cow<'_, str> {
    if is_of_an_engine(name) {
        return Cow::Borrowed(name);
    }
    // As call trees mark what was found along frame pointers.
    if let Some(marked) = name.strip_suffix(GUESSED_LEVEL) {
        return Cow::Owned(format!("{}{GUESSED_LEVEL}", brief(marked)));
    }
    let plain = plain_name(name);
    if let Some((kind, rest)) = KINDS.iter().find_map(|kind| Some((kind, plain.strip_prefix(kind)?))) {
        return Cow::Owned(format!("{kind}{}", brief(rest)));
    }
    if !plain.contains(['<', '(', '[']) && !VERSIONS.iter().any(|version| plain.starts_with(version)) {
        return Cow::Borrowed(plain);
    }
    match Shortened::of(plain, 0) {
        Some(short) => Cow::Owned(VERSIONS.iter().fold(short, |short, version| short.replace(version, "std::"))),
        None => Cow::Borrowed(plain),
    }
}

/// Names that engines give to code which they make: `JS:~read /srv/app.js:1:2`, `py::read:/srv/app.py`.
fn is_of_an_engine(name: &str) -> bool {
    let word = name.len() - name.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric()).len();
    let rest = &name[word..];
    name.starts_with("py::") || is_of_python(name) || word > 0 && rest.starts_with(':') && !rest.starts_with("::")
}

/// What Python calls code that has no name of its own, in qualified names: `<module>`, `outer.<locals>.<lambda>`.
const PYTHON_WORDS: &[&str] =
    &["<module>", "<locals>", "<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"];

fn is_of_python(name: &str) -> bool {
    name.split('.').any(|part| PYTHON_WORDS.contains(&part))
}

fn in_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

/// A name as far as it was read.
struct Shortened<'n> {
    rest: &'n str,
    out: String,
    /// Where the last word began: in front of that is what the function gives, if it turns out to be one with parameters.
    word: usize,
    /// What was read last is an operator, behind which template arguments are the function's own.
    behind_operator: bool,
}

impl<'n> Shortened<'n> {
    fn of(name: &'n str, depth: usize) -> Option<String> {
        let mut read = Shortened { rest: name, out: String::new(), word: 0, behind_operator: false };
        while let Some(letter) = read.rest.chars().next() {
            if !read.out.ends_with(in_name) && read.operator()? {
                continue;
            }
            match letter {
                '(' => {
                    if let Some(inner) = read.round()? {
                        return (depth < NESTING_MAX).then(|| Shortened::of(inner, depth + 1))?;
                    }
                }
                '<' => read.angle()?,
                '{' => read.curly()?,
                '[' => {
                    let inside = enclosed(read.rest)?;
                    if read.rest.starts_with("[abi:") { read.skip(inside) } else { read.copy(inside) }
                }
                ' ' => {
                    read.copy(1);
                    read.word = read.out.len();
                }
                _ => read.copy(letter.len_utf8()),
            }
            read.behind_operator = false;
        }
        // Of a type alone nothing is left.
        (read.word < read.out.len()).then_some(read.out)
    }

    fn skip(&mut self, length: usize) {
        self.rest = self.rest.get(length..).unwrap_or_default();
    }

    fn copy(&mut self, length: usize) {
        self.out.push_str(self.rest.get(..length).unwrap_or_default());
        self.skip(length);
    }

    /// `operator<`, `operator new[]`, `operator unsigned long`, with template arguments of its own, which go.
    fn operator(&mut self) -> Option<bool> {
        let Some(signs) = self.rest.strip_prefix("operator").filter(|signs| !signs.starts_with(in_name)) else {
            return Some(false);
        };
        let ends = |sign: &str| signs[sign.len()..].chars().next().is_none_or(|next| "( <[:".contains(next));
        let sign = OPERATORS.iter().find(|sign| signs.starts_with(**sign) && ends(sign));
        match sign {
            Some(sign) => self.copy("operator".len() + sign.len()),
            None => self.named_operator(signs)?,
        }
        let arguments = self.rest.trim_start_matches(' ');
        if arguments.starts_with('<') {
            self.rest = arguments.get(enclosed(arguments)?..)?;
        }
        self.behind_operator = true;
        Some(true)
    }

    /// One whose name is words: up to its parameters.
    fn named_operator(&mut self, signs: &str) -> Option<()> {
        self.copy("operator".len());
        let mut at = 0;
        while let Some(letter) = signs.get(at..)?.chars().next() {
            match letter {
                // `operator void (*)(int)`.
                '(' if signs.get(at..)?.starts_with("(*") => {
                    at += enclosed(signs.get(at..)?)?;
                    at += enclosed(signs.get(at..)?)?;
                }
                '(' => break,
                // Of what it gives, or its own: nobody misses these.
                '<' => {
                    self.copy(at);
                    let inside = enclosed(self.rest)?;
                    self.skip(inside);
                    self.out.push_str("<…>");
                    return self.named_operator_rest();
                }
                _ => at += letter.len_utf8(),
            }
        }
        self.copy(at);
        Some(())
    }

    /// What stands between a type's arguments and the parameters: ` const&`.
    fn named_operator_rest(&mut self) -> Option<()> {
        let end = self.rest.find('(').unwrap_or(self.rest.len());
        self.copy(end);
        Some(())
    }

    /// Round brackets: parameters, which go; or those around the name of a function that gives a pointer to a function,
    /// which is returned.
    fn round(&mut self) -> Option<Option<&'n str>> {
        let rest = self.rest;
        let inside = enclosed(rest)?;
        let inner = rest.get(1..inside - 1)?;
        // `sync.(*Pool).Get` is Go's.
        if inner.starts_with("anonymous ") || self.out.ends_with('.') {
            self.copy(inside);
            return Some(None);
        }
        let word = self.out.get(self.word..)?;
        let is_type = word == "decltype";
        if self.behind_operator || word.ends_with(|last: char| in_name(last) || "…>})]'".contains(last)) {
            self.skip(inside);
            while let Some(behind) = BEHIND.iter().find(|behind| self.rest.starts_with(**behind)) {
                self.skip(behind.len());
            }
            // What is not of the form of a function and its parameters is no such thing.
            if !self.rest.is_empty() && !self.rest.starts_with("::") && !self.rest.starts_with("[abi:") {
                // `decltype(x) f(int)`, `{lambda(int)#1}`.
                return (is_type && self.rest.starts_with(' ')).then_some(None);
            }
            self.out.drain(..self.word);
            self.word = 0;
            return Some(None);
        }
        let rest = rest.get(inside..)?;
        self.rest = rest;
        let member = inner.split_once("::*").filter(|(class, _)| !class.contains('(')).map(|(_, pointer)| pointer);
        let pointer = member.unwrap_or_else(|| inner.trim_start_matches(['*', '&'])).trim_start_matches("const").trim();
        if pointer.len() == inner.len() || !rest.starts_with(['(', '[']) {
            return Some(None);
        }
        if pointer.is_empty() {
            // Some demanglers write the whole type in front of the name: `void (*)(char) get(int)`.
            self.rest = rest.get(enclosed(rest)?..)?;
            return Some(None);
        }
        Some(Some(pointer))
    }

    /// Angle brackets: template arguments, which go; or types of Rust, and what compilers call what has no name.
    fn angle(&mut self) -> Option<()> {
        let inside = enclosed(self.rest)?;
        let inner = self.rest.get(1..inside - 1)?;
        let word = self.out.get(self.word..)?;
        match () {
            () if word.ends_with(|last: char| in_name(last) || "])}".contains(last)) => {
                let is_string = inner.starts_with("char,") && word.ends_with("::basic_string");
                if is_string {
                    self.out.truncate(self.out.len() - "basic_string".len());
                }
                self.out.push_str(if is_string { "string" } else { "<…>" });
            }
            () if inner.starts_with("lambda") => self.out.push_str("<lambda>"),
            () if word.ends_with("::") && inner.starts_with("impl ") => {
                self.out.push_str(&format!("<{}>", type_of(inner)?))
            }
            // Arguments of a function: `drop_in_place::<T>`.
            () if word.ends_with("::") && !word.ends_with(">::") => {
                self.out.truncate(self.out.len() - "::".len());
                self.out.push_str("<…>");
            }
            // `java.lang.String.<init>`.
            () if !word.is_empty() => {
                self.copy(inside);
                return Some(());
            }
            () if inner.contains(" as ") => self.out.push_str(&format!("<{}>", type_of(inner)?)),
            // A method of a type: `<alloc::vec::Vec<u8>>::push`.
            () if inner.starts_with(in_name) && !inner.starts_with("dyn ") && !inner.starts_with("impl ") => {
                self.skip(1);
                self.rest = self.rest.get(inside - 1..)?;
                self.out.push_str(&without_arguments(inner, false)?);
                return Some(());
            }
            () => self.out.push_str(&format!("<{}>", type_of(inner)?)),
        }
        self.skip(inside);
        Some(())
    }

    /// What compilers call functions without a name: `{lambda(int)#1}`, `{closure#0}`.
    fn curly(&mut self) -> Option<()> {
        let inside = enclosed(self.rest)?;
        let inner = self.rest.get(..inside)?;
        match inner.strip_prefix("{lambda").zip(inner.rfind('#')) {
            Some((_, number)) => {
                self.out.push_str("{lambda");
                self.skip(number);
                self.copy(inside - number);
            }
            None => self.copy(inside),
        }
        Some(())
    }
}

/// A type of Rust in short: `Vec<…> as Clone` of `alloc::vec::Vec<u8> as core::clone::Clone`.
fn type_of(text: &str) -> Option<String> {
    without_arguments(text, true)
}

/// A type without its arguments and, if asked for, without the modules that it lies in.
fn without_arguments(text: &str, without_modules: bool) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let length = match letter {
            '<' => {
                let inside = enclosed(rest)?;
                out.push_str(if out.ends_with(in_name) { "<…>" } else { &rest[..inside] });
                inside
            }
            // `make::{closure#0}` is not known without `make`.
            ':' if without_modules && rest.starts_with("::") && !rest.starts_with("::{") && out.ends_with(in_name) => {
                out.truncate(out.trim_end_matches(in_name).len());
                2
            }
            _ => {
                out.push(letter);
                letter.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    Some(out)
}

/// The length of what stands in the brackets with which `text` begins, both included; `None` if they do not match.
fn enclosed(text: &str) -> Option<usize> {
    let mut open = Vec::new();
    let (mut last, mut skipped) = (' ', 0);
    for (at, letter) in text.char_indices() {
        if at < skipped {
            continue;
        }
        let rest = &text[at..];
        if letter == 'o' && !in_name(last) && rest.starts_with("operator") {
            let signs = &rest["operator".len()..];
            // `operator()` holds brackets that enclose nothing, `operator<` one that opens nothing.
            let sign = OPERATORS.iter().find(|sign| signs.starts_with(**sign));
            skipped = at + "operator".len() + sign.map_or(0, |sign| sign.len());
            last = 'r';
            continue;
        }
        match letter {
            // Less than, and not more: `(1)<(2)`.
            '<' if last == ')' && rest.starts_with("<(") => {}
            '<' | '(' | '[' | '{' => open.push(letter),
            // `->` closes nothing; nor does what is greater, in round brackets.
            '>' if last == '-' || open.last() == Some(&'(') => {}
            '>' | ')' | ']' | '}' => {
                let expected = match letter {
                    '>' => '<',
                    ')' => '(',
                    ']' => '[',
                    _ => '{',
                };
                if open.pop() != Some(expected) {
                    return None;
                }
                if open.is_empty() {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        last = letter;
    }
    None
}

#[cfg(test)]
mod tests;
