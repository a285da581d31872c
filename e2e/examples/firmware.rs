//! `cargo xtask firmware`: what takes too long for each change. Firmware in QEMU is cut by a reset at each instruction of an update; does 10,000 random commands on each processor, with other
//! numbers than those of the tests; and its memory is read cut at each byte and with bytes changed, by itself and in core dumps of ESP-IDF.

use std::process::ExitCode;
use std::time::Instant;

use heapledger_e2e::chip::MACHINES;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::{Result, esp, long};

/// Random numbers to begin with.
const SEEDS: u32 = 10;
/// Changes of each image.
const CHANGES: usize = 5000;

fn cuts() -> Result<String> {
    let mut all = Vec::new();
    for machine in &MACHINES {
        all.push(format!("{} resets of a {}", long::cuts(machine)?, machine.name));
    }
    Ok(format!("{}: each ledger was found by the next start, and read", all.join(", ")))
}

fn commands(seeds: u32) -> Result<String> {
    Ok(format!("{} runs of 10,000 commands agree with the model", long::commands(seeds)?))
}

fn damaged(changes: usize) -> Result<String> {
    let scratch = Scratch::new();
    let (mut images, mut tried) = (0, 0);
    for (machine, program) in [(0, "survivor"), (1, "survivor"), (0, "firmware"), (1, "commands")] {
        let Some(machine) = MACHINES.get(machine) else { continue };
        let Some((ledger, address)) = long::memory_of(machine, program)? else { continue };
        let memory = [(address as u32, ledger.as_slice())];
        let mut files = vec![ledger.clone()];
        // Of the smaller ones, what a device of ESP-IDF makes of them.
        if ledger.len() < 4096 {
            files.extend([0, 2, 5, 6].into_iter().filter_map(|nth| esp::FORMS.get(nth)).flat_map(|form| {
                let dump = esp::dump(*form, &memory);
                [esp::lines(&dump).into_bytes(), dump]
            }));
        }
        for file in files {
            tried += long::damaged(&scratch, &file, changes)
                .map_err(|reason| format!("{}, {program}: {reason}", machine.name))?;
            images += 1;
        }
    }
    Ok(format!("{tried} cut or damaged files, of {images}, are read as far as they go, or refused with a sentence"))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seeds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(SEEDS);
    let named =
        |name: &str| words.iter().any(|word| word == name) || words.iter().all(|word| word.parse::<u32>().is_ok());
    let parts: [(&str, &dyn Fn() -> Result<String>); 3] =
        [("cuts", &cuts), ("images", &|| damaged(CHANGES)), ("commands", &|| commands(seeds))];
    let mut failed = false;
    for (name, part) in parts.into_iter().filter(|(name, _)| named(name)) {
        let began = Instant::now();
        let outcome = part();
        let seconds = began.elapsed().as_secs();
        match outcome {
            Ok(said) => println!("{name:<9} {seconds:>5} s  {said}"),
            Err(reason) => {
                println!("{name:<9} {seconds:>5} s  FAILED: {reason}");
                failed = true;
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
