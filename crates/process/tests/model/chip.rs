//! The backend for chips.

use std::path::PathBuf;

use heapledger_format::record::Options;
use heapledger_format::{ByteOrder, CodeId, Kind, TallyCounter};
use heapledger_recorder::chip::{Caller, ChipLedger, Config, HeapDescription, NewBlock, Notices};
use heapledger_recorder::policy::Reallocated;
use heapledger_source::{Ledger, ThreadState};

use crate::model::{Block, Model, Subject};
use crate::sequence::{Plan, run};

const TASK: u32 = 0x2000_1000;

struct Chip {
    ledger: ChipLedger<'static>,
    path: PathBuf,
}

impl Chip {
    fn new(name: &str, config: &Config) -> Chip {
        let region = vec![0u8; config.bytes()].leak();
        let ledger = ChipLedger::new(region, config, || 0, Notices::default()).expect("room");
        let path = std::env::temp_dir().join(format!("heapledger-chip-{}-{name}.ram", std::process::id()));
        Chip { ledger, path }
    }
}

impl Drop for Chip {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn caller(address: u64) -> Caller<'static> {
    const FRAMES: &[u32] = &[0x111, 0x222, 0x333, 0x444];
    Caller { frames: &FRAMES[address as usize % 4..], task: Some(TASK) }
}

fn new_block(block: &Block) -> NewBlock {
    let narrow = |value| u32::try_from(value).expect("32 bits");
    NewBlock {
        kind: block.kind,
        address: narrow(block.address),
        size: narrow(block.size),
        actual: block.actual.map(narrow),
        heap: 0,
    }
}

impl Subject for Chip {
    fn begin(&mut self, block: &Block) -> bool {
        self.ledger.allocated(&new_block(block), &caller(block.address))
    }

    fn end(&mut self, address: u64, by: Kind) -> bool {
        self.ledger.freed(address as u32, by, &caller(address))
    }

    fn realloc(&mut self, old: u64, kind: Kind, outcome: Reallocated<Block>, between: Option<&Block>) -> bool {
        let outcome = outcome.and_then(|new| Some(new_block(&new)));
        if between.is_none() && old.is_multiple_of(2) {
            return self.ledger.reallocated(kind, old as u32, outcome, &caller(old));
        }
        let detached = self.ledger.realloc_begins(old as u32);
        if let Some(between) = between {
            self.begin(between);
        }
        self.ledger.realloc_ends(detached, kind, outcome, &caller(old))
    }

    fn read(&mut self) -> Ledger {
        std::fs::write(&self.path, self.ledger.bytes()).expect("a memory dump");
        Ledger::open(&self.path).expect("a ledger")
    }
}

#[test]
fn a_chips_ledger_agrees_with_a_map() {
    for seed in 0..6 {
        let records = [5, 40, 200][seed as usize % 3];
        let config = Config {
            options: Options::ALL,
            history: 37,
            tasks: 2,
            order: if seed < 3 { ByteOrder::Little } else { ByteOrder::Big },
            ..Config::minimal(records, 64)
        };
        let mut chip = Chip::new(&format!("model-{seed}"), &config);
        let model = Model::new(records as usize, config.history as usize);
        let plan = Plan {
            seed,
            steps: 6000,
            every_step_until: 400,
            lowest_address: 0x2000_0000,
            addresses: 150,
            size_max: 8 << 20,
            excess_max: 0xFFFE,
        };
        run(&mut chip, model, &plan);
    }
}

#[test]
fn the_ordinary_reader_knows_a_chips_tasks_heaps_and_stacks() {
    let config = Config {
        options: Options::ALL,
        history: 4,
        tasks: 2,
        heaps: &[HeapDescription { name: "sram", low: 0x2000_0000, high: 0x2001_0000 }],
        process: b"program=blinky\0",
        depth: 3,
        ..Config::minimal(10, 16)
    };
    let mut chip = Chip::new("tables", &config);
    assert!(chip.ledger.task_begins(TASK, 7, "blink"));
    chip.begin(&Block { kind: Kind::CALLOC, address: 0x2000_0100, size: 24, actual: Some(24) });
    chip.begin(&Block { kind: Kind::MALLOC, address: 0x2000_0201, size: 25, actual: Some(32) });
    chip.ledger.task_ends(TASK);
    let ledger = chip.read();
    let threads = ledger.threads().expect("tasks");
    let [task] = threads.as_slice() else { panic!("{threads:?}") };
    assert_eq!((task.id, task.handle, task.name.as_str()), (7, u64::from(TASK), "blink"));
    assert_eq!((task.state, task.allocations, task.bytes_allocated), (ThreadState::Gone, 2, 49));
    let heaps = ledger.heaps().expect("heaps");
    assert_eq!((heaps[0].name.as_str(), heaps[0].low, heaps[0].high), ("sram", 0x2000_0000, 0x2001_0000));
    let mut records = ledger.records();
    let entries = records.next_chunk().expect("records").expect("some").to_vec();
    let stacks: Vec<_> = entries.iter().map(|entry| ledger.stack(entry.site).expect("a stack")).collect();
    // The innermost three of four frames.
    assert_eq!(stacks[0].codes, [0x111, 0x222, 0x333].map(CodeId));
    assert_eq!(stacks[1].codes, [0x222, 0x333, 0x444].map(CodeId));
    assert!(stacks.iter().all(|stack| !stack.damaged));
    assert_eq!(ledger.code(CodeId(0x111)).expect("a code").expect("known").offset, 0x111);
    assert_eq!(ledger.tallies().expect("tallies").get(TallyCounter::StacksCut), 1);
    assert_eq!(ledger.damage(), heapledger_source::Damage::default());
    // Places of the trie that nobody took are passed over.
    let mut nodes = 0;
    ledger.for_each_site(&mut |node, parent| nodes += u32::from(node != parent)).expect("sites");
    assert_eq!(nodes, 6);
}
