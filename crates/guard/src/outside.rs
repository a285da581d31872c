//! The tables of another process, read through a [`Memory`]: where its dressed blocks begin, and what is damaged of those that lie in its
//! guard's own memory.
//!
//! That process goes on meanwhile: what is read may be of two moments. So damage that is found once is a suspicion, and who looks
//! again, with memory that is read anew, asks whether it still is the same block ([`Bits::begins`], [`Rows::life`]). Nothing that is read
//! is believed any further than it can be checked.

#![forbid(unsafe_code)]

use crate::arena::{Finding, Found, Life, Slot, Watched, edges_of_pages, tell_edges};
use crate::memory::Memory;

/// Bytes of memory for which a bit stands.
const GRANULE_BYTES: u64 = 16;
const WORD_BITS: u64 = 32;
const WORD_BYTES: u64 = 4;
const POINTER_BYTES: u64 = 8;

/// No page is larger: what says so is damaged.
const PAGE_BYTES_MAX: u64 = 1 << 20;

/// Pointers of a page.
const PAGE_POINTERS: u64 = 512;

/// The bitmap of dressed blocks ([`Dressed`](crate::Dressed)) of another process.
#[derive(Clone, Copy, Debug)]
pub struct Bits {
    /// Where it lies.
    pub root: u64,
    /// How many leaves it may have.
    pub leaves: u64,
    /// Words of each.
    pub leaf_words: u64,
}

/// What comes next in a bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextBit {
    /// A dressed block begins here.
    Block(u64),
    /// What begins here cannot be read: a part of the bitmap. It goes on at the second address.
    Unread(u64, u64),
    /// There is nothing more.
    End,
}

impl Bits {
    /// Bytes of memory that a leaf stands for.
    fn leaf_bytes(&self) -> Option<u64> {
        self.leaf_words.checked_mul(WORD_BITS)?.checked_mul(GRANULE_BYTES).filter(|bytes| *bytes != 0)
    }

    /// Where the leaf for an address lies, 0 if there is none. `None` if that cannot be read.
    fn leaf(&self, memory: &impl Memory, number: u64) -> Option<u64> {
        let at = self.root.checked_add(number.checked_mul(POINTER_BYTES)?)?;
        Some(u64::from_le_bytes(memory.read(at)?))
    }

    /// Whether a dressed block begins at an address. `None` if that cannot be read.
    pub fn begins(&self, memory: &impl Memory, address: u64) -> Option<bool> {
        let number = address.checked_div(self.leaf_bytes()?)?;
        if number >= self.leaves || !address.is_multiple_of(GRANULE_BYTES) {
            return Some(false);
        }
        let leaf = self.leaf(memory, number)?;
        if leaf == 0 {
            return Some(false);
        }
        let granule = address.checked_div(GRANULE_BYTES)?;
        let word = granule.checked_div(WORD_BITS)?.checked_rem(self.leaf_words)?;
        let bits = u32::from_le_bytes(memory.read(leaf.checked_add(word.checked_mul(WORD_BYTES)?)?)?);
        Some(bits.wrapping_shr(granule.checked_rem(WORD_BITS)? as u32) & 1 != 0)
    }

    /// The first block that begins at an address or above.
    pub fn next_from(&self, memory: &impl Memory, address: u64) -> NextBit {
        self.find(memory, address).unwrap_or(NextBit::End)
    }

    fn find(&self, memory: &impl Memory, address: u64) -> Option<NextBit> {
        let leaf_bytes = self.leaf_bytes()?;
        let mut granule = address.checked_next_multiple_of(GRANULE_BYTES)?.checked_div(GRANULE_BYTES)?;
        let leaf_granules = self.leaf_words.checked_mul(WORD_BITS)?;
        loop {
            let number = granule.checked_div(leaf_granules)?;
            if number >= self.leaves {
                return None;
            }
            let (here, behind) = (granule.checked_mul(GRANULE_BYTES)?, number.checked_add(1)?.checked_mul(leaf_bytes)?);
            match self.leaf(memory, number) {
                None => {
                    // All of the page is not there.
                    let next = number.checked_next_multiple_of(PAGE_POINTERS)?.max(number.checked_add(1)?);
                    return Some(NextBit::Unread(here, next.checked_mul(leaf_bytes)?));
                }
                Some(0) => granule = self.next_leaf(memory, number.checked_add(1)?)?.checked_mul(leaf_granules)?,
                Some(leaf) => match self.in_leaf(memory, leaf, granule.checked_rem(leaf_granules)?) {
                    InLeaf::At(inside) => {
                        let first = number.checked_mul(leaf_granules)?;
                        return Some(NextBit::Block(first.checked_add(inside)?.checked_mul(GRANULE_BYTES)?));
                    }
                    InLeaf::Nothing => granule = number.checked_add(1)?.checked_mul(leaf_granules)?,
                    InLeaf::Unread => return Some(NextBit::Unread(here, behind)),
                },
            }
        }
    }

    /// The first leaf from this number on that is there or cannot be told.
    fn next_leaf(&self, memory: &impl Memory, number: u64) -> Option<u64> {
        let mut number = number;
        while number < self.leaves {
            let behind = number.checked_add(1)?.checked_next_multiple_of(PAGE_POINTERS)?.min(self.leaves);
            let from = self.root.checked_add(number.checked_mul(POINTER_BYTES)?)?;
            let bytes = behind.checked_sub(number)?.checked_mul(POINTER_BYTES)?;
            if let Some(at) = memory.first_other(from, bytes, 0) {
                return at.checked_sub(self.root)?.checked_div(POINTER_BYTES);
            }
            // Nothing but zeros, or nothing that can be read.
            if self.leaf(memory, number).is_none() {
                return Some(number);
            }
            number = behind;
        }
        None
    }

    /// The first bit that is set in a leaf, from this one on.
    fn in_leaf(&self, memory: &impl Memory, leaf: u64, from: u64) -> InLeaf {
        let find = || {
            let mut word = from.checked_div(WORD_BITS)?;
            let mut wanted = u32::MAX.wrapping_shl(from.checked_rem(WORD_BITS)? as u32);
            loop {
                if word >= self.leaf_words {
                    return Some(InLeaf::Nothing);
                }
                let at = leaf.checked_add(word.checked_mul(WORD_BYTES)?)?;
                let set = u32::from_le_bytes(memory.read(at)?) & wanted;
                if set != 0 {
                    let bit = u64::from(set.trailing_zeros());
                    return Some(InLeaf::At(word.checked_mul(WORD_BITS)?.checked_add(bit)?));
                }
                wanted = u32::MAX;
                word = word.checked_add(1)?;
                // Most of it is empty.
                let rest = self.leaf_words.checked_sub(word)?.checked_mul(WORD_BYTES)?;
                let start = leaf.checked_add(word.checked_mul(WORD_BYTES)?)?;
                match memory.first_other(start, rest, 0) {
                    Some(other) => word = other.checked_sub(leaf)?.checked_div(WORD_BYTES)?,
                    // All zeros, if the last word of it can be read.
                    None if rest == 0 => {}
                    None => {
                        memory.read::<4>(start.checked_add(rest)?.checked_sub(WORD_BYTES)?)?;
                        word = self.leaf_words;
                    }
                }
            }
        };
        find().unwrap_or(InLeaf::Unread)
    }
}

enum InLeaf {
    At(u64),
    Nothing,
    Unread,
}

/// The side table of an arena of another process.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// The first address of the arena's range.
    pub first: u64,
    /// Where the table lies.
    pub slots: u64,
    /// Which arena it is.
    pub of: RowsOf,
}

/// Whose rows they are.
#[derive(Clone, Copy, Debug)]
pub enum RowsOf {
    /// Those of [`Full`](crate::Full).
    Full {
        /// As [`Limits`](crate::Limits) had it.
        fill_bytes_max: u64,
        /// The same; `None`: freed blocks are not filled.
        freed_fill: Option<u8>,
    },
    /// Those of [`Closed`](crate::Closed). What waits there cannot be touched, and there is nothing to look at.
    Closed {
        /// Bytes of a page.
        page_bytes: u64,
    },
}

impl Rows {
    /// Bytes of a row.
    pub const SLOT_BYTES: u64 = size_of::<Slot>() as u64;

    fn slot(&self, memory: &impl Memory, number: u32) -> Option<Slot> {
        let at = self.slots.checked_add(u64::from(number).checked_mul(Self::SLOT_BYTES)?)?;
        Some(Slot::copied(&memory.read::<64>(at)?))
    }

    /// Where the block of a row is in its life, and its life's number; both change when it becomes another one. `None` if there is none or
    /// it cannot be read.
    pub fn life(&self, memory: &impl Memory, number: u32) -> Option<(Life, u64)> {
        let block = self.slot(memory, number)?.found(self.first, number)?;
        Some((block.life, block.life_number))
    }

    /// Looks at the block of a row, and tells what is damaged. Where it is in its life; `None` if there is no block or the row cannot
    /// be read.
    pub fn examine(&self, memory: &impl Memory, number: u32, found: &mut impl FnMut(&Finding)) -> Option<Life> {
        let slot = self.slot(memory, number)?;
        let block = slot.found(self.first, number)?;
        match self.of {
            RowsOf::Full { fill_bytes_max, freed_fill } => {
                Watched { first: self.first, fill_bytes_max, freed_fill }.examine(memory, &slot, number, found);
            }
            RowsOf::Closed { page_bytes: page_bytes @ 1..=PAGE_BYTES_MAX }
                if block.life == Life::Live && page_bytes.is_power_of_two() =>
            {
                tell_edges(memory, (block.start, || block), edges_of_pages(&block, page_bytes), found);
            }
            RowsOf::Closed { .. } => {}
        }
        Some(block.life)
    }

    /// What of memory, around a block of such a row, is looked at and belongs to nobody else.
    pub fn around(&self, block: &Found) -> (u64, u64) {
        const FRONT_BYTES: u64 = 16;
        const BEHIND_BYTES: u64 = 48;
        match self.of {
            RowsOf::Full { .. } => (block.start.saturating_sub(FRONT_BYTES), block.end().saturating_add(BEHIND_BYTES)),
            RowsOf::Closed { page_bytes } => {
                let ((first, _), (_, last)) = edges_of_pages(block, page_bytes);
                (first, last)
            }
        }
    }
}
