//! Both arenas under many threads: no two blocks overlap, no damage is told that nobody did, one free of a block wins.

mod land;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use heapledger_guard::{
    Closed, ClosedLimits, Cursor, Fill, Finding, Found, Full, Limits, NotFreed, Refused, Request, Side,
};
use land::{Land, PAGE, Random, silent, tables};

const FIRST: u64 = 0x5000_0000_0000;
const THREADS: usize = 4;

/// What both are asked for.
trait Arena: Sync {
    fn allocate(&self, land: &Land, size: u64, words: [u64; 2]) -> Result<u64, Refused>;
    fn free(&self, land: &Land, address: u64, found: &mut dyn FnMut(&Finding)) -> Result<(), NotFreed>;
    fn sweep(&self, land: &Land, cursor: &mut Cursor) -> bool;
    fn lookup(&self, address: u64) -> Option<Found>;
}

impl Arena for Full {
    fn allocate(&self, land: &Land, size: u64, words: [u64; 2]) -> Result<u64, Refused> {
        self.allocate(land, &Request { size, alignment: 16, fill: Fill::Byte(0xCE), words })
    }

    fn free(&self, land: &Land, address: u64, found: &mut dyn FnMut(&Finding)) -> Result<(), NotFreed> {
        self.free(land, address, [1, 2], &mut |finding| found(finding))
    }

    fn sweep(&self, land: &Land, cursor: &mut Cursor) -> bool {
        self.sweep(land, cursor, 50, 10_000, &mut silent)
    }

    fn lookup(&self, address: u64) -> Option<Found> {
        self.lookup(address)
    }
}

impl Arena for Closed {
    fn allocate(&self, land: &Land, size: u64, words: [u64; 2]) -> Result<u64, Refused> {
        let side = if size.is_multiple_of(2) { Side::EndsAtPage } else { Side::BeginsAtPage };
        self.allocate(land, &Request { size, alignment: 16, fill: Fill::Byte(0xCE), words }, side)
    }

    fn free(&self, land: &Land, address: u64, found: &mut dyn FnMut(&Finding)) -> Result<(), NotFreed> {
        self.free(land, address, [1, 2], &mut |finding| found(finding))
    }

    fn sweep(&self, land: &Land, cursor: &mut Cursor) -> bool {
        self.sweep(land, cursor, 50, 10_000, &mut silent)
    }

    fn lookup(&self, address: u64) -> Option<Found> {
        self.lookup(address)
    }
}

fn full(quarantine_blocks: u64) -> (Land, Full) {
    let land = Land::new(FIRST, 64 * Full::UNIT_BYTES, false);
    let limits = Limits { quarantine_bytes: u64::MAX, quarantine_blocks, fill_bytes_max: u64::MAX, freed_fill: 0xFE };
    let full = Full::new(FIRST, land.bytes(), tables(30_000, 64, 64), limits).expect("an arena");
    (land, full)
}

fn closed(freed_blocks: u64) -> (Land, Closed) {
    let pages = 1500;
    let land = Land::new(FIRST, pages * PAGE, false);
    let limits = ClosedLimits {
        live_blocks: u64::MAX,
        live_bytes: u64::MAX,
        freed_blocks,
        freed_bytes: u64::MAX,
        fill_bytes_max: u64::MAX,
    };
    let closed = Closed::new((FIRST, land.bytes()), PAGE, false, tables(2000, pages, 64), limits);
    (land, closed.expect("an arena"))
}

/// Threads that allocate, write, and free each other's blocks, beside one that sweeps and one that asks.
fn crowd(arena: &impl Arena, land: &Land, rounds: usize) {
    let (shared, done) = (Mutex::new(Vec::<(u64, u64, u8)>::new()), AtomicBool::new(false));
    let finish = |(start, size, byte): (u64, u64, u8)| {
        assert!(land.holds(start, size, byte), "somebody else wrote to it");
        let freed = arena.lookup(start).expect("a block");
        arena.free(land, start, &mut |finding| silent(finding)).expect("it is freed once");
        assert_eq!((freed.start, freed.size, freed.allocated[0]), (start, size, u64::from(byte)));
    };
    thread::scope(|scope| {
        let crowd: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (shared, finish) = (&shared, &finish);
                scope.spawn(move || {
                    let mut random = Random(thread as u64);
                    let mut own = Vec::new();
                    for round in 0..rounds {
                        let size = random.below(300);
                        let byte = (round * THREADS + thread) as u8;
                        let start = arena.allocate(land, size, [u64::from(byte), 0]).expect("room");
                        land.write_all(start, size, byte);
                        own.push((start, size, byte));
                        if own.len() > 5 {
                            let block = own.swap_remove(random.below(own.len() as u64) as usize);
                            // Another thread's, as often as not.
                            let other = {
                                let mut shared = shared.lock().expect("no panic");
                                shared.push(block);
                                let place = random.below(shared.len() as u64) as usize;
                                if shared.len() > 10 { Some(shared.swap_remove(place)) } else { None }
                            };
                            other.into_iter().for_each(finish);
                        }
                    }
                    own.into_iter().for_each(finish);
                })
            })
            .collect();
        let sweeper = scope.spawn(|| {
            let mut cursor = Cursor::default();
            while !done.load(Ordering::Relaxed) {
                arena.sweep(land, &mut cursor);
            }
        });
        let asker = scope.spawn(|| {
            let mut random = Random(99);
            while !done.load(Ordering::Relaxed) {
                let address = FIRST + random.below(land.bytes());
                if let Some(found) = arena.lookup(address) {
                    assert!(found.size < 300 && found.allocated[1] == 0 && found.allocated[0] < 256, "{found:?}");
                    assert!(found.offset.unsigned_abs() < 2 * PAGE.max(Full::UNIT_BYTES));
                }
            }
        });
        let ended: Vec<_> = crowd.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        sweeper.join().expect("silent");
        asker.join().expect("sound");
        ended.into_iter().for_each(|ended| ended.expect("no overlap"));
    });
    shared.into_inner().expect("no panic").into_iter().for_each(finish);
}

#[test]
fn full_blocks_of_many_threads_do_not_overlap() {
    for quarantine_blocks in [0, 3, 32] {
        let (land, full) = full(quarantine_blocks);
        crowd(&full, &land, 3000);
        assert!(full.counts().waiting_blocks <= quarantine_blocks);
        full.drain(&land, 1000, &mut silent);
        assert_eq!((full.counts().waiting_blocks, full.counts().waiting_bytes), (0, 0));
    }
}

#[test]
fn closed_blocks_of_many_threads_do_not_overlap() {
    for freed_blocks in [0, 3, 32] {
        let (land, closed) = closed(freed_blocks);
        crowd(&closed, &land, 1500);
        let counts = closed.counts();
        assert_eq!((counts.live_blocks, counts.live_bytes, counts.not_closed), (0, 0, 0));
        closed.drain(&land, 1000);
        assert_eq!((closed.counts().freed_blocks, closed.counts().freed_bytes), (0, 0));
        let used = FIRST + counts.range_bytes;
        assert!((FIRST..used).step_by(PAGE as usize).all(|page| land.is_closed(page)));
    }
}

/// All free all blocks of a round at once.
fn race(arena: &impl Arena, land: &Land, rounds: usize) {
    let barrier = Barrier::new(THREADS);
    let blocks: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let won = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..rounds {
                    let own = arena.allocate(land, round as u64 % 100, [0, 0]).expect("room");
                    blocks.lock().expect("no panic").push(own);
                    barrier.wait();
                    let all = blocks.lock().expect("no panic").clone();
                    for block in all {
                        match arena.free(land, block, &mut |finding| silent(finding)) {
                            Ok(_) => _ = won.fetch_add(1, Ordering::Relaxed),
                            Err(NotFreed::Again(found)) => assert_eq!(found.start, block),
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                    barrier.wait();
                    blocks.lock().expect("no panic").clear();
                    barrier.wait();
                }
            });
        }
    });
    assert_eq!(won.into_inner(), rounds * THREADS, "each block is freed once");
}

#[test]
fn of_frees_at_once_one_wins() {
    let (land, full) = full(20);
    race(&full, &land, 2000);
    let (land, closed) = closed(20);
    race(&closed, &land, 1000);
}
