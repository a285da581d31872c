//! Names in formats that are lines of text, and texts in JSON.

use std::borrow::Cow;
use std::io::{self, Write};

/// A text without letters that mean something in a format; `in_place` stands for them.
pub(crate) fn without<'t>(text: &'t str, taken: &[char], in_place: &str) -> Cow<'t, str> {
    if text.contains(taken) { text.replace(taken, in_place).into() } else { text.into() }
}

/// A text as a string of JSON.
pub(crate) fn json(out: &mut dyn Write, text: &str) -> io::Result<()> {
    serde_json::to_writer(out, text).map_err(io::Error::from)
}

/// The last part of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

/// Writes values with commas between.
pub(crate) fn list<T>(
    out: &mut dyn Write,
    values: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut dyn Write, T) -> io::Result<()>,
) -> io::Result<()> {
    out.write_all(b"[")?;
    for (index, value) in values.into_iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        write(out, value)?;
    }
    out.write_all(b"]")
}

/// Writes values as they are shown, with commas between.
pub(crate) fn shown<T: std::fmt::Display>(out: &mut dyn Write, values: impl IntoIterator<Item = T>) -> io::Result<()> {
    list(out, values, |out, value| write!(out, "{value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_is_replaced_and_nothing_else() {
        assert_eq!(without("a;b", &[';'], ":"), "a:b");
        assert!(matches!(without("a b", &[';'], ":"), Cow::Borrowed(_)));
        assert_eq!((base_name("/a/b.c"), base_name("b.c"), base_name("/a/")), ("b.c", "b.c", "/a/"));
    }
}
