//! Looks at blocks in memory of the guard's own: at all of them, at a few, at one.
#![forbid(unsafe_code)]

use crate::arenas::{CLOSED, FULL, tell, usable};
use crate::own_memory::Own;
use crate::periodic::PERIODIC;
use crate::protected::Doubted;
use crate::shared::Shared;
use crate::sweep::Swept;
use heapledger_format::Kind;
use heapledger_format::errors::FoundAt;
use heapledger_guard::{Cursor, Finding};
use heapledger_linux::syscall;

/// Looks at all blocks, those that wait as well.
#[cold]
pub fn sweep(shared: &'static Shared, at: FoundAt) -> Swept {
    let mut swept = Swept::default();
    if let Some(part) = CLOSED.get() {
        let (system, slots) = (Doubted::new(part.system()), part.arena.counts().slots);
        let told = &mut |finding: &Finding| tell(shared, &system, finding, at, Kind::NONE);
        swept.add(whole(slots, told, |cursor, slots, bytes, told| {
            part.arena.sweep(&system, cursor, slots, bytes, &mut |finding: &Finding| told(finding))
        }));
        swept.unseen = swept.unseen.wrapping_add(system.refused());
    }
    if let Some(part) = FULL.get() {
        let (system, slots) = (Doubted::new(part.system()), part.arena.counts().slots);
        let told = &mut |finding: &Finding| tell(shared, &system, finding, at, Kind::NONE);
        swept.add(whole(slots, told, |cursor, slots, bytes, told| {
            part.arena.sweep(&system, cursor, slots, bytes, &mut |finding: &Finding| told(finding))
        }));
        swept.unseen = swept.unseen.wrapping_add(system.refused());
    }
    swept
}

/// Who is told what a sweep finds.
type Telling<'s> = &'s mut dyn FnMut(&Finding);

/// A sweep of so many rows, from the first to the last or until it has taken too long.
fn whole(all: u64, told: Telling, mut step: impl FnMut(&mut Cursor, u32, u64, Telling) -> bool) -> Swept {
    const SLOTS_AT_ONCE: u32 = 1024;
    const BYTES_AT_ONCE: u64 = 1 << 20;
    const NS_MAX: u64 = 5_000_000_000;
    const CLOCK_MONOTONIC: usize = 1;
    let (mut cursor, begin_ns) = (Cursor::default(), syscall::clock(CLOCK_MONOTONIC));
    let (mut swept, mut looked) = (Swept::default(), 0_u64);
    let damaged = &mut swept.damaged;
    let mut counted = |finding: &Finding| {
        *damaged = damaged.wrapping_add(1);
        told(finding);
    };
    while !step(&mut cursor, SLOTS_AT_ONCE, BYTES_AT_ONCE, &mut counted) {
        // At most so many, or fewer where blocks are large.
        looked = u64::min(all, looked.saturating_add(u64::from(SLOTS_AT_ONCE)));
        if syscall::clock(CLOCK_MONOTONIC).saturating_sub(begin_ns) > NS_MAX {
            swept.unseen = all.saturating_sub(looked).max(1);
            break;
        }
    }
    swept
}

/// Looks at a few of its blocks, from a place on; the place to go on with, `None` after the last. Blocks at closed pages come last.
pub(crate) fn step(shared: &'static Shared, from: u32, found: &mut bool) -> Option<u32> {
    const SLOTS_AT_ONCE: u32 = 256;
    const BYTES_AT_ONCE: u64 = 1 << 20;
    const IS_CLOSED: u32 = 1 << 31;
    let mut cursor = Cursor::at(from & !IS_CLOSED);
    let mut look = |finding: &Finding, memory: &Doubted<Own>| {
        *found = true;
        if PERIODIC.is_new(finding.block.start) {
            tell(shared, memory, finding, FoundAt::Sweep, Kind::NONE);
        }
    };
    if from & IS_CLOSED == 0 {
        let done = FULL.get().is_none_or(|part| {
            let system = Doubted::new(part.system());
            let told = &mut |finding: &Finding| look(finding, &system);
            part.arena.sweep(&system, &mut cursor, SLOTS_AT_ONCE, BYTES_AT_ONCE, told)
        });
        return Some(if done { IS_CLOSED } else { cursor.place() });
    }
    let part = CLOSED.get()?;
    let system = Doubted::new(part.system());
    let told = &mut |finding: &Finding| look(finding, &system);
    let done = part.arena.sweep(&system, &mut cursor, SLOTS_AT_ONCE, BYTES_AT_ONCE, told);
    (!done).then(|| cursor.place() | IS_CLOSED)
}

/// Looks at the block that begins at an address: whether it is damaged. `None` if no live block does.
pub(crate) fn check(shared: &'static Shared, address: usize) -> Option<bool> {
    usable(address)?;
    let (own, mut damaged) = (address as u64, false);
    if let Some(part) = CLOSED.at(address) {
        let system = Doubted::new(part.system());
        part.arena.check(&system, own, &mut |finding: &Finding| {
            damaged = true;
            tell(shared, &system, finding, FoundAt::Sweep, Kind::NONE);
        })?;
    } else {
        let part = FULL.get()?;
        let system = Doubted::new(part.system());
        part.arena.check(&system, own, &mut |finding: &Finding| {
            damaged = true;
            tell(shared, &system, finding, FoundAt::Sweep, Kind::NONE);
        })?;
    }
    Some(damaged)
}
