//! What the variable says goes before what the program's options say.

use std::path::PathBuf;

use heapledger_e2e::own_books::programs;
use heapledger_e2e::process::Ran;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::command;
use heapledger_e2e::{Result, check, process};

use crate::{KEPT, alone, check_blocks, only_finished, only_ledger};

/// The program is recorded from its first call on, and has found that when it asked for it.
const AT_ONCE: &str = "On Err(Begun) On\n";

/// The program runs with these items in the variable, and says no more on standard error than this.
fn ran(scratch: &Scratch, items: &str, told: &str) -> Result<Ran> {
    let mut run = alone(scratch, "dev", "starts")?;
    run.env("HEAPLEDGER", format!("dir={},{items}", scratch.live().display()));
    let ran = process::run(&mut run)?.good()?;
    check!(ran.err() == told, "{items}: {ran}");
    Ok(ran)
}

fn left(scratch: &Scratch) -> [Vec<PathBuf>; 2] {
    [scratch.unfinished(), scratch.finished()]
}

#[test]
fn it_says_what_becomes_of_the_ledger() -> Result {
    let scratch = Scratch::new();
    check!(ran(&scratch, "at-exit=remove", "")?.out() == AT_ONCE, "it is not recorded");
    check!(left(&scratch).iter().all(Vec::is_empty), "left behind: {:?}", left(&scratch));

    ran(&scratch, "at-exit=keep", "")?;
    check_blocks(&only_ledger(&scratch)?, &KEPT[..1], true)?;
    check!(scratch.finished().is_empty(), "finished all the same: {:?}", scratch.finished());

    let scratch = Scratch::new();
    ran(&scratch, "output=of%2Cours.hl", "")?;
    check!(scratch.unfinished().is_empty(), "left behind: {:?}", scratch.unfinished());
    check_blocks(&only_finished(&scratch, "of,ours.hl")?, &KEPT[..1], true)
}

#[test]
fn it_says_when_recording_begins() -> Result {
    let scratch = Scratch::new();
    check!(ran(&scratch, "begin=later", "")?.out() == "Off Ok(()) On\n", "it did not wait");
    check_blocks(&only_finished(&scratch, "heapledger.own_books.")?, &KEPT[..1], true)?;

    // And of a program that would have waited.
    let scratch = Scratch::new();
    let mut run = command(programs("release")?.join("in_memory"));
    run.current_dir(scratch.work()).env("HEAPLEDGER", "begin=now");
    let ran = process::run(&mut run)?;
    check!(ran.err().contains("left: On"), "it waited: {ran}");
    Ok(())
}

#[test]
fn what_is_not_understood_is_told_once() -> Result {
    for item in ["nonsense=1", "depth=x", "begin=later,at-exit=soon"] {
        let scratch = Scratch::new();
        let bad = item.rsplit(',').next().unwrap_or(item);
        let out = ran(&scratch, item, &format!("heapledger: HEAPLEDGER: not understood: {bad}\n"))?.out();
        check!(out == AT_ONCE || item.starts_with("begin"), "{item}: {out}");
        only_finished(&scratch, "heapledger.own_books.")?;
    }
    Ok(())
}

#[test]
fn a_file_that_cannot_be_written_is_told_of() -> Result {
    let scratch = Scratch::new();
    let said = "heapledger: /nowhere/at/all.hl cannot be written: `heapledger recover` finishes the ledger\n";
    ran(&scratch, "output=/nowhere/at/all.hl", said)?;
    only_ledger(&scratch)?;

    let scratch = Scratch::new();
    let mut run = command(programs("release")?.join("in_memory"));
    run.current_dir(scratch.work()).env("HEAPLEDGER", "output=/nowhere/at/all.hl");
    let said =
        "heapledger: /nowhere/at/all.hl cannot be written: the ledger was in the program's memory, and is lost\n";
    let ran = process::run(&mut run)?.good()?;
    check!(ran.err() == said && scratch.finished().is_empty(), "{ran}");
    Ok(())
}
