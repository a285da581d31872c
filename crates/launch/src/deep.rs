//! Work that may need much stack, whatever limit this process was started under (`ulimit -s`).

use std::sync::{Mutex, PoisonError};
use std::thread;

use nix::sys::resource::{Resource, getrlimit};

/// What is enough for all that we do: the usual limit of a first thread.
const STACK_BYTES: usize = 8 << 20;
/// With less than this the first thread is not trusted.
const ENOUGH_BYTES: u64 = 4 << 20;

/// Does the work: here if this thread's stack may grow far enough, else on a thread that has a stack of its own size.
/// That thread is gone afterwards.
pub fn deep<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if getrlimit(Resource::RLIMIT_STACK).is_ok_and(|(limit, _)| limit >= ENOUGH_BYTES) {
        return work();
    }
    let work = Mutex::new(Some(work));
    let take = || work.lock().unwrap_or_else(PoisonError::into_inner).take();
    thread::scope(|scope| {
        let apart = || take().map(|work| work());
        let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, apart);
        thread.ok().and_then(|thread| thread.join().ok().flatten())
    })
    // No thread is to be had: it may still go well here.
    .or_else(|| take().map(|work| work()))
    .unwrap_or_else(|| unreachable!("the work is taken once, here or there"))
}
