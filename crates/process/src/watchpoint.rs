//! Watchpoints of the processor that a program sets itself: who writes to a few bytes gets SIGTRAP.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};
use heapledger_linux::syscall::{self, Errno};
use heapledger_linux::watchpoints;

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
}

static ALL: [Watch; WATCHES] = [const {
    Watch {
        state: AtomicU32::new(FREE),
        pid: AtomicU32::new(0),
        threads: AtomicU32::new(0),
        fds: [const { AtomicU32::new(0) }; THREADS],
    }
}; WATCHES];

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
            let Some(place) = self.fds.get(count) else {
                failed = Some(NotWatched::TooMany);
                return;
            };
            match watchpoints::watch(thread, address, bytes) {
                Ok(fd) => {
                    place.store(fd as u32, Ordering::Relaxed);
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
        for fd in self.fds.iter().take(self.threads.load(Ordering::Relaxed) as usize) {
            let (fd, mut count) = (fd.load(Ordering::Relaxed) as usize, [0u8; 8]);
            if syscall::read(fd, &mut count).is_ok() {
                writes = writes.wrapping_add(u64::from_ne_bytes(count));
            }
            syscall::close(fd);
        }
        self.threads.store(0, Ordering::Relaxed);
        writes
    }
}

/// From now on SIGTRAP follows each write to these bytes, in whichever thread. The number of the watch.
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
