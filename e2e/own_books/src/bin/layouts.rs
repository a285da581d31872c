//! A program that gives blocks back with another size or alignment than it asked for them with. Around an allocator that does not
//! mind, and sees that calls are passed on as they come. Its argument says what it does.

use std::alloc::{GlobalAlloc, Layout, System, alloc, alloc_zeroed, dealloc, realloc};
use std::env;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

use heapledger::{Heapledger, Options};

#[global_allocator]
static HEAP: Heapledger<Minds> = Heapledger::with(Minds, Options::new().off());

/// What a block was asked for with lies in front of it, whatever is said later.
struct Minds;

/// The layout with which a block was last given back or resized.
static SAID: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

const ROOM_BYTES: usize = 4096;
/// Where in front of a block its layout lies.
const BEFORE_BYTES: usize = 16;

/// Blocks of more are not really so long: nobody writes into them, and not every machine has so much.
const HUGE_BYTES: usize = 4 << 30;

/// Larger alignments keep their own room.
fn room(align: usize) -> usize {
    if align > BEFORE_BYTES { align.max(ROOM_BYTES) } else { BEFORE_BYTES }
}

fn with_room(layout: Layout) -> Layout {
    let align = layout.align().max(BEFORE_BYTES);
    let size = if layout.size() > HUGE_BYTES { ROOM_BYTES } else { layout.size() };
    Layout::from_size_align(size + room(layout.align()), align).expect("a layout")
}

fn note(layout: Layout) {
    SAID[0].store(layout.size(), Ordering::Relaxed);
    SAID[1].store(layout.align(), Ordering::Relaxed);
}

/// The layout with which a block was asked for.
///
/// # Safety
/// It is one of ours.
unsafe fn asked(block: *mut u8) -> Layout {
    // SAFETY: both words lie in front of each of our blocks.
    let [size, align] = unsafe { *block.sub(BEFORE_BYTES).cast::<[usize; 2]>() };
    Layout::from_size_align(size, align).expect("a layout")
}

// SAFETY: blocks are `System`'s, with room in front; what is said when they are given back is not believed.
unsafe impl GlobalAlloc for Minds {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: its size is not 0.
        let block = unsafe { System.alloc(with_room(layout)) };
        if block.is_null() {
            return block;
        }
        // SAFETY: there is so much room in front.
        unsafe {
            let block = block.add(room(layout.align()));
            *block.sub(BEFORE_BYTES).cast::<[usize; 2]>() = [layout.size(), layout.align()];
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(layout);
        // SAFETY: as it was asked for.
        unsafe {
            let asked = asked(block);
            System.dealloc(block.sub(room(asked.align())), with_room(asked));
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as it was asked for.
        let asked = unsafe { asked(block) };
        let new = Layout::from_size_align(new_size, layout.align()).expect("a layout");
        // SAFETY: as the trait's own.
        unsafe {
            let other = self.alloc(new);
            if !other.is_null() {
                other.copy_from_nonoverlapping(block, asked.size().min(new_size));
                self.dealloc(block, layout);
            }
            other
        }
    }
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a layout")
}

#[inline(never)]
fn takes(size: usize, align: usize) -> *mut u8 {
    // SAFETY: its size is not 0.
    black_box(unsafe { alloc(layout(size, align)) })
}

#[inline(never)]
fn takes_zeroed(size: usize, align: usize) -> *mut u8 {
    // SAFETY: its size is not 0.
    black_box(unsafe { alloc_zeroed(layout(size, align)) })
}

fn is_said(size: usize, align: usize) {
    let said = [&SAID[0], &SAID[1]].map(|word| word.load(Ordering::Relaxed));
    assert_eq!(said, [size, align], "calls are passed on as they come");
}

#[inline(never)]
fn frees_another_size(block: *mut u8) {
    // SAFETY: the allocator does not mind.
    unsafe { dealloc(block, layout(1111, 8)) };
    is_said(1111, 8);
}

#[inline(never)]
fn frees_another_alignment(block: *mut u8) {
    // SAFETY: as above.
    unsafe { dealloc(block, layout(2222, 1)) };
    is_said(2222, 1);
}

#[inline(never)]
fn resizes_another_size(block: *mut u8) -> *mut u8 {
    // SAFETY: as above.
    let new = unsafe { realloc(block, layout(3333, 4), 4444) };
    is_said(3333, 4);
    new
}

#[inline(never)]
fn frees_a_huge_one(block: *mut u8) {
    // SAFETY: as above.
    unsafe { dealloc(block, layout(5 << 30, 16)) };
    is_said(5 << 30, 16);
}

#[inline(never)]
fn frees_a_page(block: *mut u8) {
    // SAFETY: as above.
    unsafe { dealloc(block, layout(6666, 2048)) };
    is_said(6666, 2048);
}

/// Each wrong one twice, at the same place.
fn wrong() {
    // Not unrolled: that would be other places.
    for _ in 0..black_box(2) {
        frees_another_size(takes(1000, 8));
        frees_another_alignment(takes_zeroed(2222, 8));
        let block = resizes_another_size(takes(3000, 4));
        // SAFETY: it is right.
        unsafe { dealloc(block, layout(4444, 4)) };
        frees_a_huge_one(takes(6 << 30, 16));
        frees_a_page(takes(6666, 4096));
    }
}

/// All of these are right.
fn right() {
    for size in [1usize, 8, 1032, 16 << 10, 5 << 30] {
        for align in [1, 8, 64, 4096] {
            for block in [takes(size, align), takes_zeroed(size.min(1 << 20), align)].into_iter().enumerate() {
                let (which, block) = block;
                let size = if which == 0 { size } else { size.min(1 << 20) };
                // SAFETY: it is right.
                unsafe {
                    let new = black_box(realloc(block, layout(size, align), 77));
                    dealloc(new, layout(77, align));
                }
            }
        }
    }
    // An alignment that a record has no room for; only its size can be compared.
    // SAFETY: it is right.
    unsafe { dealloc(takes(100, 1 << 21), layout(100, 1 << 21)) };
    // A vector of something else, whose buffer is right.
    drop(black_box((0..1000u64).map(|number| number.to_string()).collect::<Vec<_>>()));
}

fn main() {
    let what = env::args().nth(1).unwrap_or_default();
    // A block that the ledger does not know.
    let unknown = takes(100, 8);
    heapledger::start().expect("it begins");
    frees_another_size(unknown);
    match what.as_str() {
        "wrong" => wrong(),
        "paused" => {
            let block = takes(1000, 8);
            assert!(heapledger::pause());
            frees_another_size(block);
            frees_another_size(takes(1000, 8));
        }
        "right" => {}
        other => panic!("{other:?}"),
    }
    right();
}
