//! The backend for Linux, in a process of its own: its ledger is chosen by the environment that a
//! process was started with, and there is one for each process.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Barrier;
use std::thread;

use heapledger_format::{Kind, Site};
use heapledger_process::access::{Access, Sign};
use heapledger_process::options::Request;
pub(crate) use heapledger_process::shared::SHARED;
use heapledger_process::start::{self, Hooks};
use heapledger_recorder::backend::{Begun, Ended};
use heapledger_recorder::policy::{self, Reallocated};
use heapledger_source::Ledger;
use heapledger_unwind::Registers;

use crate::model::{Block, Model, Subject};
use crate::sequence::{Plan, run};

/// Tells the child how many entries its ring has.
pub(crate) const RING: &str = "HEAPLEDGER_TEST_RING";

pub(crate) struct Linux {
    path: PathBuf,
}

pub(crate) fn access() -> Access<'static> {
    let here = 0u8;
    let registers = Registers { sp: &raw const here as u64, ..Registers::default() };
    // In a hook the sign lies on its stack; here nothing ever interrupts anything.
    let sign = Box::leak(Box::new(Sign::new()));
    Access::enter(&SHARED, &registers, sign).unwrap_or_else(|refused| panic!("{refused:?}"))
}

fn begun(block: &Block) -> Begun {
    Begun {
        kind: block.kind,
        address: block.address,
        size: block.size,
        actual: block.actual,
        site: Site::NONE,
        heap: 0,
        alignment: 0,
    }
}

impl Subject for Linux {
    fn begin(&mut self, block: &Block) -> bool {
        policy::begin(&mut access(), &begun(block))
    }

    fn end(&mut self, address: u64, by: Kind) -> bool {
        policy::end(&mut access(), address, &Ended { by, site: Site::NONE })
    }

    fn realloc(&mut self, old: u64, kind: Kind, outcome: Reallocated<Block>, between: Option<&Block>) -> bool {
        let detached = policy::detach(&mut access(), old);
        if let Some(between) = between {
            self.begin(between);
        }
        let outcome = outcome.and_then(|new| Some(begun(&new)));
        policy::settle(&mut access(), detached, kind, &outcome, |_| Site::NONE)
    }

    fn read(&mut self) -> Ledger {
        Ledger::open(&self.path).expect("a ledger")
    }
}

pub(crate) fn start_recording() {
    start_as(&Request::of_environment());
}

pub(crate) fn start_as(request: &Request) {
    let hooks =
        Hooks { next: c"", cxx: c"", ahead: None, heaps: &[b"only"], tells_of_memory: true, begins_late: false };
    assert_eq!(start::start(&SHARED, &hooks, request), Ok(()));
}

pub(crate) fn open_own_ledger() -> Linux {
    let path = SHARED.ledger().mapping().expect("a mapping").path().bytes();
    Linux { path: String::from_utf8(path.to_vec()).expect("a path").into() }
}

/// Runs a test in a process of its own, which keeps accounts.
pub(crate) fn run_child(test: &str, ring: usize) {
    run_child_within(test, ring, 64 << 20);
}

/// The same with a ledger of so many bytes at most.
pub(crate) fn run_child_within(test: &str, ring: usize, ledger_bytes_max: u64) {
    let dir =
        std::env::temp_dir().join(format!("heapledger-model-{}-{}-{ring}", std::process::id(), test.replace(':', "")));
    std::fs::create_dir_all(&dir).expect("a directory");
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--ignored", "--test-threads=1"])
        .env("HEAPLEDGER", format!("dir={},history={ring},max-ledger={ledger_bytes_max},accounts=1", dir.display()))
        .env(RING, ring.to_string())
        .output()
        .expect("this program runs");
    let _ = std::fs::remove_dir_all(&dir);
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "ring of {ring}: {}\n{text}", output.status);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn sequences() {
    let Ok(ring) = std::env::var(RING) else { return };
    let ring = ring.parse().expect("a number");
    start_recording();
    let plan = Plan {
        seed: ring as u64,
        steps: 10_000,
        every_step_until: 400,
        lowest_address: 0x7f00_1234_5000,
        addresses: 1000,
        size_max: 1 << 40,
        excess_max: 1 << 30,
    };
    run(&mut open_own_ledger(), Model::new(usize::MAX, ring), &plan);
}

#[test]
fn a_processs_ledger_agrees_with_a_map() {
    for ring in [64, 128, 65_536] {
        run_child("linux::sequences", ring);
    }
}

/// Begins and ends so many blocks.
fn churn(blocks: u64, address: u64) {
    for _ in 0..blocks {
        let block = Block { kind: Kind::MALLOC, address, size: 1, actual: Some(8) };
        assert!(policy::begin(&mut access(), &begun(&block)));
        assert!(policy::end(&mut access(), address, &Ended { by: Kind::FREE, site: Site::NONE }));
    }
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn handover() {
    if std::env::var_os(RING).is_none() {
        return;
    }
    start_recording();
    // The first thread goes once round the ring of two chunks, leases chunk 0 anew, and ends.
    thread::spawn(|| churn(129, 0x1000)).join().expect("first");
    let steps = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            // The second takes over the first one's state, whose chunk is given back.
            let block = Block { kind: Kind::MALLOC, address: 0x2000, size: 1, actual: Some(8) };
            assert!(policy::begin(&mut access(), &begun(&block)));
            steps.wait();
            steps.wait();
            churn(65, 0x3000);
            steps.wait();
        });
        scope.spawn(|| {
            steps.wait();
            // The third fills chunk 1 and begins chunk 0 with the block at 0x5000.
            churn(64, 0x4000);
            churn(1, 0x5000);
            steps.wait();
            steps.wait();
        });
    });
    let ledger = open_own_ledger().read();
    let mut history = ledger.freed();
    let mut found = 0;
    while let Some(entries) = history.next_chunk().expect("history") {
        found += entries.iter().filter(|entry| entry.block.address == 0x5000).count();
    }
    assert_eq!(found, 1, "another thread wrote into a leased chunk");
}

#[test]
fn a_dead_threads_chunk_is_released_once() {
    run_child("linux::handover", 128);
}
