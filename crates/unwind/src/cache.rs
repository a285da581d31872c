//! Rules of the program counters met so far.

use crate::rule::Rule;

#[repr(C)]
#[derive(Clone, Copy)]
struct RuleEntry {
    /// As stored in a walk's output; 0 in an empty entry, which no walk ever asks for.
    pc: u64,
    rule: Rule,
    tag: u32,
}

const EMPTY: RuleEntry = RuleEntry { pc: 0, rule: Rule::REFUSED, tag: 0 };

/// How the cache did.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Rules found.
    pub hits: u64,
    /// Rules that were not here.
    pub misses: u64,
    /// Of these, rules that had to be made from a table, because no other thread had made them.
    pub made: u64,
    /// Walks that started over with all registers tracked.
    pub restarts: u64,
}

/// A two-way associative cache of rules with a fixed number of sets, a power of two. Beside a rule
/// there is room for a number of the owner's, its *tag*: what it else wants to know about the pc.
///
/// **Zeroed bytes are an empty cache**, so it can lie in fresh memory from the kernel. With 2048
/// sets it has 64 KiB, with 8192 sets 256 KiB: enough for the hot program counters of a compiler.
///
/// The index is taken from `pc >> 4`, without multiplying: call sites that are neighbours in the
/// code share cache lines, and a walk's chain of dependent loads stays short. Sixteen bytes of
/// code hold at most three calls, so the two ways are rarely too few.
#[repr(C, align(64))]
pub struct RuleCache<const SETS: usize> {
    sets: [[RuleEntry; 2]; SETS],
    counters: CacheCounters,
}

// Two sets share a cache line.
const _: () = assert!(size_of::<[RuleEntry; 2]>() == 32);

impl<const SETS: usize> RuleCache<SETS> {
    const IS_POWER_OF_TWO: () = assert!(SETS.is_power_of_two());

    /// An empty cache.
    pub const fn new() -> Self {
        const { Self::IS_POWER_OF_TWO };
        let counters = CacheCounters { hits: 0, misses: 0, made: 0, restarts: 0 };
        Self { sets: [[EMPTY; 2]; SETS], counters }
    }

    /// Forgets all rules. Needed whenever code is unloaded, since its addresses may be used again.
    pub fn flush(&mut self) {
        self.sets.fill([EMPTY; 2]);
    }

    /// How the cache did since it was made.
    pub fn counters(&self) -> CacheCounters {
        self.counters
    }

    /// The rule for `pc` (as in a walk's output) and its tag, if they are here.
    #[inline(always)]
    pub fn get(&self, pc: u64) -> Option<(Rule, u32)> {
        let [first, second] = self.sets.get(Self::index(pc))?;
        if first.pc == pc {
            Some((first.rule, first.tag))
        } else if second.pc == pc {
            Some((second.rule, second.tag))
        } else {
            None
        }
    }

    /// Enters a rule and its tag; the older ones of their set go.
    pub fn insert(&mut self, pc: u64, rule: Rule, tag: u32) {
        if let Some([first, second]) = self.sets.get_mut(Self::index(pc)) {
            *second = *first;
            *first = RuleEntry { pc, rule, tag };
        }
    }

    pub(crate) fn count_made(&mut self) {
        self.counters.made = self.counters.made.wrapping_add(1);
    }

    #[inline(always)]
    pub(crate) fn count(&mut self, steps: u64, misses: u64, restarts: u64) {
        let counters = &mut self.counters;
        counters.hits = counters.hits.wrapping_add(steps.wrapping_sub(misses));
        counters.misses = counters.misses.wrapping_add(misses);
        counters.restarts = counters.restarts.wrapping_add(restarts);
    }

    #[inline(always)]
    fn index(pc: u64) -> usize {
        const { Self::IS_POWER_OF_TWO };
        // Masked to the number of sets, which is a `usize`: the narrowing loses nothing needed.
        (pc >> 4) as usize & SETS.wrapping_sub(1)
    }
}

impl<const SETS: usize> Default for RuleCache<SETS> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rules_share_a_set_and_the_third_drives_out_the_oldest() {
        let mut cache = RuleCache::<16>::new();
        assert_eq!(cache.get(0x1001), None);
        for pc in [0x1001, 0x1002, 0x1003] {
            cache.insert(pc, Rule::GENERAL, pc as u32);
        }
        assert_eq!(cache.get(0x1001), None);
        assert_eq!(cache.get(0x1002), Some((Rule::GENERAL, 0x1002)));
        assert_eq!(cache.get(0x1003), Some((Rule::GENERAL, 0x1003)));
        cache.flush();
        assert_eq!(cache.get(0x1003), None);
    }
}
