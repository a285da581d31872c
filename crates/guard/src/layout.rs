//! Where the parts of a dressed block lie, and how they are written.

#![forbid(unsafe_code)]

use crate::memory::Memory;

/// Stands next to a block's first byte, in memory order 34 12 BA AB.
pub const HEAD_CANARY: u32 = 0xABBA_1234;
/// Stands right after a block's last byte, at any alignment, in memory order 78 56 AD BA.
pub const TAIL_CANARY: u32 = 0xBAAD_5678;
/// What the slack behind the tail canary is filled with.
pub const SLACK_FILL: u8 = 0xBD;
/// Bytes in front of a block: size, lead, slack and their checksum, then the canary.
pub const HEADER_BYTES: u64 = 16;
/// Bytes of the tail canary.
pub const TAIL_BYTES: u64 = 4;

/// Bits of the header's first word that are the size, then those of the lead (as a power of two), then those of the slack.
const SIZE_BITS: u32 = 47;
const LEAD_BITS: u32 = 5;
const SLACK_BITS: u32 = 12;
/// More slack than this is not watched.
const SLACK_MAX: u64 = low(SLACK_BITS);

/// So many ones.
const fn low(bits: u32) -> u64 {
    match 1u64.checked_shl(bits) {
        Some(above) => above.wrapping_sub(1),
        None => u64::MAX,
    }
}

/// How wide the addresses of a target are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32 bits.
    Bits32,
    /// 64 bits, of which programs have 47.
    Bits64,
}

impl Width {
    /// The highest address that a block may reach up to.
    pub const fn last_address(self) -> u64 {
        match self {
            Width::Bits32 => low(32),
            Width::Bits64 => low(47),
        }
    }

    /// The largest block that an allocator may be asked for: half of what can be addressed.
    const fn bytes_max(self) -> u64 {
        match self {
            Width::Bits32 => low(31),
            Width::Bits64 => low(46),
        }
    }
}

/// What only this process knows: without it no header can be forged by accident, say by a copy of another one.
#[derive(Clone, Copy, Debug)]
pub struct Secret(u64);

impl Secret {
    /// Of 64 bits that nobody can foretell.
    pub const fn new(random: u64) -> Self {
        Self(random)
    }

    /// The checksum of a header's first word at this address.
    const fn sum(self, address: u64, word: u64) -> u32 {
        // Each step can be undone, so that two words at one address differ before the upper half is folded in.
        let mixed = (self.0 ^ address).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(32) ^ word;
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xA076_1D64_78BD_642F);
        (mixed ^ (mixed >> 32)) as u32
    }
}

/// What to ask an allocator for, so that a block can be dressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    width: Width,
    size: u64,
    lead: u64,
    bytes: u64,
}

impl Plan {
    /// For a block of this size and alignment. `None` if the alignment is no power of two, or no allocator could give as
    /// much: then the program's own call is passed on, which fails as it would.
    pub fn new(width: Width, size: u64, alignment: u64) -> Option<Self> {
        let lead = alignment.is_power_of_two().then_some(alignment)?.max(HEADER_BYTES);
        if lead.trailing_zeros() as u64 > low(LEAD_BITS) {
            return None;
        }
        let bytes = lead.checked_add(size)?.checked_add(TAIL_BYTES)?;
        (bytes <= width.bytes_max()).then_some(Self { width, size, lead, bytes })
    }

    /// Bytes to ask for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The alignment to ask for: the lead keeps the block's own.
    pub fn alignment(&self) -> u64 {
        self.lead
    }
}

/// A dressed block: what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// What the program has.
    pub address: u64,
    /// What it asked for.
    pub size: u64,
    /// Bytes in front of it that are the allocator's block as well: at least [`HEADER_BYTES`].
    pub lead: u64,
    /// Bytes behind the tail canary that are watched.
    pub slack: u64,
}

impl Block {
    /// What the allocator gave, and is to have back.
    pub fn given(&self) -> u64 {
        self.address.wrapping_sub(self.lead)
    }

    /// The end of what the program asked for, where the tail canary begins.
    pub fn end(&self) -> u64 {
        self.address.wrapping_add(self.size)
    }

    /// Whether such a block can be: as it was dressed, it lies in the address space and is aligned as its lead.
    #[inline(always)]
    fn is_sound(&self, width: Width) -> bool {
        let end = self.end().wrapping_add(TAIL_BYTES).wrapping_add(self.slack);
        // None of these can wrap around: what is added to the address has fewer bits by far than a word.
        self.address <= width.last_address()
            && self.size <= low(SIZE_BITS)
            && self.slack <= SLACK_MAX
            && end.wrapping_sub(1) <= width.last_address()
            && self.lead >= HEADER_BYTES
            && self.address > self.lead
            && self.address & self.lead.wrapping_sub(1) == 0
    }

    fn word(&self) -> u64 {
        let lead = u64::from(self.lead.trailing_zeros()).wrapping_shl(SIZE_BITS);
        self.size | lead | self.slack.wrapping_shl(SIZE_BITS.wrapping_add(LEAD_BITS))
    }

    /// What stands in front of the block: a word of size, lead and slack, and one of its checksum and the canary.
    pub(crate) fn words(&self, secret: Secret) -> [u64; 2] {
        let word = self.word();
        [word, rest(secret.sum(self.address, word))]
    }

    /// The block of such words in front of this address, if they are whole.
    #[inline(always)]
    pub(crate) fn of_words([word, rest_of]: [u64; 2], address: u64, secret: Secret, width: Width) -> Option<Self> {
        let block = Self::of_word(word, address);
        (rest_of == rest(secret.sum(address, word)) && block.is_sound(width)).then_some(block)
    }

    #[inline(always)]
    fn of_word(word: u64, address: u64) -> Self {
        let lead = word.wrapping_shr(SIZE_BITS) & low(LEAD_BITS);
        Self {
            address,
            size: word & low(SIZE_BITS),
            lead: 1u64.wrapping_shl(lead as u32),
            slack: word.wrapping_shr(SIZE_BITS.wrapping_add(LEAD_BITS)),
        }
    }

    /// Size, lead, slack and checksum as they stand in memory.
    pub(crate) fn header(&self, secret: Secret) -> [u8; 12] {
        let word = self.word();
        let mut header = [0; 12];
        let bytes = word.to_le_bytes().into_iter().chain(secret.sum(self.address, word).to_le_bytes());
        for (place, byte) in header.iter_mut().zip(bytes) {
            *place = byte;
        }
        header
    }

    /// What such bytes in front of this address say, if their checksum is right.
    pub(crate) fn believed(header: [u8; 12], address: u64, secret: Secret, width: Width) -> Option<Self> {
        let (word, sum) = header.split_first_chunk::<8>()?;
        let word = u64::from_le_bytes(*word);
        if sum != secret.sum(address, word).to_le_bytes() {
            return None;
        }
        let block = Self::of_word(word, address);
        block.is_sound(width).then_some(block)
    }
}

/// Bytes in front of a block that the allocator's has, as its header says, which is believed: of a block that was [dressed](dress) and not
/// yet handed out. 0 if it is not in `memory`.
#[inline(always)]
pub fn lead_of_new(memory: &impl Memory, address: u64) -> u64 {
    let word = memory.read(address.wrapping_sub(16)).map(u64::from_le_bytes);
    word.map_or(0, |word| Block::of_word(word, address).lead)
}

/// Takes the dressing of a block off again, so that all of what was written is zeros: what an allocator gave for `calloc` is so, and a
/// block that cannot be handed out dressed is handed out as it was. `None` if it is not in `memory`.
pub fn undress(memory: &impl Memory, block: &Block) -> Option<()> {
    memory.write(block.address.wrapping_sub(HEADER_BYTES), [0; 16])?;
    let mut at = block.end();
    for _ in 0..TAIL_BYTES.wrapping_add(block.slack) {
        memory.write(at, [0])?;
        at = at.wrapping_add(1);
    }
    Some(())
}

/// A checksum, and the canary behind it.
#[inline(always)]
const fn rest(sum: u32) -> u64 {
    const CANARY: u64 = (HEAD_CANARY as u64).wrapping_shl(32);
    sum as u64 | CANARY
}

/// Dresses what an allocator gave at this address: `actual` bytes, at least what the plan asked for. `None`, and nothing
/// of it can be used as a dressed block, if it is less, aligned otherwise, or not in `memory`.
#[inline(always)]
pub fn dress(memory: &impl Memory, secret: Secret, plan: &Plan, given: u64, actual: u64) -> Option<Block> {
    let slack = actual.checked_sub(plan.bytes)?.min(SLACK_MAX);
    let block = Block { address: given.checked_add(plan.lead)?, size: plan.size, lead: plan.lead, slack };
    if !block.is_sound(plan.width) {
        return None;
    }
    let [word, rest] = block.words(secret);
    memory.write(block.address.wrapping_sub(16), word.to_le_bytes())?;
    memory.write(block.address.wrapping_sub(8), rest.to_le_bytes())?;
    let end = block.end();
    match Behind::of(slack) {
        Behind::Few(at, last) => {
            memory.write(end, TAIL_CANARY.to_le_bytes())?;
            memory.write(end.wrapping_add(at), last.to_le_bytes())?;
        }
        Behind::Many(at, last) => {
            memory.write(end, Behind::FIRST.to_le_bytes())?;
            let last_word = end.wrapping_add(at);
            let mut at = end.wrapping_add(Behind::WORD_BYTES);
            while at < last_word {
                memory.write(at, Behind::FILL.to_le_bytes())?;
                at = at.wrapping_add(Behind::WORD_BYTES);
            }
            memory.write(last_word, last.to_le_bytes())?;
        }
    }
    Some(block)
}

/// What lies behind a block as it is to be, the canary and its slack: in pieces that overlap, so that two nearly always do.
pub(crate) enum Behind {
    /// [`TAIL_CANARY`], and this from the last bytes on that a half word reaches: so much slack behind the block's end.
    Few(u64, u32),
    /// [`Behind::FIRST`], then [`Behind::FILL`] up to this far behind the block's end, where the last word lies.
    Many(u64, u64),
}

impl Behind {
    /// Bytes of a word.
    pub(crate) const WORD_BYTES: u64 = 8;
    /// A word of slack.
    pub(crate) const FILL: u64 = u64::from_le_bytes([SLACK_FILL; 8]);
    /// The first word.
    pub(crate) const FIRST: u64 = Self::FILL.wrapping_shl(32) | TAIL_CANARY as u64;

    /// The canary and so much slack.
    #[inline(always)]
    pub(crate) fn of(slack: u64) -> Behind {
        let bits_of = |bytes: u64| bytes.wrapping_mul(8) as u32;
        match slack.wrapping_add(TAIL_BYTES).checked_sub(Self::WORD_BYTES) {
            None => Behind::Few(slack, Self::FIRST.wrapping_shr(bits_of(slack)) as u32),
            Some(last) => {
                let words = u128::from(Self::FILL).wrapping_shl(u64::BITS) | u128::from(Self::FIRST);
                Behind::Many(last, words.wrapping_shr(bits_of(last.min(TAIL_BYTES))) as u64)
            }
        }
    }
}
