//! The pool of batches of vacant slots.

use crate::{check, race};
use heapledger_process::slots::{Pool, Vacant};
use heapledger_recorder::backend::Slot;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};

struct Table(Vec<[AtomicU64; 2]>);

impl Vacant for Table {
    fn next(&self, slot: Slot) -> u64 {
        self.0[slot.0 as usize][0].load(Ordering::Relaxed)
    }
    fn set_next(&self, slot: Slot, link: u64) {
        self.0[slot.0 as usize][0].store(link, Ordering::Relaxed);
    }
    fn next_batch(&self, slot: Slot) -> u64 {
        self.0[slot.0 as usize][1].load(Ordering::Relaxed)
    }
    fn set_next_batch(&self, slot: Slot, link: u64) {
        self.0[slot.0 as usize][1].store(link, Ordering::Relaxed);
    }
}

type Shared = Arc<(Pool, Table)>;

fn pool(batches: &[&[u32]]) -> Shared {
    let slots = batches.iter().map(|batch| batch.len()).sum();
    let table = Table((0..slots).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect());
    let pool = Pool::new();
    for batch in batches {
        pool.push(&table, &batch.iter().copied().map(Slot).collect::<Vec<_>>());
    }
    Arc::new((pool, table))
}

fn pop(shared: &Shared) -> Vec<Slot> {
    let mut slots = [Slot(0); 4];
    let count = shared.0.pop(&shared.1, &mut slots);
    slots[..count].to_vec()
}

fn expect_all(shared: &Shared, mut held: Vec<Slot>, slots: u32) {
    loop {
        let batch = pop(shared);
        if batch.is_empty() {
            break;
        }
        held.extend(batch);
    }
    held.sort_unstable();
    assert_eq!(held, (0..slots).map(Slot).collect::<Vec<_>>(), "a slot is lost or doubled");
}

/// Fails without the tag in the pool's head (ABA), and if a head is stored instead of exchanged.
#[test]
fn a_head_seen_twice_is_not_taken_for_the_same_stack() {
    check(3, || {
        let shared = pool(&[&[0], &[1], &[2]]);
        let (one, other) = (Arc::clone(&shared), Arc::clone(&shared));
        let juggle = move || {
            // Takes two batches and puts the upper one back: the head is the same slot as before.
            let (first, second) = (pop(&other), pop(&other));
            other.0.push(&other.1, &first);
            second
        };
        let (mut held, others) = race(move || pop(&one), juggle);
        held.extend(others);
        expect_all(&shared, held, 3);
    });
}

/// Fails if the links of a batch are not published by the exchange of the head (relaxed success ordering).
#[test]
fn a_batch_arrives_whole() {
    check(3, || {
        let shared = pool(&[&[0], &[1, 2]]);
        let reverse = || {
            let other = Arc::clone(&shared);
            move || {
                let batch = pop(&other);
                if batch.len() < 2 {
                    return batch;
                }
                // In another order, so that links change.
                other.0.push(&other.1, &[batch[1], batch[0]]);
                pop(&other)
            }
        };
        let (mut held, others) = race(reverse(), reverse());
        held.extend(others);
        expect_all(&shared, held, 3);
    });
}
