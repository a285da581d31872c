//! Blocks that another recorder of this process does not see by itself are told to it.
//!
//! `heapledger run` follows the program's `malloc`, another copy of this crate (in a library) what goes through that one. An
//! allocator inside that has its memory from there block by block (the system's, or one around it) is seen; one with memory of its
//! own (jemalloc, mimalloc, a crate's) is not. Which of both it is, is tried out: a few blocks are asked for, and the other recorder
//! counts the calls that come to it meanwhile.
//!
//! That is done once, for the allocator that is called first while the other one records: a program whose allocators differ in this has the
//! blocks of the others twice, or not at all.
#![forbid(unsafe_code)]

use crate::allocator::TRIED_BLOCKS;
use crate::entry::{CallFrame, ReallocFrame};
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use heapledger_format::Kind;
use heapledger_process::reallocation::Reallocation;
use heapledger_process::switch::Recording;
use heapledger_process::ways::{self, InnerBlock, Way};
use heapledger_watch::state::{self, OFF};

/// What was found out.
static FOUND: AtomicU8 = AtomicU8::new(UNKNOWN);
/// Row of the heap in which such blocks are.
static HEAP: AtomicU32 = AtomicU32::new(0);

const UNKNOWN: u8 = 0;
/// A thread is trying it out.
const TRYING: u8 = 1;
/// The other recorder is told of all blocks.
const TOLD: u8 = 2;

/// Who is to be told, if that is known.
fn another() -> Option<&'static Way> {
    (FOUND.load(Ordering::Acquire) == TOLD).then(ways::recorder).flatten()
}

/// Who is to be told of a block of this heap, which may be the first of all.
fn another_of(frame: &CallFrame) -> Option<&'static Way> {
    match FOUND.load(Ordering::Acquire) {
        TOLD => ways::recorder(),
        UNKNOWN => find_out(frame),
        _ => None,
    }
}

#[cold]
#[inline(never)]
fn find_out(frame: &CallFrame) -> Option<&'static Way> {
    let way = ways::recorder()?;
    match way.recording() {
        _ if !way.knows_inner() => {
            // It is older than all this.
            state::set_base(OFF);
            return None;
        }
        Recording::Off => {
            state::set_base(OFF);
            return None;
        }
        // Nothing is entered yet, and nothing can be found out.
        Recording::Paused => return None,
        Recording::On => {}
    }
    FOUND.compare_exchange(UNKNOWN, TRYING, Ordering::AcqRel, Ordering::Acquire).ok()?;
    match way.calls_inside(|| frame.heap().try_out()) {
        Some(calls) if calls < TRIED_BLOCKS => {
            HEAP.store(way.begin_heap(b"Rust's global allocator", 0..0, 0).unwrap_or(0), Ordering::Relaxed);
            FOUND.store(TOLD, Ordering::Release);
            Some(way)
        }
        Some(_) => {
            state::set_base(OFF);
            None
        }
        // The thread is inside of the recorder: another call may know more.
        None => {
            FOUND.store(UNKNOWN, Ordering::Release);
            None
        }
    }
}

fn block(kind: Kind, address: usize, bytes: usize, alignment: usize) -> InnerBlock {
    InnerBlock { address, bytes, alignment, kind: u32::from(kind.0), heap: HEAP.load(Ordering::Relaxed) }
}

/// What follows the real call of a function that gives a block.
pub(crate) fn gave(frame: &CallFrame, kind: Kind, address: usize) {
    let Some(way) = another_of(frame) else { return };
    let [_, size, align, ..] = frame.args;
    let block = block(kind, address, size, align);
    if address == 0 {
        way.refuses(&frame.registers, &block);
    } else if !way.gives(&frame.registers, &block) && way.recording() == Recording::Off {
        // A forked child, or the recorder was stopped.
        state::set_base(OFF);
    }
}

/// What precedes the real `dealloc`.
pub(crate) fn frees(frame: &CallFrame) {
    if let Some(way) = another() {
        let [_, address, ..] = frame.args;
        way.takes(&frame.registers, address, Kind::RUST_DEALLOC);
    }
}

/// What precedes the real `realloc`.
pub(crate) fn resizes(frame: &mut ReallocFrame) {
    let [_, address, ..] = frame.call.args;
    frame.kept = match another_of(&frame.call) {
        Some(way) => way.resizes(&frame.call.registers, address),
        None => Reallocation::default(),
    };
}

/// What follows the real `realloc`.
pub(crate) fn resized(frame: &ReallocFrame, address: usize) {
    if let Some(way) = another() {
        let [_, _, _, align, new_size, _] = frame.call.args;
        let block = block(Kind::RUST_REALLOC, address, new_size, align);
        way.resized(&frame.call.registers, &frame.kept, &block);
    }
}
