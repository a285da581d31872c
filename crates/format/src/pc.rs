//! A code address: such that the byte before it belongs to the instruction that was executing (a return
//! address; 1 more than the address of an interrupted instruction). Element 0 is unused.

/// Bytes of a code address.
pub const BYTES: usize = 8;
/// Bits of the offset from the module's load bias; above them lies the module's row plus 1.
/// Module 0: no module is known, the offset is an absolute address.
pub const OFFSET_BITS: u32 = 48;
/// In place of a module's row plus 1: the element is no code address. Either nothing refers to it, and its lower 32 bits are
/// the id of a code address of which it says one of the [`Mark`]s; or it is a [`Scripted`] one.
pub const MARK: u16 = u16::MAX;
/// Where in a mark it stands which one it is.
const MARK_SHIFT: u32 = 32;

/// What is known of the code at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// It has no unwind table: its caller, and all frames outside of that, were found along frame pointers.
    NoTable = 1,
    /// It is where a signal handler returns to: the next frame outwards was interrupted, not called from.
    SignalFrame = 2,
    /// It is in the loop of an interpreter: each such frame of a stack runs lines of a program, see [`Scripted`].
    Interprets = 3,
}

/// What stands in stacks in place of a code address where an interpreter runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scripted {
    /// A frame of that program: a row of `lines`.
    Line(u32),
    /// All such frames inside of it, up to the next of its kind, are run by one frame of the interpreter's loop.
    LoopBegins,
    /// The innermost frame of a stack: the other frames are those of the code, and with them there were the frames of this
    /// node of `sites`, whose path has elements of the two other kinds only.
    Stack(u32),
}

const LINE: u64 = 16;
const LOOP_BEGINS: u64 = 17;
const STACK: u64 = 18;

impl Scripted {
    /// The element that says so.
    pub const fn word(self) -> u64 {
        let (kind, about) = match self {
            Scripted::Line(row) => (LINE, row),
            Scripted::LoopBegins => (LOOP_BEGINS, 0),
            Scripted::Stack(site) => (STACK, site),
        };
        pack(MARK, kind << MARK_SHIFT | about as u64)
    }

    /// What an element says; `None`: it is of another kind.
    pub const fn of(word: u64) -> Option<Scripted> {
        let (row, rest) = unpack(word);
        match (row, rest >> MARK_SHIFT) {
            (MARK, LINE) => Some(Scripted::Line(rest as u32)),
            (MARK, LOOP_BEGINS) => Some(Scripted::LoopBegins),
            (MARK, STACK) => Some(Scripted::Stack(rest as u32)),
            _ => None,
        }
    }
}

/// The element that says `mark` of the code address `id`.
pub const fn mark(mark: Mark, id: u32) -> u64 {
    pack(MARK, (mark as u64) << MARK_SHIFT | id as u64)
}

/// What an element says of which code address, if it is a mark of a known kind.
pub const fn marked(word: u64) -> Option<(Mark, u32)> {
    let (row, rest) = unpack(word);
    match (row, rest >> MARK_SHIFT) {
        (MARK, 1) => Some((Mark::NoTable, rest as u32)),
        (MARK, 2) => Some((Mark::SignalFrame, rest as u32)),
        (MARK, 3) => Some((Mark::Interprets, rest as u32)),
        _ => None,
    }
}

/// Puts the parts together.
pub const fn pack(module_row_plus_1: u16, offset: u64) -> u64 {
    offset & ((1 << OFFSET_BITS) - 1) | (module_row_plus_1 as u64) << OFFSET_BITS
}
/// Takes them apart: module row plus 1, offset.
pub const fn unpack(word: u64) -> (u16, u64) {
    ((word >> OFFSET_BITS) as u16, word & ((1 << OFFSET_BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_no_code_addresses() {
        for of in [Mark::NoTable, Mark::SignalFrame, Mark::Interprets] {
            for id in [1, 70_000, u32::MAX] {
                assert_eq!(marked(mark(of, id)), Some((of, id)));
                assert_eq!(Scripted::of(mark(of, id)), None);
            }
        }
        for word in [0, pack(0, 0x7f00_0000_1000), pack(4096, 1), pack(MARK, 4 << 32 | 7)] {
            assert_eq!((marked(word), Scripted::of(word)), (None, None), "{word:#x}");
        }
    }

    #[test]
    fn what_is_run_by_an_interpreter_is_neither_code_nor_a_mark() {
        for of in [Scripted::Line(0), Scripted::Line(u32::MAX), Scripted::LoopBegins, Scripted::Stack(7)] {
            assert_eq!((Scripted::of(of.word()), marked(of.word())), (Some(of), None));
            assert_eq!(unpack(of.word()).0, MARK);
        }
    }
}
