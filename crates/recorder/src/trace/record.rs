//! What the words of a record hold.

use super::{TraceBuffer, TraceCaller};

/// Most frames that a record can have room for.
pub const FRAMES_MAX: usize = 32;

/// What becomes of the record of a block that is freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceMode {
    /// It goes.
    #[default]
    Leaks,
    /// It stays, with thread, time and stack of the free, as long as there is room.
    All,
}

/// What a record has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceShape {
    /// Whether frees are kept.
    pub mode: TraceMode,
    /// Frames of each stack: the innermost ones. At most [`FRAMES_MAX`].
    pub frames: usize,
}

/// Words of a 64-bit number.
const WIDE: usize = (u64::BITS / usize::BITS) as usize;

/// Words of a record.
pub(super) mod at {
    use super::WIDE;

    pub(crate) const ADDRESS: usize = 0;
    pub(crate) const SIZE: usize = 1;
    /// Status, and how many frames the stacks have: a byte each.
    pub(crate) const STATUS: usize = 2;
    pub(crate) const THREAD: usize = 3;
    /// Of a block that is being resized: who does that.
    pub(crate) const MOVER: usize = 4;
    /// The next one in its bucket; of a freed one, that was freed next; of a vacant one, the next vacant one.
    pub(crate) const NEXT: usize = 5;
    pub(crate) const OLDER: usize = 6;
    pub(crate) const NEWER: usize = 7;
    /// The first record of the bucket that lies here: no part of the record.
    pub(crate) const BUCKET: usize = 8;
    pub(crate) const NUMBER: usize = 9;
    pub(crate) const TIME: usize = NUMBER + WIDE;
    pub(crate) const FRAMES: usize = TIME + WIDE;
}

impl TraceShape {
    /// Words of a record.
    pub const fn record_words(self) -> usize {
        let begun = at::FRAMES.saturating_add(self.frames);
        match self.mode {
            TraceMode::Leaks => begun,
            TraceMode::All => begun.saturating_add(self.frames).saturating_add(WIDE).saturating_add(1),
        }
    }

    /// Words of a buffer for so many records.
    pub const fn words(self, records: usize) -> usize {
        self.record_words().saturating_mul(records)
    }

    /// Records that so many words have room for; `None` if a record cannot have so many frames.
    pub const fn records(self, words: usize) -> Option<usize> {
        if self.frames > FRAMES_MAX { None } else { words.checked_div(self.record_words()) }
    }

    const fn free_thread(self) -> usize {
        at::FRAMES.wrapping_add(self.frames)
    }

    const fn free_time(self) -> usize {
        self.free_thread().wrapping_add(1)
    }

    const fn free_frames(self) -> usize {
        self.free_time().wrapping_add(WIDE)
    }
}

/// What a place holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Status {
    Vacant = 0,
    Live = 1,
    /// Its block is being resized.
    Moving = 2,
    Freed = 3,
}

/// A stack of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frames {
    frames: [usize; FRAMES_MAX],
    count: usize,
}

impl Frames {
    fn get(&self) -> &[usize] {
        self.frames.get(..self.count).unwrap_or(&[])
    }
}

/// The end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceFree {
    /// Who freed it.
    pub thread: u32,
    /// When.
    pub time: u64,
    stack: Frames,
}

impl TraceFree {
    /// The stack of the free, innermost frame first. Empty if nobody told of the free, and the address came up again.
    pub fn stack(&self) -> &[usize] {
        self.stack.get()
    }
}

/// A block that was allocated while a trace ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceRecord {
    /// Where it is.
    pub address: usize,
    /// Its bytes, as they were asked for.
    pub size: usize,
    /// The how manieth of the trace it is, from 1.
    pub number: u64,
    /// Who allocated it.
    pub thread: u32,
    /// When.
    pub time: u64,
    /// Its end, if it is freed.
    pub freed: Option<TraceFree>,
    stack: Frames,
    pub(super) place: usize,
}

impl TraceRecord {
    /// The stack of the allocation, innermost frame first.
    pub fn stack(&self) -> &[usize] {
        self.stack.get()
    }
}

impl TraceBuffer<'_> {
    fn start_of(&self, place: usize) -> usize {
        place.wrapping_sub(1).wrapping_mul(self.shape.record_words())
    }

    /// A word of a record; 0 if there is no such place.
    #[inline(always)]
    pub(super) fn word(&self, place: usize, word: usize) -> usize {
        let index = self.start_of(place).wrapping_add(word);
        if place == 0 { 0 } else { self.words.get(index).copied().unwrap_or(0) }
    }

    #[inline(always)]
    pub(super) fn put(&mut self, place: usize, word: usize, value: usize) {
        let index = self.start_of(place).wrapping_add(word);
        if let Some(word) = self.words.get_mut(index).filter(|_| place != 0) {
            *word = value;
        }
    }

    fn wide(&self, place: usize, word: usize) -> u64 {
        (0..WIDE).fold(0, |value, index| {
            let part = self.word(place, word.wrapping_add(index)) as u64;
            value | part.wrapping_shl(usize::BITS.wrapping_mul(index as u32))
        })
    }

    fn put_wide(&mut self, place: usize, word: usize, value: u64) {
        for index in 0..WIDE {
            let part = value.wrapping_shr(usize::BITS.wrapping_mul(index as u32)) as usize;
            self.put(place, word.wrapping_add(index), part);
        }
    }

    pub(super) fn number(&self, place: usize) -> u64 {
        self.wide(place, at::NUMBER)
    }

    pub(super) fn status(&self, place: usize) -> Status {
        match self.word(place, at::STATUS) as u8 {
            1 => Status::Live,
            2 => Status::Moving,
            3 => Status::Freed,
            _ => Status::Vacant,
        }
    }

    pub(super) fn set_status(&mut self, place: usize, status: Status) {
        let lengths = self.word(place, at::STATUS) & !0xFF;
        self.put(place, at::STATUS, lengths | status as usize);
    }

    /// Returns how many frames it has stored.
    fn put_frames(&mut self, place: usize, word: usize, frames: &[usize]) -> usize {
        let count = frames.len().min(self.shape.frames);
        for (index, frame) in frames.iter().take(count).enumerate() {
            self.put(place, word.wrapping_add(index), *frame);
        }
        count
    }

    fn frames(&self, place: usize, word: usize, count: usize) -> Frames {
        let count = count.min(self.shape.frames);
        let frame = |index| if index < count { self.word(place, word.wrapping_add(index)) } else { 0 };
        Frames { frames: core::array::from_fn(frame), count }
    }

    /// Writes a record of a live block, but for its links.
    pub(super) fn write(&mut self, place: usize, address: usize, size: usize, number: u64, caller: &TraceCaller) {
        self.put(place, at::ADDRESS, address);
        self.put(place, at::SIZE, size);
        self.put(place, at::THREAD, caller.thread as usize);
        self.put_wide(place, at::NUMBER, number);
        self.put_wide(place, at::TIME, caller.time);
        let frames = self.put_frames(place, at::FRAMES, caller.frames);
        self.put(place, at::STATUS, frames << 8 | Status::Live as usize);
    }

    /// Writes the end of a block.
    pub(super) fn write_free(&mut self, place: usize, caller: &TraceCaller) {
        self.put(place, self.shape.free_thread(), caller.thread as usize);
        self.put_wide(place, self.shape.free_time(), caller.time);
        let frames = self.put_frames(place, self.shape.free_frames(), caller.frames);
        let begun = self.word(place, at::STATUS) & 0xFF00;
        self.put(place, at::STATUS, frames << 16 | begun | Status::Freed as usize);
    }

    pub(super) fn read(&self, place: usize) -> Option<TraceRecord> {
        let status = self.status(place);
        if status == Status::Vacant {
            return None;
        }
        let lengths = self.word(place, at::STATUS);
        let freed = (status == Status::Freed).then(|| TraceFree {
            thread: self.word(place, self.shape.free_thread()) as u32,
            time: self.wide(place, self.shape.free_time()),
            stack: self.frames(place, self.shape.free_frames(), lengths >> 16 & 0xFF),
        });
        Some(TraceRecord {
            address: self.word(place, at::ADDRESS),
            size: self.word(place, at::SIZE),
            number: self.number(place),
            thread: self.word(place, at::THREAD) as u32,
            time: self.wide(place, at::TIME),
            freed,
            stack: self.frames(place, at::FRAMES, lengths >> 8 & 0xFF),
            place,
        })
    }
}
