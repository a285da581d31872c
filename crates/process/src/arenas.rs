//! Blocks from memory of the guard's own: at the levels above `light`. At `page` a block for which there is no closed page is as at
//! `full`, and one for which there is no room there either is as at `light`.
//!
//! The memory is private, and what is known of its blocks lies in tables beside it (`crates/guard`), so a forked child goes on with its own
//! copy. What the recorder knows of a block, it tells here when the block ends ([`annotate`]): so who allocated it and who freed it is
//! there as long as the block waits, however far the history has moved on.
#![forbid(unsafe_code)]

use crate::access::count_apart;
use crate::damage::{self, Around, FoundDamage, KeptOfBlock};
use crate::guarded::{GUARD, Level, Sides};
use crate::guarding::Guarding;
use crate::land::{self, Land};
use crate::own_memory::{GuardedRange, OwnMemory};
use crate::shared::Shared;
use crate::sweep::Copied;
use crate::{family, judged, rarely};
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering};
use heapledger_format::errors::FoundAt;
use heapledger_format::family::InheritedFree;
use heapledger_format::guard::{ClosedTables, GuardTables, Kept};
use heapledger_format::record::{ADDRESS_MAX, RECORD_WORDS};
use heapledger_format::session;
use heapledger_format::{Entry, Kind, Site, TallyCounter, ThreadRow, Ticks};
use heapledger_guard::judging::OwnHeap;
use heapledger_guard::{
    Closed, ClosedCounts, ClosedLimits, Fill, Finding, Found, Full, FullCounts, Life, Limits, Memory, NotFreed, Region,
    Request, Side,
};
use heapledger_linux::{process, syscall};

/// Addresses for all blocks: as many as can be had.
const LAND_BYTES: [usize; 5] = [256 << 30, 64 << 30, 8 << 30, 1 << 30, 128 << 20];
/// Where address space is limited, or private memory in it, a part of that: the program wants the rest.
const LIMITED_PART: u64 = 8;
/// A row for so many bytes: smaller blocks take more than that with what lies around them.
const BYTES_PER_SLOT: u64 = 512;
const PAGE_BYTES: u64 = 4096;
/// What blocks are aligned to at least.
const ALIGNMENT: u64 = session::guard::ALIGN;
/// Blocks at closed pages are aligned to that, halved so often.
static ALIGNED_LESS: AtomicU8 = AtomicU8::new(0);
/// Of the mappings that a process may have, blocks take half where each takes two.
const MAPPINGS_PER_BLOCK: u64 = 4;
/// Pages of live blocks take so much of the memory that there is, unless somebody says how much.
const MEMORY_PART: u64 = 2;

/// Where only a few blocks are guarded: pages of live ones, and how many freed ones wait. With the rows of both some 25 MiB.
const SAMPLES_BYTES: u64 = 16 << 20;
const SAMPLES_WAITING: u64 = 1 << 14;

pub(crate) static FULL: OwnMemory<Full> = OwnMemory::new();
pub(crate) static CLOSED: OwnMemory<Closed> = OwnMemory::new();
/// [`range`]: nearly all addresses that are asked about lie outside.
static AROUND: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// What new blocks hold; [`NO_FILL`]: whatever is there.
static FILL_NEW: AtomicU16 = AtomicU16::new(NO_FILL);
const NO_FILL: u16 = 256;
/// So many bytes of a block are filled.
static FILL_BYTES: AtomicU64 = AtomicU64::new(0);
/// On which sides of blocks closed pages stand.
static SIDES: AtomicU8 = AtomicU8::new(Sides::Behind as u8);
/// Made longer for each block whose side is a toss.
static TOSSES: AtomicU64 = AtomicU64::new(1);

/// Makes the memory ready. The level that there is memory for.
pub(crate) fn start(wanted: &Guarding) -> Level {
    let level = start_parts(wanted);
    let (first, bytes) = range();
    AROUND[0].store(first, Ordering::Relaxed);
    AROUND[1].store(bytes, Ordering::Relaxed);
    level
}

fn start_parts(wanted: &Guarding) -> Level {
    process::memory_limit(); // known before the program may forbid to ask
    FILL_NEW.store(wanted.fill_new.map_or(NO_FILL, u16::from), Ordering::Relaxed);
    FILL_BYTES.store(wanted.fill_bytes, Ordering::Relaxed);
    let closed = wanted.level < Level::Page || start_closed(wanted);
    if wanted.level == Level::Sampled {
        rarely::start(wanted.one_in);
        return if closed { Level::Sampled } else { Level::Off };
    }
    let waiting_max = wanted.quarantine_blocks.min(wanted.quarantine_bytes / Full::WEIGHT_LEAST);
    let full = FULL.start(
        addresses(|bytes| Land::reserve(bytes, Full::UNIT_BYTES as usize)),
        (BYTES_PER_SLOT, Full::UNIT_BYTES, Full::GROUPS_PER_UNIT, waiting_max),
        |land, tables| {
            let limits = Limits {
                quarantine_bytes: wanted.quarantine_bytes,
                quarantine_blocks: wanted.quarantine_blocks,
                fill_bytes_max: wanted.fill_bytes,
                freed_fill: wanted.fill_freed.unwrap_or_default(),
            };
            let full = Full::new(land.first(), land.bytes(), tables, limits)?.with_redzone(wanted.redzone);
            Some(if wanted.fill_freed.is_none() { full.without_freed_fill() } else { full })
        },
    );
    match (closed, full) {
        (true, _) if wanted.level >= Level::Page => Level::Page,
        (_, true) => Level::Full,
        _ => Level::Light,
    }
}

fn start_closed(wanted: &Guarding) -> bool {
    // The smallest run is a page and a closed one.
    const BYTES_PER_SLOT: u64 = 2 * PAGE_BYTES;
    ALIGNED_LESS.store(
        ALIGNMENT.trailing_zeros().saturating_sub(wanted.align.unwrap_or(ALIGNMENT).trailing_zeros()) as u8,
        Ordering::Relaxed,
    );
    SIDES.store(wanted.sides as u8, Ordering::Relaxed);
    if wanted.by_protection {
        land::close_by_protection();
    }
    let is_sampled = wanted.level == Level::Sampled;
    let waiting_max = wanted.quarantine_blocks.min(if is_sampled { SAMPLES_WAITING } else { u64::MAX });
    CLOSED.start(addresses(Land::reserve_for_closing), (BYTES_PER_SLOT, PAGE_BYTES, 0, waiting_max), |land, tables| {
        let mappings = process::mappings_max() / MAPPINGS_PER_BLOCK;
        let memory = process::memory_limit() / MEMORY_PART;
        let limits = ClosedLimits {
            live_blocks: if land.is_protected() { mappings } else { u64::MAX },
            live_bytes: wanted.memory_bytes.unwrap_or(if is_sampled { SAMPLES_BYTES } else { memory }),
            freed_blocks: waiting_max,
            freed_bytes: u64::MAX,
            fill_bytes_max: wanted.fill_bytes,
        };
        Closed::new((land.first(), land.bytes()), PAGE_BYTES, land.is_protected(), tables, limits)
    })
}

/// Where its tables are, for who looks at this process from outside.
pub(crate) fn describe(tables: &mut GuardTables) {
    tables.closed = CLOSED.get().map(|part| {
        let (slots, slots_max) = CLOSED.slots();
        ClosedTables {
            first: part.land.first(),
            bytes: part.land.bytes(),
            page_bytes: PAGE_BYTES,
            slots,
            slots_max,
            slots_used_at: core::ptr::from_ref(part.arena.slots_used_word()) as u64,
        }
    });
    let Some(part) = FULL.get() else { return };
    tables.first = part.land.first();
    tables.bytes = part.land.bytes();
    (tables.slots, tables.slots_max) = FULL.slots();
    tables.slots_used_at = core::ptr::from_ref(part.arena.slots_used_word()) as u64;
    tables.fill_bytes_max = FILL_BYTES.load(Ordering::Relaxed);
    tables.freed_fill = part.arena.freed_fill().map_or(u64::MAX, u64::from);
}

/// As many addresses as can be had.
fn addresses(reserve: impl Fn(usize) -> Option<Land>) -> Option<Land> {
    let limits = [syscall::LIMIT_ADDRESS_BYTES, syscall::LIMIT_DATA_BYTES].map(syscall::limit);
    let limit = limits.into_iter().flatten().min().unwrap_or(u64::MAX) / LIMITED_PART;
    LAND_BYTES.into_iter().filter(|bytes| *bytes as u64 <= limit).find_map(reserve)
}

/// All of the guard's own memory at this moment, as an allocator would say it of its heap. Looks at each block's row.
pub fn own_heap() -> OwnHeap {
    let (full, closed) = counts();
    let (blocks, bytes) = FULL.get().map_or((0, 0), |part| part.arena.in_use());
    OwnHeap {
        bytes: full.range_bytes.saturating_add(closed.range_bytes),
        blocks: blocks.saturating_add(closed.live_blocks),
        in_use_bytes: bytes.saturating_add(closed.live_bytes),
    }
}

/// What there is in both parts.
pub(crate) fn counts() -> (FullCounts, ClosedCounts) {
    let full = FULL.get().map(|part| part.arena.counts());
    let closed = CLOSED.get().map(|part| part.arena.counts());
    (full.unwrap_or_default(), closed.unwrap_or_default())
}

/// Whether an address lies in the guard's own memory.
#[inline(always)]
pub fn contains(address: usize) -> bool {
    let [first, bytes] = &AROUND;
    (address as u64).wrapping_sub(first.load(Ordering::Relaxed)) < bytes.load(Ordering::Relaxed)
        && (FULL.contains(address) || CLOSED.contains(address))
}

/// Whether it lies where blocks have closed pages beside them.
#[inline(always)]
pub fn has_closed_pages(address: usize) -> bool {
    CLOSED.contains(address)
}

/// All of the guard's own memory: its first address, and how many bytes it has; zeros if there is none. Where there are two parts, others
/// may have memory in between.
pub fn range() -> (u64, u64) {
    let parts = [FULL.range(), CLOSED.range()].into_iter().filter(|(_, end)| *end != 0);
    let whole = parts.reduce(|(first, end), (other, last)| (first.min(other), end.max(last)));
    whole.map_or((0, 0), |(first, end)| (first, end.saturating_sub(first)))
}

/// Whether some of it cannot be touched.
pub fn closes_pages() -> bool {
    CLOSED.get().is_some()
}

/// What a block at a closed page is aligned to at least.
#[inline(always)]
fn least_alignment() -> u64 {
    ALIGNMENT.wrapping_shr(u32::from(ALIGNED_LESS.load(Ordering::Relaxed)))
}

/// A block of so many bytes, of zeros or of what a new block holds. `alignment`: what is asked for, 1 for nothing. `None` if there is no
/// room.
#[inline]
pub fn allocate(shared: &Shared, size: usize, alignment: usize, zeros: bool) -> Option<usize> {
    let fill = match FILL_NEW.load(Ordering::Relaxed) {
        _ if zeros => Fill::Zero,
        NO_FILL => Fill::Nothing,
        byte => Fill::Byte(byte as u8),
    };
    let alignment = alignment as u64;
    let request = Request { size: size as u64, alignment: alignment.max(ALIGNMENT), fill, words: [0; 2] };
    if let Some(part) = CLOSED.get().filter(|_| GUARD.closes_pages()) {
        let request = Request { alignment: alignment.max(least_alignment()), ..request };
        if let Ok(address) = part.arena.allocate(&part.system(), &request, side()) {
            CLOSED.is_used_up_to(address.saturating_add(request.size));
            return Some(address as usize);
        }
        let given = allocate_full(&request);
        // Where there is no room here either, who dresses it counts it, if there is a block at all.
        if given.is_some() {
            count_apart(shared, TallyCounter::GuardedLess);
        }
        return given;
    }
    allocate_full(&request)
}

/// A block as of the level `full`.
#[inline(always)]
fn allocate_full(request: &Request) -> Option<usize> {
    let part = FULL.get()?;
    let address = part.arena.allocate(&part.system(), request).ok()?;
    FULL.is_used_up_to(address.saturating_add(request.size));
    Some(address as usize)
}

/// A block that is one of a few: beside a closed page, of zeros. `None` if there is no room.
#[cold]
#[inline(never)]
pub(crate) fn allocate_sample(size: usize) -> Option<usize> {
    let part = CLOSED.get()?;
    let request = Request { size: size as u64, alignment: least_alignment(), fill: Fill::Zero, words: [0; 2] };
    let address = part.arena.allocate(&part.system(), &request, side()).ok()?;
    CLOSED.is_used_up_to(address.saturating_add(request.size));
    Some(address as usize)
}

/// Whether a limit of so many bytes, of which what is reserved here is a part, leaves the program several times what memory there is.
pub fn leave_enough_below(limit: u64) -> bool {
    const TIMES: u64 = 4;
    let bytes = |(first, end): (u64, u64)| end.saturating_sub(first);
    let ranges = bytes(FULL.range()).saturating_add(bytes(CLOSED.range()));
    let reserved = ranges.saturating_add(ranges / 4); // with their tables, of which rows are most
    reserved != 0 && reserved.saturating_add(process::memory_limit().saturating_mul(TIMES)) <= limit
}

/// The program is about to lock all that is mapped, which makes it real, or to limit its address space, or its data: what was never used
/// is given back, and further blocks are the program's own allocator's, dressed.
#[cold]
pub fn give_back_unused() {
    CLOSED.seal(Closed::seal);
    FULL.seal(Full::seal);
}

/// At which end of the next block its closed page stands. Of one call site's blocks that come in turn with those of another one, each
/// has either.
fn side() -> Side {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let sides = SIDES.load(Ordering::Relaxed);
    let is_behind = match sides {
        _ if sides == Sides::Both as u8 => TOSSES.fetch_add(STEP, Ordering::Relaxed).wrapping_mul(STEP) >> 63 == 0,
        sides => sides == Sides::Behind as u8,
    };
    if is_behind { Side::EndsAtPage } else { Side::BeginsAtPage }
}

/// Frees a block; tells of all damage that is seen: of what lies around it, and of those that have waited until now. False if no block
/// begins there that could be freed.
pub fn free(shared: &'static Shared, address: usize, called: Kind, at: FoundAt) -> bool {
    let own = address as u64;
    // Whether there are closed pages at all is asked first: it costs less.
    let freed = if let Some(part) = CLOSED.get().filter(|_| CLOSED.contains(address)) {
        let system = part.system();
        part.arena.free(&system, own, [0; 2], &mut |finding: &Finding| tell(shared, &system, finding, at, called))
    } else if let Some(part) = FULL.get() {
        part.arena.free(&part.system(), own, [0; 2], &mut move |finding: &Finding| {
            let (at, called) =
                if finding.block.start == own { (at, called) } else { (FoundAt::Quarantine, Kind::NONE) };
            tell(shared, &part.system(), finding, at, called);
        })
    } else {
        return false;
    };
    match freed {
        Ok(()) => true,
        Err(NotFreed::Again(_) | NotFreed::Interior(_) | NotFreed::NotOurs) => {
            damage::say_wrong_free(shared, address, at == FoundAt::Realloc);
            false
        }
    }
}

#[cold]
#[inline(never)]
pub(crate) fn tell(shared: &'static Shared, memory: &impl Memory, finding: &Finding, at: FoundAt, called: Kind) {
    let (block, damage) = (&finding.block, &finding.damage);
    if judged::was_told(block, damage) {
        return;
    }
    let (low, high) = beside(block);
    let around = Around::of(memory, block.start.wrapping_add(damage.offset as u64), low, high);
    let kept = (damage.region == Region::Freed).then(|| KeptOfBlock::of(block));
    let found = FoundDamage { block: block.start, size: Some(block.size), damage, at, called, around: &around, kept };
    damage::report(shared, &found);
}

/// What lies around a block and is its own.
fn beside(block: &Found) -> (u64, u64) {
    if CLOSED.contains(block.start as usize) {
        return (block.start & !(PAGE_BYTES - 1), block.end().next_multiple_of(PAGE_BYTES));
    }
    let (front, behind) = FULL.get().map_or((0, 0), |part| part.arena.around_bytes());
    (block.start.wrapping_sub(front), block.end().wrapping_add(behind))
}

/// Memory around an address in a block's place, as far as it can be read.
pub(crate) fn around(block: &Found, address: u64) -> Option<Around> {
    let (low, high) = beside(block);
    if let Some(part) = FULL.at(block.start as usize) {
        return Some(Around::of(&part.system(), address, low, high));
    }
    let is_there = block.life == Life::Live && block.size != 0;
    let nearest = address.clamp(block.start, block.end());
    // Copied by the kernel: who frees the block meanwhile closes its pages.
    is_there.then(|| Around::of(&Copied::new(), nearest, low, high))
}

/// Whether a block begins here, or did.
pub fn begins(address: usize) -> bool {
    lookup(address as u64).is_some_and(|found| found.start == address as u64)
}

/// Bytes that were asked for, of the live block that begins here.
pub fn usable(address: usize) -> Option<usize> {
    let bytes = match CLOSED.at(address) {
        Some(part) => part.arena.usable(address as u64),
        None => FULL.at(address)?.arena.usable(address as u64),
    };
    bytes.map(|bytes| bytes as usize)
}

/// What the live block that begins here was asked to be aligned to, 16 at least.
pub fn alignment(address: usize) -> Option<u64> {
    let alignment = match CLOSED.at(address) {
        Some(part) => part.arena.alignment(address as u64),
        None => FULL.at(address)?.arena.alignment(address as u64),
    };
    alignment.map(|alignment| alignment.max(ALIGNMENT))
}

/// Bytes that a block of so many takes at this address, with what lies around it.
pub fn actual(address: usize, size: usize) -> usize {
    match CLOSED.contains(address) {
        true => size.max(1).checked_next_multiple_of(PAGE_BYTES as usize).unwrap_or(size),
        false => size.saturating_add(FULL.get().map_or(0, |part| part.arena.gap_bytes() as usize)),
    }
}

/// The block that an address lies in, or beside.
pub(crate) fn lookup(address: u64) -> Option<Found> {
    match CLOSED.at(address as usize) {
        Some(part) => part.arena.lookup(address),
        None => FULL.at(address as usize)?.arena.lookup(address),
    }
}

/// Opens the closed page at an address, so that the program can go on that has touched it, or written to it. False if that cannot be done.
pub(crate) fn open_at(address: u64, is_write: bool) -> bool {
    let opens = |part: &GuardedRange<Closed>| part.arena.open_at(&part.system(), address).is_some();
    CLOSED.at(address as usize).is_some_and(|part| opens(part) && part.land.bears(address, is_write))
}

/// Opens closed pages for a call that is about to access so many bytes from an address on, but not without end. What was written there is
/// gone when they are closed again.
pub(crate) fn open_range(address: u64, bytes: u64) {
    const BYTES_MAX: u64 = 1 << 20;
    let end = address.saturating_add(bytes.min(BYTES_MAX));
    let mut page = address & !(PAGE_BYTES - 1);
    while page < end {
        let is_open = |block: &Found| {
            block.life == Life::Live && page < block.end() && block.start < page.saturating_add(PAGE_BYTES)
        };
        if CLOSED.contains(page as usize) && !lookup(page.max(address)).as_ref().is_some_and(is_open) {
            open_at(page, false);
        }
        page = page.saturating_add(PAGE_BYTES);
    }
}

/// Of the block that an address lies in, or beside: where it begins, its bytes, and where it is in its life.
#[inline]
pub(crate) fn extent(address: u64) -> Option<(u64, u64, Life)> {
    let known = FULL.at(address as usize).and_then(|part| part.arena.extent(address));
    if known.is_some() { known } else { extent_slowly(address) }
}

/// Whether so many bytes from an address on all lie in one live block with no closed page beside it. `false` if that is not certain.
#[inline(always)]
pub fn holds(address: u64, bytes: u64) -> bool {
    FULL.at(address as usize).is_some_and(|part| part.arena.holds(address, bytes))
}

/// At a closed page; or it may have changed at that moment.
#[cold]
#[inline(never)]
fn extent_slowly(address: u64) -> Option<(u64, u64, Life)> {
    lookup(address).map(|found| (found.start, found.size, found.life))
}

/// Starts to load what is known of a block that will be freed.
#[inline(always)]
pub(crate) fn fetch_soon(shared: &Shared, address: u64) {
    if shared.settings().guard.level == Level::Full
        && let Some(part) = FULL.at(address as usize)
    {
        part.arena.fetch_row(address);
    }
}

/// Keeps what the recorder knows of a block that ends: of the record with these words, and how it ended.
#[inline(always)]
pub(crate) fn annotate(shared: &Shared, record: &[AtomicU64; RECORD_WORDS], end: impl FnOnce() -> Kept) {
    if shared.settings().guard.level >= Level::Full {
        let address = record[1].load(Ordering::Relaxed) & ADDRESS_MAX;
        // At these levels nearly all blocks lie there: no look at the range around both first, as [`contains`] has it.
        let is_full = FULL.contains(address as usize);
        if is_full || CLOSED.contains(address as usize) {
            keep(address, is_full, record, &end());
        }
    }
}

#[inline(never)]
fn keep(address: u64, is_full: bool, record: &[AtomicU64; RECORD_WORDS], end: &Kept) {
    let words = record.each_ref().map(|word| word.load(Ordering::Relaxed));
    if let Some(given) = Kept::words_of_record(&words, end.forks) {
        write_row(address, is_full, given, end.words());
    }
}

/// The same of a block that a forked child has inherited: its parent's ledger has it.
pub(crate) fn annotate_inherited(free: &InheritedFree) {
    if contains(free.address.0 as usize) {
        let taken = packed(free.site, free.thread.row(), Kind(free.by as u8), Some(free.time), family::forks_kept());
        write_row(free.address.0, FULL.contains(free.address.0 as usize), [0; 2], taken);
    }
}

/// `is_full`: in which of the two it lies.
#[inline(always)]
fn write_row(address: u64, is_full: bool, given: [u64; 2], taken: [u64; 2]) {
    if is_full {
        if let Some(part) = FULL.get() {
            part.arena.annotate(address, given, taken);
        }
    } else if let Some(part) = CLOSED.get() {
        part.arena.annotate(address, given, taken);
    }
}

/// A stack, a thread, a function and a time in two words, neither of them 0.
#[inline(always)]
fn packed(site: Site, thread: Option<ThreadRow>, kind: Kind, time: Option<Ticks>, forks: u8) -> [u64; 2] {
    let (thread, time) = (thread.unwrap_or(ThreadRow::OTHER), time.unwrap_or_default());
    Kept { site, thread, kind, time, forks }.words()
}

/// The record of the live block that begins where a found one does.
pub(crate) fn entry_of(shared: &Shared, found: &Found) -> Option<Entry> {
    let slot = crate::look::slot_of(shared, &shared.index, found.start)?;
    let mut entry = Entry::unpack(&shared.words_of(slot, Ordering::Acquire))?;
    shared.complete(&mut entry);
    Some(entry)
}
