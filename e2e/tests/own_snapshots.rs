//! Snapshots that a program writes of its own ledger (`e2e/own_books/src/bin/snapshots.rs`).

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use heapledger_e2e::ledger::{Blocks, Stats, check_totals, read};
use heapledger_e2e::own_books::{self, programs};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, process};
use heapledger_source::Ledger;

fn alone(scratch: &Scratch, profile: &'static str, what: &str) -> Result<Command> {
    own_books::alone(scratch, profile, "snapshots", &[what])
}

/// Each block is in it once: as one that lives, or as one that was freed. Returns how many live.
fn check_once(path: &Path) -> Result<usize> {
    let said = |error| format!("{}: {error}", path.display());
    let ledger = Ledger::open(path).map_err(said)?;
    check!(!ledger.damage().is_any(), "{}: {:?}", path.display(), ledger.damage());
    let (mut live, mut numbers) = (HashSet::new(), 0);
    let mut records = ledger.records();
    while let Some(chunk) = records.next_chunk().map_err(said)? {
        numbers += chunk.len();
        live.extend(chunk.iter().map(|block| block.number));
    }
    check!(live.len() == numbers, "{}: two records with one number", path.display());
    let mut freed = ledger.freed();
    while let Some(chunk) = freed.next_chunk().map_err(said)? {
        let twice = chunk.iter().find(|entry| live.contains(&entry.block.number));
        check!(twice.is_none(), "{}: lives, and was freed: {twice:?}", path.display());
    }
    Ok(numbers)
}

fn sizes(path: &Path) -> Result<Vec<u64>> {
    Ok(Blocks::live(path)?.blocks.iter().map(|block| block.size).collect())
}

fn are_as_it_was(scratch: &Scratch) -> Result {
    let first = scratch.path("first.hl");
    let stats = Stats::of(&first)?;
    check!(stats.0["process"]["snapshot"].is_object(), "no snapshot: {}", stats.0["process"]);
    // Nobody else was there: it is exact.
    check_totals(&stats, &[])?;
    check!(stats.signed("unaccounted") == 0 && stats.number("in_flight") == 0, "{stats:?}");
    let blocks = Blocks::live(&first)?;
    let [kept] = &blocks.blocks.iter().filter(|block| block.size == 12_345).collect::<Vec<_>>()[..] else {
        return Err("not one block was kept".into());
    };
    check!(blocks.is_from(kept, "snapshots::keeps", false), "{:?}", blocks.stacks[&kept.site]);
    check!(!sizes(&first)?.contains(&34_567), "a block that was freed before");
    let freed = read("history", &first, &["--where", "size = 34567"])?;
    check!(freed.iter().any(|line| line["event"] == "free"), "its free is not there: {freed:?}");
    for (writer, number) in (0..2).flat_map(|writer| (0..10).map(move |number| (writer, number))) {
        let path = scratch.path(&format!("{writer}-{number}.hl"));
        check!(check_once(&path)? > 1, "{}: nothing lives", path.display());
        let stats = Stats::of(&path)?;
        check!(stats.losses().is_empty(), "{}: {:?}", path.display(), stats.losses());
    }
    check_once(&scratch.path("both.hl"))?;
    let last = sizes(&scratch.path("last.hl"))?;
    check!(last.contains(&12_345) && last.contains(&23_456), "what lives at the end is not there");
    let left: Vec<_> =
        scratch.finished().into_iter().filter(|path| path.extension().is_none_or(|end| end != "hl")).collect();
    check!(left.is_empty(), "left behind: {left:?}");
    // One ledger at several moments: commands know it for that.
    let differs = read("diff", &first, &[&scratch.path("last.hl").display().to_string()])?;
    check!(differs.iter().any(|line| line.to_string().contains("23456")), "{differs:?}");
    Ok(())
}

#[test]
fn blocks_are_in_it_once_while_threads_go_on() -> Result {
    for profile in ["dev", "release"] {
        let scratch = Scratch::new();
        process::run(&mut alone(&scratch, profile, "hammers")?)?.good()?;
        are_as_it_was(&scratch)?;
    }
    Ok(())
}

#[test]
fn under_run_its_recorder_writes_them() -> Result {
    let scratch = Scratch::new();
    let program = programs("release")?.join("snapshots");
    process::run(&mut under_run(&scratch, "run", &[], &program, &["hammers".to_owned()]))?.good()?;
    are_as_it_was(&scratch)?;
    let kinds = Blocks::live(scratch.path("last.hl"))?.kinds;
    check!(kinds.iter().any(|kind| kind == "malloc"), "not of the preload library's recorder: {kinds:?}");
    Ok(())
}

#[test]
fn what_cannot_be_written_is_an_error_and_leaves_nothing() -> Result {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("directory")).map_err(|error| error.to_string())?;
    std::os::unix::fs::symlink("nowhere", scratch.path("link")).map_err(|error| error.to_string())?;
    process::run(&mut alone(&scratch, "dev", "fails")?)?.good()?;
    let scratch_names = |scratch: &Scratch| -> Vec<String> {
        let names = std::fs::read_dir(scratch.work()).into_iter().flatten().flatten();
        let mut names: Vec<_> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| !name.starts_with("heapledger."));
        names.sort();
        names
    };
    check!(scratch_names(&scratch) == ["directory", "kept.hl", "link"], "{:?}", scratch_names(&scratch));
    check!(sizes(&scratch.path("kept.hl"))?.contains(&12_345), "it is not the one that was written");

    let scratch = Scratch::new();
    process::run(&mut alone(&scratch, "release", "finds-no-room")?)?.good()?;
    // The earlier one keeps its name.
    check!(scratch_names(&scratch) == ["full.hl"], "{:?}", scratch_names(&scratch));
    check!(sizes(&scratch.path("full.hl"))?.contains(&12_345), "it is not the one that was written");
    Ok(())
}
