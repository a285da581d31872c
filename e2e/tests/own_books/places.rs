//! The crate in containers: namespaces with little in them.

use heapledger_e2e::ledger::{Stats, check_totals};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger};
use heapledger_e2e::{Result, check, process, skip};

use crate::{KEPT, check_blocks, only_finished, program};

/// Namespaces of its own for almost everything, and a file system in which little can be written: as in a container.
fn contained(scratch: &Scratch, mounts: &str, line: &str) -> Result<Option<process::Ran>> {
    let Some(unshare) = find(&["unshare"]) else { return Ok(None) };
    let mut run = command(unshare);
    run.args(["--pid", "--fork", "--mount", "--mount-proc", "--net", "--ipc", "--user", "--map-root-user", "sh", "-c"]);
    run.arg(format!("{{ {mounts}; }} || exit 99; {line}")).current_dir(scratch.work());
    // Where it lies is found out.
    run.env_remove("HEAPLEDGER").env_remove("XDG_RUNTIME_DIR").env("TMPDIR", scratch.work());
    let ran = process::run(run.stdin(std::process::Stdio::null()))?;
    let is_there = ran.status.code() != Some(99) && !ran.err().contains("unshare");
    Ok(is_there.then_some(ran))
}

const NO_MEMORY: &str = "mount -t tmpfs -o ro none /dev/shm";

#[test]
fn in_a_container_without_shared_memory() -> Result {
    let scratch = Scratch::new();
    let line = format!("exec {} threads", program("release")?.display());
    let Some(ran) = contained(&scratch, NO_MEMORY, &line)? else {
        skip("in a container", "namespaces cannot be made here");
        return Ok(());
    };
    ran.good()?;
    let finished = only_finished(&scratch, "heapledger.own_books.")?;
    check_totals(&Stats::of(&finished)?, &[])?;
    // All was freed at its end.
    check_blocks(&finished, &KEPT[..0], true)?;

    // And under `run`, which has a file of its own.
    let scratch = Scratch::new();
    let line = format!("exec {} run -o one.hl {} threads", heapledger().display(), program("release")?.display());
    if let Some(ran) = contained(&scratch, NO_MEMORY, &line)? {
        ran.good()?;
        check_totals(&Stats::of(scratch.path("one.hl"))?, &[])?;
        check!(scratch.finished().len() == 1, "{:?}", scratch.finished());
    }
    Ok(())
}

#[test]
fn in_a_container_in_which_nothing_can_be_written() -> Result {
    let scratch = Scratch::new();
    let program = program("release")?.display().to_string();
    // The program goes on without a ledger: nothing is recorded, and it says so when it is asked.
    let mounts =
        format!("{NO_MEMORY} && mount -t tmpfs -o ro none /tmp && mount --bind . . && mount -o remount,ro,bind .");
    let Some(ran) = contained(&scratch, &mounts, &format!("cd . && exec {program} discards"))? else { return Ok(()) };
    check!(ran.status.code() == Some(101) && ran.err().contains("Off"), "{ran}");
    check!(scratch.unfinished().is_empty() && scratch.finished().is_empty(), "{:?}", scratch.finished());
    Ok(())
}
