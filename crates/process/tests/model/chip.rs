//! The backend for chips.

use std::marker::PhantomData;
use std::path::PathBuf;

use heapledger_format::{ByteOrder, CodeId, Kind, TallyCounter, WordSize};
use heapledger_recorder::chip::{Caller, ChipLedger, Clock, Config, HeapDescription, NewBlock, Running, Shape, Word};
use heapledger_recorder::policy::Reallocated;
use heapledger_source::{Ledger, ThreadState};

use crate::model::{Block, Model, Subject};
use crate::sequence::{Plan, run};

const TASK: u64 = 0x2000_1000;

/// Everything, with this word and in this byte order, for so many blocks, with so many frames.
struct Everything<const RECORDS: u32, const DEPTH: u16, const IS_BIG: bool, W>(PhantomData<W>);

/// Where the heap of a chip with this word begins.
const fn lowest<W: Word>() -> u64 {
    if matches!(W::SIZE, WordSize::W32) { 0x2000_0000 } else { 0x7F12_3456_0000 }
}

impl<const RECORDS: u32, const DEPTH: u16, const IS_BIG: bool, W: Word> Shape
    for Everything<RECORDS, DEPTH, IS_BIG, W>
{
    type Word = W;
    const CONFIG: Config<'static> = Config {
        history: 37,
        tasks: 2,
        actual_sizes: true,
        clock: Some(Clock { tick_ns: 0, bits: 32 }),
        heaps: &[HeapDescription { name: "sram", low: lowest::<W>(), high: lowest::<W>() + 0x1_0000 }],
        process: b"program=blinky\0",
        depth: DEPTH,
        ..Config::minimal(RECORDS, 64)
    };
    const ORDER: ByteOrder = if IS_BIG { ByteOrder::Big } else { ByteOrder::Little };
}

struct Chip<S: Shape> {
    ledger: ChipLedger<S, Vec<S::Word>>,
    path: PathBuf,
}

impl<S: Shape> Chip<S> {
    fn new(name: &str) -> Self {
        let region = vec![S::Word::default(); S::CONFIG.words::<S::Word>()];
        let ledger = ChipLedger::new(region).expect("room");
        let path = std::env::temp_dir().join(format!("heapledger-chip-{}-{name}.ram", std::process::id()));
        Chip { ledger, path }
    }
}

impl<S: Shape> Drop for Chip<S> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The stack of whoever allocates or frees at an address.
fn frames<W: Word>(address: u64) -> Vec<W> {
    [0x111, 0x222, 0x333, 0x444].into_iter().skip(address as usize % 4).map(W::cut).collect()
}

fn caller<W: Word>(frames: &[W]) -> Caller<'_, W> {
    Caller { frames, running: Running::Task(W::cut(TASK)), is_guessed: false }
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
        heap: None,
    }
}

impl<S: Shape> Subject for Chip<S> {
    fn begin(&mut self, block: &Block) -> bool {
        self.ledger.allocated(&new_block(block), &caller(&frames(block.address)))
    }

    fn end(&mut self, address: u64, by: Kind) -> bool {
        self.ledger.freed(S::Word::cut(address), by, &caller(&frames(address)))
    }

    fn realloc(&mut self, old: u64, kind: Kind, outcome: Reallocated<Block>, between: Option<&Block>) -> bool {
        let outcome = outcome.and_then(|new| Some(new_block(&new)));
        let old_word = S::Word::cut(old);
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

fn agrees_with_a_map<const RECORDS: u32, const IS_BIG: bool, W: Word>(seed: u64, size_max: u64) {
    let lowest_address = lowest::<W>();
    let mut chip =
        Chip::<Everything<RECORDS, 32, IS_BIG, W>>::new(&format!("model-{seed}-{lowest_address:x}-{IS_BIG}"));
    let mut model = Model::new(RECORDS as usize, 37);
    model.counts_lost_bytes = true;
    let plan =
        Plan { seed, steps: 6000, every_step_until: 400, lowest_address, addresses: 150, size_max, excess_max: 0xFFFE };
    run(&mut chip, model, &plan);
}

#[test]
fn a_chips_ledger_agrees_with_a_map() {
    agrees_with_a_map::<5, false, u32>(0, 8 << 20);
    agrees_with_a_map::<40, false, u32>(1, 8 << 20);
    agrees_with_a_map::<300, false, u32>(2, 8 << 20);
    agrees_with_a_map::<5, true, u32>(3, 8 << 20);
    agrees_with_a_map::<40, true, u32>(4, 8 << 20);
    agrees_with_a_map::<300, true, u32>(5, 8 << 20);
}

#[test]
fn a_ledger_of_64_bit_words_agrees_with_a_map() {
    agrees_with_a_map::<5, false, u64>(0, 8 << 40);
    agrees_with_a_map::<40, false, u64>(1, 8 << 40);
    agrees_with_a_map::<300, false, u64>(2, 8 << 40);
    agrees_with_a_map::<5, true, u64>(3, 8 << 40);
    agrees_with_a_map::<40, true, u64>(4, 8 << 40);
    agrees_with_a_map::<300, true, u64>(5, 8 << 40);
}

#[test]
fn the_ordinary_reader_knows_a_chips_tasks_heaps_and_stacks() {
    tasks_heaps_and_stacks::<false, u32>("narrow");
    tasks_heaps_and_stacks::<true, u32>("narrow-big");
    tasks_heaps_and_stacks::<false, u64>("wide");
    tasks_heaps_and_stacks::<true, u64>("wide-big");
}

fn tasks_heaps_and_stacks<const IS_BIG: bool, W: Word>(name: &str) {
    let low = lowest::<W>();
    let mut chip = Chip::<Everything<10, 3, IS_BIG, W>>::new(name);
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
    ledger.for_each_site(&mut |_, _| nodes += 1).expect("sites");
    assert_eq!(nodes, 6);
}
