//! Sums by call site as words that threads share without a lock: the pure protocol, which knows no ledger.
//!
//! A thread fills entries with what it frees, and adds them to the rows of their call sites later, all that it has filled at once; then
//! it marks each as added. So what was freed of a call site is its row, and the entries that are not marked, at every moment; but for one
//! entry of each thread, which counts twice for a few instructions, or, where a thread has leased one alone, is marked first and counts
//! nowhere until it is added. Nobody waits: a row to which
//! several threads add is added to by locked instructions.
//!
//! # The peak
//!
//! What lived at the peak lives still, or was freed since. So of each row two words tell how much of what was freed had lived then. They
//! hold for one peak; a higher one makes them void. Which value of the peak they hold for is said by one word for all rows, in which each
//! such value gets a [generation](Tagged), and each word carries that of its own amount.
//!
//! Numbers do not tell for all threads together what came before the peak. So each thread has a *cut*: its number when the peak was raised.
//! A thread that has raised it notes its own at once; others do when they next fold their live bytes in, before they do so, because
//! up to then nothing of what they kept to themselves was part of the figure. A thread that has noted none for the present peak has done
//! nothing since.
#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering};
use heapledger_format::sums::Tagged;

/// The words of a row: call site plus 1, blocks, bytes, temporary blocks, blocks at the peak, bytes at the peak, bytes of temporary
/// blocks, and one that is not used.
pub type SumWords = [AtomicU64; 8];
/// The words of a thread's cut: its number, and the peak in bytes plus 1.
pub type CutWords = [AtomicU64; 2];

/// What was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Freed {
    /// Blocks.
    pub blocks: u64,
    /// Bytes asked for in these.
    pub bytes: u64,
    /// Whether they were freed at once.
    pub is_temporary: bool,
}

#[inline(always)]
fn add(word: &AtomicU64, amount: u64, is_alone: bool) {
    if is_alone {
        word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    } else {
        word.fetch_add(amount, Ordering::Relaxed);
    }
}

/// Adds to a row. `is_alone`: nobody else adds to it.
#[inline(always)]
pub fn add_freed(row: &SumWords, freed: Freed, is_alone: bool) {
    let [_, blocks, bytes, temporary_blocks, _, _, temporary_bytes, _] = row;
    add(blocks, freed.blocks, is_alone);
    add(bytes, freed.bytes, is_alone);
    if freed.is_temporary {
        add(temporary_blocks, freed.blocks, is_alone);
        add(temporary_bytes, freed.bytes, is_alone);
    }
}

/// Marks an entry as added to its row, in the word that says so.
#[inline(always)]
pub fn mark(word: &AtomicU64, marked: u64) {
    // Who sees the mark sees it in the row.
    word.store(marked, Ordering::Release);
}

/// Adds to what had lived at the peak of this generation; not, if there is a later one.
#[inline(always)]
pub fn add_at_peak(row: &SumWords, freed: Freed, peak: Generation, is_alone: bool) {
    let [.., blocks, bytes, _, _] = row;
    peak.add(blocks, freed.blocks, is_alone);
    peak.add(bytes, freed.bytes, is_alone);
}

/// The generation of a value of the peak, and the word that says which is the present one.
#[derive(Clone, Copy)]
pub struct Generation<'a> {
    present: &'a AtomicU64,
    known: Tagged,
}

/// Generations after which rows that have kept one are made void, lest they seem to be of a later one with the same number.
pub const GENERATIONS: u16 = 1 << 15;

impl<'a> Generation<'a> {
    /// That of a value of the peak, if it has one and is the present one.
    #[inline(always)]
    pub fn find(present: &'a AtomicU64, peak_bytes: u64) -> Option<Generation<'a>> {
        let known = Tagged(present.load(Ordering::Acquire));
        let is_of_peak = known.generation() != 0 && known.amount() == Tagged::new(0, peak_bytes).amount();
        is_of_peak.then_some(Generation { present, known })
    }

    /// The same, and gives it one if it has none. Also whether it is time to make rows [void](Generation::make_void).
    pub fn find_or_begin(present: &'a AtomicU64, peak_bytes: u64) -> Option<(Generation<'a>, bool)> {
        let mut known = Tagged(present.load(Ordering::Acquire));
        loop {
            if let Some(found) = Generation::find(present, peak_bytes) {
                return Some((found, false));
            }
            if known.amount() >= Tagged::new(0, peak_bytes).amount() && known.generation() != 0 {
                return None; // it was raised since
            }
            let next = known.generation().checked_add(1).unwrap_or(1);
            let begun = Tagged::new(next, peak_bytes);
            match present.compare_exchange(known.0, begun.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some((Generation { present, known: begun }, next & (GENERATIONS - 1) == 1)),
                Err(seen) => known = Tagged(seen),
            }
        }
    }

    fn is_present(&self) -> bool {
        self.present.load(Ordering::Acquire) == self.known.0
    }

    #[inline(always)]
    fn add(&self, word: &AtomicU64, amount: u64, is_alone: bool) {
        // What had lived at a peak is no more than the peak, so it fits.
        let with = |sum: u64| match Tagged(sum).generation() == self.known.generation() {
            true => sum.wrapping_add(amount),
            false => Tagged::new(self.known.generation(), amount).0,
        };
        let mut seen = word.load(Ordering::Acquire);
        if is_alone {
            word.store(with(seen), Ordering::Relaxed);
            return;
        }
        // Looked at after the word: who has begun a later one and added to the word has changed that, too.
        while self.is_present() {
            match word.compare_exchange(seen, with(seen), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Makes the words of a row void that are of an earlier generation.
    pub fn make_void(&self, row: &SumWords) {
        let [.., blocks, bytes, _, _] = row;
        for word in [blocks, bytes] {
            let seen = word.load(Ordering::Acquire);
            if Tagged(seen).generation() != self.known.generation() && self.is_present() {
                let _ = word.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
}

/// Notes a thread's cut: what has numbers below `number` lies before the peak of so many bytes. Only the thread itself does.
#[inline(always)]
pub fn note_cut(cut: &CutWords, number: u64, peak_bytes: u64) {
    let [at, of] = cut;
    // Who sees the new number and the old peak goes by a peak that is no longer.
    at.store(number, Ordering::Relaxed);
    of.store(peak_bytes.wrapping_add(1), Ordering::Release);
}

/// Whether a thread has noted its cut for a peak of so many bytes.
#[inline(always)]
pub fn has_cut(cut: &CutWords, peak_bytes: u64) -> bool {
    let [_, of] = cut;
    of.load(Ordering::Relaxed) == peak_bytes.wrapping_add(1)
}

/// A thread's cut for a peak of so many bytes; `None`: all that it did lies before.
#[inline(always)]
pub fn cut(cut: &CutWords, peak_bytes: u64) -> Option<u64> {
    let [at, of] = cut;
    (of.load(Ordering::Acquire) == peak_bytes.wrapping_add(1)).then(|| at.load(Ordering::Relaxed))
}
