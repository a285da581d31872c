//! Labels: what a program says of what it does, so that its blocks can be told apart by it.

use crate::element::published;

published! {
    /// An element of `labels`: one pair of key and value, and what was in force around it. Element 0 is unused: label 0 is
    /// no label.
    Label by key_bytes {
        /// The label around it, 0 if there is none. It has a lower number.
        parent: u32,
        /// Where the key lies in `strings`.
        key_at: u32,
        /// Where the value lies in `strings`.
        value_at: u32,
        /// Bytes of the key; the commit word.
        key_bytes: u16,
        /// Bytes of the value.
        value_bytes: u16,
    }
}

/// Most bytes of a key or a value; of longer ones the rest is cut off.
pub const TEXT_BYTES_MAX: u16 = 4095;
