//! Stretches of memory filled with one byte, and looked at.

#![forbid(unsafe_code)]

use crate::check::{Comparison, Damage, Region};
use crate::memory::Memory;

/// Fills from here to there. What the memory does not have is left out.
#[inline(always)]
pub(super) fn fill(memory: &impl Memory, from: u64, to: u64, byte: u8) {
    let _ = memory.fill(from, to.saturating_sub(from), byte);
}

/// What is not this byte from here to there, told from the first byte of a block on.
pub(super) fn damage(
    memory: &impl Memory,
    (from, to): (u64, u64),
    byte: u8,
    start: u64,
    region: Region,
) -> Option<Damage> {
    let first = memory.first_other(from, to.saturating_sub(from), byte)?;
    compare(memory, (first, to), byte, start, region)
}

#[cold]
fn compare(memory: &impl Memory, (from, to): (u64, u64), byte: u8, start: u64, region: Region) -> Option<Damage> {
    let mut comparison = Comparison::new();
    let mut at = from;
    while at < to {
        let [found] = memory.read(at)?;
        comparison.byte(region, at.wrapping_sub(start) as i64, Some(byte), found);
        at = at.wrapping_add(1);
    }
    comparison.result()
}
