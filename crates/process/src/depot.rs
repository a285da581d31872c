//! Stacks that a program keeps for itself, in the ledger's trie: put in, and got back by their numbers.
//!
//! No block has to be entered for that. A stack that the recorder has taken and one that the program puts in are the same call site.
#![forbid(unsafe_code)]

use crate::shared::{Phase, Shared};
use crate::sites::{Sites, StackPath};
use core::sync::atomic::Ordering;
use heapledger_format::bytes::WordSize;
use heapledger_format::section::{module, pc};
use heapledger_format::{SectionKind, Site};

/// Why a stack is not kept, or not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKept {
    /// There is no ledger in this process that is written.
    Off,
    /// There is no room for it.
    Full,
    /// One of its frames is no address: 0, or above 48 bits.
    Address,
    /// No stack has this number.
    Unknown,
}

impl NotKept {
    const ALL: [NotKept; 4] = [NotKept::Off, NotKept::Full, NotKept::Address, NotKept::Unknown];

    /// As a number below 0.
    pub(crate) fn number(self) -> i64 {
        match self {
            NotKept::Off => -1,
            NotKept::Full => -2,
            NotKept::Address => -3,
            NotKept::Unknown => -4,
        }
    }

    /// What such a number says, of whatever version.
    pub(crate) fn of(number: i64) -> NotKept {
        NotKept::ALL.into_iter().find(|why| why.number() == number).unwrap_or(NotKept::Unknown)
    }
}

const ADDRESSES: core::ops::Range<u64> = 1..1 << pc::OFFSET_BITS;

fn is_written(shared: &Shared) -> bool {
    shared.phase.load(Ordering::Acquire) == Phase::On as u8 && shared.switch.follows()
}

/// Keeps a stack, innermost frame first. From any thread, at any time.
///
/// # Errors
/// If it is not kept.
pub fn put(shared: &Shared, frames: &[usize]) -> Result<Site, NotKept> {
    if !is_written(shared) {
        return Err(NotKept::Off);
    }
    if !frames.iter().all(|frame| ADDRESSES.contains(&(*frame as u64))) {
        return Err(NotKept::Address);
    }
    let (ledger, generation) = (shared.ledger(), shared.modules.generation());
    let outwards = frames.iter().rev();
    outwards
        .copied()
        .try_fold(StackPath::ROOT, |outer, frame| {
            let code = shared.sites.code(ledger, &shared.modules, frame as u64, generation, None)?;
            shared.sites.inwards(ledger, outer, code)
        })
        .map(|path| path.site)
        .ok_or(NotKept::Full)
}

/// The frames of a stack, innermost first, as many as there is room for. Returns how many it has.
///
/// # Errors
/// If it is not known.
pub fn get(shared: &Shared, site: Site, into: &mut [usize]) -> Result<usize, NotKept> {
    if !is_written(shared) {
        return Err(NotKept::Off);
    }
    let ledger = shared.ledger();
    let sections = [SectionKind::Sites, SectionKind::Pcs].map(|kind| ledger.section(kind));
    let [sites, pcs] = sections;
    let (mut places, mut count, mut next) = (into.iter_mut(), 0usize, Sites::native(ledger, site).0);
    while next != 0 {
        // One that nobody has been told of yet, or ever, is all zeros.
        let node = if u64::from(next) < sites.used() { sites.word(next as usize) } else { 0 };
        let (parent, code) = (node as u32, (node >> 32) as u32);
        if code == 0 || u64::from(code) >= pcs.used() || parent >= next {
            return Err(NotKept::Unknown);
        }
        if let Some(place) = places.next() {
            *place = address(shared, pcs.word(code as usize)) as usize;
        }
        (count, next) = (count.wrapping_add(1), parent);
    }
    Ok(count)
}

/// The address of which an element of `pcs` tells.
fn address(shared: &Shared, word: u64) -> u64 {
    const WORDS: usize = module::bytes(WordSize::W64) / 8;
    const BIAS: usize = module::bias(WordSize::W64) / 8;
    const { assert!(module::bytes(WordSize::W64).is_multiple_of(8) && module::bias(WordSize::W64).is_multiple_of(8)) };
    let (row_plus_1, offset) = pc::unpack(word);
    let Some(row) = row_plus_1.checked_sub(1) else { return offset };
    let at = usize::from(row).wrapping_mul(WORDS).wrapping_add(BIAS);
    offset.wrapping_add(shared.ledger().section(SectionKind::Modules).word(at)) & (ADDRESSES.end.wrapping_sub(1))
}
