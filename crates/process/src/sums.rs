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
use heapledger_format::sums::{LIFETIME_WORDS, LIVED_EVENTS, LIVED_NS, Lifetimes, Tagged};

const _: () = assert!(LIFETIME_WORDS.is_power_of_two());

/// The words of a row: call site plus 1, blocks, bytes, temporary blocks, blocks at the peak, bytes at the peak, bytes of temporary
/// blocks, and for how many events all blocks have lived.
pub type SumWords = [AtomicU64; 8];
/// The words that say for how long the blocks of a row have lived: how many there are of each class of events, then of each class of time.
pub type LifetimeWords = [AtomicU64; LIFETIME_WORDS];
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

/// Adds to the events that the blocks of a row have lived for.
#[inline(always)]
pub fn add_lived(row: &SumWords, events: u64, is_alone: bool) {
    let [.., lived] = row;
    add(lived, events, is_alone);
}

/// Bits of a number of events.
const EVENT_BITS: u32 = 48;
/// By how many bits a number of events has: what is added to it so that its word stands above [`EVENT_BITS`]. Between two powers of two
/// there is one power of ten at most.
#[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
const WORDS_OF_EVENTS: [u64; 64] = {
    let mut places = [0; 64];
    let mut bits = LIVED_EVENTS[0].ilog2() as usize;
    while bits < EVENT_BITS as usize {
        let (first, last) = (1u64 << bits, (1u64 << bits) * 2 - 1);
        let word = Lifetimes::class(&LIVED_EVENTS, last) - 1;
        // What is of no class is not counted at all.
        let is_whole = word == 0 || word == Lifetimes::class(&LIVED_EVENTS, first) - 1;
        let above = if is_whole { 0 } else { LIVED_EVENTS[word] };
        places[bits] = ((word as u64) << EVENT_BITS) - above;
        bits += 1;
    }
    places
};

/// Counts a block that has lived for so many events, if that is a class.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "by a logarithm of 64 bits, and by what is masked")]
pub fn count_events(words: &LifetimeWords, events: u64, is_alone: bool) {
    if events >= LIVED_EVENTS[0] {
        let word = WORDS_OF_EVENTS[events.ilog2() as usize].wrapping_add(events) >> EVENT_BITS;
        add(&words[word as usize & (LIFETIME_WORDS - 1)], 1, is_alone);
    }
}

/// Counts a block that has lived for so many nanoseconds, if that is a class.
#[inline(always)]
pub fn count_time(words: &LifetimeWords, ns: u64, is_alone: bool) {
    let ([shortest, middle, _], [_, _, _, _, _, short, _, _]) = (LIVED_NS, words);
    if ns >= middle {
        count_long_time(words, ns, is_alone);
    } else if ns >= shortest {
        add(short, 1, is_alone);
    }
}

/// Nobody lives for longer: such a time has come out below zero.
const NS_MAX: u64 = (1 << 43) * 1000;

#[cold]
#[inline(never)]
fn count_long_time(words: &LifetimeWords, ns: u64, is_alone: bool) {
    let ([_, _, longest], [_, _, _, _, _, _, some, long]) = (LIVED_NS, words);
    if ns < NS_MAX {
        add(if ns < longest { some } else { long }, 1, is_alone);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_ten() {
        use std::vec::Vec;
        let near = |at: u64| at.saturating_sub(2)..=at + 2;
        let numbers = LIVED_EVENTS.into_iter().chain((0..EVENT_BITS).map(|bits| 1 << bits)).flat_map(near);
        for events in numbers.chain([(1 << EVENT_BITS) - 1]).filter(|events| *events < 1 << EVENT_BITS) {
            let words: LifetimeWords = Default::default();
            count_events(&words, events, true);
            let counted: Vec<u64> = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
            let class = LIVED_EVENTS.iter().filter(|bound| **bound <= events).count();
            let expected: Vec<u64> = (1..=LIFETIME_WORDS).map(|word| u64::from(word == class)).collect();
            assert_eq!(counted, expected, "{events}");
        }
    }
}
