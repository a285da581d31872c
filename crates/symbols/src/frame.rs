//! What is known about one address.

use std::sync::Arc;

/// One function on the way to an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The name to show.
    pub function: Option<Arc<str>>,
    /// The name as the linker knows it. Group by this: two demanglers seldom agree.
    pub raw_name: Option<Arc<str>>,
    /// The source file, as the compiler wrote it down.
    pub file: Option<Arc<str>>,
    /// The line in it, from 1.
    pub line: Option<u32>,
    /// The column in it, from 1.
    pub column: Option<u32>,
    /// This frame was inlined into the next one.
    pub inlined: bool,
    /// How far the address lies behind the start of the symbol. Only for names that come
    /// from a symbol table alone: there it is the only hint at the place in the function.
    pub offset: Option<u64>,
}

/// The frames of one address, innermost first. Empty when nothing is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Innermost first; every one but the last has `inlined` set.
    pub frames: Arc<[Frame]>,
    /// Whether time ran out before debug information was looked into: asked again, there may be more.
    pub hasty: bool,
}

impl Default for Resolved {
    fn default() -> Self {
        Resolved { frames: Arc::from([]), hasty: false }
    }
}
