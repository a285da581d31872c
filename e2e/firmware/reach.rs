//! Firmware whose blocks are guarded (`--cfg guard="light"`, `"full"`): one byte after another around a block is changed, of a live one and of a freed one,
//! and it says which of them a check sees, which are seen when the block is given back, and which when its memory is handed out again. The test
//! `firmware_guard` of `e2e` knows which these are to be.
#![no_std]
#![no_main]

mod inner;
mod start;

use core::alloc::{GlobalAlloc, Layout};
use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use heapledger::chip::{Board, Config, ErrorKind, FoundAt, GuardedAllocator, HeapDamage};
use inner::{Inner, MEMORY, MEMORY_BYTES};
use start::{fail, say};

struct Chip;

/// What was told, by when it was found.
static TOLD: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
/// Errors of another kind than damage.
static WRONG: AtomicU32 = AtomicU32::new(0);
/// Letters of lines, and their sum.
static SAID: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

fn count(counter: &AtomicU32) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

// SAFETY: there is one core, and no interrupt comes.
unsafe impl Board for Chip {
    const CONFIG: Config<'static> =
        Config { errors: 16, guarded_heaps: 1, history: 32, depth: 3, ..Config::minimal(50, 200) };

    #[cfg(guard = "light")]
    heapledger::guarded_heaps!(light, (MEMORY.first(), MEMORY_BYTES));
    #[cfg(guard = "full")]
    heapledger::guarded_heaps!(full, (MEMORY.first(), MEMORY_BYTES));

    fn alone<T>(work: impl FnOnce() -> T) -> T {
        inner::without_interrupts(work)
    }

    fn damaged(found: &HeapDamage) {
        match found.kind {
            ErrorKind::BufferOverflow | ErrorKind::BufferUnderflow | ErrorKind::UseAfterFree => {
                let [at_free, at_allocation, in_check] = &TOLD;
                count(match found.found_at {
                    FoundAt::Free => at_free,
                    FoundAt::Allocation => at_allocation,
                    _ => in_check,
                });
            }
            _ => count(&WRONG),
        }
        found.say(|letter| {
            let [letters, sum] = &SAID;
            count(letters);
            sum.store(sum.load(Relaxed).wrapping_mul(31).wrapping_add(letter.into()), Relaxed);
        });
    }
}

heapledger::chip_ledger!(Chip);

static HEAP: GuardedAllocator<Inner, Chip> = GuardedAllocator::new(Inner::new());

/// How often something was told since this was last asked.
fn told(which: usize) -> u32 {
    TOLD.get(which).map_or(0, |counter| counter.swap_to_0())
}

trait Taken {
    fn swap_to_0(&self) -> u32;
}

impl Taken for AtomicU32 {
    fn swap_to_0(&self) -> u32 {
        let was = self.load(Relaxed);
        self.store(0, Relaxed);
        was
    }
}

fn layout(bytes: usize, alignment: usize) -> Layout {
    Layout::from_size_align(bytes, alignment).unwrap_or(Layout::new::<u64>())
}

/// Changes a byte at a distance from a block.
fn flip(block: *mut u8, distance: isize) {
    let place = block.wrapping_offset(distance);
    // SAFETY: memory of the allocator inside.
    unsafe { place.write_volatile(place.read_volatile() ^ 0x41) };
}

/// Says from where to where bytes are seen, of those that are looked at.
fn say_where(what: &str, (from, to): (isize, isize), mut is_seen: impl FnMut(isize) -> bool) {
    let mut was = false;
    for distance in from..=to {
        let is = distance < to && is_seen(distance);
        if is != was {
            // With what tells both apart.
            say(what, (distance + 1000) as u32);
            was = is;
        }
    }
}

/// A block of the allocator inside, which nobody guards: bytes in front of the next block are nobody's.
fn space() {
    // SAFETY: the layout has bytes.
    black_box(unsafe { HEAP.inner().alloc(layout(64, 64)) });
}

#[inline(never)]
fn give(bytes: usize, alignment: usize) -> *mut u8 {
    // SAFETY: it is given back with the same layout, if at all.
    black_box(unsafe { HEAP.alloc(layout(bytes, alignment)) })
}

#[inline(never)]
fn take_back(block: *mut u8, bytes: usize, alignment: usize) {
    // SAFETY: as above.
    unsafe { HEAP.dealloc(block, layout(bytes, alignment)) };
    black_box(block);
}

fn reach(bytes: usize, alignment: usize) {
    let check = || HEAP.books().check_integrity() != 0;
    say("size", bytes as u32);
    let window = (-16, bytes as isize + 24);
    space();
    let block = give(bytes, alignment);
    if block.addr() % alignment.max(8) != 0 {
        fail(1);
    }
    say_where("live", window, |distance| {
        flip(block, distance);
        let is_seen = check();
        flip(block, distance);
        is_seen
    });
    if check() {
        fail(2);
    }
    told(2);
    take_back(block, bytes, alignment);
    // What is changed is seen when the block is given back: each time it is the same one, for the allocator inside gives the last one first.
    say_where("at_free", window, |distance| {
        let again = give(bytes, alignment);
        if again != block {
            fail(3);
        }
        told(1);
        flip(block, distance);
        take_back(block, bytes, alignment);
        // Its neighbour's.
        if !(-8..bytes as isize + 12).contains(&distance) {
            flip(block, distance);
        }
        told(0) != 0
    });
    say_where("freed", window, |distance| {
        flip(block, distance);
        let is_seen = check();
        flip(block, distance);
        is_seen
    });
    told(2);
    // The allocator's own word leads it astray: that is not what is looked at here.
    let (own, lead) = (0isize.wrapping_sub(alignment.max(8) as isize), 4);
    say_where("handed_out", window, |distance| {
        if (own..own + lead).contains(&distance) {
            return false;
        }
        flip(block, distance);
        let again = give(bytes, alignment);
        let is_seen = told(1) != 0;
        flip(block, distance);
        if again != block {
            fail(4);
        }
        // (What was changed in the block itself is nobody's business.)
        take_back(block, bytes, alignment);
        told(0);
        is_seen
    });
}

/// Bytes of a block.
fn are(block: *mut u8, bytes: core::ops::Range<usize>, byte: u8) -> bool {
    // SAFETY: so many are there.
    bytes.into_iter().all(|nth| unsafe { block.wrapping_add(nth).read_volatile() } == byte)
}

/// Calls that are wrong by themselves, and what new and freed memory is filled with.
fn calls() {
    let wrong = || WRONG.swap_to_0();
    space();
    let block = give(40, 8);
    say("new_is_filled", are(block, 0..40, 0xCE).into());
    // SAFETY: the layout has bytes.
    let zeroed = unsafe { HEAP.alloc_zeroed(layout(40, 8)) };
    say("zeroed", are(zeroed, 0..40, 0).into());
    // SAFETY: it was given so.
    let larger = unsafe { HEAP.realloc(zeroed, layout(40, 8), 90) };
    say("kept", are(larger, 0..40, 0).into());
    say("grown_is_filled", are(larger, 40..90, 0xCE).into());
    take_back(larger, 90, 8);
    say("wrong_before", wrong());
    // In the middle of a block.
    take_back(block.wrapping_add(16), 24, 8);
    say("interior", wrong());
    // With another size.
    take_back(block, 32, 8);
    say("other_layout", wrong());
    say("freed_is_filled", are(block, 0..40, 0xFE).into());
    take_back(block, 40, 8);
    say("double_free", wrong());
    // It is not given twice.
    let (first, second) = (give(40, 8), give(40, 8));
    say("once", (first != second).into());
    // Of no bytes.
    let empty = give(0, 1);
    take_back(empty, 0, 1);
    // An alignment that is too large is not guarded.
    let aligned = give(8, 64);
    say("aligned", (aligned.addr() % 64 == 0).into());
    take_back(aligned, 8, 64);
    let [letters, sum] = &SAID;
    (letters.store(0, Relaxed), sum.store(0, Relaxed));
    flip(second, 40);
    say("one_block", HEAP.books().check_block(second.addr()).map_or(9, u32::from));
    say("another_block", HEAP.books().check_block(first.addr()).map_or(9, u32::from));
    say("no_block", HEAP.books().check_block(first.addr() + 8).map_or(9, u32::from));
    say("letters", letters.load(Relaxed));
    // A check in steps: no step is longer than one block or some hundred bytes.
    let (mut sweep, mut steps, mut damaged) = (heapledger::chip::Sweep::new(), 0, 0);
    while let heapledger::chip::Swept::More(is_damaged) = HEAP.books().check_step(&mut sweep) {
        steps += 1;
        damaged += u32::from(is_damaged);
    }
    say("damaged", damaged);
    say("many_steps", (steps > 8).into());
    flip(second, 40);
    // A header that nobody can read any more: the block is not given back, and nothing else happens.
    flip(first, -8);
    flip(first, -7);
    take_back(first, 40, 8);
    take_back(first, 40, 8);
    say("lost_and_twice", wrong());
    let third = give(40, 8);
    say("is_lost", (third != first).into());
    take_back(second, 40, 8);
    take_back(third, 40, 8);
    say("whole", (HEAP.books().check_integrity() == 0).into());
    say("last_wrong", wrong());
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    for (bytes, alignment) in [(1, 1), (5, 8), (24, 8), (62, 4), (62, 16), (100, 32)] {
        reach(bytes, alignment);
    }
    calls();
    fail(0)
}

#[allow(dead_code, reason = "the vector table names it")]
#[unsafe(no_mangle)]
extern "C" fn Tick() {
    fail(98)
}
