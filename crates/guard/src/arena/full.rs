//! The level `full`: blocks of any size, 64 bytes apart at least, filled, with canaries around them; freed ones wait.
//!
//! Blocks of up to 16 KiB with what lies around them share units of 64 KiB with others of their class; larger ones have runs of
//! whole units. In a run, 16 bytes or more stand in front of the block and 48 or more behind it, all of them `0xBD`:
//!
//! ```text
//!  [ front, 16 … ][ block ][ behind, 48 … ][ front … ][ block ]
//! ```
//!
//! At most 4096 bytes on each side are watched. Memory of runs of 256 KiB and more goes back to the system when a block has
//! waited; smaller ones keep theirs for the next block.

#![forbid(unsafe_code)]

use super::classes::{ALL_ONE, run_at};
use super::found::{Cursor, Fill, Finding, Found, Life, NotFreed, Refused, Request, System, Tables};
use super::limits::{FullCounts, Limits};
use super::runs::{
    FreeRuns, GRAIN_BYTES, GROUPS_PER_UNIT, LARGE, TakenRun, UNIT_BYTES, class_for, place_of, run_bytes, runs_of_unit,
};
use super::slot::{Kind, PlaceOfBlock, Slot, flag};
use super::store::{Store, Unit, Used};
use super::watched::{Watched, edges};
use super::{edges_around, fill_edges, filled_around};
use crate::alone::add;
use crate::memory::Memory;
use crate::sync::{AtomicU64, Ordering};
use core::sync::atomic::fence;

/// In front of each block at least.
const FRONT_BYTES: u64 = 16;
/// So much is watched on each side.
pub(super) const WATCHED_BYTES: u64 = 4096;
/// Runs of this class give back their memory, and all larger ones: those of 256 KiB and more.
const GIVEN_BACK: usize = LARGE + ((256 << 10) / UNIT_BYTES) as usize - 1;
/// So many blocks at most leave the queue in one call of `free`.
const RELEASED_AT_ONCE: u32 = 16;
/// What the cache has at once. Three of these are loaded ahead of a look at a block: others follow by themselves.
const LINE_BYTES: u64 = 64;
const ALIGNMENT_MAX: u64 = 1 << 30;

/// The arena.
#[derive(Debug)]
pub struct Full {
    store: Store,
    free: FreeRuns,
    watched: Watched,
    front_bytes: u64,
    gap_bytes: u64,
    bytes_max: AtomicU64,
    blocks_max: AtomicU64,
    waiting_bytes: AtomicU64,
    not_kept: AtomicU64,
}

impl Full {
    /// What the range is cut into: a word of [`Tables::units`] for each.
    pub const UNIT_BYTES: u64 = UNIT_BYTES;
    /// So many of [`Tables::groups`] for each.
    pub const GROUPS_PER_UNIT: u32 = GROUPS_PER_UNIT;
    /// Between two blocks at least.
    pub const GAP_BYTES: u64 = 64;
    /// What a block that waits takes beside its bytes and what lies around it: its row, and two places of the ring, of which half is used.
    pub const WAITING_BYTES: u64 = (size_of::<Slot>() + 2 * size_of::<AtomicU64>()) as u64;
    /// Nothing that waits takes less.
    pub const WEIGHT_LEAST: u64 = Self::GAP_BYTES + Self::WAITING_BYTES;

    /// An arena of so many bytes from this address on, a multiple of [`Full::UNIT_BYTES`]: memory of zeros that may be read and
    /// written and that nobody else uses. `None` if the tables are none, or the addresses are none.
    pub fn new(first: u64, bytes: u64, tables: Tables, limits: Limits) -> Option<Self> {
        let store = Store::new(first, bytes, Self::UNIT_BYTES.trailing_zeros(), tables)?;
        let free = FreeRuns::new(tables.groups, store.range_bytes() / UNIT_BYTES)?;
        let arena = Self {
            store,
            free,
            watched: Watched { first, fill_bytes_max: limits.fill_bytes_max, freed_fill: Some(limits.freed_fill) },
            front_bytes: FRONT_BYTES,
            gap_bytes: Self::GAP_BYTES,
            bytes_max: AtomicU64::new(0),
            blocks_max: AtomicU64::new(0),
            waiting_bytes: AtomicU64::new(0),
            not_kept: AtomicU64::new(0),
        };
        arena.set_limits(limits.quarantine_bytes, limits.quarantine_blocks);
        Some(arena)
    }

    /// One that has so many bytes on both sides of each block, if that is more than there are anyway, and at most what is watched.
    pub fn with_redzone(self, bytes: u64) -> Self {
        let bytes = bytes.min(WATCHED_BYTES).next_multiple_of(GRAIN_BYTES);
        let front_bytes = bytes.max(FRONT_BYTES);
        let gap_bytes = front_bytes.saturating_add(bytes).max(Self::GAP_BYTES);
        Self { front_bytes, gap_bytes, ..self }
    }

    /// One that does not fill freed blocks: nobody sees then what is written to them.
    pub fn without_freed_fill(self) -> Self {
        Self { watched: Watched { freed_fill: None, ..self.watched }, ..self }
    }

    /// Bytes around each block at least.
    pub fn gap_bytes(&self) -> u64 {
        self.gap_bytes
    }

    /// Of these, bytes in front of it and behind it.
    pub fn around_bytes(&self) -> (u64, u64) {
        (self.front_bytes, self.gap_bytes.wrapping_sub(self.front_bytes))
    }

    /// What freed blocks are filled with.
    pub fn freed_fill(&self) -> Option<u8> {
        self.watched.freed_fill
    }

    /// Bytes of a block with the least that lies around it.
    #[inline(always)]
    fn need(&self, size: u64, alignment: u64) -> Option<u64> {
        let room = size.checked_add(GRAIN_BYTES.wrapping_sub(1))? & !GRAIN_BYTES.wrapping_sub(1);
        room.checked_add(self.gap_bytes)?.checked_add(alignment.saturating_sub(GRAIN_BYTES))
    }

    /// How much may wait from now on, in bytes of memory that are taken for it. What is too much goes as further blocks are freed, or by [`drain`](Self::drain).
    pub fn set_limits(&self, quarantine_bytes: u64, quarantine_blocks: u64) {
        self.bytes_max.store(quarantine_bytes, Ordering::Relaxed);
        self.blocks_max.store(quarantine_blocks.min(self.store.waiting_max()), Ordering::Relaxed);
    }

    /// A block, as it was asked for.
    #[inline(always)]
    pub fn allocate(&self, memory: &impl System, request: &Request) -> Result<u64, Refused> {
        if !request.alignment.is_power_of_two() || request.alignment > ALIGNMENT_MAX {
            return Err(Refused::TooLarge);
        }
        let need = self.need(request.size, request.alignment).ok_or(Refused::TooLarge)?;
        let class = class_for(need);
        let taken = match self.free.pop(&self.store, class) {
            Some(taken) => taken,
            None => self.cut_or_find(class)?,
        };
        let slot = self.store.slot(taken.number).ok_or(Refused::NoRoom)?;
        let ((home, _), run) = (slot.home(), run_bytes(class));
        self.fetch_ahead(memory, (home, run), taken);
        let clean = slot.put_begun().has(flag::CLEAN);
        let home = self.store.first().wrapping_add(home);
        let alignment = request.alignment.max(GRAIN_BYTES).wrapping_sub(1);
        let start = home.wrapping_add(self.front_bytes).wrapping_add(alignment) & !alignment;
        slot.describe(start.wrapping_sub(home), (request.size, request.alignment), request.words);
        let (filled, fill) = match request.fill {
            Fill::Zero if !clean => (request.size, 0),
            Fill::Byte(byte) => (request.size.min(self.watched.fill_bytes_max), byte),
            _ => (0, 0),
        };
        memory.lay(filled_around(edges((home, run), start, request.size), filled, fill));
        slot.put(Kind::Live, flag::CLEAN);
        Ok(start)
    }

    /// A new run, or where there is no more room one of those that are left unused otherwise.
    #[cold]
    fn cut_or_find(&self, class: usize) -> Result<TakenRun, Refused> {
        match self.cut(class) {
            Ok(number) => Ok(TakenRun { number, ahead: 0 }),
            Err(Refused::NoRoom) if class < LARGE => {
                self.free.run_short(&self.store);
                // Also where another thread has done that: it may have freed some.
                self.free.pop(&self.store, class).ok_or(Refused::NoRoom)
            }
            Err(refused) => Err(refused),
        }
    }

    /// A new run of this class; the others that were cut with it are free.
    fn cut(&self, class: usize) -> Result<u32, Refused> {
        let bytes = run_bytes(class);
        let (units, runs, more) = match bytes.checked_div(Self::UNIT_BYTES) {
            Some(units) if units > 0 => (units, 1, ALL_ONE),
            _ => {
                let (runs, shares) = runs_of_unit(bytes);
                (1, runs, shares)
            }
        };
        let (offset, first) = self
            .store
            .cut(units, runs)
            .ok_or_else(|| if bytes > self.store.range_bytes() { Refused::TooLarge } else { Refused::NoRoom })?;
        for run in 0..runs {
            let home = offset.wrapping_add(run.wrapping_mul(bytes));
            if let Some(slot) = self.store.slot(first.wrapping_add(run as u32)) {
                slot.settle(home, class, flag::CLEAN);
                if class < LARGE {
                    slot.set_link(place_of(offset, run));
                }
            }
        }
        self.store.assign(offset, units, Unit { slot: first, more });
        if class < LARGE {
            self.free.add(class, offset, runs, 1);
        }
        Ok(first)
    }

    /// Frees the block that begins here: looks at what lies around it, fills it, and lets it wait. Those that must go for it
    /// are looked at. Each damage is told while it still can be seen.
    #[inline(always)]
    pub fn free(
        &self,
        memory: &impl System,
        address: u64,
        words: [u64; 2],
        found: &mut impl FnMut(&Finding),
    ) -> Result<(), NotFreed> {
        let number = self.number(address).ok_or(NotFreed::NotOurs)?;
        let (place, slot) = self.store.win(number, address)?;
        let edges = self.watched.edges(&place);
        if memory.is_other(edges_around(edges))
            && self.watched.tell_edges(memory, (slot, number), |finding| found(finding))
        {
            // What is told of them later is what was done later.
            fill_edges(memory, edges);
        }
        if let Some(fill) = self.watched.freed_fill {
            let _ = memory.fill(address, place.size.min(self.watched.fill_bytes_max), fill);
        }
        slot.describe_end(words);
        slot.put(Kind::Freed, 0);
        if !self.make_room(memory, self.weight(place.size), found) {
            self.not_kept.fetch_add(1, Ordering::Relaxed);
            self.release(memory, (number, slot), &place);
        } else if !self.store.push_waiting(number) {
            self.waiting_bytes.fetch_sub(self.weight(place.size), Ordering::Relaxed);
            self.not_kept.fetch_add(1, Ordering::Relaxed);
            self.release(memory, (number, slot), &place);
        }
        Ok(())
    }

    /// Lets the oldest go for a block that is to wait, and counts it. `false` if it may not wait itself.
    #[inline(always)]
    fn make_room(&self, memory: &impl System, weight: u64, found: &mut impl FnMut(&Finding)) -> bool {
        let (bytes_max, blocks_max) = (self.bytes_max.load(Ordering::Relaxed), self.blocks_max.load(Ordering::Relaxed));
        if weight > bytes_max || blocks_max == 0 {
            return false;
        }
        // What goes is counted together with what comes: often that is the same.
        let mut gone = 0u64;
        for _ in 0..RELEASED_AT_ONCE {
            let all = self.waiting_bytes.load(Ordering::Relaxed).saturating_add(weight).saturating_sub(gone);
            if all <= bytes_max && self.store.waiting() < blocks_max {
                break;
            }
            let Some(bytes) = self.let_one_go(memory, found) else { break };
            gone = gone.wrapping_add(bytes);
        }
        if weight != gone {
            add(&self.waiting_bytes, weight.wrapping_sub(gone));
        }
        true
    }

    /// Lets so many blocks go that wait, the oldest first; how many went.
    pub fn drain(&self, memory: &impl System, blocks_max: u32, found: &mut impl FnMut(&Finding)) -> u32 {
        let gone = (0..blocks_max).map_while(|_| self.let_one_go(memory, found));
        gone.map(|bytes| self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed))
            .fold(0, |count, _| count.wrapping_add(1))
    }

    /// Looks at the block that has waited longest, and lets it go. How many bytes fewer wait then; it is for the caller to count them. `None`
    /// if none waits.
    #[inline(never)]
    fn let_one_go(&self, memory: &impl System, found: &mut impl FnMut(&Finding)) -> Option<u64> {
        let number = self.store.pop_waiting()?;
        self.fetch_next(memory);
        let slot = self.store.slot(number)?;
        let Some(place) = slot.place_begun() else { return Some(0) };
        self.watched.tell_freed(memory, &place, (slot, number), found);
        self.release(memory, (number, slot), &place);
        Some(self.weight(place.size))
    }

    /// What has waited long lies in no cache any more: it is loaded while others are looked at, first rows, then what they tell of.
    #[inline(always)]
    fn fetch_next(&self, memory: &impl System) {
        const ROW_AHEAD: u64 = 8;
        const BLOCK_AHEAD: u64 = 4;
        let [row, block] = self.store.waiting_behind([ROW_AHEAD, BLOCK_AHEAD]);
        if let Some(number) = row {
            self.store.fetch_slot(number);
        }
        if let Some(slot) = block.and_then(|number| self.store.slot(number)) {
            self.fetch_run(memory, slot);
        }
    }

    /// Starts to load what lies in the run of this row.
    #[inline(always)]
    fn fetch_run(&self, memory: &impl System, slot: &Slot) {
        let (home, class) = slot.home();
        self.fetch_bytes(memory, (home, run_bytes(class)));
    }

    /// The same of a run at an offset, of so many bytes.
    #[inline(always)]
    fn fetch_bytes(&self, memory: &impl System, (home, run): (u64, u64)) {
        let first = self.store.first().wrapping_add(home);
        memory.fetch_soon(first);
        memory.fetch_soon(first.wrapping_add(LINE_BYTES));
        // Of larger ones what lies in between follows by itself.
        memory.fetch_soon(first.wrapping_add(run).wrapping_sub(1));
    }

    /// What is handed out next is loaded, with its row.
    #[inline(always)]
    fn fetch_ahead(&self, memory: &impl System, (home, run): (u64, u64), taken: TakenRun) {
        if taken.ahead != 0 {
            self.store.fetch_slot(taken.number.wrapping_add(taken.ahead));
            self.fetch_bytes(memory, (home.wrapping_add(run.wrapping_mul(u64::from(taken.ahead))), run));
        }
    }

    /// Starts to load the row of the block at an address, which will be freed soon.
    #[inline]
    pub fn fetch_row(&self, address: u64) {
        if let Some(number) = self.number(address) {
            self.store.fetch_slot(number);
        }
    }

    /// Puts a block's run to the free ones.
    #[inline(always)]
    fn release(&self, memory: &impl System, (number, slot): (u32, &Slot), place: &PlaceOfBlock) {
        slot.put(Kind::Released, 0);
        if place.class >= GIVEN_BACK {
            let bytes = run_bytes(place.class);
            // Who looks at what lies there meanwhile learns that it is freed no more.
            fence(Ordering::SeqCst);
            if memory.discard(self.store.first().wrapping_add(place.home), bytes) {
                slot.set(flag::CLEAN);
            }
        }
        self.free.push(&self.store, place.class, (number, slot));
    }

    /// What is counted of a block that waits: all that is taken for it. It cannot overflow: the block would not have been made.
    #[inline(always)]
    fn weight(&self, size: u64) -> u64 {
        let room = size.wrapping_add(GRAIN_BYTES.wrapping_sub(1)) & !GRAIN_BYTES.wrapping_sub(1);
        room.wrapping_add(self.gap_bytes).wrapping_add(Self::WAITING_BYTES)
    }

    /// The row of the block in whose run this address lies.
    #[inline(always)]
    fn number(&self, address: u64) -> Option<u32> {
        // An address below the first is far behind the last as well.
        let offset = address.wrapping_sub(self.store.first());
        let unit = self.store.unit_of_number(offset.wrapping_shr(Self::UNIT_BYTES.trailing_zeros()))?;
        let grain = (offset & Self::UNIT_BYTES.wrapping_sub(1)).wrapping_shr(GRAIN_BYTES.trailing_zeros());
        Some(unit.slot.wrapping_add(run_at(unit.more, grain)))
    }

    /// Whether these bytes all lie in one live block. If that one is freed at this moment, and its memory handed out again, it may be that of
    /// before or of after.
    #[inline(always)]
    pub fn holds(&self, address: u64, bytes: u64) -> bool {
        let Some(slot) = self.number(address).and_then(|number| self.store.slot(number)) else { return false };
        slot.live().is_some_and(|place| {
            let inside = address.wrapping_sub(place.start(self.store.first()));
            inside < place.size && bytes <= place.size.wrapping_sub(inside)
        })
    }

    /// Of the block in whose run an address lies: where it begins, its bytes, and where it is in its life. `None` also where that changes
    /// at this moment: [`lookup`](Self::lookup) says more, and takes longer.
    #[inline]
    pub fn extent(&self, address: u64) -> Option<(u64, u64, Life)> {
        let place = self.store.slot(self.number(address)?)?.place()?;
        Some((place.start(self.store.first()), place.size, Life::of(place.state.kind())))
    }

    /// The block in whose run an address lies, also in front of it or behind it.
    pub fn lookup(&self, address: u64) -> Option<Found> {
        self.store.found(self.number(address)?, address)
    }

    /// Says what is to be kept of the block that begins here, live or waiting: words in place of those of its [`Request`], and those
    /// that it was or will be freed with, if it is freed with zeros.
    pub fn annotate(&self, address: u64, allocated: [u64; 2], freed: [u64; 2]) {
        if let Some(number) = self.number(address)
            && let Some(slot) = self.store.slot(number)
            && slot.place_begun().is_some_and(|place| place.start(self.store.first()) == address)
        {
            slot.annotate(allocated, freed);
        }
    }

    /// What it was asked to be aligned to, of the live block that begins here.
    pub fn alignment(&self, address: u64) -> Option<u64> {
        self.store.alignment(self.number(address)?, address)
    }

    /// What was asked for, of the live block that begins here.
    pub fn usable(&self, address: u64) -> Option<u64> {
        super::usable(self.lookup(address)?)
    }

    /// Whether an address lies in the range.
    pub fn contains(&self, address: u64) -> bool {
        self.store.contains(address)
    }

    /// The block in the run below that one's, seen from that one's first byte.
    pub fn before(&self, block: &Found) -> Option<Found> {
        let (home, _) = self.store.slot(block.slot)?.home();
        let below = self.store.first().wrapping_add(home).checked_sub(1)?;
        self.store.found(self.number(below)?, block.start)
    }

    /// The block in the run above that one's, seen from that one's first byte.
    pub fn after(&self, block: &Found) -> Option<Found> {
        let (home, class) = self.store.slot(block.slot)?.home();
        let above = self.store.first().wrapping_add(home).checked_add(run_bytes(class))?;
        let mut number = self.number(above)?;
        if number == block.slot {
            // It was the last of its unit.
            number = self.number((above | Self::UNIT_BYTES.wrapping_sub(1)).checked_add(1)?)?;
        }
        self.store.found(number, block.start)
    }

    /// Looks at the block in whose run this address lies.
    pub fn check(&self, memory: &impl Memory, address: u64, found: &mut impl FnMut(&Finding)) -> Option<Found> {
        let number = self.number(address)?;
        self.examine(memory, number, found);
        self.store.found(number, address)
    }

    /// Looks at all blocks, live and waiting, a few in each call: so many rows, and about so many bytes. Whether it has come to
    /// the end; the next call begins anew then.
    pub fn sweep(
        &self,
        memory: &impl Memory,
        cursor: &mut Cursor,
        slots_max: u32,
        bytes_max: u64,
        found: &mut impl FnMut(&Finding),
    ) -> bool {
        super::sweep(self.store.slots_used(), cursor, slots_max, bytes_max, |number| {
            self.examine(memory, number, found)
        })
    }

    /// Looks at one block, and says how many bytes it has looked at.
    fn examine(&self, memory: &impl Memory, number: u32, found: &mut impl FnMut(&Finding)) -> u64 {
        let Some(slot) = self.store.slot(number) else { return 0 };
        self.watched.examine(memory, slot, number, found)
    }

    /// From now on no further memory is used, nor further rows: what is free of the memory there is can be had. Says what was used:
    /// nothing behind that is looked at any more.
    pub fn seal(&self) -> Used {
        self.store.seal()
    }

    /// Where it stands how many rows of the side table were ever used, for who reads this memory from outside.
    pub fn slots_used_word(&self) -> &AtomicU64 {
        self.store.slots_used_word()
    }

    /// Live blocks at this moment, and bytes of their runs. Looks at each row: not what is asked often.
    pub fn in_use(&self) -> (u64, u64) {
        self.store.live(run_bytes)
    }

    /// What it holds.
    pub fn counts(&self) -> FullCounts {
        let waiting_blocks = self.store.waiting();
        let in_tables = waiting_blocks.saturating_mul(Self::WAITING_BYTES);
        FullCounts {
            waiting_blocks,
            waiting_bytes: self.waiting_bytes.load(Ordering::Relaxed).saturating_sub(in_tables),
            slots: u64::from(self.store.slots_used()),
            range_bytes: self.store.used_bytes(),
            tables_bytes: self.store.tables_bytes().saturating_add(self.free.table_bytes()),
            not_kept: self.not_kept.load(Ordering::Relaxed),
        }
    }
}
