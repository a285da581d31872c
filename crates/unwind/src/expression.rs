//! Evaluating DWARF expressions, as far as call-frame information uses them.

use crate::Environment;
use crate::bytes::Cursor;
use crate::row::REGISTER_COUNT;

/// Values that an expression can have on its stack. The deepest one seen in system libraries
/// (the procedure linkage table's) needs three.
const STACK_MAX: usize = 16;

/// Operations before an expression is taken for a loop.
const OPERATIONS_MAX: u32 = 512;

/// The values of the registers in one frame, by DWARF number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RegisterFile {
    values: [u64; REGISTER_COUNT],
    /// Bit *n*: the value of register *n* is known.
    known: u32,
}

impl RegisterFile {
    pub(crate) fn get(&self, register: u8) -> Option<u64> {
        if self.known.checked_shr(u32::from(register))? & 1 == 0 {
            return None;
        }
        self.values.get(usize::from(register)).copied()
    }

    /// Sets a register, or with `None` forgets it.
    pub(crate) fn set(&mut self, register: u8, value: Option<u64>) {
        let Some(slot) = self.values.get_mut(usize::from(register)) else {
            return;
        };
        let bit = 1u32.wrapping_shl(u32::from(register));
        match value {
            Some(value) => {
                *slot = value;
                self.known |= bit;
            }
            None => self.known &= !bit,
        }
    }
}

/// The bytes of the expression whose length field is at `position`.
pub(crate) fn code(segment: &[u8], position: u32) -> Option<Cursor<'_>> {
    let mut cursor = Cursor::new(segment, usize::try_from(position).ok()?, segment.len())?;
    let length = usize::try_from(cursor.uleb()?).ok()?;
    let start = cursor.position();
    Cursor::new(segment, start, start.checked_add(length)?)
}

struct Stack {
    values: [u64; STACK_MAX],
    count: usize,
}

impl Stack {
    fn push(&mut self, value: u64) -> Option<()> {
        *self.values.get_mut(self.count)? = value;
        self.count = self.count.checked_add(1)?;
        Some(())
    }

    fn pop(&mut self) -> Option<u64> {
        self.count = self.count.checked_sub(1)?;
        self.values.get(self.count).copied()
    }

    /// The value `depth` below the top.
    fn pick(&self, depth: usize) -> Option<u64> {
        let index = self.count.checked_sub(1)?.checked_sub(depth)?;
        self.values.get(index).copied()
    }

    fn binary(&mut self, operation: impl FnOnce(u64, u64) -> Option<u64>) -> Option<()> {
        let right = self.pop()?;
        let left = self.pop()?;
        self.push(operation(left, right)?)
    }

    fn compare(&mut self, holds: impl FnOnce(i64, i64) -> bool) -> Option<()> {
        self.binary(|left, right| Some(u64::from(holds(left.cast_signed(), right.cast_signed()))))
    }
}

/// The value of the expression at `position`, begun with `initial` on the stack.
///
/// `None` if it is broken, uses a register whose value is not known, or memory that may not be
/// read.
#[inline(never)]
pub(crate) fn evaluate<E: Environment>(
    environment: &E,
    registers: &RegisterFile,
    segment: &[u8],
    position: u32,
    initial: Option<u64>,
) -> Option<u64> {
    let mut code = code(segment, position)?;
    let mut stack = Stack { values: [0; STACK_MAX], count: 0 };
    if let Some(value) = initial {
        stack.push(value)?;
    }
    for _ in 0..OPERATIONS_MAX {
        if code.is_at_end() {
            return stack.pop();
        }
        let operation = code.u8()?;
        match operation {
            // addr
            0x03 => stack.push(code.u64()?)?,
            // deref
            0x06 => {
                let address = stack.pop()?;
                stack.push(environment.read_word(address)?)?;
            }
            // deref_size
            0x94 => {
                let size = code.u8()?;
                let address = stack.pop()?;
                stack.push(read_part(environment, address, size)?)?;
            }
            _ => arithmetic(operation, &mut code, &mut stack, registers)?,
        }
    }
    None
}

/// Everything that touches only the expression's own stack and the registers.
fn arithmetic(operation: u8, code: &mut Cursor<'_>, stack: &mut Stack, registers: &RegisterFile) -> Option<()> {
    let signed = |value: i64| value.cast_unsigned();
    match operation {
        // const1u .. consts
        0x08 => stack.push(u64::from(code.u8()?)),
        0x09 => stack.push(signed(i64::from(code.u8()?.cast_signed()))),
        0x0a => stack.push(u64::from(code.u16()?)),
        0x0b => stack.push(signed(i64::from(code.u16()?.cast_signed()))),
        0x0c => stack.push(u64::from(code.u32()?)),
        0x0d => stack.push(signed(i64::from(code.i32()?))),
        0x0e | 0x0f => stack.push(code.u64()?),
        0x10 => stack.push(code.uleb()?),
        0x11 => stack.push(signed(code.sleb()?)),
        // dup, drop, over, pick, swap, rot
        0x12 => stack.push(stack.pick(0)?),
        0x13 => stack.pop().map(|_| ()),
        0x14 => stack.push(stack.pick(1)?),
        0x15 => {
            let depth = usize::from(code.u8()?);
            stack.push(stack.pick(depth)?)
        }
        0x16 => {
            let top = stack.pop()?;
            let second = stack.pop()?;
            stack.push(top)?;
            stack.push(second)
        }
        0x17 => {
            let top = stack.pop()?;
            let second = stack.pop()?;
            let third = stack.pop()?;
            stack.push(top)?;
            stack.push(third)?;
            stack.push(second)
        }
        // abs, neg, not
        0x19 => {
            let value = stack.pop()?;
            stack.push(value.cast_signed().unsigned_abs())
        }
        0x1f => {
            let value = stack.pop()?;
            stack.push(value.wrapping_neg())
        }
        0x20 => {
            let value = stack.pop()?;
            stack.push(!value)
        }
        // and, div, minus, mod, mul, or, plus
        0x1a => stack.binary(|left, right| Some(left & right)),
        0x1b => stack.binary(|left, right| left.cast_signed().checked_div(right.cast_signed()).map(i64::cast_unsigned)),
        0x1c => stack.binary(|left, right| Some(left.wrapping_sub(right))),
        0x1d => stack.binary(u64::checked_rem),
        0x1e => stack.binary(|left, right| Some(left.wrapping_mul(right))),
        0x21 => stack.binary(|left, right| Some(left | right)),
        0x22 => stack.binary(|left, right| Some(left.wrapping_add(right))),
        // plus_uconst
        0x23 => {
            let constant = code.uleb()?;
            let value = stack.pop()?;
            stack.push(value.wrapping_add(constant))
        }
        // shl, shr, shra: a distance of 64 or more shifts everything out
        0x24 => stack.binary(|value, distance| {
            Some(u32::try_from(distance).ok().and_then(|by| value.checked_shl(by)).unwrap_or(0))
        }),
        0x25 => stack.binary(|value, distance| {
            Some(u32::try_from(distance).ok().and_then(|by| value.checked_shr(by)).unwrap_or(0))
        }),
        0x26 => stack.binary(|value, distance| {
            // At most 63, so the narrowing loses nothing.
            let by = distance.min(63) as u32;
            Some(value.cast_signed().wrapping_shr(by).cast_unsigned())
        }),
        // xor
        0x27 => stack.binary(|left, right| Some(left ^ right)),
        // bra, skip
        0x28 => {
            let distance = code.u16()?.cast_signed();
            if stack.pop()? == 0 { Some(()) } else { code.jump(distance) }
        }
        0x2f => {
            let distance = code.u16()?.cast_signed();
            code.jump(distance)
        }
        // eq, ge, gt, le, lt, ne
        0x29 => stack.compare(|left, right| left == right),
        0x2a => stack.compare(|left, right| left >= right),
        0x2b => stack.compare(|left, right| left > right),
        0x2c => stack.compare(|left, right| left <= right),
        0x2d => stack.compare(|left, right| left < right),
        0x2e => stack.compare(|left, right| left != right),
        // lit0 .. lit31
        0x30..=0x4f => stack.push(u64::from(operation.wrapping_sub(0x30))),
        // breg0 .. breg31
        0x70..=0x8f => {
            let value = registers.get(operation.wrapping_sub(0x70))?;
            stack.push(value.wrapping_add_signed(code.sleb()?))
        }
        // bregx
        0x92 => {
            let register = u8::try_from(code.uleb()?).ok()?;
            let value = registers.get(register)?;
            stack.push(value.wrapping_add_signed(code.sleb()?))
        }
        // nop
        0x96 => Some(()),
        _ => None,
    }
}

/// The `size` bytes at `address`, read without asking for a byte behind their aligned words:
/// the next one may lie beyond the end of the stack.
fn read_part<E: Environment>(environment: &E, address: u64, size: u8) -> Option<u64> {
    if size == 8 {
        return environment.read_word(address);
    }
    if !matches!(size, 1 | 2 | 4) {
        return None;
    }
    let bits = u32::from(size).wrapping_mul(8);
    let mask = u64::MAX.wrapping_shr(64u32.wrapping_sub(bits));
    let aligned = address & !7;
    // At most seven, so the narrowing loses nothing.
    let skipped = (address & 7) as u32;
    let mut value = environment.read_word(aligned)?.wrapping_shr(skipped.wrapping_mul(8));
    if skipped.wrapping_add(u32::from(size)) > 8 {
        let next = environment.read_word(aligned.wrapping_add(8))?;
        value |= next.wrapping_shl(64u32.wrapping_sub(skipped.wrapping_mul(8)));
    }
    Some(value & mask)
}
