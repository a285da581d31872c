//! One step outwards by a compact rule: what every frame costs. Both ways of taking a stack are made of it.

use crate::cache::RuleCache;
use crate::rule::{self, BasePointer, Rule, Shape};
use crate::walk::{End, Strategy, resolve};
use crate::{Environment, Registers, chain};

/// What a walk by compact rules knows of a frame.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    pub(crate) bp: u64,
    /// The frame was interrupted by a signal, so `pc` is one more than the program counter.
    pub(crate) exact: bool,
}

impl Frame {
    #[inline(always)]
    pub(crate) fn innermost(registers: &Registers) -> Frame {
        let Registers { ip: pc, sp, bp, .. } = *registers;
        Frame { pc, sp, bp, exact: false }
    }
}

/// What a step comes to.
pub(crate) enum Step {
    /// The caller's frame.
    Next(Frame),
    /// The same, by code that is not what it was when its rule was made.
    NextUnproven(Frame),
    /// There is none, or it cannot be found.
    End {
        end: End,
        /// Where the word lies that was 0 in place of a return address; 0 if there was none.
        word: u64,
    },
    /// It has to be done with all registers.
    General,
}

/// The rule for a program counter, and its tag.
#[inline(always)]
pub(crate) fn rule_of<E: Environment, const SETS: usize>(
    environment: &E,
    cache: &mut RuleCache<SETS>,
    pc: u64,
    misses: &mut u64,
) -> (Rule, u32) {
    match cache.get(pc) {
        Some(known) => known,
        None => {
            *misses = misses.wrapping_add(1);
            miss(environment, cache, pc)
        }
    }
}

/// Steps from a frame to its caller. It holds what nearly every frame needs and calls out for the rest: it runs per
/// frame of an allocation. `depth` is how many frames there are with this one; where the first of them is left along a
/// frame pointer without proof, `guessed_from` becomes that.
#[inline(always)]
pub(crate) fn step<E: Environment>(
    environment: &E,
    strategy: Strategy,
    rule: Rule,
    frame: Frame,
    depth: usize,
    guessed_from: &mut Option<usize>,
) -> Step {
    let Frame { pc, sp, mut bp, .. } = frame;
    let shape = rule.shape_bits();
    if (shape == rule::FROM_SP || shape == rule::FROM_BP) && rule.bp_bits() <= rule::BP_AT_CFA {
        let base = if shape == rule::FROM_SP { sp } else { bp };
        let cfa = base.wrapping_add_signed(i64::from(rule.cfa_operand()));
        if cfa <= sp || cfa & 7 != 0 {
            return Step::End { end: End::NotRising { pc }, word: 0 };
        }
        let address = cfa.wrapping_sub(8);
        let Some(caller) = environment.read_word(address) else {
            return Step::End { end: End::Unreadable { address }, word: 0 };
        };
        if rule.bp_bits() != rule::BP_SAME {
            let address = cfa.wrapping_add_signed(i64::from(rule.bp_operand()));
            let Some(value) = environment.read_word(address) else {
                return Step::End { end: End::Unreadable { address }, word: 0 };
            };
            bp = value;
        }
        if caller == 0 {
            return Step::End { end: End::Outermost, word: address };
        }
        return Step::Next(Frame { pc: caller, sp: cfa, bp, exact: false });
    }
    match step_rarely(environment, strategy, guessed_from.is_some(), frame, rule) {
        Rare::Step(next) => Step::Next(next),
        Rare::Guess(next) => {
            guessed_from.get_or_insert(depth);
            Step::Next(next)
        }
        Rare::Unproven(next) => {
            guessed_from.get_or_insert(depth);
            Step::NextUnproven(next)
        }
        Rare::End(end) => Step::End { end, word: 0 },
        Rare::General => Step::General,
    }
}

#[cold]
#[inline(never)]
fn miss<E: Environment, const SETS: usize>(environment: &E, cache: &mut RuleCache<SETS>, pc: u64) -> (Rule, u32) {
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

/// What a rule that is not of the usual form comes to.
enum Rare {
    Step(Frame),
    Guess(Frame),
    Unproven(Frame),
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
fn step_rarely<E: Environment>(environment: &E, strategy: Strategy, guessing: bool, frame: Frame, rule: Rule) -> Rare {
    let pc = frame.pc;
    match rule.shape() {
        Shape::General => Rare::General,
        Shape::Refused => Rare::End(End::NoRule { pc }),
        Shape::Outermost => Rare::End(End::Outermost),
        Shape::NoTable => match guess(environment, strategy, guessing, frame) {
            Ok((next, Way::Code)) => Rare::Unproven(next),
            Ok((next, Way::FramePointer)) => Rare::Guess(next),
            Err(end) => Rare::End(end),
        },
        Shape::ByCode => match guess(environment, strategy, guessing, frame) {
            Ok((next, Way::Code)) => Rare::Step(next),
            // It is other code by now.
            Ok((next, Way::FramePointer)) => {
                environment.apart(&mut || {
                    environment.remember(pc, Rule::NO_TABLE);
                });
                Rare::Unproven(next)
            }
            Err(end) => Rare::End(end),
        },
        Shape::Signal { cfa, bp, ip } => step_out_of_signal(environment, frame, cfa, bp, ip).into(),
        _ => step_by_shape(environment, frame, rule).into(),
    }
}

/// By what a frame was found without a table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// What the code does next.
    Code,
    /// The chain of frame pointers.
    FramePointer,
}

/// The next frame where no table helps.
pub(crate) fn guess<E: Environment>(
    environment: &E,
    strategy: Strategy,
    guessing: bool,
    frame: Frame,
) -> Result<(Frame, Way), End> {
    let Frame { pc, sp, bp, exact } = frame;
    if strategy != Strategy::Auto {
        return Err(End::NoRule { pc });
    }
    let found = |next: chain::ChainFrame| Frame { pc: next.pc, sp: next.sp, bp: next.bp, exact: false };
    // Where a signal interrupted it, more may lie on the stack than behind a call.
    if !exact && let Some(next) = chain::step_by_code(environment, pc, sp, bp) {
        return Ok((found(next), Way::Code));
    }
    // Once on the chain, its end is the ABI's mark of the outermost frame; before, `rbp` may
    // just happen to be zero.
    if guessing && bp == 0 {
        return Err(End::Outermost);
    }
    match chain::step(environment, sp, bp) {
        Some(next) if next.pc == 0 => Err(End::Outermost),
        Some(next) => Ok((found(next), Way::FramePointer)),
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
fn step_by_shape<E: Environment>(environment: &E, frame: Frame, rule: Rule) -> Result<Frame, End> {
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
