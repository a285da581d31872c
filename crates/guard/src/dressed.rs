//! Where dressed blocks begin: a bit for each sixteen bytes of the address space.
//!
//! It depends on nothing else: not on a ledger, not on a thread's state, not on the header in front of the block, which the
//! program can write to. In private memory it is right in a forked child as well. Every change is one atomic step: it can be
//! interrupted by a signal handler that does the same, and of two that undress one block, one loses.

#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

use crate::leaf::{Leaf, LeafSlot, Pages};

/// Bytes for which a bit stands: no two blocks are dressed closer to each other than header and canary take.
const GRANULE_BYTES: u64 = 16;
/// Bits of a word.
const WORD_BITS: u64 = 32;

/// What became of a mark that was to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// It is set.
    Done,
    /// It was set before: such a block was freed behind our back.
    Already,
    /// There is no memory for it, or no bit for such an address: the block must be handed out as it is.
    NoRoom,
}

/// Where dressed blocks begin, in at most `LEAVES` parts of `WORDS` words each.
///
/// All zeros are an empty one. A leaf of `WORDS` words stands for 512 times as many bytes of the address space; 2^19 leaves of
/// 2^19 words are the 47 bits of a program's.
/// Who reads it from outside looks at the slots alone, which come first.
#[derive(Debug)]
#[repr(C)]
pub struct Dressed<const LEAVES: usize, const WORDS: usize> {
    slots: [LeafSlot<WORDS>; LEAVES],
    /// A bit for each group of slots of which one was ever taken: nearly none is.
    groups: [AtomicU32; GROUPS / GROUP_BITS],
}

/// Groups of slots.
const GROUPS: usize = 4096;
/// Groups of a word.
const GROUP_BITS: usize = 32;

/// The place of one bit.
#[derive(Clone, Copy)]
struct Bit {
    leaf: usize,
    word: usize,
    mask: u32,
}

impl<const LEAVES: usize, const WORDS: usize> Default for Dressed<LEAVES, WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

/// How many words there are before the first with a bit, about: a few more of them may be empty. They are asked for page by page whether
/// there is anything.
fn empty_words(words: &[AtomicU32], has_any: &impl Fn(&[AtomicU32]) -> bool) -> usize {
    const AT_ONCE: usize = 32;
    let any = |words: &[AtomicU32]| words.iter().fold(0, |any, word| any | word.load(Ordering::Relaxed)) != 0;
    let into_page = (words.as_ptr().addr() % PAGE_BYTES).div_ceil(size_of::<AtomicU32>());
    // What is left of the page of the word before.
    let mut page_words = PAGE_WORDS.wrapping_sub(into_page).min(PAGE_WORDS).min(words.len());
    let (mut passed, mut is_first) = (0_usize, into_page != 0);
    while let Some(page) = words.get(passed..).and_then(|rest| rest.get(..page_words)).filter(|page| !page.is_empty()) {
        if (is_first || has_any(page))
            && let Some(chunk) = page.chunks(AT_ONCE).position(any)
        {
            return passed.wrapping_add(chunk.wrapping_mul(AT_ONCE));
        }
        is_first = false;
        passed = passed.wrapping_add(page.len());
        page_words = PAGE_WORDS.min(words.len().wrapping_sub(passed));
    }
    words.len()
}

/// What memory comes in.
const PAGE_BYTES: usize = 4096;
const PAGE_WORDS: usize = PAGE_BYTES / size_of::<AtomicU32>();

impl<const LEAVES: usize, const WORDS: usize> Dressed<LEAVES, WORDS> {
    /// With no block in it.
    pub const fn new() -> Self {
        Self {
            slots: [const { LeafSlot::empty() }; LEAVES],
            groups: [const { AtomicU32::new(0) }; GROUPS / GROUP_BITS],
        }
    }

    /// The leaf of this number, which nobody had until now.
    #[cold]
    fn take_leaf(&self, number: usize, pages: &impl Pages<WORDS>) -> Option<&'static Leaf<WORDS>> {
        let leaf = self.slots.get(number)?.get_or_take(pages)?;
        let group = number.checked_mul(GROUPS)?.checked_div(LEAVES)?;
        let bit = 1u32.wrapping_shl(group.checked_rem(GROUP_BITS)? as u32);
        self.groups.get(group.checked_div(GROUP_BITS)?)?.fetch_or(bit, Ordering::AcqRel);
        Some(leaf)
    }

    /// The number of the first slot from this one on in which a leaf may be.
    fn next_leaf(&self, number: usize) -> Option<usize> {
        let mut group = number.checked_mul(GROUPS)?.checked_div(LEAVES)?;
        let mut wanted = u32::MAX.wrapping_shl(group.checked_rem(GROUP_BITS)? as u32);
        loop {
            let groups = self.groups.get(group.checked_div(GROUP_BITS)?)?.load(Ordering::Acquire) & wanted;
            let first = group & !GROUP_BITS.wrapping_sub(1);
            if groups != 0 {
                let found = first.checked_add(groups.trailing_zeros() as usize)?;
                return Some(found.checked_mul(LEAVES)?.checked_div(GROUPS)?.max(number));
            }
            group = first.checked_add(GROUP_BITS)?;
            wanted = u32::MAX;
        }
    }

    /// The bit for the granule in which an address lies.
    fn bit(address: u64) -> Option<Bit> {
        let granule = address.checked_div(GRANULE_BYTES)?;
        let word = granule.checked_div(WORD_BITS)?;
        let leaf = usize::try_from(word.checked_div(WORDS as u64)?).ok()?;
        let word = usize::try_from(word.checked_rem(WORDS as u64)?).ok()?;
        let mask = 1u32.wrapping_shl(granule.checked_rem(WORD_BITS)? as u32);
        (leaf < LEAVES).then_some(Bit { leaf, word, mask })
    }

    /// The bit of a block that begins here. Blocks that are dressed begin where a granule does.
    fn bit_of_block(address: u64) -> Option<Bit> {
        address.is_multiple_of(GRANULE_BYTES).then(|| Self::bit(address))?
    }

    fn leaf(&self, leaf: usize) -> Option<&'static Leaf<WORDS>> {
        self.slots.get(leaf)?.get()
    }

    /// Goes through the parts that there are.
    pub fn for_each_leaf(&self, mut each: impl FnMut(&'static Leaf<WORDS>)) {
        let mut number = 0;
        while let Some(next) = self.next_leaf(number) {
            if let Some(leaf) = self.leaf(next) {
                each(leaf);
            }
            number = next.saturating_add(1);
        }
    }

    /// A block that begins here is dressed: said after [`dress`](crate::dress), before the program has it.
    pub fn mark(&self, address: u64, pages: &impl Pages<WORDS>) -> Marked {
        let marked = || {
            let bit = Self::bit_of_block(address)?;
            let leaf = match self.leaf(bit.leaf) {
                Some(leaf) => leaf,
                None => self.take_leaf(bit.leaf, pages)?,
            };
            Some(leaf.get(bit.word)?.fetch_or(bit.mask, Ordering::AcqRel) & bit.mask != 0)
        };
        match marked() {
            Some(false) => Marked::Done,
            Some(true) => Marked::Already,
            None => Marked::NoRoom,
        }
    }

    /// Makes its first page one that was written to, so that core dumps have it also if no block was ever dressed.
    pub fn touch(&self) {
        if let Some(slot) = self.slots.first() {
            slot.touch();
        }
    }

    /// The block that begins here is dressed no more. `false` if it was not: never, or another one was faster. Who has
    /// `true` is the one to give it back.
    pub fn unmark(&self, address: u64) -> bool {
        let unmarked = || {
            let bit = Self::bit_of_block(address)?;
            let word = self.leaf(bit.leaf)?.get(bit.word)?;
            Some(word.fetch_and(!bit.mask, Ordering::AcqRel) & bit.mask != 0)
        };
        unmarked().unwrap_or(false)
    }

    /// Whether a dressed block begins here.
    pub fn begins(&self, address: u64) -> bool {
        let begins = || {
            let bit = Self::bit_of_block(address)?;
            Some(self.leaf(bit.leaf)?.get(bit.word)?.load(Ordering::Acquire) & bit.mask != 0)
        };
        begins().unwrap_or(false)
    }

    /// The nearest beginning of a dressed block at this address or up to so many bytes below it, rounded up to what one word
    /// of the bitmap stands for. Whether that block reaches up to the address, its header says.
    pub fn nearest_below(&self, address: u64, bytes: u64) -> Option<u64> {
        const WORD_BYTES: u64 = WORD_BITS.saturating_mul(GRANULE_BYTES);
        let first = address.saturating_sub(bytes).checked_div(WORD_BYTES)?;
        let mut at = address.checked_div(WORD_BYTES)?;
        let bit = Self::bit(address)?;
        // Of the address's own word, what lies at it or below.
        let mut wanted = bit.mask | bit.mask.wrapping_sub(1);
        loop {
            let bit = Self::bit(at.checked_mul(WORD_BYTES)?)?;
            let leaf = self.leaf(bit.leaf);
            let set = leaf.and_then(|leaf| leaf.get(bit.word)).map_or(0, |word| word.load(Ordering::Acquire)) & wanted;
            if let Some(highest) = set.checked_ilog2() {
                return u64::from(highest).checked_mul(GRANULE_BYTES)?.checked_add(at.checked_mul(WORD_BYTES)?);
            }
            // What a leaf that is not there stands for is passed over at once.
            let last = if leaf.is_none() { at.checked_sub(bit.word as u64)? } else { at };
            if last <= first {
                return None;
            }
            at = last.checked_sub(1)?;
            wanted = u32::MAX;
        }
    }

    /// The first beginning of a dressed block at this address or above. Who goes through all of them asks again from behind
    /// each; what comes and goes meanwhile is told or not.
    pub fn first_from(&self, address: u64) -> Option<u64> {
        self.first_from_if(address, |_| true)
    }

    /// The same; parts of the bitmap of which `has_any` says that there is nothing are not looked at: who was never written to need
    /// not become present in memory.
    pub fn first_from_if(&self, address: u64, has_any: impl Fn(&[AtomicU32]) -> bool) -> Option<u64> {
        const WORD_BYTES: u64 = WORD_BITS.saturating_mul(GRANULE_BYTES);
        let granule = address.checked_next_multiple_of(GRANULE_BYTES)?;
        let mut at = granule.checked_div(WORD_BYTES)?;
        // Of the first word, what lies at the address or above.
        let mut wanted = !Self::bit(granule)?.mask.wrapping_sub(1);
        loop {
            let bit = Self::bit(at.checked_mul(WORD_BYTES)?)?;
            let leaf = self.leaf(bit.leaf);
            let set = leaf.and_then(|leaf| leaf.get(bit.word)).map_or(0, |word| word.load(Ordering::Acquire)) & wanted;
            if set != 0 {
                return u64::from(set.trailing_zeros())
                    .checked_mul(GRANULE_BYTES)?
                    .checked_add(at.checked_mul(WORD_BYTES)?);
            }
            // What leaves that are not there stand for is passed over at once, and what is empty of those that are.
            let rest = leaf.and_then(|leaf| leaf.get(bit.word.checked_add(1)?..)).unwrap_or_default();
            let empty = empty_words(rest, &has_any);
            let passed = if empty < rest.len() {
                empty.checked_add(1)? as u64
            } else {
                let next = self.next_leaf(bit.leaf.checked_add(1)?)?;
                let leaves = next.checked_sub(bit.leaf)? as u64;
                leaves.checked_mul(WORDS as u64)?.checked_sub(bit.word as u64)?
            };
            at = at.checked_add(passed)?;
            wanted = u32::MAX;
        }
    }
}
