//! Guarded blocks on chips: which bytes each level watches, one changed after another; no false alarm in 10,000 random commands; and what is told of damage, by the ledger in an image
//! of memory, by a check of that image from outside, and by a debugger.

use heapledger_e2e::chip::{MACHINES, Machine, OTHERS, truth};
use heapledger_e2e::commands::{Called, agrees, is_exact};
use heapledger_e2e::ledger::Stats;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::{Result, check, process};
use serde_json::Value;

const LEVELS: [&str; 2] = ["light", "full"];

/// What `reach.rs` is to say: where bytes begin and cease to be watched, from a block's first byte on, and 1000.
fn expected(level: &str) -> Vec<(String, u64)> {
    let mut said = Vec::new();
    for (bytes, alignment) in [(1u64, 1u64), (5, 8), (24, 8), (62, 4), (62, 16), (100, 32)] {
        let lead = alignment.max(8);
        let behind = (lead + bytes + 4).next_multiple_of(8) - lead;
        said.push(("size".to_owned(), bytes));
        let mut places = |what: &str, places: &[u64]| said.extend(places.iter().map(|at| (what.to_owned(), *at)));
        let around = [992, 1000, 1000 + bytes, 1000 + behind];
        // A live block's own bytes are nobody's business.
        places("live", &around);
        places("at_free", &around);
        if level == "full" {
            // All but the first eight bytes of what the allocator has back, where it keeps a word; it is looked at from 16 in front of the block on.
            let all = [(1000 - lead + 8).max(984), 1000 + behind];
            places("freed", &all);
            places("handed_out", &all);
        }
    }
    let is_full = u64::from(level == "full");
    let calls = [
        ("new_is_filled", is_full),
        ("zeroed", 1),
        ("kept", 1),
        ("grown_is_filled", is_full),
        ("wrong_before", 0),
        ("interior", 1),
        ("other_layout", 1),
        ("freed_is_filled", is_full),
        ("double_free", 1),
        ("once", 1),
        ("aligned", 1),
        ("one_block", 1),
        ("another_block", 0),
        ("no_block", 9),
        ("letters", "CORRUPT HEAP: Bad tail at 0x20000104. Expected 0xbaad5678 got 0xbaad5679\n".len() as u64),
        ("damaged", 1),
        ("many_steps", 1),
        ("lost_and_twice", 1),
        ("is_lost", 1),
        ("whole", 1),
        ("last_wrong", 0),
    ];
    said.extend(calls.map(|(what, number)| (what.to_owned(), number)));
    said
}

#[test]
fn each_byte_that_a_level_watches_is_seen_and_no_other() -> Result {
    // What is made for a Cortex-M0 cannot read a word at any address.
    for machine in [&MACHINES[0], &MACHINES[1], &OTHERS[1]] {
        for level in LEVELS {
            let Some(firmware) = machine.firmware(&format!("reach_{level}"), &[]) else { return Ok(()) };
            let (said, expected) = (machine.says(&firmware)?, expected(level));
            let first = said.iter().zip(&expected).position(|(said, expected)| said != expected);
            check!(
                said == expected,
                "{}, {level}: from line {first:?} on not {expected:?}, but {said:?}",
                machine.name
            );
        }
    }
    Ok(())
}

#[test]
fn nothing_is_told_of_what_is_whole() -> Result {
    for machine in &MACHINES {
        agrees(machine, Called::GUARDED_LIGHT, is_exact)?;
        agrees(machine, Called::GUARDED_FULL, is_exact)?;
    }
    Ok(())
}

fn json(text: &str) -> Result<Vec<Value>> {
    text.lines().map(|line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))).collect()
}

/// What is said of an error: kind, when found, its place from the block on, bytes, the block's bytes, how often again.
type Told = (String, String, i64, u64, u64, u64);

fn told(error: &Value) -> Told {
    let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
    let address = |key: &str| u64::from_str_radix(error[key].as_str()?.strip_prefix("0x")?, 16).ok();
    let place = address("address").zip(address("block"));
    let place = place.map_or(i64::MIN, |(address, block)| address.wrapping_sub(block) as i64);
    let number = |key: &str| error[key].as_u64().unwrap_or(0);
    let (bytes, size) = (number("bytes"), number("block_bytes"));
    (text("kind"), text("found_at"), place, bytes, size, number("repeats"))
}

/// Functions of one of an error's stacks, by whose it is.
fn stack(lines: &[Value], error: &Value, whose: &str) -> Vec<String> {
    let stacks = error["stacks"].as_array().map_or(&[][..], Vec::as_slice);
    let of = stacks.iter().find(|stack| stack["of"] == whose);
    let is_it = |line: &&Value| line["type"] == "site" && of.is_some_and(|of| of["site"] == line["site"]);
    let frames = lines.iter().find(is_it).and_then(|line| line["frames"].as_array());
    let names = frames.into_iter().flatten().filter_map(|frame| frame["function"].as_str());
    names.map(str::to_owned).collect()
}

fn errors(image: &std::path::Path, firmware: &std::path::Path) -> Result<Vec<Value>> {
    let ran = process::run(
        command(heapledger()).args(["errors", "--json", "--limit", "0", "--exe"]).arg(firmware).arg(image),
    )?;
    json(&ran.good()?.out())
}

/// In the order in which it happens in `damages.rs`.
fn found_on_the_chip(level: &str) -> Vec<Told> {
    let told =
        |kind: &str, at: &str, place, bytes, size, again| (kind.to_owned(), at.to_owned(), place, bytes, size, again);
    let mut all = vec![told("heap-buffer-overflow", "free", 40, 1, 40, 1), told("double-free", "call", 0, 0, 20, 0)];
    if level == "full" {
        all.push(told("heap-use-after-free", "allocation", 50, 1, 100, 0));
    }
    all
}

/// What nobody has seen before a check.
fn found_by_a_check(level: &str) -> Vec<Told> {
    let told = |kind: &str, place, size| (kind.to_owned(), "sweep".to_owned(), place, 1, size, 0);
    let mut all = vec![told("heap-buffer-overflow", 34, 33), told("heap-buffer-underflow", -3, 64)];
    if level == "full" {
        all.push(told("heap-use-after-free", 120, 200));
    }
    all
}

fn is_told(machine: &Machine, level: &str) -> Result {
    let Some(firmware) = machine.firmware(&format!("damages_{level}"), &[]) else { return Ok(()) };
    let scratch = Scratch::new();
    let (image, core) = (scratch.path("ram.bin"), scratch.path("vmcore"));
    machine.image_and_core(&firmware, &image, &core)?;
    let context = format!("{}, {level}", machine.name);
    let (kept, seen) = (found_on_the_chip(level), found_by_a_check(level));
    let lines = errors(&image, &firmware)?;
    let errors: Vec<&Value> = lines.iter().filter(|line| line["type"] == "error").collect();
    let said: Vec<Told> = errors.iter().map(|error| told(error)).collect();
    // RISC-V has looked itself as well.
    let checks_itself = machine.name == "RV32";
    let expected = [kept.clone(), if checks_itself { seen.clone() } else { Vec::new() }].concat();
    check!(said == expected, "{context}: not {expected:?}, but {said:?}: {errors:?}");
    for (error, by) in errors.iter().take(kept.len()).zip(["one_too_far", "twice", "after_free"]) {
        for whose in ["allocation", "access"] {
            let names = stack(&lines, error, whose);
            check!(names.iter().any(|name| name.ends_with(by)), "{context}: {whose} by {names:?}, not {by}: {error}");
        }
    }
    let told = truth(&std::fs::read(&image).map_err(|error| error.to_string())?)?;
    let number = told.values().map(|(told, _)| *told).collect::<Vec<u64>>();
    let times: u64 = said.iter().map(|(.., again)| 1 + again).sum();
    check!(number.first() == Some(&times), "{context}: {told:?} were told, not {times}");
    let looked = if checks_itself { seen.len() as u64 } else { 0 };
    check!(number.get(1) == Some(&looked), "{context}: a check has found {told:?}, not {looked}");
    // The second free of one block.
    let losses: Vec<(String, u64)> = Stats::of(&image)?.losses().into_iter().collect();
    check!(losses == [("unknown_frees".to_owned(), 1)], "{context}: {losses:?}");

    // From outside, by the image: what the chip sees itself.
    for image in [&image, &core] {
        let ran = process::run(command(heapledger()).args(["verify", "--json", "--exe"]).arg(&firmware).arg(image))?;
        check!(ran.status.code() == Some(1), "{context}: {ran}");
        let lines = json(&ran.out())?;
        let mut said: Vec<Told> = lines.iter().filter(|line| line["type"] == "error").map(self::told).collect();
        said.sort();
        let mut expected = seen.clone();
        expected.sort();
        check!(said == expected, "{context}: not {expected:?}, but {said:?}: {ran}");
        let verified = lines.iter().find(|line| line["type"] == "verified").ok_or("no figures")?;
        check!(verified["level"] == level && verified["complete"] == true, "{context}: {verified}");
        check!(verified["damaged"] == seen.len() as u64 && verified["live"] == 3, "{context}: {verified}");
    }
    Ok(())
}

#[test]
fn damage_is_told_with_who_allocated_and_who_freed() -> Result {
    for machine in &MACHINES {
        for level in LEVELS {
            is_told(machine, level)?;
        }
    }
    Ok(())
}

/// Cut anywhere, or with a byte changed, an image is verified or refused; nobody panics.
#[test]
fn a_damaged_image_is_verified_or_refused() -> Result {
    let machine = &MACHINES[0];
    let Some(firmware) = machine.firmware("damages_full", &[]) else { return Ok(()) };
    let scratch = Scratch::new();
    let image = scratch.path("ram.bin");
    machine.image(&firmware, &image)?;
    let text = |error: std::io::Error| error.to_string();
    let whole = std::fs::read(&image).map_err(text)?;
    let (ledger, bytes) = machine.room(&firmware)?.symbols.get("heapledger_ledger").copied().ok_or("no ledger")?;
    let ledger = (ledger - machine.ram) as usize;
    let changed = scratch.path("changed.bin");
    for nth in 0..60usize {
        let mut ram = whole.clone();
        // Bytes of the ledger, most of them of its end: where the guard's row lies.
        let at = ledger + bytes as usize - 1 - nth * 7;
        ram[at] ^= 0x81;
        if nth % 3 == 0 {
            ram.truncate(at.max(ledger + 2048));
        }
        std::fs::write(&changed, &ram).map_err(text)?;
        let ran = process::run(command(heapledger()).args(["verify", "--json"]).arg(&changed))?;
        check!(matches!(ran.status.code(), Some(0..=2)) && !ran.err().contains("panicked"), "{nth}: {ran}");
    }
    Ok(())
}

/// It stops where an error is entered, and knows who is to blame.
#[test]
fn a_debugger_stops_at_an_error() -> Result {
    let machine = &MACHINES[0];
    let Some(firmware) = machine.firmware("damages_light", &["gdb-multiarch"]) else { return Ok(()) };
    let qemu = machine.qemu().join(" ");
    let remote =
        format!("target remote | exec {qemu} -no-reboot -no-shutdown -S -gdb stdio -kernel {}", firmware.display());
    let mut gdb = command("timeout");
    gdb.args(["300", "gdb-multiarch", "-nx", "-batch", "-q"]).env_remove("DEBUGINFOD_URLS");
    for line in ["set confirm off", &remote, "hbreak heapledger_error", "continue", "bt 16", "kill"] {
        gdb.args(["-ex", line]);
    }
    let said = process::run(gdb.arg(&firmware))?.out();
    let mut left = said.as_str();
    for frame in ["heapledger_error", "damages_light::frees", "damages_light::one_too_far", "damages_light::start"] {
        let at = left.find(frame).ok_or_else(|| format!("{frame} is not there, or out of order: {said}"))?;
        left = &left[at..];
    }
    Ok(())
}
