//! Whole stacks that were taken lately, each with the words that prove it.

use crate::cache::RuleCache;
use crate::rule::{self, Rule};
use crate::verified::{LastStack, Word};
use crate::{Environment, Registers};

/// A stack: the state of its innermost frame, and where in the pool the words lie that unwinding it read.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    ip: u64,
    sp: u64,
    bp: u64,
    /// Highest address of the words.
    high: u64,
    /// Number of its first word since the beginning.
    first: u64,
    node: u32,
    /// The owner's count of code unloadings, plus 1; 0 in a vacant entry.
    stamp: u32,
    /// Words that held return addresses, outermost frame's last.
    callers: u16,
    /// All words.
    words: u16,
    /// Whether `bp` decides where an outer frame lies.
    is_live: u32,
}

const VACANT: Entry =
    Entry { ip: 0, sp: 0, bp: 0, high: 0, first: 0, node: 0, stamp: 0, callers: 0, words: 0, is_live: 0 };

const WAYS: usize = 2;
/// Notes of the entry last found, by ip and stack pointer; a power of two.
const NOTES: usize = 1024;

/// Stacks that were taken lately: in `SETS` sets of two, with `WORDS` words together, which are used in turn; both powers of two.
/// **Zeroed bytes are an empty one.**
///
/// Programs allocate at few places again and again. A stack whose innermost frame has the same state, and of which every word
/// that was read still holds what it held, is the same stack; [`LastStack`] says why. So it need not be walked at all.
#[repr(C)]
pub struct Memo<const SETS: usize, const WORDS: usize> {
    /// Words entered so far; that of number `n` lies at `n` modulo `WORDS` until another takes its place.
    entered: u64,
    /// Stacks entered, less those found.
    poor: u32,
    /// Stacks still to be passed over.
    rest: u32,
    notes: [u16; NOTES],
    sets: [[Entry; WAYS]; SETS],
    pool: [Word; WORDS],
}

/// So many more stacks entered than found, and nothing is entered for a while.
const POOR_MAX: u32 = 4096;
/// How many stacks are then passed over.
const REST: u32 = 8192;

/// A stack that was found.
#[derive(Clone, Copy, Debug)]
pub struct Remembered {
    /// What the owner knows of it.
    pub node: u32,
    /// Frames outside of the innermost one.
    pub callers: u32,
    first: u64,
}

impl<const SETS: usize, const WORDS: usize> Memo<SETS, WORDS> {
    const IS_POWER_OF_TWO: () = assert!(SETS.is_power_of_two() && SETS * WAYS <= 1 << 16 && WORDS.is_power_of_two());

    /// An empty one.
    pub const fn new() -> Self {
        const { Self::IS_POWER_OF_TWO };
        let pool = [Word { address: 0, value: 0 }; WORDS];
        Self { entered: 0, poor: 0, rest: 0, notes: [0; NOTES], sets: [[VACANT; WAYS]; SETS], pool }
    }

    /// Where the entry is noted that was last found with the same ip and stack pointer.
    #[inline(always)]
    fn note_index(registers: &Registers) -> usize {
        // Masked to the number of notes, which is a `usize`.
        (registers.ip.wrapping_add(registers.sp >> 4) as usize) & NOTES.wrapping_sub(1)
    }

    /// The set in which a stack is looked for. A malloc is often called from one place, and at few depths, and that place is
    /// often a wrapper's: so a few return addresses count as well, as far as they are found by simple steps.
    #[inline(always)]
    fn set<E: Environment, const RULES: usize>(
        environment: &E,
        rules: &RuleCache<RULES>,
        registers: &Registers,
    ) -> usize {
        const STEPS: u32 = 3;
        let Registers { ip: mut pc, mut sp, bp, .. } = *registers;
        let mut key = pc ^ sp << 20;
        for _ in 0..STEPS {
            let rule = rules.get(pc).map_or(Rule::REFUSED, |(rule, _)| rule);
            if rule.shape_bits() != rule::FROM_SP {
                key ^= bp;
                break;
            }
            sp = sp.wrapping_add_signed(i64::from(rule.cfa_operand()));
            let Some(caller) = environment.read_word(sp.wrapping_sub(8)) else { break };
            pc = caller;
            key = (key ^ pc).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
        }
        // Masked to the number of sets, which is a `usize`.
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize & SETS.wrapping_sub(1)
    }

    /// Where the word of this number lies.
    #[inline(always)]
    fn place(number: u64) -> usize {
        number as usize & WORDS.wrapping_sub(1)
    }

    /// Where the words of an entry lie, if they are still there.
    #[inline(always)]
    fn words<'p>(pool: &'p [Word; WORDS], entered: u64, entry: &Entry) -> Option<&'p [Word]> {
        if entered.wrapping_sub(entry.first) > WORDS as u64 {
            return None;
        }
        let first = Self::place(entry.first);
        pool.get(first..first.wrapping_add(usize::from(entry.words)))
    }

    #[inline(always)]
    fn get(&self, index: usize) -> Option<&Entry> {
        self.sets.get(index / WAYS)?.get(index % WAYS)
    }

    /// The words of the entry, if it is the stack that leads to `registers`.
    #[inline(always)]
    fn proven<E: Environment>(&self, environment: &E, entry: &Entry, registers: &Registers, stamp: u32) -> bool {
        entry.ip == registers.ip
            && entry.sp == registers.sp
            && entry.stamp == stamp
            && (entry.is_live == 0 || entry.bp == registers.bp)
            && Self::words(&self.pool, self.entered, entry)
                .is_some_and(|words| environment.still_hold(words, registers.sp.wrapping_sub(8), entry.high))
    }

    /// The stack that leads to `registers`, if it is here. `stamp` is a number that changes, and is not 0, whenever code is
    /// unloaded.
    #[inline(always)]
    pub fn find<E: Environment, const RULES: usize>(
        &mut self,
        environment: &E,
        rules: &RuleCache<RULES>,
        registers: &Registers,
        stamp: u32,
    ) -> Option<Remembered> {
        let noted = usize::from(*self.notes.get(Self::note_index(registers))?);
        let mut found = noted;
        if !self.proven(environment, self.get(noted)?, registers, stamp) {
            found = self.find_in_set(environment, rules, registers, stamp)?;
        }
        let entry = self.get(found)?;
        Some(Remembered { node: entry.node, callers: u32::from(entry.callers), first: entry.first })
    }

    #[inline(never)]
    fn find_in_set<E: Environment, const RULES: usize>(
        &mut self,
        environment: &E,
        rules: &RuleCache<RULES>,
        registers: &Registers,
        stamp: u32,
    ) -> Option<usize> {
        let set = Self::set(environment, rules, registers);
        let entries = self.sets.get(set)?;
        let way = entries.iter().position(|entry| self.proven(environment, entry, registers, stamp))?;
        let index = set.wrapping_mul(WAYS).wrapping_add(way);
        self.poor = self.poor.saturating_sub(1);
        if let Some(note) = self.notes.get_mut(Self::note_index(registers)) {
            *note = index as u16; // there are at most 65,536 entries
        }
        Some(index)
    }

    /// The return addresses of the outer frames of a stack that was just found, outermost last.
    pub fn callers(&self, found: &Remembered) -> impl Iterator<Item = u64> {
        let first = Self::place(found.first);
        self.pool.iter().skip(first).take(found.callers as usize).map(|word| word.value)
    }

    /// Forgets all of them.
    #[cold]
    pub fn forget(&mut self) {
        self.sets.iter_mut().flatten().for_each(|entry| entry.stamp = 0);
    }

    /// Whether remembering stacks has paid lately. To be asked once for each stack that was not found; where few are ever found,
    /// it is better to keep nothing for a while.
    #[inline(always)]
    pub fn pays(&mut self) -> bool {
        let pays = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        pays
    }

    /// Keeps the last stack, which leads to `registers`, if it can be proven and is not too long.
    #[inline(never)]
    pub fn keep<E: Environment, const RULES: usize>(
        &mut self,
        environment: &E,
        rules: &RuleCache<RULES>,
        (last, depth): (&LastStack, usize),
        registers: &Registers,
        stamp: u32,
    ) {
        let Some(proof) = last.proof(depth) else { return };
        let all = [proof.callers, proof.words, proof.end.as_slice()];
        let count = all.iter().fold(0usize, |count, words| count.wrapping_add(words.len()));
        let (Ok(callers), Ok(words)) = (u16::try_from(proof.callers.len()), u16::try_from(count)) else { return };
        if count > WORDS {
            return;
        }
        self.poor = self.poor.wrapping_add(1);
        if self.poor > POOR_MAX {
            (self.poor, self.rest) = (POOR_MAX / 2, REST);
        }
        let mut at = Self::place(self.entered);
        if at.wrapping_add(count) > WORDS {
            // Words of a stack lie in one piece.
            self.entered = self.entered.wrapping_add(WORDS.wrapping_sub(at) as u64);
            at = 0;
        }
        let first = self.entered;
        self.entered = first.wrapping_add(count as u64);
        let Some(mut pool) = self.pool.get_mut(at..) else { return };
        // Inner words first: where stacks differ, they mostly do so there.
        for words in all {
            let Some((here, rest)) = pool.split_at_mut_checked(words.len()) else { return };
            for (to, from) in here.iter_mut().zip(words.iter().rev()) {
                *to = *from;
            }
            pool = rest;
        }
        let node = last.node(depth);
        let is_live = u32::from(proof.is_live);
        let Registers { ip, sp, bp, .. } = *registers;
        if let Some([newer, older]) = self.sets.get_mut(Self::set(environment, rules, registers)) {
            *older = *newer;
            *newer = Entry { ip, sp, bp, high: proof.high, first, node, stamp, callers, words, is_live };
        }
    }
}

impl<const SETS: usize, const WORDS: usize> Default for Memo<SETS, WORDS> {
    fn default() -> Self {
        Self::new()
    }
}
