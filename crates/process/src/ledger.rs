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

#![forbid(unsafe_code)]

use crate::accounts::{ACCOUNTS_MAX, FREED_ROWS_MAX};
use crate::errors::{ERROR_BYTES, ERRORS_MAX};
use crate::family::{self, INHERITED_MAX};
use crate::folding::{AccountWords, FreedWords};
use crate::heaps;
use crate::private::Alone;
use crate::section::{HeaderPage, Section};
use crate::summing::SUMS_MAX;
use crate::sums::{CutWords, LifetimeWords, SumWords};
use crate::timeline::POINT_BYTES;
use crate::windows::WINDOWS_MAX;
use core::sync::atomic::{AtomicU64, Ordering};
use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::header::{HEADER_BYTES_MAX, Header, State};
use heapledger_format::section::{self, SectionKind, SectionRow};
use heapledger_format::{GlobalCounter, TallyCounter, ThreadRow, counter, record};
use heapledger_linux::apart;
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

/// The mapped ledger.
pub struct Ledger {
    mapping: Option<FileMapping>,
    page: HeaderPage,
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
                bytes_max.checked_div(part.wrapping_mul(self.element_bytes as u64)).unwrap_or(0).max(least).min(most)
            }
            Room::History => history_entries,
        }
    }
}

const SECTIONS: usize = 25;

const fn room(part: u64, least: u64, most: u64) -> Room {
    Room::OneIn { part, least, most }
}

const IDS_MAX: u64 = u32::MAX as u64 >> 1;
const RECORD_BYTES: usize = record::RECORD_WORDS * 8;
const LABEL_BYTES: usize = section::label_column::BYTES;
const COLUMN_PART: u64 = (RECORD_BYTES / LABEL_BYTES) as u64;
/// Labels beyond that are counted. All have their number in the history.
const LABELS_MAX: u64 = 1 << 17;
const _: () = assert!(LABELS_MAX < record::LABEL_OTHER as u64);
/// Marks beyond that are counted.
const MARKS_MAX: u64 = 1 << 14;

/// Intervals of the timeline.
const POINTS_MAX: u64 = 1 << 10;

/// The last of the sections into which each process writes at once and that are not large: those before it, and its first page, lie
/// together at the beginning.
const FRONT_LAST: SectionKind = SectionKind::Tallies;

const PLANS: [Plan; SECTIONS] = [
    Plan { kind: SectionKind::Process, element_bytes: 1, room: room(32, 8 << 10, 256 << 10) },
    Plan {
        kind: SectionKind::Heaps,
        element_bytes: section::heap::bytes(WordSize::W64),
        room: room(64, 8, heaps::ROWS_MAX),
    },
    Plan {
        kind: SectionKind::Modules,
        element_bytes: section::module::bytes(WordSize::W64),
        room: room(32, 256, 8192),
    },
    Plan { kind: SectionKind::Strings, element_bytes: 1, room: room(16, 32 << 10, 2 << 20) },
    Plan {
        kind: SectionKind::Threads,
        element_bytes: section::thread::bytes(WordSize::W64),
        room: room(16, 64, ThreadRow::OTHER.0 as u64),
    },
    Plan {
        kind: SectionKind::PeakCuts,
        element_bytes: size_of::<CutWords>(),
        room: room(64, 64, ThreadRow::OTHER.0 as u64),
    },
    Plan { kind: SectionKind::Cut, element_bytes: family::CUT_BYTES, room: room(64, 64, ThreadRow::OTHER.0 as u64) },
    Plan { kind: SectionKind::Timeline, element_bytes: POINT_BYTES, room: room(64, 0, POINTS_MAX) },
    Plan { kind: SectionKind::Tallies, element_bytes: counter::TALLY_WORDS * 8, room: room(8, 16, 1 << 15) },
    Plan { kind: SectionKind::Labels, element_bytes: 16, room: room(64, 64, LABELS_MAX) },
    Plan { kind: SectionKind::Marks, element_bytes: 40, room: room(64, 64, MARKS_MAX) },
    Plan { kind: SectionKind::Accounts, element_bytes: size_of::<AccountWords>(), room: room(8, 128, ACCOUNTS_MAX) },
    Plan {
        kind: SectionKind::AccountFrees,
        element_bytes: size_of::<FreedWords>(),
        // Half of them are inboxes, one for each account.
        room: room(8, 256, FREED_ROWS_MAX),
    },
    Plan { kind: SectionKind::Sums, element_bytes: size_of::<SumWords>(), room: room(8, 512, SUMS_MAX) },
    Plan { kind: SectionKind::Inherited, element_bytes: family::INHERITED_BYTES, room: room(16, 512, INHERITED_MAX) },
    // As many as there are sums.
    Plan { kind: SectionKind::Lifetimes, element_bytes: size_of::<LifetimeWords>(), room: room(8, 512, SUMS_MAX) },
    Plan { kind: SectionKind::Errors, element_bytes: ERROR_BYTES, room: room(64, 12, ERRORS_MAX) },
    Plan { kind: SectionKind::Windows, element_bytes: 120, room: room(64, 16, WINDOWS_MAX as u64) },
    Plan { kind: SectionKind::Wide, element_bytes: section::wide::BYTES, room: room(64, 128, 1 << 14) },
    Plan { kind: SectionKind::Lines, element_bytes: section::line::BYTES, room: room(64, 512, 1 << 20) },
    Plan { kind: SectionKind::Pcs, element_bytes: section::pc::BYTES, room: room(16, 1 << 12, IDS_MAX) },
    Plan { kind: SectionKind::Sites, element_bytes: section::site::BYTES, room: room(2, 1 << 12, IDS_MAX) },
    Plan { kind: SectionKind::History, element_bytes: record::HISTORY_WORDS * 8, room: Room::History },
    // As many as there are records.
    Plan { kind: SectionKind::LabelColumn, element_bytes: LABEL_BYTES, room: room(COLUMN_PART, 1 << 10, IDS_MAX) },
    Plan { kind: SectionKind::Records, element_bytes: RECORD_BYTES, room: room(1, 1 << 10, IDS_MAX) },
];

/// Which plan a kind has, by its number. Kinds that have none get the first's; [`ALL_PLANNED`] sees to it that none is used.
#[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
const PLAN_OF: [u8; KINDS] = {
    let mut plan_of = [0; KINDS];
    let mut index = 0;
    while index < SECTIONS {
        plan_of[PLANS[index].kind as usize] = index as u8;
        index += 1;
    }
    plan_of
};

/// More than the highest number of a kind that has a plan; a power of two.
const KINDS: usize = 32;

/// A look at a table, also where nothing is reckoned by the compiler that need not be: in debug builds of programs with the crate.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "masked")]
const fn plan_index(kind: SectionKind) -> usize {
    let index = PLAN_OF[kind as usize & (KINDS - 1)] as usize;
    // As it always is; now the compiler knows, too.
    if index < SECTIONS { index } else { 0 }
}

/// Whether a section of this kind is among those that are planned.
pub(crate) fn is_written(kind: SectionKind) -> bool {
    PLANS.iter().any(|plan| plan.kind == kind)
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
        offset = offset.wrapping_add(capacity.wrapping_mul(element_bytes).next_multiple_of(PAGE_BYTES as u64));
    }
    offset
}

impl Ledger {
    /// A ledger that is not mapped.
    pub const fn new() -> Ledger {
        Ledger {
            mapping: None,
            page: HeaderPage::none(),
            sections: [const { Section::vacant() }; SECTIONS],
            growing: Token::new(),
            backed_bytes: AtomicU64::new(0),
            bytes_max: AtomicU64::new(0),
            bytes_asked: 0,
        }
    }

    /// Takes over a fresh mapping and writes `header` into it, all but the byte order mark, so
    /// that readers keep off until [`Ledger::open_for_readers`]. `in_short`: of a process that may end soon.
    pub fn set_up(&mut self, mapping: FileMapping, header: &Header, bytes_max: u64, in_short: bool) -> bool {
        let last = header.sections().iter().find(|row| row.kind == FRONT_LAST as u16).filter(|_| in_short);
        if let Some(last) = last {
            mapping.open((last.offset as usize).wrapping_add(PAGE_BYTES));
        }
        let Some((page, mapping)) = HeaderPage::write(mapping, header) else { return false };
        self.page = page;
        self.backed_bytes.store(HEADER_BYTES_MAX as u64, Ordering::Relaxed);
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        self.bytes_asked = bytes_max;
        for (section, plan) in self.sections.iter_mut().zip(&PLANS) {
            let Some(planned) = Section::new(&self.page, header, plan.kind) else { return false };
            *section = planned;
        }
        self.mapping = Some(mapping);
        true
    }

    /// Lets readers in.
    pub fn open_for_readers(&self) {
        self.page.set_byte_order();
    }

    /// What the header holds now.
    pub(crate) fn copy_header(&self, into: &mut [u8; HEADER_BYTES_MAX]) {
        if self.mapping.is_some() {
            self.page.copy(into);
        }
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
        self.page.counter(counter as usize)
    }

    /// The header's own share of a counter that each thread has.
    pub(crate) fn apart(&self, counter: TallyCounter) -> Option<&AtomicU64> {
        self.mapping.as_ref().map(|_| self.page.counter(GlobalCounter::COUNT.wrapping_add(counter as usize)))
    }

    /// What all threads, and the header for them, have counted.
    pub(crate) fn total(&self, counter: TallyCounter) -> u64 {
        let tallies = self.section(SectionKind::Tallies);
        let of_state = |state: u64| {
            tallies.word((state as usize).wrapping_mul(counter::TALLY_WORDS).wrapping_add(counter as usize))
        };
        let apart = self.apart(counter).map_or(0, |word| word.load(Ordering::Relaxed));
        (0..tallies.used()).map(of_state).fold(apart, u64::wrapping_add)
    }

    /// Says what the recorder is doing.
    pub fn set_state(&self, state: State) {
        self.page.set_state(state);
    }

    /// Bytes of the file that have storage.
    pub fn backed_bytes(&self) -> u64 {
        self.backed_bytes.load(Ordering::Relaxed)
    }

    /// Hands out `count` elements of a section, all with storage behind them. `None` if the
    /// section, the ledger or the file system is full.
    pub fn lease(&self, kind: SectionKind, count: u64) -> Option<u64> {
        self.lease_within(kind, count, self.section(kind).capacity())
    }

    /// The same of the first so many elements, the rest of which is kept for others. However many threads ask at once.
    pub(crate) fn lease_within(&self, kind: SectionKind, count: u64, end_max: u64) -> Option<u64> {
        let section = self.section(kind);
        let used = section.used_word();
        loop {
            let first = used.load(Ordering::Acquire);
            let end = first.wrapping_add(count);
            if end > end_max || end > section.backed() && !self.grow(section, end) {
                return None;
            }
            if used.compare_exchange_weak(first, end, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Some(first);
            }
        }
    }

    /// Hands out the elements of a section up to this one, as far as that was not done. False if there is no room.
    pub fn ensure(&self, kind: SectionKind, end: u64) -> bool {
        let section = self.section(kind);
        let used = section.used_word();
        loop {
            let first = used.load(Ordering::Acquire);
            if first >= end {
                return true;
            }
            if end > section.capacity() || end > section.backed() && !self.grow(section, end) {
                return false;
            }
            if used.compare_exchange_weak(first, end, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// Whether there is no room for so many elements more, as far as anybody knows: not, if nobody could ask because others were at
    /// it.
    pub fn is_short_of(&self, kind: SectionKind, count: u64) -> bool {
        let section = self.section(kind);
        section.skips.load(Ordering::Relaxed) != 0 || section.used().wrapping_add(count) > section.capacity()
    }

    #[cold]
    #[inline(never)]
    fn grow(&self, section: &Section, end: u64) -> bool {
        let skip = |refused: u32| refused.checked_sub(1);
        if section.refused.fetch_update(Ordering::Relaxed, Ordering::Relaxed, skip).is_ok() {
            return false;
        }
        apart::result_of(false, || self.grow_here(section, end))
    }

    fn grow_here(&self, section: &Section, end: u64) -> bool {
        let Some(_growing) = self.growing.take() else { return false };
        let backed = section.backed();
        if end <= backed {
            return true; // somebody else was faster
        }
        let element = section.element_bytes();
        let backed_bytes = section.pages(backed);
        let needed = section.pages(end).wrapping_sub(backed_bytes);
        let room = section.pages(section.capacity()).wrapping_sub(backed_bytes);
        // Grow by half, so that few calls are needed and little is reserved in vain.
        let half = (backed_bytes / 2).next_multiple_of(PAGE_BYTES).min(STEP_BYTES_MAX);
        for step in [half.max(needed).min(room), needed] {
            if self.backed_bytes().wrapping_add(step as u64) > self.bytes_max.load(Ordering::Relaxed) {
                continue;
            }
            if self.back(section, backed_bytes, step) {
                self.backed_bytes.fetch_add(step as u64, Ordering::Relaxed);
                let elements = backed_bytes.wrapping_add(step).checked_div(element).unwrap_or(0) as u64;
                section.skips.store(0, Ordering::Relaxed);
                section.set_backed(elements.min(section.capacity()));
                return true;
            }
        }
        // A limit can be lifted again, but asking costs microseconds: ask less and less often.
        let skips = section.skips.load(Ordering::Relaxed);
        section.refused.store(skips, Ordering::Relaxed);
        section.skips.store(skips.wrapping_mul(2).wrapping_add(1).min(SKIPS_MAX), Ordering::Relaxed);
        false
    }

    /// Reserves storage for pages of a section, which are mapped again if they were taken out of the address space.
    fn back(&self, section: &Section, first: usize, bytes: usize) -> bool {
        let Some(mapping) = &self.mapping else { return false };
        let (mapped, end) = (section.mapped.load(Ordering::Relaxed), first.wrapping_add(bytes));
        if end > mapped && mapping.map_again(section.offset().wrapping_add(mapped), end.wrapping_sub(mapped)).is_err() {
            return false;
        }
        section.mapped.store(end.max(mapped), Ordering::Relaxed);
        let backed = mapping.back(section.offset().wrapping_add(first), bytes).is_ok();
        if !backed {
            section.cut(mapping, mapped);
        }
        backed
    }

    /// Bytes of address space that the ledger takes.
    pub fn mapped_bytes(&self) -> u64 {
        let mapped = self.sections.iter().map(|section| section.mapped.load(Ordering::Relaxed) as u64).sum::<u64>();
        mapped.wrapping_add(HEADER_BYTES_MAX as u64)
    }

    /// From now on the ledger grows up to so many bytes, or what it was allowed at first if that is less. What has no
    /// storage yet is taken out of the address space, all but a share for it of `reserved` bytes. It is mapped again when
    /// the ledger grows. `is_child`: this is a forked child, which records nothing.
    pub fn give_address_room(&self, bytes_max: u64, reserved: u64, is_child: bool) {
        // Calls that give no block come when there is no room for the ledger either: a page for them is had now.
        if !is_child && self.section(SectionKind::Errors).backed() == 0 {
            self.grow(self.section(SectionKind::Errors), 1);
        }
        // In a child nobody grows; who held the token in its parent is not there to give it back.
        let growing = if is_child { None } else { self.growing.take() };
        let Some(mapping) = self.mapping.as_ref().filter(|_| is_child || growing.is_some()) else { return };
        self.bytes_max.store(bytes_max.min(self.bytes_asked), Ordering::Relaxed);
        for (plan, section) in PLANS.iter().zip(&self.sections) {
            let history = (reserved / HISTORY_PART).checked_div(plan.element_bytes as u64).unwrap_or(0);
            let share = section.pages(plan.capacity(reserved, history).min(section.capacity()));
            section.cut(mapping, share);
        }
    }

    /// Takes it out of the address space, where it is another process's.
    pub(crate) fn leave(&self, alone: &Alone) {
        if let Some(mapping) = &self.mapping {
            crate::section::leave(mapping, &self.sections, alone);
        }
    }

    /// Forgets that a section could not grow: something was given back.
    pub fn retry(&self, kind: SectionKind) {
        self.section(kind).refused.store(0, Ordering::Relaxed);
    }

    /// Leases elements for these bytes, and fills them: the number of the first. `None` if there is no room.
    pub fn enter(&self, kind: SectionKind, bytes: &[u8]) -> Option<u64> {
        let section = self.section(kind);
        let first = self.lease(kind, bytes.len().div_ceil(section.element_bytes().max(1)) as u64)?;
        section.fill(first, bytes);
        Some(first)
    }

    /// Gives the storage of whole pages of a section back, to which nobody stores any more.
    pub fn give_back(&self, kind: SectionKind, first: u64, count: u64) -> bool {
        let given = self.mapping.as_ref().and_then(|mapping| self.section(kind).give_back(mapping, first, count));
        self.backed_bytes.fetch_sub(given.unwrap_or(0) as u64, Ordering::Relaxed);
        given.is_some()
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new()
    }
}
