//! What call-frame information says about one instruction: how each register is recovered.

/// The number of registers that are tracked: sixteen general ones and the return address.
pub(crate) const REGISTER_COUNT: usize = 17;

/// DWARF's number of `rbp`.
pub(crate) const BP: u8 = 6;
/// DWARF's number of `rsp`.
pub(crate) const SP: u8 = 7;
/// DWARF's number of the return address.
pub(crate) const IP: u8 = 16;

/// How the canonical frame address is found: the value of `rsp` before the frame's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CfaRule {
    /// Nothing has been said.
    Unset,
    /// The value of a register (DWARF number) plus an offset.
    Register(u8, i32),
    /// The value of the expression whose length and bytes begin at this position of the segment.
    Expression(u32),
}

/// How the caller's value of a register is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterRule {
    /// Nothing has been said: callee-saved registers keep their value, others are lost.
    Unset,
    /// The value is lost; for the return address: there is no caller.
    Undefined,
    /// The value is unchanged.
    Same,
    /// In memory, at this offset from the canonical frame address.
    Offset(i32),
    /// The canonical frame address plus this offset.
    ValueOffset(i32),
    /// In another register.
    Register(u8),
    /// In memory, where the expression at this position of the segment says.
    Expression(u32),
    /// What the expression at this position of the segment says.
    ValueExpression(u32),
}

/// The rules of all registers at one instruction.
///
/// Kinds and operands are kept apart: the evaluator holds six rows at once, in a hook whose
/// stack may have 8 KiB in all, and an array of enums would be half as large again.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    kinds: [u8; REGISTER_COUNT],
    cfa_kind: u8,
    cfa_register: u8,
    signal: bool,
    operands: [i32; REGISTER_COUNT],
    cfa_operand: i32,
}

impl Row {
    pub(crate) const UNSET: Self = Self {
        kinds: [0; REGISTER_COUNT],
        cfa_kind: 0,
        cfa_register: 0,
        signal: false,
        operands: [0; REGISTER_COUNT],
        cfa_operand: 0,
    };

    /// How the canonical frame address is found.
    pub fn cfa(&self) -> CfaRule {
        match self.cfa_kind {
            1 => CfaRule::Register(self.cfa_register, self.cfa_operand),
            2 => CfaRule::Expression(self.cfa_operand.cast_unsigned()),
            _ => CfaRule::Unset,
        }
    }

    /// How a register (DWARF number; 16 is the return address) is found.
    pub fn register(&self, register: u8) -> RegisterRule {
        let index = usize::from(register);
        let (Some(kind), Some(&operand)) = (self.kinds.get(index), self.operands.get(index)) else {
            return RegisterRule::Unset;
        };
        match kind {
            1 => RegisterRule::Undefined,
            2 => RegisterRule::Same,
            3 => RegisterRule::Offset(operand),
            4 => RegisterRule::ValueOffset(operand),
            5 => RegisterRule::Register(operand as u8),
            6 => RegisterRule::Expression(operand.cast_unsigned()),
            7 => RegisterRule::ValueExpression(operand.cast_unsigned()),
            _ => RegisterRule::Unset,
        }
    }

    /// Whether the frame was set up by the kernel for a signal handler, so that the address to
    /// which it returns is that of the interrupted instruction.
    pub fn is_signal(&self) -> bool {
        self.signal
    }

    pub(crate) fn set_signal(&mut self, signal: bool) {
        self.signal = signal;
    }

    pub(crate) fn set_cfa(&mut self, rule: CfaRule) {
        (self.cfa_kind, self.cfa_register, self.cfa_operand) = match rule {
            CfaRule::Unset => (0, 0, 0),
            CfaRule::Register(register, offset) => (1, register, offset),
            CfaRule::Expression(position) => (2, 0, position.cast_signed()),
        };
    }

    /// Vector registers and the like, which nothing here needs, are ignored.
    pub(crate) fn set_register(&mut self, register: u64, rule: RegisterRule) {
        let Ok(index) = usize::try_from(register) else {
            return;
        };
        let (Some(kind), Some(operand)) = (self.kinds.get_mut(index), self.operands.get_mut(index)) else {
            return;
        };
        (*kind, *operand) = match rule {
            RegisterRule::Unset => (0, 0),
            RegisterRule::Undefined => (1, 0),
            RegisterRule::Same => (2, 0),
            RegisterRule::Offset(offset) => (3, offset),
            RegisterRule::ValueOffset(offset) => (4, offset),
            RegisterRule::Register(other) => (5, i32::from(other)),
            RegisterRule::Expression(position) => (6, position.cast_signed()),
            RegisterRule::ValueExpression(position) => (7, position.cast_signed()),
        };
    }
}
