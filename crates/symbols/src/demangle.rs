//! Mangled names made readable, within bounds.

use std::fmt::{self, Write};

/// Longest name shown, in bytes. Template towers reach megabytes; nobody reads those.
const SHOWN_MAX: usize = 4096;
/// Longest mangled name that is tried at all.
const MANGLED_MAX: usize = 16 * 1024;
/// Nesting allowed in a C++ name. The parser's own default; it fits a debug build's stack.
const CPP_NESTING: u32 = 96;

/// The readable form of `raw`, or `raw` itself (shortened) if it is in no known mangling.
pub(crate) fn demangle(raw: &str) -> String {
    demangled(raw).unwrap_or_else(|| shorten(raw, SHOWN_MAX))
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
mod tests {
    use super::*;

    #[test]
    fn three_manglings_and_none() {
        assert_eq!(demangle("_ZN5space3fooEibc"), "space::foo(int, bool, char)");
        assert_eq!(demangle("_ZN4core3ptr4drop17h0123456789abcdefE"), "core::ptr::drop");
        assert_eq!(demangle("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(demangle("malloc"), "malloc");
        assert_eq!(demangle("_Znwm"), "operator new(unsigned long)");
        assert_eq!(demangle("_Z3foov.cold"), "foo() [clone .cold]");
        assert_eq!(demangle("_Zbroken"), "_Zbroken");
    }

    #[test]
    fn long_names_are_cut_at_a_character() {
        let long = "é".repeat(5000);
        let shown = demangle(&long);
        assert!(shown.len() <= SHOWN_MAX + 3, "{}", shown.len());
        assert!(shown.ends_with('…'));
    }

    #[test]
    fn a_name_that_would_explode_is_cut() {
        // Each step doubles the text: substitutions refer to the pair before.
        let mut name = String::from("_Z1f1XIiiE");
        for step in 0..40 {
            let id = if step == 0 { "S_".to_owned() } else { format!("S{}_", base36(step - 1)) };
            name.push_str(&format!("1XI{id}{id}E"));
        }
        let shown = demangle(&name);
        assert!(shown.len() <= SHOWN_MAX + 3);
    }

    fn base36(n: usize) -> String {
        char::from_digit(n as u32 % 36, 36).map(|c| c.to_ascii_uppercase().to_string()).unwrap_or_default()
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        for piece in ["P", "F", "N", "I", "St", "X", "dl", "K", "A_", "Dp", "J"] {
            let name = format!("_Z1f{}", piece.repeat(MANGLED_MAX / (2 * piece.len())));
            let _ = demangle(&name);
            let rust = format!("_R{}", piece.repeat(MANGLED_MAX / (2 * piece.len())));
            let _ = demangle(&rust);
        }
        let _ = demangle(&format!("_RNv{}", "Nv".repeat(4000)));
        let _ = demangle(&format!("_RMC0{}", "R".repeat(8000)));
    }
}
