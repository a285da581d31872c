//! A look at all blocks that are guarded.
#![forbid(unsafe_code)]

use crate::guarded::GUARD;
use crate::periodic::PERIODIC;
use crate::shared::Shared;
use crate::{arena_sweep, arenas, damage, look, protected, start};
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};
use heapledger_format::errors::FoundAt;
use heapledger_format::{Kind, TallyCounter};
use heapledger_guard::alone::is_alone;
use heapledger_guard::{Checked, Memory};
use heapledger_linux::syscall;
use heapledger_linux::text::Text;

/// What a look at blocks has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Blocks that are damaged.
    pub damaged: u64,
    /// Blocks that nobody has looked at: those that could not be read, and all that were left when it took too long.
    pub unseen: u64,
}

impl Swept {
    /// And another look.
    pub(crate) fn add(&mut self, more: Swept) {
        self.damaged = self.damaged.wrapping_add(more.damaged);
        self.unseen = self.unseen.wrapping_add(more.unseen);
    }
}

/// Looks at all guarded blocks, and tells of damage. Other threads go on meanwhile.
#[cold]
pub fn everywhere(shared: &'static Shared, at: FoundAt) -> Swept {
    let begins = shared.now();
    let mut swept = all(shared, Copied::new, at);
    swept.add(arena_sweep::sweep(shared, at));
    if swept == Swept::default() {
        PERIODIC.all_were_whole(begins);
    }
    swept
}

/// The program ends: looks at all guarded blocks a last time, and says if not all could be looked at. `anywhere` is this process's memory, read as it
/// stands: only where no other thread can take it away.
#[cold]
pub fn last<M: Memory>(shared: &'static Shared, anywhere: impl Fn() -> M, at: FoundAt) {
    // The C library says so; to ask the kernel could be fatal, where a filter of the program's does not let it open files.
    let is_there = is_alone() && !protected::is_in_doubt();
    let mut swept = if is_there { all(shared, anywhere, at) } else { all(shared, Copied::new, at) };
    swept.add(arena_sweep::sweep(shared, at));
    if swept.unseen != 0 {
        if let Some(counter) = shared.ledger().apart(TallyCounter::GuardedUnseen) {
            // A handler may have had one look before, and the program have gone on.
            counter.fetch_max(swept.unseen, Ordering::Relaxed);
        }
        let mut number = Text::<24>::new();
        number.push_number(swept.unseen);
        start::complain(&[b"guarded blocks that nobody looked at when the program ended: ", number.bytes()]);
    }
}

/// So long it may take: some ten million blocks.
const NS_MAX: u64 = 5_000_000_000;
/// The clock is asked after so many blocks.
const BLOCKS_AT_ONCE: u64 = 4096;
const CLOCK_MONOTONIC: usize = 1;

/// Looks at each dressed block, in `memory` as it is at that moment, and tells of damage.
#[cold]
pub fn all<M: Memory>(shared: &'static Shared, memory: impl Fn() -> M, at: FoundAt) -> Swept {
    let begin_ns = syscall::clock(CLOCK_MONOTONIC);
    let (mut next, mut looked, mut is_late) = (0, 0_u64, false);
    let mut swept = Swept::default();
    while let Some(address) = GUARD.first_from(next) {
        next = address.wrapping_add(1);
        looked = looked.wrapping_add(1);
        if looked.is_multiple_of(BLOCKS_AT_ONCE) && !is_late {
            is_late = syscall::clock(CLOCK_MONOTONIC).saturating_sub(begin_ns) > NS_MAX;
        }
        let seen = if is_late { None } else { look_at(shared, &memory, address, at) };
        match seen {
            None => swept.unseen = swept.unseen.wrapping_add(1),
            Some(damaged) => swept.damaged = swept.damaged.wrapping_add(u64::from(damaged)),
        }
    }
    swept
}

/// Looks at a few dressed blocks, from an address on; the one to go on with, `None` after the last.
#[cold]
pub(crate) fn step(shared: &'static Shared, from: usize, found: &mut bool) -> Option<usize> {
    const BLOCKS_AT_ONCE: usize = 256;
    let mut next = from;
    for _ in 0..BLOCKS_AT_ONCE {
        let address = GUARD.first_from(next)?;
        next = address.wrapping_add(1);
        let memory = Copied::new();
        let is_whole = GUARD.check(&memory, address).is_none_or(|checked| checked.is_whole());
        if !is_whole
            && !PERIODIC.is_told(address as u64)
            && look_at(shared, &Copied::new, address, FoundAt::Sweep) == Some(true)
        {
            PERIODIC.is_new(address as u64);
            *found = true;
        } else if !is_whole && PERIODIC.is_told(address as u64) {
            *found = true;
        }
    }
    Some(next)
}

/// The number that the ledger has of the block that begins here: another block there has another one.
fn number(shared: &Shared, address: usize) -> Option<u64> {
    let [commit, ..] = shared.words_of(look::slot_of(shared, &shared.index, address as u64)?, Ordering::Acquire);
    (commit != 0).then_some(commit)
}

/// Looks at one block: whether it is damaged. `None` if it cannot be read, and is still there.
fn look_at<M: Memory>(shared: &'static Shared, memory: &impl Fn() -> M, address: usize, at: FoundAt) -> Option<bool> {
    let (before, copied) = (number(shared, address), memory());
    let Some(checked) = GUARD.check(&copied, address) else { return (!GUARD.begins(address)).then_some(false) };
    if checked.is_whole() || !GUARD.begins(address) {
        return Some(false);
    }
    // Another thread may be giving it back, or have given it back and been given it again, as often as it likes.
    let is_it = match before {
        // It is in the ledger before it is the program's, and not any more when it is given back.
        Some(before) => number(shared, address) == Some(before),
        None => is_alone() || stays(memory, &checked, address),
    };
    if is_it {
        damage::tell(shared, &copied, &checked, address, (at, Kind::NONE));
    }
    Some(is_it)
}

/// Whether a block of which the ledger knows nothing is damaged in the same way whenever it is looked at.
fn stays<M: Memory>(memory: &impl Fn() -> M, checked: &Checked, address: usize) -> bool {
    const LOOKS: usize = 8;
    const BETWEEN_MS: u32 = 1;
    (0..LOOKS).all(|_| {
        syscall::futex_wait(&AtomicU32::new(0), 0, BETWEEN_MS);
        GUARD.begins(address) && GUARD.check(&memory(), address).as_ref() == Some(checked) && GUARD.begins(address)
    })
}

/// Looks at the block that begins at an address. `None` if none does that is guarded.
#[cold]
pub fn one(shared: &'static Shared, address: usize) -> Option<bool> {
    if arenas::contains(address) {
        return arena_sweep::check(shared, address);
    }
    if GUARD.begins(address) { look_at(shared, &Copied::new, address, FoundAt::Sweep) } else { None }
}

/// Bytes that are copied at once: no page begins inside.
const LINE_BYTES: usize = 256;
const LINE_WORDS: usize = LINE_BYTES / 8;

/// Memory of this process that may go away at any moment: the kernel copies it.
pub struct Copied {
    line: Cell<u64>,
    words: [Cell<u64>; LINE_WORDS],
}

impl Copied {
    /// With nothing copied yet.
    pub const fn new() -> Copied {
        Copied { line: Cell::new(u64::MAX), words: [const { Cell::new(0) }; LINE_WORDS] }
    }

    fn byte(&self, address: u64) -> Option<u8> {
        let line = address & !(LINE_BYTES as u64).wrapping_sub(1);
        if self.line.get() != line {
            let mut words = [0; LINE_WORDS];
            self.line.set(u64::MAX);
            syscall::copy_memory(line as usize, &mut words).ok()?;
            self.words.iter().zip(words).for_each(|(place, word)| place.set(word));
            self.line.set(line);
        }
        let at = address.wrapping_sub(line) as usize;
        let word = self.words.get(at / 8)?.get();
        word.to_le_bytes().get(at % 8).copied()
    }
}

impl Default for Copied {
    fn default() -> Copied {
        Copied::new()
    }
}

impl Memory for Copied {
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        let mut bytes = [0; BYTES];
        for (place, at) in bytes.iter_mut().zip(address..) {
            *place = self.byte(at)?;
        }
        Some(bytes)
    }

    fn write<const BYTES: usize>(&self, _: u64, _: [u8; BYTES]) -> Option<()> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_none() {
        let here: std::vec::Vec<u8> = (0..=255).cycle().take(3 * LINE_BYTES).collect();
        let (first, copied) = (here.as_ptr() as u64, Copied::new());
        for at in [0, 1, 200, 250, 500] {
            let expected: std::vec::Vec<u8> = here[at..at + 16].to_vec();
            assert_eq!(copied.read::<16>(first + at as u64).map(|bytes| bytes.to_vec()), Some(expected));
        }
        assert_eq!(copied.read::<1>(8), None);
        assert_eq!(copied.read::<16>(u64::MAX - 7), None);
        assert_eq!(copied.write(first, [1]), None);
    }
}
