//! A look into the ledger from inside of the process: what a thread allocated since a moment, and by which stacks, as modules and
//! offsets. Names are not found here.
#![forbid(unsafe_code)]

use crate::access::{Access, Sign};
use crate::cells::{self, Addresses as _};
use crate::history::{CHUNK_ENTRIES, FREED_COMMIT};
use crate::hooks;
use crate::index::Index;
use crate::ledger::CODEC;
use crate::section::Section;
use crate::shared::Shared;
use crate::sites::Sites;
use crate::switch::Recording;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use heapledger_format::bytes::WordSize;
use heapledger_format::record::{HISTORY_WORDS, Options, RECORD_WORDS};
use heapledger_format::section::{module, pc, wide};
use heapledger_format::{Entry, GlobalCounter, SectionKind, Site, TallyCounter, ThreadRow};
use heapledger_recorder::backend::Slot;
use heapledger_unwind::Registers;

/// Most frames of a stack that are told.
pub const FRAMES_MAX: usize = 64;

/// A moment in the life of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The thread's row.
    pub row: ThreadRow,
    /// All that the thread does from now on has this number or a higher one.
    pub number: u64,
}

/// Where the calling thread is, if all its blocks are entered at this moment.
pub fn position(shared: &'static Shared) -> Option<Position> {
    if shared.switch.get() != Recording::On {
        return None;
    }
    let sign = Sign::new();
    let registers = Registers { sp: &raw const sign as u64, ..Registers::default() };
    let access = Access::enter(shared, &registers, &sign).ok()?;
    let options = shared.settings().options;
    if shared.sampling.is_on() || !options.has(Options::THREAD) || access.state.row >= ThreadRow::OTHER {
        return None;
    }
    let (next, end) = (access.state.next_number, access.state.end_number);
    // Of a lease that is used up comes no number any more.
    let counter = shared.ledger().global(GlobalCounter::NextNumber).load(Ordering::Acquire);
    Some(Position { row: access.state.row, number: if next < end { next } else { counter } })
}

/// Whether the block at an address is in the ledger. It is the caller's: nobody enters it or takes it out meanwhile.
pub fn holds(shared: &Shared, address: u64) -> bool {
    [&shared.index, &shared.inner].into_iter().any(|index| slot_of(shared, index, address).is_some())
}

pub(crate) fn slot_of(shared: &Shared, index: &Index, address: u64) -> Option<Slot> {
    if !hooks::follows(shared) || !shared.sampling.may_hold(address) {
        return None;
    }
    let held = index.held((address, index.cell(address)));
    cells::slot_in(held).filter(|slot| shared.address(*slot) == address)
}

/// Bytes that the block at an address was asked for, if it is in the ledger; of an allocator inside of the program, if it is said. It is the
/// caller's: nobody enters it or takes it out meanwhile.
pub fn size_of(shared: &Shared, address: u64, is_inner: bool) -> Option<u64> {
    let slot = slot_of(shared, if is_inner { &shared.inner } else { &shared.index }, address)?;
    let entry = Entry::unpack(&shared.words_of(slot, Ordering::Acquire))?;
    entry.size.or_else(|| huge(shared, entry.number))
}

/// Bytes that live, with what no thread has told yet.
pub fn live_bytes(shared: &Shared) -> u64 {
    if !hooks::follows(shared) {
        return 0;
    }
    // Frees first, so that they are never more.
    let freed = shared.ledger().total(TallyCounter::BytesFreed);
    shared.ledger().total(TallyCounter::BytesAllocated).saturating_sub(freed)
}

/// The size of a block whose record has no room for it.
#[cold]
pub(crate) fn huge(shared: &Shared, number: u64) -> Option<u64> {
    let section = shared.ledger().section(SectionKind::Wide);
    let element = |index: u64| (index as usize).wrapping_mul(wide::BYTES / 8);
    let is_it = |index: &u64| section.word(element(*index)) == number.wrapping_add(1);
    let found = (0..section.used()).find(is_it)?;
    Some(section.word(element(found).wrapping_add(1)))
}

/// Tells of each block that a thread has allocated since, and that is live.
pub fn live_since(shared: &Shared, since: &Position, mut tell: impl FnMut(&Entry)) {
    let section = shared.ledger().section(SectionKind::Records);
    for index in 0..section.used().min(section.backed()) as usize {
        if let Some(entry) = whole_record(section, index).filter(|entry| is_since(entry, since)) {
            tell(&entry);
        }
    }
}

/// Tells of each block that a thread has allocated since, and that was freed, as far as the history reaches.
pub fn freed_since(shared: &Shared, since: &Position, mut tell: impl FnMut(&Entry)) {
    each_freed(shared, &mut |entry| {
        if let Some(block) =
            whole_freed(entry).and_then(|words| block_of(&words)).filter(|block| is_since(block, since))
        {
            tell(&block);
        }
    });
}

fn is_since(block: &Entry, since: &Position) -> bool {
    block.thread == Some(since.row) && block.number >= since.number
}

/// How many entries the history has.
pub(crate) fn history_entries(shared: &Shared) -> u64 {
    let section = shared.ledger().section(SectionKind::History);
    if shared.history.is_on() { section.used().min(section.backed()) } else { 0 }
}

/// Shows each entry of the history, which may be changing: see [`whole_freed`]. What was given back is not touched, for there may be no storage.
pub(crate) fn each_freed(shared: &Shared, show: &mut dyn FnMut(&[AtomicU64; HISTORY_WORDS])) {
    let Some(reader) = shared.history.reader() else { return };
    let section = shared.ledger().section(SectionKind::History);
    let used = history_entries(shared);
    for chunk in 0..used.div_ceil(CHUNK_ENTRIES) {
        if reader.may_read(chunk) {
            let first = chunk.wrapping_mul(CHUNK_ENTRIES);
            (first..used.min(first.wrapping_add(CHUNK_ENTRIES))).for_each(|index| show(section.element(index)));
        }
    }
}

/// An entry of the history as a reader takes it, if it is there and does not change meanwhile.
pub(crate) fn whole_freed(entry: &[AtomicU64; HISTORY_WORDS]) -> Option<[u64; HISTORY_WORDS]> {
    let commit = entry[FREED_COMMIT].load(Ordering::Acquire);
    if commit == 0 {
        return None;
    }
    let words = entry.each_ref().map(|word| word.load(Ordering::Acquire));
    fence(Ordering::Acquire);
    (entry[FREED_COMMIT].load(Ordering::Acquire) == commit && words[FREED_COMMIT] == commit).then_some(words)
}

/// The block of an entry of the history.
pub(crate) fn block_of(freed: &[u64; HISTORY_WORDS]) -> Option<Entry> {
    let [first, second, third, fourth, ..] = *freed;
    Entry::unpack(&[first, second, third, fourth])
}

/// A record as a reader takes it, if it is there and does not change meanwhile.
pub(crate) fn whole_record(section: &Section, index: usize) -> Option<Entry> {
    let first = index.wrapping_mul(RECORD_WORDS);
    let commit = section.word(first);
    if commit == 0 {
        return None;
    }
    let mut words = [0; RECORD_WORDS];
    section.copy_words(first, &mut words);
    fence(Ordering::Acquire);
    let is_steady = section.word(first) == commit;
    Entry::unpack(&words).filter(|_| is_steady)
}

/// Tells of the frames of a stack, innermost first: the module's path, and the offset in it of the byte behind the call. Without a
/// path it is an address.
pub fn frames(shared: &Shared, site: Site, mut tell: impl FnMut(&[u8], u64)) {
    let ledger = shared.ledger();
    let (sites, codes) = (ledger.section(SectionKind::Sites), ledger.section(SectionKind::Pcs));
    let mut node = Sites::native(ledger, site).0 as usize;
    for _ in 0..FRAMES_MAX {
        if node == 0 {
            return;
        }
        let word = sites.word(node);
        let (module, offset) = pc::unpack(codes.word((word >> 32) as usize));
        let mut path = [0; 256];
        let bytes = match module.checked_sub(1) {
            Some(row) => copy_path(shared, usize::from(row), &mut path),
            None => 0,
        };
        tell(path.get(..bytes).unwrap_or(&[]), offset);
        node = word as u32 as usize;
    }
}

/// Returns how many bytes there are; of a longer path its beginning.
fn copy_path(shared: &Shared, row: usize, into: &mut [u8]) -> usize {
    const ROW_WORDS: usize = module::bytes(WordSize::W64).div_ceil(8);
    let modules = shared.ledger().section(SectionKind::Modules);
    let mut words = [0; ROW_WORDS];
    modules.copy_words(row.wrapping_mul(modules.element_bytes() / 8), &mut words);
    let mut bytes = [0; ROW_WORDS * 8];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    let at = module::get(CODEC, &bytes, module::path_at) as usize;
    let length = (module::get(CODEC, &bytes, module::path_bytes) as usize).min(into.len());
    let strings = shared.ledger().section(SectionKind::Strings);
    for (index, place) in into.iter_mut().enumerate().take(length) {
        let at = at.wrapping_add(index);
        let word = strings.word(at / 8).to_ne_bytes();
        *place = word.get(at % 8).copied().unwrap_or(0);
    }
    length
}
