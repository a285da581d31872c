//! How recording begins in a program that was started without us: `heapledger attach` makes one of its threads open this library.
//!
//! What it asks for lies on that thread's stack ([`handover`]), and is answered there. The program's modules are bound already, past
//! us: once the recorder is at work, the words through which they call are changed ([`rebinding`]). All of this is done by the
//! constructor, inside of `dlopen`, so that it is done whole whatever becomes of `attach` meanwhile.

use crate::hooked::{Family, HOOKED, Hook};
use crate::next;
use core::sync::atomic::{AtomicU64, Ordering};
use heapledger_format::handover::{ALIGN, MAGIC, REACH, REASON_BYTES_MAX, at, state};
use heapledger_format::session::VARIABLE_BYTES_MAX;
use heapledger_linux::loader::modules;
use heapledger_linux::rebinding::{self, Lead, Rebound};
use heapledger_linux::stack::StackRange;
use heapledger_process::life::{self, Host};

const WORD: usize = size_of::<u64>();

/// What was handed over.
struct Handover {
    address: usize,
}

impl Handover {
    /// Looks for it above the frames that stand on this stack now.
    #[inline(never)]
    fn find() -> Option<Handover> {
        const PAGES_MAX: usize = REACH / 4096 + 1;
        let here = 0u64;
        let first = (&raw const here as usize).next_multiple_of(ALIGN);
        let mut stack = StackRange::around(first);
        let mut word =
            |address: usize| stack.may_read(address, PAGES_MAX).then(|| stack.word(address as u64)).flatten();
        for address in (first..first.wrapping_add(REACH)).step_by(ALIGN) {
            // Beyond what can be read lies none.
            if word(address)? == MAGIC[0]
                && word(address.wrapping_add(WORD)) == Some(MAGIC[1])
                && word(address.wrapping_add(at::ADDRESS)) == Some(address as u64)
                && word(address.wrapping_add(at::STATE)) == Some(state::UNREAD)
            {
                return Some(Handover { address });
            }
        }
        None
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: a word of what was handed over, which is aligned, and stays until `dlopen` returns. `attach` may read it meanwhile.
        unsafe { AtomicU64::from_ptr(self.address.wrapping_add(offset) as *mut u64) }
    }

    fn set(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }

    /// What is asked for.
    fn words(&self) -> &[u8] {
        let bytes = (self.word(at::WORDS_BYTES).load(Ordering::Acquire) as usize).min(VARIABLE_BYTES_MAX);
        // SAFETY: so many bytes follow, as `attach` says, and nobody changes them.
        unsafe { core::slice::from_raw_parts(self.address.wrapping_add(at::WORDS) as *const u8, bytes) }
    }

    /// Nothing is recorded; why.
    fn refuse(&self, reason: [&[u8]; 3]) {
        let mut place = self.address.wrapping_add(at::REASON);
        let mut count = 0u64;
        for byte in reason.into_iter().flatten().take(REASON_BYTES_MAX) {
            // SAFETY: there is room for so many, and it is ours to fill until the state says that it is done.
            unsafe { *(place as *mut u8) = *byte };
            place = place.wrapping_add(1);
            count = count.wrapping_add(1);
        }
        self.set(at::REASON_BYTES, count);
        self.set(at::STATE, state::REFUSED);
    }
}

/// Begins to record if that is what this library was opened for. False if not.
#[cold]
#[inline(never)]
pub(crate) fn begin(host: &'static Host) -> bool {
    let Some(handover) = Handover::find() else { return false };
    handover.set(at::STATE, state::READ);
    if let Err(reason) = next::stand_in_front() {
        life::stay_off_silently(host);
        handover.refuse([reason, b"", b""]);
    } else if let Err(why) = life::attached(host, handover.words()) {
        handover.refuse(why.reason());
    } else {
        let rebound = rebind();
        if let Some((first, own)) = rebinding::own_maps() {
            handover.set(at::FIRST_MODULE, first as u64);
            handover.set(at::OWN_MODULE, own as u64);
        }
        handover.set(at::REBOUND, rebound.words as u64);
        handover.set(at::NOT_REBOUND, rebound.refused as u64);
        handover.set(at::STATE, state::RECORDS);
    }
    true
}

/// Where calls of a replaced function are to go.
fn lead(hook: usize, own: impl Fn(&[u8]) -> Option<usize>) -> Option<Lead> {
    let hooked = HOOKED.get(hook)?;
    if hooked.family == Family::Cxx && next::cxx_is_before_us() {
        return None;
    }
    let from = next::NEXT.get(hook)?.load(Ordering::Acquire);
    (from != 0).then_some(Lead { from, to: own(hooked.symbol)? })
}

#[inline(never)]
fn rebind() -> Rebound {
    // C++ operators are looked for when they are first called.
    let _ = next::next(Hook::New as usize);
    let us = modules().find(|module| module.is_us());
    let own = |name: &[u8]| us.and_then(|us| us.symbol(name)).map(|symbol| symbol.address);
    let lead_of = |name: &[u8]| {
        let hook = HOOKED.iter().position(|hooked| hooked.symbol == name)?;
        lead(hook, own)
    };
    let mut all = rebinding::rebind(&lead_of);
    let loaders = [Hook::Malloc, Hook::Calloc, Hook::Realloc, Hook::Free];
    let leads = loaders.map(|hook| lead(hook as usize, own).unwrap_or(Lead { from: 0, to: 0 }));
    let loader = rebinding::rebind_loader(&leads);
    all.words = all.words.wrapping_add(loader.words);
    all.refused = all.refused.wrapping_add(loader.refused);
    all
}
