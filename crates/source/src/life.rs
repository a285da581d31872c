//! Whether somebody still writes a ledger: the one answer that all commands give.
//!
//! A program writes its ledger as long as one of its threads has the mapping. That ends with an exec, and when the last
//! thread gives up its memory, which for a large program is a while before its number is free again. A forked child has
//! the mapping, too, and writes nothing.

use crate::system::{self, Maps};

/// What the process of a ledger does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs, and writes.
    Running,
    /// It has been killed, or dumps core: it will be gone soon.
    Ending,
    /// It is no more, or it became another program: the ledger stays as it is.
    Ended,
}

/// What tells the process that writes a ledger from all others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    /// Its number on this system, if that is known.
    pub(crate) pid: Option<u32>,
    /// Its number as it knows itself, in its own namespace.
    pub(crate) inner_pid: u32,
    /// The namespace of that, if it is known.
    pub(crate) namespace: Option<u64>,
    /// Field 22 of `/proc/PID/stat`; `None` if the program could not look (no `/proc`).
    pub(crate) start_ticks: Option<u64>,
    /// The ledger's file.
    pub(crate) inode: u64,
}

impl Writer {
    /// What it does, and by which number this system knows it.
    pub(crate) fn life(&self) -> (Life, Option<u32>) {
        let pid = self.pid.unwrap_or(self.inner_pid);
        if self.is(pid) {
            return (self.life_of(pid), Some(pid));
        }
        // In a container it has another number there than here. A process of the same namespace has one number.
        if self.namespace.is_some() && self.namespace == system::pid_namespace() {
            return (Life::Ended, None);
        }
        let elsewhere = system::processes_in_namespaces().find(|pid| self.is(*pid));
        elsewhere.map_or((Life::Ended, None), |pid| (self.life_of(pid), Some(pid)))
    }

    fn is(&self, pid: u32) -> bool {
        system::running(pid).is_some_and(|running| {
            self.start_ticks.is_none_or(|ticks| ticks == running.start_ticks)
                && (running.inner_pid == self.inner_pid || pid == self.inner_pid)
        })
    }

    fn life_of(&self, pid: u32) -> Life {
        match system::maps(pid) {
            // Without the right to look, its number and its start must do.
            Maps::Hidden if self.start_ticks.is_some() => Life::Running,
            Maps::Hidden => Life::Ended,
            Maps::Gone => Life::Ended,
            Maps::Known(maps) if !system::maps_inode(&maps, self.inode) => Life::Ended,
            Maps::Known(_) if system::is_ending(pid) => Life::Ending,
            Maps::Known(_) => Life::Running,
        }
    }
}
