//! What a library for one firmware is built for: words of the environment variable `HEAPLEDGER_FIXED`, read when it is compiled.
//!
//! Each is a key, `=`, and a number: `records=100 sites=512 depth=5`. What is left out is 0, and not recorded.
#![forbid(unsafe_code)]

use heapledger::chip::{Clock, Config};

/// What can be said: see `docs/firmware.md`.
pub const KEYS: [&str; 13] = [
    "records",
    "sites",
    "depth",
    "history",
    "tasks",
    "largest",
    "clock_bits",
    "tick_ns",
    "warn_records",
    "actual_sizes",
    "stack",
    "own_stack_end",
    "own_lock",
];

/// `stack`: the address behind the call.
pub const CALLER: u32 = 0;
/// Along frame pointers.
pub const FRAME_POINTERS: u32 = 1;
/// By return addresses on the stack.
pub const SCAN: u32 = 2;

/// What stands behind `key=`, at the beginning of a word.
const fn behind<'t>(text: &'t [u8], key: &[u8]) -> Option<&'t [u8]> {
    let (mut left, mut wanted) = (text, key);
    loop {
        match (left, wanted) {
            ([b'=', value @ ..], []) => return Some(value),
            ([found, rest @ ..], [next, others @ ..]) if *found == *next => (left, wanted) = (rest, others),
            _ => match next_word(left) {
                [] => return None,
                word => (left, wanted) = (word, key),
            },
        }
    }
}

/// What stands behind the next space.
const fn next_word(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text {
        text = rest;
        if *first == b' ' {
            break;
        }
    }
    text
}

/// The number that a text begins with, up to a space. `None`: that is no number, or too large a one.
const fn number(mut text: &[u8]) -> Option<u32> {
    let (mut number, mut is_one) = (0u32, false);
    while let [digit, rest @ ..] = text {
        if *digit == b' ' {
            break;
        }
        if !digit.is_ascii_digit() {
            return None;
        }
        let (Some(tens), ones) = (number.checked_mul(10), digit.wrapping_sub(b'0') as u32) else { return None };
        let Some(sum) = tens.checked_add(ones) else { return None };
        (number, is_one, text) = (sum, true, rest);
    }
    if is_one { Some(number) } else { None }
}

/// Whether each word is one of [`KEYS`], with a number.
pub const fn is_understood(text: &str) -> bool {
    let mut left = text.as_bytes();
    while let [first, rest @ ..] = left {
        if *first == b' ' {
            left = rest;
            continue;
        }
        let (mut keys, mut is_known) = (KEYS.as_slice(), false);
        while let [key, others @ ..] = keys {
            // (A later word may be found for it: then this one is not known by another key either.)
            if let Some(value) = behind(left, key.as_bytes())
                && left.len().wrapping_sub(value.len()) == key.len().wrapping_add(1)
                && number(value).is_some()
            {
                is_known = true;
            }
            keys = others;
        }
        if !is_known {
            return false;
        }
        left = next_word(left);
    }
    true
}

/// The number of a key; 0 if it is not there.
pub const fn said(text: &str, key: &str) -> u32 {
    match behind(text.as_bytes(), key.as_bytes()) {
        Some(value) => match number(value) {
            Some(number) => number,
            None => 0,
        },
        None => 0,
    }
}

/// What is recorded.
pub const fn config(text: &str) -> Config<'static> {
    let clock_bits = said(text, "clock_bits");
    let largest = said(text, "largest");
    let minimal = Config::minimal(said(text, "records"), said(text, "sites"));
    Config {
        depth: match said(text, "depth") {
            0 => 8,
            depth if depth > 0xFFFF => u16::MAX,
            depth => depth as u16,
        },
        history: said(text, "history"),
        tasks: said(text, "tasks"),
        largest_bytes: if largest == 0 { 0xFFFE } else { largest as u64 },
        clock: if clock_bits == 0 {
            None
        } else {
            Some(Clock { tick_ns: said(text, "tick_ns"), bits: if clock_bits > 32 { 33 } else { clock_bits as u8 } })
        },
        warn_records: said(text, "warn_records"),
        actual_sizes: said(text, "actual_sizes") != 0,
        ..minimal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_wherever_they_stand() {
        let text = " sites=512  records=100 tick_ns=4294967295 ";
        assert!(is_understood(text));
        assert_eq!(said(text, "records"), 100);
        assert_eq!(said(text, "sites"), 512);
        assert_eq!(said(text, "tick_ns"), u32::MAX);
        assert_eq!(said(text, "history"), 0);
        // No key is the beginning or the end of another word.
        assert_eq!(said("warn_records=7", "records"), 0);
        assert_eq!(said("records_=7", "records"), 0);
    }

    #[test]
    fn what_is_not_understood_is_known() {
        for text in [
            "record=100",
            "records",
            "records=",
            "records=x",
            "records=1x",
            "records=4294967296",
            "records=99999999999999999999",
            "records=1,sites=2",
            "sites=2 recordsrecords=1",
            "foo records=1",
        ] {
            assert!(!is_understood(text), "{text}");
        }
        for text in ["", "records=1", "records=1 sites=2"] {
            assert!(is_understood(text), "{text}");
        }
    }

    #[test]
    fn all_that_is_said_is_in_the_configuration() {
        let said = config(
            "records=100 sites=200 depth=12 history=3 tasks=4 largest=1048574 clock_bits=24 tick_ns=40 warn_records=80 actual_sizes=1",
        );
        let clock = Some(Clock { tick_ns: 40, bits: 24 });
        let expected = Config {
            depth: 12,
            history: 3,
            tasks: 4,
            largest_bytes: 1_048_574,
            clock,
            warn_records: 80,
            actual_sizes: true,
            ..Config::minimal(100, 200)
        };
        assert_eq!(said, expected);
        assert_eq!(config("records=1"), Config { depth: 8, largest_bytes: 0xFFFE, ..Config::minimal(1, 0) });
        // What a ledger cannot hold is refused where it is compiled.
        assert!(config("records=1 clock_bits=99").check().is_err());
        assert!(config("records=1 depth=65537").check().is_err());
    }
}
