//! Running the program of a frame description up to an address (`DW_CFA_*`).

use crate::bytes::Cursor;
use crate::row::{CfaRule, REGISTER_COUNT, RegisterRule, Row};
use crate::table::Description;

/// How many rows can be remembered at a time. Compilers nest one deep; what needs more is refused.
const REMEMBERED_MAX: usize = 4;

struct Machine {
    row: Row,
    /// The row at the start of the function, to which `DW_CFA_restore` goes back.
    initial: Row,
    remembered: [Row; REMEMBERED_MAX],
    remembered_count: usize,
    location: u64,
}

/// The rules at `pc`; `None` if the program is broken or uses something unknown.
///
/// Not inlined, so that its half KiB of stack is gone when expressions are evaluated.
#[inline(never)]
pub(crate) fn run(description: &Description<'_>, segment_address: u64, pc: u64) -> Option<Row> {
    let mut machine = Machine {
        row: Row::UNSET,
        initial: Row::UNSET,
        remembered: [Row::UNSET; REMEMBERED_MAX],
        remembered_count: 0,
        location: description.start,
    };
    machine.row.set_signal(description.signal);
    machine.run(description.common_program, description, segment_address, pc)?;
    machine.initial = machine.row;
    machine.run(description.program, description, segment_address, pc)?;
    Some(machine.row)
}

impl Machine {
    fn run(
        &mut self,
        mut code: Cursor<'_>,
        description: &Description<'_>,
        segment_address: u64,
        pc: u64,
    ) -> Option<()> {
        while !code.is_at_end() {
            let instruction = code.u8()?;
            let low = u64::from(instruction & 0x3f);
            let advance = match instruction {
                0x40..=0x7f => Some(low),
                0x02 => Some(u64::from(code.u8()?)),
                0x03 => Some(u64::from(code.u16()?)),
                0x04 => Some(u64::from(code.u32()?)),
                0x1d => Some(code.u64()?),
                _ => None,
            };
            if let Some(delta) = advance {
                let bytes = delta.checked_mul(description.code_factor)?;
                let location = self.location.checked_add(bytes)?;
                if location > pc {
                    return Some(());
                }
                self.location = location;
                continue;
            }
            match instruction {
                0x80..=0xbf => {
                    let offset = factored_unsigned(&mut code, description)?;
                    self.row.set_register(low, RegisterRule::Offset(offset));
                }
                0xc0..=0xff => self.restore(low),
                // set_loc
                0x01 => {
                    let encoding = description.pointer_encoding;
                    let location = code.pointer(encoding, segment_address, None)?;
                    if location < self.location {
                        return None;
                    }
                    if location > pc {
                        return Some(());
                    }
                    self.location = location;
                }
                _ => self.instruction(instruction, &mut code, description)?,
            }
        }
        Some(())
    }

    fn instruction(&mut self, instruction: u8, code: &mut Cursor<'_>, description: &Description<'_>) -> Option<()> {
        match instruction {
            // nop
            0x00 => {}
            // offset_extended
            0x05 => {
                let register = code.uleb()?;
                let offset = factored_unsigned(code, description)?;
                self.row.set_register(register, RegisterRule::Offset(offset));
            }
            // restore_extended
            0x06 => {
                let register = code.uleb()?;
                self.restore(register);
            }
            // undefined
            0x07 => self.row.set_register(code.uleb()?, RegisterRule::Undefined),
            // same_value
            0x08 => self.row.set_register(code.uleb()?, RegisterRule::Same),
            // register
            0x09 => {
                let register = code.uleb()?;
                let other = code.uleb()?;
                // In a register that is not tracked: as good as lost.
                let rule = match tracked(other) {
                    Some(other) => RegisterRule::Register(other),
                    None => RegisterRule::Undefined,
                };
                self.row.set_register(register, rule);
            }
            // remember_state
            0x0a => {
                *self.remembered.get_mut(self.remembered_count)? = self.row;
                self.remembered_count = self.remembered_count.checked_add(1)?;
            }
            // restore_state
            0x0b => {
                self.remembered_count = self.remembered_count.checked_sub(1)?;
                self.row = *self.remembered.get(self.remembered_count)?;
            }
            // def_cfa
            0x0c => {
                let register = tracked(code.uleb()?)?;
                let offset = i32::try_from(code.uleb()?).ok()?;
                self.row.set_cfa(CfaRule::Register(register, offset));
            }
            // def_cfa_register
            0x0d => {
                let register = tracked(code.uleb()?)?;
                let CfaRule::Register(_, offset) = self.row.cfa() else {
                    return None;
                };
                self.row.set_cfa(CfaRule::Register(register, offset));
            }
            // def_cfa_offset
            0x0e => {
                let offset = i32::try_from(code.uleb()?).ok()?;
                self.set_cfa_offset(offset)?;
            }
            // def_cfa_expression
            0x0f => self.row.set_cfa(CfaRule::Expression(expression(code)?)),
            // expression
            0x10 => {
                let register = code.uleb()?;
                let rule = RegisterRule::Expression(expression(code)?);
                self.row.set_register(register, rule);
            }
            // offset_extended_sf
            0x11 => {
                let register = code.uleb()?;
                let offset = factored_signed(code, description)?;
                self.row.set_register(register, RegisterRule::Offset(offset));
            }
            // def_cfa_sf
            0x12 => {
                let register = tracked(code.uleb()?)?;
                let offset = factored_signed(code, description)?;
                self.row.set_cfa(CfaRule::Register(register, offset));
            }
            // def_cfa_offset_sf
            0x13 => {
                let offset = factored_signed(code, description)?;
                self.set_cfa_offset(offset)?;
            }
            // val_offset
            0x14 => {
                let register = code.uleb()?;
                let offset = factored_unsigned(code, description)?;
                self.row.set_register(register, RegisterRule::ValueOffset(offset));
            }
            // val_offset_sf
            0x15 => {
                let register = code.uleb()?;
                let offset = factored_signed(code, description)?;
                self.row.set_register(register, RegisterRule::ValueOffset(offset));
            }
            // val_expression
            0x16 => {
                let register = code.uleb()?;
                let rule = RegisterRule::ValueExpression(expression(code)?);
                self.row.set_register(register, rule);
            }
            // GNU_args_size: of use to exception handling only
            0x2e => {
                code.uleb()?;
            }
            // GNU_negative_offset_extended
            0x2f => {
                let register = code.uleb()?;
                let offset = factored_unsigned(code, description)?.checked_neg()?;
                self.row.set_register(register, RegisterRule::Offset(offset));
            }
            _ => return None,
        }
        Some(())
    }

    fn restore(&mut self, register: u64) {
        if let Some(register) = tracked(register) {
            let rule = self.initial.register(register);
            self.row.set_register(u64::from(register), rule);
        }
    }

    fn set_cfa_offset(&mut self, offset: i32) -> Option<()> {
        let CfaRule::Register(register, _) = self.row.cfa() else {
            return None;
        };
        self.row.set_cfa(CfaRule::Register(register, offset));
        Some(())
    }
}

fn tracked(register: u64) -> Option<u8> {
    u8::try_from(register).ok().filter(|&register| usize::from(register) < REGISTER_COUNT)
}

fn factored_unsigned(code: &mut Cursor<'_>, description: &Description<'_>) -> Option<i32> {
    let units = i64::try_from(code.uleb()?).ok()?;
    i32::try_from(units.checked_mul(description.data_factor)?).ok()
}

fn factored_signed(code: &mut Cursor<'_>, description: &Description<'_>) -> Option<i32> {
    let units = code.sleb()?;
    i32::try_from(units.checked_mul(description.data_factor)?).ok()
}

/// Passes over an expression and returns where its length field is.
fn expression(code: &mut Cursor<'_>) -> Option<u32> {
    let position = u32::try_from(code.position()).ok()?;
    let length = usize::try_from(code.uleb()?).ok()?;
    code.take(length)?;
    Some(position)
}
