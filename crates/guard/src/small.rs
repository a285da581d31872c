//! Blocks dressed on a chip: with what little there is room for, and so that all of it is looked at by the chip itself, by a debugger and in an
//! image of its memory by the same code.
//!
//! ```text
//!  what the allocator gave
//!  |
//!  [ for alignment ][ 4 bytes ][ canary ][ block, any size ][ canary ][ slack ]
//!                    size, lead, ABBA1234                    BAAD5678  BD BD …
//!                    checksum
//! ```
//!
//! Twelve bytes a block, and up to seven of slack: allocators are asked for multiples of eight bytes. Where blocks begin, a bit for each eight
//! bytes of the heap says, beside it: a second free is known by it, the block of an address in its middle, and what is to be looked at. Nothing
//! else is believed before it was compared: of the word in front of the canary each change of one byte is seen, and undone if the canary behind the
//! block then is where it says.
//!
//! A second row of bits says which eight bytes of freed memory were filled and not changed by the allocator since: [`SmallHeap::note_filled`].

#![forbid(unsafe_code)]

mod heap;
mod lines;

pub use heap::{Bad, SMALL_SLICE_BYTES, SmallHeap, bit_words};
pub use lines::{corrupt_lines, structure_line};

use crate::check::{Bytes, Damage, Region};
use crate::layout::{HEAD_CANARY, SLACK_FILL, TAIL_BYTES, TAIL_CANARY};
use crate::memory::Memory;

/// What blocks and what is known of memory come in, in bytes.
pub const SMALL_GRANULE_BYTES: u32 = 8;
/// Bytes in front of a block: a word, and the canary.
pub const SMALL_HEADER_BYTES: u32 = 8;
/// What freed memory is filled with.
pub const SMALL_FREED_FILL: u8 = 0xFE;
/// What new memory is filled with.
pub const SMALL_NEW_FILL: u8 = 0xCE;
/// What stands in place of the canary in front of a block that was freed, where it is not filled, until the allocator stores something there.
pub const SMALL_FREED_MARK: u32 = !HEAD_CANARY;

/// Bits of the word that are the size, then those of the lead.
const SIZE_BITS: u32 = 22;
const LEAD_BITS: u32 = 2;
const INFO_BITS: u32 = SIZE_BITS.wrapping_add(LEAD_BITS);
const SIZE_MASK: u32 = (1 << SIZE_BITS) - 1;
const INFO_MASK: u32 = (1 << INFO_BITS) - 1;
/// With the lead, stands in front of the header of a block with a larger one.
const LEAD_FILL: u32 = u32::from_le_bytes([SLACK_FILL; 4]);
const TAIL: u32 = TAIL_BYTES as u32;

/// The largest block that is dressed, in bytes.
pub const SMALL_BYTES_MAX: u32 = SIZE_MASK;
/// The largest alignment of a block that is dressed.
pub const SMALL_ALIGNMENT_MAX: u32 = SMALL_HEADER_BYTES << ((1 << LEAD_BITS) - 1);

/// A byte that changes with each byte of both.
const fn sum(info: u32, address: u32) -> u32 {
    let mixed = info ^ address.wrapping_shr(3);
    (mixed ^ mixed.wrapping_shr(8) ^ mixed.wrapping_shr(16) ^ mixed.wrapping_shr(24) ^ 0xA5) & 0xFF
}

/// What to ask an allocator for, so that a block can be dressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallPlan {
    size: u32,
    lead: u32,
}

impl SmallPlan {
    /// For a block of this size and alignment, a power of two. `None`: it is too large for that.
    #[inline(always)]
    pub const fn new(size: u32, alignment: u32) -> Option<SmallPlan> {
        let lead = if alignment < SMALL_HEADER_BYTES { SMALL_HEADER_BYTES } else { alignment };
        if size > SMALL_BYTES_MAX || lead > SMALL_ALIGNMENT_MAX { None } else { Some(SmallPlan { size, lead }) }
    }

    /// The same for one that grows or shrinks in its place, and keeps its lead.
    pub const fn resized(block: &SmallBlock, size: u32) -> Option<SmallPlan> {
        if size > SMALL_BYTES_MAX { None } else { Some(SmallPlan { size, lead: block.lead }) }
    }

    /// Bytes to ask for: a multiple of eight.
    #[inline(always)]
    pub const fn bytes(&self) -> u32 {
        whole_bytes(self.lead, self.size)
    }

    /// The alignment to ask for.
    #[inline(always)]
    pub const fn alignment(&self) -> u32 {
        self.lead
    }

    /// Bytes in front of the block.
    #[inline(always)]
    pub const fn lead(&self) -> u32 {
        self.lead
    }
}

#[inline(always)]
const fn whole_bytes(lead: u32, size: u32) -> u32 {
    let rounding = SMALL_GRANULE_BYTES.wrapping_sub(1);
    lead.wrapping_add(size).wrapping_add(TAIL).wrapping_add(rounding) & !rounding
}

/// A dressed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallBlock {
    /// What the program has.
    pub address: u32,
    /// Bytes that it asked for.
    pub size: u32,
    /// Bytes in front of it that are the allocator's block as well.
    pub lead: u32,
}

impl SmallBlock {
    /// What the allocator gave.
    #[inline(always)]
    pub const fn given(&self) -> u32 {
        self.address.wrapping_sub(self.lead)
    }

    /// Where the canary behind it begins.
    #[inline(always)]
    pub const fn end(&self) -> u32 {
        self.address.wrapping_add(self.size)
    }

    /// Bytes that the allocator was asked for.
    #[inline(always)]
    pub const fn bytes(&self) -> u32 {
        whole_bytes(self.lead, self.size)
    }

    /// Bytes behind the canary.
    #[inline(always)]
    pub const fn slack(&self) -> u32 {
        self.bytes().wrapping_sub(self.lead).wrapping_sub(self.size).wrapping_sub(TAIL)
    }

    #[inline(always)]
    const fn word(&self) -> u32 {
        let lead = self.lead.trailing_zeros().wrapping_sub(SMALL_HEADER_BYTES.trailing_zeros());
        let info = self.size | lead.wrapping_shl(SIZE_BITS);
        info | sum(info, self.address).wrapping_shl(INFO_BITS)
    }

    const fn of_info(info: u32, address: u32) -> SmallBlock {
        let lead = SMALL_HEADER_BYTES.wrapping_shl(info.wrapping_shr(SIZE_BITS) & ((1 << LEAD_BITS) - 1));
        SmallBlock { address, size: info & SIZE_MASK, lead }
    }

    /// The block that such a word in front of this address tells of, if its checksum is right.
    #[inline(always)]
    const fn of_word(word: u32, address: u32) -> Option<SmallBlock> {
        let info = word & INFO_MASK;
        if word.wrapping_shr(INFO_BITS) == sum(info, address) { Some(SmallBlock::of_info(info, address)) } else { None }
    }
}

/// A word of memory, at a multiple of four.
#[inline(always)]
fn word(memory: &impl Memory, address: u32) -> Option<u32> {
    memory.read_word(u64::from(address)).map(u32::from_le_bytes)
}

#[inline(always)]
fn set_word(memory: &impl Memory, address: u32, word: u32) -> Option<()> {
    memory.write_word(u64::from(address), word.to_le_bytes())
}

/// What stands where the canary behind a block does, at any address.
fn tail(memory: &impl Memory, address: u32) -> Option<u32> {
    memory.read(u64::from(address)).map(u32::from_le_bytes)
}

#[inline(always)]
fn byte(memory: &impl Memory, address: u32) -> Option<u8> {
    memory.read::<1>(u64::from(address)).map(|[byte]| byte)
}

/// Dresses what an allocator gave at this address, as it was asked for. `None` if it does not lie at a multiple of eight, or not in `memory`:
/// then it is to be handed out as it is.
#[inline(always)]
pub fn dress_small(memory: &impl Memory, plan: &SmallPlan, given: u32) -> Option<SmallBlock> {
    if !given.is_multiple_of(SMALL_GRANULE_BYTES) {
        return None;
    }
    let block = SmallBlock { address: given.wrapping_add(plan.lead), size: plan.size, lead: plan.lead };
    set_word(memory, block.address.wrapping_sub(8), block.word())?;
    set_word(memory, block.address.wrapping_sub(4), HEAD_CANARY)?;
    memory.write(u64::from(block.end()), TAIL_CANARY.to_le_bytes())?;
    if plan.lead > SMALL_HEADER_BYTES {
        set_word(memory, block.address.wrapping_sub(12), LEAD_FILL ^ plan.lead)?;
    }
    let (mut at, behind) = (block.end().wrapping_add(TAIL), block.given().wrapping_add(block.bytes()));
    while at < behind {
        memory.write(u64::from(at), [SLACK_FILL])?;
        at = at.wrapping_add(1);
    }
    Some(block)
}

/// Says in front of a block that it was freed.
#[inline(always)]
pub fn mark_freed(memory: &impl Memory, address: u32) {
    let _ = set_word(memory, address.wrapping_sub(4), SMALL_FREED_MARK);
}

/// Whether what stands in front of an address is what [`mark_freed`] has left there, or a fill.
pub fn was_freed(memory: &impl Memory, address: u32) -> bool {
    let mark = word(memory, address.wrapping_sub(4));
    mark == Some(SMALL_FREED_MARK) || mark == Some(u32::from_le_bytes([SMALL_FREED_FILL; 4]))
}

/// The block at this address, if all of its dressing is as it was put on, and it ends where memory does or before.
#[inline(always)]
pub fn whole_small(memory: &impl Memory, address: u32, limit: u32) -> Option<SmallBlock> {
    let block = SmallBlock::of_word(word(memory, address.wrapping_sub(8))?, address)?;
    let is_whole = word(memory, address.wrapping_sub(4))? == HEAD_CANARY
        && is_within(&block, limit)
        && tail(memory, block.end())? == TAIL_CANARY;
    let (mut at, behind) = (block.end().wrapping_add(TAIL), block.given().wrapping_add(block.bytes()));
    if !is_whole {
        return None;
    }
    while at < behind {
        if byte(memory, at)? != SLACK_FILL {
            return None;
        }
        at = at.wrapping_add(1);
    }
    Some(block)
}

/// Whether such a block ends before this address: it begins before it.
#[inline(always)]
fn is_within(block: &SmallBlock, limit: u32) -> bool {
    let behind = block.bytes().wrapping_sub(block.lead);
    behind <= limit.wrapping_sub(block.address)
}

/// Bytes that are not what they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallDamage {
    /// What the first of them is part of.
    pub region: Region,
    /// Where it lies.
    pub address: u32,
    /// Bytes from the first to the last that is damaged.
    pub bytes: u32,
}

impl SmallDamage {
    /// Compares so many bytes with what they are to be, by their distance from the first; the region of each follows from that as well.
    #[inline(never)]
    fn among(memory: &impl Memory, first: u32, bytes: u32, expected: [u32; 3]) -> Option<(u32, u32)> {
        let (mut from, mut to) = (bytes, 0u32);
        for past in 0..bytes {
            if byte(memory, first.wrapping_add(past)).is_some_and(|found| found != byte_of(&expected, past)) {
                (from, to) = (from.min(past), past.wrapping_add(1));
            }
        }
        (from < to).then(|| (from, to.wrapping_sub(from)))
    }

    /// What was there: the byte at a distance from the first that is damaged. `None`: nobody knows, for so much of the header is damaged that it is not known whose.
    pub fn expected(&self, block: Option<&SmallBlock>, past: u32) -> Option<u8> {
        let at = self.address.wrapping_add(past);
        match self.region {
            Region::Freed => Some(SMALL_FREED_FILL),
            Region::Header | Region::HeadCanary => {
                let block = block?;
                let words = [block.word(), HEAD_CANARY, 0];
                let past = at.wrapping_sub(block.address).wrapping_add(SMALL_HEADER_BYTES);
                (past < SMALL_HEADER_BYTES).then(|| byte_of(&words, past))
            }
            Region::TailCanary | Region::Slack => {
                let past = at.wrapping_sub(block?.end());
                (past < TAIL.wrapping_add(7)).then(|| byte_of(&BEHIND, past))
            }
        }
    }
}

impl SmallDamage {
    /// The same as other guards tell it, of the block at `start`, with what was there and what is.
    pub fn told(&self, memory: &impl Memory, block: Option<&SmallBlock>, start: u32) -> Damage {
        let (mut expected, mut found) = (Bytes::default(), Bytes::default());
        for past in 0..self.bytes.min(8) {
            if let Some(is) = byte(memory, self.address.wrapping_add(past)) {
                found.push(is);
            }
            if let Some(was) = self.expected(block, past) {
                expected.push(was);
            }
        }
        let offset = i64::from(self.address).wrapping_sub(i64::from(start));
        Damage { region: self.region, offset, bytes: self.bytes.into(), expected, found }
    }
}

/// The canary behind a block, and slack.
const BEHIND: [u32; 3] = [TAIL_CANARY, LEAD_FILL, LEAD_FILL];

fn byte_of(words: &[u32; 3], nth: u32) -> u8 {
    let word = words.get(nth.wrapping_shr(2) as usize).copied().unwrap_or(0);
    word.wrapping_shr((nth & 3).wrapping_mul(8)) as u8
}

/// What [`check_small`] has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallChecked {
    /// The block; `None` if its header cannot be believed. Then nobody knows where it ends, and what is behind it was not looked at.
    pub block: Option<SmallBlock>,
    /// What is wrong in front of it.
    pub below: Option<SmallDamage>,
    /// What is wrong behind it.
    pub above: Option<SmallDamage>,
}

/// Looks at the dressing of a block that begins at this address, in memory that ends at `limit`: reads eight bytes in front of it, and behind it only what the
/// header says, if that is right or can be made right. `None` if it cannot be read.
#[cold]
#[inline(never)]
pub fn check_small(memory: &impl Memory, address: u32, limit: u32) -> Option<SmallChecked> {
    let start = address.wrapping_sub(SMALL_HEADER_BYTES);
    let there = word(memory, start)?;
    let block = SmallBlock::of_word(there, address).filter(|block| is_within(block, limit));
    let block = block.or_else(|| repaired_small(memory, there, address, limit));
    let (mut below, mut above) = (None, None);
    // Of a header that nobody can make right all four bytes count as damaged.
    let expected = block.map_or(!there, |block| block.word());
    if let Some((from, bytes)) = SmallDamage::among(memory, start, SMALL_HEADER_BYTES, [expected, HEAD_CANARY, 0]) {
        let region = if from < 4 { Region::Header } else { Region::HeadCanary };
        below = Some(SmallDamage { region, address: start.wrapping_add(from), bytes });
    }
    if let Some(block) = block
        && let Some((from, bytes)) = SmallDamage::among(memory, block.end(), TAIL.wrapping_add(block.slack()), BEHIND)
    {
        let region = if from < TAIL { Region::TailCanary } else { Region::Slack };
        above = Some(SmallDamage { region, address: block.end().wrapping_add(from), bytes });
    }
    Some(SmallChecked { block, below, above })
}

/// The block whose header this would be with one other byte, if that is only one, and the canary stands behind it.
fn repaired_small(memory: &impl Memory, there: u32, address: u32, limit: u32) -> Option<SmallBlock> {
    let change = sum(there & INFO_MASK, address) ^ there.wrapping_shr(INFO_BITS);
    let (mut found, mut are_many) = (None::<SmallBlock>, false);
    for place in 0..4u32 {
        let tried = there ^ change.wrapping_shl(place.wrapping_mul(8));
        let Some(block) = SmallBlock::of_word(tried, address).filter(|block| is_within(block, limit)) else { continue };
        if tail(memory, block.end()) != Some(TAIL_CANARY) {
            continue;
        }
        // That canary is where it is whatever the lead: a larger one has left itself in front of the header.
        if block.lead != SMALL_HEADER_BYTES {
            if word(memory, address.wrapping_sub(12)) == Some(LEAD_FILL ^ block.lead) {
                return Some(block);
            }
            continue;
        }
        are_many |= found.replace(block).is_some();
    }
    if are_many { None } else { found }
}

#[cfg(test)]
mod tests;
