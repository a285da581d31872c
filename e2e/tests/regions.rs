//! Ledgers that a program keeps in regions of its own memory, several at once: the backend for chips, on a machine with 64-bit
//! addresses. What they hold is written to files and read by the command line.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::{Result, check};
use heapledger_format::Kind;
use heapledger_recorder::chip::{Caller, ChipLedger, Config, NewBlock, Shape, Word};
use serde_json::Value;

/// Who holds what, and who freed what.
struct Wide;

impl Shape for Wide {
    type Word = u64;
    const CONFIG: Config<'static> = Config { history: 8, actual_sizes: true, ..Config::minimal(50, 64) };
}

/// The same with the words of a microcontroller.
struct Narrow;

impl Shape for Narrow {
    type Word = u32;
    const CONFIG: Config<'static> = Wide::CONFIG;
}

fn new<S: Shape>() -> ChipLedger<S, Vec<S::Word>> {
    let region = vec![S::Word::default(); S::CONFIG.words::<S::Word>()];
    ChipLedger::new(region).expect("room")
}

/// Enters so many blocks from `lowest` on, 64 bytes apart, and takes every third out again. Returns the sizes of those that are left,
/// by address.
fn fill<S: Shape>(
    ledger: &mut ChipLedger<S, Vec<S::Word>>,
    lowest: u64,
    blocks: u64,
    code: u64,
) -> Result<BTreeMap<u64, u64>> {
    let frames = [S::Word::cut(code), S::Word::cut(0x4000)];
    let caller = Caller { frames: &frames, ..Caller::default() };
    let mut left = BTreeMap::new();
    for number in 0..blocks {
        let (address, size) = (lowest + number * 64, 10 + number);
        let new = NewBlock {
            kind: if number % 2 == 0 { Kind::MALLOC } else { Kind::CALLOC },
            address: S::Word::cut(address),
            size: S::Word::cut(size),
            actual: Some(S::Word::cut(size.next_multiple_of(16))),
            heap: None,
        };
        check!(ledger.allocated(&new, &caller), "the block {number} found no room");
        left.insert(address, size);
    }
    for number in (0..blocks).step_by(3) {
        let address = lowest + number * 64;
        check!(ledger.freed(S::Word::cut(address), Kind::FREE, &caller), "the block {number} was not known");
        check!(!ledger.freed(S::Word::cut(address), Kind::FREE, &caller), "the block {number} was freed twice");
        left.remove(&address);
    }
    Ok(left)
}

fn number(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_default();
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_default()
}

/// The command line says of the file what was entered, and nothing else.
fn says(path: &Path, blocks: u64, left: &BTreeMap<u64, u64>, code: u64) -> Result {
    let stats = Stats::of(path)?;
    let frees = blocks.div_ceil(3);
    for (key, expected) in
        [("allocations", blocks), ("frees", frees), ("unknown_frees", frees), ("live_bytes", left.values().sum())]
    {
        check!(stats.number(key) == expected, "{key} is {}, not {expected}", stats.number(key));
    }
    let lines = read("dump", path, &[])?;
    let mut dumped = BTreeMap::new();
    for block in lines.iter().filter(|line| line["type"] == "block") {
        dumped.insert(number(&block["address"]), block["size"].as_u64().unwrap_or_default());
        let address = number(&block["frames"][0]["address"]);
        check!(address == code, "the innermost frame of {block} is not {code:#x}");
    }
    check!(dumped == *left, "{dumped:x?} are live, not {left:x?}");
    let freed = read("history", path, &[])?.iter().filter(|line| line["event"] == "free").count();
    check!(freed == 8, "the history has {freed} frees");
    Ok(())
}

#[test]
fn a_program_keeps_several_ledgers_in_its_memory() -> Result {
    let scratch = Scratch::new();
    let (mut first, mut second, mut third) = (new::<Wide>(), new::<Wide>(), new::<Narrow>());
    // The same addresses: they must not meet.
    let codes = [0x5555_1234_5678, 0x7FFF_0000_4321, 0x0800_1234];
    let left = [
        fill(&mut first, 0x7F12_3456_0000, 50, codes[0])?,
        fill(&mut second, 0x7F12_3456_0000, 31, codes[1])?,
        fill(&mut third, 0x2000_0000, 40, codes[2])?,
    ];
    let regions: [Vec<u8>; 3] = [first.bytes().collect(), second.bytes().collect(), third.bytes().collect()];
    for (at, blocks) in [50, 31, 40].into_iter().enumerate() {
        let path = scratch.path(&format!("region-{at}"));
        fs::write(&path, &regions[at]).map_err(|error| error.to_string())?;
        let word_bytes = regions[at][heapledger_format::header::at::WORD];
        check!(word_bytes == [8, 8, 4][at], "the header says {word_bytes} bytes a word");
        says(&path, blocks, &left[at], codes[at]).map_err(|error| format!("ledger {at}: {error}"))?;
    }
    Ok(())
}
