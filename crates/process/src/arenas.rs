//! Blocks from memory of the guard's own: at the levels above `light`.
//!
//! The memory is private, and what is known of its blocks lies in tables beside it (`crates/guard`), so a forked child goes on with its own
//! copy. What the recorder knows of a block, it tells here when the block ends ([`annotate`]): so who allocated it and who freed it is
//! there as long as the block waits, however far the history has moved on.
#![forbid(unsafe_code)]

use crate::damage::{self, Around, FoundDamage, KeptOfBlock};
use crate::guarded::Level;
use crate::once::{Early, Starting};
use crate::private::{Land, Run};
use crate::shared::{Phase, Shared};
use crate::sweep::Swept;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use heapledger_format::errors::FoundAt;
use heapledger_format::{Entry, FreedEntry, Kind, Site, ThreadRow, Ticks};
use heapledger_guard::{
    Cursor, Fill, Finding, Found, Full, Limits, Memory, NotFreed, Region, Request, Slot, System, Tables, Window,
};
use heapledger_linux::syscall;

/// What blocks hold when the program gets them, and freed ones as long as they wait.
const NEW_FILL: u8 = 0xCE;
const FREED_FILL: u8 = 0xFE;
/// So much of a block is filled at most.
const FILL_BYTES_MAX: u64 = 64 << 10;
/// Blocks that wait at most.
const WAITING_MAX: u64 = 1 << 20;
/// Addresses for all blocks: as many as can be had.
const LAND_BYTES: [usize; 5] = [256 << 30, 64 << 30, 8 << 30, 1 << 30, 128 << 20];
/// Where address space is limited, a part of it: the program wants the rest.
const LIMITED_PART: u64 = 8;
/// A row for so many bytes: smaller blocks take more than that with what lies around them.
const BYTES_PER_SLOT: u64 = 512;
/// Around each block at least.
const AROUND_BYTES: usize = 64;

struct Arena {
    land: Land,
    full: Full,
}

static ARENA: Early<Option<Arena>> = Early::new(None);
static PHASE: AtomicU8 = AtomicU8::new(Phase::Unstarted as u8);
static SLOTS: Run<Slot> = Run::new();
static UNITS: Run<AtomicU64> = Run::new();
static QUEUE: Run<AtomicU64> = Run::new();
/// First address and end of the memory; zeros if there is none.
static RANGE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// Blocks for which there was no room.
static REFUSED: AtomicU64 = AtomicU64::new(0);

impl Arena {
    fn system(&self) -> Own {
        Own { window: self.land.window(), land: self.land }
    }
}

/// The memory as an arena sees it.
struct Own {
    window: Window,
    land: Land,
}

impl Memory for Own {
    #[inline(always)]
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        self.window.read(address)
    }

    #[inline(always)]
    fn write<const BYTES: usize>(&self, address: u64, bytes: [u8; BYTES]) -> Option<()> {
        self.window.write(address, bytes)
    }

    #[inline(always)]
    fn fill(&self, address: u64, bytes: u64, byte: u8) -> Option<()> {
        self.window.fill(address, bytes, byte)
    }

    #[inline(always)]
    fn first_other(&self, address: u64, bytes: u64, byte: u8) -> Option<u64> {
        self.window.first_other(address, bytes, byte)
    }
}

impl System for Own {
    fn close(&self, _: u64, _: u64) -> bool {
        false
    }

    fn open(&self, _: u64, _: u64) -> bool {
        false
    }

    fn discard(&self, first: u64, bytes: u64) -> bool {
        self.land.discard(first, bytes)
    }
}

/// Makes the memory ready. False if there is none. `quarantine_bytes`: so many bytes of freed blocks wait.
pub(crate) fn start(quarantine_bytes: u64) -> bool {
    let Some(mut starting) = Starting::claim(&PHASE) else { return false };
    let made = make(quarantine_bytes);
    let is_there = made.is_some();
    if let Some(arena) = made {
        let [first, end] = &RANGE;
        end.store(arena.land.first().saturating_add(arena.land.bytes()), Ordering::Relaxed);
        first.store(arena.land.first(), Ordering::Relaxed);
        ARENA.change(&mut starting, |place| *place = Some(arena));
    }
    starting.end(if is_there { Phase::On } else { Phase::Off });
    is_there
}

fn make(quarantine_bytes: u64) -> Option<Arena> {
    const UNIT: usize = Full::UNIT_BYTES as usize;
    let limit = syscall::limit(syscall::LIMIT_ADDRESS_BYTES).unwrap_or(u64::MAX) / LIMITED_PART;
    let land =
        LAND_BYTES.into_iter().filter(|bytes| *bytes as u64 <= limit).find_map(|bytes| Land::reserve(bytes, UNIT))?;
    let count = |each: u64| u32::try_from(land.bytes().checked_div(each)?).ok();
    let tables = Tables {
        slots: SLOTS.map(count(BYTES_PER_SLOT)?)?,
        units: UNITS.map(count(Full::UNIT_BYTES)?)?,
        queue: QUEUE.map(u32::try_from(WAITING_MAX.saturating_mul(2)).ok()?)?,
    };
    let limits = Limits {
        quarantine_bytes,
        quarantine_blocks: WAITING_MAX,
        fill_bytes_max: FILL_BYTES_MAX,
        freed_fill: FREED_FILL,
    };
    let full = Full::new(land.first(), land.bytes(), tables, limits)?;
    Some(Arena { land, full })
}

#[inline(always)]
fn arena() -> Option<&'static Arena> {
    if PHASE.load(Ordering::Acquire) == Phase::On as u8 { ARENA.get().as_ref() } else { None }
}

/// Whether an address lies in the guard's own memory.
#[inline(always)]
pub fn contains(address: usize) -> bool {
    let [first, end] = &RANGE;
    (first.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&(address as u64))
}

/// A block of so many bytes, of zeros or of what a new block holds. `None` if there is no room.
#[inline]
pub fn allocate(size: usize, alignment: usize, zeros: bool) -> Option<usize> {
    let arena = arena()?;
    let fill = if zeros { Fill::Zero } else { Fill::Byte(NEW_FILL) };
    let request = Request { size: size as u64, alignment: alignment as u64, fill, words: [0; 2] };
    match arena.full.allocate(&arena.system(), &request) {
        Ok(address) => Some(address as usize),
        Err(_) => {
            REFUSED.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}

/// Frees a block; tells of all damage that is seen: of what lies around it, and of those that have waited until now. False if no block
/// begins there that could be freed.
pub fn free(shared: &'static Shared, address: usize, called: Kind, at: FoundAt) -> bool {
    let Some(arena) = arena() else { return false };
    let mut told = |finding: &Finding| {
        let (at, called) =
            if finding.block.start == address as u64 { (at, called) } else { (FoundAt::Quarantine, Kind::NONE) };
        tell(shared, arena, finding, at, called);
    };
    match arena.full.free(&arena.system(), address as u64, [0; 2], &mut told) {
        Ok(_) => true,
        Err(NotFreed::Again(_) | NotFreed::Interior(_) | NotFreed::NotOurs) => {
            damage::say_wrong_free(shared, address);
            false
        }
    }
}

#[cold]
#[inline(never)]
fn tell(shared: &'static Shared, arena: &Arena, finding: &Finding, at: FoundAt, called: Kind) {
    let (block, damage) = (&finding.block, &finding.damage);
    let (low, high) = (block.start.wrapping_sub(16), block.end().wrapping_add(48));
    let around = Around::of(&arena.system(), block.start.wrapping_add(damage.offset as u64), low, high);
    let kept = (damage.region == Region::Freed).then(|| KeptOfBlock::of(block));
    let found = FoundDamage { block: block.start, size: Some(block.size), damage, at, called, around: &around, kept };
    damage::report(shared, &found);
}

/// Bytes that were asked for, of the live block that begins here.
pub fn usable(address: usize) -> Option<usize> {
    arena()?.full.usable(address as u64).map(|bytes| bytes as usize)
}

/// Bytes that such a block takes, with what lies around it.
pub fn actual(size: usize) -> usize {
    size.saturating_add(AROUND_BYTES)
}

/// The block that an address lies in, or beside.
pub(crate) fn lookup(address: u64) -> Option<Found> {
    if contains(address as usize) { arena()?.full.lookup(address) } else { None }
}

/// Looks at all blocks, those that wait as well.
#[cold]
pub fn sweep(shared: &'static Shared, at: FoundAt) -> Swept {
    const SLOTS_AT_ONCE: u32 = 1024;
    const BYTES_AT_ONCE: u64 = 1 << 20;
    const NS_MAX: u64 = 5_000_000_000;
    const CLOCK_MONOTONIC: usize = 1;
    let mut swept = Swept::default();
    let Some(arena) = arena() else { return swept };
    let (mut cursor, begin_ns) = (Cursor::default(), syscall::clock(CLOCK_MONOTONIC));
    let mut told = |finding: &Finding| {
        swept.damaged = swept.damaged.wrapping_add(1);
        tell(shared, arena, finding, at, Kind::NONE);
    };
    let (mut looked, all) = (0_u64, arena.full.counts().slots);
    while !arena.full.sweep(&arena.system(), &mut cursor, SLOTS_AT_ONCE, BYTES_AT_ONCE, &mut told) {
        // At most so many, or fewer where blocks are large.
        looked = u64::min(all, looked.saturating_add(u64::from(SLOTS_AT_ONCE)));
        if syscall::clock(CLOCK_MONOTONIC).saturating_sub(begin_ns) > NS_MAX {
            swept.unseen = all.saturating_sub(looked).max(1);
            break;
        }
    }
    swept
}

/// Looks at the block that begins at an address: whether it is damaged. `None` if no live block does.
pub(crate) fn check(shared: &'static Shared, address: usize) -> Option<bool> {
    let arena = arena()?;
    arena.full.usable(address as u64)?;
    let mut damaged = false;
    let mut told = |finding: &Finding| {
        damaged = true;
        tell(shared, arena, finding, FoundAt::Sweep, Kind::NONE);
    };
    arena.full.check(&arena.system(), address as u64, &mut told)?;
    Some(damaged)
}

/// Keeps what the recorder knows of a block that ends.
#[inline(always)]
pub(crate) fn annotate(shared: &Shared, block: impl FnOnce() -> Option<FreedEntry>) {
    if shared.settings().guard.level >= Level::Full {
        keep(block());
    }
}

#[cold]
#[inline(never)]
fn keep(freed: Option<FreedEntry>) {
    if let Some(freed) = freed.filter(|freed| contains(freed.block.address as usize))
        && let Some(arena) = arena()
    {
        let block = &freed.block;
        let given = packed(block.site, block.thread, block.kind, block.time);
        arena.full.annotate(block.address, given, packed(freed.site, freed.thread, freed.by, freed.time));
    }
}

/// A stack, a thread, a function and a time in two words, neither of them 0.
fn packed(site: Site, thread: Option<ThreadRow>, kind: Kind, time: Option<Ticks>) -> [u64; 2] {
    let thread = thread.map_or(ThreadRow::OTHER.0, |row| row.0.min(ThreadRow::OTHER.0));
    [u64::from(site.0) | u64::from(thread) << 32 | u64::from(kind.0) << 56, time.map_or(1, |time| time.0.max(1))]
}

/// What was packed; `None`: nothing was kept.
pub(crate) fn unpacked([word, time]: [u64; 2]) -> Option<(Site, ThreadRow, Kind, Ticks)> {
    let (site, thread) = (Site(word as u32), ThreadRow((word >> 32) as u32 & 0x00FF_FFFF));
    (time != 0).then_some((site, thread, Kind((word >> 56) as u8), Ticks(time)))
}

/// The record of the live block that begins where a found one does.
pub(crate) fn entry_of(shared: &Shared, found: &Found) -> Option<Entry> {
    let slot = crate::look::slot_of(shared, &shared.index, found.start)?;
    let mut entry = Entry::unpack(&shared.words_of(slot, Ordering::Acquire))?;
    shared.complete(&mut entry);
    Some(entry)
}
