//! What the C library says of its heap.
//!
//! A room with `unsafe`: calls glibc's function for that.

use crate::{arenas, ways};
use core::mem::transmute;
use core::sync::atomic::{AtomicUsize, Ordering};

/// All arenas together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CHeap {
    /// Bytes from the system, mappings of single blocks among them.
    pub system_bytes: usize,
    /// Bytes in blocks, with what lies in front of each.
    pub in_use_bytes: usize,
    /// Bytes from the system that nobody uses.
    pub free_bytes: usize,
    /// Bytes at the end of the main heap that can be given back.
    pub releasable_bytes: usize,
    /// Blocks that have a mapping of their own.
    pub mapped_blocks: usize,
    /// Bytes in these.
    pub mapped_bytes: usize,
}

/// `struct mallinfo2` of glibc's `malloc.h`.
#[repr(C)]
struct Mallinfo2 {
    /// From the system, but for mappings.
    arena: usize,
    ordblks: usize,
    smblks: usize,
    hblks: usize,
    hblkhd: usize,
    usmblks: usize,
    fsmblks: usize,
    uordblks: usize,
    fordblks: usize,
    keepcost: usize,
}

type Function = extern "C" fn() -> Mallinfo2;

/// Where `mallinfo2` is: 0 before somebody has looked, 1 if it is not to be had.
static FUNCTION: AtomicUsize = AtomicUsize::new(UNKNOWN);
const UNKNOWN: usize = 0;
const NONE: usize = 1;

/// The C library's, if it is that one whose `malloc` answers the program's calls.
fn find(answers: ways::OurMalloc) -> Option<usize> {
    let module = ways::answering_module(answers)?;
    let is_glibc = module.name().to_bytes().ends_with(b"/libc.so.6");
    is_glibc.then(|| module.symbol(b"mallinfo2")).flatten().map(|symbol| symbol.address)
}

/// Where `mallinfo2` is in a program that no list of modules tells of: one that is linked with glibc's archive.
pub fn is_at(mallinfo2: usize) {
    FUNCTION.store(mallinfo2.max(NONE), Ordering::Relaxed);
}

fn function(answers: ways::OurMalloc) -> Option<Function> {
    let mut address = FUNCTION.load(Ordering::Relaxed);
    if address == UNKNOWN {
        address = find(answers).unwrap_or(NONE);
        FUNCTION.store(address, Ordering::Relaxed);
    }
    // SAFETY: it is the address of glibc's function of that name, which takes nothing and returns such figures, and stays loaded.
    (address != NONE).then(|| unsafe { transmute::<usize, Function>(address) })
}

/// What it says at this moment. It asks each arena in turn and waits for its lock: not from inside of a hook of ours. `None`: the
/// program's `malloc` is not that of glibc 2.33 or later.
pub fn info(answers: ways::OurMalloc) -> Option<CHeap> {
    let figures = function(answers)?();
    // Where blocks are guarded so that they lie elsewhere, that is part of it.
    let own = arenas::own_heap();
    Some(CHeap {
        system_bytes: figures.arena.wrapping_add(figures.hblkhd).wrapping_add(own.bytes as usize),
        in_use_bytes: figures.uordblks.wrapping_add(figures.hblkhd).wrapping_add(own.in_use_bytes as usize),
        free_bytes: figures.fordblks.wrapping_add(own.bytes.saturating_sub(own.in_use_bytes) as usize),
        releasable_bytes: figures.keepcost,
        mapped_blocks: figures.hblks,
        mapped_bytes: figures.hblkhd,
    })
}
