//! Memory of chips as tools save it: the ledger is found in each, several in one are told apart, and what is cut or damaged is said.

use std::fs;
use std::path::{Path, PathBuf};

use heapledger_e2e::chip::{MACHINES, Machine, RAM_BYTES};
use heapledger_e2e::process::Ran;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::{Result, check, process};
use heapledger_source::{Ledger, SourceError};
use serde_json::Value;

fn text(error: impl ToString) -> String {
    error.to_string()
}

fn tell(words: &[&str]) -> Result<Ran> {
    process::run(command(heapledger()).args(words))
}

fn name(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// All live blocks. (Which other ledgers there are may be said.)
fn blocks(ledger: &Path, options: &[&str]) -> Result<Vec<Value>> {
    let ran = tell(&[&["dump", "--json", name(ledger)], options].concat())?.good()?;
    let lines =
        ran.out().lines().map(|line| serde_json::from_str(line).map_err(text)).collect::<Result<Vec<Value>>>()?;
    check!(lines.last().is_some_and(|line| line["type"] == "end"), "it has no end: {ran}");
    Ok(lines.into_iter().filter(|line| line["type"] == "block").collect())
}

/// Where a ledger lies in the RAM of its firmware, from the RAM's beginning on, and its bytes.
fn place(machine: &Machine, firmware: &Path) -> Result<(usize, usize)> {
    let ledger = machine.room(firmware)?.symbols.get("heapledger_ledger").copied().ok_or("no ledger")?;
    Ok(((ledger.0 - machine.ram) as usize, ledger.1 as usize))
}

#[test]
fn a_core_dump_of_an_emulator_is_searched() -> Result {
    for (machine, firmware) in [(&MACHINES[0], "firmware"), (&MACHINES[1], "commands")] {
        let Some(firmware) = machine.firmware(firmware, &[]) else { return Ok(()) };
        let scratch = Scratch::new();
        let (ram, core) = (scratch.path("ram.bin"), scratch.path("vmcore"));
        machine.image_and_core(&firmware, &ram, &core)?;
        let expected = blocks(&ram, &[])?;
        check!(expected.len() > 20, "{}: {} blocks", machine.name, expected.len());
        check!(blocks(&core, &[])? == expected, "{}: other blocks", machine.name);
        let ran = tell(&["dump", name(&firmware), name(&core), "--limit", "1"])?.good()?;
        check!(ran.out().contains("itself: it is as of then") && !ran.out().contains("pid"), "{}: {ran}", machine.name);
        // Where memory has several addresses (the RAM of this Cortex-M3), a ledger is one all the same.
        check!(ran.err().is_empty(), "{}: {ran}", machine.name);
    }
    Ok(())
}

/// Two chips' memory in one file.
struct Two {
    image: PathBuf,
    /// What lives in each.
    blocks: [Vec<Value>; 2],
    /// Where their ledgers lie.
    places: [usize; 2],
}

fn two(scratch: &Scratch) -> Result<Option<Two>> {
    let machine = &MACHINES[0];
    let (mut both, mut expected, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for firmware in ["firmware", "commands"] {
        let Some(firmware) = machine.firmware(firmware, &[]) else { return Ok(None) };
        let ram = scratch.path("one.bin");
        machine.image(&firmware, &ram)?;
        expected.push(blocks(&ram, &[])?);
        places.push(both.len() + place(machine, &firmware)?.0);
        both.extend(fs::read(&ram).map_err(text)?);
    }
    let image = scratch.path("both.bin");
    fs::write(&image, both).map_err(text)?;
    let blocks = expected.try_into().map_err(|_| "two")?;
    Ok(Some(Two { image, blocks, places: [places[0], places[1]] }))
}

#[test]
fn of_several_ledgers_one_is_chosen_and_the_others_are_mentioned() -> Result {
    let scratch = Scratch::new();
    let Some(Two { image, blocks: [first, second], places: [first_at, second_at] }) = two(&scratch)? else {
        return Ok(());
    };
    check!(first != second, "they are the same");
    let shown = name(&image);
    let ran = tell(&["dump", shown])?.good()?;
    check!(ran.err().contains("holds 2 ledgers, and the first is shown"), "the second is not mentioned: {ran}");
    check!(ran.err().contains(&format!("{shown}@2: commands")), "how to choose it is not said: {ran}");
    check!(blocks(&image, &[])? == first, "the first is not shown");
    for (which, expected) in [
        ("@1".to_owned(), &first),
        ("@2".to_owned(), &second),
        (format!("@{first_at:#x}"), &first),
        (format!("@{second_at:#x}"), &second),
    ] {
        let chosen = PathBuf::from(format!("{shown}{which}"));
        check!(blocks(&chosen, &[])? == *expected, "{which} is another one");
        let ran = tell(&["stats", name(&chosen)])?.good()?;
        check!(ran.err().is_empty(), "{which}: {ran}");
    }
    for which in ["@0", "@3", "@0x10"] {
        let ran = tell(&["stats", &format!("{shown}{which}")])?;
        check!(!ran.status.success() && ran.err().contains("has no such ledger"), "{which}: {ran}");
    }
    // As a debugger writes it that was told from where on.
    let base = 0x2000_0000 + second_at;
    let at_base = PathBuf::from(format!("{shown}@{base:#x}"));
    check!(blocks(&at_base, &["--base", "0x20000000"])? == second, "with addresses it is another one");
    let ran = tell(&["stats", "--base", "0x20000000", shown])?.good()?;
    check!(
        ran.out().contains(&format!("was found at {:#x}", 0x2000_0000 + first_at)),
        "its address is not said: {ran}"
    );

    // An image may begin with its first ledger.
    let cut = scratch.path("cut.bin");
    let all = fs::read(&image).map_err(text)?;
    fs::write(&cut, &all[first_at..]).map_err(text)?;
    check!(blocks(&cut, &[])? == first, "the first of them is not the first");
    check!(blocks(&PathBuf::from(format!("{}@2", name(&cut))), &[])? == second, "the second is not found");
    // Two that are compared.
    let ran = tell(&["diff", &format!("{shown}@1"), &format!("{shown}@2")])?;
    check!(ran.status.success(), "diff: {ran}");
    Ok(())
}

#[test]
fn hex_files_say_where_memory_was() -> Result {
    let machine = &MACHINES[0];
    let Some(firmware) = machine.firmware("firmware", &[]) else { return Ok(()) };
    let scratch = Scratch::new();
    let (ram, hex) = (scratch.path("ram.bin"), scratch.path("ram.hex"));
    machine.image(&firmware, &ram)?;
    let base = format!("{:#x}", machine.ram);
    let written = |hex: &Path, more: &[&str]| -> Result {
        let mut objcopy = command(Path::new("objcopy"));
        objcopy.args(["-I", "binary", "-O", "ihex", "--change-addresses", &base]).args(more);
        process::run(objcopy.arg(&ram).arg(hex))?.good().map(|_| ())
    };
    written(&hex, &[])?;
    let expected = blocks(&ram, &[])?;
    check!(blocks(&hex, &[])? == expected, "other blocks");
    let address = machine.ram as usize + place(machine, &firmware)?.0;
    let ran = tell(&["stats", name(&hex)])?.good()?;
    check!(ran.out().contains(&format!("was found at {address:#x}")) && ran.err().is_empty(), "{ran}");
    check!(blocks(&PathBuf::from(format!("{}@{address:#x}", name(&hex))), &[])? == expected, "by its address");
    let ran = tell(&["stats", "--base", "0", name(&hex)])?;
    check!(!ran.status.success() && ran.err().contains("leave --base away"), "{ran}");

    // A file of Windows, in any order, with what came later over what was there.
    let lines = fs::read_to_string(&hex).map_err(text)?;
    let all: Vec<&str> = lines.lines().collect();
    let jumps = all.iter().position(|line| line.get(7..9) == Some("04")).ok_or("no upper half")?;
    let upper = all[jumps];
    let data: Vec<&str> = all.iter().filter(|line| line.get(7..9) == Some("00")).copied().collect();
    check!(all.len() - data.len() <= 3, "more than one upper half: {upper}");
    let nothing = data.iter().map(|line| {
        let bytes = &line[1..9];
        let sum = (0..4).map(|at| u8::from_str_radix(&bytes[2 * at..2 * at + 2], 16).unwrap_or(0));
        let sum = sum.fold(0u8, u8::wrapping_add).wrapping_neg();
        format!(":{bytes}{}{sum:02X}", "00".repeat((line.len() - 11) / 2))
    });
    let mixed: Vec<String> = std::iter::once(upper.to_owned())
        .chain(nothing)
        .chain(data.iter().rev().map(|line| (*line).to_owned()))
        .chain([":00000001FF".to_owned()])
        .collect();
    fs::write(&hex, mixed.join("\r\n")).map_err(text)?;
    check!(blocks(&hex, &[])? == expected, "in another order");

    // Cut, it says so; a line that is none is named.
    fs::write(&hex, &lines[..lines.len() - 40]).map_err(text)?;
    let ran = tell(&["stats", name(&hex)])?.good()?;
    check!(ran.out().contains("ends early"), "a cut file passes for whole: {ran}");
    let mut bytes = lines.clone().into_bytes();
    let at = lines.find(data[100]).ok_or("no line")? + 10;
    bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
    fs::write(&hex, &bytes).map_err(text)?;
    let ran = tell(&["stats", name(&hex)])?;
    let line = format!("line {}", lines[..at].lines().count());
    check!(!ran.status.success() && ran.err().contains(&line), "not {line}: {ran}");
    Ok(())
}

/// Reads all of a ledger; the sentence if there is none.
fn read_all(path: &Path) -> std::result::Result<usize, String> {
    let sentence = |error: SourceError| error.to_string();
    let ledger = Ledger::open(path).map_err(sentence)?;
    let mut count = 0;
    let mut sites = Vec::new();
    let mut records = ledger.records();
    while let Some(chunk) = records.next_chunk().map_err(sentence)? {
        count += chunk.len();
        sites.extend(chunk.iter().map(|record| record.site));
    }
    let mut freed = ledger.freed();
    while let Some(chunk) = freed.next_chunk().map_err(sentence)? {
        sites.extend(chunk.iter().map(|record| record.block.site));
    }
    for site in sites {
        ledger.stack(site).map_err(sentence)?;
    }
    ledger.threads().map_err(sentence)?;
    ledger.heaps().map_err(sentence)?;
    ledger.tallies().map_err(sentence)?;
    ledger.storage().map_err(sentence)?;
    ledger.modules().map_err(sentence)?;
    Ok(count)
}

#[test]
fn images_that_are_cut_or_damaged_give_what_there_is_or_a_sentence() -> Result {
    // A small one at each byte.
    for (machine, firmware, step) in [
        (&MACHINES[0], "survivor", 1),
        (&MACHINES[1], "survivor", 1),
        (&MACHINES[0], "firmware", 97),
        (&MACHINES[1], "commands", 101),
    ] {
        let Some(firmware) = machine.firmware(firmware, &[]) else { return Ok(()) };
        let scratch = Scratch::new();
        let ram = scratch.path("ram.bin");
        machine.image(&firmware, &ram)?;
        let all = fs::read(&ram).map_err(text)?;
        check!(all.len() as u64 == RAM_BYTES, "{} bytes", all.len());
        let (first, bytes) = place(machine, &firmware)?;
        let region = &all[first..first + bytes];
        let path = scratch.path("bad.bin");
        let whole = read_all(&ram)?;
        check!(whole > 0, "{}: nothing is in it", machine.name);
        let told = |count: std::result::Result<usize, String>| match count {
            Ok(_) => Ok(()),
            Err(sentence) if sentence.contains("bad.bin") && sentence.len() > 20 => Ok(()),
            Err(other) => Err(format!("no sentence: {other}")),
        };
        // Cut at each byte: by itself, and behind other memory.
        for length in (0..region.len()).step_by(step) {
            fs::write(&path, &region[..length]).map_err(text)?;
            let count = read_all(&path);
            check!(count.as_ref().map_or(true, |count| *count <= whole), "cut to {length}: {count:?}");
            told(count)?;
            if length % 16 == length % step {
                fs::write(&path, &all[first / 2..first + length]).map_err(text)?;
                told(read_all(&path))?;
            }
        }
        // With one byte another one, and with several; as another version would write it.
        let mut random = 1u64;
        let mut below = |limit: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % limit
        };
        for nth in 0..1200 {
            let mut bytes = region.to_vec();
            // The header decides over the rest.
            let place = if nth < 512 { nth } else { below(region.len()) };
            bytes[place] ^= 1 << below(8);
            for _ in 0..below(4) {
                bytes[below(region.len())] = below(256) as u8;
            }
            fs::write(&path, &bytes).map_err(text)?;
            told(read_all(&path))?;
        }
        for version in 0..=255u8 {
            let mut bytes = region.to_vec();
            bytes[10] = version;
            fs::write(&path, &bytes).map_err(text)?;
            let told = read_all(&path);
            let is_known = version == region[10];
            check!(told.is_ok() == is_known, "{}: version {version} gives {told:?}", machine.name);
        }
        // The command says it, too, and does not end as if all was well.
        fs::write(&path, &region[..100]).map_err(text)?;
        for words in [&["stats"][..], &["dump"], &["history"], &["tree"]] {
            let ran = tell(&[words, &[name(&path)]].concat())?;
            check!(ran.status.code() == Some(1) && ran.err().contains("cut inside its header"), "{words:?}: {ran}");
        }
    }
    Ok(())
}
