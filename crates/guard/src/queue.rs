//! Blocks that wait, first in first out, for any number of threads.
//!
//! Places in the ring have numbers that only grow; turn N of a cell is its place when the ring was gone round N times. A cell says
//! how far it has come: it holds nothing in turn N, then a number in turn N, then nothing in turn N + 1. Each step is one exchange of
//! that one word, so a thread that ends between any two (a fork leaves it out) holds up nobody.
//!
//! Places are filled in order, and taken in order: where the next one is the cells say. The two ends are kept beside them only so that
//! nobody has to look for it: they are stored without an exchange, and may lag behind, never be ahead.

#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering, exchange};

/// Tries until it is left: each of them failed because another thread got on.
const TRIES: u32 = 1000;
/// The number's part of a cell, in which 0 is none; above it stands the turn.
const NUMBER: u64 = 0xFFFF_FFFF;

/// The ends of a ring. Its cells are the caller's, a power of two of them, and all zeros at first.
#[derive(Debug)]
pub struct Queue {
    head: AtomicU64,
    tail: AtomicU64,
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}

/// What the cell of this ticket holds as long as it is empty in its turn.
fn empty(cells: &[AtomicU64], ticket: u64) -> u64 {
    // The turn, of which 32 bits do: a thread would have to sleep while a ring was gone round four billion times.
    ticket.wrapping_shr(cells.len().trailing_zeros()).wrapping_shl(32)
}

/// The cell of this ticket.
#[inline(always)]
fn cell(cells: &[AtomicU64], ticket: u64) -> Option<&AtomicU64> {
    cells.get(ticket as usize & cells.len().wrapping_sub(1))
}

/// How many turns a cell has come beyond that of a place: negative, if it is still in one before.
#[inline(always)]
fn turns_beyond(found: u64, empty: u64) -> i32 {
    (found.wrapping_shr(32) as u32).wrapping_sub(empty.wrapping_shr(32) as u32) as i32
}

/// Whether the place of this ticket was filled, now or long ago.
fn was_filled(cells: &[AtomicU64], ticket: u64) -> bool {
    cell(cells, ticket).is_some_and(|cell| {
        let found = cell.load(Ordering::Relaxed);
        let beyond = turns_beyond(found, empty(cells, ticket));
        beyond > 0 || beyond == 0 && found & NUMBER != 0
    })
}

/// Whether it was filled, and taken.
fn was_taken(cells: &[AtomicU64], ticket: u64) -> bool {
    cell(cells, ticket).is_some_and(|cell| turns_beyond(cell.load(Ordering::Relaxed), empty(cells, ticket)) > 0)
}

/// The first place from this one on of which that is not true; it is true of all before it. An end may lag behind by as much as others did
/// while a thread slept, so it is looked for in longer and longer steps, and then in the last of them.
#[cold]
#[inline(never)]
fn first_not(cells: &[AtomicU64], from: u64, is_past: fn(&[AtomicU64], u64) -> bool) -> u64 {
    let (mut from, mut step) = (from, 1u64);
    let last_of = |from: u64, step: u64| from.wrapping_add(step).wrapping_sub(1);
    while step < cells.len() as u64 && is_past(cells, last_of(from, step)) {
        from = from.wrapping_add(step);
        step = step.wrapping_shl(1);
    }
    while step > 1 {
        step = step.wrapping_shr(1);
        if is_past(cells, last_of(from, step)) {
            from = from.wrapping_add(step);
        }
    }
    from
}

/// Moves an end to a place, if it is not further already.
#[inline(always)]
fn advance(end: &AtomicU64, to: u64) {
    if end.load(Ordering::Relaxed) < to {
        end.store(to, Ordering::Relaxed);
    }
}

impl Queue {
    /// An empty one.
    pub fn new() -> Self {
        Self { head: AtomicU64::new(0), tail: AtomicU64::new(0) }
    }

    /// How many there are, about: those that are being put in and taken out now may or may not count.
    #[inline(always)]
    pub fn len(&self) -> u64 {
        let head = self.head.load(Ordering::Relaxed);
        self.tail.load(Ordering::Relaxed).saturating_sub(head)
    }

    /// How many of so many cells were ever used.
    pub fn cells_used(&self, cells: &[AtomicU64]) -> u64 {
        self.tail.load(Ordering::Relaxed).min(cells.len() as u64)
    }

    /// Whether there is none, about.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a number, less than 2^32 - 1, behind all others. `false` if half of the ring is full: the other half is for what the ends do not
    /// yet tell.
    #[inline(always)]
    pub fn push(&self, cells: &[AtomicU64], number: u32) -> bool {
        if self.len() >= (cells.len() as u64).wrapping_shr(1) {
            return false;
        }
        let mut ticket = self.tail.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            let Some(cell) = cell(cells, ticket) else { return false };
            let (found, expected) = (cell.load(Ordering::Relaxed), empty(cells, ticket));
            if found == expected {
                let filled = expected | u64::from(number).wrapping_add(1);
                // Release: who takes the number sees what was written of its block before. It fails if another thread was faster.
                if exchange(cell, expected, filled, Ordering::Release, Ordering::Relaxed).is_ok() {
                    advance(&self.tail, ticket.wrapping_add(1));
                    return true;
                }
            } else if turns_beyond(found, expected) < 0 {
                // What was put there one turn before still waits.
                advance(&self.tail, ticket);
                return false;
            }
            ticket = first_not(cells, ticket, was_filled);
        }
        false
    }

    /// The numbers that will probably be taken after so many others.
    #[inline(always)]
    pub fn peek<const COUNT: usize>(&self, cells: &[AtomicU64], ahead: [u64; COUNT]) -> [Option<u32>; COUNT] {
        let head = self.head.load(Ordering::Relaxed);
        let number =
            |ahead| cell(cells, head.wrapping_add(ahead)).map_or(0, |cell| cell.load(Ordering::Relaxed) as u32);
        ahead.map(|ahead| number(ahead).checked_sub(1))
    }

    /// Takes the number that has waited longest.
    #[inline(always)]
    pub fn pop(&self, cells: &[AtomicU64]) -> Option<u32> {
        let mut ticket = self.head.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            let cell = cell(cells, ticket)?;
            let found = cell.load(Ordering::Acquire);
            let empty = empty(cells, ticket);
            if turns_beyond(found, empty) <= 0 {
                let Some(number) = (found as u32).checked_sub(1) else {
                    // Nothing is there yet, nor behind it.
                    advance(&self.head, ticket);
                    return None;
                };
                // Nothing, one turn later.
                let next = empty.wrapping_add(NUMBER).wrapping_add(1);
                if exchange(cell, found, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    advance(&self.head, ticket.wrapping_add(1));
                    return Some(number);
                }
            }
            ticket = first_not(cells, ticket, was_taken);
        }
        None
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn cells() -> [AtomicU64; 8] {
        [const { AtomicU64::new(0) }; 8]
    }

    #[test]
    fn first_in_is_first_out_and_half_of_it_is_used() {
        let (queue, cells) = (Queue::new(), cells());
        for round in 0..100 {
            assert_eq!(queue.pop(&cells), None);
            for number in 0..4 {
                assert!(queue.push(&cells, round * 10 + number));
            }
            assert!(!queue.push(&cells, 9));
            assert_eq!(queue.len(), 4);
            for number in 0..4 {
                assert_eq!(queue.pop(&cells), Some(round * 10 + number));
            }
            assert!(queue.is_empty());
        }
        assert!(queue.push(&cells, u32::MAX - 1));
        assert_eq!(queue.pop(&cells), Some(u32::MAX - 1));
        assert!(!Queue::new().push(&[], 0));
        assert_eq!(Queue::new().pop(&[]), None);
    }

    #[test]
    fn who_ends_in_the_middle_holds_up_nobody() {
        let (queue, cells) = (Queue::new(), cells());
        for round in 0..100 {
            // One has put a number in, and never moved the tail.
            let tail = queue.tail.load(Ordering::Relaxed);
            assert!(queue.push(&cells, round));
            queue.tail.store(tail, Ordering::Relaxed);
            assert!(queue.push(&cells, round + 1));
            // One has taken a number, and never moved the head.
            let head = queue.head.load(Ordering::Relaxed);
            assert_eq!(queue.pop(&cells), Some(round));
            queue.head.store(head, Ordering::Relaxed);
            assert_eq!(queue.pop(&cells), Some(round + 1));
            assert_eq!(queue.pop(&cells), None);
            assert!(queue.is_empty());
        }
    }

    #[test]
    fn who_sleeps_for_long_sets_an_end_back_and_nothing_is_lost() {
        let (queue, cells) = (Queue::new(), cells());
        for number in 0..1000u32 {
            assert!(queue.push(&cells, number) && queue.push(&cells, number + 1));
            assert_eq!((queue.pop(&cells), queue.pop(&cells)), (Some(number), Some(number + 1)));
            // By less than a turn, by one, and by many.
            let back = [0, 1, 3, 7, 8, 9, 100][number as usize % 7];
            let end = if number % 2 == 0 { &queue.tail } else { &queue.head };
            end.store(end.load(Ordering::Relaxed).saturating_sub(back), Ordering::Relaxed);
            // It is found again, if not in one call: the ring is as good as full until then.
            let put = (0..100).position(|_| queue.push(&cells, 7) || queue.pop(&cells).is_some());
            assert!(put.is_some(), "{number}");
            while queue.pop(&cells).is_some() {}
        }
    }
}
