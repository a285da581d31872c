//! The functions of the made-up program: how each lays out its frame, and what its table says of it.

use crate::maker::{LINKAGE, Maker, SIGNAL, code};

/// Functions that always have the same table.
pub(crate) const CODE: u64 = 0x20_0000;
/// A function with no code in front of it.
pub(crate) const APART: u64 = 0x20_f000;
/// Functions whose tables are others each time the module is loaded.
pub(crate) const PLUGIN: u64 = 0x28_0000;
/// A module without a table.
pub(crate) const BARE: u64 = 0x40_0000;
/// Generated code, where now and then a module with a table is loaded.
pub(crate) const GENERATED: u64 = 0x60_0000;

/// Bytes of a function.
pub(crate) const LENGTH: u64 = 0x100;
/// From here on, a [`Frame::Plain`] function has two words more on the stack.
pub(crate) const SECOND_HALF: u64 = 0x80;
/// Bytes of these two words.
pub(crate) const PUSHED: u64 = 16;

/// Where a function saves its caller's `rbp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saved {
    Nowhere,
    /// So many bytes from the frame's top.
    AtTop(i64),
    /// From its own `rbp`.
    AtBp(i64),
    /// From `rsp`.
    AtSp(i64),
}

/// The layout of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Its top is so many words above `rsp`, and two more in the second half of the function, if it has one.
    Plain { words: u64, saved: Saved },
    /// Its top is so many words above `rbp`.
    Pointer { words: u64, saved: Saved },
    /// Its top is stored below `rbp`: the stack was realigned.
    Realigned { saved: Saved },
    /// Its top is stored two words above `rsp`.
    Stored { saved: Saved },
    /// An entry of a linkage table.
    Linkage,
    /// What the kernel leaves for a signal handler.
    Signal,
    /// Its top is four words above `rsp`, said in a way that needs the general evaluator.
    General,
    /// No table; keeps a frame pointer.
    Bare,
    /// A table that makes no sense.
    Broken,
    /// There is no caller.
    Bottom,
}

/// A function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) start: u64,
    pub(crate) frame: Frame,
}

impl Frame {
    /// Whether the words that unwinding reads prove where the frame's caller is, if all is in order.
    pub(crate) fn can_be_proven(self) -> bool {
        let (lowest, saved) = match self {
            // rsp and its words go up from the return address of what was called.
            Self::Plain { words, saved } => (-8 * words as i64 - 8, saved),
            Self::Pointer { saved, .. } => (-32, saved),
            Self::Realigned { .. } | Self::Bottom => return true,
            Self::Stored { saved } => (-32, saved),
            _ => return false,
        };
        match saved {
            Saved::AtTop(offset) => offset >= lowest,
            Saved::AtSp(offset) => offset >= -8,
            Saved::AtBp(_) | Saved::Nowhere => true,
        }
    }

    /// Whether the function has words more on the stack in its second half.
    pub(crate) fn pushes(self) -> bool {
        matches!(self, Self::Plain { saved, .. } if !matches!(saved, Saved::AtSp(_)))
    }

    fn program(self) -> Vec<u8> {
        let byte = |offset: i64| (offset as u8) & 0x7f; // a signed number of one byte
        let saved = |saved: Saved| match saved {
            Saved::Nowhere => vec![],
            Saved::AtTop(offset) => vec![code::OFFSET_SIGNED, 6, byte(offset / -8)],
            Saved::AtBp(offset) => vec![code::EXPRESSION, 6, 2, 0x76, byte(offset)],
            Saved::AtSp(offset) => vec![code::EXPRESSION, 6, 2, 0x77, byte(offset)],
        };
        let unsigned = |value: u64| [value as u8 | 0x80, (value >> 7) as u8 | 0x80, (value >> 14) as u8];
        match self {
            Self::Plain { words, saved: place } => {
                let pushed = if self.pushes() { PUSHED } else { 0 };
                let half = [code::ADVANCE_BY, SECOND_HALF as u8, code::DEF_CFA_OFFSET];
                let [first, second] = [unsigned(8 * words), unsigned(8 * words + pushed)];
                [[code::DEF_CFA, 7].as_slice(), &first, &saved(place), &half, &second].concat()
            }
            Self::Pointer { words, saved: place } => {
                [[code::DEF_CFA, 6, 8 * words as u8].as_slice(), &saved(place)].concat()
            }
            Self::Realigned { saved: place } => {
                [[code::DEF_CFA_EXPRESSION, 3, 0x76, 0x78, 0x06].as_slice(), &saved(place)].concat()
            }
            Self::Stored { saved: place } => {
                [[code::DEF_CFA_EXPRESSION, 3, 0x77, 16, 0x06].as_slice(), &saved(place)].concat()
            }
            Self::Linkage => LINKAGE.to_vec(),
            Self::Signal => SIGNAL.to_vec(),
            Self::General => vec![code::DEF_CFA_EXPRESSION, 3, 0x77, 32, 0x96],
            Self::Bare => vec![],
            Self::Broken => vec![0x3f],
            Self::Bottom => vec![code::UNDEFINED, 16],
        }
    }
}

const SAVED: Saved = Saved::AtTop(-16);

const REALIGNED: Frame = Frame::Realigned { saved: Saved::AtBp(0) };

const FIXED: [Frame; 29] = [
    Frame::Plain { words: 1, saved: Saved::Nowhere },
    Frame::Plain { words: 2, saved: Saved::Nowhere },
    Frame::Plain { words: 6, saved: Saved::Nowhere },
    Frame::Plain { words: 2, saved: SAVED },
    Frame::Plain { words: 4, saved: SAVED },
    Frame::Plain { words: 6, saved: Saved::AtTop(-32) },
    Frame::Plain { words: 4, saved: Saved::AtSp(8) },
    Frame::Plain { words: 6, saved: Saved::AtBp(-8) },
    // 16 KiB: it has the same place in the map of stack pointers as its caller.
    Frame::Plain { words: 2048, saved: SAVED },
    Frame::Plain { words: 2046, saved: Saved::Nowhere },
    Frame::Pointer { words: 2, saved: SAVED },
    Frame::Pointer { words: 2, saved: SAVED },
    Frame::Pointer { words: 4, saved: Saved::AtBp(0) },
    Frame::Pointer { words: 2, saved: Saved::AtSp(0) },
    // They do not keep what they destroy: whatever counts from `rbp` outside of them is lost.
    Frame::Pointer { words: 2, saved: Saved::Nowhere },
    Frame::Realigned { saved: Saved::Nowhere },
    REALIGNED,
    REALIGNED,
    Frame::Stored { saved: Saved::Nowhere },
    Frame::Stored { saved: Saved::AtSp(8) },
    // In the caller's frame, in the last word of what it called, and below that.
    Frame::Plain { words: 2, saved: Saved::AtTop(8) },
    Frame::Plain { words: 2, saved: Saved::AtSp(-8) },
    Frame::Plain { words: 2, saved: Saved::AtSp(-16) },
    Frame::Plain { words: 2, saved: Saved::AtTop(-48) },
    Frame::General,
    Frame::Linkage,
    Frame::Signal,
    Frame::Broken,
    Frame::Bottom,
];

/// What the functions of the plugin are, the first time it is loaded and the second.
const PLUGINS: [[Frame; 4]; 2] = [
    [
        Frame::Plain { words: 4, saved: SAVED },
        Frame::Pointer { words: 2, saved: SAVED },
        Frame::Plain { words: 6, saved: Saved::Nowhere },
        REALIGNED,
    ],
    [
        Frame::Plain { words: 2, saved: Saved::Nowhere },
        Frame::Plain { words: 4, saved: SAVED },
        Frame::Bottom,
        Frame::Pointer { words: 2, saved: SAVED },
    ],
];

/// What the module is that is loaded where code was generated.
const LOADED: [Frame; 2] = [Frame::Plain { words: 4, saved: SAVED }, Frame::Pointer { words: 2, saved: SAVED }];

fn at(start: u64, frames: &[Frame]) -> impl Iterator<Item = Function> {
    (start..).step_by(LENGTH as usize).zip(frames).map(|(start, &frame)| Function { start, frame })
}

/// All functions, as they are with this plugin.
pub(crate) fn functions(plugin: usize, loaded: bool) -> Vec<Function> {
    let generated = if loaded { LOADED } else { [Frame::Bare; 2] };
    at(CODE, &FIXED)
        .chain(at(PLUGIN, &PLUGINS[plugin]))
        .chain(at(BARE, &[Frame::Bare; 2]))
        .chain(at(GENERATED, &generated))
        .collect()
}

fn segment(functions: impl Iterator<Item = Function>) -> Vec<u8> {
    let add = |maker: Maker, Function { start, frame }| match frame {
        Frame::Signal => maker.signal(start, &frame.program()),
        _ => maker.function(start, &frame.program()),
    };
    functions.fold(Maker::new(), add).segment()
}

/// The table of the module that holds [`CODE`], [`APART`] and [`PLUGIN`].
pub(crate) fn table_with(plugin: usize) -> Vec<u8> {
    let apart = Frame::Plain { words: 1, saved: Saved::Nowhere };
    segment(at(CODE, &FIXED).chain(at(APART, &[apart])).chain(at(PLUGIN, &PLUGINS[plugin])))
}

/// The table of the module that is loaded where code was generated.
pub(crate) fn table_of_loaded() -> Vec<u8> {
    segment(at(GENERATED, &LOADED))
}
