//! The guard's freed blocks: the ring in which they wait, and the stacks from which they are handed out again.

use crate::{check, race};
use heapledger_guard::queue::Queue;
use heapledger_guard::stack::{Links, Stack};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A ring of four, and what is written of each block before it is put in.
struct Ring {
    queue: Queue,
    cells: Vec<AtomicU64>,
    blocks: Vec<AtomicU32>,
}

fn ring() -> Arc<Ring> {
    let cells = (0..4).map(|_| AtomicU64::new(0)).collect();
    let blocks = (0..4).map(|_| AtomicU32::new(0)).collect();
    Arc::new(Ring { queue: Queue::new(), cells, blocks })
}

impl Ring {
    /// Writes of a block, and puts it in; or has it still, if the ring seems full to it: that may be older than what others see.
    fn push(&self, number: u32) -> Option<u32> {
        self.blocks[number as usize].store(number + 10, Ordering::Relaxed);
        if self.queue.push(&self.cells, number) { None } else { Some(number) }
    }

    fn pop(&self) -> Option<u32> {
        let number = self.queue.pop(&self.cells)?;
        assert_eq!(self.blocks[number as usize].load(Ordering::Relaxed), number + 10, "what was written of it");
        Some(number)
    }
}

/// What two threads have taken and what is left must be these.
fn expect_all(ring: &Ring, taken: impl IntoIterator<Item = Option<u32>>, numbers: &[u32]) {
    let mut all: Vec<u32> = taken.into_iter().flatten().collect();
    while let Some(number) = ring.pop() {
        all.push(number);
    }
    all.sort_unstable();
    assert_eq!(all, numbers, "a block is lost or doubled");
}

/// Fails if the exchange that puts a number in its cell is relaxed (a block comes without what was written of it).
#[test]
fn what_is_put_in_comes_out_once_with_what_was_written_before() {
    check(3, || {
        let ring = ring();
        let (one, other) = (Arc::clone(&ring), Arc::clone(&ring));
        let (left, taken) = race(move || [one.push(0), one.push(1)], move || [other.pop(), other.pop()]);
        assert_ne!(taken, [Some(1), Some(0)], "the first is the first");
        expect_all(&ring, left.into_iter().chain(taken), &[0, 1]);
    });
}

/// Fails if who takes does not exchange the cell but stores the next turn in it (both have it).
#[test]
fn of_two_who_take_each_has_another() {
    check(3, || {
        let ring = ring();
        // Two have gone before, so that the next one's cell is in its second turn.
        for number in [0, 1] {
            assert_eq!((ring.push(number), ring.pop()), (None, Some(number)));
        }
        assert_eq!([ring.push(0), ring.push(1)], [None; 2]);
        let (one, other) = (Arc::clone(&ring), Arc::clone(&ring));
        let (first, second) = race(
            move || [one.pop()],
            move || {
                let taken = other.pop();
                // In the next turn of its cell.
                let left = other.push(2);
                [taken, left, other.pop()]
            },
        );
        expect_all(&ring, first.into_iter().chain(second), &[0, 1, 2]);
    });
}

/// Fails if a number is stored in its cell instead of exchanged (both put theirs in the same one).
#[test]
fn of_two_who_put_in_both_are_in() {
    check(3, || {
        let ring = ring();
        let (one, other) = (Arc::clone(&ring), Arc::clone(&ring));
        let (taken, more) = race(
            move || {
                let left = one.push(0);
                [left, one.pop()]
            },
            move || {
                let left = other.push(1);
                [left, other.pop()]
            },
        );
        expect_all(&ring, taken.into_iter().chain(more), &[0, 1]);
    });
}

struct Table(Vec<AtomicU32>);

impl Links for Table {
    fn next(&self, number: u32) -> u32 {
        self.0[number as usize].load(Ordering::Relaxed)
    }

    fn set_next(&self, number: u32, next: u32) {
        self.0[number as usize].store(next, Ordering::Relaxed);
    }
}

/// Fails without the count of changes in the head (ABA), and if a push is relaxed (its link comes late).
#[test]
fn a_head_seen_twice_is_not_the_same_stack() {
    check(3, || {
        let table = Table((0..3).map(|_| AtomicU32::new(0)).collect());
        let stack = Stack::new();
        for number in 0..3 {
            stack.push(&table, number, number);
        }
        let shared = Arc::new((stack, table));
        let (one, other) = (Arc::clone(&shared), Arc::clone(&shared));
        let juggle = move || {
            let (first, second) = (other.0.pop(&other.1), other.0.pop(&other.1));
            // The upper one is back: the head is the same number as before.
            let first = first.expect("there are three");
            other.0.push(&other.1, first, first);
            second
        };
        let (taken, more) = race(move || one.0.pop(&one.1), juggle);
        let rest = std::iter::from_fn(|| shared.0.pop(&shared.1));
        let mut all: Vec<u32> = [taken, more].into_iter().flatten().chain(rest).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2], "a run is lost or doubled");
    });
}
