//! Every command on ledgers, core dumps and images of memory that were forged or cut: an answer or a sentence, in
//! little memory and soon.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Scratch, finish, heapledger};
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_source::{Ledger, finish as finish_ledger};
use heapledger_testing::everything;

/// What is forged, and another ledger that is whole.
const FORGED: &str = "forged.hl";
const WHOLE: &str = "whole.hl";

/// Every command that takes a ledger, as it comes by all of one.
const COMMANDS: &[&[&str]] = &[
    &["stats", "--all", FORGED],
    &["stats", "--format", "ecos", FORGED],
    &["dump", "--limit", "0", FORGED],
    &["dump", "--json", "--where", "size > 1 and fn ~ 'a'", "--sort", "size:desc,seq", FORGED],
    &["dump", "--group-by", "stack", "--format", "csv", FORGED],
    &["history", "--limit", "0", FORGED],
    &["history", "--json", "-r", FORGED, FORGED],
    &["tree", FORGED],
    &["tree", "--inverted", "--by", "allocated", "--threads", "--json", FORGED],
    &["flame", "--format", "folded", "-o", "-", FORGED],
    &["flame", "-o", "page.html", FORGED],
    &["flame", "-o", "page.svg", "--diff", WHOLE, FORGED],
    &["top", "--batch", "1", FORGED],
    &["top", "--batch", "1", "--json", "--group-by", "thread", FORGED],
    &["check", "--max-leaked", "0", "--max-peak", "1", "--max-allocs", "1", "--format", "sarif", FORGED],
    &["check", "--max-live", "0", "--max-allocated", "1", "--format", "junit", "--baseline", WHOLE, FORGED],
    &["diff", WHOLE, FORGED],
    &["diff", "--blocks", "--json", FORGED, WHOLE],
    &["errors", FORGED],
    &["timeline", FORGED],
    &["timeline", "--json", FORGED],
    &["timeline", "--svg", "curve.svg", FORGED],
    &["errors", "--json", FORGED],
    &["dump", "--since", "warm", "--window", "requests", FORGED],
    &["whereis", FORGED, "0x1040", "0xffffffffffffffff", "0"],
    &["whereis", "--json", FORGED, "0x10010"],
    &["snapshot", "-o", "taken.%i", FORGED],
    &["recover", "-o", "recovered.hl", FORGED],
    &["recover", "-o", ".", FORGED],
];

/// The same numbers each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// A live and a finished ledger, of one machine and another.
fn ledgers(scratch: &Scratch) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (order, word) in [(ByteOrder::Little, WordSize::W64), (ByteOrder::Big, WordSize::W32)] {
        let (live, finished) = (scratch.cwd().join("a.hlive"), scratch.cwd().join("a.hl"));
        everything(order, word).write(&live).expect("written");
        finish_ledger(&Ledger::open(&live).expect("a ledger"), &finished, &[], &mut |_, _| {}).expect("finished");
        all.extend([live, finished].map(|path| fs::read(path).expect("read")));
    }
    all
}

/// A core dump of Linux with this in its memory.
fn core(memory: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    let mut put = |width: usize, value: u64| bytes.extend(&value.to_le_bytes()[..width]);
    // Type core, x86-64, version; entry, program headers behind this header, no sections; flags, sizes and counts.
    for (width, value) in [(2, 4), (2, 62), (4, 1), (8, 0), (8, 64), (8, 0), (4, 0), (2, 64), (2, 56), (2, 1)] {
        put(width, value);
    }
    (0..3).for_each(|_| put(2, 0));
    // Memory that can be read and written, at 0x10000.
    let length = memory.len() as u64;
    for (width, value) in [(4, 1), (4, 6), (8, 4096), (8, 0x10000), (8, 0), (8, length), (8, length), (8, 4096)] {
        put(width, value);
    }
    bytes.resize(4096, 0);
    bytes.extend(memory);
    bytes
}

/// One forgery: some bytes changed, most of them where the tables are, or the end cut off.
fn forged(original: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = original.to_vec();
    if random.below(5) == 0 {
        bytes.truncate(random.below(original.len()));
        return bytes;
    }
    let magic = original.windows(5).position(|window| window == b"HLEDG").unwrap_or(0);
    for _ in 0..=random.below(6) {
        let at = if random.below(3) == 0 { random.below(bytes.len()) } else { magic + random.below(1600) };
        let Some(byte) = bytes.get_mut(at) else { continue };
        *byte = [0, 0xff, *byte ^ (1 << random.below(8)), random.below(256) as u8][random.below(4)];
    }
    bytes
}

/// Runs one command on what lies in the file, with no more than 4 GiB of address space and 20 seconds of a processor's time.
fn attack(scratch: &Scratch, words: &[&str], what: &str) {
    let mut command = Command::new("sh");
    let tool = heapledger();
    command.args(["-c", "ulimit -v 4194304; ulimit -t 20; exec \"$@\"", "sh"]).arg(tool.get_program()).args(words);
    command.current_dir(scratch.cwd()).env("LANG", "C.UTF-8").env_remove("DEBUGINFOD_URLS");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let ended = finish(child);
    let said = String::from_utf8_lossy(&ended.stderr);
    let code = ended.status.code();
    // 3: not all of the ledger can be read, so a limit that seems to hold may not.
    assert!(code.is_some_and(|code| code <= 3), "{words:?} of {what}: {} {said}", ended.status);
    assert!(said.is_empty() || said.starts_with("heapledger: "), "{words:?} of {what}: {said}");
    assert!(!ended.stdout.is_empty() || !said.is_empty() || words[0] == "flame", "{words:?} of {what} says nothing");
    assert!(!ended.stdout.contains(&0x1b), "{words:?} of {what}: an escape sequence");
    let left = fs::read_dir(scratch.cwd()).expect("listed").flatten();
    for name in left.map(|item| item.file_name().to_string_lossy().into_owned()) {
        assert!(!name.ends_with(".part"), "{words:?} of {what} leaves {name}");
        if ["taken.", "recovered.", "heapledger."].iter().any(|begin| name.starts_with(begin)) {
            fs::remove_file(scratch.cwd().join(name)).expect("removed");
        }
    }
}

/// A core dump of a ledger, or a copy of a memory that holds one behind something else.
type Form = fn(&[u8]) -> Vec<u8>;

fn all_commands(name: &str, form: Form, rounds: usize) {
    let scratch = Scratch::new(&format!("forged-{name}"));
    let ledgers = ledgers(&scratch);
    fs::write(scratch.cwd().join(WHOLE), &ledgers[1]).expect("written");
    let path: &Path = &scratch.cwd().join(FORGED);
    let mut random = Random(name.bytes().map(u64::from).sum());
    for (number, ledger) in ledgers.iter().enumerate() {
        let original = form(ledger);
        for words in COMMANDS {
            for round in 0..rounds {
                // The first is whole.
                let bytes = if round == 0 { original.clone() } else { forged(&original, &mut random) };
                fs::write(path, bytes).expect("written");
                attack(&scratch, words, &format!("{name} {number}, round {round}"));
            }
        }
    }
}

#[test]
fn all_commands_on_forged_ledgers() {
    all_commands("ledger", <[u8]>::to_vec, 5);
}

#[test]
fn all_commands_on_forged_core_dumps() {
    all_commands("core", core, 4);
}

#[test]
fn all_commands_on_forged_images_of_memory() {
    all_commands("image", |ledger| [&[0x5a; 4096][..], ledger, &[0; 999]].concat(), 3);
}
