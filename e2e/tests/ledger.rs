//! The ledger where there is too little room for it, where the process is killed, and where somebody looks at it.
//! The program never suffers; what could not be recorded is counted.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use heapledger_e2e::ledger::{Blocks, Stats, check_totals, read};
use heapledger_e2e::nobody::Nobody;
use heapledger_e2e::process::{self, PATIENCE, Ran, Running, kill, signal_of, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger, preload};
use heapledger_e2e::tracked::{by_hand, images, recover, run_cleanly, shell, under_run};
use heapledger_e2e::{Result, check, skip, victim};

const SIGKILL: i32 = 9;

/// Blocks that `fill` allocates, and one for stdio.
const FILL: u64 = 100_001;

fn built(name: &str) -> Result<PathBuf> {
    victim::named(name)?.build()
}

/// A ledger that says how much it lacks: entered and lost blocks together are all there were.
fn check_partial(ledger: &Path, all: u64) -> Result<Stats> {
    let stats = Stats::of(ledger)?;
    let loss = |name: &str| stats.losses().get(name).copied().unwrap_or(0);
    let known = ["lost_no_record", "lost_no_index", "sites_full", "history_lost", "unknown_frees"].map(str::to_owned);
    check_totals(&stats, &known)?;
    let (entered, lost) = (stats.number("allocations"), stats.not_entered());
    check!(entered + lost == all, "{entered} blocks are entered and {lost} lost, but there were {all}");
    check!(entered > 0, "nothing is recorded; lost {}", loss("lost_no_record"));
    Blocks::live(ledger)?.check(&stats)?;
    Ok(stats)
}

/// Runs `heapledger run -- fill` in a mount namespace in which `mount` has put a file system on `$1`.
fn fill_on(scratch: &Scratch, mount: &str) -> Result<Option<Ran>> {
    let directory = scratch.path("small");
    fs::create_dir(&directory).map_err(|error| error.to_string())?;
    let Some(unshare) = find(&["unshare"]) else { return Ok(None) };
    for rights in [&["-m"][..], &["-r", "-m"]] {
        let script = format!("{mount} || exit 99; shift; exec \"$@\"");
        let mut command = command(&unshare);
        command.args(rights).args(["sh", "-c", &script, "sh"]).arg(&directory).arg(heapledger());
        command.args(["run", "-q", "-o"]).arg(scratch.path("x.hl")).arg("--ledger-dir").arg(&directory);
        let ran = process::run(command.arg("--").arg(built("fill")?).current_dir(scratch.work()))?;
        if ran.status.code() != Some(99) && !ran.err().contains("unshare") {
            return Ok(Some(ran));
        }
    }
    Ok(None)
}

fn is_done(ran: &Ran) -> Result {
    check!(ran.status.success() && ran.out() == "done\n", "the program suffers: {ran}");
    Ok(())
}

#[test]
fn a_tmpfs_of_1_mib() -> Result {
    let scratch = Scratch::new();
    let Some(ran) = fill_on(&scratch, "mount -t tmpfs -o size=1m none \"$1\"")? else {
        skip("a tmpfs of 1 MiB", "no right to mount");
        return Ok(());
    };
    is_done(&ran)?;
    let stats = check_partial(&scratch.path("x.hl"), FILL)?;
    check!(stats.number("allocations") > 10_000, "only {} blocks fit in 1 MiB", stats.number("allocations"));
    Ok(())
}

#[test]
fn a_full_disk() -> Result {
    let scratch = Scratch::new();
    let image = scratch.path("disk.img");
    let mount = format!(
        "truncate -s 8M '{0}' && mkfs.ext4 -q '{0}' && mount -o loop '{0}' \"$1\" && \
         head -c 4200000 /dev/zero > \"$1/ballast\"",
        image.display()
    );
    let Some(ran) = fill_on(&scratch, &mount)? else {
        skip("a full disk", "no right to mount, or no loop device");
        return Ok(());
    };
    is_done(&ran)?;
    let stats = check_partial(&scratch.path("x.hl"), FILL)?;
    check!(stats.not_entered() > 0, "the disk was not full");
    Ok(())
}

#[test]
fn a_memory_limit() -> Result {
    let (scratch, name) = (Scratch::new(), format!("heapledger-e2e-{}", std::process::id()));
    let groups = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
    let made = groups.iter().find_map(|(base, limit)| {
        let group = Path::new(base).join(&name);
        fs::create_dir(&group).ok()?;
        if fs::write(group.join(limit), "64M").is_ok() {
            return Some(group);
        }
        let _ = fs::remove_dir(&group);
        None
    });
    let Some(group) = made else {
        skip("a memory limit", "no right to make a control group");
        return Ok(());
    };
    // The program takes 40 MB; the ledger lies in memory too and is charged to the same group.
    let mut command = shell(
        r#"echo $$ > "$1/cgroup.procs" || exit 99; shift; exec "$@""#,
        &[group.as_os_str(), heapledger().as_os_str()],
    );
    command.args(["run", "-q", "-o"]).arg(scratch.path("x.hl")).arg("--ledger-dir").arg(scratch.live());
    let ran = process::run(command.arg("--").arg(built("fill")?).arg("300000").current_dir(scratch.work()));
    let _ = fs::remove_dir(&group);
    is_done(&ran?)?;
    check_partial(&scratch.path("x.hl"), 300_001).map(drop)
}

/// Runs `fill` in a shell that has set a limit first: the limit is the program's, not that of `heapledger run`.
fn fill_under(limit: &str) -> Result<(Scratch, Ran)> {
    let (scratch, program) = (Scratch::new(), built("fill")?);
    let script = format!("{limit}; exec \"$0\"");
    let arguments = ["-c".to_owned(), script, program.to_string_lossy().into_owned()];
    let plain = process::run(command("/bin/sh").args(&arguments))?;
    is_done(&plain).map_err(|problem| format!("without us: {problem}"))?;
    let ran = run_cleanly(&scratch, &mut under_run(&scratch, "x", &[], Path::new("/bin/sh"), &arguments))?;
    is_done(&ran)?;
    Ok((scratch, ran))
}

#[test]
fn ulimit_v() -> Result {
    for kib in [200_000, 60_000, 40_000, 25_000] {
        let (scratch, _) =
            fill_under(&format!("ulimit -v {kib}")).map_err(|problem| format!("{kib} KiB: {problem}"))?;
        for ledger in images(&scratch, "x") {
            check_totals(
                &Stats::of(&ledger)?,
                &["lost_no_record".into(), "lost_no_index".into(), "sites_full".into()],
            )?;
        }
    }
    Ok(())
}

#[test]
fn ulimit_f() -> Result {
    // In blocks of 512 bytes. Standard output is a pipe.
    for blocks in [0, 1, 100, 4_000, 100_000] {
        let (scratch, ran) =
            fill_under(&format!("ulimit -f {blocks}")).map_err(|problem| format!("{blocks}: {problem}"))?;
        let ledgers = images(&scratch, "x");
        if ledgers.len() == 2 {
            check_partial(&ledgers[1], FILL)?;
        } else {
            check!(ran.err().contains("nothing is recorded"), "no ledger, and nothing is said: {ran}");
        }
    }
    Ok(())
}

#[test]
fn ulimit_f_set_while_recording() -> Result {
    let scratch = Scratch::new();
    // Subshells are forked children, which leave a note for `run`.
    let arguments = ["-c".to_owned(), "ulimit -f 0; (:; echo a) | cat; (exit 3); echo $?".to_owned()];
    let plain = process::run(command("/bin/sh").args(&arguments))?;
    check!(plain.out() == "a\n3\n", "without us: {plain}");
    let ran = run_cleanly(&scratch, &mut under_run(&scratch, "x", &[], Path::new("/bin/sh"), &arguments))?;
    plain.compare(&ran)?;
    check_totals(&Stats::of(scratch.path("x.hl"))?, &[])
}

#[test]
fn max_ledger_is_kept() -> Result {
    let (scratch, program) = (Scratch::new(), built("fill")?);
    let mut command = under_run(&scratch, "x", &["--max-ledger", "2M"], &program, &["400000".into(), "16".into()]);
    is_done(&run_cleanly(&scratch, &mut command)?)?;
    let stats = check_partial(&scratch.path("x.hl"), 400_001)?;
    check!(stats.not_entered() > 100_000, "400,000 blocks cannot fit in 2 MiB");
    Ok(())
}

const FREES: &str = r#"
#include <stdlib.h>

static void *all[200000];

int main(void) {
    for (int i = 0; i < 200000; i++)
        all[i] = malloc(16);
    for (int i = 0; i < 200000; i++)
        free(all[i]);
    return 0;
}
"#;

/// A longer history is no help to a ledger that is full.
#[test]
fn of_frees_without_room_a_full_ledger_says_to_make_it_larger() -> Result {
    let scratch = Scratch::new();
    let (code, program) = (scratch.path("frees.c"), scratch.path("frees"));
    fs::write(&code, FREES).map_err(|error| error.to_string())?;
    process::run(command("gcc").args(["-O0", "-o"]).arg(&program).arg(&code))?.good()?;
    run_cleanly(&scratch, &mut under_run(&scratch, "x", &["--max-ledger", "1M"], &program, &[]))?;
    let said = process::run(command(heapledger()).arg("stats").arg(scratch.path("x.hl")))?.good()?.out();
    let of_frees = said.lines().find(|line| line.contains("frees are not in the history"));
    check!(
        of_frees.is_some_and(|line| line.contains("run --ledger-dir DIR") && line.contains("--max-ledger SIZE")),
        "{said}"
    );
    check!(!said.contains("--history N"), "{said}");
    let stats = Stats::of(scratch.path("x.hl"))?;
    check!(stats.losses().get("history_lost").is_some_and(|lost| *lost > 1000), "{:?}", stats.losses());
    Ok(())
}

/// `standing`, under `heapledger run` or by hand; its input is a pipe.
fn stand(command: &mut Command) -> Result<Running> {
    let running = process::start(command.stdin(Stdio::piped()))?;
    Ok(running)
}

/// The unfinished ledger, once it holds so many blocks; and the process that fills it.
fn standing(scratch: &Scratch, blocks: u64) -> Result<(PathBuf, u32)> {
    let mut found = None;
    until("the program stands", || {
        let ledgers = scratch.unfinished();
        let Some(path) = ledgers.iter().find(|path| path.extension().is_some_and(|end| end == "hlive")) else {
            return false;
        };
        let Ok(stats) = Stats::of(path) else { return false };
        found = Some((path.clone(), stats.inner("process", "pid") as u32));
        stats.number("live_blocks") >= blocks
    })?;
    found.ok_or_else(|| "no ledger".to_owned())
}

fn disk_blocks(path: &Path) -> Result<u64> {
    fs::metadata(path).map(|meta| meta.blocks()).map_err(|error| error.to_string())
}

#[test]
fn whoever_looks_changes_nothing() -> Result {
    let (scratch, program) = (Scratch::new(), built("standing")?);
    let running = stand(&mut by_hand(&scratch, &[], &program, &["5000".into()]))?;
    let (ledger, pid) = standing(&scratch, 5000)?;
    let before = disk_blocks(&ledger)?;
    let size = fs::metadata(&ledger).map_err(|error| error.to_string())?.len();
    check!(before * 512 < size, "the file should be sparse: {before} blocks of 512 bytes for {size} bytes");

    for name in ["stats", "dump", "history"] {
        read(name, pid.to_string(), &[])?;
        check!(disk_blocks(&ledger)? == before, "{name} PID makes the ledger take more room");
    }
    let dump = Blocks::live(pid.to_string())?;
    dump.check(&Stats::of(pid.to_string())?)?;

    if let Some(gcore) = find(&["gcore"]) {
        let core = scratch.path("core");
        let ran = process::run(command(gcore).arg("-o").arg(&core).arg(pid.to_string()))?;
        let written = scratch.path(&format!("core.{pid}"));
        if written.exists() {
            check!(disk_blocks(&ledger)? == before, "gcore makes the ledger take more room");
            let bytes = fs::metadata(&written).map_err(|error| error.to_string())?.len();
            check!(bytes < 64 << 20, "gcore writes {bytes} bytes: the ledger is in it");
        } else {
            skip("gcore", &format!("it does not work here: {ran}"));
        }
    } else {
        skip("gcore", "it is not installed");
    }

    kill(pid.into(), "QUIT")?;
    let ran = running.finish(PATIENCE)?;
    check!(signal_of(&ran) == Some(3), "{ran}");
    check!(disk_blocks(&ledger)? == before, "its end makes the ledger take more room");
    Ok(())
}

#[test]
fn a_core_dump_leaves_the_ledger_alone() -> Result {
    let (scratch, program) = (Scratch::new(), built("standing")?);
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let mut command = by_hand(
        &scratch,
        &[],
        Path::new("/bin/sh"),
        &["-c".into(), "ulimit -c unlimited; exec \"$0\" 5000".into(), program.to_string_lossy().into_owned()],
    );
    let running = stand(&mut command)?;
    until("two program images", || scratch.unfinished().len() == 2)?;
    let ledger = scratch.unfinished()[1].clone();
    until("the program stands", || Stats::of(&ledger).is_ok_and(|stats| stats.number("live_blocks") >= 5000))?;
    let before = disk_blocks(&ledger)?;
    kill(running.pid().into(), "SEGV")?;
    let ran = running.finish(PATIENCE)?;
    check!(signal_of(&ran) == Some(11), "{ran}");
    check!(disk_blocks(&ledger)? == before, "the core dump makes the ledger take more room");
    let cores =
        fs::read_dir(scratch.work()).map_err(|error| error.to_string())?.filter_map(|item| Some(item.ok()?.path()));
    let core =
        cores.into_iter().find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("core")));
    match core {
        Some(core) => {
            let bytes = disk_blocks(&core)? * 512;
            check!(bytes < 64 << 20, "the core dump takes {bytes} bytes: the ledger is in it");
        }
        None => skip("a core dump", &format!("none was written; core_pattern is {}", pattern.trim())),
    }
    check_totals(&Stats::of(&ledger)?, &[])
}

fn check_standing(ledger: &Path, blocks: u64) -> Result {
    let stats = Stats::of(ledger)?;
    check_totals(&stats, &[])?;
    let live = Blocks::live(ledger)?;
    live.check(&stats)?;
    let own = live.blocks.iter().filter(|block| live.is_from(block, "standing_block", true)).count() as u64;
    check!(own == blocks, "{own} blocks of standing_block are live, and not {blocks}");
    Ok(())
}

#[test]
fn sigkill_of_the_program() -> Result {
    let (scratch, program) = (Scratch::new(), built("standing")?);
    let running = stand(&mut under_run(&scratch, "x", &[], &program, &[]))?;
    let (_, pid) = standing(&scratch, 1000)?;
    kill(pid.into(), "KILL")?;
    let ran = running.finish(PATIENCE)?;
    check!(signal_of(&ran) == Some(SIGKILL), "run should end as the program did: {ran}");
    check!(scratch.unfinished().is_empty(), "left behind: {:?}", scratch.unfinished());
    check_standing(&scratch.path("x.hl"), 1000)?;
    check!(Stats::of(scratch.path("x.hl"))?.inner("process", "signal") == 9, "the ledger does not say how it ended");
    Ok(())
}

#[test]
fn sigkill_of_run() -> Result {
    let (scratch, program) = (Scratch::new(), built("standing")?);
    let mut running = stand(&mut under_run(&scratch, "x", &[], &program, &[]))?;
    let (ledger, pid) = standing(&scratch, 1000)?;
    kill(running.pid().into(), "KILL")?;
    until("run is gone", || !running.runs())?;
    check!(Path::new(&format!("/proc/{pid}/stat")).exists(), "the program has gone with it");

    // It still runs: its ledger is left alone.
    check!(recover(&scratch)?.is_empty(), "the ledger of a running program was finished");
    check!(ledger.exists(), "the ledger of a running program is gone");
    drop(running.child.stdin.take());
    until("the program has ended", || !Path::new(&format!("/proc/{pid}/stat")).exists())?;
    let finished = recover(&scratch)?;
    check!(
        finished.len() == 1 && scratch.unfinished().is_empty(),
        "finished {finished:?}, left {:?}",
        scratch.unfinished()
    );
    check_standing(&finished[0], 1000)
}

#[test]
fn sigkill_of_both() -> Result {
    let (scratch, program) = (Scratch::new(), built("standing")?);
    let running = stand(&mut under_run(&scratch, "x", &[], &program, &[]))?;
    let (_, pid) = standing(&scratch, 1000)?;
    kill(-i64::from(running.pid()), "KILL")?;
    running.finish(PATIENCE)?;
    until("the program is gone", || !Path::new(&format!("/proc/{pid}/stat")).exists())?;

    let mut list = command(heapledger());
    let listed = process::run(list.args(["recover", "--list"]).arg(scratch.live()))?.good()?;
    check!(listed.out().contains("standing"), "recover --list should name the program: {listed}");
    check!(scratch.finished().is_empty(), "recover --list has done something");
    let finished = recover(&scratch)?;
    check!(
        finished.len() == 1 && scratch.unfinished().is_empty(),
        "finished {finished:?}, left {:?}",
        scratch.unfinished()
    );
    check_standing(&finished[0], 1000)?;
    let again = process::run(command(heapledger()).arg("recover").arg(scratch.live()))?.good()?;
    check!(again.out() == "no unfinished ledger found\n", "{again}");
    Ok(())
}

/// `ending`, which leaks 777 bytes in `leak_seven`.
fn check_ending(ledger: &Path) -> Result {
    check_totals(&Stats::of(ledger)?, &[])?;
    let live = Blocks::live(ledger)?;
    let sevens = live.blocks.iter().filter(|block| live.is_from(block, "leak_seven", true));
    check!(sevens.map(|block| block.size).sum::<u64>() == 777, "leak_seven's blocks are not there");
    Ok(())
}

/// In the default places, which belong to everybody: as a user that nobody else is.
#[test]
fn preloaded_by_hand_without_any_option() -> Result {
    let Some(nobody) = Nobody::new() else {
        skip("the default places", "no user can be made up: unshare --map-user does not work here");
        return Ok(());
    };
    let (scratch, program) = (Scratch::new(), built("ending")?);
    let runtime = |command: &mut Command| {
        command.env("XDG_RUNTIME_DIR", scratch.live()).current_dir(scratch.work());
    };
    // Not in front of `unshare` itself, which would be recorded as well.
    let mut command = nobody.command("env");
    command.arg(format!("LD_PRELOAD={}", preload().display())).arg(&program).arg("return");
    runtime(&mut command);
    process::run(&mut command)?.good()?;
    let mut recover = nobody.command(heapledger());
    runtime(recover.arg("recover"));
    let ran = process::run(&mut recover)?.good()?;
    let finished = scratch.finished();
    check!(finished.len() == 1 && ran.out().contains(&nobody.directory()), "{ran}");
    check_ending(&finished[0])
}

/// The tests' own commands never look where ledgers of users lie: an ended one in each default place that a variable
/// names is as it was after `run`, after a program with our library, and after `recover` without a place.
/// (`cargo xtask test` plants one before all tests, and looks for it after them.)
#[test]
fn ledgers_of_others_are_left_alone() -> Result {
    let (scratch, program) = (Scratch::new(), built("ending")?);
    process::run(by_hand(&scratch, &[], &program, &["return".into()]).stdin(Stdio::null()))?.good()?;
    let foreign = scratch.unfinished();
    let [planted] = foreign.as_slice() else { return Err(format!("no ledger to plant: {foreign:?}")) };
    let meta = |path: &Path| fs::metadata(path).map(|meta| (meta.ino(), meta.len())).map_err(|error| error.to_string());
    let before = meta(planted)?;
    for words in [&["run", "-q", "-o", "own.hl", "--"][..], &["recover"]] {
        let mut ours = command(heapledger());
        ours.args(words).args((words[0] == "run").then_some(&program)).args((words[0] == "run").then_some("return"));
        ours.env("XDG_RUNTIME_DIR", scratch.live()).env("TMPDIR", scratch.live()).current_dir(scratch.work());
        process::run(&mut ours)?;
    }
    let mut preloaded = command(&program);
    preloaded.arg("return").env("LD_PRELOAD", preload()).env("XDG_RUNTIME_DIR", scratch.live());
    process::run(&mut preloaded)?.good()?;
    let mut recover = command(heapledger());
    process::run(recover.arg("recover").env("XDG_RUNTIME_DIR", scratch.live()).current_dir(scratch.work()))?;
    check!(meta(planted)? == before, "the planted ledger was changed");
    check!(scratch.unfinished() == foreign, "something else lies there: {:?}", scratch.unfinished());
    check!(scratch.path("own.hl").exists(), "the test's own run has left no ledger");
    // And so it would have been taken.
    let mut user = heapledger_e2e::tools::command_of_a_user(heapledger());
    let listed = process::run(user.args(["recover", "--list"]).env("XDG_RUNTIME_DIR", scratch.live()))?.good()?;
    check!(listed.out().contains(&*planted.to_string_lossy()), "recover would not find it: {listed}");
    Ok(())
}

#[test]
fn an_idle_program_costs_little() -> Result {
    let (scratch, program) = (Scratch::new(), built("standing")?);
    let mut running = stand(&mut by_hand(&scratch, &[], &program, &["1".into()]))?;
    let (ledger, _) = standing(&scratch, 1)?;
    let bytes = disk_blocks(&ledger)? * 512;
    println!("an idle program's ledger takes {bytes} bytes");
    check!(bytes <= 1 << 20, "an idle program's ledger takes {bytes} bytes");
    drop(running.child.stdin.take());
    running.finish(PATIENCE)?.good().map(drop)
}
