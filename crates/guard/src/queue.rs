//! Blocks that wait, first in first out, for any number of threads.
//!
//! Each cell of the ring says whose turn it is: it holds nothing in turn N, then a number in turn N, then nothing in turn N + 1.
//! All of these are single exchanges of one word. A thread that ends between any two of them (a fork leaves it out) holds up
//! nobody: whoever takes passes over a cell that was promised and is empty, and puts the ring's head where it belongs.

#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering};

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
fn cell(cells: &[AtomicU64], ticket: u64) -> Option<&AtomicU64> {
    cells.get(ticket as usize & cells.len().wrapping_sub(1))
}

impl Queue {
    /// An empty one.
    pub fn new() -> Self {
        Self { head: AtomicU64::new(0), tail: AtomicU64::new(0) }
    }

    /// How many there are, about: those that are being put in and taken out now may or may not count.
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

    /// Puts a number, less than 2^32 - 1, behind all others. `false` if half of the ring is full: the other half is for those who
    /// have a place and have not yet used it.
    pub fn push(&self, cells: &[AtomicU64], number: u32) -> bool {
        for _ in 0..TRIES {
            if self.len() >= (cells.len() as u64).wrapping_shr(1) {
                return false;
            }
            let ticket = self.tail.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = cell(cells, ticket) else { return false };
            let expected = empty(cells, ticket);
            let filled = expected | u64::from(number).wrapping_add(1);
            // Release: who takes the number sees what was written of its block before. It fails if the cell was passed over.
            if cell.compare_exchange(expected, filled, Ordering::Release, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
        false
    }

    /// A number that will probably be taken after so many others.
    pub fn peek(&self, cells: &[AtomicU64], ahead: u64) -> Option<u32> {
        let ticket = self.head.load(Ordering::Relaxed).wrapping_add(ahead);
        (cell(cells, ticket)?.load(Ordering::Relaxed) as u32).checked_sub(1)
    }

    /// Takes the number that has waited longest.
    pub fn pop(&self, cells: &[AtomicU64]) -> Option<u32> {
        for _ in 0..TRIES {
            let head = self.head.load(Ordering::Acquire);
            let cell = cell(cells, head)?;
            let found = cell.load(Ordering::Acquire);
            let expected = empty(cells, head);
            let mut taken = None;
            if found & !NUMBER == expected {
                if found == expected && self.tail.load(Ordering::Relaxed) <= head {
                    return None;
                }
                let next = empty(cells, head.wrapping_add(cells.len() as u64));
                if cell.compare_exchange(found, next, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                    continue;
                }
                taken = (found as u32).checked_sub(1);
            }
            // Whoever is first: this thread, or one that finds the cell in its next turn.
            let _ = self.head.compare_exchange(head, head.wrapping_add(1), Ordering::Release, Ordering::Relaxed);
            if taken.is_some() {
                return taken;
            }
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
            // Two have their places and never use them, one of them the next one.
            queue.tail.fetch_add(1, Ordering::Relaxed);
            assert!(queue.push(&cells, round));
            queue.tail.fetch_add(1, Ordering::Relaxed);
            assert_eq!(queue.pop(&cells), Some(round));
            assert_eq!(queue.pop(&cells), None);
            assert!(queue.is_empty(), "what was left out is passed over");
            // One has taken a number, and never moved the head.
            assert!(queue.push(&cells, 1) && queue.push(&cells, 2));
            let head = queue.head.load(Ordering::Relaxed);
            assert_eq!(queue.pop(&cells), Some(1));
            queue.head.store(head, Ordering::Relaxed);
            assert_eq!(queue.pop(&cells), Some(2));
            assert_eq!(queue.pop(&cells), None);
        }
    }

    #[test]
    fn who_comes_too_late_finds_another_place() {
        let (queue, cells) = (Queue::new(), cells());
        assert!(queue.push(&cells, 5));
        // Its cell is in the next turn before it is written to.
        cells[1].store(empty(&cells, 9), Ordering::Relaxed);
        assert!(queue.push(&cells, 6));
        assert_eq!([queue.pop(&cells), queue.pop(&cells), queue.pop(&cells)], [Some(5), Some(6), None]);
    }
}
