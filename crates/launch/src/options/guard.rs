//! What the guard is asked for, from what a person types.

use std::ffi::{OsStr, OsString};

use std::os::unix::ffi::OsStrExt;

use heapledger_format::session::guard::{self, Every};
use heapledger_format::session::{DEPTH_LIMIT, guard_by};

use super::{count, one_of, size, text};

/// Units of time, in milliseconds.
const UNITS: [(&str, u64); 3] = [("ms", 1), ("s", 1000), ("m", 60_000)];

pub(super) fn level(value: &OsStr) -> Result<OsString, String> {
    if guard::one_in(value.as_bytes()).is_some() {
        return Ok(value.to_owned());
    }
    one_of(&guard::ALL, value).map_err(|problem| format!("{problem}, {}N", guard::PAGE_ONE_IN))
}

pub(super) fn by(value: &OsStr) -> Result<OsString, String> {
    one_of(&guard_by::ALL, value)
}

/// `1000`, `50ms`, `2s`.
pub(super) fn check_every(value: &OsStr) -> Result<OsString, String> {
    let text = text(value)?;
    let problem = || format!("'{text}' is neither a number of allocations nor a time such as 50ms or 1s");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).filter(|unit| !unit.is_empty());
    let read = match unit {
        None => text.to_owned(),
        Some(unit) => {
            let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(problem)?;
            let number: u64 = digits.parse().map_err(|_| problem())?;
            format!("{}{}", number.saturating_mul(*factor), guard::MILLISECONDS)
        }
    };
    Every::parse(read.as_bytes()).map(|_| read.into()).ok_or_else(problem)
}

/// `ce`, `0xCE`, `off`.
pub(super) fn fill(value: &OsStr) -> Result<OsString, String> {
    let text = text(value)?;
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let fits = guard::parse_fill(digits.as_bytes()).is_some();
    fits.then(|| digits.into()).ok_or_else(|| format!("'{text}' is neither a byte such as ce nor {}", guard::NO_FILL))
}

pub(super) fn quarantine_blocks(value: &OsStr) -> Result<OsString, String> {
    let checked = count(value)?;
    let number: u64 = text(&checked)?.parse().unwrap_or(u64::MAX);
    match number <= guard::QUARANTINE_BLOCKS {
        true => Ok(checked),
        false => Err(format!("at most {} freed blocks wait", guard::QUARANTINE_BLOCKS)),
    }
}

pub(super) fn redzone(value: &OsStr) -> Result<OsString, String> {
    let checked = size(value)?;
    let bytes: u64 = text(&checked)?.parse().unwrap_or(u64::MAX);
    match bytes <= guard::REDZONE_MAX {
        true => Ok(checked),
        false => Err(format!("at most {} bytes are watched on each side", guard::REDZONE_MAX)),
    }
}

pub(super) fn align(value: &OsStr) -> Result<OsString, String> {
    let checked = count(value)?;
    let number: u64 = text(&checked)?.parse().unwrap_or(0);
    match number.is_power_of_two() && number <= guard::ALIGN {
        true => Ok(checked),
        false => Err(format!("blocks are aligned to 1, 2, 4, 8 or {} bytes", guard::ALIGN)),
    }
}

pub(super) fn error_depth(value: &OsStr) -> Result<OsString, String> {
    let checked = count(value)?;
    let number: u64 = text(&checked)?.parse().unwrap_or(0);
    match (1..=DEPTH_LIMIT).contains(&number) {
        true => Ok(checked),
        false => Err(format!("the depth of an error's stack is 1 to {DEPTH_LIMIT}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_types_is_read() {
        type Read = fn(&OsStr) -> Result<OsString, String>;
        let cases: [(Read, &str, Option<&str>); 33] = [
            (level, "full", Some("full")),
            (error_depth, "512", Some("512")),
            (align, "1", Some("1")),
            (align, "3", None),
            (align, "32", None),
            (error_depth, "0", None),
            (error_depth, "513", None),
            (level, "heavy", None),
            (level, "page=both", Some("page=both")),
            (level, "page=1/1000", Some("page=1/1000")),
            (level, "page=1/0", None),
            (by, "advice", Some("advice")),
            (check_every, "1000", Some("1000")),
            (check_every, "50ms", Some("50ms")),
            (check_every, "2s", Some("2000ms")),
            (check_every, "1m", Some("60000ms")),
            (check_every, "0", None),
            (check_every, "0ms", None),
            (check_every, "5h", None),
            (check_every, "s", None),
            (check_every, "-1", None),
            (check_every, "99999999999999999999s", None),
            (fill, "ce", Some("ce")),
            (fill, "0xA5", Some("A5")),
            (fill, "off", Some("off")),
            (fill, "206", None),
            (fill, "", None),
            (quarantine_blocks, "0", Some("0")),
            (quarantine_blocks, "1048577", None),
            (redzone, "2K", Some("2048")),
            (redzone, "2049", None),
            (redzone, "64", Some("64")),
            (redzone, "wide", None),
        ];
        for (read, typed, expected) in cases {
            assert_eq!(read(OsStr::new(typed)).ok().as_deref(), expected.map(OsStr::new), "{typed}");
        }
    }
}
