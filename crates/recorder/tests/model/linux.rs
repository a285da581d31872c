//! The backend for Linux, in a process of its own: its ledger is chosen by the environment that a
//! process was started with, and there is one for each process.

use std::path::PathBuf;
use std::process::Command;

use heapledger_recorder::linux::access::Access;
use heapledger_recorder::linux::shared::Shared;
use heapledger_recorder::linux::start::{self, Hooks};
use heapledger_recorder::policy::{self, Backend as _, Begun, Ended};
use heapledger_source::Ledger;
use heapledger_source::format::{Kind, TallyCounter};

use crate::model::{Block, Model, Subject};
use crate::sequence::{Plan, run};

static SHARED: Shared = Shared::new();

/// Tells the child how many entries its ring has.
const RING: &str = "HEAPLEDGER_TEST_RING";

struct Linux {
    path: PathBuf,
}

fn access() -> Access {
    let here = 0u8;
    Access::enter(&SHARED, &raw const here as usize).unwrap_or_else(|refused| panic!("{refused:?}"))
}

fn begun(block: &Block) -> Begun {
    Begun { kind: block.kind, address: block.address, size: block.size, actual: block.actual, site: 0, heap: 0 }
}

impl Subject for Linux {
    fn begin(&mut self, block: &Block) -> bool {
        policy::begin(&mut access(), &begun(block))
    }

    fn end(&mut self, address: u64, by: Kind) -> bool {
        policy::end(&mut access(), address, &Ended { by, site: 0 })
    }

    /// As in `linux::hooks::realloc_ends`, but without registers from which stacks are taken.
    fn realloc(&mut self, old: u64, kind: Kind, new: Option<&Block>, freed: bool, between: Option<&Block>) -> bool {
        let detached = policy::detach(&mut access(), old);
        if let Some(between) = between {
            self.begin(between);
        }
        let access = &mut access();
        let ended = Ended { by: kind, site: 0 };
        match (new, detached) {
            (Some(new), Some(detached)) => policy::replace(access, detached, &begun(new), &ended),
            (Some(new), None) => {
                access.count(TallyCounter::UnknownFrees, 1);
                policy::begin(access, &begun(new))
            }
            (None, Some(detached)) if freed => {
                policy::drop_detached(access, detached, &ended);
                false
            }
            (None, None) if freed => {
                access.count(TallyCounter::UnknownFrees, 1);
                false
            }
            (None, detached) => {
                access.count(TallyCounter::FailedCalls, 1);
                if let Some(detached) = detached {
                    policy::reattach(access, detached);
                }
                false
            }
        }
    }

    fn read(&mut self) -> Ledger {
        Ledger::open(&self.path).expect("a ledger")
    }
}

/// Runs in the child.
#[test]
#[ignore = "run by the test below, in a process of its own"]
fn child() {
    let ring = std::env::var(RING).expect("started by the test below").parse().expect("a number");
    let hooks = Hooks { next: c"", cxx: c"", heaps: &[b"only"] };
    assert!(start::start(&SHARED, &hooks), "recording");
    let path = SHARED.ledger().mapping().expect("a mapping").path().bytes();
    let mut linux = Linux { path: String::from_utf8(path.to_vec()).expect("a path").into() };
    let model = Model::new(usize::MAX, ring);
    let plan = Plan {
        seed: ring as u64,
        steps: 20_000,
        every_step_until: 400,
        lowest_address: 0x7f00_1234_5000,
        addresses: 1000,
        size_max: 1 << 40,
        excess_max: 1 << 30,
    };
    run(&mut linux, model, &plan);
}

#[test]
fn a_processs_ledger_agrees_with_a_map() {
    for ring in [64, 128, 65_536] {
        let dir = std::env::temp_dir().join(format!("heapledger-model-{}-{ring}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "linux::child", "--ignored", "--test-threads=1"])
            .env("HEAPLEDGER", format!("dir={},history={ring},max-ledger=67108864", dir.display()))
            .env(RING, ring.to_string())
            .output()
            .expect("this program runs");
        let _ = std::fs::remove_dir_all(&dir);
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "ring of {ring}: {}\n{text}", output.status);
    }
}
