//! A forked child that is recorded by itself: its ledger has its own blocks, the parent's has the parent's.

use heapledger_format::Kind;
use heapledger_process::anew;
use heapledger_process::options::Request;
use heapledger_process::start::{Hooks, NotStarted};
use heapledger_process::switch::Recording;

use crate::linux::{RING, SHARED, open_own_ledger, run_child, start_as};
use crate::model::{Block, Model, Subject};
use crate::sequence::{Plan, run};

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

/// The status of a child that came to its end: one that panics has another.
const DONE: i32 = 42;

const HOOKS: Hooks =
    Hooks { next: c"", cxx: c"", ahead: None, heaps: &[b"only"], tells_of_memory: true, begins_late: false };

/// Where the caller stands, more or less.
fn here() -> usize {
    let here = 0u8;
    &raw const here as usize
}

fn block(address: u64) -> Block {
    Block { kind: Kind::MALLOC, address, size: 100, actual: Some(104) }
}

fn plan(seed: u64) -> Plan {
    let (lowest_address, addresses) = (0x7f00_1234_5000, 1000);
    Plan { seed, steps: 2000, every_step_until: 50, lowest_address, addresses, size_max: 1 << 40, excess_max: 1 << 30 }
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn forks() {
    let Ok(ring) = std::env::var(RING) else { return };
    let ring: usize = ring.parse().expect("a number");
    let request = Request::of_environment();
    assert_eq!(anew::begin_in_child(&SHARED, &HOOKS, &request, here()), Err(NotStarted::Again), "nothing has begun");
    start_as(&request);
    assert_eq!(anew::begin_in_child(&SHARED, &HOOKS, &request, here()), Err(NotStarted::Again), "no child");
    let (mut parents, mut model) = (open_own_ledger(), Model::new(usize::MAX, ring));
    assert!(parents.begin(&block(0x5000)) && model.begin(&block(0x5000)));
    // SAFETY: the child uses what this thread has, and ends with `_exit`.
    let child = unsafe { fork() };
    if child == 0 {
        assert_eq!(SHARED.switch.get(), Recording::Off, "a child is off");
        assert_eq!(anew::begin_in_child(&SHARED, &HOOKS, &request, here()), Ok(()));
        let mut own = open_own_ledger();
        // Unknown: it is the parent's.
        let mut model = Model::new(usize::MAX, ring);
        assert_eq!((own.end(0x5000, Kind::FREE), model.end(0x5000, Kind::FREE)), (false, false));
        run(&mut own, model, &plan(7));
        assert_eq!(anew::begin_in_child(&SHARED, &HOOKS, &request, here()), Err(NotStarted::Again), "it has begun");
        // SAFETY: the end of this process.
        unsafe { _exit(DONE) };
    }
    let mut status = -1;
    // SAFETY: our own child and our own word.
    assert_eq!((unsafe { waitpid(child, &mut status, 0) }, status), (child, DONE << 8), "the child has failed");
    model.expect(&parents.read(), "after the child");
    run(&mut parents, model, &plan(8));
}

#[test]
fn a_forked_child_begins_anew() {
    run_child("anew::forks", 128);
}
