//! Trace windows in memory of the caller's: exact books of what is allocated from one moment on.
//!
//! *You supply* words of memory, and on each call who calls; *this module* keeps a record of each block that begins while the trace runs.
//! In mode [`TraceMode::Leaks`] a record goes when its block is freed, so what is there was not; in mode [`TraceMode::All`] it stays, with
//! the stack of the free. If there is no room for one more, the record that was freed first goes, and only if none is freed the oldest:
//! that is counted. As in [`chip`](crate::chip) there is no lock in here: call it in a critical section.
//!
//! ```text
//! buffer:  record | record | record …      record:  block, links, bucket | stack | mode all: thread, time and stack of the free
//! ```
//!
//! A live record is found by its address: each record's memory holds one bucket of a hash table, too. All are in a list by age. Those
//! that are freed hang on another one, by when that was. Places of records are numbered from 1; 0 is none.
//!
//! ```
//! use heapledger_recorder::trace::{TraceBuffer, TraceCaller, TraceMode, TraceShape};
//!
//! const SHAPE: TraceShape = TraceShape { mode: TraceMode::Leaks, frames: 4 };
//! let mut words = [0; SHAPE.words(100)];
//! let mut trace = TraceBuffer::new(&mut words, SHAPE, None).expect("room");
//! trace.start();
//! let caller = TraceCaller { thread: 7, time: 0, frames: &[0x0800_1234, 0x0800_0042] };
//! trace.allocated(0x2000_0100, 24, &caller);
//! trace.allocated(0x2000_0200, 36, &caller);
//! assert!(trace.freed(0x2000_0100, &caller));
//! assert_eq!((trace.figures().records, trace.get(0).map(|record| record.size)), (1, Some(36)));
//! ```

mod lists;
mod record;
#[cfg(test)]
mod tests;
pub mod text;

pub use record::{FRAMES_MAX, TraceFree, TraceMode, TraceRecord, TraceShape};

use record::{Status, at};

/// Who calls, and when.
#[derive(Clone, Copy, Debug)]
pub struct TraceCaller<'f> {
    /// Its number.
    pub thread: u32,
    /// When, in whatever unit.
    pub time: u64,
    /// The call stack, innermost frame first.
    pub frames: &'f [usize],
}

/// What becomes of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TraceState {
    /// Nothing changes.
    Stopped = 0,
    /// No block becomes a record. Frees and resizes of records are noted.
    Paused = 1,
    /// Blocks become records.
    Running = 2,
}

/// What a trace has seen since it was started.
///
/// `allocations` are always `frees`, `lost_live` and `live_blocks` together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceFigures {
    /// Blocks that became records.
    pub allocations: u64,
    /// Blocks among them that were freed while they had a record.
    pub frees: u64,
    /// Frees of blocks without a record: from before the start, or lost ones.
    pub unknown_frees: u64,
    /// Bytes asked for in all that became records, and in what records have followed.
    pub allocated_bytes: u64,
    /// Bytes of those that were freed, and of what records have followed from.
    pub freed_bytes: u64,
    /// Records of blocks that live.
    pub live_blocks: u64,
    /// Bytes in these.
    pub live_bytes: u64,
    /// Most live bytes at any moment.
    pub peak_bytes: u64,
    /// Records in the buffer.
    pub records: u64,
    /// Most of them at any moment.
    pub most_records: u64,
    /// How many there is room for.
    pub capacity: u64,
    /// Records of live blocks that had to go, because there was no room.
    pub lost_live: u64,
    /// Bytes in these.
    pub lost_live_bytes: u64,
    /// Records of freed blocks that had to go.
    pub lost_freed: u64,
    /// Calls that could not be noted at all, because others held the buffer for too long.
    pub missed_calls: u64,
}

impl TraceFigures {
    /// Whether there was no room for some record.
    pub const fn has_overflowed(&self) -> bool {
        self.lost_live != 0 || self.lost_freed != 0
    }
}

/// A trace.
#[derive(Debug)]
pub struct TraceBuffer<'b> {
    words: &'b mut [usize],
    shape: TraceShape,
    /// Only blocks of this thread become records.
    only: Option<u32>,
    state: TraceState,
    capacity: usize,
    /// Places that were ever taken.
    used: usize,
    /// A place that is vacant again; the others hang on it.
    vacant: usize,
    oldest: usize,
    newest: usize,
    /// Ends of the list of freed records.
    freed_first: usize,
    freed_last: usize,
    /// Index and place of the record that was asked for last.
    cursor: (usize, usize),
    figures: TraceFigures,
}

impl<'b> TraceBuffer<'b> {
    /// A trace that is stopped, in words of which the contents do not matter. Of one thread's blocks only, if it is said. `None` if there is
    /// no room for a record, or a record is to have more frames than [`FRAMES_MAX`].
    pub fn new(words: &'b mut [usize], shape: TraceShape, only: Option<u32>) -> Option<TraceBuffer<'b>> {
        let capacity = shape.records(words.len()).filter(|records| *records != 0)?;
        let mut trace = TraceBuffer {
            words,
            shape,
            only,
            state: TraceState::Stopped,
            capacity,
            used: 0,
            vacant: 0,
            oldest: 0,
            newest: 0,
            freed_first: 0,
            freed_last: 0,
            cursor: (0, 0),
            figures: TraceFigures::default(),
        };
        trace.clear();
        Some(trace)
    }

    /// The words, of which nobody needs the contents any more.
    pub fn into_words(self) -> &'b mut [usize] {
        self.words
    }

    /// What a record has room for.
    pub fn shape(&self) -> TraceShape {
        self.shape
    }

    /// Begins anew: no records, all figures 0, and it runs.
    pub fn start(&mut self) {
        self.clear();
        self.state = TraceState::Running;
    }

    /// Pauses, runs on, or stops. What is freed while it is stopped stays a live record, until its address comes up again.
    pub fn set_state(&mut self, state: TraceState) {
        self.state = state;
    }

    /// What becomes of calls.
    pub fn state(&self) -> TraceState {
        self.state
    }

    fn clear(&mut self) {
        for word in self.words.iter_mut() {
            *word = 0;
        }
        (self.used, self.vacant) = (0, 0);
        (self.oldest, self.newest) = (0, 0);
        (self.freed_first, self.freed_last) = (0, 0);
        self.cursor = (0, 0);
        self.figures = TraceFigures { capacity: self.capacity as u64, ..TraceFigures::default() };
    }

    /// Whether what this thread allocates becomes records now.
    fn records(&self, thread: u32) -> bool {
        self.state == TraceState::Running && self.only.is_none_or(|only| only == thread)
    }

    /// A block was given.
    pub fn allocated(&mut self, address: usize, size: usize, caller: &TraceCaller) {
        if address == 0 || !self.records(caller.thread) {
            return;
        }
        // Its free was not told: it came while this was stopped, or was missed.
        if let Some(place) = self.find(address) {
            self.end(place, &TraceCaller { thread: 0, frames: &[], ..*caller });
        }
        let place = self.take_place();
        let number = self.figures.allocations.wrapping_add(1);
        self.figures.allocations = number;
        self.write(place, address, size, number, caller);
        self.append(place);
        self.enter(place);
        self.grow(size);
        self.figures.records = self.figures.records.wrapping_add(1);
        self.figures.most_records = self.figures.most_records.max(self.figures.records);
        self.figures.live_blocks = self.figures.live_blocks.wrapping_add(1);
    }

    fn grow(&mut self, bytes: usize) {
        let figures = &mut self.figures;
        figures.allocated_bytes = figures.allocated_bytes.wrapping_add(bytes as u64);
        figures.live_bytes = figures.live_bytes.wrapping_add(bytes as u64);
        figures.peak_bytes = figures.peak_bytes.max(figures.live_bytes);
    }

    fn shrink(&mut self, bytes: usize) {
        let figures = &mut self.figures;
        figures.freed_bytes = figures.freed_bytes.wrapping_add(bytes as u64);
        figures.live_bytes = figures.live_bytes.wrapping_sub(bytes as u64);
    }

    /// Whether a block is a record that lives: who takes stacks of frees only for such blocks asks first.
    pub fn knows(&self, address: usize) -> bool {
        self.state != TraceState::Stopped && self.find(address).is_some()
    }

    /// A block is about to be freed. Returns whether it was a record.
    pub fn freed(&mut self, address: usize, caller: &TraceCaller) -> bool {
        if address == 0 || self.state == TraceState::Stopped {
            return false;
        }
        match self.find(address) {
            Some(place) => {
                self.end(place, caller);
                true
            }
            None => {
                self.note_unknown(caller.thread);
                false
            }
        }
    }

    fn note_unknown(&mut self, thread: u32) {
        if self.state != TraceState::Stopped && self.only.is_none_or(|only| only == thread) {
            self.figures.unknown_frees = self.figures.unknown_frees.wrapping_add(1);
        }
    }

    /// The block of a live record is no more.
    fn end(&mut self, place: usize, caller: &TraceCaller) {
        let size = self.word(place, at::SIZE);
        self.withdraw(place);
        self.figures.frees = self.figures.frees.wrapping_add(1);
        self.figures.live_blocks = self.figures.live_blocks.wrapping_sub(1);
        self.shrink(size);
        match self.shape.mode {
            TraceMode::Leaks => self.vacate(place),
            TraceMode::All => {
                self.write_free(place, caller);
                self.append_freed(place);
            }
        }
    }

    /// A block is about to be resized by a thread. From now on its address may be another block's. What comes of it is told by
    /// [`TraceBuffer::resized`].
    pub fn resizes(&mut self, address: usize, thread: u32) {
        if self.state == TraceState::Stopped {
            return;
        }
        if let Some(place) = self.find(address) {
            self.put(place, at::MOVER, thread as usize);
            self.set_status(place, Status::Moving);
        }
    }

    /// What came of it: a new block, with its size, or none, and the old one is as it was. The old block is freed and the new one allocated;
    /// where no new block becomes a record, because the trace is paused or the thread another one, the record of the old one follows.
    pub fn resized(&mut self, old: usize, new: Option<(usize, usize)>, caller: &TraceCaller) {
        let moving = self.find_moving(old, caller.thread);
        match (moving, new) {
            (Some(place), None) => self.set_status(place, Status::Live),
            (Some(place), Some(_)) if self.records(caller.thread) => {
                self.set_status(place, Status::Live);
                self.end(place, caller);
            }
            (Some(place), Some((address, size))) => return self.follow(place, address, size),
            (None, Some(_)) if old != 0 => self.note_unknown(caller.thread),
            (None, _) => {}
        }
        if let Some((address, size)) = new {
            self.allocated(address, size, caller);
        }
    }

    fn follow(&mut self, place: usize, address: usize, size: usize) {
        let other = self.find(address);
        let old_size = self.word(place, at::SIZE);
        self.withdraw(place);
        self.shrink(old_size);
        self.put(place, at::ADDRESS, address);
        self.put(place, at::SIZE, size);
        self.set_status(place, Status::Live);
        if let Some(other) = other {
            self.end(other, &TraceCaller { thread: 0, time: 0, frames: &[] });
        }
        self.enter(place);
        self.grow(size);
    }

    /// So many calls were not told.
    pub fn note_missed(&mut self, calls: u64) {
        self.figures.missed_calls = self.figures.missed_calls.wrapping_add(calls);
    }

    /// What it has seen since it was started.
    pub fn figures(&self) -> TraceFigures {
        self.figures
    }

    /// The record of this index, the oldest one being 0. One after the other costs the same for each.
    pub fn get(&mut self, index: usize) -> Option<TraceRecord> {
        let (mut at_index, mut place) = match self.cursor {
            (known, place) if place != 0 && known <= index => (known, place),
            _ => (0, self.oldest),
        };
        while at_index < index && place != 0 {
            place = self.word(place, at::NEWER);
            at_index = at_index.wrapping_add(1);
        }
        if place == 0 {
            return None;
        }
        self.cursor = (index, place);
        self.read(place)
    }

    /// The next record by age, or the oldest one: each is given once, whatever happens between two calls.
    pub fn after(&self, last: Option<&TraceRecord>) -> Option<TraceRecord> {
        let Some(last) = last else { return self.read(self.oldest) };
        let is_there = self.status(last.place) != Status::Vacant && self.number(last.place) == last.number;
        let mut place = if is_there { self.word(last.place, at::NEWER) } else { self.oldest };
        while place != 0 && self.number(place) <= last.number {
            place = self.word(place, at::NEWER);
        }
        self.read(place)
    }
}
