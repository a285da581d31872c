//! A program whose allocator keeps a ledger in a region of memory: here of one with an operating system, to see that the books agree.

use std::alloc::System;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, hint, process, thread};

use heapledger::chip::{
    Address, Board, Books, ChipAllocator, ChipBoot, ChipRegion, Config, Frame, FrameList, NewBlock, Placed,
    Reallocated, frames, header, header_len, words,
};
use heapledger_format::{Entry, FreedEntry, GlobalCounter, Kind, TallyCounter};
use heapledger_source::Ledger;

struct Program;

static IS_TAKEN: AtomicBool = AtomicBool::new(false);

// SAFETY: one at a time.
unsafe impl Board for Program {
    const CONFIG: Config<'static> = Config { history: 4000, ..Config::minimal(4000, 64) };

    fn alone<T>(work: impl FnOnce() -> T) -> T {
        while IS_TAKEN.swap(true, Ordering::Acquire) {
            hint::spin_loop();
        }
        let result = work();
        IS_TAKEN.store(false, Ordering::Release);
        result
    }

    fn stack(_: Frame, frames: &mut FrameList) {
        assert!(frames.push(0x1234) && frames.push(0x5678));
    }
}

heapledger::chip_ledger!(Program);

#[global_allocator]
static HEAP: ChipAllocator<System, Program> = ChipAllocator::new(System);

/// A region's words as a ledger.
fn opened(region: &[Address], name: &str) -> Ledger {
    let bytes: Vec<u8> = region.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let path = PathBuf::from(format!("{}/chip-{}-{name}.ram", env!("CARGO_TARGET_TMPDIR"), process::id()));
    fs::write(&path, bytes).expect("a file");
    let ledger = Ledger::open(&path).expect("a ledger");
    let _ = fs::remove_file(&path);
    ledger
}

/// What the ledger holds now.
fn read() -> (Ledger, Vec<Entry>, Vec<FreedEntry>) {
    let mut region = vec![0; words::<Program>()];
    assert_eq!(HEAP.books().copy(&mut region), region.len());
    let ledger = opened(&region, "program");
    let (mut live, mut freed) = (Vec::new(), Vec::new());
    let mut records = ledger.records();
    while let Some(chunk) = records.next_chunk().expect("records") {
        live.extend_from_slice(chunk);
    }
    drop(records);
    let mut history = ledger.freed();
    while let Some(chunk) = history.next_chunk().expect("a history") {
        freed.extend_from_slice(chunk);
    }
    drop(history);
    (ledger, live, freed)
}

#[test]
fn what_is_live_is_in_the_region() {
    let kept = vec![1u8; 4321];
    let gone = vec![2u8; 5432];
    let gone_at = gone.as_ptr() as u64;
    drop(gone);
    let mut grown = Vec::<u8>::with_capacity(100_003);
    let first_at = grown.as_ptr() as u64;
    grown.reserve_exact(900_007);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..300).for_each(|size| drop(hint::black_box(vec![0u8; size]))));
        }
    });
    let of_a_pool = NewBlock { kind: Kind::POOL_ALLOC, address: 0x1000, size: 77, actual: None, heap: None };
    assert!(HEAP.books().allocated(&of_a_pool, Frame::NONE));

    let (ledger, live, freed) = read();
    assert_eq!(ledger.header().codec.word.bytes(), size_of::<usize>());
    let at = |address: u64| live.iter().find(|entry| entry.address == address).copied();
    let entry = at(kept.as_ptr() as u64).expect("a block that lives");
    assert_eq!((entry.size, entry.kind), (Some(4321), Kind::RUST_ALLOC));
    let stack = ledger.stack(entry.site).expect("a stack");
    let codes: Vec<u64> =
        stack.codes.iter().map(|code| ledger.code(*code).expect("a code").expect("known").offset).collect();
    assert_eq!(codes, [0x1234, 0x5678]);
    let entry = at(grown.as_ptr() as u64).expect("a block that grew");
    assert_eq!((entry.size, entry.kind), (Some(900_007), Kind::RUST_REALLOC));
    assert_eq!(at(0x1000).expect("a block of a pool").kind, Kind::POOL_ALLOC);
    let ended = |address: u64, size| {
        freed
            .iter()
            .find(|freed| freed.block.address == address && freed.block.size == Some(size))
            .map(|freed| freed.by)
    };
    assert_eq!(ended(gone_at, 5432), Some(Kind::RUST_DEALLOC));
    assert_eq!(ended(first_at, 100_003), Some(Kind::RUST_REALLOC));
    let tallies = ledger.tallies().expect("tallies");
    let tally = |counter| tallies.get(counter);
    assert_eq!(tally(TallyCounter::Allocations) - tally(TallyCounter::Frees), live.len() as u64);
    let bytes: u64 = live.iter().filter_map(|entry| entry.size).sum();
    assert_eq!(ledger.global(GlobalCounter::LiveBytes).expect("a counter"), bytes);
    for lost in
        [TallyCounter::LostBusy, TallyCounter::LostNoRecord, TallyCounter::UnknownFrees, TallyCounter::Displaced]
    {
        assert_eq!(tally(lost), 0, "{}", lost.name());
    }
}

/// Whose handler of an interrupt, which its critical section does not keep away, allocates and frees.
struct Interrupted;

// SAFETY: one thread of one test.
unsafe impl Board for Interrupted {
    const CONFIG: Config<'static> = Config::minimal(10, 3);

    fn stack(from: Frame, frames: &mut FrameList) {
        let _ = from;
        for code in [1, 2, 3, 4] {
            frames.push(code);
        }
    }

    /// In the middle of an update.
    fn sites_full() {
        let books = Books::<Interrupted>::of();
        let block = |address| NewBlock { kind: Kind::MALLOC, address, size: 5, actual: None, heap: None };
        assert!(!books.allocated(&block(0x5000), Frame::NONE) && !books.allocated(&block(0x6000), Frame::NONE));
        assert!(!books.freed(0x1000, Kind::FREE, Frame::NONE));
        assert_eq!(books.copy(&mut []), 0);
    }
}

heapledger::chip_ledger!(Interrupted, "ledger_of_interrupted");

#[test]
fn what_comes_in_the_middle_of_an_update_is_counted() {
    let books = Books::<Interrupted>::of();
    let block = |address| NewBlock { kind: Kind::MALLOC, address, size: 7, actual: None, heap: None };
    assert!(books.allocated(&block(0x1000), Frame::NONE));
    for address in 2..20 {
        books.allocated(&block(address * 0x1000), Frame::NONE);
    }
    let mut region = vec![0; words::<Interrupted>()];
    assert_eq!(books.copy(&mut region), region.len());
    let ledger = opened(&region, "interrupted");
    let tallies = ledger.tallies().expect("tallies");
    let tally = |counter| tallies.get(counter);
    let stacks = tally(TallyCounter::SitesFull);
    assert_eq!(stacks, 19);
    assert_eq!((tally(TallyCounter::LostBusy), tally(TallyCounter::FreesBusy)), (stacks * 2, stacks));
    assert_eq!((tally(TallyCounter::LostNoRecord), tally(TallyCounter::LostBytes)), (9, 63));
    assert_eq!(ledger.global(GlobalCounter::LiveBytes).expect("a counter"), 70);
}

/// Whose functions around its allocator, and whose outermost ones, are left out of stacks; and that is told when records are scarce.
struct Snipped;

thread_local! {
    static FRAMES: std::cell::Cell<Address> = const { std::cell::Cell::new(0) };
    static SCARCE: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

// SAFETY: one thread of one test.
unsafe impl Board for Snipped {
    const CONFIG: Config<'static> =
        Config { depth: 3, skip_frames: 2, cut_frames: 1, warn_records: 8, ..Config::minimal(10, 64) };

    fn stack(_: Frame, frames: &mut FrameList) {
        let _ = (1..=FRAMES.get()).all(|code| frames.push(code));
    }

    fn records_scarce() {
        SCARCE.set(SCARCE.get() + 1);
    }
}

heapledger::chip_ledger!(Snipped, "snipped_ledger");

#[test]
fn frames_are_left_out_in_front_and_behind() {
    let books = Books::<Snipped>::of();
    let block = |address| NewBlock { kind: Kind::MALLOC, address, size: 1, actual: None, heap: None };
    // So many frames there are: those that are kept.
    let expected: [&[u64]; 8] = [&[], &[1], &[1], &[1], &[3], &[3, 4], &[3, 4, 5], &[3, 4, 5]];
    for (count, _) in (0..).zip(expected) {
        FRAMES.set(count);
        assert_eq!(SCARCE.get(), 0);
        assert!(books.allocated(&block((count + 1) * 16), Frame::NONE));
    }
    assert_eq!(SCARCE.get(), 1, "the eighth of ten is not told of");
    let mut region = vec![0; words::<Snipped>()];
    assert_eq!(books.copy(&mut region), region.len());
    let ledger = opened(&region, "snipped");
    let mut records = ledger.records();
    let mut seen = 0;
    while let Some(chunk) = records.next_chunk().expect("records") {
        for entry in chunk {
            let stack = ledger.stack(entry.site).expect("a stack");
            let codes: Vec<u64> =
                stack.codes.iter().map(|code| ledger.code(*code).expect("a code").expect("known").offset).collect();
            assert_eq!(codes, expected[entry.address as usize / 16 - 1], "of {} frames", entry.address / 16 - 1);
            seen += 1;
        }
    }
    assert_eq!(seen, 8);
    // One that goes makes room, which is no news the second time.
    books.freed(16, Kind::FREE, Frame::NONE);
    assert!(books.allocated(&block(0x1000), Frame::NONE) && books.allocated(&block(0x2000), Frame::NONE));
    assert_eq!(SCARCE.get(), 1);
}

/// One whose region lies between words that are not its own.
struct Fenced;

const FENCE: usize = 64;
const FENCED_WORDS: usize = words::<Fenced>();
static FENCED: ChipRegion<{ FENCED_WORDS + 2 * FENCE }> = ChipRegion::new();

// SAFETY: one test alone calls it.
unsafe impl Board for Fenced {
    const CONFIG: Config<'static> = Config { history: 8, tasks: 3, ..Config::minimal(20, 50) };

    fn stack(_: Frame, frames: &mut FrameList) {
        assert!(frames.push(0x1234) && frames.push(0x5678));
    }
    fn task() -> Option<Address> {
        Some(0x100)
    }
}

// SAFETY: so many words are there, between others.
unsafe impl Placed for Fenced {
    type Frames = [MaybeUninit<Address>; frames::<Fenced>()];
    const HEADER: &'static [u32] = &header::<Fenced, { header_len::<Fenced>() }>();
    fn region() -> *mut Address {
        FENCED.first().wrapping_add(FENCE)
    }
    fn boot() -> &'static ChipBoot {
        static BOOT: ChipBoot = ChipBoot::new();
        &BOOT
    }
}

/// Whatever is written over a ledger, it does not leave its region.
#[test]
fn a_ledger_that_is_written_over_stays_where_it_is() {
    let mut random = 1u64;
    let mut below = |most: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 32) % most
    };
    let fence = |word: usize| FENCED.first().wrapping_add(if word < FENCE { word } else { word + FENCED_WORDS });
    let books = Books::<Fenced>::of();
    for round in 0..3000 {
        for word in 0..2 * FENCE {
            // SAFETY: a word of the static, beside the region.
            unsafe { fence(word).write_volatile(0xFE2C_E000 + word as Address) };
        }
        for step in 0..60 {
            let address = 0x2000_0000 + below(30) * 8;
            match below(8) {
                0 => {
                    let kept = books.realloc_begins(address);
                    books.realloc_ends(kept, Kind::REALLOC, Reallocated::Failed, Frame::NONE);
                }
                1 => {
                    books.task_begins(0x100 * below(4), 1, "a name");
                }
                2 => books.task_ends(0x100 * below(4)),
                3 => {
                    books.live_after(None, &mut [0; 4]);
                }
                4 | 5 => {
                    books.freed(address, Kind::FREE, Frame::NONE);
                }
                _ => {
                    let block = NewBlock { kind: Kind::MALLOC, address, size: 8, actual: None, heap: None };
                    books.allocated(&block, Frame::NONE);
                }
            }
            if step % 20 == 10 {
                let place = below(FENCED_WORDS as u64) as usize;
                let value = if below(2) == 0 { below(24) } else { below(1 << 32) << 32 | below(1 << 32) };
                // SAFETY: a word of the region, which nobody has now.
                unsafe { Fenced::region().wrapping_add(place).write_volatile(value) };
            }
        }
        for word in 0..2 * FENCE {
            // SAFETY: as above.
            let there = unsafe { fence(word).read_volatile() };
            assert_eq!(there, 0xFE2C_E000 + word as Address, "word {word} beside the region in round {round}");
        }
    }
}
