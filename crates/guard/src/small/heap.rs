//! A heap of a chip: where its dressed blocks begin, and which of its freed memory is filled. Bits lie beside it, one for eight bytes.
//!
//! Nothing here is atomic: who calls has the heap's bits alone.

#![forbid(unsafe_code)]

use core::cell::Cell;

use super::{
    SMALL_FREED_FILL, SMALL_GRANULE_BYTES, SMALL_HEADER_BYTES, SmallBlock, SmallChecked, SmallDamage, check_small,
    whole_small, word,
};
use crate::check::Region;
use crate::memory::Memory;

const WORD_BITS: u32 = 32;

/// Words of bits in which a block is looked for that begins in the place of another one: who looks is alone.
const OVERLAP_WORDS: usize = 64;

/// Bytes of freed memory that are looked at at once.
pub const SMALL_SLICE_BYTES: u32 = SMALL_GRANULE_BYTES * WORD_BITS;

/// Words of bits that a heap of so many bytes needs, of each kind.
pub const fn bit_words(bytes: usize) -> usize {
    bytes.div_ceil((SMALL_GRANULE_BYTES as usize).wrapping_mul(WORD_BITS as usize))
}

/// A heap.
#[derive(Clone, Copy, Debug)]
pub struct SmallHeap<'a> {
    /// Its first byte, at a multiple of eight.
    pub first: u32,
    /// Bytes of it.
    pub bytes: u32,
    /// A bit for each eight bytes: a dressed block begins there.
    pub begins: &'a [Cell<u32>],
    /// A bit for each eight bytes: they are free and filled. None, where freed memory is not filled.
    pub filled: &'a [Cell<u32>],
}

/// Why a block cannot be there as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// Bytes around it are damaged.
    Damaged(SmallChecked),
    /// It reaches into the block that begins at this address, which lies there as well.
    Overlaps(u32),
}

/// A bit of a row, and which word it is in.
#[inline(always)]
fn place(granule: u32) -> (usize, u32) {
    (granule.wrapping_shr(5) as usize, 1u32.wrapping_shl(granule))
}

impl SmallHeap<'_> {
    /// One past its last byte.
    #[inline(always)]
    pub const fn limit(&self) -> u32 {
        self.first.wrapping_add(self.bytes)
    }

    /// Whether an address lies in it.
    #[inline(always)]
    pub const fn has(&self, address: u32) -> bool {
        address.wrapping_sub(self.first) < self.bytes
    }

    /// Whether so many bytes lie in it, from an address on.
    #[inline(always)]
    pub const fn has_all(&self, address: u32, bytes: u32) -> bool {
        let past = address.wrapping_sub(self.first);
        past < self.bytes && bytes <= self.bytes.wrapping_sub(past)
    }

    /// Whether there is room in front of an address for what stands there: a bit that says otherwise is damaged.
    #[inline(always)]
    const fn has_header(&self, address: u32) -> bool {
        let past = address.wrapping_sub(self.first);
        past < self.bytes && past >= SMALL_HEADER_BYTES
    }

    #[inline(always)]
    fn granule(&self, address: u32) -> u32 {
        address.wrapping_sub(self.first).wrapping_shr(SMALL_GRANULE_BYTES.trailing_zeros())
    }

    #[inline(always)]
    fn address_of(&self, granule: u32) -> u32 {
        self.first.wrapping_add(granule.wrapping_mul(SMALL_GRANULE_BYTES))
    }

    /// Whether a dressed block begins at an address, which lies in the heap.
    #[inline(always)]
    pub fn begins(&self, address: u32) -> bool {
        let (word, bit) = place(self.granule(address));
        address.is_multiple_of(SMALL_GRANULE_BYTES) && self.begins.get(word).is_some_and(|word| word.get() & bit != 0)
    }

    /// A dressed block begins there. False if there is no bit for it.
    #[inline(always)]
    pub fn mark(&self, address: u32) -> bool {
        let (word, bit) = place(self.granule(address));
        self.begins.get(word).map(|word| word.set(word.get() | bit)).is_some()
    }

    /// None does any more. False if none did.
    #[inline(always)]
    pub fn unmark(&self, address: u32) -> bool {
        let (word, bit) = place(self.granule(address));
        let Some(word) = self.begins.get(word).filter(|_| address.is_multiple_of(SMALL_GRANULE_BYTES)) else {
            return false;
        };
        let before = word.get();
        word.set(before & !bit);
        before & bit != 0
    }

    /// The first dressed block that begins at an address or above, among the next `words` words of bits; else how far was looked.
    ///
    /// # Errors
    /// If there is none. The heap's end, if there is none at all.
    pub fn next_block(&self, from: u32, words: usize) -> Result<u32, u32> {
        let granule = self.granule(from.wrapping_add(SMALL_GRANULE_BYTES.wrapping_sub(1)));
        let (first, bit) = place(granule);
        let mut wanted = !bit.wrapping_sub(1);
        let mut at = first;
        for word in self.begins.get(first..).unwrap_or(&[]).iter().take(words) {
            let set = word.get() & wanted;
            if set != 0 {
                return Ok(self.address_of((at as u32).wrapping_mul(WORD_BITS).wrapping_add(set.trailing_zeros())));
            }
            wanted = u32::MAX;
            at = at.wrapping_add(1);
        }
        let passed = (at as u32).wrapping_mul(WORD_BITS);
        let behind = if at < self.begins.len() { self.address_of(passed) } else { self.limit() };
        Err(if self.has(behind) { behind } else { self.limit() })
    }

    /// The dressed block that begins at an address of the heap or nearest below it.
    pub fn block_below(&self, address: u32) -> Option<u32> {
        let (last, bit) = place(self.granule(address));
        let mut wanted = bit | bit.wrapping_sub(1);
        let mut at = last;
        loop {
            let set = self.begins.get(at)?.get() & wanted;
            if set != 0 {
                let highest = WORD_BITS.wrapping_sub(1).wrapping_sub(set.leading_zeros());
                return Some(self.address_of((at as u32).wrapping_mul(WORD_BITS).wrapping_add(highest)));
            }
            at = at.checked_sub(1)?;
            wanted = u32::MAX;
        }
    }

    /// The live block in whose place an address of the heap lies: with what is around it.
    pub fn block_around(&self, memory: &impl Memory, address: u32) -> Option<SmallBlock> {
        let begins = self.block_below(address).filter(|begins| self.has_header(*begins))?;
        let block = check_small(memory, begins, self.limit())?.block?;
        (address.wrapping_sub(block.given()) < block.bytes()).then_some(block)
    }

    /// The block at an address where one begins, if all is as it should be there. What is behind its end is not looked at.
    #[inline(always)]
    pub fn whole(&self, memory: &impl Memory, address: u32) -> Option<SmallBlock> {
        whole_small(memory, address, self.limit())
    }

    /// The same; and no other block begins in its place, as far as its first 16 KiB go.
    ///
    /// # Errors
    /// What is wrong. `None`: it cannot be read.
    pub fn examine(&self, memory: &impl Memory, address: u32) -> Result<SmallBlock, Option<Bad>> {
        if !self.has_header(address) {
            return Err(None);
        }
        let Some(block) = self.whole(memory, address) else {
            return Err(check_small(memory, address, self.limit()).map(Bad::Damaged));
        };
        // Its own bits and those of what lies behind its header.
        let behind = block.given().wrapping_add(block.bytes());
        let words = (block.bytes().wrapping_shr(8).wrapping_add(2) as usize).min(OVERLAP_WORDS);
        match self.next_block(address.wrapping_add(SMALL_GRANULE_BYTES), words) {
            Ok(next) if next.wrapping_sub(address) < behind.wrapping_sub(address) => Err(Some(Bad::Overlaps(next))),
            _ => Ok(block),
        }
    }

    /// Runs `each` for all granules that begin in a range.
    #[inline(always)]
    fn for_each_granule(&self, first: u32, bytes: u32, mut each: impl FnMut(u32, &Cell<u32>, u32)) {
        let granule = self.granule(first);
        for nth in 0..bytes.wrapping_shr(SMALL_GRANULE_BYTES.trailing_zeros()) {
            let granule = granule.wrapping_add(nth);
            let (word, bit) = place(granule);
            let Some(word) = self.filled.get(word) else { return };
            each(self.address_of(granule), word, bit);
        }
    }

    /// The allocator has taken memory back that was filled before: of each eight bytes it is noted whether they still are. The others have words of
    /// the allocator's. The range lies in the heap, at multiples of eight.
    pub fn note_filled(&self, memory: &impl Memory, first: u32, bytes: u32) {
        self.for_each_granule(first, bytes, |at, word, bit| {
            word.set(if is_filled(memory, at) { word.get() | bit } else { word.get() & !bit });
        });
    }

    /// The allocator has given memory, and perhaps stored words of its own around it: of eight bytes there that are not filled any more nobody says so.
    pub fn leave_allocators(&self, memory: &impl Memory, first: u32, bytes: u32) {
        let last = first.wrapping_add(bytes).min(self.limit());
        let first = first.max(self.first);
        self.for_each_granule(first, last.saturating_sub(first), |at, word, bit| {
            if word.get() & bit != 0 && !is_filled(memory, at) {
                word.set(word.get() & !bit);
            }
        });
    }

    /// Memory is in use again: nothing is known of it.
    pub fn forget_filled(&self, first: u32, bytes: u32) {
        self.for_each_granule(first, bytes, |_, word, bit| word.set(word.get() & !bit));
    }

    /// Looks at freed memory, at multiples of eight: the first that was filled and is not any more, as far as it lies together.
    pub fn damage_in_filled(&self, memory: &impl Memory, first: u32, bytes: u32) -> Option<SmallDamage> {
        const FILL: u32 = u32::from_le_bytes([SMALL_FREED_FILL; 4]);
        let mut damage = None::<SmallDamage>;
        let mut is_over = false;
        self.for_each_granule(first, bytes, |at, word, bit| {
            let is_bad = word.get() & bit != 0 && !is_over && !is_filled(memory, at);
            let bad = if is_bad { SmallDamage::among(memory, at, SMALL_GRANULE_BYTES, [FILL; 3]) } else { None };
            match (bad, &mut damage) {
                (Some((from, bytes)), None) => {
                    damage = Some(SmallDamage { region: Region::Freed, address: at.wrapping_add(from), bytes });
                }
                (Some((from, bytes)), Some(damage)) => {
                    damage.bytes = at.wrapping_add(from).wrapping_add(bytes).wrapping_sub(damage.address);
                }
                (None, damage) => is_over = damage.is_some(),
            }
        });
        damage
    }

    /// Where to go on behind damage of freed memory.
    pub const fn behind(damage: &SmallDamage) -> u32 {
        let rounding = SMALL_GRANULE_BYTES.wrapping_sub(1);
        damage.address.wrapping_add(damage.bytes).wrapping_add(rounding) & !rounding
    }

    /// Runs something for a range at multiples of eight, a few hundred bytes at a time: who is alone meanwhile is so for a short time.
    pub fn in_slices(first: u32, bytes: u32, mut each: impl FnMut(u32, u32)) {
        let (mut at, mut left) = (first, bytes);
        while left != 0 {
            let now = left.min(SMALL_SLICE_BYTES);
            each(at, now);
            (at, left) = (at.wrapping_add(now), left.wrapping_sub(now));
        }
    }
}

/// Whether eight bytes are filled as freed memory is.
#[inline(always)]
fn is_filled(memory: &impl Memory, at: u32) -> bool {
    const FILL: u32 = u32::from_le_bytes([SMALL_FREED_FILL; 4]);
    word(memory, at) == Some(FILL) && word(memory, at.wrapping_add(4)) == Some(FILL)
}
