//! Whole stacks that were taken lately, each with the words that prove it.

use crate::cache::RuleCache;
use crate::rule::{self, Rule};
use crate::verified::LastStack;
use crate::{Environment, Registers};

/// Words of a stack and what they held, in little more than half the room of as many [`Word`](crate::Word)s.
#[derive(Clone, Copy, Debug)]
pub struct PackedWords<'m> {
    /// What they count from: the lowest address of a word, or less.
    pub low: u64,
    /// Highest address of a word.
    pub high: u64,
    /// How many words each lies above `low`.
    pub above: &'m [u16],
    /// What each held.
    pub values: &'m [u64],
}

impl PackedWords<'_> {
    /// Whether each word holds what it held, as `read` says, which gets its address.
    #[inline(always)]
    pub fn hold(&self, read: impl Fn(u64) -> u64) -> bool {
        let PackedWords { low, above, values, .. } = *self;
        let differs = |(above, value): (&u16, &u64)| read(low.wrapping_add(u64::from(*above) << 3)) ^ *value;
        // Eight at a time, each compared as it is read: then nothing waits in a register. By numbers: iterators look twice at each step in
        // debug builds of programs.
        let ((above, above_rest), (values, values_rest)) = (above.as_chunks::<8>(), values.as_chunks::<8>());
        let Some(values) = values.get(..above.len()) else { return false };
        let mut index = 0usize;
        while let (Some([a, b, c, d, e, f, g, h]), Some([s, t, u, v, w, x, y, z])) =
            (above.get(index), values.get(index))
        {
            let first = differs((a, s)) != 0 || differs((b, t)) != 0 || differs((c, u)) != 0 || differs((d, v)) != 0;
            if first || differs((e, w)) != 0 || differs((f, x)) != 0 || differs((g, y)) != 0 || differs((h, z)) != 0 {
                return false;
            }
            index = index.wrapping_add(1);
        }
        let mut index = 0usize;
        while let (Some(above), Some(value)) = (above_rest.get(index), values_rest.get(index)) {
            if differs((above, value)) != 0 {
                return false;
            }
            index = index.wrapping_add(1);
        }
        true
    }
}

/// A stack: the state of its innermost frame, and where in the pool the words lie that unwinding it read.
#[repr(C)]
#[derive(Clone, Copy)]
struct StackEntry {
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
    /// Where its first word lies.
    at: u16,
    /// [`LIVE`], [`GUESSED`].
    flags: u16,
}

/// `bp` decides where an outer frame lies.
const LIVE: u16 = 1;
/// A frame was found along frame pointers, for want of a table.
const GUESSED: u16 = 2;

const VACANT: StackEntry =
    StackEntry { ip: 0, sp: 0, bp: 0, high: 0, first: 0, node: 0, stamp: 0, callers: 0, words: 0, at: 0, flags: 0 };

/// With two, the stacks of a program of a thousand call paths drove each other out: a pair of ways is soon too few where sets are chosen by a
/// hash.
const WAYS: usize = 4;
/// Notes of the entry last found, by ip and stack pointer; a power of two.
const NOTES: usize = 1024;

/// Stacks that were taken lately: in `SETS` sets of four, with `WORDS` words together, which are used in turn.
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
    /// Stacks that were ever kept.
    kept: u32,
    /// The set that was chosen last.
    chosen: u32,
    notes: [u16; NOTES],
    sets: [[StackEntry; WAYS]; SETS],
    above: [u16; WORDS],
    values: [u64; WORDS],
}

/// The lowest word that unwinding from `registers` can have read.
#[inline(always)]
fn low(registers: &Registers) -> u64 {
    registers.sp.wrapping_sub(8)
}

/// So many more stacks entered than found, and nothing is entered for a while.
const POOR_MAX: u32 = 4096;
/// Sets that are used as long as few stacks were kept: a thread that allocates little touches little memory.
const FEW_SETS: usize = 32;
/// How many stacks are then passed over.
const REST: u32 = 8192;

/// A stack that was found.
#[derive(Clone, Copy, Debug)]
pub struct Remembered {
    /// What the owner knows of it.
    pub node: u32,
    /// Frames outside of the innermost one.
    pub callers: u32,
    /// Whether a frame was found along frame pointers, for want of a table.
    pub is_guessed: bool,
    at: u16,
}

/// A stack that is found if `words` hold what they held.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'m> {
    /// For [`Environment::packed_still_hold`].
    pub words: PackedWords<'m>,
    /// The stack.
    pub found: Remembered,
}

impl<const SETS: usize, const WORDS: usize> Memo<SETS, WORDS> {
    const IS_POWER_OF_TWO: () = assert!(SETS.is_power_of_two() && SETS * WAYS <= 1 << 16 && WORDS <= 1 << 16);

    /// An empty one.
    pub const fn new() -> Self {
        const { Self::IS_POWER_OF_TWO };
        Self {
            entered: 0,
            poor: 0,
            rest: 0,
            kept: 0,
            chosen: 0,
            notes: [0; NOTES],
            sets: [[VACANT; WAYS]; SETS],
            above: [0; WORDS],
            values: [0; WORDS],
        }
    }

    /// Where the entry is noted that was last found with the same ip and stack pointer.
    #[inline(always)]
    fn note_index(registers: &Registers) -> usize {
        // Masked to the number of notes, which is a `usize`.
        (registers.ip.wrapping_add(registers.sp >> 4) as usize) & NOTES.wrapping_sub(1)
    }

    /// Chooses the set in which the stack that leads to `registers` is looked for, or kept next. A malloc is often called from one place, and
    /// at few depths, and that place is often a wrapper's: so a few return addresses count as well, as far as they are found by simple steps.
    ///
    /// It is done before that, and not inside of it: so it takes less stack.
    #[inline(never)]
    pub fn choose<E: Environment, const RULES: usize>(
        &mut self,
        environment: &E,
        rules: &RuleCache<RULES>,
        registers: &Registers,
    ) {
        const STEPS: u32 = 3;
        let Registers { ip: mut pc, mut sp, mut bp, .. } = *registers;
        let mut key = pc ^ sp << 20;
        for _ in 0..STEPS {
            let rule = rules.get(pc).map_or(Rule::REFUSED, |(rule, _)| rule);
            let base = match rule.shape_bits() {
                rule::FROM_SP => sp,
                rule::FROM_BP => bp,
                _ => break,
            };
            sp = base.wrapping_add_signed(i64::from(rule.cfa_operand()));
            let Some(caller) = environment.read_word(sp.wrapping_sub(8)) else { break };
            pc = caller;
            if rule.bp_bits() != rule::BP_SAME {
                if rule.bp_bits() != rule::BP_AT_CFA {
                    break;
                }
                let Some(saved) = environment.read_word(sp.wrapping_add_signed(i64::from(rule.bp_operand()))) else {
                    break;
                };
                bp = saved;
            }
            key = (key ^ pc).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
        }
        // Masked to the number of sets, of which there are few.
        self.chosen =
            (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u32 & (self.sets_used() as u32).wrapping_sub(1);
    }

    /// How many sets are in use: a power of two. When they are doubled, half of the stacks are looked for elsewhere than they lie,
    /// and are kept anew when they come again.
    #[inline(always)]
    fn sets_used(&self) -> usize {
        const { assert!(FEW_SETS.is_power_of_two()) };
        // Early, when there are few stacks yet that have to be kept anew.
        let wanted = (self.kept as usize).saturating_mul(4);
        if wanted < SETS { wanted.max(FEW_SETS).next_power_of_two().min(SETS) } else { SETS }
    }

    /// Where the word of this number lies.
    #[inline(always)]
    fn place(number: u64) -> usize {
        number.checked_rem(WORDS as u64).unwrap_or(0) as usize
    }

    /// The words of an entry, if they are still there.
    #[inline(always)]
    fn words(&self, entry: &StackEntry, low: u64) -> Option<PackedWords<'_>> {
        if self.entered.wrapping_sub(entry.first) > WORDS as u64 {
            return None;
        }
        let first = usize::from(entry.at);
        let places = first..first.wrapping_add(usize::from(entry.words));
        let (above, values) = (self.above.get(places.clone())?, self.values.get(places)?);
        Some(PackedWords { low, high: entry.high, above, values })
    }

    #[inline(always)]
    fn get(&self, index: usize) -> Option<&StackEntry> {
        self.sets.get(index / WAYS)?.get(index % WAYS)
    }

    /// The entry as a candidate, if all but its words speaks for it.
    #[inline(always)]
    fn candidate<'m>(&'m self, entry: &StackEntry, registers: &Registers, stamp: u32) -> Option<Candidate<'m>> {
        let is_alike = entry.ip == registers.ip
            && entry.sp == registers.sp
            && entry.stamp == stamp
            && (entry.flags & LIVE == 0 || entry.bp == registers.bp);
        if !is_alike {
            return None;
        }
        let words = self.words(entry, low(registers))?;
        let is_guessed = entry.flags & GUESSED != 0;
        let found = Remembered { node: entry.node, callers: u32::from(entry.callers), is_guessed, at: entry.at };
        Some(Candidate { words, found })
    }

    /// The stack that was last found with the same innermost frame: it leads to `registers`, if its words still hold what they
    /// held. `stamp` is a number that changes, and is not 0, whenever code is unloaded.
    #[inline(always)]
    pub fn noted(&self, registers: &Registers, stamp: u32) -> Option<Candidate<'_>> {
        let entry = self.get(usize::from(*self.notes.get(Self::note_index(registers))?))?;
        self.candidate(entry, registers, stamp)
    }

    /// The stack that leads to `registers`, if it is here. `stamp` is as in [`Memo::noted`].
    #[inline(always)]
    pub fn find<E: Environment, const RULES: usize>(
        &mut self,
        environment: &E,
        rules: &RuleCache<RULES>,
        registers: &Registers,
        stamp: u32,
    ) -> Option<Remembered> {
        match self.noted(registers, stamp) {
            Some(Candidate { words, found }) if environment.packed_still_hold(&words) => Some(found),
            _ => {
                self.choose(environment, rules, registers);
                self.find_in_set(environment, registers, stamp)
            }
        }
    }

    #[inline(never)]
    fn find_in_set<E: Environment>(
        &mut self,
        environment: &E,
        registers: &Registers,
        stamp: u32,
    ) -> Option<Remembered> {
        let set = self.chosen as usize;
        let entries = self.sets.get(set)?;
        let mut candidates = entries.iter().enumerate();
        let (way, found) = candidates.find_map(|(way, entry)| {
            let Candidate { words, found } = self.candidate(entry, registers, stamp)?;
            environment.packed_still_hold(&words).then_some((way, found))
        })?;
        let index = set.wrapping_mul(WAYS).wrapping_add(way);
        self.poor = self.poor.saturating_sub(1);
        if let Some(note) = self.notes.get_mut(Self::note_index(registers)) {
            *note = index as u16; // there are at most 65,536 entries
        }
        Some(found)
    }

    /// The return addresses of the outer frames of a stack that was just found, outermost last.
    pub fn callers(&self, found: &Remembered) -> impl Iterator<Item = u64> {
        let first = usize::from(found.at);
        self.values.iter().skip(first).take(found.callers as usize).copied()
    }

    /// Forgets all of them.
    #[cold]
    pub fn forget(&mut self) {
        let used = self.sets_used();
        self.sets.iter_mut().take(used).flatten().for_each(|entry| entry.stamp = 0);
    }

    /// Whether remembering stacks has paid lately. To be asked once for each stack that was not found; where few are ever found,
    /// it is better to keep nothing for a while.
    #[inline(always)]
    pub fn pays(&mut self) -> bool {
        let pays = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        pays
    }

    /// Keeps the last stack, which leads to `registers`, if it can be proven and is not too long: where [`Memo::choose`] has chosen for
    /// these.
    #[inline(never)]
    pub fn keep(&mut self, (last, depth): (&LastStack, usize), registers: &Registers, stamp: u32) {
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
        let low = low(registers);
        let (Some(above), Some(values)) = (self.above.get_mut(at..), self.values.get_mut(at..)) else { return };
        let mut places = above.iter_mut().zip(values);
        // Inner words first: where stacks differ, they mostly do so there.
        for words in all {
            for (word, (above, value)) in words.iter().rev().zip(&mut places) {
                let count = word.address.wrapping_sub(low) >> 3;
                if count > u64::from(u16::MAX) {
                    return; // of a stack that is deeper than half a megabyte nothing is kept
                }
                (*above, *value) = (count as u16, word.value);
            }
        }
        let (node, _) = last.node(depth);
        let flags = if proof.is_live { LIVE } else { 0 } | if proof.is_guessed { GUESSED } else { 0 };
        let Registers { ip, sp, bp, .. } = *registers;
        self.kept = self.kept.saturating_add(1);
        // A vacant one, or that which was kept first: its words are the next to be written over.
        let age = |entry: &&mut StackEntry| (entry.stamp != 0, entry.first);
        let oldest = self.sets.get_mut(self.chosen as usize).and_then(|ways| ways.iter_mut().min_by_key(age));
        if let Some(oldest) = oldest {
            *oldest =
                StackEntry { ip, sp, bp, high: proof.high, first, node, stamp, callers, words, at: at as u16, flags };
        }
    }
}

impl<const SETS: usize, const WORDS: usize> Default for Memo<SETS, WORDS> {
    fn default() -> Self {
        Self::new()
    }
}
