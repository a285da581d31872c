//! The backend for chips.

use std::marker::PhantomData;
use std::path::PathBuf;

use heapledger_format::record::Options;
use heapledger_format::{ByteOrder, CodeId, Kind, TallyCounter};
use heapledger_recorder::chip::{Caller, ChipLedger, Config, HeapDescription, NewBlock, Shape, Word};
use heapledger_recorder::policy::Reallocated;
use heapledger_source::{Ledger, ThreadState};

use crate::model::{Block, Model, Subject};
use crate::sequence::{Plan, run};

const TASK: u64 = 0x2000_1000;

/// Everything, with this word and in this byte order.
struct Everything<const IS_BIG: bool, W>(PhantomData<W>);

impl<const IS_BIG: bool, W: Word> Shape for Everything<IS_BIG, W> {
    type Word = W;
    const OPTIONS: Options = Options::ALL;
    const SITES_MAX: u32 = 64;
    const TASKS_MAX: u32 = 2;
    const HEAPS_MAX: u32 = 1;
    const ORDER: ByteOrder = if IS_BIG { ByteOrder::Big } else { ByteOrder::Little };
}

struct Chip<const IS_BIG: bool, W: Word> {
    ledger: ChipLedger<Everything<IS_BIG, W>, Vec<W>>,
    path: PathBuf,
}

impl<const IS_BIG: bool, W: Word> Chip<IS_BIG, W> {
    fn new(name: &str, config: &Config) -> Self {
        let region = vec![W::default(); config.words::<Everything<IS_BIG, W>>()];
        let ledger = ChipLedger::new(region, config).expect("room");
        let path = std::env::temp_dir().join(format!("heapledger-chip-{}-{name}.ram", std::process::id()));
        Chip { ledger, path }
    }
}

impl<const IS_BIG: bool, W: Word> Drop for Chip<IS_BIG, W> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The stack of whoever allocates or frees at an address.
fn frames<W: Word>(address: u64) -> Vec<W> {
    [0x111, 0x222, 0x333, 0x444].into_iter().skip(address as usize % 4).map(W::cut).collect()
}

fn caller<W: Word>(frames: &[W]) -> Caller<'_, W> {
    Caller { frames, task: Some(W::cut(TASK)) }
}

fn new_block<W: Word>(block: &Block) -> NewBlock<W> {
    let narrow = |value| {
        let word = W::cut(value);
        assert_eq!(word.widen(), value, "too wide for the word");
        word
    };
    NewBlock {
        kind: block.kind,
        address: narrow(block.address),
        size: narrow(block.size),
        actual: block.actual.map(narrow),
        heap: 0,
    }
}

impl<const IS_BIG: bool, W: Word> Subject for Chip<IS_BIG, W> {
    fn begin(&mut self, block: &Block) -> bool {
        self.ledger.allocated(&new_block(block), &caller(&frames(block.address)))
    }

    fn end(&mut self, address: u64, by: Kind) -> bool {
        self.ledger.freed(W::cut(address), by, &caller(&frames(address)))
    }

    fn realloc(&mut self, old: u64, kind: Kind, outcome: Reallocated<Block>, between: Option<&Block>) -> bool {
        let outcome = outcome.and_then(|new| Some(new_block(&new)));
        let old_word = W::cut(old);
        if between.is_none() && old.is_multiple_of(2) {
            return self.ledger.reallocated(kind, old_word, outcome, &caller(&frames(old)));
        }
        let detached = self.ledger.realloc_begins(old_word);
        if let Some(between) = between {
            self.begin(between);
        }
        self.ledger.realloc_ends(detached, kind, outcome, &caller(&frames(old)))
    }

    fn read(&mut self) -> Ledger {
        let bytes: Vec<u8> = self.ledger.bytes().collect();
        std::fs::write(&self.path, bytes).expect("a memory dump");
        Ledger::open(&self.path).expect("a ledger")
    }
}

fn agrees_with_a_map<const IS_BIG: bool, W: Word>(seed: u64, lowest_address: u64, size_max: u64) {
    let records = [5, 40, 200][seed as usize % 3];
    let heaps = &[HeapDescription { name: "sram", low: lowest_address, high: lowest_address + 0x1_0000 }];
    let config = Config { history: 37, tasks: 2, heaps, ..Config::minimal(records, 64) };
    let mut chip = Chip::<IS_BIG, W>::new(&format!("model-{seed}-{lowest_address:x}-{IS_BIG}"), &config);
    let model = Model::new(records as usize, config.history as usize);
    let plan =
        Plan { seed, steps: 6000, every_step_until: 400, lowest_address, addresses: 150, size_max, excess_max: 0xFFFE };
    run(&mut chip, model, &plan);
}

#[test]
fn a_chips_ledger_agrees_with_a_map() {
    for seed in 0..3 {
        agrees_with_a_map::<false, u32>(seed, 0x2000_0000, 8 << 20);
        agrees_with_a_map::<true, u32>(seed + 3, 0x2000_0000, 8 << 20);
    }
}

#[test]
fn a_ledger_of_64_bit_words_agrees_with_a_map() {
    for seed in 0..3 {
        agrees_with_a_map::<false, u64>(seed, 0x7F12_3456_0000, 8 << 40);
        agrees_with_a_map::<true, u64>(seed + 3, 0x7F12_3456_0000, 8 << 40);
    }
}

#[test]
fn the_ordinary_reader_knows_a_chips_tasks_heaps_and_stacks() {
    tasks_heaps_and_stacks::<false, u32>("narrow", 0x2000_0000);
    tasks_heaps_and_stacks::<true, u32>("narrow-big", 0x2000_0000);
    tasks_heaps_and_stacks::<false, u64>("wide", 0x7F12_3456_0000);
    tasks_heaps_and_stacks::<true, u64>("wide-big", 0x7F12_3456_0000);
}

fn tasks_heaps_and_stacks<const IS_BIG: bool, W: Word>(name: &str, low: u64) {
    let config = Config {
        history: 4,
        tasks: 2,
        heaps: &[HeapDescription { name: "sram", low, high: low + 0x1_0000 }],
        process: b"program=blinky\0",
        depth: 3,
        ..Config::minimal(10, 16)
    };
    let mut chip = Chip::<IS_BIG, W>::new(name, &config);
    assert!(chip.ledger.task_begins(W::cut(TASK), 7, "blink"));
    chip.begin(&Block { kind: Kind::CALLOC, address: low + 0x100, size: 24, actual: Some(24) });
    chip.begin(&Block { kind: Kind::MALLOC, address: low + 0x201, size: 25, actual: Some(32) });
    chip.ledger.task_ends(W::cut(TASK));
    let ledger = chip.read();
    assert_eq!(ledger.header().codec.word, W::SIZE);
    let threads = ledger.threads().expect("tasks");
    let [task] = threads.as_slice() else { panic!("{threads:?}") };
    assert_eq!((task.id, task.handle, task.name.as_str()), (7, TASK, "blink"));
    assert_eq!((task.state, task.allocations, task.bytes_allocated), (ThreadState::Gone, 2, 49));
    let heaps = ledger.heaps().expect("heaps");
    assert_eq!((heaps[0].name.as_str(), heaps[0].low, heaps[0].high), ("sram", low, low + 0x1_0000));
    let mut records = ledger.records();
    let entries = records.next_chunk().expect("records").expect("some").to_vec();
    let codes = |site| -> Vec<u64> {
        let stack = ledger.stack(site).expect("a stack");
        assert!(!stack.damaged);
        let offset = |code: &CodeId| ledger.code(*code).expect("a code").expect("known").offset;
        stack.codes.iter().map(offset).collect()
    };
    // The innermost three of four frames.
    assert_eq!(codes(entries[0].site), [0x111, 0x222, 0x333]);
    assert_eq!(codes(entries[1].site), [0x222, 0x333, 0x444]);
    assert_eq!(ledger.tallies().expect("tallies").get(TallyCounter::StacksCut), 1);
    assert_eq!(ledger.damage(), heapledger_source::Damage::default());
    // Places of the trie that nobody took are passed over.
    let mut nodes = 0;
    ledger.for_each_site(&mut |node, parent| nodes += u32::from(node != parent)).expect("sites");
    assert_eq!(nodes, 6);
}
