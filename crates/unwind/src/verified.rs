//! Verified-chain unwinding: the last stack, and what proves that most of it is still there.

use crate::cache::RuleCache;
use crate::rule::{self, BasePointer, Rule, Shape};
use crate::step::{Frame, Step, rule_of, step};
use crate::walk::{End, Strategy};
use crate::{Environment, Registers, chain};

/// A word of the stack and what it held.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Where it lies.
    pub address: u64,
    /// What it held.
    pub value: u64,
}

/// What else is kept of a frame of the last stack.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameNote {
    /// `rbp` in the frame. Without meaning unless [`LIVE`] is set.
    bp: u64,
    /// What the owner knows of the stack from here outwards.
    node: u32,
    /// And what else.
    path: u32,
    /// Five flags below; above them, how many of the further words belong to this frame and those outside of it.
    marks: u32,
}

/// `rbp` decides where an outer frame lies.
const LIVE: u32 = 1;
/// Something from here outwards cannot be proven by comparing words.
const BLOCKED: u32 = 2;
/// A frame from here outwards was left along frame pointers, for want of a table.
const GUESSED: u32 = 4;
/// The frame was left as its code says, which has no table.
const BY_CODE: u32 = 8;
/// It or a frame outside of it was.
const HAS_CODE: u32 = 16;
const COUNT_SHIFT: u32 = 5;

/// A frame that was found by stepping.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fresh {
    /// The program counter, as in [`crate::walk`]'s output.
    pub pc: u64,
    sp: u64,
    bp: u64,
    rule: Rule,
    /// The tag that came with its rule.
    pub tag: u32,
}

/// Entries of the map from stack pointers to frames, a power of two.
const MAP_ENTRIES: usize = 1024;
/// Two frames are at least 16 bytes apart: the ABI keeps stacks aligned.
const MAP_SHIFT: u32 = 4;

/// The part of a thread's last stack that has a fixed size. **Zeroed bytes are an empty one.**
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Head {
    depth: u32,
    /// Highest address of all words.
    high: u64,
    /// The word that was 0 in place of the outermost frame's return address; address 0 if there is none.
    end: u64,
    map: [u16; MAP_ENTRIES],
}

impl Head {
    /// No stack.
    pub const fn new() -> Self {
        Self { depth: 0, high: 0, end: 0, map: [0; MAP_ENTRIES] }
    }

    /// Forgets the stack.
    pub fn forget(&mut self) {
        self.depth = 0;
    }
}

impl Default for Head {
    fn default() -> Self {
        Self::new()
    }
}

/// A thread's last stack, in memory of the caller's.
///
/// Frames are kept outermost first. A kept frame is its stack pointer, its program counter, and its
/// `rbp` where that matters; beside the frames lie the words that unwinding them read.
///
/// # Why it is exact
///
/// Unwinding is a deterministic function of the state of a frame (pc, stack pointer, `rbp`), of the
/// words of memory that it reads from there on, and of the unwind tables. So if a frame of a new stack
/// has the state of a frame of the last stack, and **all** words that were read from there outwards hold what
/// they held, then the frames from there outwards are those of the last stack. Nothing is assumed about
/// what the program did in between: after `longjmp`, an exception or a tail call, words either
/// differ, and the walk goes on step by step, or they do not, and a full walk would have the same result.
/// Words of a dead stack do no harm, since the walk must first arrive at a frame with the same stack pointer.
///
/// What is compared:
/// - the state: stack pointer and pc; `rbp` only if it decides where an outer frame lies ([`LIVE`]). It does if
///   the frame's own rule counts from `rbp`, or leaves it as it is and the caller's depends on it;
/// - the return address of every frame outside of it;
/// - the slot of a saved `rbp`, if the frame that it is restored for depends on it. This is what tells two
///   calls with different `alloca`s apart, all of whose return addresses are the same;
/// - the slot that holds the frame's top, where a realigned stack keeps it in memory;
/// - `rbp`, the saved one and the return address, where code without a table is left along frame pointers: what other code may
///   lie there does not matter, as long as it is known that it has no table;
/// - the code of frames that are left as it says, for want of a table: it is read again;
/// - the 0 in place of a return address at which a stack ends.
///
/// What is not proven this way, so that frames inside of it are walked each time ([`BLOCKED`]): frames that a
/// signal interrupted (their words lie on any stack), entries of linkage tables, ends other than the outermost frame, a chain of
/// frame pointers that ends in 0, words outside of the frame that they belong to. A stack that needs the general evaluator, or is cut at the limit, is not kept at all.
///
/// The tables are what comparing words cannot vouch for. The caller must [forget](LastStack::forget) the last stack and
/// flush the rules before and after code is unloaded, because other code may come to lie at the same addresses, and when code with
/// a table is loaded where there may have been some without.
///
/// # Bounds
///
/// The words lie between the matched frame's stack pointer and the highest word read; the
/// [environment](Environment::still_hold) compares that range with the stack it knows before any is loaded, so a stack
/// that was left and unmapped is not touched.
#[repr(C)]
pub struct LastStack<'a> {
    /// The part of fixed size.
    pub head: Head,
    /// Per frame, the word that held its return address.
    pub frames: &'a mut [Word],
    /// Per frame, what else is known.
    pub places: &'a mut [FrameNote],
    /// Further words; room for two per frame.
    pub words: &'a mut [Word],
}

/// What proves a stack, beside the state of its innermost frame.
pub(crate) struct Proof<'a> {
    pub(crate) callers: &'a [Word],
    pub(crate) words: &'a [Word],
    pub(crate) end: Option<Word>,
    pub(crate) high: u64,
    pub(crate) is_live: bool,
    pub(crate) is_guessed: bool,
}

/// The result of [`take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Outer frames that are as they were in the last stack.
    pub kept: usize,
    /// Frames inside of them, found by stepping.
    pub fresh: usize,
    /// Why the walk stopped. Where frames were kept, the outermost one was reached.
    pub end: End,
    /// Whether a frame rests on a frame pointer found without proof: from this fresh one on, or one of those that were
    /// kept, if it is the number of fresh ones.
    pub guessed_from: Option<usize>,
    /// Whether the fresh frames can be kept.
    pub keeps: bool,
    /// The word that was 0 in place of a return address; 0 if there was none.
    end_word: u64,
}

impl Taken {
    /// A stack without frames.
    pub const NOTHING: Taken =
        Taken { kept: 0, fresh: 0, end: End::Outermost, guessed_from: None, keeps: false, end_word: 0 };
}

/// Takes a stack; frames that are found by stepping go to `frames`, innermost first, as many as there is room for. `None` if
/// it needs the general evaluator: then use [`crate::walk`].
///
/// Afterwards, unless `keeps` is false, call [`LastStack::cut`] and then [`LastStack::keep`] for each fresh frame,
/// outermost (last) first. With `reuse` off all frames are fresh and none is kept.
#[inline(always)]
pub fn take<E: Environment, const SETS: usize>(
    environment: &E,
    cache: &mut RuleCache<SETS>,
    (last, frames): (&LastStack, &mut [Fresh]),
    registers: &Registers,
    strategy: Strategy,
    reuse: bool,
) -> Option<Taken> {
    let mut misses = 0u64;
    let taken = take_counting(environment, cache, (last, frames), registers, strategy, reuse, &mut misses);
    let steps = taken.map_or(0, |taken| taken.fresh as u64);
    cache.count(steps.max(misses), misses, u64::from(taken.is_none()));
    taken
}

#[inline(always)]
fn take_counting<E: Environment, const SETS: usize>(
    environment: &E,
    cache: &mut RuleCache<SETS>,
    (last, frames): (&LastStack, &mut [Fresh]),
    registers: &Registers,
    strategy: Strategy,
    reuse: bool,
    misses: &mut u64,
) -> Option<Taken> {
    let mut frame = Frame::innermost(registers);
    let mut guessed_from = None;
    let mut fresh = 0usize;
    // Frames of the last stack that may still be met.
    let mut met_below = if reuse { last.head.depth as usize } else { 0 };
    let done = |fresh, end, guessed_from, end_word| {
        let keeps = reuse && end != End::LimitReached;
        Some(Taken { kept: 0, fresh, end, guessed_from, keeps, end_word })
    };
    if frame.pc == 0 {
        return done(0, End::Outermost, None, 0);
    }
    loop {
        let Frame { pc, sp, bp, exact } = frame;
        if let Some(index) = last.find(pc, sp, bp, exact, met_below) {
            if last.holds_from(environment, index) {
                let kept = index.wrapping_add(1);
                if kept.wrapping_add(fresh) <= frames.len() {
                    let guessed_from = guessed_from.or_else(|| last.is_guessed_from(index).then_some(fresh));
                    return Some(Taken { kept, fresh, end: End::Outermost, guessed_from, keeps: true, end_word: 0 });
                }
                met_below = 0; // together they are too many: go on until the limit cuts the stack
            } else {
                met_below = last.holds_below(environment, index);
            }
        }
        let (rule, tag) = rule_of(environment, cache, pc, misses);
        let Some(place) = frames.get_mut(fresh) else { break };
        *place = Fresh { pc, sp, bp, rule, tag };
        fresh = fresh.wrapping_add(1);
        match step(environment, strategy, rule, frame, fresh, &mut guessed_from) {
            Step::Next(next) => frame = next,
            Step::NextUnproven(next) => {
                // It is other code than when it was met, and can be the next time.
                if let Some(place) = frames.get_mut(fresh.wrapping_sub(1)) {
                    place.rule = Rule::REFUSED;
                }
                frame = next;
            }
            Step::End { end, word } => return done(fresh, end, guessed_from, word),
            Step::General => return None,
        }
    }
    done(fresh, End::LimitReached, guessed_from, 0)
}

impl LastStack<'_> {
    /// Forgets the stack.
    pub fn forget(&mut self) {
        self.head.forget();
    }

    /// Frames of the stack.
    pub fn depth(&self) -> usize {
        self.head.depth as usize
    }

    /// Program counters of the stack, outermost first.
    pub fn pcs(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator {
        self.frames.iter().take(self.depth()).map(|frame| frame.value)
    }

    /// What [`LastStack::keep`] was told of the stack whose frames are the `kept` outermost ones; zeros for none.
    #[inline(always)]
    pub fn node(&self, kept: usize) -> (u32, u32) {
        let outer = kept.checked_sub(1).and_then(|index| self.places.get(index));
        outer.map_or((0, 0), |place| (place.node, place.path))
    }

    #[inline(always)]
    fn map_index(sp: u64) -> usize {
        (sp >> MAP_SHIFT) as usize & MAP_ENTRIES.wrapping_sub(1)
    }

    /// The frame of the last stack that has this state, if it is among the `below` outermost ones and all from
    /// there outwards can be proven.
    #[inline(always)]
    fn find(&self, pc: u64, sp: u64, bp: u64, exact: bool, below: usize) -> Option<usize> {
        let index = usize::from(*self.head.map.get(Self::map_index(sp))?);
        if index >= below || exact {
            return None;
        }
        let frame = self.frames.get(index)?;
        if frame.address.wrapping_add(8) != sp || frame.value != pc {
            return None;
        }
        let place = self.places.get(index)?;
        (place.marks & BLOCKED == 0 && (place.marks & LIVE == 0 || place.bp == bp)).then_some(index)
    }

    fn is_guessed_from(&self, index: usize) -> bool {
        self.places.get(index).is_some_and(|place| place.marks & GUESSED != 0)
    }

    fn words_of(&self, index: usize) -> usize {
        self.places.get(index).map_or(0, |place| (place.marks >> COUNT_SHIFT) as usize)
    }

    /// Whether all that was read from the frame outwards still holds.
    #[inline(always)]
    fn holds_from<E: Environment>(&self, environment: &E, index: usize) -> bool {
        let (Some(frame), Some(outer)) = (self.frames.get(index), self.frames.get(..index)) else { return false };
        let Some(words) = self.words.get(..self.words_of(index)) else { return false };
        let (low, high) = (frame.address, self.head.high);
        environment.still_hold(outer, low, high)
            && (words.is_empty() || environment.still_hold(words, low, high))
            && (self.head.end == 0 || environment.read_word(self.head.end) == Some(0))
            && (!self.has_code(index) || self.codes_hold(environment, index))
    }

    fn has_code(&self, index: usize) -> bool {
        self.places.get(index).is_some_and(|place| place.marks & HAS_CODE != 0)
    }

    /// Whether what is left as code says, from the frame outwards, is left so still. To be asked when words hold: then all of this code is
    /// about to be returned to.
    #[cold]
    #[inline(never)]
    fn codes_hold<E: Environment>(&self, environment: &E, index: usize) -> bool {
        (1..=index).rev().all(|inner| self.code_holds(environment, inner))
    }

    fn code_holds<E: Environment>(&self, environment: &E, inner: usize) -> bool {
        let by_code = self.places.get(inner).is_some_and(|place| place.marks & BY_CODE != 0);
        let (Some(frame), Some(outer)) = (self.frames.get(inner), self.frames.get(inner.wrapping_sub(1))) else {
            return false;
        };
        let sp = frame.address.wrapping_add(8);
        !by_code || chain::returns_from(environment, frame.value, sp) == Some(outer.address)
    }

    /// How many of the outermost frames may still be met when something outside of a frame has changed: those
    /// outside of the innermost change.
    #[cold]
    #[inline(never)]
    fn holds_below<E: Environment>(&self, environment: &E, index: usize) -> usize {
        let holds = |word: &Word| environment.read_word(word.address) == Some(word.value);
        for inner in (1..=index).rev() {
            let outer = inner.wrapping_sub(1);
            let own = self.words.get(self.words_of(outer)..self.words_of(inner)).unwrap_or(&[]);
            let hold = self.frames.get(outer).is_some_and(holds) && own.iter().all(holds);
            if !hold || self.has_code(inner) && !self.code_holds(environment, inner) {
                return inner;
            }
        }
        0
    }

    /// All that proves the stack of the `depth` outermost frames; `None` if it cannot be proven by words.
    pub(crate) fn proof(&self, depth: usize) -> Option<Proof<'_>> {
        let inner = depth.checked_sub(1)?;
        let place = self.places.get(inner).filter(|place| place.marks & (BLOCKED | HAS_CODE) == 0)?;
        let end = Word { address: self.head.end, value: 0 };
        Some(Proof {
            callers: self.frames.get(..inner)?,
            words: self.words.get(..self.words_of(inner))?,
            end: Some(end).filter(|end| end.address != 0),
            high: self.head.high,
            is_live: place.marks & LIVE != 0,
            is_guessed: place.marks & GUESSED != 0,
        })
    }

    /// Leaves only what was kept of the last stack, before the fresh frames are entered.
    #[inline]
    pub fn cut(&mut self, taken: &Taken) {
        self.head.depth = taken.kept as u32;
        if taken.kept == 0 {
            self.head.high = taken.end_word;
            self.head.end = taken.end_word;
        }
    }

    /// Enters a fresh frame at the inner end of the kept ones. `node` and `path` are what the
    /// owner wants to know of the stack that ends with it.
    #[inline(always)]
    pub fn keep(&mut self, taken: &Taken, frame: Fresh, (node, path): (u32, u32)) {
        let depth = self.head.depth as usize;
        let outer = depth.wrapping_sub(1); // no index, where there is none
        let marks = match (self.frames.get(outer), self.places.get(outer)) {
            (Some(outer_frame), Some(outer_place)) => {
                // Three bits and the words so far.
                let (shape, saved) = (frame.rule.shape_bits(), frame.rule.bp_bits());
                let outer_marks = outer_place.marks;
                if shape == rule::FROM_SP && (outer_marks & LIVE == 0 || saved == rule::BP_SAME) {
                    // Nothing but the return address was read that matters.
                    outer_marks & if saved == rule::BP_SAME { !BY_CODE } else { !(LIVE | BY_CODE) }
                } else {
                    let (outer_frame, outer_place) = (*outer_frame, *outer_place);
                    self.marks_below(frame, outer_frame, outer_place)
                }
            }
            _ => Self::marks_of_outermost(taken, frame),
        };
        let Fresh { pc, sp, bp, .. } = frame;
        let address = sp.wrapping_sub(8);
        let (Some(frame), Some(place), Some(entry)) =
            (self.frames.get_mut(depth), self.places.get_mut(depth), self.head.map.get_mut(Self::map_index(sp)))
        else {
            return;
        };
        *frame = Word { address, value: pc };
        *place = FrameNote { bp, node, path, marks };
        *entry = depth as u16;
        self.head.high = self.head.high.max(address);
        self.head.depth = depth.wrapping_add(1) as u32;
    }

    /// The marks of a frame whose caller is kept, and the further words that unwinding it read.
    #[inline(never)]
    fn marks_below(&mut self, frame: Fresh, outer_frame: Word, outer_place: FrameNote) -> u32 {
        let Fresh { sp, bp, rule, .. } = frame;
        let cfa = outer_frame.address.wrapping_add(8);
        let mut count = (outer_place.marks >> COUNT_SHIFT) as usize;
        let outer_is_live = outer_place.marks & LIVE != 0;
        // Whether there was room for a word, and it lies inside the frame or outside of it, as it should.
        let mut also = |address: u64, value: u64| match self.words.get_mut(count) {
            Some(place) if address >= sp.wrapping_sub(8) => {
                *place = Word { address, value };
                count = count.wrapping_add(1);
                self.head.high = self.head.high.max(address);
                true
            }
            _ => false,
        };
        let shape = rule.shape();
        let mut proven = match shape {
            Shape::FromSp(_) | Shape::FromBp(_) | Shape::NoTable | Shape::ByCode => true,
            Shape::StoredAtBp(offset) => also(bp.wrapping_add_signed(i64::from(offset)), cfa),
            Shape::StoredAtSp(offset) => also(sp.wrapping_add_signed(i64::from(offset)), cfa),
            // Linkage entries too: whether a signal interrupted them is not kept.
            _ => false,
        };
        let is_guess = shape == Shape::NoTable;
        let saved = if is_guess { BasePointer::AtBp(0) } else { rule.base_pointer() };
        let saved_at = match saved {
            BasePointer::Same => None,
            BasePointer::AtCfa(offset) => Some(cfa.wrapping_add_signed(i64::from(offset))),
            BasePointer::AtBp(offset) => Some(bp.wrapping_add_signed(i64::from(offset))),
            BasePointer::AtSp(offset) => Some(sp.wrapping_add_signed(i64::from(offset))),
        };
        if let Some(address) = saved_at.filter(|_| outer_is_live) {
            proven &= also(address, outer_place.bp);
        }
        let blocked = !proven || outer_place.marks & BLOCKED != 0;
        let is_live = matches!(shape, Shape::FromBp(_) | Shape::StoredAtBp(_))
            || matches!(saved, BasePointer::AtBp(_))
            || outer_is_live && saved == BasePointer::Same;
        let guessed = outer_place.marks & GUESSED | if is_guess { GUESSED } else { 0 };
        let by_code = if shape == Shape::ByCode { BY_CODE | HAS_CODE } else { 0 };
        let flags = by_code
            | outer_place.marks & HAS_CODE
            | guessed
            | (if is_live { LIVE } else { 0 })
            | (if blocked { BLOCKED } else { 0 });
        (count as u32) << COUNT_SHIFT | flags
    }

    #[cold]
    fn marks_of_outermost(taken: &Taken, frame: Fresh) -> u32 {
        let shape = frame.rule.shape_bits();
        let ended_at_zero = taken.end_word != 0 && matches!(shape, rule::FROM_SP | rule::FROM_BP);
        let proven = taken.end == End::Outermost && (frame.rule == Rule::OUTERMOST || ended_at_zero);
        let counts_from_bp = matches!(frame.rule.shape(), Shape::FromBp(_) | Shape::StoredAtBp(_));
        (if proven { 0 } else { BLOCKED }) | (if counts_from_bp { LIVE } else { 0 })
    }
}
