//! Windows in time, as C asks for them: what was allocated and freed while one is open. They lie in the firmware's own memory; what the ledger has counted, the
//! header's functions say, which call those of the layout.
//!
//! # Safety
//! A room with `unsafe`: C calls these, and says where its windows lie.

use heapledger::chip::{Address, ChipSums, ChipWindow};

unsafe extern "C" {
    /// A window that opens now. 0: the ledger is in the middle of an update.
    fn heapledger_window_open(window: *mut ChipWindow<Address>) -> i32;
}

/// What was counted so far.
fn now() -> Option<ChipSums<Address>> {
    let mut opened = ChipWindow::open(ChipSums::default(), 0);
    // SAFETY: a window of this function's.
    (unsafe { heapledger_window_open(&raw mut opened) } != 0).then(|| opened.opened_at())
}

/// # Safety
/// A window that was opened; room for what it has.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapledger_window_sums(window: *const ChipWindow<Address>, to: *mut ChipSums<Address>) -> i32 {
    // SAFETY: the caller's promise.
    now().map(|now| unsafe { to.write((*window).sums(now)) }).is_some().into()
}

/// # Safety
/// A window that was opened.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapledger_window_first(window: *const ChipWindow<Address>) -> Address {
    // SAFETY: the caller's promise.
    unsafe { (*window).first() }
}

/// # Safety
/// A window that was opened.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapledger_window_pause(window: *mut ChipWindow<Address>) -> i32 {
    // SAFETY: the caller's promise.
    now().map(|now| unsafe { (*window).pause(now) }).is_some().into()
}

/// # Safety
/// A window that was opened.
#[unsafe(no_mangle)]
unsafe extern "C" fn heapledger_window_resume(window: *mut ChipWindow<Address>) -> i32 {
    // SAFETY: the caller's promise.
    now().map(|now| unsafe { (*window).resume(now) }).is_some().into()
}
