//! The walk: frame after frame from the hook's caller outwards.

use crate::cache::RuleCache;
use crate::rule::{self, BasePointer, Rule, Shape};
use crate::table::TableError;
use crate::{Environment, Lookup, Registers, chain, full};

/// By what the next frame is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Unwind tables, and frame pointers for code without a table. Frames from there on are
    /// marked as guessed.
    #[default]
    Auto,
    /// Unwind tables only. The walk ends at code without a table.
    Tables,
    /// Frame pointers only: for programs of which all is known to be built with them. Code that
    /// is not, and frames interrupted by a signal, are silently left out, so all is guessed.
    FramePointers,
}

/// Why a walk stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The outermost frame was reached: the stack is complete.
    Outermost,
    /// There are more frames than were asked for.
    LimitReached,
    /// Nothing says how to step out of the last frame.
    NoRule {
        /// The last frame's pc, as stored.
        pc: u64,
    },
    /// A word of the stack may not be read.
    Unreadable {
        /// Where it would be.
        address: u64,
    },
    /// The caller's frame would not lie above the last one, or not be aligned.
    NotRising {
        /// The last frame's pc, as stored.
        pc: u64,
    },
    /// The last frame's rule needs a register that an inner frame did not preserve, or an
    /// expression that cannot be evaluated.
    Lost {
        /// The last frame's pc, as stored.
        pc: u64,
    },
    /// Something that should be a frame pointer is none ([`Strategy::FramePointers`]).
    BrokenChain {
        /// The last frame's pc, as stored.
        pc: u64,
    },
}

/// The result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The number of frames stored, innermost first.
    pub depth: usize,
    /// Why it stopped.
    pub end: End,
    /// The index of the first frame that rests on a frame pointer found without proof.
    pub guessed_from: Option<usize>,
    /// Whether the walk started over with all registers tracked.
    pub restarted: bool,
}

/// Stores the stack of program counters that leads to `registers`, at most `limit` of them.
///
/// The first is `registers.ip`; the crate's documentation has the convention for the others.
/// The stored frames are exact up to `guessed_from`, whatever the reason for the end.
pub fn walk<E: Environment, const SETS: usize>(
    environment: &E,
    cache: &mut RuleCache<SETS>,
    registers: &Registers,
    limit: usize,
    strategy: Strategy,
    out: &mut [u64],
) -> Walk {
    let count = limit.min(out.len());
    let out = out.get_mut(..count).unwrap_or_default();
    if strategy == Strategy::FramePointers {
        return walk_chain(environment, registers, out);
    }
    let mut notes = Notes { guessed_from: None, misses: 0 };
    let (depth, end) = walk_compact(environment, cache, strategy, registers, &mut notes, out);
    let restarted = end.is_none();
    cache.count(depth as u64, notes.misses, u64::from(restarted));
    match end {
        Some(end) => Walk { depth, end, guessed_from: notes.guessed_from, restarted },
        None => {
            let mut slots = out.iter_mut();
            full::walk_in_full(environment, registers, strategy, &mut |pc| {
                slots.next().map(|slot| *slot = pc).is_some()
            })
        }
    }
}

/// The rule for `pc`, a program counter as stored by a walk, made from its module's table.
#[inline(never)]
pub fn resolve<E: Environment>(environment: &E, pc: u64) -> Rule {
    let address = pc.wrapping_sub(1);
    let Lookup::Found(table) = environment.find_table(address) else { return Rule::NO_TABLE };
    match table.row(address) {
        Ok(row) => Rule::from_row(&row, table.segment),
        Err(TableError::NotCovered) if table.begins_function(pc) => Rule::OUTERMOST,
        Err(TableError::NotCovered) => Rule::NO_TABLE,
        Err(TableError::Refused) => Rule::REFUSED,
    }
}

/// What a compact walk knows of a frame.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    pub(crate) bp: u64,
    /// The frame was interrupted by a signal, so `pc` is one more than the program counter.
    pub(crate) exact: bool,
}

/// What a compact walk tells besides its frames.
struct Notes {
    guessed_from: Option<usize>,
    misses: u64,
}

/// Walks by compact rules. Without an end: it has to be done with all registers.
///
/// The loop holds what nearly every frame needs and calls out for the rest: it runs per
/// allocation.
#[inline(always)]
fn walk_compact<E: Environment, const SETS: usize>(
    environment: &E,
    cache: &mut RuleCache<SETS>,
    strategy: Strategy,
    registers: &Registers,
    notes: &mut Notes,
    out: &mut [u64],
) -> (usize, Option<End>) {
    let Registers { ip: mut pc, mut sp, mut bp, .. } = *registers;
    let mut exact = false;
    let mut depth = 0usize;
    if pc == 0 {
        return (0, Some(End::Outermost));
    }
    for slot in out {
        *slot = pc;
        depth = depth.wrapping_add(1);
        let (rule, _) = match cache.get(pc) {
            Some(known) => known,
            None => {
                notes.misses = notes.misses.wrapping_add(1);
                miss(environment, cache, pc)
            }
        };
        let shape = rule.shape_bits();
        if (shape == rule::FROM_SP || shape == rule::FROM_BP) && rule.bp_bits() <= rule::BP_AT_CFA {
            let base = if shape == rule::FROM_SP { sp } else { bp };
            let cfa = base.wrapping_add_signed(i64::from(rule.cfa_operand()));
            if cfa <= sp || cfa & 7 != 0 {
                return (depth, Some(End::NotRising { pc }));
            }
            let address = cfa.wrapping_sub(8);
            let Some(caller) = environment.read_word(address) else {
                return (depth, Some(End::Unreadable { address }));
            };
            if rule.bp_bits() != rule::BP_SAME {
                let address = cfa.wrapping_add_signed(i64::from(rule.bp_operand()));
                let Some(value) = environment.read_word(address) else {
                    return (depth, Some(End::Unreadable { address }));
                };
                bp = value;
            }
            if caller == 0 {
                return (depth, Some(End::Outermost));
            }
            (pc, sp, exact) = (caller, cfa, false);
            continue;
        }
        let frame = Frame { pc, sp, bp, exact };
        match step_rarely(environment, strategy, notes.guessed_from.is_some(), frame, rule) {
            Rare::Step(next) => Frame { pc, sp, bp, exact } = next,
            Rare::Guess(next) => {
                notes.guessed_from.get_or_insert(depth);
                Frame { pc, sp, bp, exact } = next;
            }
            Rare::End(end) => return (depth, Some(end)),
            Rare::General => return (depth, None),
        }
    }
    (depth, Some(End::LimitReached))
}

#[cold]
#[inline(never)]
pub(crate) fn miss<E: Environment, const SETS: usize>(
    environment: &E,
    cache: &mut RuleCache<SETS>,
    pc: u64,
) -> (Rule, u32) {
    if let Some((rule, tag)) = environment.recall(pc) {
        cache.insert(pc, rule, tag);
        return (rule, tag);
    }
    let mut made = None;
    environment.apart(&mut || {
        let rule = resolve(environment, pc);
        made = Some((rule, environment.remember(pc, rule)));
    });
    let (rule, tag) = made.unwrap_or((Rule::GENERAL, 0));
    cache.count_made();
    cache.insert(pc, rule, tag);
    (rule, tag)
}

pub(crate) enum Rare {
    Step(Frame),
    Guess(Frame),
    End(End),
    General,
}

impl From<Result<Frame, End>> for Rare {
    fn from(result: Result<Frame, End>) -> Self {
        match result {
            Ok(frame) => Self::Step(frame),
            Err(end) => Self::End(end),
        }
    }
}

#[cold]
#[inline(never)]
pub(crate) fn step_rarely<E: Environment>(
    environment: &E,
    strategy: Strategy,
    guessing: bool,
    frame: Frame,
    rule: Rule,
) -> Rare {
    let pc = frame.pc;
    match rule.shape() {
        Shape::General => Rare::General,
        Shape::Refused => Rare::End(End::NoRule { pc }),
        Shape::Outermost => Rare::End(End::Outermost),
        Shape::NoTable => match guess(environment, strategy, guessing, frame.sp, frame.bp, pc) {
            Ok(next) => Rare::Guess(Frame { pc: next.pc, sp: next.sp, bp: next.bp, exact: false }),
            Err(end) => Rare::End(end),
        },
        Shape::Signal { cfa, bp, ip } => step_out_of_signal(environment, frame, cfa, bp, ip).into(),
        _ => step(environment, frame, rule).into(),
    }
}

/// The next frame where no table helps.
pub(crate) fn guess<E: Environment>(
    environment: &E,
    strategy: Strategy,
    guessing: bool,
    sp: u64,
    bp: u64,
    pc: u64,
) -> Result<chain::ChainFrame, End> {
    if strategy != Strategy::Auto {
        return Err(End::NoRule { pc });
    }
    // Once on the chain, its end is the ABI's mark of the outermost frame; before, `rbp` may
    // just happen to be zero.
    if guessing && bp == 0 {
        return Err(End::Outermost);
    }
    match chain::step(environment, sp, bp) {
        Some(next) if next.pc == 0 => Err(End::Outermost),
        Some(next) => Ok(next),
        None => Err(End::NoRule { pc }),
    }
}

/// The kernel stored the interrupted registers. The stack may be another one, above or below.
fn step_out_of_signal<E: Environment>(environment: &E, frame: Frame, cfa: u16, bp: u16, ip: u16) -> Result<Frame, End> {
    let read = |offset: u16| {
        let address = frame.sp.wrapping_add(u64::from(offset));
        environment.read_word(address).ok_or(End::Unreadable { address })
    };
    let sp = read(cfa)?;
    let bp = read(bp)?;
    let pc = read(ip)?.wrapping_add(1);
    Ok(Frame { pc, sp, bp, exact: true })
}

/// Any of the shapes that give a frame's top with the return address below it.
fn step<E: Environment>(environment: &E, frame: Frame, rule: Rule) -> Result<Frame, End> {
    let Frame { pc, sp, bp, exact } = frame;
    let read = |address: u64| environment.read_word(address).ok_or(End::Unreadable { address });
    let plus = |base: u64, offset: i32| base.wrapping_add_signed(i64::from(offset));
    let cfa = match rule.shape() {
        Shape::FromSp(offset) => plus(sp, offset),
        Shape::FromBp(offset) => plus(bp, offset),
        Shape::StoredAtSp(offset) => read(plus(sp, offset))?,
        Shape::StoredAtBp(offset) => read(plus(bp, offset))?,
        Shape::Linkage(from) => {
            let ip = if exact { pc.wrapping_sub(1) } else { pc };
            let pushed = if ip & 15 >= u64::from(from) { 8 } else { 0 };
            sp.wrapping_add(8).wrapping_add(pushed)
        }
        _ => return Err(End::NoRule { pc }),
    };
    if cfa <= sp || cfa & 7 != 0 {
        return Err(End::NotRising { pc });
    }
    let caller = read(cfa.wrapping_sub(8))?;
    let caller_bp = match rule.base_pointer() {
        BasePointer::Same => bp,
        BasePointer::AtCfa(offset) => read(plus(cfa, offset))?,
        BasePointer::AtBp(offset) => read(plus(bp, offset))?,
        BasePointer::AtSp(offset) => read(plus(sp, offset))?,
    };
    if caller == 0 {
        return Err(End::Outermost);
    }
    Ok(Frame { pc: caller, sp: cfa, bp: caller_bp, exact: false })
}

fn walk_chain<E: Environment>(environment: &E, registers: &Registers, out: &mut [u64]) -> Walk {
    let Registers { ip: mut pc, mut sp, mut bp, .. } = *registers;
    let mut depth = 0usize;
    let mut end = End::LimitReached;
    if pc == 0 {
        return Walk { depth, end: End::Outermost, guessed_from: None, restarted: false };
    }
    for slot in out {
        *slot = pc;
        depth = depth.wrapping_add(1);
        if bp == 0 {
            end = End::Outermost;
            break;
        }
        let Some(next) = chain::step(environment, sp, bp) else {
            end = End::BrokenChain { pc };
            break;
        };
        if next.pc == 0 {
            end = End::Outermost;
            break;
        }
        (pc, sp, bp) = (next.pc, next.sp, next.bp);
    }
    let guessed_from = (depth > 1).then_some(1);
    Walk { depth, end, guessed_from, restarted: false }
}
