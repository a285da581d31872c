//! Where in CPython's structures that lies which tells the line that runs, by version.
//!
//! Sources: `Include/cpython/pystate.h` (thread states, and the C frames of 3.11 and 3.12), `Include/internal/pycore_frame.h` (frames),
//! `Include/cpython/code.h` (code objects) and `Include/cpython/unicodeobject.h` (texts) of each version, for 64 bits.
//! `tests/python_layouts.rs` compiles a program against these headers and compares. From 3.13 on `_PyRuntime` begins with offsets
//! (`_Py_DebugOffsets`, `Include/internal/pycore_runtime.h`), and what is written here must be what they say.
#![forbid(unsafe_code)]

use core::fmt;
use heapledger_linux::peek::Peek;

/// Offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Second number of the version.
    pub(super) minor: u8,
    /// Of a thread state: the innermost frame; or, if there are C frames, the innermost of these.
    pub(super) thread_frame: u16,
    /// C frames: the innermost frame, and the C frame outside.
    pub(super) c_frame: Option<[u16; 2]>,
    /// Of a frame: code object.
    pub(super) code: u16,
    /// Frame outside.
    pub(super) previous: u16,
    /// The instruction that runs.
    pub(super) instruction: u16,
    /// A byte that is not 0 in the outermost frame that a call of the interpreter's loop runs; where there is none, such calls have
    /// frames of their own.
    pub(super) is_entry: Option<u16>,
    /// Who owns it, a byte: see [`OWNED_BY_C_STACK`].
    pub(super) owner: u16,
    /// Of a code object: first line, four bytes.
    pub(super) first_line: u16,
    /// File.
    pub(super) file: u16,
    /// Function with what it is defined in.
    pub(super) function: u16,
    /// Lines by instruction.
    pub(super) line_table: u16,
    /// First instruction.
    pub(super) instructions: u16,
    /// Bytes of a text's head, if it is ASCII; and if not.
    pub(super) text_heads: [u16; 2],
}

/// Owner of a frame that stands for a call of the interpreter's loop.
pub(super) const OWNED_BY_C_STACK: u8 = 3;
/// Of all objects: the type.
pub(super) const TYPE: u64 = 8;
/// Of bytes and texts: how many; and of bytes where they begin.
pub(super) const COUNT: u64 = 16;
/// See [`COUNT`].
pub(super) const BYTES: u64 = 32;
/// Of a text: what it is made of.
pub(super) const TEXT_STATE: u64 = 32;

/// All that are known.
pub static LAYOUTS: [Layout; 3] = [
    Layout {
        minor: 11,
        thread_frame: 56,
        c_frame: Some([8, 16]),
        code: 32,
        previous: 48,
        instruction: 56,
        is_entry: Some(68),
        owner: 69,
        first_line: 72,
        file: 112,
        function: 128,
        line_table: 136,
        instructions: 184,
        text_heads: [48, 72],
    },
    Layout {
        minor: 12,
        thread_frame: 56,
        c_frame: Some([0, 8]),
        code: 0,
        previous: 8,
        instruction: 56,
        is_entry: None,
        owner: 70,
        first_line: 68,
        file: 112,
        function: 128,
        line_table: 136,
        instructions: 192,
        text_heads: [40, 56],
    },
    Layout {
        minor: 13,
        thread_frame: 72,
        c_frame: None,
        code: 0,
        previous: 8,
        instruction: 56,
        is_entry: None,
        owner: 70,
        first_line: 68,
        file: 112,
        function: 128,
        line_table: 136,
        instructions: 200,
        text_heads: [40, 56],
    },
];

impl Layout {
    /// Second number of the version.
    pub fn minor(&self) -> u8 {
        self.minor
    }
}

/// All offsets, in their order, with those that all versions share behind them.
impl fmt::Display for Layout {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} ", self.thread_frame)?;
        match self.c_frame {
            Some([inner, outer]) => write!(to, "{inner},{outer} ")?,
            None => to.write_str("- ")?,
        }
        write!(to, "{} {} {} ", self.code, self.previous, self.instruction)?;
        match self.is_entry {
            Some(is_entry) => write!(to, "{is_entry} ")?,
            None => to.write_str("- ")?,
        }
        write!(to, "{} {} {} {} ", self.owner, self.first_line, self.file, self.function)?;
        let [ascii, other] = self.text_heads;
        write!(to, "{} {} {ascii},{other} ", self.line_table, self.instructions)?;
        write!(to, "{TYPE} {COUNT} {BYTES} {COUNT} {TEXT_STATE}")
    }
}

/// What `_PyRuntime` begins with from 3.13 on.
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");

/// Of `_Py_DebugOffsets` of 3.13: where it says what, and what that must be.
fn told(layout: &Layout) -> [(u64, u64); 16] {
    [
        (16, 0), // no build without the lock
        (184, layout.thread_frame.into()),
        (232, layout.previous.into()),
        (240, layout.code.into()),
        (248, layout.instruction.into()),
        (264, layout.owner.into()),
        (280, layout.file.into()),
        (296, layout.function.into()),
        (304, layout.line_table.into()),
        (312, layout.first_line.into()),
        (344, layout.instructions.into()),
        (360, TYPE),
        (520, COUNT),
        (528, BYTES),
        (544, TEXT_STATE),
        (552, COUNT),
    ]
}

/// Whether what a version of 3.13 or later says of itself is what is believed of it.
pub(super) fn is_told(layout: &Layout, runtime: u64) -> bool {
    let peek = Peek::asking();
    layout.minor < 13
        || peek.word(runtime) == Some(COOKIE)
            && told(layout).into_iter().all(|(at, value)| peek.word(runtime.wrapping_add(at)) == Some(value))
}
