//! Calls that fail on purpose: by which rules, and a place for each.

use crate::state::{self, Want};
use crate::thread_word;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Which calls fail: those for which it says so, of the calls that ask for a block, a resizing one too, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    word: usize,
    /// Code that has to be in the stack of a call, from here to there; both 0: anywhere.
    code: (usize, usize),
}

/// The upper bits of [`Rule::word`]; the others are its number.
const NTH: usize = 0;
const FROM: usize = 1;
const EVERY: usize = 2;
const RULE_SHIFT: u32 = usize::BITS - 2;
const NUMBER_MAX: usize = (1 << RULE_SHIFT) - 1;

impl Rule {
    const fn new(rule: usize, number: usize) -> Rule {
        let number = if number > NUMBER_MAX { NUMBER_MAX } else { number };
        Rule { word: rule << RULE_SHIFT | number, code: (0, 0) }
    }

    /// The n-th call fails, and no other; 1 is the next one. None, if 0.
    pub const fn nth(n: usize) -> Rule {
        Rule::new(NTH, n)
    }

    /// The n-th call fails, and all after it. With 0 as with 1.
    pub const fn from_nth(n: usize) -> Rule {
        Rule::new(FROM, n)
    }

    /// One in n calls fails. None, if 0.
    pub const fn every(n: usize) -> Rule {
        Rule::new(EVERY, n)
    }

    /// Of calls whose stack has code from there in its innermost frames.
    #[must_use]
    pub const fn within_code(self, code: Range<usize>) -> Rule {
        Rule { code: (code.start, code.end), ..self }
    }

    /// Whether it is about code of which there is none.
    pub const fn has_no_code(self) -> bool {
        let (first, end) = self.code;
        end != 0 && first >= end
    }

    /// Whether the call of this number fails.
    const fn is_for(self, call: usize) -> bool {
        let number = self.word & NUMBER_MAX;
        match self.word >> RULE_SHIFT {
            NTH => call == number,
            FROM => call >= number,
            _ => number != 0 && call.is_multiple_of(number),
        }
    }
}

/// Whose calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Those of the calling thread.
    OwnThread,
    /// Those of all threads, which are counted together.
    All,
}

/// Faults at the same time, of both kinds.
pub const FAULTS_MAX: usize = 2 * FAULTS;
/// Those of one kind.
const FAULTS: usize = 32;

struct Slot {
    used: AtomicBool,
    thread: AtomicUsize,
    rule: AtomicUsize,
    code: [AtomicUsize; 2],
    calls: AtomicUsize,
    failed: AtomicUsize,
}

/// Those of threads, and those of all. What is of one thread is set and taken away by that one.
static OF_THREADS: [Slot; FAULTS] = [const { Slot::new() }; FAULTS];
static OF_ALL: [Slot; FAULTS] = [const { Slot::new() }; FAULTS];

impl Slot {
    const fn new() -> Slot {
        Slot {
            used: AtomicBool::new(false),
            thread: AtomicUsize::new(0),
            rule: AtomicUsize::new(0),
            code: [const { AtomicUsize::new(0) }; 2],
            calls: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
        }
    }

    /// Whether it is about a call, of which `is_within` says whether its stack has some code in it.
    fn concerns(&self, is_within: &dyn Fn(&Range<usize>) -> bool) -> bool {
        let [first, end] = self.code.each_ref().map(|word| word.load(Ordering::Relaxed));
        end == 0 || is_within(&(first..end))
    }

    /// Counts a call. Returns whether it fails.
    fn fails(&self) -> bool {
        let call = self.calls.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let fails = Rule { word: self.rule.load(Ordering::Relaxed), code: (0, 0) }.is_for(call);
        if fails {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        fails
    }
}

/// Whether a call fails. All faults that concern it count it.
#[cold]
#[inline(never)]
pub fn fails(is_within: &dyn Fn(&Range<usize>) -> bool) -> bool {
    if BEGUN.load(Ordering::Relaxed) == 0 {
        return false;
    }
    let is_used = |slot: &&Slot| slot.used.load(Ordering::Acquire);
    let thread = thread_word::id();
    let own = OF_THREADS.iter().filter(is_used).filter(|slot| slot.thread.load(Ordering::Relaxed) == thread);
    let all = OF_ALL.iter().filter(is_used);
    own.chain(all).filter(|slot| slot.concerns(is_within) && slot.fails()).count() > 0
}

/// How many there are: most calls look no further.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

/// The place of this number: those of threads come first.
fn place(number: usize) -> Option<&'static Slot> {
    OF_THREADS.iter().chain(&OF_ALL).nth(number).filter(|slot| slot.used.load(Ordering::Acquire))
}

/// Calls fail from now on; gives a number. `None` if there are as many as there can be.
pub fn begin(rule: Rule, of: Of) -> Option<usize> {
    let (slots, first) = match of {
        Of::OwnThread => (&OF_THREADS, 0),
        Of::All => (&OF_ALL, FAULTS),
    };
    // Whose thread is not 0 is taken.
    let claim = |slot: &Slot| slot.thread.compare_exchange(0, usize::MAX, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let index = slots.iter().position(claim)?;
    let slot = slots.get(index)?;
    slot.calls.store(0, Ordering::Relaxed);
    slot.failed.store(0, Ordering::Relaxed);
    slot.rule.store(rule.word, Ordering::Relaxed);
    for (word, address) in slot.code.iter().zip([rule.code.0, rule.code.1]) {
        word.store(address, Ordering::Relaxed);
    }
    slot.thread.store(if of == Of::All { usize::MAX } else { thread_word::id() }, Ordering::Relaxed);
    BEGUN.fetch_add(1, Ordering::SeqCst);
    slot.used.store(true, Ordering::Release);
    if state::join(Want::Asked) {
        return Some(first.wrapping_add(index));
    }
    slot.give_back();
    None
}

impl Slot {
    /// False if it was given back before.
    fn give_back(&self) -> bool {
        let was_used = self.used.swap(false, Ordering::AcqRel);
        if was_used {
            self.thread.store(0, Ordering::Release);
            BEGUN.fetch_sub(1, Ordering::SeqCst);
        }
        was_used
    }
}

/// They fail no longer. False if there is none of this number.
pub fn end(number: usize) -> bool {
    let was_used = place(number).is_some_and(Slot::give_back);
    if was_used {
        state::leave(Want::Asked);
    }
    was_used
}

/// How many calls it was asked about until now, and how many failed by it. `None` if there is none of this number.
pub fn figures(number: usize) -> Option<[u64; 2]> {
    let slot = place(number)?;
    Some([&slot.calls, &slot.failed].map(|figure| figure.load(Ordering::Relaxed) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_say_which_calls_fail() {
        let failing = |rule: Rule| (1..=7).filter(|call| rule.is_for(*call)).collect::<std::vec::Vec<_>>();
        assert_eq!(failing(Rule::nth(3)), [3]);
        assert_eq!(failing(Rule::from_nth(6)), [6, 7]);
        assert_eq!(failing(Rule::every(3)), [3, 6]);
        assert_eq!(failing(Rule::every(1)).len(), 7);
        assert_eq!(failing(Rule::from_nth(0)).len(), 7);
        assert!(failing(Rule::nth(0)).is_empty() && failing(Rule::every(0)).is_empty());
        assert!(failing(Rule::nth(usize::MAX)).is_empty() && failing(Rule::every(usize::MAX)).is_empty());
    }
}
