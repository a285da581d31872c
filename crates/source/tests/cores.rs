//! Ledgers in core dumps and in images of memory, and core dumps that lead to ledgers elsewhere.

use std::path::Path;

use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::header::MAGIC;
use heapledger_source::{FoundIn, ImageOptions, Ledger, Meanwhile, Snapshot, SourceError, WhichLedger, finish};
use heapledger_testing::{Scratch, sample};

const KINDS: [(ByteOrder, WordSize); 4] = [
    (ByteOrder::Little, WordSize::W64),
    (ByteOrder::Little, WordSize::W32),
    (ByteOrder::Big, WordSize::W64),
    (ByteOrder::Big, WordSize::W32),
];
const LITTLE_64: Codec = Codec { order: ByteOrder::Little, word: WordSize::W64 };

/// A core dump of these pieces of memory (address, bytes, writable), with these notes (type, bytes).
fn core(codec: Codec, memory: &[(u64, &[u8], bool)], notes: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let wide = codec.word == WordSize::W64;
    let word = codec.word.bytes();
    let (header, entry) = if wide { (64, 56) } else { (52, 32) };
    let mut bytes = vec![0u8; header + entry * (memory.len() + 1)];
    bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', if wide { 2 } else { 1 }, 1, 1, 0]);
    bytes[5] = if codec.order == ByteOrder::Little { 1 } else { 2 };
    let mut put = |at: usize, width: usize, value: u64| assert!(codec.put(&mut bytes, at, width, value));
    put(16, 2, 4);
    put(if wide { 32 } else { 28 }, word, header as u64);
    let at = if wide { 54 } else { 42 };
    put(at, 2, entry as u64);
    put(at + 2, 2, memory.len() as u64 + 1);
    let mut packed = Vec::new();
    for (kind, note) in notes {
        for number in [5, note.len() as u32, *kind] {
            let mut word = [0u8; 4];
            codec.put(&mut word, 0, 4, u64::from(number));
            packed.extend(word);
        }
        packed.extend(b"CORE\0\0\0\0");
        packed.extend(note);
        packed.resize(packed.len().next_multiple_of(4), 0);
    }
    let note = (0, packed.as_slice(), false);
    let mut place = bytes.len();
    let mut tail: Vec<u8> = Vec::new();
    for (index, (address, content, writable)) in [note].iter().chain(memory).enumerate() {
        let at = header + index * entry;
        let kind = if index == 0 { 4 } else { 1 };
        let flags = 4 | if *writable { 2 } else { 0 };
        let (flags_at, offset, vaddr, filesz) = if wide { (4, 8, 16, 32) } else { (24, 4, 8, 16) };
        let mut put = |at: usize, width: usize, value: u64| assert!(codec.put(&mut bytes, at, width, value));
        put(at, 4, kind);
        put(at + flags_at, 4, flags);
        put(at + offset, word, place as u64);
        put(at + vaddr, word, *address);
        put(at + filesz, word, content.len() as u64);
        place += content.len();
        tail.extend(*content);
    }
    bytes.extend(tail);
    bytes
}

fn anchor(live: &Path, id: &[u8; 16], cwd: Option<&Path>) -> Vec<u8> {
    let mut page = MAGIC.to_vec();
    page.extend(format!("anchor\n{}\n", live.display()).bytes());
    page.extend(id.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()));
    page.extend(b"\npid=7\n");
    page.extend(cwd.map(|cwd| format!("cwd={}\n", cwd.display())).unwrap_or_default().bytes());
    page.resize(4096, 0);
    page
}

fn blocks(ledger: &Ledger) -> Vec<(u64, Option<u64>)> {
    let mut all = Vec::new();
    let mut records = ledger.records();
    while let Some(chunk) = records.next_chunk().expect("readable") {
        all.extend(chunk.iter().map(|entry| (entry.address, entry.size)));
    }
    all
}

/// Behind the page of a header that begins at 4996, however many counters it has, and before its last section ends.
const SPLIT: usize = 4996 + 4096 + 300;

#[test]
fn a_ledger_that_lies_in_a_core_dump_is_read_from_it() {
    let place = Scratch::new("cores-inside");
    for (order, word) in KINDS {
        let codec = Codec { order, word };
        let bytes = sample(order, word).bytes();
        let plain = Ledger::open(place.write("plain", &bytes)).expect("a ledger");
        assert!(plain.found().is_none());
        // In the middle of a region, and in two segments that touch.
        let mut region = vec![0xaau8; 5000];
        region.truncate(4996);
        region.extend(&bytes);
        let (first, second) = region.split_at(SPLIT);
        let memory = [
            (0x2000_0000, first, true),
            (0x2000_0000 + SPLIT as u64, second, true),
            (0x800_0000, b"code".as_slice(), false),
        ];
        let path = place.write("core", core(codec, &memory, &[]));
        let ledger = Ledger::open(&path).expect("a ledger in a core dump");
        assert_eq!(blocks(&ledger), blocks(&plain));
        assert!(!blocks(&ledger).is_empty());
        let found = ledger.found().expect("found");
        assert_eq!((found.is_core, &found.source), (true, &FoundIn::Itself { address: 0x2000_0000 + 4996 }));
        assert!(!ledger.damage().is_any() && !ledger.is_running());
        assert_eq!(ledger.threads().expect("threads"), plain.threads().expect("threads"));
        // The same memory without addresses.
        let image = Ledger::open(place.write("ram.bin", &region)).expect("a ledger in an image");
        assert_eq!(image.found().expect("found").source, FoundIn::Itself { address: 4996 });
        assert_eq!(blocks(&image), blocks(&plain));
        // Half of it was not dumped: what there is, and that something is missing.
        let memory = [(0x2000_0000, first, true)];
        let cut = Ledger::open(place.write("core", core(codec, &memory, &[]))).expect("half a ledger");
        assert!(cut.damage().is_any(), "half a ledger passes for whole");
    }
}

/// As QEMU writes them, none of whose segments says that it can be written, and as ESP-IDF's are: of 32 bits, with notes of its own.
#[test]
fn core_dumps_of_chips_are_searched() {
    let place = Scratch::new("cores-chips");
    for (order, word) in KINDS {
        let codec = Codec { order, word };
        let bytes = sample(order, word).bytes();
        let expected = blocks(&Ledger::open(place.write("plain", &bytes)).expect("a ledger"));
        let rom = vec![0x55u8; 3000];
        let memory = [(0x4000_0000, rom.as_slice(), true), (0x3ffb_0000, bytes.as_slice(), true)];
        // A task's registers (a `prstatus` shorter than that of Linux), its number in place of a process's; which chip, and which build.
        let notes = [(1, vec![0x0b; 148]), (677, vec![7; 24]), (8266, b"elf_sha256".to_vec())];
        for has_flags in [true, false] {
            let mut core = core(codec, &memory, &notes);
            let wide = word == WordSize::W64;
            let (header, entry, flags) = if wide { (64, 56, 4) } else { (52, 32, 24) };
            for index in (0..3).filter(|_| !has_flags) {
                assert!(codec.put(&mut core, header + index * entry + flags, 4, 0));
            }
            let ledger = Ledger::open(place.write("core", &core)).expect("a ledger in a core dump");
            assert_eq!(blocks(&ledger), expected);
            let found = ledger.found().expect("found");
            assert_eq!((found.is_core, found.has_addresses), (true, true));
            assert_eq!(found.source, FoundIn::Itself { address: 0x3ffb_0000 });
            if !wide {
                assert_eq!((found.pid, found.signal), (None, None), "a task is no process");
            }
        }
    }
}

/// Two in one image, and none in another.
#[test]
fn of_several_ledgers_in_an_image_one_is_chosen() {
    let place = Scratch::new("cores-several");
    let [first, second] = [ByteOrder::Little, ByteOrder::Big].map(|order| sample(order, WordSize::W32).bytes());
    let mut image = vec![9u8; 64];
    image.extend(&first);
    image.resize(image.len().next_multiple_of(4), 9);
    let second_at = image.len() as u64;
    image.extend(&second);
    let path = place.write("ram.bin", &image);
    let open = |base, which| Ledger::open_with(&path, ImageOptions { base, which });
    let at = |ledger: Ledger| match ledger.found().expect("found").source {
        FoundIn::Itself { address } => (address, ledger.found().expect("found").ledgers.len()),
        _ => panic!("elsewhere"),
    };
    let numbered = |number| Some(WhichLedger::Numbered(number));
    assert_eq!(at(open(None, None).expect("the first")), (64, 2));
    assert_eq!(at(open(None, numbered(2)).expect("the second")), (second_at, 2));
    assert_eq!(at(open(Some(0x1000), numbered(1)).expect("the first")), (0x1040, 2));
    assert_eq!(at(open(Some(0x1000), Some(WhichLedger::At(0x1000 + second_at))).expect("it")), (0x1000 + second_at, 2));
    for which in [numbered(0), numbered(3), Some(WhichLedger::At(63))] {
        let refused = open(None, which).expect_err("there is none").to_string();
        assert!(
            refused.ends_with(&format!("those that are there begin at 0x40 (@1), {second_at:#x} (@2)")),
            "{refused}"
        );
    }
    // A base behind which there are not enough addresses.
    let refused = open(Some(u64::MAX - 63), None).expect_err("there is no room");
    assert!(matches!(refused, SourceError::BeyondAddresses(_)), "{refused}");
    // Of a hex file the addresses are known.
    let hex = place.write("ram.hex", ":020000042000DA\n:0400000001020304F2\n:00000001FF\n");
    let refused = Ledger::open_with(&hex, ImageOptions { base: Some(1), which: None }).expect_err("it has its own");
    assert!(matches!(refused, SourceError::HasAddresses(_)));
    assert!(Ledger::open(&hex).expect_err("no ledger").to_string().contains("a hex file without a ledger"));
}

#[test]
fn a_snapshot_is_not_taken_for_the_end() {
    let place = Scratch::new("cores-snapshot");
    let live = place.write("live", sample(ByteOrder::Little, WordSize::W64).bytes());
    let ledger = Ledger::open(&live).expect("live");
    let gone = place.join("gone.hlive");
    let page = anchor(&gone, &ledger.header().id, None);
    let path = place.write("core", core(LITTLE_64, &[(0x7000_0000, page.as_slice(), true)], &[]));
    let written = std::fs::metadata(&path).and_then(|data| data.modified()).expect("a time");
    let written = written.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    // In the order of names the farther one is first.
    for (name, away) in [("x.7.0.hl", 3_000_000_000), ("x.7.1.hl", 1_000_000_000)] {
        let copy = Snapshot::copy(&ledger, &place.join("raw"), written - away, Meanwhile::Held).expect("copied");
        copy.finish(&place.join(name), &[], &mut |_, _| {}).expect("finished");
    }
    let source = || {
        let ledger = Ledger::open(&path).expect("a ledger");
        (ledger.found().expect("found").source.clone(), ledger.taken().map(|taken| taken.unix_ns))
    };
    let nearest = FoundIn::FinishedFile(place.join("x.7.1.hl"));
    assert_eq!(source(), (nearest, Some(written - 1_000_000_000)), "nothing but snapshots");
    let end = place.join("x.7.hl");
    finish(&ledger, &end, &[], &mut |_, _| {}).expect("finished");
    assert_eq!(source(), (FoundIn::FinishedFile(end), None), "a snapshot in place of the end");
}

#[test]
fn an_anchor_leads_to_the_live_file_and_then_to_the_finished_one() {
    let place = Scratch::new("cores-anchor");
    let elsewhere = Scratch::new("cores-anchor-elsewhere");
    let bytes = sample(ByteOrder::Little, WordSize::W64).bytes();
    let live = place.write("0123456789abcdef-0.hlive", &bytes);
    let id = Ledger::open(&live).expect("live").header().id;
    let page = anchor(&live, &id, Some(place.path()));
    let big = vec![0u8; 1 << 20];
    let memory = [(0x1000_0000, big.as_slice(), true), (0x7000_0000, page.as_slice(), true)];
    let path = elsewhere.write("core", core(LITTLE_64, &memory, &[]));
    let ledger = Ledger::open(&path).expect("by the anchor");
    assert_eq!(ledger.found().expect("found").source, FoundIn::LiveFile(live.clone()));
    let all = blocks(&ledger);
    let done = place.join("heapledger.x.7.hl");
    finish(&ledger, &done, &[], &mut |_, _| {}).expect("finished");
    // Another ledger lies there under the live file's name: it is not the one.
    let mut other = bytes.clone();
    other[32] ^= 1;
    std::fs::write(&live, &other).expect("written");
    let ledger = Ledger::open(&path).expect("in the program's directory");
    assert_eq!(ledger.found().expect("found").source, FoundIn::FinishedFile(done.clone()));
    assert_eq!(blocks(&ledger), all);
    std::fs::remove_file(&live).expect("removed");
    assert!(Ledger::open(&path).expect("finished").is_finished());
    // Beside the core dump it is found without knowing the program's directory.
    let moved = elsewhere.path().join("y.hl");
    std::fs::rename(&done, &moved).expect("moved");
    let page = anchor(&live, &id, None);
    let path = elsewhere.write("core", core(LITTLE_64, &[(0x7000_0000, page.as_slice(), true)], &[]));
    assert_eq!(
        Ledger::open(&path).expect("beside").found().expect("found").source,
        FoundIn::FinishedFile(moved.clone())
    );
    std::fs::remove_file(&moved).expect("removed");
    let lost = Ledger::open(&path).expect_err("gone");
    assert!(matches!(lost, SourceError::CoreLost { .. }), "{lost}");
    assert!(lost.to_string().contains("which is gone"), "{lost}");
    // An anchor that does not begin a page is a copy of one.
    let mut shifted = vec![0u8; 8];
    shifted.extend(&page);
    let path = elsewhere.write("core", core(LITTLE_64, &[(0x7000_0000, shifted.as_slice(), true)], &[]));
    assert!(matches!(Ledger::open(&path), Err(SourceError::CoreWithout { cut: false, .. })));
}

#[test]
fn a_ledger_in_the_core_goes_before_the_file_and_a_child_has_none() {
    let place = Scratch::new("cores-before");
    let bytes = sample(ByteOrder::Little, WordSize::W64).bytes();
    let live = place.write("0123456789abcdef-0.hlive", &bytes);
    let id = Ledger::open(&live).expect("live").header().id;
    let page = anchor(&live, &id, None);
    let mut files = Vec::new();
    for word in [1u64, 1, 0x4000_0000, 0x4000_0000 + bytes.len() as u64, 0] {
        files.extend(word.to_le_bytes());
    }
    files.extend(format!("{}\0", live.display()).bytes());
    let notes = [(0x4649_4c45, files)];
    let memory = [(0x4000_0000, bytes.as_slice(), true), (0x7000_0000, page.as_slice(), true)];
    let with_it = place.write("core", core(LITTLE_64, &memory, &notes));
    let found = Ledger::open(&with_it).expect("a ledger").found().expect("found").clone();
    assert_eq!(found.source, FoundIn::Itself { address: 0x4000_0000 });
    // Only its first page was dumped: the file has more.
    let memory = [(0x4000_0000, &bytes[..4096], true), (0x7000_0000, page.as_slice(), true)];
    let ledger = Ledger::open(place.write("core", core(LITTLE_64, &memory, &notes))).expect("a ledger");
    assert_eq!(ledger.found().expect("found").source, FoundIn::LiveFile(live.clone()));
    assert!(!ledger.damage().is_any());
    // It was mapped, and the anchor is wiped: a forked child.
    let memory = [(0x7000_0000, [0u8; 4096].as_slice(), true)];
    let child = Ledger::open(place.write("core", core(LITTLE_64, &memory, &notes))).expect_err("not recorded");
    assert!(matches!(&child, SourceError::CoreOfChild { parent, .. } if *parent == live), "{child}");
}

#[test]
fn cut_and_forged_core_dumps_do_no_harm() {
    let place = Scratch::new("cores-cut");
    for (order, word) in KINDS {
        let codec = Codec { order, word };
        let ledger = sample(order, word).bytes();
        let memory = [(0x2000_0000, ledger.as_slice(), true), (0x800_0000, b"code".as_slice(), false)];
        let whole = core(codec, &memory, &[(1, vec![0; 336]), (3, vec![0; 136]), (0x4649_4c45, vec![9; 40])]);
        let mut opened = 0;
        for cut in (0..1200.min(whole.len())).chain((1200..whole.len()).step_by(977)) {
            let path = place.write("core", &whole[..cut]);
            match Ledger::open(&path) {
                Ok(ledger) => {
                    opened += 1;
                    blocks(&ledger);
                    assert!(ledger.found().expect("found").cut);
                }
                Err(reason) => assert!(!reason.to_string().is_empty()),
            }
        }
        assert!(opened > 0, "no cut core dump was read up to the cut");
        let headers = if word == WordSize::W64 { 64 + 3 * 56 + 580 } else { 52 + 3 * 32 + 580 };
        for at in 4..headers {
            for value in [0u8, 0x7f] {
                let mut forged = whole.clone();
                forged[at] = value;
                if let Ok(ledger) = Ledger::open(place.write("core", &forged)) {
                    blocks(&ledger);
                }
            }
        }
    }
}

/// What this process, with the tests beside this one, has read from files so far.
fn bytes_read() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("counts of this process");
    let figure = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    figure.expect("a figure").parse().expect("a number")
}

#[test]
fn what_is_neither_says_so() {
    let place = Scratch::new("cores-neither");
    let plain = core(LITTLE_64, &[(0x1000, b"nothing here", true)], &[]);
    let refusal = |bytes: &[u8]| Ledger::open(place.write("file", bytes)).expect_err("refused").to_string();
    assert!(refusal(&plain).ends_with("its process was not recorded by heapledger"));
    assert!(refusal(&plain[..plain.len() - 1]).contains("the file ends early"));
    assert!(refusal(&plain[..63]).contains("it ends within its first header"));
    let mut program = plain.clone();
    program[16] = 2;
    assert!(refusal(&program).ends_with("is an executable or a library, not a ledger"));
    program[5] = 9;
    assert!(refusal(&program).contains("byte order"));
    assert!(refusal(b"\x28\xb5\x2f\xfd core dump of a system's collector").contains("unpack it first"));
    // A hole of sixty gigabytes is not read.
    let path = place.write("file", &plain);
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
    file.set_len(60 << 30).expect("made longer");
    let mut sparse = plain.clone();
    let codec = LITTLE_64;
    assert!(codec.put(&mut sparse, 64 + 56 + 32, 8, (60 << 30) - 8192));
    std::os::unix::fs::FileExt::write_all_at(&file, &sparse, 0).expect("written");
    let before = bytes_read();
    assert!(matches!(Ledger::open(&path), Err(SourceError::CoreWithout { .. })));
    let read = bytes_read() - before;
    assert!(read < 1 << 30, "{read} bytes were read");
}
