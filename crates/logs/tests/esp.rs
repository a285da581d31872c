//! Dumps of ESP-IDF's heap traces: the texts of all versions, whatever a monitor has made of them, whole and damaged.

use std::fmt::Write;
use std::io::BufReader;
use std::path::Path;

use heapledger_format::errors::ErrorEntry;
use heapledger_format::{Field, SectionKind, Site, TallyCounter};
use heapledger_logs::log::{LogKind, LogOptions, read_log};
use heapledger_lws::Width;
use heapledger_source::Ledger;

/// A block of a trace: size, address, memory, core, cycles, who allocated it, who freed it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Traced {
    address: u64,
    size: u64,
    heap: String,
    frames: Vec<u64>,
    freed: Option<Vec<u64>>,
}

fn traced(size: u64, address: u64, heap: &str, frames: &[u64], freed: Option<&[u64]>) -> Traced {
    Traced { address, size, heap: heap.to_owned(), frames: frames.to_vec(), freed: freed.map(<[u64]>::to_vec) }
}

/// With an address that is used three times, as a block that was freed, resized, and is live.
fn sample() -> Vec<Traced> {
    let (caller, free) = (&[0x4037_6321, 0x4037_6379][..], &[0x4038_39e4, 0x4200_8096][..]);
    vec![
        traced(10, 0x3fc9_0010, "Internal", caller, Some(free)),
        traced(16, 0x3fc9_0010, "Internal", caller, Some(&free[..1])),
        traced(7, 0x3fc9_0020, "Internal", caller, Some(&[])),
        traced(9, 0x3c09_0030, "PSRAM", &caller[..1], None),
        traced(1_234_567, 0x3c10_0000, "PSRAM", &[0x4200_1111, 0x4200_2222], None),
        traced(20, 0x3fc9_0010, "Internal", &[0x4200_1111, 0x4200_2222], None),
    ]
}

#[derive(Clone, Copy, PartialEq)]
enum Era {
    /// 5.5 and later.
    Newest,
    /// 5.1 to 5.4.
    Middle,
    /// Up to 5.0.
    Old,
}

fn pointers(frames: &[u64], depth: usize, era: Era) -> String {
    let pointer = |frame: &u64| match (era, frame) {
        (Era::Old, 0) => "0x0".to_owned(),
        _ => format!("0x{frame:08x}"),
    };
    let list: Vec<String> = frames.iter().map(pointer).collect();
    list.join(":") + if frames.len() < depth && !frames.is_empty() { ":" } else { "" }
}

/// The text as the device prints it.
fn dump(blocks: &[Traced], era: Era) -> String {
    let mut text = String::new();
    let count = blocks.len();
    match era {
        Era::Old => writeln!(text, "{count} allocations trace ({} entry buffer)", count + 2),
        _ => writeln!(text, "====== Heap Trace: {count} records ({} capacity) ======", count + 2),
    }
    .expect("a String has room");
    for (index, block) in blocks.iter().enumerate() {
        let label = match (era, block.heap.as_str()) {
            (Era::Old, _) => String::new(),
            (_, "PSRAM") => ",    PSRAM".to_owned(),
            (_, name) => format!(", {name}"),
        };
        let size = if era == Era::Old { block.size.to_string() } else { format!("{:6}", block.size) };
        let (core, cycles) = (index % 2, 0x2414 + index * 0x404);
        let frames = pointers(&block.frames, 2, era);
        write!(
            text,
            "{size} bytes (@ 0x{:08x}{label}) allocated CPU {core} ccount 0x{cycles:08x} caller {frames}",
            block.address
        )
        .expect("a String has room");
        match &block.freed {
            None => text.push('\n'),
            Some(by) if by.is_empty() && era == Era::Newest => text.push_str(" freed\n"),
            Some(by) => {
                let mut by = by.clone();
                by.resize(2, 0);
                writeln!(text, "\nfreed by {}", pointers(&by, 2, era)).expect("a String has room");
            }
        }
    }
    let live: Vec<&Traced> = blocks.iter().filter(|block| block.freed.is_none()).collect();
    let bytes: u64 = live.iter().map(|block| block.size).sum();
    let frees = count - live.len();
    let alive = format!("{bytes} bytes alive in trace ({}/{count} allocations)", live.len());
    match era {
        Era::Old => write!(text, "{alive}\ntotal allocations {count} total frees {frees}\n"),
        _ => write!(
            text,
            "====== Heap Trace Summary ======\nMode: Heap Trace All\n{alive}\nrecords: {count} ({} capacity, {count} high water mark)\ntotal allocations: {count}\ntotal frees: {frees}\n================================\n",
            count + 2
        ),
    }
    .expect("a String has room");
    text
}

fn open(text: &[u8]) -> Vec<Ledger> {
    let options = LogOptions { only: Some(LogKind::Esp), width: Width::W64 };
    let made = read_log(BufReader::new(text), options).expect("memory can be read");
    made.into_iter()
        .map(|made| Ledger::of_file(made.into_file().expect("a file"), Path::new("log")).expect("a ledger"))
        .collect()
}

fn one(text: &[u8]) -> Ledger {
    let mut made = open(text);
    assert_eq!(made.len(), 1, "{}", String::from_utf8_lossy(text));
    made.pop().expect("one")
}

fn frames(ledger: &Ledger, site: Site) -> Vec<u64> {
    let stack = ledger.stack(site).expect("it can be read");
    let code = |id: &heapledger_format::CodeId| ledger.code(*id).expect("it can be read").expect("it is there").offset;
    stack.codes.iter().map(code).collect()
}

/// Live blocks and freed ones, by address and size.
fn blocks(ledger: &Ledger) -> Vec<Traced> {
    let heaps: Vec<String> = ledger.heaps().expect("it can be read").into_iter().map(|heap| heap.name).collect();
    let of = |entry: &heapledger_format::Entry, freed| Traced {
        address: entry.address,
        size: entry.size.expect("a size"),
        heap: heaps[usize::from(entry.heap.expect("a heap"))].clone(),
        frames: frames(ledger, entry.site),
        freed,
    };
    let mut all = Vec::new();
    let (mut records, mut freed) = (ledger.records(), ledger.freed());
    while let Some(chunk) = records.next_chunk().expect("it can be read") {
        all.extend(chunk.iter().map(|entry| of(entry, None)));
    }
    while let Some(chunk) = freed.next_chunk().expect("it can be read") {
        for entry in chunk {
            assert!(entry.number > entry.block.number, "a block is freed behind its allocation");
            all.push(of(&entry.block, Some(frames(ledger, entry.site))));
        }
    }
    all.sort();
    all
}

fn sorted(mut blocks: Vec<Traced>) -> Vec<Traced> {
    blocks.sort();
    blocks
}

fn missing(ledger: &Ledger) -> Vec<String> {
    ledger.process().all_of("missing.").collect()
}

#[test]
fn the_texts_of_all_versions_are_read() {
    for era in [Era::Newest, Era::Middle] {
        let ledger = one(dump(&sample(), era).as_bytes());
        assert_eq!(blocks(&ledger), sorted(sample()));
        assert_eq!(missing(&ledger), [""; 0]);
        let totals = ledger.tallies().expect("it can be read");
        assert_eq!((totals.get(TallyCounter::Allocations), totals.get(TallyCounter::Frees)), (6, 3));
        let layout = ledger.header().layout;
        assert!(layout.has(Field::Core) && layout.has(Field::Cycles), "core and cycle counter are kept");
        assert!(!layout.has(Field::FreedCore) && !layout.has(Field::Time), "and what is not known is absent");
    }
    let ledger = one(dump(&sample(), Era::Old).as_bytes());
    let unlabelled = sample().into_iter().map(|block| Traced { heap: "memory that was not told".to_owned(), ..block });
    assert_eq!(blocks(&ledger), sorted(unlabelled.collect()));
    assert_eq!(missing(&ledger), [""; 0]);
}

/// As many frames as there are: none, since nothing walks stacks; zeros, where one word is too few; and blocks in no memory that has a name.
#[test]
fn blocks_without_a_stack_or_a_memory_are_read_in_the_texts_of_all_versions() {
    let bare = |heap: &str, freed: bool| traced(10, 0x3fc9_0010, heap, &[], freed.then_some(&[]));
    let unsaid = "memory that was not told";
    for (line, expected) in [
        ("    10 bytes (@ 0x3fc90010, Internal) allocated CPU 1 ccount 0x00002414", bare("Internal", false)),
        ("    10 bytes (@ 0x3fc90010, Internal) allocated CPU 1 ccount 0x00002414 freed", bare("Internal", true)),
        ("    10 bytes (@ 0x3fc90010,    PSRAM) allocated CPU 0 ccount 0x00002414 caller ", bare("PSRAM", false)),
        ("    10 bytes (@ 0x3fc90010) allocated CPU 0 ccount 0x00002414 caller 0x00000000: freed", bare(unsaid, true)),
        ("10 bytes (@ 0x3fc90010) allocated CPU 0 ccount 0x00002414 caller 0x0:0x0", bare(unsaid, false)),
        (
            "10 bytes (@ 0x3fc90010) allocated CPU 0 ccount 0x00002414 caller 0x0:0x0\nfreed by 0x0:0x0",
            bare(unsaid, true),
        ),
    ] {
        let text =
            format!("====== Heap Trace: 1 records (8 capacity) ======\n{line}\n====== Heap Trace Summary ======\n");
        assert_eq!(blocks(&one(text.as_bytes())), [expected], "{line}");
    }
}

/// What esp-idf-monitor and PlatformIO print behind lines with addresses.
fn decorated(text: &str, style: usize) -> String {
    let mut out = String::from("I (252) heap_init: Initializing.\n");
    for (index, line) in text.lines().enumerate() {
        let stamp = if style == 3 { "2026-01-02 03:04:05 " } else { "" };
        write!(out, "{stamp}\x1b[0m{line}{}", ["\n", "\r\n", "\r\r\n", "\r\r\n", "\n"][style])
            .expect("a String has room");
        if !line.contains("caller 0x") && !line.starts_with("freed by") {
            continue;
        }
        match style {
            0 => {
                out += "0x40376321: heap_caps_malloc at /path/to/heap_caps.c:84\n0x42008096: test_func_74 at /path/main/test_heap_trace.c:104 (discriminator 3)\n (inlined by) outer at file.c:52\n\n"
            }
            1 => {
                out += "--- 0x40376321: heap_caps_malloc at /path/to/heap_caps.c:84\n--- (inlined by) free at /x.c:5\n"
            }
            2 | 3 => {
                writeln!(out, "{stamp}--- 0x40376321: heap_caps_malloc at /path/heap_caps.c:84(inlined by) malloc at /path/x.c:9\r\r").expect("a String has room");
                out += "--- 0x40007c69: ets_write_char in ROM\n";
            }
            _ => out += "     #0  0x4013bfc4 in operator new(unsigned int) at /home/new_op.cc:50\n",
        }
        if index % 3 == 0 {
            out += "I (123) wifi: 100 bytes sent, freed by nobody\n";
        }
    }
    out
}

#[test]
fn decorated_logs_give_the_same_blocks_as_raw_ones() {
    for era in [Era::Newest, Era::Middle] {
        for style in 0..5 {
            let ledger = one(decorated(&dump(&sample(), era), style).as_bytes());
            assert_eq!(blocks(&ledger), sorted(sample()), "style {style}");
            assert_eq!(missing(&ledger), [""; 0], "style {style}");
        }
    }
}

/// The sample of the page that describes it, whose lines are joined and whose last line is missing.
#[test]
fn the_sample_of_the_documentation_is_read() {
    let mut text = String::from("====== Heap Trace: 8 records (8 capacity) ====== ");
    for (index, size) in [6, 9, 12, 15, 18, 21, 24, 6].iter().enumerate() {
        let address =
            [0x3fc9f620u64, 0x3fc9f630, 0x3fc9f640, 0x3fc9f650, 0x3fc9f664, 0x3fc9f67c, 0x3fc9f698, 0x3fc9f6b4][index];
        text += &format!(
            "{size} bytes (@ {address:#x}, Internal) allocated CPU 0 ccount 0x1a31ac84 caller 0x40376321:0x40376379 0x40376321: heap_caps_malloc at /path/heap_caps.c:84\n\n"
        );
        if index < 7 {
            text += "freed by 0x403839e4:0x42008096 0x403839e4: free at /path/heap.c:40 0x42008096: test_func_74 at /path/test.c:104 (discriminator 3)\n\n";
        }
    }
    text += "====== Heap Trace Summary ====== Mode: Heap Trace All 6 bytes alive in trace (1/8 allocations) records: 8 (8 capacity, 8 high water mark) total allocations: 9 total frees: 8\n";
    let ledger = one(text.as_bytes());
    let read = blocks(&ledger);
    assert_eq!(read.len(), 8);
    let live: Vec<&Traced> = read.iter().filter(|block| block.freed.is_none()).collect();
    assert_eq!((live.len(), live[0].address, live[0].size), (1, 0x3fc9f6b4, 6));
    assert_eq!(missing(&ledger), [""; 0]);
    assert_eq!(ledger.process().number("trace_allocations"), Some(9));
    assert_eq!(ledger.process().number("trace_frees"), Some(8));
}

#[test]
fn a_block_that_is_freed_ends_before_the_next_one_at_its_address_begins() {
    let ledger = one(dump(&sample(), Era::Newest).as_bytes());
    let mut ends = Vec::new();
    let mut freed = ledger.freed();
    while let Some(chunk) = freed.next_chunk().expect("it can be read") {
        ends.extend(chunk.iter().map(|entry| (entry.block.address, entry.block.number, entry.number)));
    }
    ends.sort_unstable();
    let here: Vec<_> = ends.iter().filter(|(address, ..)| *address == 0x3fc9_0010).collect();
    assert!(here[0].2 < here[1].1, "{here:?}");
    let mut records = ledger.records();
    let live = records.next_chunk().expect("it can be read").expect("a chunk").to_vec();
    let last = live.iter().find(|entry| entry.address == 0x3fc9_0010).expect("a live block");
    assert!(here[1].2 < last.number, "{here:?} {last:?}");
}

#[test]
fn what_the_summary_says_otherwise_is_told() {
    let text = dump(&sample(), Era::Newest);
    let fewer: String =
        text.lines().filter(|line| !line.contains("1234567 bytes")).map(|line| format!("{line}\n")).collect();
    let said = missing(&one(fewer.as_bytes()));
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("6 records, and 5") && said[1].contains("1234596 bytes alive in 3 blocks"), "{said:?}");
    let cut = text.split("====== Heap Trace Summary").next().expect("a part");
    assert!(missing(&one(cut.as_bytes()))[0].contains("cut: its summary is missing"));
    let torn = text.replacen("bytes (@ 0x3fc90020, Inter", "bytes (@ 0x3fI (5) wifi: up\nc90020, Inter", 1);
    let said = missing(&one(torn.as_bytes()));
    assert!(said.iter().any(|text| text.starts_with("1 record of the dump could not be read")), "{said:?}");
    let full = text.replace("total allocations: 6", "total allocations: 9");
    let full = full.replace(
        "================================",
        "(NB: Internal Buffer has overflowed, so trace data is incomplete.)\n================================",
    );
    let said = missing(&one(full.as_bytes()));
    assert!(said[0].contains("overflowed on the device: 3 records were dropped"), "{said:?}");
}

#[test]
fn several_dumps_are_several_ledgers_and_a_reset_ends_one() {
    let second: Vec<Traced> = sample().into_iter().skip(3).collect();
    let text = format!(
        "{}rst:0x1 (POWERON_RESET)\n{}{}",
        dump(&sample(), Era::Newest).split("====== Heap Trace Summary").next().expect("a part"),
        dump(&second, Era::Old),
        dump(&second, Era::Newest),
    );
    let made = open(text.as_bytes());
    assert_eq!(made.len(), 3);
    assert_eq!(blocks(&made[0]), sorted(sample()));
    assert_eq!(blocks(&made[2]), sorted(second));
    assert_eq!(missing(&made[0]).len(), 1);
    assert_eq!(missing(&made[2]).len(), 0);
}

#[test]
fn damage_is_joined_to_the_block_before_it() {
    let text = format!(
        "{}CORRUPT HEAP: Bad tail at 0x3c090039. Expected 0xbaad5678 got 0xbaac5678\nMem alloc fail. size 0x08000000 caps 0x00001000\n",
        dump(&sample(), Era::Newest)
    );
    let ledger = one(text.as_bytes());
    assert_eq!(ledger.count(SectionKind::Errors).expect("it can be read"), 2);
    let errors = ledger.errors().expect("it can be read");
    let tail: ErrorEntry = errors[0].entry;
    assert_eq!((tail.address, tail.block, tail.block_bytes), (0x3c09_0039, 0x3c09_0030, 9));
    assert_eq!(frames(&ledger, tail.stacks[0].site), [0x4037_6321]);
    // Without a dump there is a ledger of nothing else.
    let alone = one(b"x\nCORRUPT HEAP: Bad head at 0x3ffb1234. Expected 0xabba1234 got 0xabba1235\n");
    assert_eq!(alone.count(SectionKind::Errors).expect("it can be read"), 1);
}

#[test]
fn a_log_cut_anywhere_or_with_any_byte_changed_does_no_harm() {
    let text = decorated(&dump(&sample(), Era::Newest), 1);
    for cut in 0..text.len() {
        for ledger in open(&text.as_bytes()[..cut]) {
            assert!(blocks(&ledger).len() <= 6);
            let is_whole = text[..cut].contains("alive in trace (");
            assert!(is_whole || !missing(&ledger).is_empty(), "cut at {cut}, and nobody says so");
        }
    }
    for at in 0..text.len() {
        for value in [0, b'9', 0xff] {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = value;
            for ledger in open(&bytes) {
                blocks(&ledger);
            }
        }
    }
}

#[test]
fn huge_figures_are_no_figures() {
    let text = "====== Heap Trace: 99999999999999999999 records (8 capacity) ======\n18446744073709551615 bytes (@ 0xffffffffffffffff, Internal) allocated CPU 0 ccount 0xffffffff caller 0x40376321:0xffffffffffffffff\n99999999999999999999999 bytes (@ 0x1, Internal) allocated CPU 0 ccount 0x0 caller 0x1\n";
    for ledger in open(text.as_bytes()) {
        let mut records = ledger.records();
        while records.next_chunk().expect("it can be read").is_some() {}
    }
}

/// Two devices, or two cores of one, that write at the same time: nobody can tell whose a record is, but that something is wrong is told.
#[test]
fn dumps_that_are_interleaved_are_told() {
    let (one, other) = (dump(&sample(), Era::Newest), dump(&sample()[3..], Era::Newest));
    let mut text = String::new();
    let (mut first, mut second) = (one.lines(), other.lines());
    loop {
        let (a, b) = (first.next(), second.next());
        if a.is_none() && b.is_none() {
            break;
        }
        for line in [a, b].into_iter().flatten() {
            text += line;
            text.push('\n');
        }
    }
    let made = open(text.as_bytes());
    assert!(!made.is_empty());
    assert!(made.iter().any(|ledger| !missing(ledger).is_empty()), "nobody says that records are missing");
    let read: usize = made.iter().map(|ledger| blocks(ledger).len()).sum();
    assert!(read <= 9, "{read}");
}

#[test]
fn a_log_of_a_hundred_thousand_lines_is_read_with_all_its_records() {
    let blocks_of = |count: u64| -> Vec<Traced> {
        (0..count)
            .map(|index| {
                traced(
                    8 + index % 100,
                    0x3fc0_0000 + index * 128,
                    "Internal",
                    &[0x4200_0000 + index % 500 * 4, 0x4037_6379],
                    None,
                )
            })
            .collect()
    };
    let many = blocks_of(50_000);
    let mut text = String::new();
    for line in dump(&many, Era::Newest).lines() {
        text += line;
        text += "\nI (1) other: a line of the other core\n";
    }
    let ledger = one(text.as_bytes());
    assert_eq!(blocks(&ledger).len(), 50_000);
    assert_eq!(missing(&ledger), [""; 0]);
}
