//! Where dressed blocks begin, also for many threads at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;

use heapledger_guard::{Dressed, Leaf, Marked, Pages};

/// A leaf of the tests stands for 4 KiB.
const WORDS: usize = 8;
const LEAF_BYTES: u64 = 4096;
type Map = Dressed<64, WORDS>;

/// Leaves from the heap, up to so many.
struct Heap {
    left: AtomicUsize,
    taken: AtomicUsize,
    back: AtomicUsize,
}

impl Heap {
    fn new(leaves: usize) -> Self {
        Self { left: AtomicUsize::new(leaves), taken: AtomicUsize::new(0), back: AtomicUsize::new(0) }
    }

    fn in_use(&self) -> usize {
        self.taken.load(Ordering::Relaxed) - self.back.load(Ordering::Relaxed)
    }
}

impl Pages<WORDS> for Heap {
    fn take(&self) -> Option<&'static Leaf<WORDS>> {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(Box::leak(Box::new([const { AtomicU32::new(0) }; WORDS])))
    }

    fn give_back(&self, leaf: &'static Leaf<WORDS>) {
        assert!(leaf.iter().all(|word| word.load(Ordering::Relaxed) == 0), "nobody else has it");
        self.back.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_mark_is_of_one_address() {
    let (map, heap) = (Map::new(), Heap::new(64));
    let addresses = [0x10, 0x1F0, 0x200, LEAF_BYTES - 16, LEAF_BYTES, 64 * LEAF_BYTES - 16];
    for address in addresses {
        assert!(!map.begins(address) && !map.unmark(address));
        assert_eq!(map.mark(address, &heap), Marked::Done);
        assert_eq!(map.mark(address, &heap), Marked::Already);
        assert!(map.begins(address));
        assert!(!map.begins(address + 1) && !map.begins(address + 8) && !map.unmark(address + 8));
    }
    let all: Vec<u64> = (0..64 * LEAF_BYTES).step_by(16).filter(|address| map.begins(*address)).collect();
    assert_eq!(all, addresses);
    for address in addresses {
        assert!(map.unmark(address) && !map.unmark(address) && !map.begins(address));
    }
    assert_eq!(heap.in_use(), 3, "a leaf for each part that was used");
}

#[test]
fn no_room_is_said() {
    let (map, heap) = (Map::new(), Heap::new(1));
    assert_eq!(map.mark(64, &heap), Marked::Done);
    assert_eq!(map.mark(LEAF_BYTES, &heap), Marked::NoRoom, "no more leaves");
    for address in [8, 65, 64 * LEAF_BYTES, u64::MAX - 15, u64::MAX] {
        assert_eq!(map.mark(address, &heap), Marked::NoRoom, "{address:x}");
        assert!(!map.begins(address) && !map.unmark(address), "{address:x}");
    }
    assert_eq!(map.mark(48, &heap), Marked::Done);
    assert_eq!(map.nearest_below(u64::MAX, u64::MAX), None, "no bit for such an address");
}

#[test]
fn the_nearest_beginning_is_that_of_a_plain_search() {
    let (map, heap) = (Map::new(), Heap::new(64));
    let mut random = 1_u64;
    for _ in 0..40 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Three of four parts stay empty.
        let address = ((random >> 33) % (64 * LEAF_BYTES)) & !0x300F;
        map.mark(address, &heap);
    }
    for address in (0..64 * LEAF_BYTES).step_by(136) {
        let plain = (0..=address / 16).rev().map(|granule| granule * 16).find(|at| map.begins(*at));
        assert_eq!(map.nearest_below(address, u64::MAX), plain, "{address:x}");
        for bytes in [0, 100, LEAF_BYTES, 20 * LEAF_BYTES] {
            let found = map.nearest_below(address, bytes);
            match plain {
                Some(at) if address - at <= bytes => assert_eq!(found, plain, "{address:x} {bytes}"),
                // Rounded up to the 512 bytes of a word.
                Some(at) if address - at > bytes + 511 => assert_eq!(found, None, "{address:x} {bytes}"),
                _ => assert!(found.is_none() || found == plain, "{address:x} {bytes}"),
            }
        }
    }
}

#[test]
fn of_frees_at_once_one_has_the_block() {
    const THREADS: usize = 4;
    const ROUNDS: u64 = 2_000;
    let (map, heap) = (Map::new(), Heap::new(64 * THREADS));
    let (barrier, won) = (Barrier::new(THREADS), AtomicUsize::new(0));
    // All of a round's blocks lie in one word: what one thread does to its neighbours must not be lost.
    thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let (map, heap, barrier, won) = (&map, &heap, &barrier, &won);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let base = round % 64 * LEAF_BYTES;
                    assert_eq!(map.mark(base + thread * 16, heap), Marked::Done);
                    barrier.wait();
                    for other in 0..THREADS as u64 {
                        let taken = map.unmark(base + (thread + other) % THREADS as u64 * 16);
                        won.fetch_add(usize::from(taken), Ordering::Relaxed);
                    }
                    barrier.wait();
                }
            });
        }
    });
    assert_eq!(won.into_inner(), THREADS * ROUNDS as usize, "each block is freed once");
    assert_eq!(heap.in_use(), 64, "of leaves that were taken at once, one is kept");
}

/// Leaves of which the first comes too late: while it is made, a signal handler marks a block in the same part.
struct Interrupted<'a> {
    map: &'a Map,
    heap: Heap,
}

impl Pages<WORDS> for Interrupted<'_> {
    fn take(&self) -> Option<&'static Leaf<WORDS>> {
        let leaf = self.heap.take();
        if self.heap.taken.load(Ordering::Relaxed) == 1 {
            assert_eq!(self.map.mark(32, self), Marked::Done);
        }
        leaf
    }

    fn give_back(&self, leaf: &'static Leaf<WORDS>) {
        self.heap.give_back(leaf);
    }
}

#[test]
fn a_leaf_that_comes_too_late_is_given_back_and_no_mark_is_lost() {
    let map = Map::new();
    let pages = Interrupted { map: &map, heap: Heap::new(2) };
    assert_eq!(map.mark(16, &pages), Marked::Done);
    assert!(map.begins(16) && map.begins(32));
    assert_eq!(pages.heap.taken.load(Ordering::Relaxed), 2);
    assert_eq!(pages.heap.in_use(), 1);
}

#[test]
fn who_undresses_a_block_is_alone() {
    const ROUNDS: usize = 1_500_000;
    let (map, heap) = (Map::new(), Heap::new(64));
    assert_eq!(map.mark(64, &heap), Marked::Done);
    let (holders, held) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let again = || {
        while held.load(Ordering::Relaxed) < ROUNDS {
            if map.unmark(64) {
                assert_eq!(holders.fetch_add(1, Ordering::Relaxed), 0, "two have undressed it");
                held.fetch_add(1, Ordering::Relaxed);
                holders.fetch_sub(1, Ordering::Relaxed);
                assert_eq!(map.mark(64, &heap), Marked::Done);
            } else {
                thread::yield_now();
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(again);
        scope.spawn(again);
        scope.spawn(again);
    });
}

#[test]
fn all_beginnings_are_told_in_their_order() {
    let (map, heap) = (Map::new(), Heap::new(64));
    let addresses =
        [0x10, 0x1F0, 0x200, 5 * LEAF_BYTES, 5 * LEAF_BYTES + 16, 40 * LEAF_BYTES - 16, 64 * LEAF_BYTES - 16];
    for address in addresses {
        assert_eq!(map.mark(address, &heap), Marked::Done);
    }
    let all = |from: u64| {
        let next = |address: &u64| map.first_from(address + 1);
        std::iter::successors(map.first_from(from), next).collect::<Vec<u64>>()
    };
    assert_eq!(all(0), addresses);
    for from in [1, 0x10, 0x11, 0x1F0, 0x1F1, LEAF_BYTES, 5 * LEAF_BYTES + 1, 63 * LEAF_BYTES] {
        let rest: Vec<u64> = addresses.into_iter().filter(|address| *address >= from).collect();
        assert_eq!(all(from), rest, "{from:x}");
    }
    for from in [64 * LEAF_BYTES - 15, 64 * LEAF_BYTES, u64::MAX - 20, u64::MAX] {
        assert_eq!(map.first_from(from), None, "{from:x}");
    }
}
