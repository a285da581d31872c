//! Frees of what is no block: whose address has none in the ledger.
//!
//! What the address is, is found out here, slowly: nothing is in a hurry where a program is wrong. Other allocators have blocks that the
//! ledger does not know, and they are nobody's business; so an error is only entered where it is certain: where the address lies in a
//! live block, or in one that was freed and of which nobody can have had the memory since, on the caller's own stack, in a module, or
//! where nothing is mapped. See [`crate::certain`].
#![forbid(unsafe_code)]

use crate::access::{Access, Sign};
use crate::arenas;
use crate::cells::{self, GRANULE_BITS};
use crate::certain;
use crate::damage::KeptOfBlock;
use crate::families::GivenBack;
use crate::guarded::GUARD;
use crate::look::{self, slot_of};
use crate::shared::Shared;
use crate::{error_stack, errors, family};
use core::sync::atomic::Ordering;
use heapledger_format::errors::{
    ErrorEntry, ErrorKind, ErrorStack, FoundAt, FoundBy, Neighbour, StackTag, Whereabouts,
};
use heapledger_format::family::InheritedFree;
use heapledger_format::record::{ADDRESS_MAX, RECORD_WORDS, SIZE_ESCAPE};
use heapledger_format::{Entry, FreedEntry, SectionKind, Site, TallyCounter, ThreadRow, Ticks};
use heapledger_guard::{Found, Life};
use heapledger_linux::{apart, syscall};
use heapledger_recorder::backend::Backend as _;
use heapledger_unwind::Registers;

/// A block is looked for that begins at most so far in front of the address: 64 MiB.
const BLOCK_BYTES_MAX: u64 = 64 << 20;
/// Neighbours are shown that are at most so far away.
const NEIGHBOUR_BYTES_MAX: u64 = 64 << 10;
/// Entries of the history and records that are looked through in vain, all in all: a program whose blocks are often unknown must not pay
/// for that all its life. About half a second.
const LOOKED_MAX: u64 = 1 << 26;
/// As what it counts to look for a block in front of the address, and far in front of it.
const NEAR_LOOK: u64 = 1 << 11;
const FAR_LOOK: u64 = 1 << 18;
/// Frees that are looked at where the ledger lacks something: they come by the million then, and nearly all of them are right.
const DOUBTFUL_MAX: u64 = 4096;
const GRANULE: u64 = 1 << GRANULE_BITS;

/// What was passed to a function that ends blocks.
#[derive(Clone, Copy)]
enum Passed {
    /// A place inside of a live block.
    Live(Entry),
    /// A block that had been freed, or a place in one.
    Freed(FreedEntry),
    /// The same, of the guard's own memory, with what was kept beside it.
    Kept(Found),
    /// A place inside of a live block of the guard's own memory that a forked child has inherited.
    Inherited(Found),
    /// A block that a forked child had inherited and has freed.
    InheritedFreed(InheritedFree),
    /// A block that another thread is freeing.
    Racing,
    /// No block ever, that is certain.
    Never(Whereabouts),
}

impl Access<'_> {
    /// A block is to be freed, or resized, of which the ledger knows nothing.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_at_unknown(
        &mut self,
        address: u64,
        given_back: GivenBack,
        registers: &Registers,
        found_at: FoundAt,
    ) {
        let shared = self.shared;
        if shared.settings().is_forked && family::is_inherited(address as usize) {
            return;
        }
        let is_guarded = arenas::contains(address as usize);
        if !is_guarded && !shared.errors.may_look(LOOKED_MAX, DOUBTFUL_MAX, || !certain::sees_all(shared)) {
            return;
        }
        // All of it elsewhere: what a block that was freed is known by takes 500 bytes.
        let mut entered = None;
        apart::run(&mut || entered = self.enter_unknown(address, &given_back, registers, found_at));
        if let Some(entered) = entered {
            // Readers take it for granted that an error of a free is also among the frees of unknown blocks; where most of these are
            // of blocks that passed by, they are not counted.
            if entered && found_at == FoundAt::Free && !self.counts_unknown() && !shared.settings().is_forked {
                self.state.count(TallyCounter::UnknownFrees, 1);
            }
            self.count_wrong(entered);
        }
    }

    /// Enters it if it is wrong for certain, and says whether there was room. `None`: it is not.
    #[inline(never)]
    fn enter_unknown(
        &mut self,
        address: u64,
        given_back: &GivenBack,
        registers: &Registers,
        found_at: FoundAt,
    ) -> Option<bool> {
        let shared = self.shared;
        let stack = self.state.thread().native.get();
        let is_on_stack = stack.is_own() && stack.contains(address as usize);
        let found = find(shared, address, is_on_stack, given_back)?;
        let site = error_stack::of_call(self, registers);
        let time = shared.now().max(Ticks(1));
        let entry = described(shared, &found, address, (*given_back, found_at, time));
        let access = errors::stack(StackTag::Access, site, self.state.row, time);
        let label = self.state.thread().label.load(Ordering::Relaxed);
        let [first, second, _] = entry.stacks;
        let stacks = match (first.tag, second.tag) {
            (0, 0) => [access, ErrorStack::default(), ErrorStack::default()],
            (0, _) => [second, access, ErrorStack::default()],
            (_, 0) => [first, access, ErrorStack::default()],
            _ => [first, second, access],
        };
        Some(shared.errors.enter(shared.ledger(), &ErrorEntry { stacks, label, ..entry }))
    }
}

/// Somebody asks how large a block is: whether that is one.
#[cold]
#[inline(never)]
pub fn size_asked(shared: &'static Shared, registers: &Registers, address: usize, given_back: GivenBack) {
    if slot_of(shared, &shared.index, address as u64).is_some() {
        return;
    }
    let sign = Sign::new();
    apart::run(&mut || {
        if let Ok(mut access) = Access::enter(shared, registers, &sign) {
            access.look_at_unknown(address as u64, given_back, registers, FoundAt::Call);
        }
    });
}

/// What the guard's own memory has at an address: each block there says itself what it is.
fn guarded(shared: &Shared, address: u64) -> Option<Passed> {
    let block = arenas::lookup(address)?;
    match block.life {
        // If each has a record, another thread is about to free it: it has taken the record out.
        Life::Live if block.offset == 0 => certain::sees_all(shared).then_some(Passed::Kept(block)),
        Life::Live => match arenas::entry_of(shared, &block) {
            Some(entry) => Some(Passed::Live(entry)),
            None => shared.settings().is_forked.then_some(Passed::Inherited(block)),
        },
        Life::Freeing | Life::Freed | Life::Released => Some(Passed::Kept(block)),
    }
}

fn find(shared: &Shared, address: u64, is_on_stack: bool, given_back: &GivenBack) -> Option<Passed> {
    if arenas::contains(address as usize) {
        return guarded(shared, address);
    }
    // What costs least is asked first: in a program that began to record late, frees of blocks that are not known come by the million.
    let is_forked = shared.settings().is_forked;
    let is_certain = (given_back.is_no_block)(address as usize) || is_forked && is_none_at_all(shared, given_back);
    let others_call_us = || is_certain || (given_back.all_call_us)();
    if is_certain || certain::sees_all_frees(shared) {
        if let Some(block) = block_at(shared, address).filter(|block| block.address != address) {
            return others_call_us().then_some(Passed::Live(block));
        }
        // Asked before the history is: who takes it off now has written there before.
        let is_dressed = GUARD.begins(address as usize);
        if (certain::sees_all(shared) || is_certain && certain::knows_all(shared))
            && let Some(freed) = freed_at(shared, address)
        {
            return others_call_us().then_some(Passed::Freed(freed));
        }
        // It still is dressed, and who takes it off has taken its record out.
        if is_dressed && certain::sees_all(shared) {
            return others_call_us().then_some(Passed::Racing);
        }
    }
    if let Some(free) = family::inherited_free(shared, address) {
        return is_certain.then_some(Passed::InheritedFreed(free));
    }
    let is_free = || !is_recorded(shared, address);
    if is_on_stack {
        return Some(Passed::Never(Whereabouts::Stack)).filter(|_| is_free());
    }
    // Of other allocators' memory nobody knows whether they have some of it in a module.
    if !is_certain && !(given_back.is_glibc)() {
        return None;
    }
    let never = match shared.modules.finder().find(address as usize) {
        Some(module) => {
            let is_allocators = shared.modules.is_loader(address as usize) || module.module.is_us();
            (!is_allocators).then_some(Whereabouts::Module)
        }
        None if !syscall::is_mapped(address as usize) => Some(Whereabouts::Nothing),
        None => is_certain.then_some(Whereabouts::Mapping),
    };
    never.filter(|_| is_free()).map(Passed::Never)
}

/// In a forked child, of an address that is no block that it has inherited: whether it is certain that it is none at all.
fn is_none_at_all(shared: &Shared, given_back: &GivenBack) -> bool {
    GUARD.knows_all() && certain::sees_all_frees(shared) && (given_back.is_glibc)() && (given_back.all_call_us)()
}

/// The live block that holds an address.
pub(crate) fn block_at(shared: &Shared, address: u64) -> Option<Entry> {
    if !shared.errors.may_look_through(NEAR_LOOK, LOOKED_MAX) {
        return None;
    }
    let end = address.checked_add(1)?;
    let near = address.saturating_sub(NEIGHBOUR_BYTES_MAX);
    let nearest = || {
        if let Some(block) = nearest_below(shared, near, end) {
            return Some(block);
        }
        if !shared.errors.may_look_through(FAR_LOOK, LOOKED_MAX) {
            return None;
        }
        nearest_below(shared, address.saturating_sub(BLOCK_BYTES_MAX), near)
    };
    let block = nearest()?;
    let bytes = block.actual.or(block.size)?.max(block.size.unwrap_or(0));
    let is_inside = address.wrapping_sub(block.address) < bytes;
    if is_inside {
        shared.errors.has_found(NEAR_LOOK);
    }
    is_inside.then_some(block)
}

/// The live block that begins last from `low` on and before `end`.
fn nearest_below(shared: &Shared, low: u64, end: u64) -> Option<Entry> {
    let mut end = end;
    while low < end {
        let (granule, cell) = shared.index.last_granule(low, end)?;
        let mut nearest: Option<Entry> = None;
        each_block(shared, cell, &mut |block| {
            if (granule..end).contains(&block.address) && nearest.is_none_or(|known| known.address < block.address) {
                nearest = Some(*block);
            }
        });
        if nearest.is_some() {
            return nearest;
        }
        end = granule;
    }
    None
}

/// The live block that begins first from `low` on and before `end`.
fn nearest_above(shared: &Shared, low: u64, end: u64) -> Option<Entry> {
    let mut low = low;
    while low < end {
        let (granule, cell) = shared.index.first_granule(low, end)?;
        let after = granule.wrapping_add(GRANULE);
        let mut nearest: Option<Entry> = None;
        each_block(shared, cell, &mut |block| {
            if (low.max(granule)..after.min(end)).contains(&block.address)
                && nearest.is_none_or(|known| known.address > block.address)
            {
                nearest = Some(*block);
            }
        });
        if nearest.is_some() {
            return nearest;
        }
        low = after;
    }
    None
}

/// Tells of each live block in a granule.
fn each_block(shared: &Shared, cell: u32, tell: &mut dyn FnMut(&Entry)) {
    let records = shared.ledger().section(SectionKind::Records);
    cells::each_slot(&shared.index, cell, &mut |slot| {
        if u64::from(slot.0) < records.used()
            && let Some(mut entry) = look::whole_record(records, slot.0 as usize)
        {
            shared.complete(&mut entry);
            tell(&entry);
        }
    });
}

/// The block that held an address last, if it was freed and nobody can have had its memory since. `None` also where somebody is just
/// ending or resizing it, so that it is in no index: who was first is not known then.
fn freed_at(shared: &Shared, address: u64) -> Option<FreedEntry> {
    let found = newest_freed(shared, address);
    if found.is_none() || is_recorded(shared, address) {
        return None;
    }
    found
}

/// The entry of the history with the highest number whose block held an address.
pub(crate) fn newest_freed(shared: &Shared, address: u64) -> Option<FreedEntry> {
    let used = look::history_entries(shared);
    if used == 0 || !shared.errors.may_look_through(used, LOOKED_MAX) {
        return None;
    }
    let mut newest: Option<FreedEntry> = None;
    look::each_freed(shared, &mut |entry| {
        let [_, start, size, ..] = entry;
        let inside = address.wrapping_sub(start.load(Ordering::Relaxed) & ADDRESS_MAX);
        if inside != 0 && inside >= size.load(Ordering::Relaxed) & SIZE_ESCAPE {
            return;
        }
        let freed = look::whole_freed(entry).and_then(|words| {
            let [_, _, _, _, end, by, time, wide] = words;
            FreedEntry::unpack_end([end, by, time, wide], |_| true, || look::block_of(&words))
        });
        if let Some(freed) = freed
            && freed.block.address <= address
            && newest.is_none_or(|newest| newest.number < freed.number)
        {
            newest = Some(freed);
        }
    });
    if newest.is_some() {
        shared.errors.has_found(used);
    }
    newest
}

/// Whether a record has this address, though no index leads to it.
fn is_recorded(shared: &Shared, address: u64) -> bool {
    let section = shared.ledger().section(SectionKind::Records);
    let used = section.used().min(section.backed());
    if !shared.errors.may_look_through(used, LOOKED_MAX) {
        return true;
    }
    let is_it = |index: usize| {
        let first = index.wrapping_mul(RECORD_WORDS);
        section.word(first.wrapping_add(1)) & ADDRESS_MAX == address && section.word(first) != 0
    };
    let found = (0..used as usize).any(is_it);
    if !found {
        shared.errors.has_found(used);
    }
    found
}

/// All of an error but the stack of the call.
fn described(
    shared: &Shared,
    found: &Passed,
    address: u64,
    (given_back, found_at, time): (GivenBack, FoundAt, Ticks),
) -> ErrorEntry {
    let is_free = !matches!(found_at, FoundAt::Realloc | FoundAt::Call);
    let bad = match found_at {
        FoundAt::Realloc => ErrorKind::BadRealloc,
        // Nothing else that takes a block asks.
        FoundAt::Call => ErrorKind::BadMallocUsableSize,
        _ => ErrorKind::BadFree,
    };
    let kept = match found {
        Passed::Kept(block) | Passed::Inherited(block) => Some((KeptOfBlock::of(block), block)),
        _ => None,
    };
    let (kind, whereabouts, block) = match found {
        Passed::Kept(Found { offset: 0, life: Life::Live | Life::Freeing, .. }) | Passed::Racing
            if found_at != FoundAt::Call =>
        {
            (ErrorKind::RacingFree, Whereabouts::FreedBlock, None)
        }
        Passed::Racing => (bad, Whereabouts::FreedBlock, None),
        Passed::Inherited(_) => (bad, Whereabouts::Block, None),
        Passed::InheritedFreed(_) => (if is_free { ErrorKind::DoubleFree } else { bad }, Whereabouts::FreedBlock, None),
        Passed::Kept(block) if block.offset == 0 && is_free => (ErrorKind::DoubleFree, Whereabouts::FreedBlock, None),
        Passed::Kept(_) => (bad, Whereabouts::FreedBlock, None),
        Passed::Live(block) => (bad, Whereabouts::Block, Some(block)),
        Passed::Freed(freed) if freed.block.address == address && is_free => {
            (ErrorKind::DoubleFree, Whereabouts::FreedBlock, Some(&freed.block))
        }
        Passed::Freed(freed) => (bad, Whereabouts::FreedBlock, Some(&freed.block)),
        Passed::Never(place) => (bad, *place, None),
    };
    let none = ErrorStack::default();
    let given = block.map_or(none, |block| stack(StackTag::Allocation, block.site, block.thread, block.time));
    let (taken, freed) = match found {
        Passed::Freed(freed) => {
            (stack(StackTag::Free, freed.site, freed.thread, freed.time), freed.number.wrapping_add(1))
        }
        Passed::InheritedFreed(free) => {
            (stack(StackTag::Free, free.site, free.thread.row(), Some(free.time)), free.number_plus_1.0)
        }
        _ => (none, 0),
    };
    let bytes = block.and_then(|block| block.size).unwrap_or(0);
    let [given, taken] = kept.map_or([given, taken], |(kept, _)| kept.stacks());
    let given_by = kept.and_then(|(kept, _)| kept.given_by()).or(block.map(|block| block.kind));
    let (start, bytes) = kept
        .map(|(_, block)| (block.start, block.size))
        .or(block.map(|block| (block.address, bytes)))
        .or(matches!(found, Passed::InheritedFreed(_)).then_some((address, 0)))
        .unwrap_or_default();
    ErrorEntry {
        kind: kind as u16,
        found_by: FoundBy::State as u8,
        found_at: found_at as u8,
        whereabouts: whereabouts as u8,
        given_by: given_by.map_or(0, |kind| kind.0),
        called: given_back.by.0,
        heap: block.and_then(|block| block.heap).map_or(0, |heap| u32::from(heap).wrapping_add(1)),
        address,
        block: start,
        block_bytes: bytes,
        allocated: block.map_or(0, |block| block.number.wrapping_add(1)),
        freed,
        first_time: time,
        last_time: time,
        stacks: [given, taken, none],
        neighbours: if start == 0 { [Neighbour::default(); 2] } else { neighbours(shared, start, bytes) },
        ..ErrorEntry::default()
    }
}

fn stack(tag: StackTag, site: Site, thread: Option<ThreadRow>, time: Option<Ticks>) -> ErrorStack {
    errors::stack(tag, site, thread.unwrap_or(ThreadRow::OTHER), time.unwrap_or_default())
}

/// The live blocks in front of a block and behind it, if they are near.
pub(crate) fn neighbours(shared: &Shared, address: u64, bytes: u64) -> [Neighbour; 2] {
    let end = address.saturating_add(bytes.max(1));
    let told = |block: Option<Entry>| {
        block.map_or(Neighbour::default(), |block| Neighbour {
            address: block.address,
            bytes: block.size.unwrap_or(0),
            site: block.site,
            thread: block.thread.map_or(Default::default(), |row| {
                errors::stack(StackTag::Allocation, block.site, row, Ticks(1)).thread
            }),
        })
    };
    [
        told(nearest_below(shared, address.saturating_sub(NEIGHBOUR_BYTES_MAX), address)),
        told(nearest_above(shared, end, end.saturating_add(NEIGHBOUR_BYTES_MAX))),
    ]
}
