//! The walk: frame after frame from the hook's caller outwards.

use crate::cache::RuleCache;
use crate::rule::Rule;
use crate::step::{Frame, Step, rule_of, step};
use crate::table::TableError;
use crate::{Environment, Lookup, Registers, chain, full};

/// By what the next frame is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Unwind tables; for code without a table what it is about to do, if it only returns, or else frame pointers. Frames from
    /// the latter on are marked as guessed.
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
    let without_table = || if chain::only_returns(environment, pc) { Rule::BY_CODE } else { Rule::NO_TABLE };
    let Lookup::Found(table) = environment.find_table(address) else { return without_table() };
    match table.row(address) {
        Ok(row) => Rule::from_row(&row, table.segment),
        Err(TableError::NotCovered) if table.begins_function(pc) => Rule::OUTERMOST,
        Err(TableError::NotCovered) => without_table(),
        Err(TableError::Refused) => Rule::REFUSED,
    }
}

/// What a compact walk tells besides its frames.
struct Notes {
    guessed_from: Option<usize>,
    misses: u64,
}

/// Walks by compact rules. Without an end: it has to be done with all registers.
///
#[inline(always)]
fn walk_compact<E: Environment, const SETS: usize>(
    environment: &E,
    cache: &mut RuleCache<SETS>,
    strategy: Strategy,
    registers: &Registers,
    notes: &mut Notes,
    out: &mut [u64],
) -> (usize, Option<End>) {
    let mut frame = Frame::innermost(registers);
    let mut depth = 0usize;
    if frame.pc == 0 {
        return (0, Some(End::Outermost));
    }
    for slot in out {
        *slot = frame.pc;
        depth = depth.wrapping_add(1);
        let (rule, _) = rule_of(environment, cache, frame.pc, &mut notes.misses);
        match step(environment, strategy, rule, frame, depth, &mut notes.guessed_from) {
            Step::Next(next) | Step::NextUnproven(next) => frame = next,
            Step::End { end, .. } => return (depth, Some(end)),
            Step::General => return (depth, None),
        }
    }
    (depth, Some(End::LimitReached))
}

fn walk_chain<E: Environment>(environment: &E, registers: &Registers, out: &mut [u64]) -> Walk {
    let mut slots = out.iter_mut();
    walk_by_frame_pointers(environment, registers, &mut |pc| slots.next().map(|slot| *slot = pc).is_some())
}

/// Walks by frame pointers only ([`Strategy::FramePointers`]). `sink` is given the frames, innermost first, until it refuses one.
pub fn walk_by_frame_pointers<E: Environment>(
    environment: &E,
    registers: &Registers,
    sink: &mut dyn FnMut(u64) -> bool,
) -> Walk {
    let Registers { ip: mut pc, mut sp, mut bp, .. } = *registers;
    let mut depth = 0usize;
    let mut end = End::LimitReached;
    if pc == 0 {
        return Walk { depth, end: End::Outermost, guessed_from: None, restarted: false };
    }
    while sink(pc) {
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
