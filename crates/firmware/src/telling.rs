//! Tells the firmware of what was just entered, where the library has the feature `hooks`: `HEAPLEDGER_ENTERED`.
//!
//! # Safety
//! A room with `unsafe`: it calls a function of the firmware's.

use heapledger::chip::{Address, Entered, Kind};

/// `struct heapledger_entered`.
#[repr(C)]
struct ToldEntered {
    what: u32,
    kind: u32,
    block: Address,
    bytes: Address,
    live_bytes: Address,
    time: Address,
}

unsafe extern "C" {
    /// The header's, which calls the firmware's.
    fn heapledger_told_entered(what: *const ToldEntered);
}

/// Tells of it.
#[inline(never)]
fn tell(what: u32, kind: Kind, [block, bytes, live_bytes, time]: [Address; 4]) {
    let told = ToldEntered { what, kind: kind.0.into(), block, bytes, live_bytes, time };
    // SAFETY: the header declares it so.
    unsafe { heapledger_told_entered(&raw const told) }
}

/// Something was entered, or found no room.
#[inline(always)]
pub(crate) fn entered<B>(what: &Entered<'_, B>) {
    match *what {
        Entered::Block { kind, address, size, time, live_bytes, .. } => {
            tell(0, kind, [address, size, live_bytes, time])
        }
        Entered::End { by, address, time, live_bytes, .. } => tell(1, by, [address, 0, live_bytes, time]),
        Entered::Failed { time, .. } => tell(2, Kind(0), [0, 0, 0, time]),
    }
}
