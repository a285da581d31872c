//! The walk with all registers tracked, every frame evaluated in full.
//!
//! Slow (a table look-up per frame) and rarely needed: frames whose top is known only by way of
//! `rbx` (the dynamic linker's lazy binding), by expressions in hand-written code, and the like.

use crate::expression::{self, RegisterFile};
use crate::row::{BP, CfaRule, IP, REGISTER_COUNT, RegisterRule, Row, SP};
use crate::step::{Frame, Way, guess};
use crate::table::TableError;
use crate::walk::{End, Strategy, Walk};
use crate::{Environment, Lookup, Registers};

/// Walks from the beginning. `sink` is given the frames, innermost first, until it refuses one.
///
/// Looks every frame up in its table and remembers nothing, so it can serve to check what does.
#[cold]
#[inline(never)]
pub fn walk_in_full<E: Environment>(
    environment: &E,
    registers: &Registers,
    strategy: Strategy,
    sink: &mut dyn FnMut(u64) -> bool,
) -> Walk {
    walk_frames(environment, registers, strategy, &mut |pc, _| sink(pc))
}

/// The same, where `sink` is given the stack pointer of each frame as well: its part of the stack lies from there up to that of the
/// next.
#[cold]
#[inline(never)]
pub fn walk_frames<E: Environment>(
    environment: &E,
    registers: &Registers,
    strategy: Strategy,
    sink: &mut dyn FnMut(u64, u64) -> bool,
) -> Walk {
    let mut frame = FullFrame::new(registers);
    let mut guessed_from = None;
    let mut depth = 0usize;
    let mut end = End::LimitReached;
    while sink(frame.pc, frame.sp) {
        depth = depth.wrapping_add(1);
        let stepped = match step(environment, &mut frame) {
            Err(Stop::NoTable) => {
                let way = frame.guess(environment, strategy, guessed_from.is_some());
                if way == Ok(Way::FramePointer) {
                    guessed_from.get_or_insert(depth);
                }
                way.map(drop)
            }
            Err(Stop::End(reason)) => Err(reason),
            Ok(()) => Ok(()),
        };
        if let Err(reason) = stepped {
            end = reason;
            break;
        }
    }
    Walk { depth, end, guessed_from, restarted: true }
}

enum Stop {
    NoTable,
    End(End),
}

impl From<End> for Stop {
    fn from(end: End) -> Self {
        Self::End(end)
    }
}

struct FullFrame {
    registers: RegisterFile,
    /// As stored: one more than the program counter if the frame was interrupted.
    pc: u64,
    sp: u64,
    exact: bool,
}

impl FullFrame {
    fn new(registers: &Registers) -> Self {
        let mut file = RegisterFile::default();
        let known = [
            (3, registers.bx),
            (BP, registers.bp),
            (SP, registers.sp),
            (12, registers.r12),
            (13, registers.r13),
            (14, registers.r14),
            (15, registers.r15),
            (IP, registers.ip),
        ];
        for (register, value) in known {
            file.set(register, Some(value));
        }
        Self { registers: file, pc: registers.ip, sp: registers.sp, exact: false }
    }

    /// Goes on over the frame-pointer chain, which preserves no other register, or as the code says, which changes none.
    fn guess<E: Environment>(&mut self, environment: &E, strategy: Strategy, guessing: bool) -> Result<Way, End> {
        let Some(bp) = self.registers.get(BP) else {
            return Err(End::NoRule { pc: self.pc });
        };
        let frame = Frame { pc: self.pc, sp: self.sp, bp, exact: self.exact };
        let (next, way) = guess(environment, strategy, guessing, frame)?;
        if way == Way::FramePointer {
            self.registers = RegisterFile::default();
        }
        self.registers.set(BP, Some(next.bp));
        self.registers.set(SP, Some(next.sp));
        self.registers.set(IP, Some(next.pc));
        (self.pc, self.sp, self.exact) = (next.pc, next.sp, false);
        Ok(way)
    }

    /// Whether the caller's frame can begin at `address`. An interrupted function may already
    /// have taken its return address off the stack, and then its frame is empty.
    fn may_rise_to(&self, address: u64) -> bool {
        address & 7 == 0 && (address > self.sp || (self.exact && address == self.sp))
    }
}

/// Replaces `frame` by its caller.
fn step<E: Environment>(environment: &E, frame: &mut FullFrame) -> Result<(), Stop> {
    let pc = frame.pc;
    let address = pc.wrapping_sub(1);
    let Lookup::Found(table) = environment.find_table(address) else {
        return Err(Stop::NoTable);
    };
    let row = match table.row(address) {
        Ok(row) => row,
        Err(TableError::NotCovered) if table.begins_function(pc) => {
            return Err(End::Outermost.into());
        }
        Err(TableError::NotCovered) => return Err(Stop::NoTable),
        Err(TableError::Refused) => return Err(End::NoRule { pc }.into()),
    };
    match row.register(IP) {
        RegisterRule::Undefined => return Err(End::Outermost.into()),
        RegisterRule::Unset | RegisterRule::Same => return Err(End::NoRule { pc }.into()),
        _ => {}
    }
    let cfa = match row.cfa() {
        CfaRule::Unset => return Err(End::NoRule { pc }.into()),
        CfaRule::Register(register, offset) => {
            frame.registers.get(register).map(|value| value.wrapping_add_signed(i64::from(offset)))
        }
        CfaRule::Expression(position) => {
            expression::evaluate(environment, &frame.registers, table.segment, position, None)
        }
    };
    let cfa = cfa.ok_or(End::Lost { pc })?;
    let caller = recover(environment, &frame.registers, &row, cfa, table.segment);
    let sp = caller.get(SP).ok_or(End::Lost { pc })?;
    // A signal may have been taken on another stack, above or below.
    let rises = frame.may_rise_to(cfa) && frame.may_rise_to(sp);
    if !rises && !row.is_signal() {
        return Err(End::NotRising { pc }.into());
    }
    let Some(ip) = caller.get(IP) else {
        return Err(match row.register(IP) {
            RegisterRule::Offset(offset) => End::Unreadable { address: cfa.wrapping_add_signed(i64::from(offset)) },
            _ => End::Lost { pc },
        }
        .into());
    };
    if ip == 0 && !row.is_signal() {
        return Err(End::Outermost.into());
    }
    frame.registers = caller;
    frame.sp = sp;
    frame.exact = row.is_signal();
    frame.pc = if frame.exact { ip.wrapping_add(1) } else { ip };
    Ok(())
}

/// The caller's registers. One that cannot be read is unknown: the walk ends only if it is needed.
fn recover<E: Environment>(
    environment: &E,
    callee: &RegisterFile,
    row: &Row,
    cfa: u64,
    segment: &[u8],
) -> RegisterFile {
    let mut caller = RegisterFile::default();
    let evaluate = |position: u32| expression::evaluate(environment, callee, segment, position, Some(cfa));
    // There are seventeen, so the narrowing loses nothing.
    for register in 0..REGISTER_COUNT as u8 {
        let value = match row.register(register) {
            RegisterRule::Unset => match register {
                SP => Some(cfa),
                // Callee-saved. The others are lost in a call.
                3 | BP | 12..=15 => callee.get(register),
                _ => None,
            },
            RegisterRule::Undefined => None,
            RegisterRule::Same => callee.get(register),
            RegisterRule::Offset(offset) => environment.read_word(cfa.wrapping_add_signed(i64::from(offset))),
            RegisterRule::ValueOffset(offset) => Some(cfa.wrapping_add_signed(i64::from(offset))),
            RegisterRule::Register(other) => callee.get(other),
            RegisterRule::Expression(position) => evaluate(position).and_then(|address| environment.read_word(address)),
            RegisterRule::ValueExpression(position) => evaluate(position),
        };
        caller.set(register, value);
    }
    caller
}
