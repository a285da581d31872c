//! `mdd_dump` and all other commands in gdb, on a process and on a remote target.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heapledger_e2e::process::{self, Running, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::command;
use heapledger_e2e::{Result, check};

use super::tools::*;

/// `mdd_dump` twice, on a process that gdb attached to or that is remote.
fn dumps(scratch: &Scratch, with_python: bool, held: &Held, arguments: &[&str], before: &[&str]) -> Result {
    let pid = held.pid.to_string();
    let (mut running, _) = blocks(Path::new(&pid))?;
    running.sort();
    let live = format!("{:#x}", held.live);
    let whereis = format!("heapledger whereis {live}");
    let keep = ["set $mdd_keep_history = 1", "mdd_dumpnow", "set $mdd_keep_history = 0"];
    let rest = ["mdd_dump", "mdd_dump", &whereis, "mdd_reset", "detach"];
    let ran = in_gdb(scratch, with_python, arguments, &[before, &keep, &rest].concat())?;
    for number in 0..3 {
        let path = scratch.path(&format!("mddout.{number}"));
        check!(ran.out().contains(&format!("The ledger is in mddout.{number}.")), "no mddout.{number}: {ran}");
        let (mut copied, _) = blocks(&path)?;
        copied.sort();
        check!(copied == running, "{} blocks of {} in mddout.{number}", copied.len(), running.len());
        let events = tell(&["history", "--json", &path.to_string_lossy()])?.good()?;
        let frees = events.out().lines().filter(|line| line.contains(r#""event":"free""#)).count();
        check!(frees == if number < 2 { 32 } else { 0 }, "{frees} frees in mddout.{number}");
        let missing = if number < 2 { 0 } else { 32 };
        check!(events.out().contains(&format!(r#""frees_missing":{missing}"#)), "missing: {events}");
        let stats = tell(&["stats", &path.to_string_lossy()])?.good()?;
        check!(stats.out().contains("as it was when this was copied"), "stats: {stats}");
    }
    check!(ran.out().contains("The next dump is mddout.0"), "mdd_reset: {ran}");
    check!(ran.out().contains(&format!("{live} is in a live block")), "whereis: {ran}");
    for number in 0..3 {
        // Nobody else's business, and no file of gigabytes with holes that `cp` over a network would fill.
        let meta = fs::metadata(scratch.path(&format!("mddout.{number}"))).map_err(text)?;
        check!(meta.mode() & 0o777 == 0o600, "mddout.{number} has mode {:o}", meta.mode());
        check!(meta.len() < 1 << 20 && meta.len() <= meta.blocks() * 512, "mddout.{number} has {} bytes", meta.len());
    }
    check!(left_behind(scratch).is_empty(), "left behind: {:?}", left_behind(scratch));
    Ok(())
}

/// All commands about the program at hand, and a word of what each answers.
fn commands(address: u64, watched: &str) -> Vec<(String, String)> {
    [
        ("stats --top 0", "Current   : "),
        ("dump --where 'size == 102' --columns size,kind", "102 B"),
        ("history --limit 1", "malloc "),
        ("check --max-live 1M", "the limit is 1.00 MiB"),
        ("tree --by blocks", "live blocks"),
        ("flame --format folded -o -", "main;take "),
        (&format!("whereis {address:#x}"), "is in a live block"),
        (&format!("watch {address:#x}"), watched),
    ]
    .map(|(words, said)| (format!("heapledger {words}"), said.to_owned()))
    .to_vec()
}

/// Runs all of them in one gdb.
fn all_answer(
    scratch: &Scratch,
    with_python: bool,
    arguments: &[&str],
    before: &[&str],
    watched: &str,
    address: u64,
) -> Result {
    let all = commands(address, watched);
    let words: Vec<&str> = before.iter().copied().chain(all.iter().map(|(command, _)| command.as_str())).collect();
    let ran = in_gdb(scratch, with_python, arguments, &words)?;
    let said = ran.out() + &ran.err();
    for (command, word) in &all {
        check!(said.contains(word), "python {with_python}: {command} should say {word:?}: {said}");
    }
    check!(left_behind(scratch).is_empty(), "left behind: {:?}", left_behind(scratch));
    Ok(())
}

#[test]
fn dumps_of_a_process_with_python() -> Result {
    let scratch = Scratch::new();
    let held = start(&scratch, &[], "w")?;
    let pid = held.pid.to_string();
    if !may_attach(held.pid)? {
        return Ok(());
    }
    dumps(&scratch, true, &held, &["-p", &pid], &[])?;
    all_answer(&scratch, true, &["-p", &pid], &[], "behind the 102 asked for", held.live)?;
    // 102 bytes of 104: two to watch. The freed block cannot be watched, nor can an address that is none.
    let watch = format!("heapledger watch {:#x}", held.live);
    let ran = in_gdb(&scratch, true, &["-p", &pid], &[&watch, "info breakpoints", "heapledger recover --list /tmp"])?;
    check!(ran.out().contains("hw watchpoint") && ran.out().contains("behind the 102 asked for"), "watch: {ran}");
    let watch = format!("heapledger watch {:#x}", held.freed);
    let ran = in_gdb(&scratch, true, &["-p", &pid], &[&watch])?;
    check!(ran.err().contains("is in no live block"), "watch: {ran}");
    // After the first write behind the block, the program stands there.
    let write = format!("set var *(char *) {:#x} = 7", held.live + 102);
    check!(in_gdb(&scratch, true, &["-p", &pid], &[&write])?.status.success(), "it cannot be written to");
    process::kill(i64::from(held.pid), "TERM")?;
    held.run.finish(process::PATIENCE).map(|_| ())
}

#[test]
fn dumps_of_a_process_without_python() -> Result {
    let scratch = Scratch::new();
    let held = start(&scratch, &[], "w")?;
    let pid = held.pid.to_string();
    if !may_attach(held.pid)? {
        return Ok(());
    }
    dumps(&scratch, false, &held, &["-p", &pid], &[])?;
    all_answer(&scratch, false, &["-p", &pid], &["generate-core-file core"], "behind the 102 asked for", held.live)?;
    let watch = [format!("heapledger watch {:#x}", held.freed), "heapledger watch".to_owned()];
    let ran = in_gdb(&scratch, false, &["-p", &pid], &[&watch[0], &watch[1], "info breakpoints"])?;
    for part in ["is in no live block", "watch needs one address", "No breakpoints or watchpoints"] {
        check!(ran.out().contains(part), "{part:?} is missing: {ran}");
    }
    let program = hold()?;
    let arguments = [&*program.to_string_lossy(), "core"];
    all_answer(&scratch, false, &arguments, &[], "A core dump does not run", held.live)?;
    let words = ["heapledger dump --limit 1 --json", "mdd_dump", "mdd_dump", "heapledger diff mddout.3 mddout.4"];
    let ran = in_gdb(&scratch, false, &arguments, &words)?;
    check!(ran.out().contains("found_by") && ran.out().contains(r#""type":"block""#), "of a core dump: {ran}");
    check!(ran.out().contains("No stack holds more or less"), "diff: {ran}");
    process::kill(i64::from(held.pid), "TERM")?;
    held.run.finish(process::PATIENCE).map(|_| ())
}

/// What `stats` says of a copy: its text, and when it was made.
fn moment(copy: &Path) -> Result<(String, Option<u128>)> {
    let name = copy.to_string_lossy();
    let told = tell(&["stats", "--json", &name])?.good()?;
    let lines: Vec<serde_json::Value> =
        told.out().lines().map(|line| serde_json::from_str(line).map_err(text)).collect::<Result<_>>()?;
    let of = |line: &serde_json::Value| line["process"]["copied_unix_ns"].as_u64().map(u128::from);
    let copied = lines.iter().find(|line| line["type"] == "stats").and_then(of);
    Ok((tell(&["stats", &name])?.good()?.out(), copied))
}

/// Blocks of a copy that are two seconds old.
fn aged(copy: &Path) -> Result<usize> {
    let ran = tell(&["dump", "--json", "--where", "age >= 2s", &copy.to_string_lossy()])?.good()?;
    Ok(ran.out().lines().filter(|line| line.starts_with(r#"{"type":"block""#)).count())
}

#[test]
fn ages_of_an_idle_process_count_to_the_copy() -> Result {
    let scratch = Scratch::new();
    let held = start(&scratch, &[], "w")?;
    let pid = held.pid.to_string();
    if !may_attach(held.pid)? {
        return Ok(());
    }
    std::thread::sleep(Duration::from_secs(2));
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let (copy, unclear) = (scratch.path("mddout.0"), "when this was copied after at least ");
    for with_python in [true, false] {
        let before = now();
        let words = ["set $mdd_keep_history = 1", "mdd_dump"];
        in_gdb(&scratch, with_python, &["-p", &pid], &words)?.good()?;
        let (told, copied) = moment(&copy)?;
        // The next one of this ledger would have the next number.
        let copied_once = || fs::rename(&copy, scratch.path("earlier")).map_err(text);
        check!(copied.is_some_and(|at| (before..=now()).contains(&at)), "python {with_python}: copied at {copied:?}");
        check!(told.contains("when this was copied after ") && !told.contains("at least"), "{told}");
        check!(!told.contains("It is not known when this was copied"), "{told}");
        check!(aged(&copy)? == 32, "python {with_python}: {} blocks are two seconds old", aged(&copy)?);
        // A snapshot of it is of that moment, and not of now.
        let snapshot = scratch.path(&format!("python-{with_python}.hl"));
        tell(&["snapshot", "-o", &snapshot.to_string_lossy(), &copy.to_string_lossy()])?.good()?;
        check!(moment(&snapshot)?.1 == copied, "of the snapshot: {:?}", moment(&snapshot)?);
        // The clock of a remote target may be another one.
        copied_once()?;
        let (served, target) = serve(&scratch, &pid)?;
        in_gdb(&scratch, with_python, &[], &[&[&*target], &words[..]].concat())?.good()?;
        drop(served);
        let (told, copied) = moment(&copy)?;
        check!(copied.is_none() && told.contains(unclear), "remote: {copied:?}, {told}");
        check!(told.contains("It is not known when this was copied"), "remote: {told}");
        copied_once()?;
    }
    // A core dump does not say when it was written; its file's times are those of the last who copied it.
    fs::write(format!("/proc/{pid}/coredump_filter"), "0x3b").map_err(text)?;
    process::run(gdb(scratch.work()).args(["-p", &pid, "-ex", "generate-core-file full"]))?.good()?;
    let full = scratch.path("full");
    check!(moment(&full)?.0.contains(unclear) && aged(&full)? == 0, "core: {}", moment(&full)?.0);
    for with_python in [true, false] {
        in_gdb(&scratch, with_python, &[&hold()?.to_string_lossy(), "full"], &["mdd_dump"])?.good()?;
        let (told, copied) = moment(&copy)?;
        check!(copied.is_none() && told.contains(unclear), "of a core dump: {copied:?}, {told}");
        fs::remove_file(&copy).map_err(text)?;
    }
    process::kill(i64::from(held.pid), "TERM")?;
    held.run.finish(process::PATIENCE).map(|_| ())
}

/// A gdbserver that is attached to a process, and the command that connects gdb with it.
fn serve(scratch: &Scratch, pid: &str) -> Result<(Running, String)> {
    // It finds a free port and says which.
    let heard = scratch.path("gdbserver");
    let _ = fs::remove_file(&heard);
    let mut server = command(Path::new("/bin/sh"));
    server.args(["-c", "exec gdbserver --once --attach 127.0.0.1:0 $1 2> $2", "sh", pid]).arg(&heard);
    let served = process::start(&mut server)?;
    let port = || {
        let text = fs::read_to_string(&heard).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Listening on port ").map(str::to_owned));
        line.filter(|_| text.ends_with('\n'))
    };
    until("gdbserver listens", || port().is_some())?;
    Ok((served, format!("target remote 127.0.0.1:{}", port().unwrap_or_default())))
}

#[test]
fn all_commands_on_a_remote_target_of_another_file_system() -> Result {
    let scratch = Scratch::new();
    let held = start(&scratch, &[], "w")?;
    let pid = held.pid.to_string();
    if !may_attach(held.pid)? {
        return Ok(());
    }
    for with_python in [true, false] {
        // gdb finds none of the target's files; the ledger's own program is found by its build id.
        let (served, target) = serve(&scratch, &pid)?;
        let before = ["set sysroot /nowhere", &target];
        all_answer(&scratch, with_python, &[], &before, "behind the 102 asked for", held.live)?;
        drop(served);
        let (served, target) = serve(&scratch, &pid)?;
        let words =
            ["set sysroot /nowhere", &target, "heapledger snapshot -o %i.hl", "heapledger flame", "info inferiors"];
        let ran = in_gdb(&scratch, with_python, &[], &words)?;
        check!(ran.out().contains("32 records, 0 in flight"), "snapshot: {ran}");
        let (found, _) = blocks(&scratch.path(if with_python { "0.hl" } else { "1.hl" }))?;
        check!(found.len() == 32, "{} blocks in the snapshot: {ran}", found.len());
        let page = scratch.path("mddout.target.html");
        check!(fs::remove_file(&page).is_ok(), "no page: {ran}");
        drop(served);
    }
    process::kill(i64::from(held.pid), "TERM")?;
    held.run.finish(process::PATIENCE).map(|_| ())
}

#[test]
fn dumps_of_a_remote_target_and_of_a_core_dump() -> Result {
    let scratch = Scratch::new();
    let held = start(&scratch, &[], "w")?;
    let pid = held.pid.to_string();
    if !may_attach(held.pid)? {
        return Ok(());
    }
    let (served, target) = serve(&scratch, &pid)?;
    dumps(&scratch, true, &held, &[], &[&target])?;
    drop(served);
    // The history of the first is empty now.
    let plain = Scratch::new();
    let other = start(&plain, &[], "w")?;
    let (served, target) = serve(&plain, &other.pid.to_string())?;
    dumps(&plain, false, &other, &[], &[&target])?;
    process::kill(i64::from(other.pid), "TERM")?;
    drop(served);
    other.run.finish(process::PATIENCE)?;
    process::run(gdb(scratch.work()).args(["-p", &pid, "-ex", "generate-core-file small"]))?.good()?;
    let program = hold()?;
    let arguments = [&*program.to_string_lossy(), "small"];
    all_answer(&scratch, true, &arguments, &[], "a core dump does not run", held.live)?;
    fs::write(format!("/proc/{pid}/coredump_filter"), "0x3b").map_err(text)?;
    process::run(gdb(scratch.work()).args(["-p", &pid, "-ex", "generate-core-file full"]))?.good()?;
    // Three are there.
    let mut number = 3;
    for with_python in [true, false] {
        for (core, is_of_now) in [("small", true), ("full", false)] {
            let ran = in_gdb(&scratch, with_python, &[&program.to_string_lossy(), core], &["mdd_dump"])?;
            check!(ran.out().contains(&format!("The ledger is in mddout.{number}.")), "a dump of {core}: {ran}");
            number += 1;
            check!(ran.out().contains("this copy is of now") == is_of_now, "the moment of {core}: {ran}");
        }
    }
    // Other reports say it too.
    let ran = tell(&["check", "--max-live", "1G", &scratch.path("small").to_string_lossy()])?.good()?;
    check!(ran.out().contains("the report is of now"), "check: {ran}");
    let ran = tell(&["flame", "--format", "folded", &scratch.path("small").to_string_lossy()])?.good()?;
    check!(ran.err().contains("the report is of now"), "flame: {ran}");
    let copy = scratch.path("copy.hl");
    let ran = tell(&["snapshot", "-o", &copy.to_string_lossy(), &scratch.path("small").to_string_lossy()])?.good()?;
    check!(ran.err().contains("the report is of now") && copy.exists(), "snapshot: {ran}");
    process::kill(i64::from(held.pid), "TERM")?;
    held.run.finish(process::PATIENCE).map(|_| ())
}
