//! Watchpoints of the processor, had from the kernel (`perf_event_open`), and the threads that they are for.
#![forbid(unsafe_code)]

use crate::syscall::{self, Result, open_flag};
use crate::text;

/// A thread that is watched.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The descriptor that it was given.
    pub fd: usize,
    /// Its number in the kernel.
    pub id: u64,
}

impl Event {
    /// Ends it; how many writes there were. `None` if the program has closed the descriptor, which may be of a file of its own by now: that is
    /// left alone.
    pub fn end(self) -> Option<u64> {
        if syscall::event_id(self.fd) != Ok(self.id) {
            return None;
        }
        let mut count = [0u8; 8];
        let writes = syscall::read(self.fd, &mut count).map_or(0, |_| u64::from_ne_bytes(count));
        syscall::close(self.fd);
        Some(writes)
    }
}

/// Watches the writes of a thread, and of those that it begins, to 1, 2, 4 or 8 bytes at an address that is a multiple of that. Each is followed by
/// SIGTRAP at once. [`Event::end`] ends that.
///
/// # Errors
/// If the kernel will not (`EACCES`, `EPERM`), cannot (`ENOENT`, `EOPNOTSUPP`, `EINVAL` before Linux 5.13), or all registers for it are taken (`ENOSPC`).
pub fn watch(thread: u32, address: u64, bytes: u64) -> Result<Event> {
    const BREAKPOINT: u64 = 5;
    const WRITES: u64 = 2;
    /// With the threads that are begun, not the kernel's own accesses, gone with exec, with the signal.
    const FLAGS: u64 = 1 << 1 | 1 << 5 | 1 << 6 | 1 << 35 | 1 << 36 | 1 << 37;
    const BYTES: u64 = 128;
    let mut attributes = [0u64; 16];
    let words = [BREAKPOINT | BYTES << 32, 0, 1, 0, 0, FLAGS, WRITES << 32, address, bytes];
    attributes.iter_mut().zip(words).for_each(|(place, word)| *place = word);
    let fd = syscall::open_event(&attributes, thread)?;
    let id = syscall::event_id(fd);
    if id.is_err() {
        syscall::close(fd);
    }
    Ok(Event { fd, id: id? })
}

/// Names each thread of the process. Those that begin or end meanwhile are named or not.
///
/// # Errors
/// If there is no `/proc`.
pub fn each_thread(each: &mut dyn FnMut(u32)) -> Result<()> {
    let fd = syscall::open(c"/proc/self/task", open_flag::READ | open_flag::DIRECTORY | open_flag::CLOSE_ON_EXEC, 0)?;
    let mut entries = [0u8; 2048];
    let read = loop {
        match syscall::read_directory(fd, &mut entries) {
            Ok(0) => break Ok(()),
            Ok(count) => names(entries.get(..count).unwrap_or(&[]), each),
            Err(why) => break Err(why),
        }
    };
    syscall::close(fd);
    read
}

/// Entries of a directory: 8 bytes inode, 8 place, 2 length of all of it, 1 type, name and a zero.
fn names(mut entries: &[u8], each: &mut dyn FnMut(u32)) {
    const NAME_AT: usize = 19;
    while let (Some(length), Some(name)) = (entries.get(16..18), entries.get(NAME_AT..)) {
        let length = length.first_chunk().map_or(0, |bytes| usize::from(u16::from_ne_bytes(*bytes)));
        let name = name.split(|byte| *byte == 0).next().unwrap_or(&[]);
        if let Some(thread) = text::number(name).and_then(|number| u32::try_from(number).ok()) {
            each(thread);
        }
        let Some(rest) = entries.get(length.max(1)..) else { break };
        entries = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn this_thread_is_one() {
        let mut all = Vec::new();
        each_thread(&mut |thread| all.push(thread)).expect("there is /proc");
        assert!(all.contains(&syscall::gettid()), "{all:?}");
    }

    #[test]
    fn nonsense_names_nobody() {
        for length in 0..64u8 {
            let entries: Vec<u8> = (0..length).map(|at| at.wrapping_mul(37)).collect();
            names(&entries, &mut |thread| panic!("{thread}"));
        }
    }
}
