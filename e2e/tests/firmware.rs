//! Firmware with the crate `heapledger` inside (`e2e/firmware`), run by QEMU: what an image of its memory says is what it knows to be live.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use heapledger_e2e::chip::{MACHINES, Machine, RAM_BYTES, truth};
use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, root};
use heapledger_e2e::{Result, check, process};
use serde_json::Value;

const CHIP: Machine = MACHINES[0];

fn text(error: impl ToString) -> String {
    error.to_string()
}

fn address(value: &Value) -> u64 {
    let digits = value.as_str().unwrap_or_default().trim_start_matches("0x");
    u64::from_str_radix(digits, 16).unwrap_or_default()
}

#[test]
fn an_image_of_its_memory_says_what_is_live() -> Result {
    let Some(firmware) = CHIP.firmware("firmware", &[]) else { return Ok(()) };
    let scratch = Scratch::new();
    let image = scratch.path("ram.bin");
    CHIP.image(&firmware, &image)?;
    let truth = truth(&fs::read(&image).map_err(text)?)?;
    check!(truth.len() > 50, "only {} blocks are live", truth.len());
    check!(truth.values().filter(|(_, who)| *who == 0).count() == 3, "the interrupt keeps other than three blocks");

    let exe = firmware.to_string_lossy();
    let lines = read("dump", &image, &["--exe", &exe])?;
    let mut said = BTreeMap::new();
    for block in lines.iter().filter(|line| line["type"] == "block") {
        // The rows of tasks are in the order in which the firmware named them; interrupts came later.
        let who = match block["thread"]["row"].as_u64() {
            Some(row @ 0..2) => row + 1,
            _ => {
                check!(block["thread"]["name"] == "interrupts", "nobody's: {block}");
                0
            }
        };
        let bytes = block["size"].as_u64().unwrap_or_default();
        said.insert(address(&block["address"]), (bytes, who));
        let functions: Vec<&str> =
            block["frames"].as_array().into_iter().flatten().filter_map(|frame| frame["function"].as_str()).collect();
        let expected = if who == 0 { "Tick" } else { "firmware::" };
        check!(
            functions.iter().any(|function| function.starts_with(expected)),
            "nobody of the firmware is in the stack of {block}"
        );
    }
    check!(said == truth, "live are {truth:x?}, and the ledger says {said:x?}");

    let stats = Stats::of(&image)?;
    for key in ["lost_busy", "lost_no_record", "unknown_frees", "displaced", "sites_full", "threads_unnamed"] {
        let count = stats.inner("counters", key);
        check!(count == 0, "{key} is {count}");
    }
    let (allocations, frees) = (stats.number("allocations"), stats.number("frees"));
    check!(allocations - frees == truth.len() as u64 && frees > 400, "{allocations} allocations, {frees} frees");
    let freed = read("history", &image, &[])?.iter().filter(|line| line["event"] == "free").count();
    check!(freed == 32, "the history has {freed} frees");
    Ok(())
}

/// Addresses, sizes and numbers of live blocks.
fn blocks(ledger: &Path) -> Result<Vec<(u64, Value, Value)>> {
    let lines = read("dump", ledger, &[])?;
    let blocks = lines.iter().filter(|line| line["type"] == "block");
    Ok(blocks.map(|block| (address(&block["address"]), block["size"].clone(), block["number"].clone())).collect())
}

#[test]
fn a_debugger_carries_the_ledger_off() -> Result {
    let Some(firmware) = CHIP.firmware("firmware", &["gdb-multiarch"]) else { return Ok(()) };
    let scratch = Scratch::new();
    let remote = format!(
        "target remote | exec {} -no-reboot -no-shutdown -S -gdb stdio -kernel {}",
        CHIP.qemu().join(" "),
        firmware.display()
    );
    let script = format!("source {}", root().join("gdb/heapledger.gdb").display());
    let memory = format!("dump binary memory ram.bin {} {}", CHIP.ram, CHIP.ram + RAM_BYTES);
    let mut gdb = command("gdb-multiarch");
    gdb.args(["-nx", "-batch", "-q"]).env("HEAPLEDGER_COMMAND", heapledger()).current_dir(scratch.path("."));
    gdb.env_remove("DEBUGINFOD_URLS");
    for line in [
        "set confirm off",
        &remote,
        &script,
        "hbreak firmware::keeps_for_ever",
        // Into the second task's first turn: the breakpoint is passed so often.
        "continue",
        "continue 12",
        "mdd_dump",
        &memory,
        "kill",
    ] {
        gdb.args(["-ex", line]);
    }
    let ran = process::run(gdb.arg(&firmware))?;
    check!(ran.out().contains("The ledger is in mddout.0."), "the debugger says {ran}");
    let (carried, lay) = (blocks(&scratch.path("mddout.0"))?, blocks(&scratch.path("ram.bin"))?);
    check!(carried == lay && carried.len() > 10, "carried off: {carried:?}; in memory: {lay:?}");
    Ok(())
}

/// The ledger's words in an image of the memory, summed up as `e2e/firmware/survivor.rs` does it.
fn sum_of(image: &[u8], from: u64, (address, bytes): (u64, u64)) -> u64 {
    let first = (address - from) as usize;
    let words = image[first..first + bytes as usize].chunks_exact(4);
    let words = words.map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default()));
    u64::from(words.fold(0x811C_9DC5_u32, |sum, word| (sum ^ word).wrapping_mul(0x0100_0193)))
}

#[test]
fn a_ledger_survives_a_reset() -> Result {
    survives("survivor", &[])
}

/// Where three of four of its records are in use the firmware is told, once.
#[test]
fn so_does_one_of_firmware_in_c() -> Result {
    survives("survivor_c", &[("scarce", 0), ("scarce", 1), ("scarce", 1)])
}

/// `more`: what else it says before the reset in the middle of an update.
fn survives(name: &str, more: &[(&str, u64)]) -> Result {
    for machine in &MACHINES {
        let Some(firmware) = machine.firmware(name, &[]) else { return Ok(()) };
        // QEMU stops at the first reset: what lies in the memory then is what the next start has to find.
        let scratch = Scratch::new();
        let image = scratch.path("ram.bin");
        machine.image(&firmware, &image)?;
        let ledger = machine.room(&firmware)?.symbols.get("heapledger_ledger").copied().ok_or("no ledger")?;
        let sum = sum_of(&fs::read(&image).map_err(text)?, machine.ram, ledger);
        let stats = Stats::of(&image)?;
        check!(stats.number("live_bytes") == 64 && stats.number("allocations") == 4, "the image says {stats:?}");

        let said = machine.says(&firmware)?;
        let words: Vec<(&str, u64)> = said.iter().map(|(word, number)| (word.as_str(), *number)).collect();
        // Garbage is no ledger.
        let mut expected = vec![("nothing", 1), ("live", 64), ("survived", sum), ("busy", 0), ("live", 0)];
        expected.extend(more);
        // The reset came in the middle of an update; then its header is damaged.
        let sum = words.get(expected.len()).map_or(0, |(_, sum)| *sum);
        expected.extend([("survived", sum), ("busy", 1), ("nothing", 1), ("live", 16)]);
        check!(words == expected, "{}: {words:?}, not {expected:?}", machine.name);
    }
    Ok(())
}
