//! What both arenas have: range and tables, how they are cut up, stacks of free runs, and the queue of those that wait.

#![forbid(unsafe_code)]

use super::found::{Found, Life, NotFreed, Tables};
use super::slot::{Kind, PlaceOfBlock, Slot};
use crate::pattern::fetch_soon;
use crate::queue::Queue;
use crate::stack::{Links, Stack};
use crate::sync::{AtomicU64, Ordering};

/// Sizes of runs that an arena can have.
const CLASSES: usize = 256;
/// A unit's word is the row's number and one, and above it what makes more of it.
const NUMBER_BITS: u32 = 32;
const NUMBER: u64 = (1 << NUMBER_BITS) - 1;
/// Of the count of units that were cut: there are no more.
const SEALED: u64 = 1 << 63;

/// Range, tables, and what of both is used.
#[derive(Debug)]
pub(super) struct Store {
    first: u64,
    bytes: u64,
    unit_log2: u32,
    tables: Tables,
    stacks: [Stack; CLASSES],
    queue: Queue,
    /// So many were cut, and whether nothing is any more ([`SEALED`]).
    units_used: AtomicU64,
    slots_used: AtomicU64,
    /// When nothing was cut any more so many rows were used, and one more; 0: that is not known yet.
    sealed_slots: AtomicU64,
}

/// What of an arena was ever used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Bytes of the range, from its first on.
    pub bytes: u64,
    /// Words of [`Tables::units`].
    pub units: u64,
    /// Rows.
    pub slots: u64,
}

/// What a unit's word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// The row of its first block.
    pub(super) slot: u32,
    /// What else the arena has said of it.
    pub(super) more: u32,
}

impl Links for Store {
    fn next(&self, number: u32) -> u32 {
        self.slot(number).map_or(0, Slot::link)
    }

    fn set_next(&self, number: u32, next: u32) {
        if let Some(slot) = self.slot(number) {
            slot.set_link(next);
        }
    }
}

/// Takes so many from a counter that ends at `end`; the first of them.
fn take(used: &AtomicU64, count: u64, end: u64) -> Option<u64> {
    let more = |used: u64| used.checked_add(count).filter(|sum| *sum <= end);
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()
}

/// Gives back what was taken last, if nobody has taken more since.
fn give_back(used: &AtomicU64, first: u64, count: u64) {
    let _ = used.compare_exchange(first.wrapping_add(count), first, Ordering::Relaxed, Ordering::Relaxed);
}

impl Store {
    /// Of a range that begins at a unit, with tables as [`Tables`] says. `None` if they cannot be that.
    pub(super) fn new(first: u64, bytes: u64, unit_log2: u32, tables: Tables) -> Option<Self> {
        let unit = 1u64.checked_shl(unit_log2)?;
        first.checked_add(bytes)?;
        let sound = first >= unit
            && first.is_multiple_of(unit)
            && bytes >= unit
            && !tables.units.is_empty()
            && !tables.slots.is_empty()
            && tables.queue.len().is_power_of_two();
        sound.then(|| Self {
            first,
            bytes,
            unit_log2,
            tables,
            stacks: core::array::from_fn(|_| Stack::new()),
            queue: Queue::new(),
            units_used: AtomicU64::new(0),
            slots_used: AtomicU64::new(0),
            sealed_slots: AtomicU64::new(0),
        })
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn unit_bytes(&self) -> u64 {
        1u64.wrapping_shl(self.unit_log2)
    }

    /// Units of the range that have a word.
    fn units(&self) -> u64 {
        self.bytes.wrapping_shr(self.unit_log2).min(self.tables.units.len() as u64)
    }

    pub(super) fn range_bytes(&self) -> u64 {
        self.units().wrapping_shl(self.unit_log2)
    }

    /// Rows there are: numbers that stacks and the queue can keep.
    fn slots(&self) -> u64 {
        (self.tables.slots.len() as u64).min(NUMBER.wrapping_sub(1))
    }

    pub(super) fn slots_used(&self) -> u32 {
        let sealed = self.sealed_slots.load(Ordering::Acquire).checked_sub(1);
        sealed.unwrap_or_else(|| self.slots_used.load(Ordering::Acquire)) as u32
    }

    /// Where it stands how many rows were ever used.
    pub(super) fn slots_used_word(&self) -> &AtomicU64 {
        &self.slots_used
    }

    /// Live blocks, and bytes of their runs, of which the class says it.
    pub(super) fn live(&self, run_bytes: impl Fn(usize) -> u64) -> (u64, u64) {
        let slots = (0..self.slots_used()).filter_map(|number| self.slot(number)?.place_begun());
        let live = slots.filter(|place| place.state.kind() == Kind::Live);
        live.fold((0, 0), |(blocks, bytes): (u64, u64), place| {
            (blocks.wrapping_add(1), bytes.wrapping_add(run_bytes(place.class)))
        })
    }

    pub(super) fn used_bytes(&self) -> u64 {
        (self.units_used.load(Ordering::Acquire) & !SEALED).wrapping_shl(self.unit_log2)
    }

    /// What lies behind what was cut is not looked at any more, nor its rows and words.
    pub(super) fn contains(&self, address: u64) -> bool {
        let is_sealed = self.units_used.load(Ordering::Acquire) & SEALED != 0;
        let bytes = if is_sealed { self.used_bytes() } else { self.bytes };
        address.checked_sub(self.first).is_some_and(|offset| offset < bytes)
    }

    /// From now on nothing is cut; what was.
    pub(super) fn seal(&self) -> Used {
        // Whoever cuts fails from here on: so many are more than there are.
        let units = self.units_used.fetch_or(SEALED, Ordering::AcqRel) & !SEALED;
        // Who cuts takes rows first. Those that are taken when there are no units any more are nobody's.
        let used = self.slots_used.load(Ordering::Acquire);
        let set = |slots: u64| (slots == 0).then_some(used.wrapping_add(1));
        let slots = match self.sealed_slots.fetch_update(Ordering::AcqRel, Ordering::Acquire, set) {
            Ok(_) => used,
            Err(known) => known.wrapping_sub(1),
        };
        Used { bytes: units.wrapping_shl(self.unit_log2), units, slots }
    }

    /// So many units and rows; the offset of the first unit, and the first row's number.
    pub(super) fn cut(&self, units: u64, slots: u64) -> Option<(u64, u32)> {
        let slot = take(&self.slots_used, slots, self.slots())?;
        let Some(unit) = take(&self.units_used, units, self.units()) else {
            give_back(&self.slots_used, slot, slots);
            return None;
        };
        Some((unit.wrapping_shl(self.unit_log2), slot as u32))
    }

    /// Takes back what was cut and is of no use. It is lost if somebody has cut more since.
    pub(super) fn uncut(&self, (offset, slot): (u64, u32), units: u64, slots: u64) {
        give_back(&self.units_used, offset.wrapping_shr(self.unit_log2), units);
        give_back(&self.slots_used, u64::from(slot), slots);
    }

    /// Says whose the units from this offset on are.
    pub(super) fn assign(&self, offset: u64, units: u64, unit: Unit) {
        let word = u64::from(unit.more).wrapping_shl(NUMBER_BITS) | u64::from(unit.slot).wrapping_add(1);
        let from = offset.wrapping_shr(self.unit_log2) as usize;
        for place in self.tables.units.iter().skip(from).take(units as usize) {
            // Release: who finds the row sees where its run lies.
            place.store(word, Ordering::Release);
        }
    }

    /// Whose the unit is in which this offset lies.
    #[inline(always)]
    pub(super) fn unit(&self, offset: u64) -> Option<Unit> {
        self.unit_of_number(offset.wrapping_shr(self.unit_log2))
    }

    /// The same of the unit of this number.
    #[inline(always)]
    pub(super) fn unit_of_number(&self, number: u64) -> Option<Unit> {
        let word = self.tables.units.get(usize::try_from(number).ok()?)?.load(Ordering::Acquire);
        let slot = ((word & NUMBER) as u32).checked_sub(1)?;
        Some(Unit { slot, more: word.wrapping_shr(NUMBER_BITS) as u32 })
    }

    #[inline(always)]
    pub(super) fn slot(&self, number: u32) -> Option<&'static Slot> {
        self.tables.slots.get(number as usize)
    }

    /// Starts to load a row.
    #[inline(always)]
    pub(super) fn fetch_slot(&self, number: u32) {
        if let Some(slot) = self.slot(number) {
            fetch_soon(slot);
        }
    }

    /// The numbers of the rows whose blocks will probably go after so many others have gone.
    #[inline(always)]
    pub(super) fn waiting_behind<const COUNT: usize>(&self, ahead: [u64; COUNT]) -> [Option<u32>; COUNT] {
        self.queue.peek(self.tables.queue, ahead)
    }

    /// What the row of this number says, seen from an address.
    pub(super) fn found(&self, number: u32, address: u64) -> Option<Found> {
        let row = self.slot(number)?.row()?;
        Some(Found::new(&row, self.first, number, address))
    }

    /// Makes the block of this row one that is being freed, by this thread alone; where it lies. Or says whose it is not.
    #[inline(always)]
    pub(super) fn win(&self, number: u32, address: u64) -> Result<(PlaceOfBlock, &'static Slot), NotFreed> {
        let slot = self.slot(number).ok_or(NotFreed::NotOurs)?;
        // As often as its state changes between the two: by a check that begins or ends, or a fault.
        for _ in 0..64 {
            let Some(place) = slot.live() else { break };
            if place.start(self.first) != address {
                if slot.is_still(place.state) {
                    break;
                }
                continue;
            }
            // If it is still that state, all that was read is of it.
            if slot.change(place.state, place.state.with(Kind::Freeing)).is_ok() {
                return Ok((place, slot));
            }
        }
        Err(self.not_won(number, address))
    }

    #[cold]
    fn not_won(&self, number: u32, address: u64) -> NotFreed {
        match self.found(number, address) {
            None => NotFreed::NotOurs,
            Some(found) if found.offset != 0 => NotFreed::Interior(found),
            Some(found) if found.life == Life::Live => NotFreed::NotOurs,
            Some(found) => NotFreed::Again(found),
        }
    }

    /// What the live block was asked to be aligned to that begins here, in this row.
    pub(super) fn alignment(&self, number: u32, address: u64) -> Option<u64> {
        let place = self.slot(number)?.place()?;
        let is_it = place.start(self.first) == address && place.state.kind() == Kind::Live;
        is_it.then(|| 1u64.wrapping_shl(place.alignment_log2))
    }

    /// A run of this class that is free.
    #[inline(always)]
    pub(super) fn pop_free(&self, class: usize) -> Option<u32> {
        self.stacks.get(class)?.pop(self)
    }

    /// Frees a run of this class, or several whose rows follow each other.
    pub(super) fn push_free(&self, class: usize, first: u32, count: u32) {
        let (Some(stack), Some(more)) = (self.stacks.get(class), count.checked_sub(1)) else { return };
        let last = first.wrapping_add(more);
        for number in first..last {
            // The next one's number and one.
            self.set_next(number, number.wrapping_add(2));
        }
        stack.push(self, first, last);
    }

    #[inline(always)]
    pub(super) fn waiting(&self) -> u64 {
        self.queue.len()
    }

    /// Bytes of the tables that were ever used.
    pub(super) fn tables_bytes(&self) -> u64 {
        const WORD_BYTES: u64 = size_of::<AtomicU64>() as u64;
        let units = self.used_bytes().wrapping_shr(self.unit_log2);
        let words = self.queue.cells_used(self.tables.queue).saturating_add(units);
        let rows = u64::from(self.slots_used()).saturating_mul(size_of::<Slot>() as u64);
        words.saturating_mul(WORD_BYTES).saturating_add(rows)
    }

    /// How many may wait at most.
    pub(super) fn waiting_max(&self) -> u64 {
        (self.tables.queue.len() as u64).wrapping_shr(1)
    }

    #[inline(always)]
    pub(super) fn push_waiting(&self, number: u32) -> bool {
        self.queue.push(self.tables.queue, number)
    }

    #[inline(always)]
    pub(super) fn pop_waiting(&self) -> Option<u32> {
        self.queue.pop(self.tables.queue)
    }
}
