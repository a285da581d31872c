//! Calls of the C library with a pointer into a block, which the library beside this one looks at (`crates/calls`): an error with the
//! stack of the call, who allocated the block and who freed it.
#![forbid(unsafe_code)]

use crate::access::{Access, Sign, count_apart};
use crate::breaks::heapledger_error;
use crate::damage::{Around, KeptOfBlock};
use crate::shared::Shared;
use crate::unknown::neighbours;
use crate::{arenas, error_stack, errors, family, hooks, start};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use heapledger_format::errors::{
    Direction, ErrorEntry, ErrorKind, ErrorStack, FoundAt, FoundBy, StackTag, Whereabouts,
};
use heapledger_format::{Entry, Site, TallyCounter, ThreadRow, Ticks};
use heapledger_guard::judging::{FoundBlock, WrongCall};
use heapledger_guard::{Damage, Found, Life};
use heapledger_linux::text::Text;
use heapledger_linux::{apart, syscall};
use heapledger_unwind::Registers;

/// Where nobody reads the ledger, so many calls are told, each once.
const TOLD_MAX: usize = 64;

/// Bits of an address within its page.
const PAGE_MASK: u64 = 4095;

/// Return addresses of those.
static TOLD: [AtomicU64; TOLD_MAX] = [const { AtomicU64::new(0) }; TOLD_MAX];

/// So many writes are remembered whose traces will be found later.
const WRITES_MAX: usize = 64;

/// Of each, which block it was, and from where to where.
static WRITES: [[AtomicU64; 2]; WRITES_MAX] = [const { [const { AtomicU64::new(0) }; 2] }; WRITES_MAX];
static WRITES_COUNT: AtomicUsize = AtomicUsize::new(0);

/// One block of all that there ever were.
fn key(block: &Found) -> u64 {
    block.start ^ block.life_number.wrapping_add(1) << 48
}

/// Places seen from a block's begin, as far as they can be told in half a word.
fn span(from: i64, to: i64) -> u64 {
    let half = |place: i64| place.clamp(i32::MIN.into(), i32::MAX.into()) as i32 as u32;
    u64::from(half(from)) << 32 | u64::from(half(to))
}

/// What such a call writes is told: it need not be told again by who finds it.
fn note_write(block: &Found, call: &WrongCall) {
    let from = call.address.wrapping_sub(block.start) as i64;
    let row = WRITES_COUNT.fetch_add(1, Ordering::Relaxed) % WRITES_MAX;
    if let Some([which, place]) = WRITES.get(row) {
        place.store(span(from, from.saturating_add_unsigned(call.bytes)), Ordering::Relaxed);
        which.store(key(block), Ordering::Release);
    }
}

/// Whether all of this damage was done by calls that were told.
pub(crate) fn was_told(block: &Found, damage: &Damage) -> bool {
    let (key, end) = (key(block), damage.offset.saturating_add_unsigned(damage.bytes));
    WRITES.iter().any(|[which, place]| {
        let span = place.load(Ordering::Relaxed);
        let (from, to) = (i64::from((span >> 32) as i32), i64::from(span as i32));
        which.load(Ordering::Acquire) == key && from <= damage.offset && end <= to
    })
}

/// The block in whose place an address lies, if it is certain whose that is.
#[inline]
pub fn place(address: u64) -> Option<FoundBlock> {
    let (start, bytes, life) = arenas::extent(address)?;
    let is_freed = match life {
        Life::Live => 0,
        Life::Freed | Life::Released => 1,
        // In between: it is not known who was first.
        Life::Freeing => return None,
    };
    Some(FoundBlock { start, bytes, is_freed })
}

/// The kernel is about to access so many bytes: it does not fault on closed pages, but gives up, where without us it would go on.
pub fn prepare(address: u64, bytes: u64) {
    let is_inside = |block: FoundBlock| {
        let inside = address.wrapping_sub(block.start);
        block.is_freed == 0 && inside < block.bytes && bytes <= block.bytes.wrapping_sub(inside)
    };
    if !place(address).is_some_and(is_inside) {
        arenas::open_range(address, bytes);
    }
}

/// Enters a call that accesses what is no live block's, or that it was made again. Where nothing is recorded, and where nobody makes a
/// report of the ledger, a line on standard error says it.
#[cold]
#[inline(never)]
pub fn report(shared: &'static Shared, registers: &Registers, call: &WrongCall) {
    let Some(found) = arenas::lookup(call.address) else { return };
    let _ = family::note_fork(shared);
    let is_overlap = call.other != [0, 0];
    if call.writes == 1 && !is_overlap {
        note_write(&found, call);
    }
    let sign = Sign::new();
    apart::run(&mut || {
        let follows = hooks::follows(shared);
        if follows {
            match Access::enter(shared, registers, &sign) {
                Ok(mut access) => {
                    let site = error_stack::of_call(&mut access, registers);
                    let row = access.state.row;
                    let label = access.state.thread().label.load(Ordering::Relaxed);
                    let entered = enter(shared, &found, call, (site, row), label);
                    access.count_error(entered);
                }
                // A signal handler that has interrupted the recorder: whose call it is nobody can tell then.
                Err(_) if enter(shared, &found, call, (Site::NONE, ThreadRow::OTHER), 0) => heapledger_error(),
                Err(_) => {}
            }
        } else {
            count_apart(shared, TallyCounter::ErrorsUnrecorded);
        }
        if !(follows && shared.settings().guard.has_reader) {
            say(&found, call, registers);
        }
        errors::halt_if_asked(shared);
        if is_overlap {
            return; // nothing is in its way
        }
        // It goes on, and is told once: a text that has no end is read up to the next page, which is zeros then.
        let page_behind = (found.end().saturating_sub(1) | PAGE_MASK).wrapping_add(2).saturating_sub(call.address);
        let bytes = if call.writes == 1 { call.bytes } else { call.bytes.max(page_behind) };
        arenas::open_range(call.address, bytes);
    });
}

/// What is wrong: the kind, and the first byte that is.
fn wrong(found: &Found, call: &WrongCall) -> (ErrorKind, u64) {
    if call.other != [0, 0] {
        let is_of_bytes = call.name().windows(3).any(|letters| letters == b"mem");
        return (if is_of_bytes { ErrorKind::MemcpyOverlap } else { ErrorKind::StrcpyOverlap }, call.address);
    }
    if found.life != Life::Live {
        return (ErrorKind::UseAfterFree, call.address);
    }
    if call.bytes > i64::MAX as u64 {
        return (ErrorKind::NegativeSize, call.address.max(found.start));
    }
    match call.address < found.start {
        true => (ErrorKind::BufferUnderflow, call.address),
        false => (ErrorKind::BufferOverflow, call.address.max(found.end())),
    }
}

fn enter(shared: &'static Shared, found: &Found, call: &WrongCall, (site, row): (Site, ThreadRow), label: u32) -> bool {
    let time = shared.now().max(Ticks(1));
    let (kind, first) = wrong(found, call);
    let is_freed = found.life != Life::Live;
    let kept = is_freed.then(|| KeptOfBlock::of(found));
    let live: Option<Entry> = if is_freed { None } else { arenas::entry_of(shared, found) };
    let none = ErrorStack::default();
    let given = live.map_or(none, |block| {
        let thread = block.thread.unwrap_or(ThreadRow::OTHER);
        errors::stack(StackTag::Allocation, block.site, thread, block.time.unwrap_or_default())
    });
    let [given, taken] = kept.map_or([given, none], |kept| kept.stacks());
    let access = errors::stack(StackTag::Access, site, row, time);
    let is_inside = call.address >= found.start && call.address < found.end();
    let whereabouts = match is_freed {
        true => Whereabouts::FreedBlock,
        false if is_inside => Whereabouts::Block,
        false => Whereabouts::Heap,
    };
    let given_by = kept.and_then(|kept| kept.given_by()).or(live.map(|block| block.kind));
    let entry = ErrorEntry {
        kind: kind as u16,
        found_by: FoundBy::Range as u8,
        found_at: FoundAt::Call as u8,
        direction: if call.writes == 1 { Direction::Write } else { Direction::Read } as u8,
        whereabouts: whereabouts as u8,
        given_by: given_by.map_or(0, |kind| kind.0),
        heap: live.and_then(|block| block.heap).map_or(0, |heap| u32::from(heap).wrapping_add(1)),
        address: call.address,
        bytes: call.bytes,
        block: found.start,
        block_bytes: found.size,
        allocated: live.map_or(0, |block| block.number.wrapping_add(1)),
        first_time: time,
        last_time: time,
        stacks: [given, taken, access],
        neighbours: neighbours(shared, found.start, found.size),
        operands: if kind == ErrorKind::NegativeSize { [call.bytes, 0] } else { call.other },
        label,
        ..ErrorEntry::default()
    };
    let around = arenas::around(found, first);
    let bytes = around.as_ref().map_or((0, &[][..]), Around::bytes);
    shared.errors.enter_call(shared.ledger(), &entry, bytes, call.name())
}

/// Whether nobody was told yet of a call that returns to this address.
fn is_new(code: u64) -> bool {
    for place in &TOLD {
        match place.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(known) if known == code => return false,
            Err(_) => {}
        }
    }
    false
}

/// `heap-buffer-overflow: memcpy writes 49 bytes, 0 bytes inside the 48-byte block at 0x7f…, called from 0x55… (process 77)`
fn say(found: &Found, call: &WrongCall, registers: &Registers) {
    if !is_new(registers.ip) {
        return;
    }
    let (kind, _) = wrong(found, call);
    let mut line = Text::<220>::new();
    line.push(kind.name().as_bytes()).push(b": ").push(call.name());
    line.push(if call.writes == 1 { b" writes " } else { b" reads " }).push_number(call.bytes);
    line.push(if call.bytes == 1 { b" byte, " } else { b" bytes, " });
    let (address, start, end) = (call.address, found.start, found.end());
    let inside = (start..end.max(start.wrapping_add(1))).contains(&address);
    let (distance, place): (u64, &[u8]) = match inside {
        true => (address.wrapping_sub(start), b" bytes inside the "),
        false if address < start => (start.wrapping_sub(address), b" bytes before the "),
        false => (address.wrapping_sub(end), b" bytes after the "),
    };
    line.push_number(distance).push(place).push(if found.life == Life::Live { b"" } else { b"freed " });
    line.push_number(found.size).push(b"-byte block at 0x").push_hex(start);
    line.push(b", called from 0x").push_hex(registers.ip);
    line.push(b" (process ").push_number(u64::from(syscall::getpid())).push(b")");
    start::complain(&[line.bytes()]);
}
