//! Programs whose allocator has its memory in one of three ways, which their first argument names: all of its own (`apart`), in pieces from
//! the system's that it divides (`chunks`), or each block from the system's with a header in front (`header`). The second says what they do.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_char;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::{env, mem, ptr, thread};

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn mmap(at: *mut u8, bytes: usize, access: i32, flags: i32, file: i32, offset: i64) -> *mut u8;
}

/// The first letter of the first argument, known before the first block is asked for.
static WAY: AtomicU8 = AtomicU8::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn(i32, *const *const c_char) = {
    extern "C" fn at_load(count: i32, arguments: *const *const c_char) {
        if count > 1 {
            // SAFETY: the loader passes so many.
            WAY.store(unsafe { **arguments.add(1) } as u8, Ordering::Relaxed);
        }
    }
    at_load
};

pub struct Inside;

const HEADER_BYTES: usize = 16;
const CHUNK_BYTES: usize = 1 << 20;
const ALL_BYTES: usize = 256 << 20;

/// What is left of the memory that is divided. Nothing of it is used again but the block that was given last.
struct Rest {
    at: usize,
    end: usize,
    last: usize,
}

static REST: Mutex<Rest> = Mutex::new(Rest { at: 0, end: 0, last: 0 });

fn divided(layout: Layout, more: impl Fn(usize) -> (usize, usize)) -> *mut u8 {
    let mut rest = REST.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let begins = |at: usize| at.next_multiple_of(layout.align().max(16));
    if rest.at == 0 || begins(rest.at) + layout.size() > rest.end {
        (rest.at, rest.end) = more(layout.size() + layout.align());
    }
    rest.last = begins(rest.at);
    rest.at = rest.last + layout.size();
    ptr::with_exposed_provenance_mut(rest.last)
}

fn of_the_system(bytes: usize) -> (usize, usize) {
    let bytes = bytes.max(CHUNK_BYTES);
    // SAFETY: its size is not 0.
    let first = unsafe { System.alloc(Layout::from_size_align(bytes, 16).expect("a layout")) }.expose_provenance();
    (first, first + bytes)
}

fn of_its_own(_: usize) -> (usize, usize) {
    // SAFETY: new memory, private, readable and writable, of which pages come when they are used.
    let first = unsafe { mmap(ptr::null_mut(), ALL_BYTES, 3, 0x4022, -1, 0) }.expose_provenance();
    (first, first + ALL_BYTES)
}

fn with_header(layout: Layout) -> Layout {
    Layout::from_size_align(layout.size() + HEADER_BYTES.max(layout.align()), layout.align()).expect("a layout")
}

// SAFETY: blocks do not overlap, and are as long and aligned as asked for.
unsafe impl GlobalAlloc for Inside {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match WAY.load(Ordering::Relaxed) {
            b'a' => divided(layout, of_its_own),
            b'c' => divided(layout, of_the_system),
            // SAFETY: the caller's call, longer.
            _ => unsafe { System.alloc(with_header(layout)).add(HEADER_BYTES.max(layout.align())) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !matches!(WAY.load(Ordering::Relaxed), b'a' | b'c') {
            // SAFETY: it was had so.
            unsafe { System.dealloc(block.sub(HEADER_BYTES.max(layout.align())), with_header(layout)) };
        }
    }
}

static SUM: AtomicUsize = AtomicUsize::new(0);

#[inline(never)]
fn keeps() {
    for _ in 0..250 {
        mem::forget(black_box(Box::new([1u8; 1_111])));
    }
}

#[inline(never)]
fn gives_back() {
    for _ in 0..250 {
        SUM.fetch_add(usize::from(black_box(Box::new([2u8; 2_222]))[7]), Ordering::Relaxed);
    }
}

#[inline(never)]
fn grows() {
    for _ in 0..50 {
        let mut bytes = black_box(Vec::<u8>::with_capacity(3_333));
        bytes.reserve_exact(4_444);
        mem::forget(black_box(bytes));
    }
}

#[inline(never)]
fn keeps_much() {
    mem::forget(black_box(vec![3u8; 32 << 20]));
}

fn all() {
    keeps();
    gives_back();
    grows();
}

pub fn main() {
    let what = env::args().nth(2).unwrap_or_default();
    match what.as_str() {
        "fork" => {
            all();
            // SAFETY: there is one thread.
            let child = unsafe { fork() };
            all();
            if child == 0 {
                return;
            }
            let mut status = 0;
            // SAFETY: it is a child, and there is room for its status.
            unsafe { waitpid(child, &mut status, 0) };
            assert_eq!(status, 0);
        }
        "much" => keeps_much(),
        _ => {
            let other = thread::spawn(all);
            all();
            other.join().expect("thread");
        }
    }
    println!("done {}", heapledger::mark("done"));
}
