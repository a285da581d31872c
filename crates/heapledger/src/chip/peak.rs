//! The most that lived since a moment which the firmware chooses: what others call a local minimum of what is free.
#![forbid(unsafe_code)]

use super::{Address, Entered};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Watches how many bytes live, from a moment on. A `static` of it takes 8 bytes, and is told by the board: without one nothing is compared.
///
/// ```
/// use heapledger::chip::PeakWatch;
///
/// static MOST: PeakWatch = PeakWatch::new();
/// // In the board: fn entered(what: &Entered<'_, Self>) { MOST.entered(what) }
/// # let live_bytes = 120;
/// MOST.start(live_bytes); // HEAP.books().live_bytes()
/// // … a request is handled …
/// assert!(MOST.stop() >= live_bytes);
/// ```
#[derive(Debug)]
pub struct PeakWatch {
    is_on: AtomicBool,
    most: AtomicU32,
}

impl PeakWatch {
    /// One that is off.
    pub const fn new() -> Self {
        PeakWatch { is_on: AtomicBool::new(false), most: AtomicU32::new(0) }
    }

    /// It begins, or begins anew, with so many bytes that live.
    pub fn start(&self, live_bytes: Address) {
        self.most.store(live_bytes as u32, Relaxed);
        self.is_on.store(true, Relaxed);
    }

    /// It is over. The most bytes that lived since it began.
    pub fn stop(&self) -> Address {
        self.is_on.store(false, Relaxed);
        self.most()
    }

    /// The most so far.
    pub fn most(&self) -> Address {
        Address::from(self.most.load(Relaxed))
    }

    /// Is told what was just entered, by [`Board::entered`](super::Board::entered). (That runs alone: no comparison is needed that is one step.)
    #[inline(always)]
    pub fn entered<B>(&self, what: &Entered<'_, B>) {
        if let Entered::Block { live_bytes, .. } = what
            && self.is_on.load(Relaxed)
            && *live_bytes as u32 > self.most.load(Relaxed)
        {
            self.most.store(*live_bytes as u32, Relaxed);
        }
    }
}

impl Default for PeakWatch {
    fn default() -> Self {
        Self::new()
    }
}
