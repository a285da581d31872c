//! Mangled names made readable, within bounds.

mod letters;
mod scope;
mod skip;

use std::fmt::{self, Write};

/// Longest name shown, in bytes. Template towers reach megabytes; nobody reads those.
pub(crate) const SHOWN_MAX: usize = 4096;
/// Longest mangled name that is tried at all.
const MANGLED_MAX: usize = 16 * 1024;
/// Nesting allowed in a C++ name. The parser's own default; it fits a debug build's stack.
const CPP_NESTING: u32 = 96;

/// The readable form of `raw`, or `raw` itself (shortened) if it is in no known mangling.
pub(crate) fn demangle(raw: &str) -> String {
    demangled(raw).unwrap_or_else(|| shorten(raw, SHOWN_MAX))
}

/// The readable form of `raw` if it is in a mangling that is understood.
pub(crate) fn understood(raw: &str) -> Option<String> {
    demangled(raw)
}

/// Whether a mangled name of C++ says that the function lies in something, whether or not the rest of it is understood.
pub(crate) fn has_scope(raw: &str) -> bool {
    ["_ZN", "_ZS", "_ZZ"].iter().any(|begin| raw.starts_with(begin))
}

/// Cuts `text` to at most `max` bytes, with an ellipsis if something was cut.
pub(crate) fn shorten(text: &str, max: usize) -> String {
    let mut out = Bounded::new(max);
    let _ = out.write_str(text);
    out.finish()
}

fn demangled(raw: &str) -> Option<String> {
    if raw.len() > MANGLED_MAX {
        return None;
    }
    if is_rust(raw) {
        let name = rustc_demangle::try_demangle(raw).ok()?;
        let mut out = Bounded::new(SHOWN_MAX);
        // Without the hash: it is noise to a reader, and `raw` is there to tell apart.
        let _ = write!(out, "{name:#}");
        return Some(out.finish());
    }
    if !raw.starts_with("_Z") && !raw.starts_with("___Z") && !raw.starts_with("_GLOBAL_") {
        return None;
    }
    match letters::replaced(raw) {
        Some((ascii, runs)) => Some(runs.put_back(&cpp_or_rewritten(&ascii)?)),
        None => cpp_or_rewritten(raw),
    }
}

fn cpp_or_rewritten(raw: &str) -> Option<String> {
    cpp(raw).or_else(|| Some(scope::put_right(&cpp(&scope::rewritten(raw)?)?)))
}

fn cpp(raw: &str) -> Option<String> {
    let parse = cpp_demangle::ParseOptions::default().recursion_limit(CPP_NESTING);
    let show = cpp_demangle::DemangleOptions::new().recursion_limit(CPP_NESTING);
    let symbol = cpp_demangle::Symbol::new_with_options(raw, &parse).ok()?;
    let mut out = Bounded::new(SHOWN_MAX);
    match symbol.structured_demangle(&mut out, &show) {
        Ok(()) => Some(out.finish()),
        Err(_) if out.full => Some(out.finish()),
        Err(_) => None,
    }
}

/// Rust's older mangling is a C++ name with a hash at its end, so the hash must be seen:
/// without this check every nested C++ name would pass for Rust.
fn is_rust(raw: &str) -> bool {
    if raw.starts_with("_R") {
        return true;
    }
    if !raw.starts_with("_ZN") {
        return false;
    }
    raw.match_indices("17h").any(|(at, _)| {
        let tail = &raw.as_bytes()[at + 3..];
        tail.len() > 16 && tail[..16].iter().all(u8::is_ascii_hexdigit) && tail[16] == b'E'
    })
}

/// A string that stops growing at its limit and then ends in an ellipsis.
struct Bounded {
    text: String,
    max: usize,
    full: bool,
}

impl Bounded {
    fn new(max: usize) -> Self {
        Bounded { text: String::new(), max, full: false }
    }

    fn finish(mut self) -> String {
        if self.full {
            self.text.push('…');
        }
        self.text
    }
}

impl Write for Bounded {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        if self.full {
            return Err(fmt::Error);
        }
        let room = self.max - self.text.len();
        if piece.len() <= room {
            self.text.push_str(piece);
            return Ok(());
        }
        let mut end = room.saturating_sub('…'.len_utf8());
        while !piece.is_char_boundary(end) {
            end -= 1;
        }
        self.text.push_str(&piece[..end]);
        self.full = true;
        // An error stops the demangler, which may have gigabytes still to say.
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests;
