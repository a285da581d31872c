//! What the guard is asked for, from what a person types.

use std::ffi::{OsStr, OsString};

use std::os::unix::ffi::OsStrExt;

use heapledger_format::session::guard::{self, Every};
use heapledger_format::session::{DEPTH_LIMIT, Key, guard_by};

use super::{OPTIONS, Settings, count, one_of, size, text};

/// Units of time, in milliseconds.
const UNITS: [(&str, u64); 3] = [("ms", 1), ("s", 1000), ("m", 60_000)];

/// Options that mean something from a level on.
const NEEDS: [(Key, &str); 8] = [
    (Key::CheckEvery, guard::LIGHT),
    (Key::Quarantine, guard::FULL),
    (Key::QuarantineBlocks, guard::FULL),
    (Key::FillNew, guard::FULL),
    (Key::FillFreed, guard::FULL),
    (Key::Redzone, guard::FULL),
    (Key::GuardMemory, guard::PAGE),
    (Key::GuardAlign, guard::PAGE),
];

/// Levels that others are compared with, the lowest first.
const LEVELS: [&str; 4] = [guard::OFF, guard::LIGHT, guard::FULL, guard::PAGE];

impl Settings {
    /// Options that were asked for and do nothing, because blocks are not guarded, or less than that takes: the flag, and the level.
    pub fn idle(&self) -> Vec<(&'static str, &'static str)> {
        let rank = |level: &str| LEVELS.iter().position(|one| *one == level);
        let asked = self.get(Key::Guard).and_then(OsStr::to_str).unwrap_or(guard::OFF);
        // Other forms of closed pages begin with that word.
        let have = rank(asked.split('=').next().unwrap_or(asked));
        let is_idle = |(key, level): &&(Key, &str)| self.get(*key).is_some() && rank(level) > have;
        let flag = |key| OPTIONS.iter().find(|option| option.key == key).map(|option| option.flag);
        NEEDS.iter().filter(is_idle).filter_map(|(key, level)| Some((flag(*key)?, *level))).collect()
    }
}

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
    fn what_does_nothing_at_a_level_is_known() {
        let all = [Key::CheckEvery, Key::Redzone, Key::GuardAlign];
        let rows: [(Option<&str>, &[&str]); 7] = [
            (None, &["check-every", "redzone", "guard-align"]),
            (Some("off"), &["check-every", "redzone", "guard-align"]),
            (Some("light"), &["redzone", "guard-align"]),
            (Some("full"), &["guard-align"]),
            (Some("page"), &[]),
            (Some("page=under"), &[]),
            (Some("page=1/1000"), &[]),
        ];
        for (level, expected) in rows {
            let mut settings = Settings::default();
            level.into_iter().for_each(|level| settings.set(Key::Guard, level.into()));
            assert_eq!(settings.idle(), [], "{level:?}");
            all.iter().for_each(|key| settings.set(*key, "1".into()));
            let idle: Vec<&str> = settings.idle().into_iter().map(|(flag, _)| flag).collect();
            assert_eq!(idle, expected, "{level:?}");
        }
        let mut settings = Settings::default();
        settings.set(Key::GuardMemory, "1".into());
        assert_eq!(settings.idle(), [("guard-memory", "page")]);
    }

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
