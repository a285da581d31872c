//! What the library beside this one asks that judges calls of the C library (`crates/calls`): whose memory an address is. It finds this
//! by its name.

use crate::SHARED;
use core::hint::black_box;
use heapledger_guard::judging::{FoundBlock, Judging, OwnHeap, WrongCall};
use heapledger_process::{arenas, judged};
use heapledger_unwind::Registers;

/// What can be asked.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "a symbol of a library")]
pub(crate) static heapledger_judging: Judging = Judging::new(find, report, prepare, heap, holds);

/// Blocks lie in memory of the guard's own from now on: calls with addresses of it are judged.
#[cold]
pub(crate) fn begin() {
    heapledger_judging.begin(arenas::range(), arenas::closes_pages());
}

extern "C" fn find(address: u64, place: &mut FoundBlock) -> u32 {
    judged::place(address).map_or(0, |found| {
        *place = found;
        1
    })
}

extern "C" fn holds(address: u64, bytes: u64) -> u32 {
    u32::from(arenas::holds(address, bytes))
}

#[unsafe(link_section = "heapledger_entry")]
extern "C" fn report(wrong: &WrongCall) {
    let [ip, sp, bp, bx, r12, r13, r14, r15] = wrong.registers;
    judged::report(&SHARED, &Registers { ip, sp, bp, bx, r12, r13, r14, r15 }, wrong);
    // Not a last call: the frame stays as long as the recorder is at work.
    black_box(());
}

extern "C" fn prepare(address: u64, bytes: u64) {
    judged::prepare(address, bytes);
}

extern "C" fn heap(own: &mut OwnHeap) {
    *own = arenas::own_heap();
}
