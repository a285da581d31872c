//! What is asked of the [guard](crate::guarded).
#![forbid(unsafe_code)]

use crate::guarded::{Level, Sides};
use heapledger_format::session::guard::{self, Every};
use heapledger_format::session::{DEPTH_LIMIT, Key, QUARANTINE_BYTES, guard_by};
use heapledger_linux::text::{self, Text};

/// How blocks are guarded, and what becomes of the program when something is wrong with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarding {
    /// What is put beside blocks.
    pub level: Level,
    /// At which end of a block closed pages stand.
    pub sides: Sides,
    /// With [`Level::Sampled`]: one block in so many.
    pub one_in: u32,
    /// Bytes of pages of live blocks; `None`: what is usual.
    pub memory_bytes: Option<u64>,
    /// Pages are closed by their protection, even where the kernel has something better.
    pub by_protection: bool,
    /// Bytes that freed blocks take which wait, where they do, with what is kept of them.
    pub quarantine_bytes: u64,
    /// Blocks that wait at most.
    pub quarantine_blocks: u64,
    /// When blocks are looked at, beside when they end.
    pub check_every: Every,
    /// What new blocks are filled with, where they are.
    pub fill_new: Option<u8>,
    /// What freed ones are filled with.
    pub fill_freed: Option<u8>,
    /// So many bytes of a block are filled at most.
    pub fill_bytes: u64,
    /// Bytes on both sides of blocks at least, where they lie apart; 0: as usual.
    pub redzone: u64,
    /// What blocks at closed pages are aligned to at least, if nothing else is asked for; `None`: as all blocks are.
    pub align: Option<u64>,
    /// The program ends with the first error.
    pub halts: bool,
    /// Most frames of the stack of a call or an access that is an error; `None`: all of them.
    pub error_depth: Option<u64>,
    /// Blocks may have been handed out before it began.
    pub begins_late: bool,
    /// Somebody reads the ledger's errors, and tells the person.
    pub has_reader: bool,
}

impl Guarding {
    /// Nothing.
    pub const fn none() -> Guarding {
        Guarding {
            level: Level::Off,
            sides: Sides::Behind,
            one_in: 0,
            memory_bytes: None,
            by_protection: false,
            quarantine_bytes: 0,
            quarantine_blocks: 0,
            check_every: Every::Never,
            fill_new: None,
            fill_freed: None,
            fill_bytes: 0,
            redzone: 0,
            align: None,
            halts: false,
            error_depth: None,
            begins_late: false,
            has_reader: false,
        }
    }

    /// What nobody has changed.
    pub const fn usual() -> Guarding {
        Guarding {
            quarantine_bytes: QUARANTINE_BYTES,
            quarantine_blocks: guard::QUARANTINE_BLOCKS,
            fill_new: Some(guard::FILL_NEW),
            fill_freed: Some(guard::FILL_FREED),
            fill_bytes: guard::FILL_BYTES,
            ..Guarding::none()
        }
    }

    /// Sets what its [key](Key::Guard) says. `None` if nobody knows what that is.
    fn set_level(&mut self, value: &[u8]) -> Option<()> {
        if let Some(one_in) = guard::one_in(value) {
            (self.level, self.sides, self.one_in) = (Level::Sampled, Sides::Both, one_in);
            return Some(());
        }
        let (_, level, sides) = Level::NAMES.iter().find(|(known, ..)| known.as_bytes() == value)?;
        (self.level, self.sides) = (*level, *sides);
        Some(())
    }

    /// What it was set with.
    pub fn value(&self) -> Text<24> {
        let mut text = Text::new();
        if self.level == Level::Sampled {
            text.push(guard::PAGE_ONE_IN.as_bytes()).push_number(u64::from(self.one_in));
            return text;
        }
        let known = Level::NAMES.iter().find(|(_, level, sides)| *level == self.level && *sides == self.sides);
        text.push(known.map_or("", |(name, ..)| name).as_bytes());
        text
    }

    /// Takes over a value of the variable. `None` if it makes no sense, or the key is none of the guard's.
    pub(crate) fn set(&mut self, key: Key, value: &[u8]) -> Option<()> {
        let at_most = |most: u64| text::number(value).filter(|number| *number <= most);
        match key {
            Key::Guard => self.set_level(value)?,
            Key::GuardMemory => self.memory_bytes = Some(text::number(value)?),
            Key::GuardBy => {
                let is = |name: &str| value == name.as_bytes();
                guard_by::ALL.into_iter().any(is).then_some(())?;
                self.by_protection = is(guard_by::PROTECTION);
            }
            Key::Quarantine => self.quarantine_bytes = text::number(value)?,
            Key::QuarantineBlocks => self.quarantine_blocks = at_most(guard::QUARANTINE_BLOCKS)?,
            Key::CheckEvery => self.check_every = Every::parse(value)?,
            Key::FillNew => self.fill_new = guard::parse_fill(value)?,
            Key::FillFreed => self.fill_freed = guard::parse_fill(value)?,
            Key::FillBytes => self.fill_bytes = text::number(value)?,
            Key::Redzone => self.redzone = at_most(guard::REDZONE_MAX)?,
            Key::HaltOnError => self.halts = at_most(1)? == 1,
            Key::GuardAlign => self.align = Some(at_most(guard::ALIGN).filter(|align| align.is_power_of_two())?),
            Key::ErrorDepth => self.error_depth = Some(at_most(DEPTH_LIMIT)?.max(1)),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Request;

    #[test]
    fn a_level_is_called_what_it_was_asked_for_by() {
        for value in [&b"off"[..], b"light", b"full", b"page", b"page=under", b"page=both", b"page=1/7"] {
            let mut guard = Guarding::none();
            assert_eq!(guard.set(Key::Guard, value).map(|()| guard.value().bytes().to_vec()), Some(value.to_vec()));
        }
    }

    #[test]
    fn each_key_changes_its_value_and_nonsense_none() {
        let (of, usual) = (|items: &[u8]| Request::parse(items).guard, Guarding::usual());
        assert_eq!(of(b""), usual);
        for (items, expected) in [
            (&b"guard=light"[..], Guarding { level: Level::Light, ..usual }),
            (b"guard=full,quarantine=7", Guarding { level: Level::Full, quarantine_bytes: 7, ..usual }),
            (b"quarantine-blocks=0", Guarding { quarantine_blocks: 0, ..usual }),
            (b"check-every=9", Guarding { check_every: Every::Allocations(9), ..usual }),
            (b"check-every=50ms", Guarding { check_every: Every::Ms(50), ..usual }),
            (b"fill-new=off,fill-freed=A5", Guarding { fill_new: None, fill_freed: Some(0xA5), ..usual }),
            (b"fill-bytes=0,redzone=2048", Guarding { fill_bytes: 0, redzone: 2048, ..usual }),
            (b"halt-on-error=1", Guarding { halts: true, ..usual }),
            (b"guard-align=1", Guarding { align: Some(1), ..usual }),
            (b"error-depth=0", Guarding { error_depth: Some(1), ..usual }),
            (b"error-depth=512", Guarding { error_depth: Some(512), ..usual }),
            (
                b"guard=page=under,guard-memory=9,guard-by=protection",
                Guarding {
                    level: Level::Page,
                    sides: Sides::Before,
                    memory_bytes: Some(9),
                    by_protection: true,
                    ..usual
                },
            ),
            (b"guard=page=both,guard-by=advice", Guarding { level: Level::Page, sides: Sides::Both, ..usual }),
            (b"guard=page=1/1000", Guarding { level: Level::Sampled, sides: Sides::Both, one_in: 1000, ..usual }),
        ] {
            assert_eq!(of(items), expected, "{}", core::str::from_utf8(items).expect("text"));
        }
        for nonsense in [
            &b"guard=heavy"[..],
            b"guard=page=over",
            b"guard=page=1/0",
            b"guard=page=1/x",
            b"guard-by=magic",
            b"check-every=0",
            b"check-every=ms",
            b"check-every=5s",
            b"fill-new=+1",
            b"fill-freed=ce1",
            b"redzone=2049",
            b"quarantine-blocks=1048577",
            b"halt-on-error=2",
            b"error-depth=513",
            b"guard-align=3",
            b"guard-align=32",
            b"guard-align=0",
        ] {
            let request = Request::parse(nonsense);
            assert_eq!((request.unknown.bytes(), request.guard), (nonsense, usual));
        }
    }
}
