//! Watchpoints of the processor that a program sets itself: who writes to a few bytes gets SIGTRAP.
//!
//! Where this process is recorded, and nobody else handles that signal, the write is entered as an error with the writer's stack, and the
//! program goes on ([`fired`]). As of a [fault](crate::faults) nothing of the thread's books is used: it may be anywhere.
#![forbid(unsafe_code)]

use crate::access::count_apart;
use crate::breaks::heapledger_error;
use crate::damage::Around;
use crate::shared::Shared;
use crate::state::ThreadState;
use crate::sweep::Copied;
use crate::unknown::{block_at, neighbours};
use crate::{arenas, errors, faults, hooks, start, trapped, ways};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use heapledger_format::errors::{
    Direction, ErrorEntry, ErrorKind, ErrorStack, FoundAt, FoundBy, StackTag, Whereabouts,
};
use heapledger_format::{TallyCounter, ThreadRow, Ticks};
use heapledger_linux::apart;
use heapledger_linux::context::Interrupted;
use heapledger_linux::syscall::{self, Errno};
use heapledger_linux::text::Text;
use heapledger_linux::watchpoints::{self, Event};

/// At a time: as many as an x86 processor has.
const WATCHES: usize = 4;
/// Threads there may be when one is set.
const THREADS: usize = 256;

const FREE: u32 = 0;
const CHANGES: u32 = 1;
const WATCHES_NOW: u32 = 2;

struct Watch {
    state: AtomicU32,
    /// In which process it was set: a child has only copies of the descriptors.
    pid: AtomicU32,
    threads: AtomicU32,
    fds: [AtomicU32; THREADS],
    ids: [AtomicU64; THREADS],
    /// What is or was watched: it stands when the watch has ended, for a thread that has just written.
    address: AtomicU64,
    bytes: AtomicU64,
}

static ALL: [Watch; WATCHES] = [const {
    Watch {
        state: AtomicU32::new(FREE),
        pid: AtomicU32::new(0),
        threads: AtomicU32::new(0),
        fds: [const { AtomicU32::new(0) }; THREADS],
        ids: [const { AtomicU64::new(0) }; THREADS],
        address: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
    }
}; WATCHES];

/// Nobody may ask whether a descriptor is a watch's still.
static UNASKED: AtomicBool = AtomicBool::new(false);

/// From now on watches that end keep their descriptors: the program is about to put on a filter by which it would die of what that takes.
#[cold]
pub fn end_no_more() {
    UNASKED.store(true, Ordering::Relaxed);
}

/// Why nothing is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotWatched {
    /// The bytes are not 1, 2, 4 or 8, or the address is no multiple of them.
    Invalid,
    /// As many are watched as can be, or there are too many threads.
    TooMany,
    /// The system will not.
    System(Errno),
    /// There is no such watch.
    Unknown,
}

impl Watch {
    fn set(&self, address: u64, bytes: u64) -> Result<(), NotWatched> {
        let (mut count, mut failed) = (0, None);
        let listed = watchpoints::each_thread(&mut |thread| {
            if failed.is_some() {
                return;
            }
            let (Some(fd), Some(id)) = (self.fds.get(count), self.ids.get(count)) else {
                failed = Some(NotWatched::TooMany);
                return;
            };
            match watchpoints::watch(thread, address, bytes) {
                Ok(event) => {
                    fd.store(event.fd as u32, Ordering::Relaxed);
                    id.store(event.id, Ordering::Relaxed);
                    count = count.wrapping_add(1);
                }
                // It has ended.
                Err(Errno::SRCH) => {}
                Err(Errno::NOSPC) => failed = Some(NotWatched::TooMany),
                Err(why) => failed = Some(NotWatched::System(why)),
            }
        });
        self.threads.store(count as u32, Ordering::Relaxed);
        let failed = failed.or(listed.err().map(NotWatched::System));
        failed.map_or(Ok(()), |why| {
            self.end();
            Err(why)
        })
    }

    /// How many writes there were.
    fn end(&self) -> u64 {
        let mut writes = 0_u64;
        for (fd, id) in self.fds.iter().zip(&self.ids).take(self.threads.load(Ordering::Relaxed) as usize) {
            let event = Event { fd: fd.load(Ordering::Relaxed) as usize, id: id.load(Ordering::Relaxed) };
            if !UNASKED.load(Ordering::Relaxed) {
                writes = writes.wrapping_add(event.end().unwrap_or(0));
            }
        }
        self.threads.store(0, Ordering::Relaxed);
        writes
    }
}

/// From now on SIGTRAP follows each write to these bytes, in whichever thread. The number of the watch. Where this process is recorded, that is
/// handled, unless it is already.
///
/// # Errors
/// If nothing is watched.
pub fn watch(address: usize, bytes: usize) -> Result<u32, NotWatched> {
    if !matches!(bytes, 1 | 2 | 4 | 8) || !address.is_multiple_of(bytes) || address == 0 {
        return Err(NotWatched::Invalid);
    }
    let claims =
        |watch: &&Watch| watch.state.compare_exchange(FREE, CHANGES, Ordering::Acquire, Ordering::Relaxed).is_ok();
    let (number, watch) = ALL.iter().enumerate().find(|(_, watch)| claims(watch)).ok_or(NotWatched::TooMany)?;
    watch.bytes.store(bytes as u64, Ordering::Relaxed);
    watch.address.store(address as u64, Ordering::Release);
    if ways::own_shared().is_some_and(hooks::follows) {
        trapped::begin();
    }
    let set = watch.set(address as u64, bytes as u64);
    watch.pid.store(syscall::getpid(), Ordering::Relaxed);
    watch.state.store(if set.is_ok() { WATCHES_NOW } else { FREE }, Ordering::Release);
    set.map(|()| number as u32)
}

/// A watch ends; how many writes there were.
///
/// # Errors
/// If there is no such watch.
pub fn unwatch(number: u32) -> Result<u64, NotWatched> {
    let watch = ALL.get(number as usize).ok_or(NotWatched::Unknown)?;
    let ends = watch.state.compare_exchange(WATCHES_NOW, CHANGES, Ordering::Acquire, Ordering::Relaxed);
    ends.map_err(|_| NotWatched::Unknown)?;
    let writes = watch.end();
    watch.state.store(FREE, Ordering::Release);
    if watch.pid.load(Ordering::Relaxed) == syscall::getpid() { Ok(writes) } else { Err(NotWatched::Unknown) }
}

/// Somebody has written to a place that is watched. False if nothing is recorded, and nothing was done.
#[cold]
pub(crate) fn fired(address: u64, interrupted: &Interrupted) -> bool {
    let Some(shared) = ways::own_shared().filter(|shared| hooks::follows(shared)) else { return false };
    // The guard itself writes what lies around blocks. (Where this code is part of the program's own module, nobody can tell.)
    let is_ours = shared.settings().tells_of_memory
        && shared.modules.own_module().contains(&(interrupted.ip.wrapping_sub(1) as usize));
    if !is_ours {
        apart::run(&mut || {
            enter(shared, address, interrupted);
            errors::halt_if_asked(shared);
        });
    }
    true
}

fn enter(shared: &'static Shared, address: u64, interrupted: &Interrupted) {
    let watched = ALL.iter().find(|watch| watch.address.load(Ordering::Acquire) == address);
    let bytes = watched.map_or(0, |watch| watch.bytes.load(Ordering::Relaxed));
    let time = shared.now().max(Ticks(1));
    let block = match arenas::contains(address as usize) {
        true => arenas::lookup(address).and_then(|found| arenas::entry_of(shared, &found)),
        false => block_at(shared, address),
    };
    let none = ErrorStack::default();
    let given = block.map_or(none, |block| {
        let thread = block.thread.unwrap_or(ThreadRow::OTHER);
        errors::stack(StackTag::Allocation, block.site, thread, block.time.unwrap_or_default())
    });
    let state = ThreadState::of_this_thread();
    let thread = state.and_then(|state| state.row_plus_1.get().row()).unwrap_or(ThreadRow::OTHER);
    // The instruction is over: it ends where the program goes on.
    let here = errors::stack(StackTag::Access, faults::site(shared, interrupted, interrupted.ip), thread, time);
    let (start, size) = block.map_or((0, 0), |block| (block.address, block.size.unwrap_or(0)));
    let is_inside = start != 0 && address.wrapping_sub(start) < size;
    let entry = ErrorEntry {
        kind: ErrorKind::WatchedWrite as u16,
        found_by: FoundBy::Program as u8,
        found_at: FoundAt::Instruction as u8,
        direction: Direction::Write as u8,
        whereabouts: if is_inside { Whereabouts::Block as u8 } else { 0 },
        given_by: block.map_or(0, |block| block.kind.0),
        heap: block.and_then(|block| block.heap).map_or(0, |heap| u32::from(heap).wrapping_add(1)),
        address,
        bytes,
        block: start,
        block_bytes: size,
        allocated: block.map_or(0, |block| block.number.wrapping_add(1)),
        first_time: time,
        last_time: time,
        stacks: if given.tag == 0 { [here, none, none] } else { [given, here, none] },
        program_counter: interrupted.ip,
        stack_pointer: interrupted.sp,
        frame_pointer: interrupted.bp,
        neighbours: if start == 0 { Default::default() } else { neighbours(shared, start, size) },
        label: state.map_or(0, |state| state.label.load(Ordering::Relaxed)),
        ..ErrorEntry::default()
    };
    const AROUND_BYTES: u64 = 64;
    let around = Around::of(&Copied::new(), address, address & !15, (address & !15).saturating_add(AROUND_BYTES));
    if shared.errors.enter_with(shared.ledger(), &entry, around.bytes()) {
        heapledger_error();
    } else {
        count_apart(shared, TallyCounter::ErrorsLost);
    }
    if !shared.settings().guard.has_reader {
        let mut line = Text::<200>::new();
        line.push(b"watched-write: somebody has written to 0x").push_hex(address);
        line.push(b", by the instruction before 0x").push_hex(interrupted.ip);
        line.push(b" (process ").push_number(u64::from(syscall::getpid())).push(b")");
        start::complain(&[line.bytes()]);
    }
}
