//! The board of a library that is built for one firmware: the compiler knows its layout, and whom it need not ask.
//!
//! What the firmware is asked for are functions of its own, by name: the header makes them of the same definitions as elsewhere. Only those are
//! asked that `HEAPLEDGER_FIXED` says, so a firmware need not have the others.
//!
//! # Safety
//! A room with `unsafe`: it calls functions of the firmware's, and is called by C.

use heapledger::chip::{Address, Board, Books, Config, Frame, FrameList, Kind, Stacks};

use crate::fixed_sizes::{CALLER, SCAN, config, is_understood, said};
use crate::layouts::{self, Given, Resized};
use crate::processor;

/// What the library was built for.
const TEXT: &str = match option_env!("HEAPLEDGER_FIXED") {
    Some(text) => text,
    None => "",
};

const _: () = assert!(!TEXT.is_empty(), "HEAPLEDGER_FIXED says what the library is built for: docs/firmware.md");
const _: () = assert!(is_understood(TEXT), "HEAPLEDGER_FIXED has a word that is not known, or without a number");
const _: () = assert!(said(TEXT, "stack") <= SCAN, "HEAPLEDGER_FIXED: stack is 0, 1 or 2");

unsafe extern "C" {
    fn heapledger_told_enter() -> u32;
    fn heapledger_told_leave(before: u32);
    fn heapledger_told_ticks() -> u32;
    fn heapledger_told_task() -> usize;
    #[cfg(target_arch = "riscv32")]
    fn heapledger_told_in_interrupt() -> usize;
    fn heapledger_told_stack_end(within: usize) -> usize;
    fn heapledger_told_actual(block: *const u8) -> usize;
    fn heapledger_told_scarce();
    static heapledger_told_code: [*const u8; 2];
}

/// The board.
pub(crate) struct Fixed;

heapledger::chip_ledger!(Fixed);

/// How its stacks are found.
struct Walk;

// SAFETY: nothing is recorded by it.
unsafe impl Board for Walk {
    const CONFIG: Config<'static> = Fixed::CONFIG;
    const STACKS: Stacks = if said(TEXT, "stack") == SCAN { Stacks::Scan } else { Stacks::FramePointers };

    #[inline(always)]
    fn stack_end(within: usize) -> usize {
        if const { said(TEXT, "own_stack_end") != 0 } && !processor::is_of_handler(within) {
            // SAFETY: a function of the firmware's, made by the header.
            return unsafe { heapledger_told_stack_end(within) };
        }
        heapledger::chip::main_stack_end()
    }

    #[inline(always)]
    fn code() -> core::ops::Range<usize> {
        if const { said(TEXT, "stack") == SCAN } {
            // SAFETY: a constant of the header's.
            let [first, end] = unsafe { heapledger_told_code };
            return first.addr()..end.addr();
        }
        0..usize::MAX
    }
}

// SAFETY: interrupts are off, or the firmware says how to be alone.
unsafe impl Board for Fixed {
    const CONFIG: Config<'static> = config(TEXT);

    #[inline(always)]
    fn alone<T>(work: impl FnOnce() -> T) -> T {
        if const { said(TEXT, "own_lock") != 0 } {
            // SAFETY: functions of the firmware's, made by the header.
            let before = unsafe { heapledger_told_enter() };
            let result = work();
            // SAFETY: as above.
            unsafe { heapledger_told_leave(before) };
            result
        } else {
            let before = processor::interrupts_off();
            let result = work();
            processor::interrupts_back(before);
            result
        }
    }
    #[inline(always)]
    fn ticks() -> u32 {
        // SAFETY: as above. Asked only where there is a clock.
        unsafe { heapledger_told_ticks() }
    }
    #[inline(always)]
    fn task() -> Option<Address> {
        // SAFETY: as above. Asked only where tasks are recorded.
        let task = unsafe { heapledger_told_task() };
        (task != 0).then_some(task as Address)
    }
    #[inline(always)]
    fn is_in_interrupt() -> bool {
        #[cfg(target_arch = "arm")]
        return processor::interrupt() != 0;
        // SAFETY: as above.
        #[cfg(target_arch = "riscv32")]
        return unsafe { heapledger_told_in_interrupt() } != 0;
    }
    #[inline(always)]
    fn records_scarce() {
        if const { said(TEXT, "warn_records") != 0 } {
            // SAFETY: as above.
            unsafe { heapledger_told_scarce() };
        }
    }
    #[cfg(feature = "hooks")]
    #[inline(always)]
    fn entered(what: &heapledger::chip::Entered<'_, Self>) {
        crate::telling::entered(what);
    }
    #[inline(always)]
    fn stack(from: Frame, frames: &mut FrameList) {
        if const { said(TEXT, "stack") == CALLER } { from.caller(frames) } else { Walk::stack(from, frames) }
    }
}

/// Bytes that a block really has.
#[inline(always)]
pub(crate) fn actual(block: Address) -> Option<Address> {
    // SAFETY: as above. Asked only where that is recorded.
    let actual = unsafe { heapledger_told_actual(core::ptr::with_exposed_provenance(block as usize)) };
    (actual != 0).then_some(actual as Address)
}

/// A call has returned a block, or none. (Of no bytes, none is what there may be.)
#[inline(never)]
pub(crate) extern "C" fn gave(kind: usize, block: usize, bytes: usize, frame: *const usize) {
    // SAFETY: `direct` and `stub` have pushed it.
    unsafe { core::hint::assert_unchecked(!frame.is_null()) };
    let given = Given::of(Kind(kind as u8), None);
    if block != 0 || bytes != 0 {
        layouts::begin::<Fixed>(given, block as Address, bytes as Address, frame);
    }
}

/// A block is about to be given back.
#[inline(never)]
pub(crate) extern "C" fn takes(kind: usize, block: usize, frame: *const usize) {
    if block != 0 {
        layouts::end::<Fixed>(Kind(kind as u8), block as Address, frame);
    }
}

/// A block begins. (There is one heap.)
#[inline(always)]
pub(crate) fn begin(given: Given, block: Address, bytes: Address, frame: *const usize) -> Address {
    gave(given.kind.0.into(), block as usize, bytes as usize, frame);
    block
}

/// Whether one that begins there is in the ledger.
pub(crate) fn is_live(block: Address) -> bool {
    Books::<Fixed>::of().is_live(block as usize)
}

/// A call gave no block.
pub(crate) fn refused() {
    Books::<Fixed>::of().call_failed();
}

/// One ends.
#[inline(always)]
pub(crate) fn end(by: Kind, block: Address, frame: *const usize) -> bool {
    let is_known = Books::<Fixed>::of().is_live(block as usize);
    takes(by.0.into(), block as usize, frame);
    is_known
}

/// One is about to be resized.
pub(crate) fn resizing(block: Address) -> Option<heapledger::chip::InRealloc<Address>> {
    Books::<Fixed>::of().realloc_begins(block)
}

/// It was.
pub(crate) fn resized(how: &Resized, frame: *const usize) -> bool {
    layouts::resized::<Fixed>(how, frame)
}
