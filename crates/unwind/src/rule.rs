//! The compact rule: how to step out of one frame knowing only `pc`, `rsp` and `rbp`.

use crate::expression;
use crate::row::{BP, CfaRule, IP, RegisterRule, Row, SP};

/// How to step out of a frame, in four bytes.
///
/// ```text
///  31               12 11        6 5       4 3     0
/// +-------------------+-----------+---------+-------+
/// |    CFA operand    | bp operand| bp kind | shape |   operands signed, in words of 8 bytes
/// +-------------------+-----------+---------+-------+
/// | 31    22 | 21  12 | 11   4 |          linkage: one operand, in bytes, where the CFA's is
/// |    bp    | return |   CFA  |          signal frame: three unsigned offsets from rsp, in words
/// ```
///
/// What does not fit is [`Rule::GENERAL`]: frames of 4 MiB and more, and a saved `rbp` further than
/// 256 bytes from where it is counted.
///
/// Zero is [`Shape::Refused`], so that a zeroed cache entry can do no harm.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule(u32);

/// What kind of frame a [`Rule`] steps out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// There is a description, but it is broken or uses something that is refused.
    Refused,
    /// The frame's top is `rsp` plus the operand.
    FromSp(i32),
    /// The frame's top is `rbp` plus the operand.
    FromBp(i32),
    /// The frame's top is stored at `rsp` plus the operand.
    StoredAtSp(i32),
    /// The frame's top is stored at `rbp` plus the operand (realigned stacks).
    StoredAtBp(i32),
    /// An entry of a procedure linkage table: one word more is on the stack from this offset in
    /// the entry on.
    Linkage(u8),
    /// A frame set up by the kernel for a signal handler: offsets from `rsp` at which the
    /// interrupted `rsp`, `rbp` and `rip` are stored.
    Signal {
        /// Where the interrupted stack pointer is.
        cfa: u16,
        /// Where the interrupted `rbp` is.
        bp: u16,
        /// Where the interrupted program counter is.
        ip: u16,
    },
    /// There is no caller.
    Outermost,
    /// All registers must be tracked.
    General,
    /// There is no description.
    NoTable,
    /// There is none, and the code itself said, when it was met, that it only returns: it is asked at each step.
    ByCode,
}

/// How a [`Rule`] recovers the caller's `rbp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BasePointer {
    /// It is unchanged.
    Same,
    /// It is stored at the frame's top plus the operand.
    AtCfa(i32),
    /// It is stored at `rbp` plus the operand.
    AtBp(i32),
    /// It is stored at `rsp` plus the operand.
    AtSp(i32),
}

pub(crate) const FROM_SP: u32 = 1;
pub(crate) const FROM_BP: u32 = 2;
const STORED_AT_SP: u32 = 3;
const STORED_AT_BP: u32 = 4;
const LINKAGE: u32 = 5;
const SIGNAL: u32 = 6;
const OUTERMOST: u32 = 7;
const GENERAL: u32 = 8;
const NO_TABLE: u32 = 9;
const BY_CODE: u32 = 10;

pub(crate) const BP_SAME: u32 = 0;
pub(crate) const BP_AT_CFA: u32 = 1;
const BP_AT_BP: u32 = 2;
const BP_AT_SP: u32 = 3;

/// Operands are counted in words.
const WORD_BYTES: i32 = 8;
const CFA_BITS: u32 = 20;
const BP_BITS: u32 = 6;

impl Rule {
    /// There is a description, but it is broken or uses something that is refused.
    pub const REFUSED: Self = Self(0);
    /// There is no caller.
    pub const OUTERMOST: Self = Self(OUTERMOST);
    /// All registers must be tracked.
    pub const GENERAL: Self = Self(GENERAL);
    /// There is no description.
    pub const NO_TABLE: Self = Self(NO_TABLE);
    /// There is no description, and the code only returns.
    pub const BY_CODE: Self = Self(BY_CODE);

    /// What kind of frame this is.
    pub fn shape(self) -> Shape {
        match self.shape_bits() {
            FROM_SP => Shape::FromSp(self.cfa_operand()),
            FROM_BP => Shape::FromBp(self.cfa_operand()),
            STORED_AT_SP => Shape::StoredAtSp(self.cfa_operand()),
            STORED_AT_BP => Shape::StoredAtBp(self.cfa_operand()),
            LINKAGE => Shape::Linkage((self.0 >> 12) as u8),
            SIGNAL => {
                let words = |at: u32, mask: u32| ((self.0 >> at & mask) as u16) << 3;
                Shape::Signal { cfa: words(4, 0xff), bp: words(22, 0x3ff), ip: words(12, 0x3ff) }
            }
            OUTERMOST => Shape::Outermost,
            GENERAL => Shape::General,
            NO_TABLE => Shape::NoTable,
            BY_CODE => Shape::ByCode,
            _ => Shape::Refused,
        }
    }

    /// How `rbp` is recovered. Without meaning for shapes that are not steps, and for signals.
    pub fn base_pointer(self) -> BasePointer {
        let operand = self.bp_operand();
        match self.bp_bits() {
            BP_AT_CFA => BasePointer::AtCfa(operand),
            BP_AT_BP => BasePointer::AtBp(operand),
            BP_AT_SP => BasePointer::AtSp(operand),
            _ => BasePointer::Same,
        }
    }

    /// The rule as a number, to be kept elsewhere.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Undoes [`Rule::bits`].
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    #[inline(always)]
    pub(crate) fn shape_bits(self) -> u32 {
        self.0 & 0xf
    }

    #[inline(always)]
    pub(crate) fn bp_bits(self) -> u32 {
        (self.0 >> 4) & 0x3
    }

    #[inline(always)]
    pub(crate) fn cfa_operand(self) -> i32 {
        // From words to bytes: three bits less of a shift.
        ((self.0 as i32) >> 9) & !7
    }

    #[inline(always)]
    pub(crate) fn bp_operand(self) -> i32 {
        // Up to the top and down again: extends the sign of the 6 bits.
        (((self.0 << 20) as i32) >> 23) & !7
    }

    /// The compact form of a row; [`Rule::GENERAL`] if it has none.
    ///
    /// `segment` holds the row's expressions.
    pub fn from_row(row: &Row, segment: &[u8]) -> Self {
        match row.register(IP) {
            RegisterRule::Undefined => return Self::OUTERMOST,
            // No convention leaves the return address where it was: the table is broken.
            RegisterRule::Unset | RegisterRule::Same => return Self::REFUSED,
            _ => {}
        }
        if row.cfa() == CfaRule::Unset {
            return Self::REFUSED;
        }
        let compact = if row.is_signal() { signal(row, segment) } else { plain(row, segment) };
        compact.unwrap_or(Self::GENERAL)
    }
}

fn plain(row: &Row, segment: &[u8]) -> Option<Rule> {
    if row.register(IP) != RegisterRule::Offset(-8) {
        return None;
    }
    if !matches!(row.register(SP), RegisterRule::Unset | RegisterRule::ValueOffset(0)) {
        return None;
    }
    let (shape, operand) = match row.cfa() {
        CfaRule::Register(SP, offset) => (FROM_SP, offset),
        CfaRule::Register(BP, offset) => (FROM_BP, offset),
        CfaRule::Expression(position) => match register_plus(segment, position) {
            Some((SP, offset, true)) => (STORED_AT_SP, i32::try_from(offset).ok()?),
            Some((BP, offset, true)) => (STORED_AT_BP, i32::try_from(offset).ok()?),
            // Taken by words like the others, and used as bytes.
            _ => (LINKAGE, i32::from(linkage(segment, position)?).wrapping_mul(WORD_BYTES)),
        },
        _ => return None,
    };
    let (kind, bp_operand) = match row.register(BP) {
        RegisterRule::Unset | RegisterRule::Same => (BP_SAME, 0),
        RegisterRule::Offset(offset) => (BP_AT_CFA, offset),
        RegisterRule::Expression(position) => match register_plus(segment, position)? {
            (BP, offset, false) => (BP_AT_BP, i32::try_from(offset).ok()?),
            (SP, offset, false) => (BP_AT_SP, i32::try_from(offset).ok()?),
            _ => return None,
        },
        _ => return None,
    };
    let cfa = in_words(operand, CFA_BITS)?;
    let bp = in_words(bp_operand, BP_BITS)?;
    Some(Rule(cfa << 12 | bp << 6 | kind << 4 | shape))
}

/// An offset as words in so many bits, if it is one.
fn in_words(offset: i32, bits: u32) -> Option<u32> {
    let words = offset >> 3;
    let fits = words >> bits.wrapping_sub(1);
    let mask = (1u32 << bits).wrapping_sub(1);
    (offset & 7 == 0 && (fits == 0 || fits == -1)).then_some(words.cast_unsigned() & mask)
}

/// glibc and the kernel describe the signal frame by expressions relative to `rsp`.
fn signal(row: &Row, segment: &[u8]) -> Option<Rule> {
    let offset_of = |rule: RegisterRule| {
        let RegisterRule::Expression(position) = rule else {
            return None;
        };
        match register_plus(segment, position)? {
            (SP, offset, false) => u16::try_from(offset).ok(),
            _ => None,
        }
    };
    let CfaRule::Expression(position) = row.cfa() else {
        return None;
    };
    let (SP, cfa, true) = register_plus(segment, position)? else {
        return None;
    };
    let cfa = u16::try_from(cfa).ok()?;
    let bp = offset_of(row.register(BP))?;
    let ip = offset_of(row.register(IP))?;
    if row.register(SP) != RegisterRule::Unset && offset_of(row.register(SP)) != Some(cfa) {
        return None;
    }
    let words =
        |offset: u16, limit: u32| Some(u32::from(offset >> 3)).filter(|words| offset & 7 == 0 && *words < limit);
    Some(Rule(words(bp, 1 << 10)? << 22 | words(ip, 1 << 10)? << 12 | words(cfa, 1 << 8)? << 4 | SIGNAL))
}

/// Recognises "a register plus an offset", and whether what is stored there is meant.
fn register_plus(segment: &[u8], position: u32) -> Option<(u8, i64, bool)> {
    let mut code = expression::code(segment, position)?;
    let register = code.u8()?.checked_sub(0x70).filter(|&register| register < 32)?;
    let offset = code.sleb()?;
    let stored = match code.u8() {
        None => false,
        // deref
        Some(0x06) => true,
        Some(_) => return None,
    };
    code.is_at_end().then_some((register, offset, stored))
}

/// Recognises the one expression with which linkers describe the procedure linkage table, and
/// returns its only parameter: `rsp + 8 + ((rip & 15 >= n) << 3)`.
fn linkage(segment: &[u8], position: u32) -> Option<u8> {
    let mut code = expression::code(segment, position)?;
    let bytes = code.take(11)?;
    // breg7 8, breg16 0, lit15, and, lit n, ge, lit3, shl, plus
    let [0x77, 8, 0x80, 0, 0x3f, 0x1a, literal, 0x2a, 0x33, 0x24, 0x22] = *bytes else {
        return None;
    };
    let from = literal.checked_sub(0x30).filter(|&from| from < 32)?;
    code.is_at_end().then_some(from)
}

#[cfg(test)]
mod tests;
