//! The live file is removed while its program runs, as cleaners of `/dev/shm` do and the system at logout: `run` holds
//! it open, commands find it all the same, and nothing is lost.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use heapledger_e2e::ledger::{Blocks, Stats, check_totals};
use heapledger_e2e::process::{self, PATIENCE, Running, children, held_ledgers, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{by_hand, images, recover, under_run};
use heapledger_e2e::{Result, check, victim};

/// Blocks that `standing` allocates.
const BLOCKS: u64 = 1000;

fn standing() -> Result<PathBuf> {
    victim::named("standing")?.build()
}

fn check_standing(ledger: &Path) -> Result {
    let stats = Stats::of(ledger)?;
    check_totals(&stats, &[])?;
    let live = Blocks::live(ledger)?;
    live.check(&stats)?;
    let own = live.blocks.iter().filter(|block| live.is_from(block, "standing_block", true)).count() as u64;
    check!(own == BLOCKS, "{own} blocks of standing_block are live, and not {BLOCKS}");
    Ok(())
}

/// Waits until the program that `run` has started has so many live blocks, asked for by its number, and `run` holds so many
/// live files: what is removed before it does is lost. Returns the number.
fn until_it_holds(run: &Running, blocks: u64, files: usize) -> Result<u32> {
    let mut found = 0;
    until("the program stands", || {
        found = children(run.pid()).first().copied().unwrap_or(0);
        found != 0 && Stats::of(found.to_string()).is_ok_and(|stats| stats.number("live_blocks") >= blocks)
    })?;
    until("run holds the live file", || held_ledgers(run.pid()).len() == files)?;
    Ok(found)
}

/// The directory of unfinished ledgers.
fn directory(scratch: &Scratch) -> Result<PathBuf> {
    let items = fs::read_dir(scratch.live()).map_err(|error| error.to_string())?;
    items.flatten().map(|item| item.path()).next().ok_or_else(|| "no directory of ledgers".into())
}

fn start(scratch: &Scratch, program: &Path, arguments: &[String]) -> Result<Running> {
    heapledger(); // built now, and not while the program waits
    process::start(under_run(scratch, "x", &[], program, arguments).stdin(Stdio::piped()))
}

fn remove(path: &Path) -> Result {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(|error| format!("{}: {error}", path.display()))
}

/// What is removed while the program stands: the file, the directory of the user, and the place with all in it.
#[test]
fn while_the_program_runs() -> Result {
    for what in ["file", "directory", "place"] {
        let scratch = Scratch::new();
        let mut running = start(&scratch, &standing()?, &[])?;
        let pid = until_it_holds(&running, BLOCKS, 1)?;
        remove(
            &match what {
                "file" => {
                    scratch.unfinished().into_iter().find(|path| path.extension().is_some_and(|end| end == "hlive"))
                }
                "directory" => Some(directory(&scratch)?),
                _ => Some(scratch.live().to_owned()),
            }
            .ok_or("no live file")?,
        )?;
        // Commands that are told the process go on to find it.
        let stats = Stats::of(pid.to_string())?;
        check!(stats.number("live_blocks") >= BLOCKS, "{what}: stats PID sees {}", stats.number("live_blocks"));
        check!(stats.inner("storage", "file_bytes") < 64 << 20, "{what}: {}", stats.0["storage"]);
        drop(running.child.stdin.take());
        let ran = running.finish(PATIENCE)?.good()?;
        check!(ran.err().contains("was removed while the program ran"), "{what}: nothing is said: {ran}");
        check_standing(&scratch.path("x.hl")).map_err(|problem| format!("{what}: {problem}"))?;
        fs::create_dir_all(scratch.live()).map_err(|error| error.to_string())?;
        check!(scratch.unfinished().is_empty(), "{what}: left behind: {:?}", scratch.unfinished());
    }
    Ok(())
}

/// The ledger of each program that the process becomes.
#[test]
fn of_each_program_of_a_process() -> Result {
    let scratch = Scratch::new();
    let script = "read line; exec \"$0\"".to_owned();
    let words = ["-c".into(), script, standing()?.to_string_lossy().into_owned()];
    let mut running = start(&scratch, Path::new("/bin/sh"), &words)?;
    until_it_holds(&running, 1, 1)?;
    remove(&directory(&scratch)?)?;
    let mut input = running.child.stdin.take().ok_or("no stdin")?;
    input.write_all(b"go\n").map_err(|error| error.to_string())?;
    // The next one has made the directory anew, and has the same number in it.
    until_it_holds(&running, BLOCKS, 2)?;
    remove(&directory(&scratch)?)?;
    drop(input);
    running.finish(PATIENCE)?.good()?;
    let ledgers = images(&scratch, "x");
    check!(ledgers.len() == 2, "there are ledgers {ledgers:?}");
    check_totals(&Stats::of(&ledgers[0])?, &[])?;
    check_standing(&ledgers[1])
}

/// The finished ledger cannot be written: what was removed is given a name again, for `recover`.
#[test]
fn and_there_is_no_place_for_the_finished_one() -> Result {
    let scratch = Scratch::new();
    let out = scratch.path("out");
    fs::create_dir(&out).map_err(|error| error.to_string())?;
    let mut run = command(heapledger());
    run.args(["run", "-q", "-o"]).arg(out.join("x.hl")).arg("--ledger-dir").arg(scratch.live()).arg("--");
    let mut running = process::start(run.arg(standing()?).current_dir(scratch.work()).stdin(Stdio::piped()))?;
    until_it_holds(&running, BLOCKS, 1)?;
    remove(&directory(&scratch)?)?;
    remove(&out)?;
    drop(running.child.stdin.take());
    let ran = running.finish(PATIENCE)?.good()?;
    let left = scratch.unfinished();
    check!(left.len() == 1 && ran.err().contains(&*left[0].to_string_lossy()), "left {left:?}: {ran}");
    let finished = recover(&scratch)?;
    check!(finished.len() == 1 && scratch.unfinished().is_empty(), "finished {finished:?}");
    check_standing(&finished[0])
}

/// `recover` and `run` take away an empty directory of ledgers, at the moment when others have made it or looked at it.
#[test]
fn the_directory_while_nothing_is_in_it() -> Result {
    const RUNS: usize = 30;
    const PAUSE: Duration = Duration::from_micros(50);
    let (scratch, program) = (Scratch::new(), victim::named("ending")?.build()?);
    let user = fs::metadata(scratch.work()).map_err(|error| error.to_string())?.uid();
    let (directory, done) = (scratch.live().join(format!("heapledger-{user}")), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = fs::remove_dir(&directory);
                thread::sleep(PAUSE);
            }
        });
        let each = || {
            process::run(&mut under_run(&scratch, "x", &[], &program, &["return".into()]))?.good()?;
            check!(fs::remove_file(scratch.path("x.hl")).is_ok(), "run has left no ledger");
            let ran = process::run(&mut by_hand(&scratch, &[], &program, &["return".into()]))?.good()?;
            let left = scratch.unfinished();
            check!(
                left.iter().any(|path| path.extension().is_some_and(|end| end == "hlive")),
                "no ledger is left: {ran}"
            );
            left.iter().try_for_each(|path| remove(path))
        };
        let all = (0..RUNS).try_for_each(|_| each());
        done.store(true, Ordering::Relaxed);
        all
    })
}
