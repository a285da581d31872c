//! Members of types that depend on template arguments, in the mangling that GCC writes.
//!
//! `std::is_array<T>::value` in a signature is mangled `srSt8is_arrayIT_E5value`: behind `sr` a type, then a name. The
//! demangler knows `sr` only with types of a simpler kind, and counts what later parts of the name refer back to
//! otherwise than GCC does. It does know `tl`, which is a type and a list in braces. So a name that was not understood is
//! tried again with each `sr TYPE NAME` written as `tl TYPE MARK NAME E`, and what is printed for that, `TYPE{MARK, NAME}`,
//! is put right afterwards.
//!
//! For that only the length of a type must be known, not what it means. A name that is misread here is not understood by
//! the demangler either, and stays mangled.

use super::skip::Skipper;

/// What no name holds that a compiler makes of a programmer's. With its length in front it is a name of its own.
const MARK: &str = "3sr$";
/// How the mark comes out.
const PRINTED: &str = "{sr$, ";

/// The mangled name with each `sr` written in the way that is understood; `None` if there is none that could be.
pub(super) fn rewritten(mangled: &str) -> Option<String> {
    if !mangled.contains("sr") {
        return None;
    }
    let mut skipper = Skipper::new(mangled);
    let mut out = Vec::with_capacity(mangled.len() * 2);
    let changed = skipper.rewrite(mangled.len(), &mut out, 0)?;
    if changed { String::from_utf8(out).ok() } else { None }
}

/// What the demangler printed, with the marks put right.
pub(super) fn put_right(printed: &str) -> String {
    let mut out = String::with_capacity(printed.len());
    // Braces that are open: whether they stand for a mark.
    let mut open: Vec<bool> = Vec::new();
    let mut rest = printed;
    while let Some(letter) = rest.chars().next() {
        let (length, shown) = match letter {
            '{' if rest.starts_with(PRINTED) => {
                open.push(true);
                (PRINTED.len(), "::")
            }
            '{' => {
                open.push(false);
                (1, "{")
            }
            '}' if open.pop() == Some(true) => (1, ""),
            _ => (letter.len_utf8(), &rest[..letter.len_utf8()]),
        };
        out.push_str(shown);
        rest = &rest[length..];
    }
    out
}

impl Skipper<'_> {
    /// Copies up to `end`, and writes what must be written otherwise. `None` if that takes too long.
    fn rewrite(&mut self, end: usize, out: &mut Vec<u8>, depth: usize) -> Option<bool> {
        let mut changed = false;
        while self.at < end {
            self.step(depth)?;
            let from = self.at;
            if self.rest().starts_with(b"sr") {
                if let Some([type_end, name_end]) = self.member(depth) {
                    self.at = from + 2;
                    out.extend_from_slice(b"tl");
                    self.rewrite(type_end, out, depth + 1)?;
                    out.extend_from_slice(MARK.as_bytes());
                    self.rewrite(name_end, out, depth + 1)?;
                    out.push(b'E');
                    changed = true;
                    continue;
                }
                self.at = from + 1;
            } else if !self.token() {
                self.at = from + 1;
            }
            out.extend_from_slice(self.text.get(from..self.at)?);
        }
        Some(changed)
    }

    /// Something whose letters mean nothing by themselves: a name with its length, what refers back, a number in a literal.
    fn token(&mut self) -> bool {
        let from = self.at;
        let found = match self.peek() {
            Some(b'0'..=b'9') => self.source_name(),
            Some(b'S' | b'T') => self.back_reference(),
            Some(b'L') => self.literal(0),
            _ => None,
        };
        if found.is_none() {
            self.at = from;
        }
        found.is_some()
    }

    /// Behind `sr`: where its type ends, and where its name ends.
    pub(super) fn member(&mut self, depth: usize) -> Option<[usize; 2]> {
        self.take(b"sr")?;
        self.type_(depth)?;
        let type_end = self.at;
        self.base_name(depth)?;
        Some([type_end, self.at])
    }
}
