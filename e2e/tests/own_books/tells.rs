//! What a program tells of itself: marks, labels, windows, and questions about them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use heapledger_e2e::ledger::{Stats, check_totals, read};
use heapledger_e2e::process::PATIENCE;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find};
use heapledger_e2e::tracked::{recover, under_run};
use heapledger_e2e::{Result, check, process, skip};
use heapledger_source::Ledger;

use crate::{kill, only_finished, only_ledger, own_books, programs, standing};

/// Sizes of `tells`: before the first mark, after it, after the last.
const BEFORE: u64 = 12_345;
const AFTER: u64 = 54_321;
const LATER: u64 = 23_456;
/// And by another thread, outside of a labelled future.
const OUTSIDE: u64 = 34_567;

/// It runs by itself, doing this.
fn tells(scratch: &Scratch, profile: &'static str, what: &str) -> Result<Command> {
    own_books::alone(scratch, profile, "tells", &[what])
}

/// Which of the sizes are among the live blocks that this question leaves.
fn asked(ledger: &Path, question: &[&str]) -> Result<Vec<u64>> {
    let blocks = read("dump", ledger, question)?;
    let sizes = blocks.iter().filter(|line| line["type"] == "block").filter_map(|line| line["size"].as_u64());
    let mut known: Vec<u64> = sizes.filter(|size| [BEFORE, AFTER, LATER, OUTSIDE].contains(size)).collect();
    known.sort_unstable();
    Ok(known)
}

/// The live ledger of a program under `run`.
fn live_of_run(scratch: &Scratch) -> Result<PathBuf> {
    let unfinished = scratch.unfinished();
    let live = unfinished.iter().find(|path| path.extension().is_some_and(|end| end == "hlive"));
    live.cloned().ok_or_else(|| format!("no live ledger: {unfinished:?}"))
}

fn check_marks(ledger: &Path) -> Result {
    check_totals(&Stats::of(ledger)?, &[])?;
    for (question, expected) in [
        (&[][..], &[BEFORE, LATER, AFTER][..]),
        (&["--since", "ready"], &[LATER, AFTER]),
        (&["--since", "load"], &[LATER]),
        (&["--since", "later"], &[LATER]),
    ] {
        let found = asked(ledger, question)?;
        check!(found == expected, "{question:?}: {found:?}");
    }
    let marks = Ledger::open(ledger).and_then(|ledger| ledger.marks()).map_err(|error| error.to_string())?;
    let names: Vec<&str> = marks.iter().map(|mark| mark.name.as_str()).collect();
    let expected =
        ["ready", "load", "of this thread", "load", "a thread's end", "a thread's end", "a thread's end", "later"];
    check!(names == expected, "{names:?}");
    check!(Stats::of(ledger)?.number("marks_lost") == 0, "marks were lost");
    Ok(())
}

#[test]
fn marks_divide_a_killed_programs_blocks() -> Result {
    for profile in ["dev", "release"] {
        let scratch = Scratch::new();
        kill(standing(&mut tells(&scratch, profile, "marks")?)?)?;
        check_marks(&only_ledger(&scratch)?)?;
        let [finished] = &recover(&scratch)?[..] else { return Err("not one ledger was recovered".into()) };
        check_marks(finished)?;
    }
    Ok(())
}

#[test]
fn marks_reach_the_recorder_of_run() -> Result {
    let scratch = Scratch::new();
    let program = programs("dev")?.join("tells");
    let mut command = under_run(&scratch, "one", &[], &program, &["marks".to_owned()]);
    let mut held = standing(&mut command)?;
    check_marks(&live_of_run(&scratch)?)?;
    held.goes_on()?;
    held.running.finish(PATIENCE)?.good()?;
    asked(&scratch.path("one.hl"), &["--since", "load"]).map(drop)
}

#[test]
fn two_threads_may_call_each_while_recording_toggles() -> Result {
    let scratch = Scratch::new();
    let mut held = standing(&mut tells(&scratch, "release", "hammers")?)?;
    // More marks and windows than there is room for, perhaps.
    let lost = ["marks_lost", "windows_lost"].map(str::to_owned);
    check_totals(&Stats::of(only_ledger(&scratch)?)?, &lost)?;
    held.goes_on()?;
    held.running.finish(PATIENCE)?.good()?;
    let finished = only_finished(&scratch, "heapledger.tells.")?;
    check_totals(&Stats::of(&finished)?, &lost)?;
    asked(&finished, &["--since", "two"])?;
    Ok(())
}

/// What label the one live block of each size has.
fn labels(ledger: &Path) -> Result<BTreeMap<u64, String>> {
    let ledger = Ledger::open(ledger).map_err(|error| error.to_string())?;
    let labels = ledger.labels().map_err(|error| error.to_string())?;
    let (mut records, mut found) = (ledger.records(), BTreeMap::new());
    while let Some(chunk) = records.next_chunk().map_err(|error| error.to_string())? {
        for entry in chunk {
            if let Some(size) = entry.size.filter(|size| [BEFORE, AFTER, LATER, OUTSIDE].contains(size)) {
                check!(found.insert(size, labels.text(entry.label)).is_none(), "two blocks of {size} bytes");
            }
        }
    }
    Ok(found)
}

fn check_labels(ledger: &Path) -> Result {
    check_totals(&Stats::of(ledger)?, &[])?;
    let expected = [(BEFORE, ""), (AFTER, "user=7 route=/x"), (LATER, "task=reads route=/x"), (OUTSIDE, "")];
    let expected: BTreeMap<u64, String> = expected.map(|(size, label)| (size, label.to_owned())).into();
    let found = labels(ledger)?;
    check!(found == expected, "{found:?}");
    let asked = asked(ledger, &["--where", "label.route == \"/x\""])?;
    check!(asked == [LATER, AFTER], "{asked:?}");
    Ok(())
}

#[test]
fn blocks_have_the_labels_of_their_scopes_and_futures() -> Result {
    for profile in ["dev", "release"] {
        let scratch = Scratch::new();
        kill(standing(&mut tells(&scratch, profile, "labels")?)?)?;
        check_labels(&only_ledger(&scratch)?)?;
        let [finished] = &recover(&scratch)?[..] else { return Err("not one ledger was recovered".into()) };
        check_labels(finished)?;
    }
    let scratch = Scratch::new();
    let program = programs("dev")?.join("tells");
    let mut held = standing(&mut under_run(&scratch, "one", &[], &program, &["labels".to_owned()]))?;
    check_labels(&live_of_run(&scratch)?)?;
    held.goes_on()?;
    held.running.finish(PATIENCE)?.good().map(drop)
}

fn check_windows(ledger: &Path) -> Result {
    check_totals(&Stats::of(ledger)?, &[])?;
    for (window, expected) in [("load", &[OUTSIDE, AFTER][..]), ("own", &[LATER, AFTER])] {
        let found = asked(ledger, &["--window", window])?;
        check!(found == expected, "{window}: {found:?}");
    }
    Ok(())
}

#[test]
fn windows_hold_what_was_allocated_in_them() -> Result {
    for profile in ["dev", "release"] {
        let scratch = Scratch::new();
        kill(standing(&mut tells(&scratch, profile, "windows")?)?)?;
        check_windows(&only_ledger(&scratch)?)?;
        let [finished] = &recover(&scratch)?[..] else { return Err("not one ledger was recovered".into()) };
        check_windows(finished)?;
    }
    let scratch = Scratch::new();
    let program = programs("dev")?.join("tells");
    let mut held = standing(&mut under_run(&scratch, "one", &[], &program, &["windows".to_owned()]))?;
    check_windows(&live_of_run(&scratch)?)?;
    held.goes_on()?;
    held.running.finish(PATIENCE)?.good().map(drop)
}

/// Instructions of a pair: of the segment with the fewest. What is done by the clock falls into others, see `instructions.rs`.
fn pair(valgrind: &Path, what: &str) -> Result<f64> {
    let scratch = Scratch::new();
    let counts = scratch.path("callgrind.out");
    let mut run = command(valgrind);
    run.args(["--tool=callgrind", "--combine-dumps=yes", "--dump-before=segment"]);
    run.arg(format!("--callgrind-out-file={}", counts.display())).arg(programs("release")?.join("tells")).arg(what);
    run.current_dir(scratch.work()).env("HEAPLEDGER", format!("dir={}", scratch.live().display()));
    process::run_within(&mut run, PATIENCE)?.good()?;
    let text = fs::read_to_string(&counts).map_err(|error| error.to_string())?;
    let totals: Vec<f64> = text.lines().filter_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok()).collect();
    check!(totals.len() == 22, "callgrind has counted {} segments", totals.len());
    // The first is the start, and what is done once for a call path; the last the end.
    Ok(totals[4..21].iter().copied().fold(f64::INFINITY, f64::min) / 1_000.0)
}

#[test]
fn a_label_costs_at_most_ten_instructions() -> Result {
    let Some(valgrind) = find(&["valgrind"]) else {
        skip("labels", "valgrind is not installed");
        return Ok(());
    };
    let (without, with) = (pair(&valgrind, "pairs")?, pair(&valgrind, "labelled-pairs")?);
    println!("a pair takes {without:.1} instructions, {with:.1} with a label");
    check!(with - without <= 10.0, "a pair takes {without:.1} instructions, {with:.1} with a label");
    Ok(())
}
