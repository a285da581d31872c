//! The stack of a call or an access that is an error: whole and exact, however short and quickly those of blocks are taken.
#![forbid(unsafe_code)]

use crate::access::Access;
use crate::backtrace::{self, StackMethod};
use crate::options::Unwind;
use crate::shared::Shared;
use crate::{depot, hooks};
use heapledger_format::Site;
use heapledger_format::record::Options;
use heapledger_format::session::DEPTH_LIMIT;
use heapledger_linux::apart;
use heapledger_recorder::backend::CallEffect;
use heapledger_unwind::Registers;

const FRAMES: usize = DEPTH_LIMIT as usize;

/// That of the call which `registers` are of.
#[cold]
#[inline(never)]
pub(crate) fn of_call(access: &mut Access, registers: &Registers) -> Site {
    let settings = access.shared.settings();
    let is_exact = matches!(settings.unwind, Unwind::Auto | Unwind::Tables);
    let is_whole = settings.depth_limit >= FRAMES && settings.guard.error_depth.is_none();
    if is_exact && is_whole && settings.options.has(Options::STACK) {
        return hooks::site_of(access, registers, CallEffect::Takes);
    }
    let shared = access.shared;
    apart::result_of(Site::NONE, || of_registers(shared, registers))
}

/// That which leads to `registers`.
pub(crate) fn of_registers(shared: &Shared, registers: &Registers) -> Site {
    let settings = shared.settings();
    // A stack by frame pointers is right only where all code has them.
    let how = if settings.unwind == Unwind::Tables { StackMethod::Tables } else { StackMethod::Auto };
    let mut frames = [0; FRAMES];
    let most = settings.guard.error_depth.map_or(FRAMES, |most| most as usize);
    let Some(room) = frames.get_mut(..most.min(FRAMES)) else { return Site::NONE };
    let taken = backtrace::take(registers, how, (0, 0), room);
    depot::put(shared, room.get(..taken.frames).unwrap_or(&[])).unwrap_or(Site::NONE)
}
