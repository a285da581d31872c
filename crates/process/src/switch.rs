//! Off, paused, on: the one word that says what is recorded.
//!
//! Every hook looks at it. It lies in a page that the kernel wipes in forked children, so that a child is off from its first
//! instruction on; stopping, pausing, and beginning paused change the same word.
//!
//! - **On**: blocks are entered, and taken out when they end.
//! - **Paused**: blocks that are allocated pass by: they are not entered, and not counted, neither as allocations nor as losses.
//!   Blocks of the ledger are followed: their frees are booked, with time and stack, as ever. A `realloc` ends such a block, and
//!   what it gives passes by; if it fails, the block stays. So the ledger never says of a block that it lives when it does
//!   not, and totals still agree: allocations − frees = records.
//! - **Off**: nothing is followed. What is in the ledger may be gone, so nobody can go on from here: only a forked child may
//!   [begin anew](crate::anew), with a ledger of its own.
//!
//! Blocks that passed by are freed sooner or later, while paused or afterwards. The ledger does not know them, and no free of an
//! unknown block tells of something lost from the first pause on: they are no longer counted.
//!
//! A call that began before the word changed ends by what the word says then. Whoever pauses therefore knows of other threads'
//! calls what one ever knows of them: that they were before or after. (`e2e/tests/pauses.rs` does it to a real program.)
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, Ordering};
use heapledger_linux::fork::ForkWord;
use heapledger_linux::syscall::{self, Errno};

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Recording {
    /// Nothing.
    Off = 0,
    /// Ends of blocks that are in the ledger.
    Paused = 0x5041_5553,
    /// Blocks, and their ends.
    On = 0x4C45_4447,
}

impl Recording {
    /// What a word says.
    pub(crate) fn of(word: u32) -> Recording {
        match word {
            on if on == Recording::On as u32 => Recording::On,
            paused if paused == Recording::Paused as u32 => Recording::Paused,
            _ => Recording::Off,
        }
    }
}

/// The word.
pub struct Switch {
    word: ForkWord,
    /// It began late, or was paused.
    was_paused: AtomicBool,
    has_paused: AtomicBool,
}

impl Switch {
    /// Off.
    pub const fn new() -> Switch {
        Switch { word: ForkWord::new(), was_paused: AtomicBool::new(false), has_paused: AtomicBool::new(false) }
    }

    /// For the first time in this process, to paused or on; late if blocks were allocated before, which passed by.
    ///
    /// # Errors
    /// If there is no memory for the word, or the kernel cannot keep it from children.
    pub(crate) fn start(&self, recording: Recording, is_late: bool) -> Result<(), Errno> {
        self.has_paused.store(recording != Recording::On, Ordering::Relaxed);
        self.was_paused.store(is_late || recording != Recording::On, Ordering::Relaxed);
        self.word.start(recording as u32)
    }

    /// In a forked child: goes on with the page of its parent's, where it reads off.
    pub(crate) fn take_from(&self, parents: &Switch) {
        self.word.take_from(&parents.word);
    }

    /// The calling process is the one that records, from its beginning on, and when recording has stopped.
    pub(crate) fn owns(&self) {
        self.word.note(syscall::getpid());
    }

    /// The number of the process that has begun to record; 0 in a forked child, which may have the same number in a namespace of its own.
    pub(crate) fn owner(&self) -> u32 {
        self.word.noted()
    }

    /// Whether the calling process has begun to record. A child that shares our memory (`vfork`) is told by its number.
    pub(crate) fn is_owned(&self) -> bool {
        match self.owner() {
            0 => false,
            owner => owner == syscall::getpid(),
        }
    }

    /// What is recorded at this moment.
    pub fn get(&self) -> Recording {
        Recording::of(self.word.get())
    }

    /// Whether blocks are entered.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.word.is(Recording::On as u32)
    }

    /// Whether blocks of the ledger are followed: on, or paused.
    pub fn follows(&self) -> bool {
        self.get() != Recording::Off
    }

    /// Whether blocks may have passed by.
    pub fn was_paused(&self) -> bool {
        self.was_paused.load(Ordering::Relaxed)
    }

    /// Whether it was ever paused since it began.
    pub(crate) fn has_paused(&self) -> bool {
        self.has_paused.load(Ordering::Relaxed)
    }

    /// From on to paused. False if it was not on.
    pub fn pause(&self) -> bool {
        // Before, so that no block passes by that is not told of.
        let is_on = self.is_on();
        if is_on {
            self.has_paused.store(true, Ordering::Release);
            self.was_paused.store(true, Ordering::Release);
        }
        is_on && self.word.change(Recording::On as u32, Recording::Paused as u32)
    }

    /// From paused to on. False if it was not paused.
    pub fn resume(&self) -> bool {
        self.word.change(Recording::Paused as u32, Recording::On as u32)
    }

    /// Off for good.
    pub(crate) fn stop(&self) {
        self.word.clear();
    }
}

impl Default for Switch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_goes_on_from_off() {
        let switch = Switch::new();
        assert_eq!((switch.get(), switch.pause(), switch.resume()), (Recording::Off, false, false));
        switch.start(Recording::Paused, false).expect("a page");
        assert!(switch.follows() && !switch.is_on() && switch.was_paused());
        assert!(!switch.pause() && switch.resume() && !switch.resume() && switch.is_on());
        assert!(switch.pause() && switch.get() == Recording::Paused);
        switch.stop();
        assert_eq!((switch.get(), switch.pause(), switch.resume()), (Recording::Off, false, false));
        let on = Switch::new();
        on.start(Recording::On, false).expect("a page");
        assert!(on.is_on() && !on.was_paused() && on.pause() && on.was_paused());
    }
}
