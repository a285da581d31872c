//! The level `page`: each block at a page of its own that no access passes, and freed ones without any access.
//!
//! Units are pages. A run is pages for data and a closed one behind them; what stands in front of the first one's data is
//! the run before, or a page that is closed for good:
//!
//! ```text
//!  [ closed ][ data, data ][ closed ][ data ][ closed ][ data …
//!                  block ┘             └ block
//!             EndsAtPage              BeginsAtPage
//! ```
//!
//! One rule holds everywhere: of the pages that were cut, all are closed but those in which live blocks lie. A block has as many
//! pages as its size needs, of zeros; so one without bytes has none, and stands at a closed page. What of its pages is
//! not the block is `0xBD`: the slack between its end and the page, and the far side. A page that was opened after a fault
//! is closed again before its run is used again, and so is one that the system would not close at the time.
//!
//! Who looks at a live block pins it. If it is freed meanwhile, its pages are closed by whoever looks, after that.

#![forbid(unsafe_code)]

mod look;

use super::classes::{class_of, units_of};
use super::found::{Fill, Finding, Found, NotFreed, Refused, Request, System, Tables};
use super::limits::{ClosedCounts, ClosedLimits, Side};
use super::slot::{Kind, Slot, flag};
use super::store::{Store, Unit, Used};
use super::{bytes, fill_edges, tell_edges};
use crate::sync::{AtomicU64, Ordering};

/// Runs are cut in batches of about so many pages.
const BATCH_PAGES: u64 = 32;
/// So many blocks at most leave the queue in one call of `free`.
const RELEASED_AT_ONCE: u32 = 16;
/// So many blocks at most leave the queue for one that finds no room.
const RELEASED_FOR_ROOM: u32 = 64;
const ALIGNMENT_MAX: u64 = 1 << 30;

/// The arena.
#[derive(Debug)]
pub struct Closed {
    store: Store,
    born_closed: bool,
    fill_bytes_max: u64,
    live_blocks_max: AtomicU64,
    live_bytes_max: AtomicU64,
    freed_blocks_max: AtomicU64,
    freed_bytes_max: AtomicU64,
    live_blocks: AtomicU64,
    live_bytes: AtomicU64,
    freed_bytes: AtomicU64,
    not_closed: AtomicU64,
}

/// Counts more unless it were too much.
fn reserve(counter: &AtomicU64, more: u64, max: &AtomicU64) -> bool {
    let max = max.load(Ordering::Relaxed);
    let sum = |now: u64| now.checked_add(more).filter(|sum| *sum <= max);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
}

fn page_floor(address: u64, page_bytes: u64) -> u64 {
    address & !page_bytes.wrapping_sub(1)
}

/// The first page that is not needed for what ends here.
fn page_ceil(address: u64, page_bytes: u64) -> Option<u64> {
    Some(page_floor(address.checked_add(page_bytes.wrapping_sub(1))?, page_bytes))
}

/// The pages in which a block lies: the first, and where they end.
fn pages(start: u64, size: u64, page_bytes: u64) -> (u64, u64) {
    let first = page_floor(start, page_bytes);
    if size == 0 {
        return (first, first);
    }
    (first, page_ceil(start.wrapping_add(size), page_bytes).unwrap_or(first))
}

/// What of a block's pages is not the block, on both sides.
pub(crate) fn edges(block: &Found, page_bytes: u64) -> ((u64, u64), (u64, u64)) {
    let (first, last) = pages(block.start, block.size, page_bytes);
    let end = block.end();
    if block.size == 0 { ((end, end), (end, end)) } else { ((first, block.start), (end, last)) }
}

impl Closed {
    /// An arena of so many bytes from this address on, both multiples of a page, which is `page_bytes`. The range is either open
    /// and of zeros, or `born_closed`. `None` if the tables are none, or the addresses are none.
    pub fn new(
        (first, bytes): (u64, u64),
        page_bytes: u64,
        born_closed: bool,
        tables: Tables,
        limits: ClosedLimits,
    ) -> Option<Self> {
        if !page_bytes.is_power_of_two() {
            return None;
        }
        let arena = Self {
            store: Store::new(first, bytes, page_bytes.trailing_zeros(), tables)?,
            born_closed,
            fill_bytes_max: limits.fill_bytes_max,
            live_blocks_max: AtomicU64::new(0),
            live_bytes_max: AtomicU64::new(0),
            freed_blocks_max: AtomicU64::new(0),
            freed_bytes_max: AtomicU64::new(0),
            live_blocks: AtomicU64::new(0),
            live_bytes: AtomicU64::new(0),
            freed_bytes: AtomicU64::new(0),
            not_closed: AtomicU64::new(0),
        };
        arena.set_limits(limits);
        Some(arena)
    }

    /// How much is guarded from now on, but for what new blocks are filled with. What is too much of freed blocks goes as
    /// further ones are freed, or by [`drain`](Self::drain).
    pub fn set_limits(&self, limits: ClosedLimits) {
        self.live_blocks_max.store(limits.live_blocks, Ordering::Relaxed);
        self.live_bytes_max.store(limits.live_bytes, Ordering::Relaxed);
        self.freed_blocks_max.store(limits.freed_blocks.min(self.store.waiting_max()), Ordering::Relaxed);
        self.freed_bytes_max.store(limits.freed_bytes, Ordering::Relaxed);
    }

    fn page_floor(&self, address: u64) -> u64 {
        page_floor(address, self.store.unit_bytes())
    }

    /// The first page that is not needed for what ends here.
    fn page_ceil(&self, address: u64) -> Option<u64> {
        page_ceil(address, self.store.unit_bytes())
    }

    /// The pages in which a block lies: the first, and where they end.
    fn pages(&self, start: u64, size: u64) -> (u64, u64) {
        pages(start, size, self.store.unit_bytes())
    }

    /// Bytes of the runs of a class.
    fn run_bytes(&self, class: usize) -> u64 {
        units_of(class).saturating_mul(self.store.unit_bytes())
    }

    /// A block as it was asked for, with a closed page on this side of it.
    pub fn allocate(&self, system: &impl System, request: &Request, side: Side) -> Result<u64, Refused> {
        let page = self.store.unit_bytes();
        let alignment = request.alignment;
        if !alignment.is_power_of_two() || alignment > ALIGNMENT_MAX {
            return Err(Refused::TooLarge);
        }
        let data = self.page_ceil(request.size).ok_or(Refused::TooLarge)?;
        let room = data.checked_add(alignment.saturating_sub(page)).ok_or(Refused::TooLarge)?;
        let pages = room.checked_div(page).and_then(|pages| pages.checked_add(1)).ok_or(Refused::TooLarge)?;
        if !reserve(&self.live_blocks, 1, &self.live_blocks_max) {
            return Err(Refused::Budget);
        }
        if !reserve(&self.live_bytes, data, &self.live_bytes_max) {
            self.live_blocks.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::Budget);
        }
        let made = self.run(system, class_of(pages)).and_then(|number| self.make(system, number, request, side));
        if made.is_err() {
            self.unreserve(data);
        }
        made
    }

    fn unreserve(&self, data: u64) {
        self.live_blocks.fetch_sub(1, Ordering::Relaxed);
        self.live_bytes.fetch_sub(data, Ordering::Relaxed);
    }

    /// A run that is nobody else's: a free one, a new one, or the one that has waited longest.
    fn run(&self, system: &impl System, class: usize) -> Result<u32, Refused> {
        if let Some(number) = self.store.pop_free(class) {
            return Ok(number);
        }
        let refused = match self.cut(system, class) {
            Ok(number) => return Ok(number),
            Err(refused) => refused,
        };
        if refused == Refused::NoRoom {
            for _ in 0..RELEASED_FOR_ROOM {
                if !self.let_one_go(system) {
                    break;
                }
                if let Some(number) = self.store.pop_free(class) {
                    return Ok(number);
                }
            }
        }
        Err(refused)
    }

    /// A batch of new runs, closed; one of them, and the others are free.
    #[cold]
    fn cut(&self, system: &impl System, class: usize) -> Result<u32, Refused> {
        let (page, pages) = (self.store.unit_bytes(), units_of(class));
        let all = self.store.range_bytes().checked_div(page).unwrap_or(0);
        if pages.saturating_add(1) > all {
            return Err(Refused::TooLarge);
        }
        let batch = BATCH_PAGES.checked_div(pages).unwrap_or(1).max(1);
        // With a closed page in front of the first run. At the end of the range there may be room for one run, not for more.
        for runs in [batch, 1] {
            let units = pages.wrapping_mul(runs).wrapping_add(1);
            let Some((offset, first)) = self.store.cut(units, runs) else { continue };
            let from = self.store.first().wrapping_add(offset);
            if !self.born_closed && !system.close(from, units.wrapping_mul(page)) {
                self.store.uncut((offset, first), units, runs);
                return Err(Refused::System);
            }
            self.store.assign(offset, 1, Unit { slot: first, more: 0 });
            let mut home = offset.wrapping_add(page);
            for number in first..first.wrapping_add(runs as u32) {
                if let Some(slot) = self.store.slot(number) {
                    slot.settle(home, class, 0);
                }
                self.store.assign(home, pages, Unit { slot: number, more: 0 });
                home = home.wrapping_add(pages.wrapping_mul(page));
            }
            self.store.push_free(class, first.wrapping_add(1), (runs as u32).wrapping_sub(1));
            return Ok(first);
        }
        Err(Refused::NoRoom)
    }

    /// Makes the block in a run that is this thread's alone.
    fn make(&self, system: &impl System, number: u32, request: &Request, side: Side) -> Result<u64, Refused> {
        let slot = self.store.slot(number).ok_or(Refused::NoRoom)?;
        let (home, class) = slot.home();
        let home = self.store.first().wrapping_add(home);
        let start = self.place(home, request, side);
        if slot.begin().has(flag::OPENED) && !self.close_all(system, slot) {
            // Nobody knows what a block would find there.
            slot.turn(Kind::Vacant, 0);
            self.store.push_free(class, number, 1);
            return Err(Refused::System);
        }
        let (first, last) = self.pages(start, request.size);
        if last > first && !system.open(first, last.wrapping_sub(first)) {
            slot.turn(Kind::Vacant, 0);
            self.store.push_free(class, number, 1);
            return Err(Refused::System);
        }
        slot.describe(start.wrapping_sub(home), (request.size, request.alignment), request.words);
        let end = start.wrapping_add(request.size);
        if last > first {
            fill_edges(system, ((first, start), (end, last)));
        }
        if let Fill::Byte(byte) = request.fill {
            bytes::fill(system, start, start.wrapping_add(request.size.min(self.fill_bytes_max)), byte);
        }
        slot.turn(Kind::Live, 0);
        Ok(start)
    }

    /// Where a block lies in the run that begins here.
    fn place(&self, home: u64, request: &Request, side: Side) -> u64 {
        let below = request.alignment.wrapping_sub(1);
        if request.alignment > self.store.unit_bytes() {
            return home.wrapping_add(below) & !below;
        }
        match side {
            Side::BeginsAtPage => home,
            Side::EndsAtPage => {
                let last = self.pages(home, request.size).1;
                last.wrapping_sub(request.size.wrapping_add(below) & !below)
            }
        }
    }

    /// Frees the block that begins here: looks at what lies around it, closes its pages, and keeps them closed as long as the
    /// limits allow. Each damage is told before the pages are closed.
    pub fn free(
        &self,
        system: &impl System,
        address: u64,
        words: [u64; 2],
        found: &mut impl FnMut(&Finding),
    ) -> Result<(), NotFreed> {
        let number = self.number(address).ok_or(NotFreed::NotOurs)?;
        let (place, slot) = self.store.win(number, address)?;
        let block = Found::new(&slot.row_of(place), self.store.first(), number, address);
        tell_edges(system, (block.start, || block), self.edges(&block), found);
        slot.describe_end(words);
        self.unreserve(self.data_bytes(&block));
        let mut state = slot.state();
        while state.has(flag::PINNED) {
            // Somebody looks at it, and closes it after that.
            match slot.change(state, state.with(Kind::Freed)) {
                Ok(()) => return Ok(()),
                Err(now) => state = now,
            }
        }
        self.close(system, number, slot, &block);
        Ok(())
    }

    /// Closes the pages of a block that is being freed by this thread, and lets it wait.
    fn close(&self, system: &impl System, number: u32, slot: &Slot, block: &Found) {
        let (first, last) = self.pages(block.start, block.size);
        if slot.state().has(flag::OPENED) {
            self.close_all(system, slot);
        } else if last > first && !system.close(first, last.wrapping_sub(first)) {
            self.not_closed.fetch_add(1, Ordering::Relaxed);
            slot.set(flag::OPENED);
        }
        slot.turn(Kind::Freed, 0);
        let (_, class) = slot.home();
        let bytes = self.run_bytes(class);
        let counted = self.make_room(system, bytes);
        if !counted || !self.store.push_waiting(number) {
            if counted {
                self.freed_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            self.release(system, number, slot);
        }
    }

    /// Lets the oldest go for a run that is to be kept closed, and counts it. `false` if it may not be kept itself.
    fn make_room(&self, system: &impl System, bytes: u64) -> bool {
        let bytes_max = self.freed_bytes_max.load(Ordering::Relaxed);
        let blocks_max = self.freed_blocks_max.load(Ordering::Relaxed);
        if bytes > bytes_max || blocks_max == 0 {
            return false;
        }
        let much = || {
            let all = self.freed_bytes.load(Ordering::Relaxed).saturating_add(bytes);
            all > bytes_max || self.store.waiting() >= blocks_max
        };
        for _ in 0..RELEASED_AT_ONCE {
            if !much() || !self.let_one_go(system) {
                break;
            }
        }
        self.freed_bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Lets so many freed blocks go, the oldest first; how many went.
    pub fn drain(&self, system: &impl System, blocks_max: u32) -> u32 {
        let gone = (0..blocks_max).take_while(|_| self.let_one_go(system)).count();
        u32::try_from(gone).unwrap_or(u32::MAX)
    }

    fn let_one_go(&self, system: &impl System) -> bool {
        let Some(number) = self.store.pop_waiting() else { return false };
        if let Some(slot) = self.store.slot(number) {
            let (_, class) = slot.home();
            self.freed_bytes.fetch_sub(self.run_bytes(class), Ordering::Relaxed);
            self.release(system, number, slot);
        }
        true
    }

    /// Puts a closed run to the free ones.
    fn release(&self, system: &impl System, number: u32, slot: &Slot) {
        let (_, class) = slot.home();
        if slot.turn(Kind::Released, 0).has(flag::OPENED) {
            self.close_all(system, slot);
        }
        self.store.push_free(class, number, 1);
    }

    /// Closes all of a run's pages, after one was opened, and the page in front of them, which may be the one. If that fails,
    /// the run is not to be used before it was tried again.
    fn close_all(&self, system: &impl System, slot: &Slot) -> bool {
        // Before the pages: one that is opened after that is marked again.
        slot.clear(flag::OPENED);
        let (home, class) = slot.home();
        let page = self.store.unit_bytes();
        let from = self.store.first().wrapping_add(home).wrapping_sub(page);
        let closed = system.close(from, self.run_bytes(class).wrapping_add(page));
        if !closed {
            self.not_closed.fetch_add(1, Ordering::Relaxed);
            slot.set(flag::OPENED);
        }
        closed
    }

    /// The row of the run in which this address lies; a page that is closed for good counts to the run behind it.
    fn number(&self, address: u64) -> Option<u32> {
        if !self.contains(address) {
            return None;
        }
        Some(self.store.unit(address.wrapping_sub(self.store.first()))?.slot)
    }

    /// Whether an address lies in the range.
    pub fn contains(&self, address: u64) -> bool {
        self.store.contains(address)
    }

    fn data_bytes(&self, block: &Found) -> u64 {
        let (first, last) = self.pages(block.start, block.size);
        last.wrapping_sub(first)
    }

    fn edges(&self, block: &Found) -> ((u64, u64), (u64, u64)) {
        edges(block, self.store.unit_bytes())
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

    /// What it holds.
    pub fn counts(&self) -> ClosedCounts {
        ClosedCounts {
            live_blocks: self.live_blocks.load(Ordering::Relaxed),
            live_bytes: self.live_bytes.load(Ordering::Relaxed),
            freed_blocks: self.store.waiting(),
            freed_bytes: self.freed_bytes.load(Ordering::Relaxed),
            slots: u64::from(self.store.slots_used()),
            range_bytes: self.store.used_bytes(),
            tables_bytes: self.store.tables_bytes(),
            not_closed: self.not_closed.load(Ordering::Relaxed),
        }
    }
}
