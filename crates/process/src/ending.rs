//! What becomes of a ledger at its program's end, where nobody else takes care of it.

#![forbid(unsafe_code)]

use crate::once::{Early, Starting};
use crate::options::{AtExit, Request};
use crate::shared::{Phase, Shared};
use crate::{family, finish, start};
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use heapledger_format::session::ending;
use heapledger_linux::memory::PATH_BYTES_MAX;
use heapledger_linux::syscall;
use heapledger_linux::text::Text;

/// What was asked for.
struct Ending {
    at_exit: AtExit,
    output: Text<PATH_BYTES_MAX>,
    is_by_others: bool,
    in_memory: bool,
}

static ENDING: Early<Ending> =
    Early::new(Ending { at_exit: AtExit::Keep, output: Text::new(), is_by_others: true, in_memory: false });
/// Whether [`ENDING`] is told.
static TOLD: AtomicU8 = AtomicU8::new(Phase::Unstarted as u8);
/// The program has thrown its ledger away.
static DISCARDED: AtomicBool = AtomicBool::new(false);

/// Recording has begun, with this asked for; `usual` of which nobody says it. The path is taken out of the request: it is large.
pub fn note(request: &mut Request, usual: AtExit) {
    let Some(mut starting) = Starting::claim(&TOLD) else { return };
    ENDING.change(&mut starting, |kept| {
        *kept = Ending {
            at_exit: request.at_exit.unwrap_or(usual),
            output: core::mem::take(&mut request.output),
            is_by_others: request.session.is_some(),
            in_memory: request.in_memory,
        }
    });
    starting.end(Phase::On);
}

/// Whether whoever has started the program takes care of the ledger. `None` if there is none.
pub fn is_by_others() -> Option<bool> {
    told().map(|ending| ending.is_by_others)
}

/// Whether something is to become of it at the program's end, by the program itself.
pub fn is_asked_at_exit() -> bool {
    asked().is_some()
}

fn asked() -> Option<&'static Ending> {
    told().filter(|ending| !ending.is_by_others && ending.at_exit != AtExit::Keep)
}

/// Removes the ledger of a process that has stopped recording and takes care of it itself. False if that was done before.
pub fn discard(shared: &Shared) -> bool {
    let is_first = !DISCARDED.swap(true, Ordering::AcqRel);
    if is_first {
        start::remove(shared);
    }
    is_first
}

/// The program ends, and takes care of its ledger itself: what was asked for is done.
pub fn at_exit(shared: &'static Shared) {
    let Some(ending) = asked() else { return };
    if DISCARDED.load(Ordering::Relaxed) {
        return;
    }
    start::stop(shared, start::Stops::AtEnd);
    if ending.at_exit == AtExit::Remove || finish(shared, ending) {
        start::remove(shared);
    }
}

/// Writes the ledger out, where it was asked for. False if that is not possible.
#[cold]
#[inline(never)]
fn finish(shared: &Shared, ending: &Ending) -> bool {
    let mut path = Text::<PATH_BYTES_MAX>::new();
    if ending.output.bytes().is_empty() {
        path.push(b"heapledger.").push(family::called());
        path.push(b".").push_number(u64::from(syscall::getpid())).push(ending::FINISHED.as_bytes());
    } else {
        path.push(ending.output.bytes());
    }
    let written = !ending.output.is_cut() && finish::finish(shared, path.c_str()).is_ok();
    if !written {
        let what_now: &[u8] = match ending.in_memory {
            true => b" cannot be written: the ledger was in the program's memory, and is lost",
            false => b" cannot be written: `heapledger recover` finishes the ledger",
        };
        start::complain(&[path.bytes(), what_now]);
    }
    written
}

/// What becomes of the ledger, if there is one.
fn told() -> Option<&'static Ending> {
    (TOLD.load(Ordering::Acquire) == Phase::On as u8).then(|| ENDING.get())
}
