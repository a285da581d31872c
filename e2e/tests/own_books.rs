//! A program with the crate `heapledger` inside (`e2e/own_books`), built as users build theirs.

#[path = "own_books/moments.rs"]
mod moments;
#[path = "own_books/places.rs"]
mod places;
#[path = "own_books/tells.rs"]
mod tells;
#[path = "own_books/variable.rs"]
mod variable;

use std::path::{Path, PathBuf};
use std::process::Command;

use heapledger_e2e::ledger::{Blocks, Stats, check_totals, read};
use heapledger_e2e::own_books::{self, PROFILES, programs};
use heapledger_e2e::process::{Held, PATIENCE, hold};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{recover, under_run};
use heapledger_e2e::{Result, check, process};

/// The program in one profile.
fn program(profile: &'static str) -> Result<PathBuf> {
    Ok(programs(profile)?.join("own_books"))
}

/// The program by itself, doing this, with its ledger below the scratch directory.
fn alone(scratch: &Scratch, profile: &'static str, what: &str) -> Result<Command> {
    own_books::alone(scratch, profile, "own_books", &[what])
}

/// It runs until it stands still.
fn standing(command: &mut Command) -> Result<Held> {
    let mut held = hold(command)?;
    if !held.stands()? {
        return Err(format!("it does not come so far: {}", held.running.finish(PATIENCE)?));
    }
    Ok(held)
}

fn kill(mut held: Held) -> Result {
    held.running.child.kill().map_err(|error| error.to_string())?;
    held.running.finish(PATIENCE).map(drop)
}

/// The one ledger that there is below the scratch directory.
fn only_ledger(scratch: &Scratch) -> Result<PathBuf> {
    match &scratch.unfinished()[..] {
        [one] => Ok(one.clone()),
        other => Err(format!("not one ledger, but {other:?}")),
    }
}

/// The one finished ledger.
fn only_finished(scratch: &Scratch, name: &str) -> Result<PathBuf> {
    match &scratch.finished()[..] {
        [one] if one.file_name().is_some_and(|own| own.to_string_lossy().starts_with(name)) => Ok(one.clone()),
        other => Err(format!("not one ledger, but {other:?}")),
    }
}

/// Sizes that only one function of the program asks for, that function, and by which of Rust's calls.
const KEPT: &[(u64, &str, &str)] = &[
    (12_345, "own_books::keeps", "__rust_alloc"),
    (54_321, "own_books::grows", "__rust_realloc"),
    (23_456, "own_books::takes_zeroed", "__rust_alloc_zeroed"),
];

/// Blocks of the program have the function and the line that asked for them, and no frame of the crate's own code.
fn check_blocks(ledger: &Path, kept: &[(u64, &str, &str)], kinds: bool) -> Result {
    let blocks = Blocks::live(ledger)?;
    for (size, function, kind) in kept {
        let found: Vec<_> = blocks.blocks.iter().filter(|block| block.size == *size).collect();
        let [block] = found[..] else { return Err(format!("{} blocks of {size} bytes", found.len())) };
        check!(!kinds || blocks.kinds[block.kind] == *kind, "{size} bytes by {}", blocks.kinds[block.kind]);
        let frames = &blocks.stacks[&block.site];
        let frame = frames.iter().find(|frame| frame.names[0] == *function);
        let frame = frame.ok_or_else(|| format!("{size} bytes by {frames:?}"))?;
        check!(frame.file.contains("e2e/own_books/src/"), "{size} bytes in {}", frame.file);
        let own = frames.iter().find(|frame| frame.names[0].contains("heapledger::") && !frame.inlined);
        check!(!kinds || own.is_none(), "a frame of our own: {own:?}");
        check!(frames.iter().any(|frame| frame.names[0] == "main"), "the stack of {size} bytes ends early: {frames:?}");
    }
    Ok(())
}

fn is_whole_after_a_kill(profile: &'static str) -> Result {
    let scratch = Scratch::new();
    kill(standing(&mut alone(&scratch, profile, "threads")?)?)?;
    let ledger = only_ledger(&scratch)?;
    let stats = Stats::of(&ledger)?;
    check_totals(&stats, &[])?;
    check!(stats.calls("allocated_by").keys().all(|kind| kind.starts_with("__rust_")), "{:?}", stats.0["allocated_by"]);
    check!(stats.number("allocations") > 8_000, "{} allocations", stats.number("allocations"));
    check_blocks(&ledger, KEPT, true)?;
    let freed = Blocks::ever_and_freed(&ledger);
    check!(freed.is_ok(), "{freed:?}");
    // And finished by those who find it.
    let [finished] = &recover(&scratch)?[..] else { return Err("not one ledger was recovered".into()) };
    check_blocks(finished, KEPT, true)?;
    check!(scratch.unfinished().is_empty(), "left behind: {:?}", scratch.unfinished());
    Ok(())
}

#[test]
fn a_debug_build_is_whole_after_a_kill() -> Result {
    is_whole_after_a_kill("dev")
}

#[test]
fn a_release_build_is_whole_after_a_kill() -> Result {
    is_whole_after_a_kill("release")
}

#[test]
fn builds_that_abort_are_whole_after_a_kill() -> Result {
    is_whole_after_a_kill("dev-abort")?;
    is_whole_after_a_kill("release-abort")
}

#[test]
fn under_run_there_is_one_ledger() -> Result {
    let scratch = Scratch::new();
    let mut held = standing(&mut under_run(&scratch, "one", &[], &program("dev")?, &["threads".to_owned()]))?;
    check!(
        scratch.unfinished().iter().filter(|path| path.extension().is_some_and(|end| end == "hlive")).count() == 1,
        "not one ledger: {:?}",
        scratch.unfinished()
    );
    held.goes_on()?;
    held.running.finish(PATIENCE)?.good()?;
    check!(scratch.unfinished().is_empty(), "left behind: {:?}", scratch.unfinished());
    let [ledger] = &scratch.finished()[..] else { return Err(format!("ledgers: {:?}", scratch.finished())) };
    let stats = Stats::of(ledger)?;
    check_totals(&stats, &[])?;
    check!(stats.calls("allocated_by").contains_key("malloc"), "{:?}", stats.0["allocated_by"]);

    // And it speaks to that recorder.
    let scratch = Scratch::new();
    let mut command = under_run(&scratch, "two", &[], &program("dev")?, &["pauses".to_owned()]);
    let mut held = standing(&mut command)?;
    held.goes_on()?;
    held.running.finish(PATIENCE)?.good()?;
    let ever = Blocks::ever(scratch.path("two.hl"))?;
    check!(
        ever.blocks.iter().all(|block| block.size != 34_567),
        "a block that was allocated while recording was paused"
    );
    check!(ever.blocks.iter().any(|block| block.size == 54_321), "no block of after that");
    Ok(())
}

#[test]
fn a_forked_child_is_not_in_it() -> Result {
    let scratch = Scratch::new();
    kill(standing(&mut alone(&scratch, "dev", "forks")?)?)?;
    let ledger = only_ledger(&scratch)?;
    check_totals(&Stats::of(&ledger)?, &[])?;
    check_blocks(&ledger, &KEPT[..1], true)
}

#[test]
fn what_is_allocated_while_paused_passes_by() -> Result {
    let scratch = Scratch::new();
    let mut held = standing(&mut alone(&scratch, "release", "pauses")?)?;
    let ledger = only_ledger(&scratch)?;
    check_blocks(&ledger, &KEPT[..2], true)?;
    let blocks = Blocks::live(&ledger)?;
    check!(blocks.blocks.iter().all(|block| block.size != 34_567), "a block that passed by");
    held.goes_on()?;
    held.running.finish(PATIENCE)?.good()?;
    check!(scratch.unfinished().is_empty(), "left behind: {:?}", scratch.unfinished());
    let finished = only_finished(&scratch, "heapledger.own_books.")?;
    let told = process::run(command(heapledger()).arg("stats").arg(&finished))?.good()?;
    check!(told.out().contains(", ended after about "), "it is of its end: {}", told.out());
    let stats = Stats::of(finished)?;
    check_totals(&stats, &[])?;
    check!(stats.number("unknown_frees") == 0, "{} unknown frees", stats.number("unknown_frees"));
    let threads = stats.0["threads"].as_array().cloned().unwrap_or_default();
    check!(
        threads.iter().any(|thread| thread["state"] == "at_exit"),
        "nobody said that the program ended: {threads:?}"
    );
    Ok(())
}

#[test]
fn at_its_end_it_is_finished_by_itself() -> Result {
    for profile in ["dev", "release-abort"] {
        let scratch = Scratch::new();
        let mut held = standing(&mut alone(&scratch, profile, "threads")?)?;
        let live = Stats::of(only_ledger(&scratch)?)?;
        held.goes_on()?;
        held.running.finish(PATIENCE)?.good()?;
        check!(scratch.unfinished().is_empty(), "left behind: {:?}", scratch.unfinished());
        let finished = only_finished(&scratch, "heapledger.own_books.")?;
        let stats = Stats::of(&finished)?;
        check_totals(&stats, &[])?;
        let said = read("stats", &finished, &[])?;
        let notes = said.last().ok_or("nothing is said")?["notes"].to_string();
        check!(!notes.contains("stopped"), "its end is taken for an early stop: {notes}");
        let freed = |stats: &Stats| stats.number("frees");
        check!(freed(&stats) >= freed(&live) + 3, "{} frees, and {} before the last", freed(&stats), freed(&live));
        // What was kept was freed at the end, and is in the history with its stack.
        let [allocated, freed] = Blocks::ever_and_freed(&finished)?;
        for (size, function, _) in KEPT {
            for events in [&allocated, &freed] {
                let block = events.blocks.iter().find(|block| block.size == *size);
                let block = block.ok_or_else(|| format!("{size} bytes are not in the history"))?;
                check!(events.is_from(block, function, false) || std::ptr::eq(events, &freed), "{size} bytes");
            }
        }
    }
    Ok(())
}

#[test]
fn a_ledger_in_memory_is_written_out() -> Result {
    let scratch = Scratch::new();
    let mut ran = command(programs("release")?.join("in_memory"));
    // What the harness says in the variable would win: a directory.
    process::run(ran.current_dir(scratch.work()).env_remove("HEAPLEDGER"))?.good()?;
    let finished = only_finished(&scratch, "books.hl")?;
    let stats = Stats::of(&finished)?;
    check_totals(&stats, &[])?;
    let [allocations, unknown] = ["allocations", "unknown_frees"].map(|name| stats.number(name));
    check!((10_001..11_000).contains(&allocations), "{allocations} allocations");
    check!(unknown == 0, "{unknown} unknown frees: what was allocated before recording began passes by");
    check_blocks(&finished, &[(12_345, "in_memory::keeps", "__rust_alloc")], true)
}

#[test]
fn what_is_surely_a_sample_is_in_a_sampled_ledger() -> Result {
    for profile in ["dev", "release"] {
        let scratch = Scratch::new();
        let mut command = alone(&scratch, profile, "threads")?;
        // Of 12,345 bytes one block in 10^10 would be none.
        command.env("HEAPLEDGER", format!("dir={},sample=512", scratch.live().display()));
        kill(standing(&mut command)?)?;
        let ledger = only_ledger(&scratch)?;
        check_blocks(&ledger, KEPT, true)?;
        let stats = Stats::of(&ledger)?;
        check!(stats.0["sampled"].is_object(), "it is not sampled: {}", stats.0["sampled"]);
        let small = Blocks::live(&ledger)?.blocks.iter().filter(|block| block.size < 32).count();
        check!(small < 4_000, "{small} small blocks, nearly all that there are");
        // A sample weighs on its account what it weighs elsewhere.
        let accounts = stats.0["accounts"].as_array().cloned().unwrap_or_default();
        for (figure, all) in [("bytes", "live_bytes"), ("blocks", "live_blocks"), ("allocations", "allocations")] {
            let sum: u64 = accounts.iter().filter_map(|account| account[figure].as_u64()).sum();
            check!(sum == stats.number(all), "{figure}: {sum} on accounts, {} in all", stats.number(all));
        }
    }
    Ok(())
}

#[test]
fn the_programs_functions_hold_its_blocks() -> Result {
    let scratch = Scratch::new();
    kill(standing(&mut alone(&scratch, "dev", "threads")?)?)?;
    let ledger = only_ledger(&scratch)?;
    for (size, function, _) in KEPT {
        let is_held = format!("size = {size} and fn = \"{function}\"");
        let lines = read("dump", &ledger, &["--where", &is_held])?;
        check!(
            lines.iter().filter(|line| line["type"] == "block").count() == 1,
            "{function} does not hold {size} bytes"
        );
    }
    Ok(())
}

#[test]
fn what_is_discarded_leaves_nothing() -> Result {
    let scratch = Scratch::new();
    process::run(&mut alone(&scratch, "release", "discards")?)?.good()?;
    check!(scratch.unfinished().is_empty(), "left behind: {:?}", scratch.unfinished());
    check!(scratch.finished().is_empty(), "finished all the same: {:?}", scratch.finished());
    Ok(())
}

/// Functions that a panic goes through, by their names in any mangling.
const PANICS: &[&str] = &["9panicking", "13unwrap_failed", "13expect_failed"];
/// Only a panic leads to these: they keep it from going on.
const BEHIND_PANICS: &[&str] = &["panic_cannot_unwind", "panic_in_cleanup"];

/// Whether a line of assembly leads to a panic.
fn is_panic(line: &str) -> bool {
    let has = |parts: &[&str]| parts.iter().any(|part| line.contains(part));
    has(PANICS) && !has(BEHIND_PANICS)
}

#[test]
fn nothing_of_ours_can_panic_in_a_program_of_a_user() -> Result {
    for (profile, _) in PROFILES {
        let program = program(profile)?;
        let code = process::run(command("objdump").args(["-d", "--no-show-raw-insn"]).arg(program))?.good()?.out();
        let (mut function, mut functions, mut others, mut leads) = ("", 0, 0, Vec::new());
        for line in code.lines() {
            if let Some((_, name)) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
                function = name;
                functions += u32::from(name.contains("heapledger"));
            } else if is_panic(line) && function.contains("heapledger") {
                leads.push(format!("{function}: {}", line.trim()));
            } else if is_panic(line) && function.contains("own_books") {
                others += 1;
            }
        }
        check!(functions > 50, "{profile}: {functions} functions of ours: there is no symbol table to look at");
        check!(others > 0, "{profile}: not even the program's own panics are found");
        check!(leads.is_empty(), "{profile}: {} calls: {}", leads.len(), leads.join("\n"));
    }
    Ok(())
}
