//! Where records hang: on each other by age, in buckets by address, freed ones by when that was, vacant places.
//!
//! The list by age can be followed towards newer records at every instant, even in the middle of a change: from it, all else can be made
//! again ([`TraceBuffer::rebuild`]).

use super::record::{Status, at};
use super::{TraceBuffer, TraceMode};
use core::sync::atomic::{Ordering, compiler_fence};

impl TraceBuffer<'_> {
    /// The place that holds the bucket of an address.
    pub(super) fn bucket(&self, address: usize) -> usize {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        // Blocks lie at multiples of eight at least.
        let hash = ((address as u64) >> 3).wrapping_mul(GOLDEN) >> 32;
        (hash.wrapping_mul(self.capacity as u64) >> 32).wrapping_add(1) as usize
    }

    fn find_where(&self, address: usize, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let mut place = self.word(self.bucket(address), at::BUCKET);
        while place != 0 {
            if self.word(place, at::ADDRESS) == address && is_it(place) {
                return Some(place);
            }
            place = self.word(place, at::NEXT);
        }
        None
    }

    /// The live record of an address.
    pub(super) fn find(&self, address: usize) -> Option<usize> {
        self.find_where(address, |place| self.status(place) == Status::Live)
    }

    /// The record of a block that this thread is resizing.
    pub(super) fn find_moving(&self, address: usize, thread: u32) -> Option<usize> {
        let is_it = |place| self.status(place) == Status::Moving && self.word(place, at::MOVER) == thread as usize;
        self.find_where(address, is_it)
    }

    /// Makes a record be found by its address.
    pub(super) fn enter(&mut self, place: usize) {
        let bucket = self.bucket(self.word(place, at::ADDRESS));
        let next = self.word(bucket, at::BUCKET);
        self.put(place, at::NEXT, next);
        self.put(bucket, at::BUCKET, place);
    }

    /// It is found no longer.
    pub(super) fn withdraw(&mut self, place: usize) {
        let bucket = self.bucket(self.word(place, at::ADDRESS));
        let next = self.word(place, at::NEXT);
        let mut before = self.word(bucket, at::BUCKET);
        if before == place {
            return self.put(bucket, at::BUCKET, next);
        }
        while before != 0 {
            let after = self.word(before, at::NEXT);
            if after == place {
                return self.put(before, at::NEXT, next);
            }
            before = after;
        }
    }

    /// The newest of all.
    pub(super) fn append(&mut self, place: usize) {
        self.put(place, at::NEWER, 0);
        self.put(place, at::OLDER, self.newest);
        // Who comes to it finds it complete.
        compiler_fence(Ordering::Release);
        match self.newest {
            0 => self.oldest = place,
            newest => self.put(newest, at::NEWER, place),
        }
        self.newest = place;
    }

    fn unlink(&mut self, place: usize) {
        let (older, newer) = (self.word(place, at::OLDER), self.word(place, at::NEWER));
        match older {
            0 => self.oldest = newer,
            older => self.put(older, at::NEWER, newer),
        }
        match newer {
            0 => self.newest = older,
            newer => self.put(newer, at::OLDER, older),
        }
        self.cursor = (0, 0);
        // It is vacant only when nobody comes to it.
        compiler_fence(Ordering::Release);
    }

    /// A record goes, which is found no longer.
    pub(super) fn vacate(&mut self, place: usize) {
        self.unlink(place);
        self.put(place, at::STATUS, Status::Vacant as usize);
        self.put(place, at::NEXT, self.vacant);
        self.vacant = place;
        self.figures.records = self.figures.records.wrapping_sub(1);
    }

    /// The one that was freed last.
    pub(super) fn append_freed(&mut self, place: usize) {
        self.put(place, at::NEXT, 0);
        match self.freed_last {
            0 => self.freed_first = place,
            last => self.put(last, at::NEXT, place),
        }
        self.freed_last = place;
    }

    /// A vacant place. If there is none, a record goes.
    pub(super) fn take_place(&mut self) -> usize {
        if self.vacant == 0 && self.used >= self.capacity {
            self.lose_one();
        }
        match self.vacant {
            0 => {
                self.used = self.used.wrapping_add(1);
                self.used
            }
            vacant => {
                self.vacant = self.word(vacant, at::NEXT);
                vacant
            }
        }
    }

    fn lose_one(&mut self) {
        match self.freed_first {
            0 => {
                let (oldest, size) = (self.oldest, self.word(self.oldest, at::SIZE) as u64);
                self.withdraw(oldest);
                self.vacate(oldest);
                let figures = &mut self.figures;
                figures.lost_live = figures.lost_live.wrapping_add(1);
                figures.lost_live_bytes = figures.lost_live_bytes.wrapping_add(size);
                figures.live_blocks = figures.live_blocks.wrapping_sub(1);
                figures.live_bytes = figures.live_bytes.wrapping_sub(size);
            }
            first => {
                self.freed_first = self.word(first, at::NEXT);
                if self.freed_first == 0 {
                    self.freed_last = 0;
                }
                self.vacate(first);
                self.figures.lost_freed = self.figures.lost_freed.wrapping_add(1);
            }
        }
    }

    /// Makes everything again from the list by age: after a fork that another thread's change was in the middle of. That one call
    /// is noted or not; all else is as it was.
    pub fn rebuild(&mut self) {
        for place in 1..=self.capacity {
            self.put(place, at::BUCKET, 0);
            self.put(place, at::MOVER, 0);
        }
        (self.freed_first, self.freed_last, self.cursor) = (0, 0, (0, 0));
        let (mut records, mut live, mut live_bytes) = (0u64, 0u64, 0u64);
        let (mut older, mut place) = (0, self.oldest);
        // What is in the list is marked by its own number; there are no more than places.
        while place != 0 && records < self.capacity as u64 {
            records = records.wrapping_add(1);
            self.put(place, at::OLDER, older);
            self.put(place, at::MOVER, place);
            if self.status(place) == Status::Freed && self.shape.mode == TraceMode::All {
                self.append_freed(place);
            } else {
                // Who was resizing it is not here.
                self.set_status(place, Status::Live);
                self.enter(place);
                live = live.wrapping_add(1);
                live_bytes = live_bytes.wrapping_add(self.word(place, at::SIZE) as u64);
            }
            older = place;
            place = self.word(place, at::NEWER);
        }
        self.newest = older;
        self.gather_vacant();
        let figures = &mut self.figures;
        (figures.records, figures.live_blocks, figures.live_bytes) = (records, live, live_bytes);
        figures.frees = figures.allocations.saturating_sub(figures.lost_live).saturating_sub(live);
        let lost = figures.lost_live_bytes.wrapping_add(live_bytes);
        figures.freed_bytes = figures.allocated_bytes.saturating_sub(lost);
    }

    /// All that are not marked.
    fn gather_vacant(&mut self) {
        (self.used, self.vacant) = (self.capacity, 0);
        for place in (1..=self.capacity).rev() {
            if self.word(place, at::MOVER) != place {
                self.put(place, at::STATUS, Status::Vacant as usize);
                self.put(place, at::NEXT, self.vacant);
                self.vacant = place;
            }
        }
    }
}
