//! A board that runs alone in the critical section of the crate of that name: with the feature `critical-section`.
#![cfg(feature = "critical-section")]

use std::thread;

use heapledger::chip::{Board, Books, Config, Frame, NewBlock, with_critical_section};
use heapledger_format::Kind;

struct Chip;

// SAFETY: one at a time.
unsafe impl Board for Chip {
    const CONFIG: Config<'static> = Config::minimal(4000, 0);

    fn alone<T>(work: impl FnOnce() -> T) -> T {
        with_critical_section(work)
    }
}

heapledger::chip_ledger!(Chip);

#[test]
fn several_threads_enter_blocks() {
    thread::scope(|scope| {
        for thread in 1..5 {
            scope.spawn(move || {
                for block in 0..900 {
                    let address = thread << 20 | block << 3;
                    let block = NewBlock { kind: Kind::MALLOC, address, size: 3, actual: None, heap: None };
                    assert!(Books::<Chip>::of().allocated(&block, Frame::NONE));
                }
            });
        }
    });
    assert_eq!(Books::<Chip>::of().live_bytes(), 4 * 900 * 3);
}
