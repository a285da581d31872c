//! What was written beside a block, or into one that was freed: an error with who allocated it, and who freed it.
#![forbid(unsafe_code)]

use crate::access::{Access, Sign, count_apart};
use crate::breaks::heapledger_error;
use crate::periodic::PERIODIC;
use crate::shared::Shared;
use crate::unknown::{neighbours, newest_freed};
use crate::{arenas, errors, family, hooks, look, start};
use core::sync::atomic::Ordering;
use heapledger_format::errors::{
    Direction, ErrorEntry, ErrorKind, ErrorStack, FoundAt, FoundBy, StackTag, Whereabouts,
};
use heapledger_format::guard::Kept;
use heapledger_format::record::{ADDRESS_MAX, RECORD_WORDS};
use heapledger_format::{Entry, FreedEntry, Kind, SectionKind, TallyCounter, ThreadRow, Ticks};
use heapledger_guard::{Checked, Damage, Found, HEADER_BYTES, Life, Memory, Region, TAIL_BYTES};
use heapledger_linux::text::Text;
use heapledger_linux::{apart, syscall};
use heapledger_unwind::Registers;

/// Bytes around that are kept with an error.
const AROUND_BYTES: usize = 64;

/// Memory around damage.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    first: u64,
    bytes: [u8; AROUND_BYTES],
    count: usize,
}

impl Around {
    /// Up to 64 bytes around an address, of those from `low` to `high`, all of which must be in `memory`.
    pub fn of(memory: &impl Memory, address: u64, low: u64, high: u64) -> Around {
        const BEFORE_BYTES: u64 = 24;
        // Rows of sixteen bytes, as memory is shown.
        let first = (address.saturating_sub(BEFORE_BYTES) & !15).max(low);
        let mut around = Around { first, bytes: [0; AROUND_BYTES], count: 0 };
        let end = high.min(first.saturating_add(AROUND_BYTES as u64));
        for (place, at) in around.bytes.iter_mut().zip(first..end) {
            let Some([byte]) = memory.read::<1>(at) else { break };
            *place = byte;
            around.count = around.count.wrapping_add(1);
        }
        around
    }

    /// The bytes, and where the first of them lies.
    pub(crate) fn bytes(&self) -> (u64, &[u8]) {
        (self.first, self.bytes.get(..self.count).unwrap_or(&[]))
    }
}

/// Damage that was found.
#[derive(Clone, Copy, Debug)]
pub struct FoundDamage<'d> {
    /// Where the block lies.
    pub block: u64,
    /// Bytes asked for, if its header tells.
    pub size: Option<u64>,
    /// What is damaged.
    pub damage: &'d Damage,
    /// When it was found.
    pub at: FoundAt,
    /// The function in which it was found; [`Kind::NONE`]: none.
    pub called: Kind,
    /// Memory around it.
    pub around: &'d Around,
    /// What was kept of a block that was freed and waits.
    pub kept: Option<KeptOfBlock>,
}

/// What was kept of a block beside it: who allocated it and who freed it.
#[derive(Clone, Copy, Debug)]
pub struct KeptOfBlock {
    given: Option<Kept>,
    taken: Option<Kept>,
}

impl KeptOfBlock {
    /// Of a block of the guard's own memory.
    pub(crate) fn of(block: &heapledger_guard::Found) -> KeptOfBlock {
        KeptOfBlock { given: Kept::of_words(block.allocated), taken: Kept::of_words(block.freed) }
    }

    /// The function that gave the block, if that is known.
    pub(crate) fn given_by(&self) -> Option<Kind> {
        self.given.map(|kept| kept.kind)
    }

    /// The stacks of both.
    pub(crate) fn stacks(&self) -> [ErrorStack; 2] {
        let stack = |tag, kept: Option<Kept>| {
            let known = kept.and_then(|kept| Some((kept, family::ancestor(&kept)?)));
            known.map_or(ErrorStack::default(), |(kept, ancestor)| ErrorStack {
                ancestor,
                ..errors::stack(tag, kept.site, kept.thread, kept.time)
            })
        };
        [stack(StackTag::Allocation, self.given), stack(StackTag::Free, self.taken)]
    }
}

/// What the ledger knows of the block.
enum KnownBlock {
    Live(Entry),
    Freed(FreedEntry),
    Nothing,
}

/// Tells of all that is damaged beside a block, which must be in `memory`. `when`: and in which function; [`Kind::NONE`]: in none.
#[cold]
#[inline(never)]
pub fn tell(
    shared: &'static Shared,
    memory: &impl Memory,
    checked: &Checked,
    address: usize,
    (at, called): (FoundAt, Kind),
) {
    let block = address as u64;
    let (low, high) = checked.block.map_or((block.wrapping_sub(HEADER_BYTES), block), |block| {
        (block.given(), block.end().wrapping_add(TAIL_BYTES).wrapping_add(block.slack))
    });
    for damage in [&checked.below, &checked.above].into_iter().flatten() {
        let around = Around::of(memory, block.wrapping_add(damage.offset as u64), low, high);
        let size = checked.block.map(|block| block.size);
        report(shared, &FoundDamage { block, size, damage, at, called, around: &around, kept: None });
    }
}

/// Enters damage, or that it was found again. Where nothing is recorded, and where nobody makes a report of the ledger, a line on
/// standard error says it.
#[cold]
#[inline(never)]
pub fn report(shared: &'static Shared, found: &FoundDamage) {
    apart::run(&mut || {
        let is_told = hooks::follows(shared) && shared.settings().guard.has_reader;
        if hooks::follows(shared) {
            enter(shared, found);
        } else {
            count_apart(shared, TallyCounter::ErrorsUnrecorded);
        }
        if !is_told {
            say(found);
        }
        errors::halt_if_asked(shared);
    });
}

fn kind(found: &FoundDamage) -> ErrorKind {
    if found.damage.region == Region::Freed {
        return ErrorKind::UseAfterFree;
    }
    if found.damage.offset < 0 { ErrorKind::BufferUnderflow } else { ErrorKind::BufferOverflow }
}

fn enter(shared: &'static Shared, found: &FoundDamage) {
    let time = shared.now().max(Ticks(1));
    let known = if found.kept.is_some() { KnownBlock::Nothing } else { known(shared, found) };
    let (block, freed) = match &known {
        KnownBlock::Live(block) => (Some(block), None),
        KnownBlock::Freed(freed) => (Some(&freed.block), Some(freed)),
        KnownBlock::Nothing => (None, None),
    };
    let size = found.size.or(block.and_then(|block| block.size)).unwrap_or(0);
    let none = ErrorStack::default();
    let stack = |tag, site, thread: Option<ThreadRow>, time: Option<Ticks>| {
        errors::stack(tag, site, thread.unwrap_or(ThreadRow::OTHER), time.unwrap_or_default())
    };
    let given = block.map_or(none, |block| stack(StackTag::Allocation, block.site, block.thread, block.time));
    let taken = freed.map_or(none, |freed| stack(StackTag::Free, freed.site, freed.thread, freed.time));
    let inherited = (found.at == FoundAt::Free && freed.is_none()).then(|| family::inherited_free(shared, found.block));
    let taken =
        inherited.flatten().map_or(taken, |free| stack(StackTag::Free, free.site, free.thread.row(), Some(free.time)));
    let [given, taken] = found.kept.map_or([given, taken], |kept| kept.stacks());
    let given_by = found.kept.and_then(|kept| kept.given_by()).or(block.map(|block| block.kind));
    let is_freed = found.damage.region == Region::Freed;
    let (expected, shown) = (words_of(found.damage.expected.as_slice()), words_of(found.damage.found.as_slice()));
    let entry = ErrorEntry {
        kind: kind(found) as u16,
        found_by: if is_freed { FoundBy::Fill } else { FoundBy::Canary } as u8,
        found_at: found.at as u8,
        direction: Direction::Write as u8,
        whereabouts: if is_freed { Whereabouts::FreedBlock } else { Whereabouts::Heap } as u8,
        given_by: given_by.map_or(0, |kind| kind.0),
        called: found.called.0,
        heap: block.and_then(|block| block.heap).map_or(0, |heap| u32::from(heap).wrapping_add(1)),
        address: found.block.wrapping_add(found.damage.offset as u64),
        bytes: found.damage.bytes,
        block: found.block,
        block_bytes: size,
        allocated: block.map_or(0, |block| block.number.wrapping_add(1)),
        freed: freed.map_or(0, |freed| freed.number.wrapping_add(1)),
        first_time: time,
        last_time: time,
        stacks: [given, taken, none],
        expected,
        found: shown,
        // When all blocks were whole last: one that was there then was damaged later.
        operands: [PERIODIC.whole().0, 0],
        compared: found.damage.expected.as_slice().len() as u16,
        neighbours: neighbours(shared, found.block, size),
        label: block.map_or(0, |block| block.label.0),
        ..ErrorEntry::default()
    };
    let entered = shared.errors.enter_with(shared.ledger(), &entry, found.around.bytes());
    let sign = Sign::new();
    let registers = Registers { sp: &raw const sign as u64, ..Registers::default() };
    match Access::enter(shared, &registers, &sign) {
        Ok(access) => access.count_wrong(entered),
        Err(_) if entered => heapledger_error(),
        Err(_) => {}
    }
}

fn words_of(bytes: &[u8]) -> [u8; 8] {
    let mut all = [0; 8];
    all.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    all
}

fn known(shared: &Shared, found: &FoundDamage) -> KnownBlock {
    let live = look::slot_of(shared, &shared.index, found.block);
    if let Some(block) = live.and_then(|slot| Entry::unpack(&shared.words_of(slot, Ordering::Acquire))) {
        return KnownBlock::Live(complete(shared, block));
    }
    match found.at {
        // Whoever frees it has taken it out before.
        FoundAt::Free => newest_freed(shared, found.block)
            .filter(|freed| freed.block.address == found.block)
            .map_or(KnownBlock::Nothing, KnownBlock::Freed),
        _ => {
            recorded(shared, found.block).map_or(KnownBlock::Nothing, |block| KnownBlock::Live(complete(shared, block)))
        }
    }
}

fn complete(shared: &Shared, mut block: Entry) -> Entry {
    shared.complete(&mut block);
    block
}

/// The record of a block that somebody has taken out of the index, to resize it.
fn recorded(shared: &Shared, address: u64) -> Option<Entry> {
    let section = shared.ledger().section(SectionKind::Records);
    let used = section.used().min(section.backed()) as usize;
    let is_it = |index: &usize| {
        let first = index.wrapping_mul(RECORD_WORDS);
        section.word(first.wrapping_add(1)) & ADDRESS_MAX == address && section.word(first) != 0
    };
    look::whole_record(section, (0..used).find(is_it)?)
}

/// `heap-buffer-overflow: 4 bytes were written 0 bytes after the 13-byte block at 0x55…, found when it was freed (process 77)`
fn say(found: &FoundDamage) {
    let mut line = Text::<200>::new();
    let (offset, size) = (found.damage.offset, found.size);
    line.push(kind(found).name().as_bytes()).push(b": ").push_number(found.damage.bytes);
    line.push(if found.damage.bytes == 1 { b" byte was written " } else { b" bytes were written " });
    match size {
        _ if found.damage.region == Region::Freed => {
            line.push_number(offset as u64).push(b" bytes inside the freed ");
        }
        _ if offset < 0 => {
            let gap = offset.unsigned_abs().saturating_sub(found.damage.bytes);
            line.push_number(gap).push(b" bytes before the ");
        }
        Some(size) => {
            line.push_number((offset as u64).saturating_sub(size)).push(b" bytes after the ");
        }
        None => {
            line.push(b"beside the ");
        }
    }
    if let Some(size) = size {
        line.push_number(size).push(b"-byte ");
    }
    line.push(b"block at 0x").push_hex(found.block).push(b", found ");
    let when: &[u8] = match found.at {
        FoundAt::Free => b"when it was freed",
        FoundAt::Realloc => b"when it was resized",
        FoundAt::Exit => b"when the program ended",
        FoundAt::Quarantine => b"when its memory was about to be used again",
        FoundAt::Signal => b"when the program died of a signal",
        _ => b"in a check",
    };
    line.push(when).push(b" (process ").push_number(u64::from(syscall::getpid())).push(b")");
    start::complain(&[line.bytes()]);
}

/// A block could not be freed, or resized, because none begins there that is live: a line, where nobody reads the ledger, who is told by the
/// recorder.
#[cold]
#[inline(never)]
pub fn say_wrong_free(shared: &'static Shared, address: usize, is_resized: bool) {
    let is_followed = hooks::follows(shared);
    if !is_followed {
        count_apart(shared, TallyCounter::ErrorsUnrecorded);
    }
    if !(is_followed && shared.settings().guard.has_reader) {
        let mut line = Text::<200>::new();
        // What waits is known in forked children, too.
        let waits = |block: &Found| block.offset == 0 && block.life == Life::Freed;
        let freed = arenas::lookup(address as u64).filter(waits);
        let kind = match freed {
            _ if is_resized => ErrorKind::BadRealloc,
            Some(_) => ErrorKind::DoubleFree,
            None => ErrorKind::BadFree,
        };
        line.push(kind.name().as_bytes());
        match freed {
            Some(block) => line.push(b": the block of ").push_number(block.size).push(b" bytes was freed before at 0x"),
            None => line.push(b": no live block begins at 0x"),
        };
        line.push_hex(address as u64)
            .push(b", nothing was freed (process ")
            .push_number(u64::from(syscall::getpid()))
            .push(b")");
        start::complain(&[line.bytes()]);
        errors::halt_if_asked(shared);
    }
}
