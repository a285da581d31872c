//! What the policy needs, for a thread that is inside the recorder.
#![forbid(unsafe_code)]

use crate::access::{AboutBlock, Access};
use crate::arenas;
use crate::cells::{Addresses as _, SLOTS_MAX};
use crate::chunks::Lease;
use crate::family;
use crate::history;
use crate::hooks::NewBlock;
use crate::index::{Index, Insert};
use crate::layouts;
use crate::measuring;
use crate::publication;
use crate::shared::Shared;
use crate::slots::{BATCH, LOCAL_MAX};
use crate::state::{Entered, ThreadBooks};
use crate::summing;
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};
use heapledger_format::guard::Kept;
use heapledger_format::header::State;
use heapledger_format::record::{FREED_LABEL_SHIFT, FREED_NEXT_SHIFT, HISTORY_WORDS, Options, RECORD_WORDS};
use heapledger_format::section::thread;
use heapledger_format::{Entry, FreedEntry, Kind, SectionKind, TallyCounter, ThreadRow, Ticks};
use heapledger_recorder::backend::{Backend, Begun, CallEffect, Change, Ended, Freed, Inserted, Measure, Number, Slot};

/// How often a thread asks again for places of records where others are busy with that. Each time it may wait half a second.
const PATIENCE: u32 = 3;
const NUMBER_MASK: u64 = heapledger_format::layout::mask(48);

impl Access<'_> {
    /// Starts to load what entering the block will change, while its stack is taken.
    #[inline(always)]
    pub(crate) fn prepare(&mut self, block: &NewBlock) {
        self.about = block.about;
        let cell = self.find_cell(block.address as u64);
        self.index().fetch_cell_soon(cell);
        let next = self.state.slot_count.wrapping_sub(1) as usize;
        if let Some(slot) = self.state.slots.get(next) {
            self.shared.fetch_soon(*slot);
        }
    }

    /// Starts to load what taking the block out will change.
    #[inline(always)]
    pub(crate) fn prepare_end(&mut self, address: u64) {
        let cell = self.find_cell(address);
        self.index().fetch_record_soon(self.shared, cell);
        if !self.is_usual {
            arenas::fetch_soon(self.shared, address);
        }
    }

    /// Which index leads to the block that is being entered or taken out.
    #[inline(always)]
    pub(crate) fn index(&self) -> &'static Index {
        if self.about == AboutBlock::Inner { &self.shared.inner } else { &self.shared.index }
    }

    #[inline(always)]
    fn find_cell(&mut self, address: u64) -> Option<&'static AtomicU32> {
        let cell = self.index().cell(address);
        self.cell = cell.map(|cell| (address, cell));
        cell
    }

    /// The cell of an address, if it is the one that was looked for.
    #[inline(always)]
    pub(crate) fn cell(&self, address: u64) -> Option<&'static AtomicU32> {
        match self.cell {
            Some((known, cell)) if known == address => Some(cell),
            _ => self.index().cell(address),
        }
    }

    #[cold]
    #[inline(never)]
    fn more_slots(&mut self) -> Option<Slot> {
        let shared = self.shared;
        let count = shared.pool.pop(shared, self.state.slots.get_mut(..BATCH)?);
        compiler_fence(Ordering::Release); // as in `ThreadBooks::give_batch`
        self.state.slot_count = count as u32;
        if count > 0 {
            return self.state.pop_slot();
        }
        let lease = || {
            let (ledger, batch) = (shared.ledger(), BATCH as u64);
            let soon = ledger.section(SectionKind::Records).used().wrapping_add(batch);
            let first =
                if shared.labels.covers(ledger, soon) { ledger.lease(SectionKind::Records, batch) } else { None };
            // Others may have leased some meanwhile, or wanted labels.
            first.filter(|first| {
                let end = first.wrapping_add(batch);
                end <= u64::from(SLOTS_MAX) && shared.labels.covers(ledger, end)
            })
        };
        let is_short = |kind| shared.ledger().is_short_of(kind, BATCH as u64);
        let first = match lease() {
            Some(first) => first,
            // Whoever makes the ledger longer takes long, and nobody has said that there is no room.
            None if ![SectionKind::Records, SectionKind::LabelColumn].into_iter().any(is_short) => {
                (0..PATIENCE).find_map(|_| lease())?
            }
            None => {
                // Live blocks matter more than freed ones.
                if !shared.history.shrink(shared.ledger()) {
                    shared.ledger().set_state(State::Full);
                    return None;
                }
                shared.ledger().retry(SectionKind::Records);
                lease()?
            }
        };
        shared.ledger().set_state(State::Recording);
        // In reverse, so that they are used in the order in which they lie.
        for (place, slot) in self.state.slots.iter_mut().zip((first..first.wrapping_add(BATCH as u64)).rev()) {
            *place = Slot(slot as u32);
        }
        compiler_fence(Ordering::Release); // as in `ThreadBooks::give_batch`
        self.state.slot_count = BATCH as u32;
        self.state.pop_slot()
    }

    /// Where freed blocks wait: keeps with them who had them, and who freed them.
    #[inline(always)]
    fn annotate(&mut self, slot: Slot, freed: &Freed) {
        arenas::annotate(self.shared, self.shared.record(slot), || {
            let Freed { ended: Ended { by, site }, time, .. } = *freed;
            Kept { site, thread: self.state.row, kind: by, time, forks: family::forks_kept() }
        });
    }

    /// Writes the first entry of a lease.
    #[cold]
    #[inline(never)]
    fn first_entry(&mut self, slot: Slot, freed: &Freed) {
        let entry = self.state.next_entry;
        self.state.next_entry = self.state.next_entry.wrapping_add(1);
        self.write_history(entry, slot, freed);
        self.state.is_due = self.state.next_entry == self.state.end_entry;
    }

    /// Writes an entry that is leased to this thread.
    #[inline(always)]
    fn write_history(&mut self, entry: u64, slot: Slot, freed: &Freed) {
        let entry = self.shared.ledger().section(SectionKind::History).element(entry);
        history::write(entry, &self.freed_words(slot, freed));
        self.state.count(TallyCounter::HistoryEntered, 1);
    }

    /// A free that the history has no room for, or that nobody keeps: written down here, and [added](after_history) later. One after
    /// the other: that takes less stack.
    #[cold]
    #[inline(never)]
    fn keep_at_hand(&mut self, slot: Slot, freed: &Freed) {
        let words = self.freed_words(slot, freed);
        (self.state.at_hand, self.state.is_at_hand, self.state.is_due) = (words, true, true);
    }

    /// The words of a history entry.
    #[inline(always)]
    fn freed_words(&mut self, slot: Slot, freed: &Freed) -> [u64; HISTORY_WORDS] {
        let block = self.shared.words_of(slot, Ordering::Relaxed);
        let actual = match Entry::packed_actual(&block) {
            Some(_) if self.about == AboutBlock::Aligned => 0,
            Some(actual) if self.is_usual || self.shared.settings().options.has(Options::ACTUAL_SIZE) => actual,
            Some(_) => 0,
            None => self.aside(|access| access.wide_figure(slot)),
        };
        let Freed { number, later, ended: Ended { by, site }, time } = *freed;
        let end = FreedEntry::pack_end(number.0, (by, later), site, self.state.row, time);
        let label = match self.shared.labels.is_used() {
            true => u64::from(self.shared.label_of(slot).load(Ordering::Relaxed)),
            false => 0,
        };
        let time = end[2] | label << FREED_LABEL_SHIFT;
        // Thread and number in one word: the same thread, and its next number.
        let is_next = end[0].wrapping_sub(block[0]) == 1
            || block[0] == self.state.before_lease && number.0 == self.state.first_number;
        let address = block[1] | u64::from(is_next) << FREED_NEXT_SHIFT;
        [block[0], address, block[2], block[3], end[0], end[1], time, actual]
    }
}

/// What follows from an entry that is at hand.
#[cold]
#[inline(never)]
fn after_history(shared: &Shared, mut state: Entered) {
    state.is_due = false;
    state.add_at_hand(shared);
}

/// What follows from an entry that was the last of its lease. Leases end as soon as they are filled, so that a thread that rests keeps nothing
/// from others. Whether an entry is at hand now.
#[cold]
#[inline(never)]
fn after_lease(shared: &Shared, mut state: Entered) -> bool {
    if state.next_entry < state.end_entry {
        return false;
    }
    if state.entries == 1 {
        // Adding may take long, where a row is to be made or another thread has the processor, and a ring is small where threads are
        // many: the entry goes back first.
        let entry = state.end_entry.wrapping_sub(1);
        summing::take_in_hand(shared, &mut state, entry);
        state.give_entries_back(shared);
        return true;
    }
    state.end_entries(shared, 1);
    false
}

/// Leases entries of the history.
#[cold]
#[inline(never)]
fn more_entries(shared: &Shared, mut state: Entered) -> bool {
    state.end_entries(shared, 1);
    let Some(lease) = shared.history.lease(shared.ledger(), state.entries_filled) else { return false };
    state.entries_filled = state.entries_filled.wrapping_add(lease.count);
    // A handler may jump out of this for good, after any instruction: nothing is left from `next_entry` on where that is not below `end_entry`,
    // and what is given back is told last. Then the lease is lost at worst.
    state.next_entry = lease.first;
    compiler_fence(Ordering::Release);
    state.end_entry = lease.first.wrapping_add(lease.count);
    compiler_fence(Ordering::Release);
    state.entries = lease.count;
    true
}

impl Entered<'_> {
    /// Gives back what is leased of the history, added up. `events`: see [`summing::add_entries`].
    pub(crate) fn end_entries(&mut self, shared: &Shared, events: u64) {
        if self.entries != 0 {
            // Nobody else writes there before the lease is over.
            let first = self.end_entry.wrapping_sub(self.entries);
            let lost = summing::add_entries(shared, self, first..self.next_entry, events);
            self.count(TallyCounter::SumsLost, lost);
            self.give_entries_back(shared);
        }
    }

    /// The same of those that were added up, or are about to be.
    fn give_entries_back(&mut self, shared: &Shared) {
        let lease = Lease { first: self.end_entry.wrapping_sub(self.entries), count: self.entries };
        // As in `more_entries`, the other way round.
        self.entries = 0;
        compiler_fence(Ordering::Release);
        self.end_entry = 0;
        compiler_fence(Ordering::Release);
        self.next_entry = 0;
        shared.history.release(shared.ledger(), lease);
    }

    /// Adds up what is at hand, if anything is.
    pub(crate) fn add_at_hand(&mut self, shared: &Shared) {
        if self.is_at_hand {
            self.is_at_hand = false;
            if !summing::add_one(shared, self) {
                self.count(TallyCounter::SumsLost, 1);
            }
        }
    }
}

impl<'hook> Backend for Access<'hook> {
    #[inline(always)]
    fn aside<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        self.with_copy(work)
    }

    #[inline(always)]
    fn now(&mut self) -> Ticks {
        // It was read with the lease of the number.
        self.state.ticks
    }

    #[inline(always)]
    fn number(&mut self) -> Option<Number> {
        self.number_from(0).map(Number)
    }

    #[inline(always)]
    fn number_of(&mut self, block: &Begun) -> Option<Number> {
        let least = self.least_number(block);
        self.number_from(least).map(Number)
    }

    #[inline(always)]
    fn number_of_end(&mut self, slot: Slot, address: u64) -> Option<Number> {
        Access::number_of_end(self, slot, address).map(Number)
    }

    #[inline(always)]
    fn number_of_moved(&mut self, number: Number, block: &Begun) -> Number {
        Number(Access::number_of_moved(self, number.0, block))
    }

    #[inline(always)]
    fn thread(&mut self) -> Option<ThreadRow> {
        Some(self.state.row)
    }

    #[inline(always)]
    fn take_slot(&mut self) -> Option<Slot> {
        match self.state.pop_slot() {
            Some(slot) => Some(slot),
            None => self.aside(Access::more_slots),
        }
    }

    #[inline(always)]
    fn release_slot(&mut self, slot: Slot) {
        let state: &mut ThreadBooks = &mut self.state;
        if state.slot_count as usize == LOCAL_MAX {
            state.give_batch(self.shared);
        }
        if let Some(place) = state.slots.get_mut(state.slot_count as usize) {
            *place = slot;
            compiler_fence(Ordering::Release); // as in `ThreadBooks::give_batch`
            state.slot_count = state.slot_count.wrapping_add(1);
        }
    }

    #[inline(always)]
    fn publish(&mut self, slot: Slot, entry: &Entry, alignment: u64) {
        if entry.is_wide() {
            let entry = *entry;
            self.aside(move |access| access.wide_put(&entry));
        }
        let [commit, address, size, time]: [u64; RECORD_WORDS] = entry.pack();
        let words = [commit, address, size, time | layouts::packed(alignment)];
        // The slot's commit word is 0: it was vacated, perhaps by another thread, or is fresh.
        if self.shared.labels.is_used() {
            self.shared.put_label(slot, self.state.thread().label());
        }
        publication::publish(self.shared.record(slot), 0, &words);
    }

    #[inline(always)]
    fn weigh(&mut self, block: &Begun, number: Number) -> u64 {
        let weight = self.weight_on_account(block, number);
        if self.about == AboutBlock::Inner {
            measuring::enters_heap(self.shared, block, weight);
        }
        weight
    }

    #[inline(always)]
    fn counts_unknown(&self) -> bool {
        self.shared.settings().sample == 0 && !self.shared.switch.was_paused()
    }

    #[inline(always)]
    fn measure(&mut self, slot: Slot) -> Option<Measure> {
        let measure = self.measure_off_account(slot)?;
        if self.about == AboutBlock::Inner {
            measuring::leaves_heap(self.shared, slot, measure);
        }
        Some(measure)
    }

    #[inline(always)]
    fn vacate(&mut self, slot: Slot) {
        let commit = &self.shared.record(slot)[0];
        if self.is_wide(slot) {
            let number = (NUMBER_MASK & commit.load(Ordering::Relaxed)).wrapping_sub(1);
            self.aside(|access| access.wide_clear(number));
        }
        publication::retract(commit);
    }

    #[inline(always)]
    fn insert(&mut self, address: u64, slot: Slot) -> Inserted {
        if !self.is_usual {
            self.shared.sampling.note(address);
        }
        let at = (address, self.cell(address));
        match self.index().insert(self.shared, at, slot, self.about == AboutBlock::Apart) {
            Insert::Done => Inserted::Done,
            Insert::Displaced(old) => {
                self.shared.sampling.forget(address); // the other one's
                Inserted::Displaced(old)
            }
            Insert::Full => {
                self.shared.sampling.forget(address);
                Inserted::Full
            }
        }
    }

    #[inline(always)]
    fn remove(&mut self, address: u64) -> Option<Slot> {
        let at = (address, self.cell(address));
        // Captured as what it is: an access whose address is known to others lies in memory.
        let (shared, books): (_, &ThreadBooks) = (self.shared, &self.state);
        let is_single = shared.threads.is_single();
        // Known when compiling; captured, it would lie in memory.
        let slot = match self.about {
            AboutBlock::Nothing | AboutBlock::Apart => {
                shared.index.remove(shared, at, is_single, &|slot| shared.remains(books, slot, false))
            }
            AboutBlock::Aligned => {
                shared.index.remove(shared, at, is_single, &|slot| shared.remains(books, slot, true))
            }
            AboutBlock::Inner => shared.inner.remove(shared, at, is_single, &|slot| shared.remains(books, slot, false)),
        };
        if slot.is_some() && !self.is_usual {
            self.shared.sampling.forget(address);
        }
        slot
    }

    #[inline(always)]
    fn expect_history(&mut self) {
        if (self.is_usual || self.shared.history.is_on()) && self.state.next_entry >= self.state.end_entry {
            more_entries(self.shared, self.state.again());
        }
    }

    #[inline(always)]
    fn expected_history(&mut self) {
        if self.state.is_due {
            // One after the other, not one inside of the other: that takes less stack.
            after_history(self.shared, self.state.again());
            if after_lease(self.shared, self.state.again()) {
                after_history(self.shared, self.state.again());
            }
        }
    }

    #[inline(always)]
    fn history(&mut self, slot: Slot, freed: &Freed) {
        if !self.is_usual {
            self.annotate(slot, freed);
        }
        if !self.is_usual && !self.shared.history.is_on() {
            let freed = *freed;
            self.aside(move |access| access.keep_at_hand(slot, &freed));
            return;
        }
        let entry = self.state.next_entry;
        if entry >= self.state.end_entry {
            let freed = *freed;
            // One after the other: that takes less stack.
            if more_entries(self.shared, self.state.again()) {
                self.aside(move |access| access.first_entry(slot, &freed));
            } else {
                self.state.count(TallyCounter::HistoryLost, 1);
                self.aside(move |access| access.keep_at_hand(slot, &freed));
            }
            return;
        }
        self.state.next_entry = self.state.next_entry.wrapping_add(1);
        if self.state.next_entry == self.state.end_entry {
            self.state.is_due = true;
        }
        self.write_history(entry, slot, freed);
    }

    #[inline(always)]
    fn count(&mut self, counter: TallyCounter, amount: u64) {
        match counter {
            TallyCounter::Allocations => self.state.add_to_row(thread::allocations, amount),
            TallyCounter::BytesAllocated => self.state.add_to_row(thread::bytes_allocated, amount),
            TallyCounter::Frees => self.state.add_to_row(thread::frees, amount),
            _ => {}
        }
        self.state.count(counter, amount);
    }

    #[inline(always)]
    fn count_call(&mut self, kind: Kind, effect: CallEffect, amount: u64) {
        self.state.thread().count_call(kind, effect, amount);
    }

    #[inline(always)]
    fn live(&mut self, change: Change, _time: Ticks) {
        self.shared.live(&mut self.state, change.bytes, change.blocks);
    }
}
