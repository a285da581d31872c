//! Something to be done when a program has entered an error.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use heapledger_format::errors::{ERROR_BYTES_MAX, ErrorEntry, ErrorKind};

use crate::keep::Keeper;

/// Between two looks at how many errors there are, at most. A look reads the header of the ledger, and nothing else as long as
/// there are none. What costs is to wake up for it: where somebody woke for something else after half of it, it is looked then.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Errors of a program that nobody has been told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// Its ledger.
    pub path: PathBuf,
    /// The first row.
    pub from: u64,
    /// The row behind the last one.
    pub to: u64,
}

/// Whoever tells a person of them.
pub trait Teller {
    /// Tells of these; should not take long. Says whether it has taken them: else it is told of them again.
    fn tell(&mut self, entered: &Entered) -> bool;

    /// Comes back when all is told that was taken.
    fn wait(&mut self);
}

/// Looks at what a program enters.
pub struct Reports<'a> {
    is_on: bool,
    next_look: Instant,
    /// Which program of the process it is, and how many of its rows have been told of.
    image: u32,
    told: u64,
    teller: &'a mut dyn Teller,
}

impl<'a> Reports<'a> {
    /// `teller` is called from [`crate::wait::Running::wait`], which has other things to do.
    pub fn new(is_on: bool, teller: &'a mut dyn Teller) -> Reports<'a> {
        Reports { is_on, next_look: Instant::now(), image: 0, told: 0, teller }
    }

    /// How long nothing need be looked at; `None`: nothing ever.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.is_on.then(|| self.next_look.saturating_duration_since(Instant::now()))
    }

    /// Looks, if it is time.
    pub(crate) fn look(&mut self, keeper: &Keeper) {
        let now = Instant::now();
        if self.is_on && now + LOOK_EVERY / 2 >= self.next_look {
            self.next_look = now + LOOK_EVERY;
            self.look_now(keeper, false);
        }
    }

    /// Looks for the last time: the program has ended, and what is not whole by now will never be.
    pub fn end(&mut self, keeper: &mut Keeper) {
        if self.is_on {
            keeper.look();
            self.teller.wait();
            self.look_now(keeper, true);
            self.teller.wait();
        }
    }

    fn look_now(&mut self, keeper: &Keeper, has_ended: bool) {
        let Some(kept) = keeper.newest() else { return };
        if kept.live.image != self.image {
            (self.image, self.told) = (kept.live.image, 0);
        }
        let Some((section, codec)) = kept.errors() else { return };
        let (mut to, mut wrong) = (self.told, false);
        while to < section.used.min(section.backed) {
            let mut element = vec![0; usize::from(section.element_bytes).min(ERROR_BYTES_MAX)];
            let at = section.offset.saturating_add(to.saturating_mul(section.element_bytes.into()));
            let error = kept.read(&mut element, at).and_then(|()| ErrorEntry::read(codec, &element));
            match error {
                // It is being written.
                None if !has_ended => break,
                None => {}
                Some(error) => wrong |= !ErrorKind::is_failed_call(error.kind),
            }
            to += 1;
        }
        let path = kept.live.path.clone();
        if !wrong || self.teller.tell(&Entered { path, from: self.told, to }) {
            self.told = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live;
    use heapledger_format::SectionKind;
    use heapledger_format::bytes::{ByteOrder, WordSize};
    use heapledger_testing::everything;

    #[test]
    fn what_was_told_once_is_not_told_again() {
        let base = std::env::temp_dir().join(format!("heapledger-entered-{}", std::process::id()));
        let directory = live::directory_in(&base);
        let _ = std::fs::remove_dir_all(&base);
        std::fs::create_dir_all(&base).expect("a directory");
        live::make(&directory).expect("made");
        const SESSION: &str = "0123456789abcdef";
        let mut keeper = Keeper::new(&base, SESSION);
        // An overflow, and a call that gave no block.
        let path = directory.join(format!("{SESSION}-0.hlive"));
        let bytes = everything(ByteOrder::Little, WordSize::W64).bytes();
        let header = heapledger_format::Header::parse(&bytes).expect("a header");
        assert_eq!(header.section(SectionKind::Errors as u16).map(|row| row.used), Some(2));
        std::fs::write(&path, bytes).expect("written");
        keeper.look();
        #[derive(Default)]
        struct Notes {
            told: Vec<Entered>,
            takes: bool,
        }
        impl Teller for Notes {
            fn tell(&mut self, entered: &Entered) -> bool {
                self.told.push(entered.clone());
                self.takes
            }

            fn wait(&mut self) {}
        }
        let mut notes = Notes::default();
        for (round, expected) in [(0, 1), (1, 2), (2, 2)] {
            let mut reports = Reports::new(true, &mut notes);
            reports.told = if round == 2 { 2 } else { 0 };
            reports.end(&mut keeper);
            assert_eq!(reports.told, if round == 0 { 0 } else { 2 });
            notes.takes = true;
            assert_eq!(notes.told.len(), expected);
        }
        assert_eq!(notes.told[1], Entered { path, from: 0, to: 2 });
        Reports::new(false, &mut notes).end(&mut keeper);
        assert_eq!(notes.told.len(), 2, "nothing is looked at");
        let _ = std::fs::remove_dir_all(&base);
    }
}
