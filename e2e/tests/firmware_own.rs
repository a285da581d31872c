//! Firmware as users build theirs (`e2e/own_firmware`): by cargo, with allocators and executors of the registry. What the image of its memory says is what it knows to
//! be live, of which task, and by which function.

use std::collections::BTreeMap;
use std::fs;

use heapledger_e2e::chip::{MACHINES, truth};
use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::{Result, check};

/// A firmware: who a task's number is, and a function of it. (Of tasks that are compiled into their executor, the executor's.)
struct Own {
    name: &'static str,
    tasks: [(&'static str, &'static str); 3],
    /// Blocks that live in the end.
    live: usize,
}

fn agrees(own: &Own) -> Result {
    let machine = MACHINES[0];
    let Some(firmware) = machine.firmware(own.name, &[]) else { return Ok(()) };
    let scratch = Scratch::new();
    let image = scratch.path("ram.bin");
    machine.image(&firmware, &image)?;
    let truth = truth(&fs::read(&image).map_err(|error| error.to_string())?)?;
    check!(truth.len() == own.live, "{} blocks are live", truth.len());

    let lines = read("dump", &image, &["--exe", &firmware.to_string_lossy()])?;
    let mut said = BTreeMap::new();
    for block in lines.iter().filter(|line| line["type"] == "block") {
        let task = block["thread"]["name"].as_str().unwrap_or_default();
        let who = own.tasks.iter().position(|(name, _)| *name == task).ok_or_else(|| format!("nobody's: {block}"))?;
        let digits = block["address"].as_str().unwrap_or_default().trim_start_matches("0x");
        let address = u64::from_str_radix(digits, 16).unwrap_or_default();
        said.insert(address, (block["size"].as_u64().unwrap_or_default(), who as u64));
        let frames = block["frames"].as_array().into_iter().flatten();
        let functions: Vec<&str> = frames.filter_map(|frame| frame["function"].as_str()).collect();
        for expected in ["own_firmware::turn", own.tasks[who].1] {
            check!(
                functions.iter().any(|function| function.contains(expected)),
                "no {expected} in the stack of {block}"
            );
        }
    }
    check!(said == truth, "live are {truth:x?}, and the ledger says {said:x?}");

    let stats = Stats::of(&image)?;
    for key in ["lost_busy", "lost_no_record", "unknown_frees", "displaced", "sites_full", "threads_unnamed"] {
        let count = stats.inner("counters", key);
        check!(count == 0, "{key} is {count}");
    }
    let (allocations, frees) = (stats.number("allocations"), stats.number("frees"));
    // Of three blocks one is kept, and one grows before it goes.
    let live = own.live as u64;
    check!((allocations, frees) == (live * 4, live * 3), "{allocations} allocations, {frees} frees");
    Ok(())
}

#[test]
fn two_tasks_of_embassy_over_linked_list_allocator() -> Result {
    let tasks = [("interrupts", "nobody"), ("first", "TaskStorage"), ("second", "TaskStorage")];
    agrees(&Own { name: "own_embassy", tasks, live: 60 })
}

#[test]
fn two_tasks_of_rtic_and_an_interrupt_over_embedded_alloc() -> Result {
    let tasks = [("interrupts", "UART0"), ("first", "app::first"), ("second", "QEI0")];
    agrees(&Own { name: "own_rtic", tasks, live: 93 })
}
