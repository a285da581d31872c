//! Firmware with FreeRTOS and its heap_4 (`e2e/firmware/freertos.c`): totals of tasks and what is live are what the firmware itself has noted in
//! its memory, through frees by another task, by an interrupt, and a task that was deleted while blocks of its lived.

use std::collections::BTreeMap;

use heapledger_e2e::chip::MACHINES;
use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::{Result, check};
use serde_json::Value;

/// In the order of the firmware's table.
const WHO: [&str; 6] = ["keeper", "sender", "receiver", "doomed", "heir", "interrupts"];
/// What the kernel allocates for a task that the keeper creates: a stack, and what it knows of it.
const OF_THE_HEIR: u64 = 2;

fn address(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap_or_default().trim_start_matches("0x"), 16).unwrap_or_default()
}

#[test]
fn tasks_of_freertos_are_told_apart() -> Result {
    are_told_apart("freertos")
}

/// Of what is whole nothing is told, also of what the kernel allocates: stacks of tasks, queues.
#[test]
fn with_blocks_that_are_guarded_they_are_too() -> Result {
    are_told_apart("freertos_LIGHT")?;
    are_told_apart("freertos_FULL")
}

fn are_told_apart(program: &str) -> Result {
    let machine = MACHINES[0];
    let Some(firmware) = machine.firmware(program, &[]) else { return Ok(()) };
    let scratch = Scratch::new();
    let image = scratch.path("ram.bin");
    machine.image(&firmware, &image)?;
    let memory = std::fs::read(&image).map_err(|error| error.to_string())?;
    let symbols = machine.room(&firmware)?.symbols;
    let table = |name: &str| -> Result<Vec<[u64; 3]>> {
        let (address, bytes) = symbols.get(name).copied().ok_or_else(|| format!("the firmware has no {name}"))?;
        let first = (address - machine.ram) as usize;
        let there = memory.get(first..first + bytes as usize).ok_or("the image is too short")?;
        let word = |at: &[u8]| at.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        Ok(there.chunks_exact(12).map(|row| [0, 4, 8].map(|at| word(&row[at..at + 4]))).collect())
    };
    let (truth, living) = (table("truth")?, table("living")?);

    let stats = Stats::of(&image)?;
    for key in ["unknown_frees", "displaced", "lost_busy", "lost_no_record", "sites_full", "threads_unnamed"] {
        let count = stats.inner("counters", key);
        check!(count == 0, "{key} is {count}");
    }
    check!(stats.number("failed_calls") == 2, "{} calls have failed, not two", stats.number("failed_calls"));
    let lines = read("stats", &image, &[])?;
    let rows = lines.iter().find_map(|line| line["threads"].as_array()).map_or(&[][..], Vec::as_slice);
    let live = |who: u64| living.iter().filter(move |[address, _, whose]| *address != 0 && *whose == who);
    for ((name, [allocations, _, frees]), who) in WHO.iter().zip(&truth).zip(0..) {
        let row = rows.iter().find(|row| row["name"] == **name).ok_or_else(|| format!("no row is {name}'s"))?;
        let kernel = if who == 0 { OF_THE_HEIR } else { 0 };
        check!(row["allocations"] == allocations + kernel && row["frees"] == *frees, "{allocations}, {frees}: {row}");
        check!(row["live_blocks"] == live(who).count() as u64, "{} live: {row}", live(who).count());
        check!(row["state"] == if ["doomed", "heir"].contains(name) { "gone" } else { "alive" }, "{row}");
    }
    let idle = rows.iter().find(|row| row["name"] == "IDLE").ok_or("no row is the idle task's")?;
    check!(idle["frees"] == OF_THE_HEIR && idle["allocations"] == 0, "{idle}");
    let handle = |name: &str| rows.iter().find(|row| row["name"] == name).map(|row| &row["handle"]);
    check!(handle("doomed") == handle("heir"), "nobody has been given the memory of the task that is gone");
    check!(live(3).count() == 8 && truth[5][2] > 20 && truth[2][2] > 200, "too little happens: {truth:?}");

    // Each block, but for those of the kernel.
    let mut left: BTreeMap<u64, (u64, &str)> =
        living.iter().filter(|row| row[0] != 0).map(|row| (row[0], (row[1], WHO[row[2] as usize]))).collect();
    for line in read("dump", &image, &["--exe", &firmware.to_string_lossy()])?.iter() {
        if line["type"] != "block" {
            continue;
        }
        let frames = line["frames"].as_array().map_or(&[][..], Vec::as_slice);
        let names: Vec<&str> = frames.iter().filter_map(|frame| frame["function"].as_str()).collect();
        let is_told = names.first() == Some(&"tells");
        check!(line["function"] == if is_told { "realloc" } else { "pvPortMalloc" }, "{line}");
        if !["gives", "Asked", "tells"].contains(names.first().unwrap_or(&"")) {
            let created = ["xTaskCreate", "xQueueGenericCreate"];
            check!(names.iter().any(|name| created.contains(name)), "nobody of the kernel's: {line}");
            continue;
        }
        let who = line["thread"]["name"].as_str().unwrap_or_default();
        let block = left.remove(&address(&line["address"]));
        check!(block == Some((line["size"].as_u64().unwrap_or_default(), who)), "{block:?}: {line}");
        // By a scan of the task's own stack, as far as that goes.
        let task = format!("task_{who}");
        check!(who == "interrupts" || names.contains(&task.as_str()), "{task} is not in {names:?}");
    }
    check!(left.is_empty(), "not in the ledger: {left:x?}");

    // Who has freed a block that was whose.
    let pairs: Vec<(Value, Value)> = read("history", &image, &[])?
        .iter()
        .filter(|line| line["event"] == "free")
        .map(|line| (line["allocation"]["thread"]["name"].clone(), line["thread"]["name"].clone()))
        .collect();
    check!(pairs.len() == 64, "{} frees are kept", pairs.len());
    // Of the task that is gone, its stack and what the kernel knew of it were freed by who deleted it.
    check!(pairs.iter().any(|(whose, by)| whose.is_null() && by == "keeper"), "{pairs:?}");
    Ok(())
}
