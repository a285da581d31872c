//! Moments with names.
#![forbid(unsafe_code)]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use heapledger_format::mark::MarkKind;
    use heapledger_process::marks::NewMark;
    use heapledger_process::ways;

    fn set(new: &NewMark) -> Option<u32> {
        ways::recorder()?.mark(new).ok()
    }

    fn of_all_threads(kind: MarkKind, name: &str) -> NewMark<'_> {
        NewMark { kind, name: name.as_bytes(), about: 0, of_own_thread: false }
    }

    pub(super) fn mark(name: &str) -> bool {
        set(&of_all_threads(MarkKind::Mark, name)).is_some()
    }

    pub(super) fn mark_thread(name: &str) -> bool {
        set(&NewMark { of_own_thread: true, ..of_all_threads(MarkKind::Mark, name) }).is_some()
    }

    pub(super) fn begin(name: &str) -> Option<u32> {
        set(&of_all_threads(MarkKind::ScopeBegins, name))
    }

    pub(super) fn end(begun: u32) {
        let _ = set(&NewMark { about: begun, ..of_all_threads(MarkKind::ScopeEnds, "") });
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod here {
    pub(super) fn mark(_: &str) -> bool {
        false
    }
    pub(super) fn mark_thread(_: &str) -> bool {
        false
    }
    pub(super) fn begin(_: &str) -> Option<u32> {
        None
    }
    pub(super) fn end(_: u32) {}
}

/// Names this moment. `heapledger dump --since NAME` then shows what was allocated after it, by whichever thread.
///
/// The mark divides events exactly: what a thread begins after this function has returned comes after it, as far as the
/// program itself can tell, and what had ended when it was called comes before it. It costs a few microseconds, and
/// nothing in between. A ledger has room for 16,384 marks (small ones for fewer); names beyond 4,095 bytes are cut.
///
/// False if the mark is not in the ledger: nothing is recorded in this process, or there is no room for it. What found no
/// room is counted, and reports say so.
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// # fn main() {
/// let configuration = vec![0u8; 1000];
/// let is_set = heapledger::mark("initialised");
/// let buffer = vec![0u8; 2000]; // heapledger dump --since initialised
/// # assert_eq!(is_set, cfg!(all(target_os = "linux", target_arch = "x86_64")));
/// # drop((configuration, buffer));
/// # heapledger::discard();
/// # }
/// ```
pub fn mark(name: &str) -> bool {
    here::mark(name)
}

/// Names this moment of the calling thread: it divides what this thread does, and nothing is said of others. It costs
/// them nothing.
///
/// False if it is not in the ledger: as of [`mark`], or the call came from a signal handler in the middle of an allocation.
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// # fn main() {
/// let is_set = heapledger::mark_thread("request 17");
/// # assert_eq!(is_set, cfg!(all(target_os = "linux", target_arch = "x86_64")));
/// # heapledger::discard();
/// # }
/// ```
pub fn mark_thread(name: &str) -> bool {
    here::mark_thread(name)
}

/// A part of the program's run, from where it was made to where it is dropped. See [`scope`].
#[derive(Debug)]
#[must_use = "the scope ends where this is dropped"]
pub struct ScopeGuard {
    /// The row of the mark where it began, plus 1; `None`: that is not in the ledger.
    begun: Option<u32>,
}

/// Names a part of the program's run, of all its threads: marks where it begins and where it ends.
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// # fn main() {
/// let loading = heapledger::scope("load");
/// let data = vec![0u8; 1000];
/// drop(loading);
/// # drop(data);
/// # heapledger::discard();
/// # }
/// ```
pub fn scope(name: &str) -> ScopeGuard {
    ScopeGuard { begun: here::begin(name) }
}

impl ScopeGuard {
    /// Whether its beginning is in the ledger: see [`mark`].
    pub fn is_recorded(&self) -> bool {
        self.begun.is_some()
    }
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        if let Some(begun) = self.begun {
            here::end(begun);
        }
    }
}
