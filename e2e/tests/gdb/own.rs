//! A program with the crate inside that gdb runs, without `heapledger run`.

use std::process::Command;

use heapledger_e2e::ledger::Blocks;
use heapledger_e2e::own_books::programs;
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::{Result, check};

use super::tools::*;

/// What it keeps, and nobody else is so long.
const KEPT: [u64; 3] = [11_111, 22_222, 33_333];

#[test]
fn a_program_that_records_itself_shows_its_blocks() -> Result {
    for (profile, with_python) in [("dev", true), ("release", false)] {
        let scratch = Scratch::new();
        let program = programs(profile)?.join("steps");
        let place = format!("set environment HEAPLEDGER dir={}", scratch.live().display());
        let words = [&*place, "break steps_stands_here", "run", "mdd_dump", "heapledger stats --top 0", "continue"];
        let ran = in_gdb(&scratch, with_python, &[&program.to_string_lossy()], &words)?;
        let said = ran.out();
        check!(said.contains("Current   : ") && said.contains("__rust_alloc"), "{profile}: stats: {ran}");
        check!(said.contains("done") && said.contains("exited normally"), "{profile}: it does not go on: {ran}");
        let live = Blocks::live(scratch.path("mddout.0"))?;
        for size in KEPT {
            let found: Vec<_> = live.blocks.iter().filter(|block| block.size == size).collect();
            let [block] = found[..] else { return Err(format!("{profile}: {} blocks of {size} bytes", found.len())) };
            let frames = &live.stacks[&block.site];
            check!(
                frames.iter().any(|frame| frame.names[0] == "steps::keeps"),
                "{profile}: {size} bytes by {frames:?}"
            );
        }
    }
    Ok(())
}

/// Steps at each stop: more than an entry has instructions, and once fewer, because a step over a call passes the next entry's
/// breakpoint.
const STEPS: [usize; 8] = [40, 40, 40, 40, 24, 40, 40, 40];

/// gdb finds out from each instruction of the crate's entries, which are written in assembly.
#[test]
fn its_entries_can_be_stepped_through() -> Result {
    const ENTRIES: [&str; 4] = ["alloc", "alloc_zeroed", "realloc", "dealloc"];
    for profile in ["dev", "release"] {
        let scratch = Scratch::new();
        let program = programs(profile)?.join("steps");
        let symbols = process::run(Command::new("nm").arg("-C").arg(&program))?.good()?.out();
        let address = |name: &str| {
            let line =
                symbols.lines().find(|line| line.split_once(' ').is_some_and(|(_, rest)| rest.get(2..) == Some(name)));
            let address = line.and_then(|line| line.split(' ').next()).ok_or(format!("{profile}: no {name}"))?;
            Ok::<_, String>(format!("0x{address}"))
        };
        let mut words = vec![
            format!("set environment HEAPLEDGER dir={}", scratch.live().display()),
            "set pagination off".into(),
            "break steps_stands_here".into(),
            "run".into(),
            "set language c".into(),
            format!("set $bias = (long) &steps_stands_here - {}", address("steps_stands_here")?),
        ];
        for entry in ENTRIES {
            words.push(format!("break *($bias + {})", address(&format!("heapledger::entry::{entry}"))?));
        }
        for steps in STEPS {
            words.push("continue".into());
            for _ in 0..steps {
                words.extend(["echo STEP\\n", "info symbol $pc", "bt", "nexti"].map(str::to_owned));
            }
        }
        words.extend(["delete", "continue"].map(str::to_owned));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = in_gdb(&scratch, true, &[&program.to_string_lossy()], &words)?.out();
        let steps: Vec<&str> = said.split("STEP\n").skip(1).collect();
        check!(steps.len() == STEPS.iter().sum::<usize>(), "{profile}: {} steps: {said}", steps.len());
        for step in &steps {
            let is_whole = step.contains(" steps_calls_each ") && step.contains(" main ");
            check!(is_whole, "{profile}: a stack that ends early: {step}");
        }
        for entry in ENTRIES {
            let name = format!("heapledger::entry::{entry}::");
            let inside = steps.iter().filter(|step| step.starts_with(&name)).count();
            let all: Vec<_> = steps.iter().filter_map(|step| step.split([' ', '\n']).next()).collect();
            check!(inside > 10, "{profile}: {inside} steps in {entry}: {all:?}");
        }
        check!(said.contains("done") && said.contains("exited normally"), "{profile}: it does not go on");
    }
    Ok(())
}
