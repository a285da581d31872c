//! What takes too long for each change: firmware in QEMU that is cut at each instruction of an update, and with other random numbers than those of the tests; images that are cut at
//! each byte. `cargo xtask firmware` does it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use heapledger_source::{Ledger, SourceError};

use crate::chip::{MACHINES, Machine, OTHERS, RAM_BYTES};
use crate::commands::{Asked, Called, agrees_with, expected_functions, functions, is_exact};
use crate::scratch::Scratch;
use crate::tools::command;
use crate::{Result, check, process};
use serde_json::Value;

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Whose stacks may be compared: all frames, or the innermost alone.
type Compare = fn(&Value, &Asked, &Machine) -> Result;

/// In C++ a stack is the address behind the call.
fn is_of_cxx(line: &Value, asked: &Asked, _: &Machine) -> Result {
    let is = functions(line);
    check!(asked.is_of_a_library() || is.first().is_some_and(|name| name == "perform"), "{is:?}: {line}");
    Ok(())
}

fn has_innermost(line: &Value, asked: &Asked, machine: &Machine) -> Result {
    let (is, expected) = (functions(line), expected_functions(asked, machine));
    check!(asked.is_copy() || is.first() == expected.first(), "the innermost frame of {is:?} is wrong: {line}");
    Ok(())
}

/// Each firmware with 10,000 commands, on each processor, with so many random numbers to begin with; how many ran.
///
/// # Errors
/// If one says something else than the model.
pub fn commands(seeds: u32) -> Result<usize> {
    let (m3, rv32, [m4f, m0]) = (&MACHINES[0], &MACHINES[1], &OTHERS);
    let cases: [(&Machine, Called, Compare); 21] = [
        (m3, Called::RUST, is_exact),
        (rv32, Called::RUST, is_exact),
        (m4f, Called::RUST, is_exact),
        (m0, Called::RUST, is_exact),
        (m3, Called::GUARDED_LIGHT, is_exact),
        (m3, Called::GUARDED_FULL, is_exact),
        (rv32, Called::GUARDED_LIGHT, is_exact),
        (rv32, Called::GUARDED_FULL, is_exact),
        (m3, Called::NEWLIB, is_exact),
        (m3, Called::SMALLER, is_exact),
        (m3, Called::FIXED, is_exact),
        (rv32, Called::PICOLIBC, is_exact),
        (m3, Called::NEWLIB_LIGHT, is_exact),
        (m3, Called::NEWLIB_FULL, is_exact),
        (rv32, Called::PICOLIBC_LIGHT, is_exact),
        (rv32, Called::PICOLIBC_FULL, is_exact),
        (m3, Called::SMALLER_FULL, is_exact),
        (m3, Called::SCANNED, has_innermost),
        (m3, Called::CXX, is_of_cxx),
        (m3, Called::CXX_LIGHT, is_of_cxx),
        (m3, Called::CXX_FULL, is_of_cxx),
    ];
    let mut ran = 0;
    for seed in 1..=seeds {
        for (machine, called, compare) in &cases {
            let agreed = agrees_with(machine, *called, seed, compare);
            ran += usize::from(agreed.map_err(|reason| {
                format!("{}, {}, with the random number {seed}: {reason}", machine.name, called.name)
            })?);
        }
    }
    Ok(ran)
}

/// A debugger's Python: at each instruction between two functions it saves the ledger. Then it puts one after the other back to where it was, and resets the processor.
const EACH: &str = "
def cut(kind, low, high):
    ends = int(gdb.parse_and_eval('(unsigned int)&cut_ends')) & ~1
    at = 0
    while True:
        gdb.execute('dump binary memory cut.%d.%d %d %d' % (kind, at, low, high))
        if int(gdb.parse_and_eval('$pc')) & ~1 == ends:
            break
        gdb.execute('stepi', to_string=True)
        at += 1
    for nth in range(at + 1):
        gdb.execute('restore cut.%d.%d binary %d' % (kind, nth, low), to_string=True)
        gdb.execute('set {unsigned int}&KIND = %d' % (kind if nth < at else kind + 1))
        gdb.execute('monitor system_reset')
        gdb.execute('maintenance flush register-cache', to_string=True)
        gdb.execute('continue')
";

/// Live blocks: addresses and sizes.
type Blocks = BTreeSet<(u64, Option<u64>)>;

fn live(ledger: &Ledger) -> std::result::Result<Blocks, SourceError> {
    let mut all = Blocks::new();
    let mut records = ledger.records();
    while let Some(chunk) = records.next_chunk()? {
        all.extend(chunk.iter().map(|record| (record.address, record.size)));
    }
    Ok(all)
}

/// The words of a ledger, summed up as `e2e/firmware/cuts.rs` does it.
fn sum_of(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default()));
    u64::from(words.fold(0x811C_9DC5_u32, |sum, word| (sum ^ word).wrapping_mul(0x0100_0193)))
}

/// A reset with memory as it is at each instruction of an allocation, a free and a `realloc`: the next start finds the ledger as it was, and readers find all blocks but that one, which may be there
/// or not. How many resets; 0: it cannot be run here.
///
/// # Errors
/// If one is not found, or says something else.
pub fn cuts(machine: &Machine) -> Result<usize> {
    let Some(firmware) = machine.firmware("cuts", &["gdb-multiarch"]) else { return Ok(0) };
    let scratch = Scratch::new();
    let (address, bytes) = machine.room(&firmware)?.symbols.get("heapledger_ledger").copied().ok_or("no ledger")?;
    fs::write(scratch.path("each.gdb"), format!("python\nimport gdb{EACH}end\n")).map_err(text)?;
    let qemu = machine.qemu().join(" ");
    let remote = format!("target remote | exec {qemu} -S -gdb stdio -kernel {}", firmware.display());
    let mut gdb = command("timeout");
    gdb.args(["3000", "gdb-multiarch", "-nx", "-batch", "-q", "-ex", "set confirm off", "-ex", &remote]);
    gdb.env_remove("DEBUGINFOD_URLS").current_dir(scratch.path("."));
    gdb.args(["-ex", "set language c", "-ex", "set pagination off", "-ex", "source each.gdb"]);
    // Not behind what the compiler has put at its beginning.
    gdb.args(["-ex", "hbreak *cut_begins", "-ex", "hbreak *cut_ends"]);
    gdb.args(["-ex", "set {unsigned int}&KIND = 0", "-ex", "continue"]);
    for kind in 0..3 {
        gdb.args(["-ex", &format!("python cut({kind}, {address}, {})", address + bytes)]);
    }
    let ran = process::run(gdb.args(["-ex", "kill"]).arg(&firmware))?;
    // What each start has found.
    let all = format!("{}\n{}", ran.out(), ran.err());
    let numbers = |word: &str| -> Vec<u64> {
        all.lines().filter_map(|line| line.trim().strip_prefix(word)?.trim().parse().ok()).collect()
    };
    let (sums, busy) = (numbers("survived "), numbers("busy "));
    check!(sums.len() == busy.len() && sums.len() > 100, "{}: {} starts: {ran}", machine.name, sums.len());
    // The first one found nothing.
    let mut starts = sums.into_iter().zip(busy).skip(1);
    let mut count = 0;
    for kind in 0..3 {
        let files: Vec<PathBuf> =
            (0..).map(|at| scratch.path(&format!("cut.{kind}.{at}"))).take_while(|path| path.exists()).collect();
        check!(files.len() > 100, "{}: {} instructions of update {kind}: {ran}", machine.name, files.len());
        let ends = [files.first(), files.last()]
            .map(|path| -> Result<Blocks> { live(&Ledger::open(path.ok_or("none")?).map_err(text)?).map_err(text) });
        let [before, after] = ends;
        let (before, after) = (before?, after?);
        check!(before != after && before.len() == 4, "{}: nothing happens in update {kind}", machine.name);
        let always: Blocks = before.intersection(&after).copied().collect();
        let ever: Blocks = before.union(&after).copied().collect();
        let mut was_busy = 0;
        for path in &files {
            let (sum, is_busy) = starts.next().ok_or("a start is missing")?;
            let saved = fs::read(path).map_err(text)?;
            let shown = path.display();
            check!(sum == sum_of(&saved), "{shown}: the next start has found something else");
            let ledger = Ledger::open(path).map_err(|reason| format!("{shown}: {reason}"))?;
            let blocks = live(&ledger).map_err(|reason| format!("{shown}: {reason}"))?;
            check!(blocks.is_superset(&always) && blocks.is_subset(&ever), "{shown}: {blocks:x?}, not {always:x?}");
            let is_said = ledger.header().busy != 0;
            check!(is_said == (is_busy != 0), "{shown}: busy is {is_busy}, and readers say {is_said}");
            if is_busy == 0 {
                check!(kind == 2 || blocks == before || blocks == after, "{shown}: {blocks:x?} is neither");
            }
            was_busy += usize::from(is_busy != 0);
        }
        check!(was_busy * 4 > files.len(), "{}: {was_busy} of {} are within update {kind}", machine.name, files.len());
        count += files.len();
    }
    Ok(count)
}

/// Reads all of a ledger.
fn read_all(path: &Path) -> std::result::Result<usize, SourceError> {
    let ledger = Ledger::open(path)?;
    let count = live(&ledger)?.len();
    let mut sites = Vec::new();
    let (mut records, mut freed) = (ledger.records(), ledger.freed());
    while let Some(chunk) = records.next_chunk()? {
        sites.extend(chunk.iter().map(|record| record.site));
    }
    while let Some(chunk) = freed.next_chunk()? {
        sites.extend(chunk.iter().map(|record| record.block.site));
    }
    for site in sites {
        ledger.stack(site)?;
    }
    ledger.threads()?;
    ledger.heaps()?;
    ledger.tallies()?;
    ledger.storage()?;
    ledger.modules()?;
    Ok(count)
}

/// What is read, or the sentence that names the file.
fn told(path: &Path) -> Result<Option<usize>> {
    match read_all(path) {
        Ok(count) => Ok(Some(count)),
        Err(reason) => {
            let sentence = reason.to_string();
            check!(sentence.contains("bad") && sentence.len() > 20, "no sentence: {sentence}");
            Ok(None)
        }
    }
}

/// A file by itself and with what is made of it: cut at each byte, and with so many bytes changed, one at a time and several. How many were tried.
///
/// # Errors
/// If one is read as more than there is, or ends without a sentence.
pub fn damaged(scratch: &Scratch, bytes: &[u8], changes: usize) -> Result<usize> {
    let path = scratch.path("bad.bin");
    let tried = |bytes: &[u8]| -> Result<Option<usize>> {
        fs::write(&path, bytes).map_err(text)?;
        told(&path)
    };
    let whole = tried(bytes)?.ok_or("the whole one is not read")?;
    for length in 0..bytes.len() {
        let count = tried(&bytes[..length])?;
        check!(count.is_none_or(|count| count <= whole), "cut to {length}: {count:?} blocks of {whole}");
    }
    let mut random = 1u64;
    let mut below = |limit: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % limit
    };
    for nth in 0..changes {
        let mut other = bytes.to_vec();
        // Headers decide over the rest.
        let place = if nth % 2 == 0 { nth / 2 % bytes.len().min(1024) } else { below(bytes.len()) };
        other[place] ^= 1 << below(8);
        for _ in 0..below(4) {
            other[below(bytes.len())] = below(256) as u8;
        }
        tried(&other)?;
    }
    Ok(bytes.len() + changes)
}

/// The memory of firmware that has run.
///
/// # Errors
/// If it does not run.
pub fn memory_of(machine: &Machine, program: &str) -> Result<Option<(Vec<u8>, u64)>> {
    let Some(firmware) = machine.firmware(program, &[]) else { return Ok(None) };
    let scratch = Scratch::new();
    let image = scratch.path("ram.bin");
    machine.image(&firmware, &image)?;
    let ram = fs::read(&image).map_err(text)?;
    check!(ram.len() as u64 == RAM_BYTES, "{} bytes", ram.len());
    let (address, bytes) = machine.room(&firmware)?.symbols.get("heapledger_ledger").copied().ok_or("no ledger")?;
    let first = (address - machine.ram) as usize;
    Ok(Some((ram[first..first + bytes as usize].to_vec(), address)))
}
