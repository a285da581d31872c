//! What fields are compared with: how it is read, and how it is written.

use std::fmt;

use heapledger_format::Kind;

use super::lex::short;
use super::nearest;
use crate::fields::Type;

/// What a field is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// Bytes, an address, a row, a number.
    Number(u64),
    /// Nanoseconds.
    Span(u64),
    /// Ticks of the ledger's clock.
    Ticks(u64),
    /// A name, or a pattern of names.
    Text(String),
    /// Yes or no.
    YesNo(bool),
}

const SIZES: &[(&str, u32)] =
    &[("", 0), ("b", 0), ("k", 10), ("m", 20), ("g", 30), ("t", 40), ("kb", 10), ("mb", 20), ("gb", 30), ("tb", 40)];
const SIZES_LONG: &[(&str, u32)] = &[("kib", 10), ("mib", 20), ("gib", 30), ("tib", 40)];

const SPANS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Why a number cannot be read.
pub(crate) type Problem = String;

/// `1.5` times `unit`; less than one is cut off.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 18 {
        return None;
    }
    let whole = u128::from(whole.parse::<u64>().ok()?) * u128::from(unit);
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(unit) / 10u128.pow(fraction.len() as u32);
    u64::try_from(whole + part).ok()
}

/// Digits and what is behind them.
fn parts(text: &str) -> (&str, &str) {
    text.split_at(text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len()))
}

fn hexadecimal(text: &str) -> Option<Option<u64>> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some(u64::from_str_radix(digits, 16).ok().filter(|_| plain))
}

/// Reads `4096`, `4K`, `1.5MiB`, `0x1000`.
pub(crate) fn bytes(text: &str) -> Result<u64, Problem> {
    let wrong = || format!("'{}' is no size; sizes look like 4096, 4K, 1.5M, 2GiB", short(text));
    if let Some(number) = hexadecimal(text) {
        return number.ok_or_else(wrong);
    }
    let (digits, unit) = parts(text);
    let unit = unit.to_ascii_lowercase();
    let shift = SIZES.iter().chain(SIZES_LONG).find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
    // `1.5` without a unit is no number of bytes.
    if shift == 0 && digits.contains('.') {
        return Err(wrong());
    }
    scaled(digits, 1 << shift).ok_or_else(wrong)
}

/// Reads `17`, `0x11`.
pub(crate) fn number(text: &str) -> Result<u64, Problem> {
    let wrong = || format!("'{}' is no whole number", short(text));
    match hexadecimal(text) {
        Some(number) => number.ok_or_else(wrong),
        None => scaled(text, 1).filter(|_| !text.contains('.')).ok_or_else(wrong),
    }
}

/// Reads an address wherever one can be typed: `0x7f1200000010`, or such a number in decimal.
///
/// # Errors
/// What is wrong with it, as a sentence.
pub fn address(text: &str) -> Result<u64, String> {
    number(text).map_err(|_| format!("'{}' is no address; addresses look like 0x7f1200000010", short(text)))
}

/// Reads `10s`, `1.5ms`, `4000ticks`, and 0, which needs no unit.
pub(crate) fn time(text: &str) -> Result<Value, Problem> {
    let (digits, unit) = parts(text);
    let wrong = || {
        format!("'{}' is no time; times look like 10s, 1.5ms, 2h; units are ns us ms s m h d, and ticks", short(text))
    };
    match unit {
        "" if scaled(digits, 1) == Some(0) => Ok(Value::Span(0)),
        "" if scaled(digits, 1).is_some() => {
            Err(format!("this time has no unit: write {digits}s, {digits}ms, …; {digits}ticks for the ledger's own"))
        }
        "tick" | "ticks" => scaled(digits, 1).filter(|_| !digits.contains('.')).map(Value::Ticks).ok_or_else(wrong),
        _ => {
            let ns = SPANS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
            scaled(digits, ns).map(Value::Span).ok_or_else(wrong)
        }
    }
}

/// The name of a function of the malloc family as this project writes it, whether it came as `malloc`, `malloc()` or
/// `operator new[]`.
pub(crate) fn kind(text: &str) -> Result<String, Problem> {
    let plain = |text: &str| {
        let text = text.trim().to_ascii_lowercase();
        let text = text.strip_prefix("operator ").unwrap_or(&text).to_owned();
        let text = text.strip_suffix("()").map_or(text.clone(), str::to_owned);
        text.replace([' ', '_'], "").replace("(nothrow)[]", "[](nothrow)")
    };
    let names = || Kind::ALL.iter().filter_map(|kind| kind.name());
    if let Some(name) = names().find(|name| plain(name) == plain(text)) {
        return Ok(name.to_owned());
    }
    let help = match nearest(text, names()) {
        Some(name) => format!("did you mean '{name}'?"),
        None => "such as malloc, calloc, realloc, new, new[], free, delete".to_owned(),
    };
    Err(format!("'{}' is no function of the malloc family; {help}", short(text)))
}

/// A value of a field of that type, as it can be read again.
pub(crate) struct Shown<'v>(pub(crate) &'v Value, pub(crate) Type);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Value::Number(number), Type::Bytes) => {
                let fits = |(_, shift): &&(&str, u32)| *number != 0 && number.trailing_zeros() >= *shift && *shift > 0;
                match SIZES.iter().take(6).rfind(fits) {
                    Some((unit, shift)) => write!(f, "{}{}", number >> shift, unit.to_ascii_uppercase()),
                    None => write!(f, "{number}"),
                }
            }
            (Value::Number(number), Type::Address) => write!(f, "{number:#x}"),
            (Value::Number(number), _) => write!(f, "{number}"),
            (Value::Span(ns), _) => {
                let fits = |(_, unit): &&(&str, u64)| ns % unit == 0;
                match SPANS.iter().filter(|(name, _)| name.is_ascii() && *name != "min").rfind(fits) {
                    Some((name, unit)) if *ns != 0 => write!(f, "{}{name}", ns / unit),
                    _ => f.write_str("0s"),
                }
            }
            (Value::Ticks(ticks), _) => write!(f, "{ticks}ticks"),
            (Value::Text(text), Type::Event) => f.write_str(text),
            (Value::Text(text), _) => {
                write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            }
            (Value::YesNo(yes), _) => f.write_str(if *yes { "yes" } else { "no" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, is) in [
            ("0", 0),
            ("4096", 4096),
            ("4k", 4096),
            ("4K", 4096),
            ("4KB", 4096),
            ("4KiB", 4096),
            ("1.5M", 3 << 19),
            ("2g", 2 << 30),
            ("0x10", 16),
            ("10b", 10),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(bytes(text), Ok(is), "{text}");
        }
        for text in ["", "K", "1.5", "1..5K", "4X", "1.", ".5K", "0x", "0x+1", "99999999999999999T", "-1", "1e3"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_are_read() {
        for (text, is) in [
            ("0x7f12a4000b20", 0x7f12_a400_0b20),
            ("0X7F12a", 0x7f12a),
            ("0xffffffffffffffff", u64::MAX),
            ("4096", 4096),
            ("007", 7),
            ("0x0", 0),
        ] {
            assert_eq!(address(text), Ok(is), "{text}");
            assert_eq!(number(text), Ok(is), "{text}");
        }
        for text in [
            "",
            "0x",
            "0X",
            "0x+5",
            "+5",
            "-5",
            "0x-5",
            " 5",
            "5 ",
            "0x 5",
            "0x5 ",
            "5.",
            "5.0",
            ".5",
            "5K",
            "5_000",
            "0x5_0",
            "0x0x5",
            "00x5",
            "x5",
            "7f12",
            "0x5g",
            "0b101",
            "0o7",
            "1e3",
            "18446744073709551616",
            "0x10000000000000000",
            "\u{0665}",
            "0x\u{ff15}",
            "main",
            "0x5+1",
            "5,000",
        ] {
            assert!(address(text).is_err() && number(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn times_are_read() {
        for (text, is) in [
            ("10s", Value::Span(10_000_000_000)),
            ("1.5ms", Value::Span(1_500_000)),
            ("2h", Value::Span(7_200_000_000_000)),
            ("3m", Value::Span(180_000_000_000)),
            ("3min", Value::Span(180_000_000_000)),
            ("7µs", Value::Span(7_000)),
            ("0", Value::Span(0)),
            ("4000ticks", Value::Ticks(4000)),
        ] {
            assert_eq!(time(text), Ok(is), "{text}");
        }
        for text in ["", "s", "10", "10 s", "1.5ticks", "10y", "99999999999d", "10M"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert!(time("10").is_err_and(|why| why.contains("no unit")));
    }

    #[test]
    fn functions_of_the_malloc_family_have_several_names() {
        for (text, is) in [
            ("malloc", "malloc"),
            ("malloc()", "malloc"),
            ("operator new[]", "new[]"),
            ("new(nothrow)[]", "new[](nothrow)"),
            ("New", "new"),
            ("free", "free"),
        ] {
            assert_eq!(kind(text).as_deref(), Ok(is), "{text}");
        }
        assert!(kind("mallc").is_err_and(|why| why.contains("'malloc'")));
        assert!(kind("brk").is_err());
    }
}
