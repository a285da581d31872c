//! Who calls, found out cheaply.

use crate::counting;
use heapledger_linux::fork::ForkWord;
use heapledger_linux::syscall;

/// The process that has prepared itself; 0 in its children. Threads' numbers that are kept are not theirs.
static PROCESS: ForkWord = ForkWord::new();

/// What is needed to find out cheaply: before the first function is called.
pub fn prepare() {
    let process = syscall::getpid();
    if !PROCESS.is(process) {
        // If that fails, the kernel is asked for the thread's number each time.
        let _ = PROCESS.start(process);
    }
}

/// The kernel's number of the calling thread. One that has asked before is known without a system call, but for those of a forked child
/// and beyond 1,024 threads at the same time.
pub fn thread() -> u32 {
    counting::thread_of(PROCESS.get()).unwrap_or_else(syscall::gettid)
}
