//! Memory of the guard's own, from which blocks come at the levels `full` and `page`.
//!
//! # What lies where
//!
//! The caller reserves a range of addresses and lends tables of zeros ([`Tables`]). The range is cut into *units*, units
//! make *runs*, and a run, once cut, has its place and length for good. Each block has a row in a side table ([`Slot`], 64
//! bytes): its state, where it begins, its size, and four words of the caller's. A word for each unit says which row is that
//! of the blocks there, so the block of any address is found by two reads, and from no byte that the program can write.
//!
//! ```text
//!  units      [ row ][ row ][ row ]…         a word for 64 KiB (Full), for a page (Closed)
//!                │
//!  slots      [ state | home, class | size | lead, link | allocated | freed ]…
//!                         │
//!  range      … [ run: front │ block │ behind ][ run … ] …
//! ```
//!
//! # A block's life
//!
//! ```text
//!  Vacant ─→ Filling ─→ Live ─→ Freeing ─→ Freed ─→ Released ─→ Filling …
//!            taken from         won by     in the    among the free
//!            free runs          exchange   queue     ones of its class
//! ```
//!
//! The state is one word, and each step one exchange: of two who free a block one loses, and learns that it was freed
//! before. Freed blocks wait in a ring, first in first out; who frees a block lets the oldest ones go for which there is
//! no more room. What may be handed out again lies on a stack for each size, or in groups of neighbours (`groups.rs`) where several runs share a
//! unit. Nothing waits for another thread. A thread that a fork has left out in the middle of an operation leaves at most the block lost that
//! it was busy with; in the middle of cutting a unit that one, or where it was about to take another group of 64 runs, that group.
//!
//! # What it costs
//!
//! 64 bytes for each block, live or waiting, 8 for each unit that was used, 256 more where small runs share it, and 8 for each place of the ring.
//! Up to a quarter of the runs of a group may be free and left unused, unless memory is used up.

#![forbid(unsafe_code)]

mod bytes;
mod classes;
mod closed;
mod found;
mod full;
mod limits;
mod runs;
mod slot;
mod store;
mod watched;

pub use closed::Closed;
pub(crate) use closed::edges as edges_of_pages;
pub use found::{Cursor, Fill, Finding, Found, Life, NotFreed, Position, Refused, Request, System, Tables};
pub use full::Full;
pub use limits::{ClosedCounts, ClosedLimits, FullCounts, Limits, Side};
pub use slot::Slot;
pub use store::Used;
pub(crate) use watched::Watched;

use crate::check::Region;
use crate::memory::{Around, Memory};

/// What lies in front of blocks and behind them.
const CANARY: u8 = crate::layout::SLACK_FILL;

/// A block of which nothing is filled, and what is to lie on both sides of it.
#[inline(always)]
fn edges_around(((from, start), (end, to)): ((u64, u64), (u64, u64))) -> Around {
    let (front, behind) = (start.wrapping_sub(from), to.wrapping_sub(end));
    Around { from, front, filled: 0, rest: end.wrapping_sub(start), behind, edge: CANARY, fill: 0 }
}

/// The same, of which so many bytes are filled.
#[inline(always)]
fn filled_around(edges: ((u64, u64), (u64, u64)), filled: u64, fill: u8) -> Around {
    let around = edges_around(edges);
    Around { filled, rest: around.rest.wrapping_sub(filled), fill, ..around }
}

/// Tells what is damaged on both sides of the block that begins at `start`. Whether anything is. Of whom it is told is asked only then.
pub(crate) fn tell_edges(
    memory: &impl Memory,
    (start, block): (u64, impl Fn() -> Found),
    (front, behind): ((u64, u64), (u64, u64)),
    mut found: impl FnMut(&Finding),
) -> bool {
    let mut any = false;
    for (range, region) in [(front, Region::HeadCanary), (behind, Region::TailCanary)] {
        if let Some(damage) = bytes::damage(memory, range, CANARY, start, region) {
            any = true;
            found(&Finding { block: block(), damage });
        }
    }
    any
}

/// Makes both sides of a block what they are to be.
#[inline(always)]
fn fill_edges(memory: &impl Memory, edges: ((u64, u64), (u64, u64))) {
    memory.lay(edges_around(edges));
}

/// How many bytes both sides of a block are.
#[inline(always)]
fn edge_bytes(((from, start), (end, to)): ((u64, u64), (u64, u64))) -> u64 {
    start.wrapping_sub(from).wrapping_add(to.wrapping_sub(end))
}

/// What a block's owner may use of it: what was asked for.
fn usable(block: Found) -> Option<u64> {
    (block.life == Life::Live && block.offset == 0).then_some(block.size)
}

/// Goes on with a sweep: through so many rows, and until about so many bytes were looked at, as `examine` says of each.
fn sweep(end: u32, cursor: &mut Cursor, slots_max: u32, bytes_max: u64, mut examine: impl FnMut(u32) -> u64) -> bool {
    let mut seen = 0u64;
    for _ in 0..slots_max {
        if cursor.slot >= end || seen >= bytes_max {
            break;
        }
        seen = seen.saturating_add(examine(cursor.slot));
        cursor.slot = cursor.slot.wrapping_add(1);
    }
    let done = cursor.slot >= end;
    if done {
        *cursor = Cursor::default();
    }
    done
}
