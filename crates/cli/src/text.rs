//! What a person types, and can type again.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

const SPAN_MIN: Duration = Duration::from_millis(10);
const SPAN_MAX: Duration = Duration::from_secs(3_600_000);

const SPANS: &[(&str, f64)] = &[("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("min", 60.0), ("h", 3600.0), ("", 1.0)];

/// A span of time from `500ms`, `10s`, `1.5m`, `2h`; a number alone is seconds.
pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    let problem = || format!("'{text}' is not a time such as 500ms, 10s or 1m");
    let digits = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.trim().get(digits.len()..).unwrap_or_default();
    let seconds = SPANS.iter().find(|(name, _)| *name == unit).ok_or_else(problem)?.1;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = digits.parse().ok().filter(|_| plain).ok_or_else(problem)?;
    match Duration::try_from_secs_f64(number * seconds) {
        Ok(span) if (SPAN_MIN..=SPAN_MAX).contains(&span) => Ok(span),
        _ => Err(format!("'{text}' is not between 10ms and 1000h")),
    }
}

/// An argument as it can be typed into a shell again.
pub(crate) fn shell(argument: &std::path::Path) -> String {
    let text = argument.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    let bytes = argument.as_os_str().as_bytes();
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else if std::str::from_utf8(bytes).is_err() || text.chars().any(heapledger_report::steers) {
        // Bytes that cannot be shown, as bash, zsh and ksh read them.
        let letter = |byte: &u8| match byte {
            b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
            b' '..=b'~' => char::from(*byte).to_string(),
            other => format!("\\{other:03o}"),
        };
        format!("$'{}'", bytes.iter().map(letter).collect::<String>())
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// The text without ` (os error 28)`, which the standard library puts behind what the system says.
pub(crate) fn without_numbers(text: &str) -> String {
    const BEGIN: &str = " (os error ";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let (before, behind) = rest.split_at(at);
        out += before;
        let number = behind.get(BEGIN.len()..).unwrap_or_default();
        let digits = number.len() - number.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        match number.get(digits..).and_then(|end| end.strip_prefix(')')) {
            Some(end) if digits > 0 => rest = end,
            _ => {
                out += BEGIN;
                rest = number;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn numbers_of_errors_are_left_out() {
        for (text, left) in [
            ("No space left on device (os error 28)", "No space left on device"),
            ("a (os error 1): b (os error 22)c", "a: bc"),
            ("x (os error )", "x (os error )"),
            ("x (os error 1", "x (os error 1"),
            ("", ""),
        ] {
            assert_eq!(without_numbers(text), left);
        }
    }

    #[test]
    fn spans_are_read() {
        for (text, ms) in [("500ms", 500), ("10s", 10_000), ("10", 10_000), ("1.5m", 90_000), ("2h", 7_200_000)] {
            assert_eq!(parse_span(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1s", "1x", "1e3s", "0", "1ms", "inf", "nan", "9999999h", "1 2", "1..2"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_shown_can_be_typed() {
        assert_eq!(shell(Path::new("a/b.c-1")), "a/b.c-1");
        assert_eq!(shell(Path::new("a b'c")), r"'a b'\''c'");
        assert_eq!(shell(Path::new("")), "''");
        assert_eq!(shell(Path::new("a\x1b[1m'\u{9b}b c")), r"$'a\033[1m\'\302\233b c'");
        let odd: &std::ffi::OsStr = OsStrExt::from_bytes(b"caf\xe9");
        assert_eq!(shell(Path::new(odd)), r"$'caf\351'");
    }
}
