//! The ledger's file as sections that grow.
//!
//! # How it grows
//!
//! The file is one sparse mapping. `ledger::plan` gives each section its share of address room from `--max-ledger`;
//! none of it has storage at first. A store into a page without storage would be SIGBUS inside malloc when the disk
//! or the tmpfs is full. So `Ledger::lease` hands elements out only below `backed`, and `grow` moves `backed` up in
//! steps of half the section, a megabyte at most, after `MADV_POPULATE_WRITE` has made the pages present. That call
//! fails where a store would fault. Before Linux 5.14 it does not exist; then the file is opened again by its path,
//! compared by device and inode, and `fallocate` is asked. After a failure the next requests are refused without
//! asking, more and more of them, up to 1,024. Unused ranges are marked `MADV_DONTDUMP`. A limit on file size is
//! compared before the file is made, because exceeding it raises a signal.
//!
//! The address room counts for a limit of the address space. So `setrlimit`, `prlimit`, `mlockall` and `syscall` are
//! watched (`preload/src/restrictions.rs`), and before a limit takes effect `room::fit` unmaps what has no storage,
//! all but a share. That disturbs nobody: stores and reads stay below `backed`, which only moves under the token that
//! unmapping takes too, and the file keeps its length and its header. `grow` brings pages back with `mremap`, which
//! makes the part before them longer in its place. That is nearly always vacant: the kernel puts new mappings at the
//! far end of the gaps. If it is not, the section is full.
//!
//! When records find no room the history gives half of its storage back (`History::shrink`); when that is used up,
//! state *full*.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::header::{self, HEADER_BYTES_MAX, Header, State};
use heapledger_format::section::{self, SectionKind, SectionRow, row};
use heapledger_format::{GlobalCounter, counter, record};
use heapledger_linux::memory::FileMapping;
use heapledger_linux::token::Token;

/// Bytes of a page, the unit in which storage is reserved.
pub const PAGE_BYTES: usize = 4096;
/// Most storage that is reserved at once: about a millisecond of the kernel's time.
const STEP_BYTES_MAX: usize = 1 << 20;
/// After failures to grow in a row, at most this many requests fail without asking again.
const SKIPS_MAX: u32 = 1024;
/// At most such a part of a ledger is for freed blocks, so that live ones have room.
pub const HISTORY_PART: u64 = 8;

/// The codec of every ledger that this backend writes.
pub const CODEC: Codec = Codec { order: ByteOrder::NATIVE, word: WordSize::W64 };

/// A section of the mapped ledger.
pub struct Section {
    base: usize,
    element_bytes: usize,
    offset: usize,
    capacity: u64,
    /// Bytes of it that are mapped, in whole pages. Changed by the holder of `growing`.
    mapped: AtomicUsize,
    used: AtomicUsize,
    backed: AtomicUsize,
    /// Requests still to be refused without asking, and how many the last failure made it.
    refused: AtomicU32,
    skips: AtomicU32,
}

impl Section {
    const fn vacant() -> Section {
        Section {
            base: 0,
            element_bytes: 0,
            offset: 0,
            capacity: 0,
            mapped: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            backed: AtomicUsize::new(0),
            refused: AtomicU32::new(0),
            skips: AtomicU32::new(0),
        }
    }

    fn cursor(word: &AtomicUsize) -> &AtomicU64 {
        // SAFETY: set once to the address of an aligned word of the header, which stays mapped and backed.
        unsafe { &*(word.load(Ordering::Relaxed) as *const AtomicU64) }
    }

    /// Elements handed out so far.
    pub fn used(&self) -> u64 {
        Self::cursor(&self.used).load(Ordering::Acquire)
    }

    fn backed(&self) -> u64 {
        Self::cursor(&self.backed).load(Ordering::Acquire)
    }

    /// Bytes that so many elements take, in whole pages.
    fn pages(&self, elements: u64) -> usize {
        (elements as usize * self.element_bytes).next_multiple_of(PAGE_BYTES)
    }

    /// Elements that there is address room for.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Where the element lies. It can be written if it was leased.
    #[inline(always)]
    pub fn at(&self, index: u64) -> *mut u8 {
        (self.base + index as usize * self.element_bytes) as *mut u8
    }

    /// The same for elements of `BYTES` each, which the caller knows.
    #[inline(always)]
    pub fn at_stride<const BYTES: usize>(&self, index: u64) -> *mut u8 {
        debug_assert!(self.element_bytes == BYTES);
        (self.base + index as usize * BYTES) as *mut u8
    }
}

/// The mapped ledger.
pub struct Ledger {
    mapping: Option<FileMapping>,
    base: usize,
    sections: [Section; SECTIONS],
    growing: Token,
    backed_bytes: AtomicU64,
    bytes_max: AtomicU64,
    /// What `bytes_max` is as long as nothing else is limited.
    bytes_asked: u64,
}

/// How many elements a section has address room for.
enum Room {
    /// So many that they would fill this part of the whole ledger, within bounds.
    OneIn { part: u64, least: u64, most: u64 },
    /// The history ring's entries.
    History,
}

struct Plan {
    kind: SectionKind,
    element_bytes: usize,
    room: Room,
}

impl Plan {
    /// Elements that a ledger of so many bytes has address room for.
    fn capacity(&self, bytes_max: u64, history_entries: u64) -> u64 {
        match self.room {
            Room::OneIn { part, least, most } => {
                bytes_max.checked_div(part * self.element_bytes as u64).unwrap_or(0).max(least).min(most)
            }
            Room::History => history_entries,
        }
    }
}

const SECTIONS: usize = 11;

const fn room(part: u64, least: u64, most: u64) -> Room {
    Room::OneIn { part, least, most }
}

const IDS_MAX: u64 = u32::MAX as u64 >> 1;

const PLANS: [Plan; SECTIONS] = [
    Plan { kind: SectionKind::Process, element_bytes: 1, room: room(32, 8 << 10, 256 << 10) },
    Plan { kind: SectionKind::Heaps, element_bytes: section::heap::bytes(WordSize::W64), room: room(64, 8, 64) },
    Plan {
        kind: SectionKind::Modules,
        element_bytes: section::module::bytes(WordSize::W64),
        room: room(32, 256, 8192),
    },
    Plan { kind: SectionKind::Strings, element_bytes: 1, room: room(16, 32 << 10, 2 << 20) },
    Plan {
        kind: SectionKind::Threads,
        element_bytes: section::thread::bytes(WordSize::W64),
        room: room(16, 64, record::THREAD_OTHER as u64),
    },
    Plan { kind: SectionKind::Tallies, element_bytes: counter::TALLY_WORDS * 8, room: room(8, 16, 1 << 15) },
    Plan { kind: SectionKind::Wide, element_bytes: section::wide::BYTES, room: room(64, 128, 1 << 14) },
    Plan { kind: SectionKind::Pcs, element_bytes: section::pc::BYTES, room: room(16, 1 << 12, IDS_MAX) },
    Plan { kind: SectionKind::Sites, element_bytes: section::site::BYTES, room: room(2, 1 << 12, IDS_MAX) },
    Plan { kind: SectionKind::History, element_bytes: record::HISTORY_WORDS * 8, room: Room::History },
    Plan { kind: SectionKind::Records, element_bytes: record::RECORD_WORDS * 8, room: room(1, 1 << 10, IDS_MAX) },
];

/// Which plan a kind has. One that has none gets the first's; [`ALL_PLANNED`] sees to it that none is used.
#[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
const fn plan_index(kind: SectionKind) -> usize {
    let mut index = 0;
    while index < SECTIONS {
        if PLANS[index].kind as u16 == kind as u16 {
            return index;
        }
        index += 1;
    }
    0
}

/// Kinds beyond these are reserved, and nothing here asks for them.
#[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
const ALL_PLANNED: () = {
    let mut number = SectionKind::Records as u16;
    while number <= SectionKind::Wide as u16 {
        if let Some(kind) = SectionKind::from_number(number) {
            assert!(PLANS[plan_index(kind)].kind as u16 == number, "a section without a plan");
        }
        number += 1;
    }
};

/// Adds the sections to a header and returns the bytes of the whole file.
pub fn plan(header: &mut Header, bytes_max: u64, history_entries: u64) -> u64 {
    let mut offset = HEADER_BYTES_MAX as u64;
    for plan in &PLANS {
        let element_bytes = plan.element_bytes as u64;
        let capacity = plan.capacity(bytes_max, history_entries);
        header.add_section(SectionRow {
            kind: plan.kind as u16,
            element_bytes: plan.element_bytes as u16,
            offset,
            capacity,
            used: 0,
            backed: 0,
        });
        offset += (capacity * element_bytes).next_multiple_of(PAGE_BYTES as u64);
    }
    offset
}

impl Ledger {
    /// A ledger that is not mapped.
    pub const fn new() -> Ledger {
        Ledger {
            mapping: None,
            base: 0,
            sections: [const { Section::vacant() }; SECTIONS],
            growing: Token::new(),
            backed_bytes: AtomicU64::new(0),
            bytes_max: AtomicU64::new(0),
            bytes_asked: 0,
        }
    }

    /// Takes over a fresh mapping and writes `header` into it, all but the byte order mark, so
    /// that readers keep off until [`Ledger::open_for_readers`].
    pub fn set_up(&mut self, mapping: FileMapping, header: &Header, bytes_max: u64) -> bool {
        if mapping.back(0, HEADER_BYTES_MAX).is_err() {
            // SAFETY: nobody else knows the mapping yet.
            unsafe { mapping.destroy() };
            return false;
        }
        let base = mapping.base();
        // SAFETY: the first pages were just backed, and nobody else knows the mapping yet.
        let page = unsafe { core::slice::from_raw_parts_mut(base, HEADER_BYTES_MAX) };
        header.write(page);
        CODEC.put(page, header::at::BYTE_ORDER, 2, 0);
        self.base = base as usize;
        self.backed_bytes.store(HEADER_BYTES_MAX as u64, Ordering::Relaxed);
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        self.bytes_asked = bytes_max;
        for (section, plan) in self.sections.iter_mut().zip(&PLANS) {
            let (Some(at), Some(planned)) = (header.row_at(plan.kind), header.section(plan.kind)) else { return false };
            *section = Section {
                base: base as usize + planned.offset as usize,
                element_bytes: plan.element_bytes,
                offset: planned.offset as usize,
                capacity: planned.capacity,
                mapped: AtomicUsize::new((planned.capacity as usize * plan.element_bytes).next_multiple_of(PAGE_BYTES)),
                used: AtomicUsize::new(base as usize + at + row::used(WordSize::W64)),
                backed: AtomicUsize::new(base as usize + at + row::backed(WordSize::W64)),
                ..Section::vacant()
            };
        }
        self.mapping = Some(mapping);
        true
    }

    /// Lets readers in.
    pub fn open_for_readers(&self) {
        let at = self.base + header::at::BYTE_ORDER;
        // SAFETY: an aligned half word of the backed header page.
        unsafe { &*(at as *const core::sync::atomic::AtomicU16) }.store(0x0102, Ordering::Release);
    }

    /// The file and its mapping.
    pub fn mapping(&self) -> Option<&FileMapping> {
        self.mapping.as_ref()
    }

    /// The section of this kind.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "an index of a plan, of which there are as many as sections")]
    pub fn section(&self, kind: SectionKind) -> &Section {
        const { ALL_PLANNED };
        &self.sections[plan_index(kind)]
    }

    /// A counter of the header that exists once.
    #[inline(always)]
    pub fn global(&self, counter: GlobalCounter) -> &AtomicU64 {
        let at = self.base + header::counter_at(WordSize::W64, counter as usize);
        // SAFETY: an aligned word of the backed header page.
        unsafe { &*(at as *const AtomicU64) }
    }

    /// Says what the recorder is doing.
    pub fn set_state(&self, state: State) {
        let at = self.base + header::at::STATE;
        // SAFETY: a byte of the backed header page.
        unsafe { &*(at as *const core::sync::atomic::AtomicU8) }.store(state as u8, Ordering::Release);
    }

    /// Bytes of the file that have storage.
    pub fn backed_bytes(&self) -> u64 {
        self.backed_bytes.load(Ordering::Relaxed)
    }

    /// Hands out `count` elements of a section, all with storage behind them. `None` if the
    /// section, the ledger or the file system is full.
    pub fn lease(&self, kind: SectionKind, count: u64) -> Option<u64> {
        let section = self.section(kind);
        let used = Section::cursor(&section.used);
        loop {
            let first = used.load(Ordering::Acquire);
            let end = first + count;
            if end > section.capacity || end > section.backed() && !self.grow(section, end) {
                return None;
            }
            if used.compare_exchange_weak(first, end, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Some(first);
            }
        }
    }

    #[cold]
    fn grow(&self, section: &Section, end: u64) -> bool {
        let skip = |refused: u32| refused.checked_sub(1);
        if section.refused.fetch_update(Ordering::Relaxed, Ordering::Relaxed, skip).is_ok() {
            return false;
        }
        let Some(_growing) = self.growing.take() else { return false };
        let backed = section.backed();
        if end <= backed {
            return true; // somebody else was faster
        }
        let element = section.element_bytes;
        let backed_bytes = section.pages(backed);
        let needed = section.pages(end) - backed_bytes;
        let room = section.pages(section.capacity) - backed_bytes;
        // Grow by half, so that few calls are needed and little is reserved in vain.
        let half = (backed_bytes / 2).next_multiple_of(PAGE_BYTES).min(STEP_BYTES_MAX);
        for step in [half.max(needed).min(room), needed] {
            if self.backed_bytes() + step as u64 > self.bytes_max.load(Ordering::Relaxed) {
                continue;
            }
            if self.back(section, backed_bytes, step) {
                self.backed_bytes.fetch_add(step as u64, Ordering::Relaxed);
                let elements = (backed_bytes + step).checked_div(element).unwrap_or(0) as u64;
                section.skips.store(0, Ordering::Relaxed);
                Section::cursor(&section.backed).store(elements.min(section.capacity), Ordering::Release);
                return true;
            }
        }
        // A limit can be lifted again, but asking costs microseconds: ask less and less often.
        let skips = section.skips.load(Ordering::Relaxed);
        section.refused.store(skips, Ordering::Relaxed);
        section.skips.store((skips * 2 + 1).min(SKIPS_MAX), Ordering::Relaxed);
        false
    }

    /// Reserves storage for pages of a section, which are mapped again if they were taken out of the address space.
    fn back(&self, section: &Section, first: usize, bytes: usize) -> bool {
        let Some(mapping) = &self.mapping else { return false };
        let (mapped, end) = (section.mapped.load(Ordering::Relaxed), first + bytes);
        if end > mapped && mapping.map_again(section.offset + mapped, end - mapped).is_err() {
            return false;
        }
        let backed = mapping.back(section.offset + first, bytes).is_ok();
        match backed {
            true => section.mapped.store(end.max(mapped), Ordering::Relaxed),
            // SAFETY: nobody stores into what is not backed.
            false if end > mapped => unsafe { mapping.unmap(section.offset + mapped, end - mapped) },
            false => {}
        }
        backed
    }

    /// Bytes of address space that the ledger takes.
    pub fn mapped_bytes(&self) -> u64 {
        let mapped = self.sections.iter().map(|section| section.mapped.load(Ordering::Relaxed) as u64).sum::<u64>();
        mapped + HEADER_BYTES_MAX as u64
    }

    /// From now on the ledger grows up to so many bytes, or what it was allowed at first if that is less. What has no
    /// storage yet is taken out of the address space, all but a share for it of `reserved` bytes. It is mapped again when
    /// the ledger grows. `is_child`: this is a forked child, which records nothing.
    pub fn give_address_room(&self, bytes_max: u64, reserved: u64, is_child: bool) {
        // In a child nobody grows; who held the token in its parent is not there to give it back.
        let growing = if is_child { None } else { self.growing.take() };
        let Some(mapping) = self.mapping.as_ref().filter(|_| is_child || growing.is_some()) else { return };
        self.bytes_max.store(bytes_max.min(self.bytes_asked), Ordering::Relaxed);
        for (plan, section) in PLANS.iter().zip(&self.sections) {
            let mapped = section.mapped.load(Ordering::Relaxed);
            let history = reserved / HISTORY_PART / plan.element_bytes as u64;
            let share = section.pages(plan.capacity(reserved, history).min(section.capacity));
            // A page at least, from which the mapping can be made longer.
            let kept = share.max(section.pages(section.backed())).max(PAGE_BYTES);
            if kept < mapped {
                // SAFETY: nobody stores beyond `backed`, which does not move while the token is held.
                unsafe { mapping.unmap(section.offset + kept, mapped - kept) };
                section.mapped.store(kept, Ordering::Relaxed);
            }
        }
    }

    /// Forgets that a section could not grow: something was given back.
    pub fn retry(&self, kind: SectionKind) {
        self.section(kind).refused.store(0, Ordering::Relaxed);
    }

    /// Gives the storage of whole pages of a section back.
    ///
    /// # Safety
    /// Nobody may store into them any more.
    pub unsafe fn give_back(&self, kind: SectionKind, first: u64, count: u64) -> bool {
        let section = self.section(kind);
        let at = section.offset + first as usize * section.element_bytes;
        let bytes = count as usize * section.element_bytes;
        // SAFETY: the caller's promise.
        let done = self.mapping.as_ref().is_some_and(|mapping| unsafe { mapping.give_back(at, bytes) }.is_ok());
        if done {
            self.backed_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        }
        done
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new()
    }
}
