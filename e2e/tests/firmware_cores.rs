//! Two RISC-V cores that allocate and free at the same time (`e2e/firmware/cores.rs`), under a lock around the allocator or with one for recording alone: what an image of
//! the memory says is what a model of the same 20,000 commands knows, and where the blocks lie the firmware says.

use std::collections::BTreeMap;
use std::fs;

use heapledger_e2e::chip::{TWO_CORES, truth};
use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::{Result, check};

const COMMANDS: u32 = 5000;
const SLOTS: usize = 48;

/// What a core has done.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Done {
    allocations: u64,
    frees: u64,
    bytes: u64,
}

/// What the commands come to, in whichever order the cores come: what each core has done, bytes that were freed, and sizes and owners of what is live.
fn expected() -> ([Done; 2], u64, Vec<(u64, u64)>) {
    let (mut done, mut freed) = ([Done::default(); 2], 0);
    let mut held: [[Option<(u64, u64)>; SLOTS]; 2] = [[None; SLOTS]; 2];
    let mut random = [2_463_534_242_u32, 2_463_534_243];
    for round in 0..2 {
        for core in 0..2 {
            for _ in 0..COMMANDS {
                let number = &mut random[core];
                *number ^= *number << 13;
                *number ^= *number >> 17;
                *number ^= *number << 5;
                let slot = &mut held[(core + round) % 2][*number as usize % SLOTS];
                match slot.take() {
                    Some((bytes, _)) => {
                        done[core].frees += 1;
                        freed += bytes;
                    }
                    None => {
                        let bytes = u64::from(1 + (*number >> 16) % 100);
                        *slot = Some((bytes, core as u64));
                        done[core].allocations += 1;
                        done[core].bytes += bytes;
                    }
                }
            }
        }
    }
    let mut live: Vec<(u64, u64)> = held.iter().flatten().flatten().copied().collect();
    live.sort_unstable();
    (done, freed, live)
}

#[test]
fn two_cores_that_allocate_at_the_same_time_agree_with_a_model() -> Result {
    let (done, freed, live) = expected();
    for program in ["cores_around", "cores_apart"] {
        let Some(firmware) = TWO_CORES.firmware(program, &[]) else { return Ok(()) };
        let scratch = Scratch::new();
        let image = scratch.path("ram.bin");
        TWO_CORES.image(&firmware, &image)?;
        let ram = fs::read(&image).map_err(|error| error.to_string())?;

        let symbols = TWO_CORES.room(&firmware)?.symbols;
        let (waited_at, _) = symbols.get("WAITED").copied().ok_or("the firmware has no WAITED")?;
        let at = (waited_at - TWO_CORES.ram) as usize;
        let waited = u32::from_le_bytes(ram[at..at + 4].try_into().unwrap_or_default());
        println!("{program}: a core waited for the other {waited} times");
        check!(waited >= 2, "{program}: nobody waited for the other: {waited}");

        let truth = truth(&ram)?;
        let mut said = BTreeMap::new();
        let exe = firmware.to_string_lossy();
        for block in read("dump", &image, &["--exe", &exe])?.iter().filter(|line| line["type"] == "block") {
            let digits = block["address"].as_str().unwrap_or_default().trim_start_matches("0x").to_owned();
            let address = u64::from_str_radix(&digits, 16).map_err(|error| format!("{block}: {error}"))?;
            let owner = match block["thread"]["name"].as_str() {
                Some("first") => 0,
                Some("second") => 1,
                _ => return Err(format!("{program}: of no core: {block}")),
            };
            let frames: Vec<&str> = block["frames"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|frame| frame["function"].as_str())
                .collect();
            let is_its = frames.iter().any(|function| function.ends_with("::works"));
            check!(is_its, "{program}: nobody who works is in the stack of {block}");
            said.insert(address, (block["size"].as_u64().unwrap_or_default(), owner));
        }
        check!(said == truth, "{program}: live are {truth:x?}, and the ledger says {said:x?}");
        let mut sizes: Vec<(u64, u64)> = said.into_values().collect();
        sizes.sort_unstable();
        check!(sizes == live, "{program}: live are {live:?}, and the ledger says {sizes:?}");

        let stats = Stats::of(&image)?;
        let all = [
            ("allocations", done.iter().map(|core| core.allocations).sum::<u64>()),
            ("frees", done.iter().map(|core| core.frees).sum()),
            ("bytes_allocated", done.iter().map(|core| core.bytes).sum()),
            ("bytes_freed", freed),
        ];
        for (word, number) in all {
            check!(stats.number(word) == number, "{program}: {word} is {}, not {number}", stats.number(word));
        }
        for key in ["lost_busy", "lost_no_record", "unknown_frees", "displaced", "sites_full", "threads_unnamed"] {
            check!(stats.inner("counters", key) == 0, "{program}: {key} is {}", stats.inner("counters", key));
        }
        let tasks = stats.0["threads"].as_array().cloned().unwrap_or_default();
        for (name, done) in ["first", "second"].into_iter().zip(done) {
            let task =
                tasks.iter().find(|task| task["name"] == name).ok_or_else(|| format!("no task {name}: {tasks:?}"))?;
            let is = ["allocations", "frees", "bytes_allocated"].map(|key| task[key].as_u64().unwrap_or(u64::MAX));
            check!(is == [done.allocations, done.frees, done.bytes], "{program}: {name} has done {done:?}, not {task}");
        }
    }
    Ok(())
}
