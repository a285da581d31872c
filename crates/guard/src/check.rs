//! Whether a block's dressing is as it was put on, and if not, which bytes of it.

#![forbid(unsafe_code)]

use crate::layout::{Behind, Block, HEAD_CANARY, HEADER_BYTES, SLACK_FILL, Secret, TAIL_BYTES, TAIL_CANARY, Width};
use crate::memory::Memory;

/// Part of a block's dressing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Size, lead and checksum.
    Header,
    /// The canary in front of the block.
    HeadCanary,
    /// The canary behind the block.
    TailCanary,
    /// What lies behind that one.
    Slack,
    /// The block itself, which was filled when it was freed.
    Freed,
}

/// Up to eight bytes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    bytes: [u8; 8],
    len: u8,
}

impl Bytes {
    /// The bytes, in the order of memory.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    pub(crate) fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(usize::from(self.len)) {
            *place = byte;
            self.len = self.len.wrapping_add(1);
        }
    }
}

/// Bytes on one side of a block that are not what they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What the first of them, the one with the lowest address, is part of.
    pub region: Region,
    /// Where that one lies, from the block's first byte on: negative in front of the block.
    pub offset: i64,
    /// Bytes from the first to the last that is damaged.
    pub bytes: u64,
    /// What was there, from the first damaged byte on. Empty if so much of the header is gone that nobody knows.
    pub expected: Bytes,
    /// What is there now.
    pub found: Bytes,
}

/// What [`check`] has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The block, or `None` if its header cannot be believed: where it ends and where the allocator's block begins is
    /// not known then, and what is behind it was not looked at.
    pub block: Option<Block>,
    /// What is wrong in front of it.
    pub below: Option<Damage>,
    /// What is wrong behind it.
    pub above: Option<Damage>,
}

impl Checked {
    /// Whether all is as it was.
    pub fn is_whole(&self) -> bool {
        self.below.is_none() && self.above.is_none()
    }
}

/// Compares bytes one after the other, and keeps what is damaged.
pub(crate) struct Comparison {
    first: Option<u64>,
    damage: Damage,
}

impl Comparison {
    pub(crate) fn new() -> Self {
        let (expected, found) = (Bytes::default(), Bytes::default());
        Self { first: None, damage: Damage { region: Region::Header, offset: 0, bytes: 0, expected, found } }
    }

    /// The byte at this distance from the block's first, `place` by place.
    pub(crate) fn byte(&mut self, region: Region, offset: i64, expected: Option<u8>, found: u8) {
        let place = offset as u64;
        let damaged = expected != Some(found);
        if damaged && self.first.is_none() {
            self.first = Some(place);
            (self.damage.region, self.damage.offset) = (region, offset);
        }
        let Some(first) = self.first else { return };
        if let Some(expected) = expected {
            self.damage.expected.push(expected);
        }
        self.damage.found.push(found);
        if damaged {
            self.damage.bytes = place.wrapping_sub(first).wrapping_add(1);
        }
    }

    pub(crate) fn result(self) -> Option<Damage> {
        self.first.map(|_| self.damage)
    }
}

/// The block at this address, if all of its dressing is as it was put on. As [`check`] else, which says what is wrong.
#[inline(always)]
pub fn whole(memory: &impl Memory, secret: Secret, width: Width, address: u64) -> Option<Block> {
    let block = block_at(memory, secret, width, address)?;
    let end = block.end();
    let is = |at: u64, word: u64| Some(memory.read::<8>(at)? == word.to_le_bytes());
    let is_half = |at: u64, word: u32| Some(memory.read::<4>(at)? == word.to_le_bytes());
    let is_whole = match Behind::of(block.slack) {
        Behind::Few(at, last) => is_half(end, TAIL_CANARY)? && is_half(end.wrapping_add(at), last)?,
        Behind::Many(at, last) => {
            let last_word = end.wrapping_add(at);
            let mut are_whole = is(end, Behind::FIRST)? && is(last_word, last)?;
            let mut at = end.wrapping_add(Behind::WORD_BYTES);
            while are_whole && at < last_word {
                are_whole = is(at, Behind::FILL)?;
                at = at.wrapping_add(Behind::WORD_BYTES);
            }
            are_whole
        }
    };
    if !is_whole {
        return None;
    }
    Some(block)
}

/// The block at this address as its header says, if that is whole, with the canary. Looks at nothing else. As [`check`] else.
#[inline(always)]
pub fn block_at(memory: &impl Memory, secret: Secret, width: Width, address: u64) -> Option<Block> {
    let word = u64::from_le_bytes(memory.read::<8>(address.checked_sub(16)?)?);
    let rest = u64::from_le_bytes(memory.read::<8>(address.checked_sub(8)?)?);
    Block::of_words([word, rest], address, secret, width)
}

/// Looks at the dressing of the block at this address, which must be one that was dressed in `memory` and is not undressed
/// (see [`Dressed`](crate::Dressed)). Reads the sixteen bytes in front of it, and behind it only by a size whose checksum
/// is right. `None` if `memory` does not have these bytes.
pub fn check(memory: &impl Memory, secret: Secret, width: Width, address: u64) -> Option<Checked> {
    let start = address.checked_sub(HEADER_BYTES)?;
    let found = memory.read::<16>(start)?;
    let (header, canary) = found.split_first_chunk::<12>()?;
    if let Some(block) = whole(memory, secret, width, address) {
        return Some(Checked { block: Some(block), below: None, above: None });
    }
    let believed = Block::believed(*header, address, secret, width);
    let block = believed.or_else(|| repaired(*header, address, secret, width));
    let below = below(*header, canary, block, secret);
    let above = match block {
        Some(block) => damage_above(memory, &block)?,
        None => None,
    };
    Some(Checked { block, below, above })
}

/// The block whose header this would be with one other byte, if there is only one such. More damage is taken for one byte in
/// one of a million cases: 3060 tries at a checksum of 32 bits.
fn repaired(header: [u8; 12], address: u64, secret: Secret, width: Width) -> Option<Block> {
    let mut found = None;
    for place in 0..header.len() {
        for change in 1..=u8::MAX {
            let mut tried = header;
            *tried.get_mut(place)? ^= change;
            if let Some(block) = Block::believed(tried, address, secret, width)
                && found.replace(block).is_some()
            {
                return None;
            }
        }
    }
    found
}

#[cold]
fn below(header: [u8; 12], canary: &[u8], block: Option<Block>, secret: Secret) -> Option<Damage> {
    let mut comparison = Comparison::new();
    let expected = block.map(|block| block.header(secret));
    let mut offset = (HEADER_BYTES as i64).wrapping_neg();
    for (place, found) in header.into_iter().enumerate() {
        let expected = expected.and_then(|expected| expected.get(place).copied());
        comparison.byte(Region::Header, offset, expected, found);
        offset = offset.wrapping_add(1);
    }
    for (expected, found) in HEAD_CANARY.to_le_bytes().into_iter().zip(canary) {
        comparison.byte(Region::HeadCanary, offset, Some(expected), *found);
        offset = offset.wrapping_add(1);
    }
    if block.is_none() {
        // All of the header counts as damaged, and what the canary was does not belong beside its bytes.
        comparison.damage.expected = Bytes::default();
    }
    comparison.result()
}

#[cold]
fn damage_above(memory: &impl Memory, block: &Block) -> Option<Option<Damage>> {
    let mut comparison = Comparison::new();
    let tail = TAIL_CANARY.to_le_bytes();
    for done in 0..TAIL_BYTES.wrapping_add(block.slack) {
        let [found] = memory.read::<1>(block.end().wrapping_add(done))?;
        let canary = usize::try_from(done).ok().and_then(|place| tail.get(place).copied());
        let (region, expected) = canary.map_or((Region::Slack, SLACK_FILL), |byte| (Region::TailCanary, byte));
        comparison.byte(region, block.size.wrapping_add(done) as i64, Some(expected), found);
    }
    Some(comparison.result())
}
