//! Core dumps in place of a ledger; `whereis`.

use std::fs;
use std::path::Path;

use heapledger_e2e::process::{self, Ran, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::command;
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, skip};

use super::tools::*;

#[test]
fn a_core_dump_leads_to_the_ledger() -> Result {
    let scratch = Scratch::new();
    let held = start(&scratch, &[], "w")?;
    if !may_attach(held.pid)? {
        return Ok(());
    }
    let (mut running, _) = blocks(Path::new(&held.pid.to_string()))?;
    running.sort();
    check!(running.len() >= 32, "32 blocks and more should live, not {}", running.len());
    let pid = held.pid.to_string();
    process::run(command(Path::new("gcore")).args(["-o", "gcore", &pid]).current_dir(scratch.work()))?.good()?;
    let filter = format!("/proc/{pid}/coredump_filter");
    process::run(gdb(scratch.work()).args(["-p", &pid, "-ex", "generate-core-file small"]))?.good()?;
    fs::write(&filter, "0x3b").map_err(text)?;
    process::run(gdb(scratch.work()).args(["-p", &pid, "-ex", "generate-core-file full"]))?.good()?;
    let gcore = scratch.path(&format!("gcore.{pid}"));
    let [small, full] = ["small", "full"].map(|name| scratch.path(name));
    let check_one = |core: &Path, says: &str| -> Result {
        let (mut found, moment) = blocks(core)?;
        found.sort();
        check!(found == running, "{} blocks of {} in {}", found.len(), running.len(), core.display());
        check!(moment.contains(says), "the moment should speak of {says:?}: {moment}");
        Ok(())
    };
    check_one(&gcore, "the report is of now")?;
    check_one(&small, "the report is of now")?;
    check_one(&full, "itself")?;
    process::kill(i64::from(held.pid), "TERM")?;
    held.run.finish(process::PATIENCE)?;
    for core in [&gcore, &small] {
        check_one(core, "x.hl: the report is of the program's end")?;
    }
    check_one(&full, "itself")?;
    let stats = tell(&["stats", &full.to_string_lossy()])?.good()?;
    check!(stats.out().contains("as it was when this was copied"), "stats: {stats}");
    // Its ledger is gone: a sentence that says what was looked for.
    fs::rename(scratch.path("x.hl"), scratch.path("other")).map_err(text)?;
    let ran = tell(&["stats", &small.to_string_lossy()])?;
    check!(ran.status.code() == Some(1) && ran.err().contains("which is gone"), "no sentence: {ran}");
    // Cut anywhere: an answer or a sentence.
    let bytes = fs::read(&full).map_err(text)?;
    for part in 0..12 {
        let cut = scratch.path("cut");
        fs::write(&cut, &bytes[..bytes.len() * part / 12]).map_err(text)?;
        let ran = tell(&["dump", "--limit", "1", &cut.to_string_lossy()])?;
        let said = ran.err();
        check!(ran.status.success() || said.starts_with("heapledger: ") && said.lines().count() == 1, "cut: {ran}");
    }
    Ok(())
}

#[test]
fn a_core_dump_of_the_kernel_leads_to_the_end() -> Result {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.contains(['/', '|', '%']) {
        skip("a core dump of the kernel", "core_pattern sends it elsewhere");
        return Ok(());
    }
    let scratch = Scratch::new();
    let mut inner = under_run(&scratch, "x", &[], &hold()?, &["abort".to_owned()]);
    let words: Vec<_> =
        std::iter::once(inner.get_program().to_owned()).chain(inner.get_args().map(ToOwned::to_owned)).collect();
    inner = command(Path::new("/bin/sh"));
    inner.args(["-c", "ulimit -c unlimited; exec \"$@\"", "sh"]).args(words).current_dir(scratch.work());
    process::run(&mut inner)?;
    let cores = fs::read_dir(scratch.work()).map_err(text)?.filter_map(|item| Some(item.ok()?.path()));
    let core =
        cores.into_iter().find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("core")));
    let Some(core) = core else {
        skip("a core dump of the kernel", "there is none: limits");
        return Ok(());
    };
    let (found, moment) = blocks(&core)?;
    check!(found == blocks(&scratch.path("x.hl"))?.0, "the core dump leads to another ledger");
    // In gdb: its memory is not there, and what the program left is.
    for with_python in [true, false] {
        let words =
            ["mdd_dump", "heapledger stats --top 0", "heapledger snapshot", "heapledger tree", "info inferiors"];
        let ran = in_gdb(&scratch, with_python, &[&hold()?.to_string_lossy(), &core.to_string_lossy()], &words)?;
        let said = ran.out() + &ran.err();
        for part in ["was not dumped with the core", "killed by signal 6", "its own snapshot", " main → take"] {
            check!(said.contains(part), "python {with_python}: {part:?} is missing: {said}");
        }
        check!(!scratch.path("mddout.0").exists() && left_behind(&scratch).is_empty(), "files: {said}");
    }
    check!(moment.contains("when the core dump was written"), "the moment: {moment}");
    Ok(())
}

#[test]
fn a_child_is_not_taken_for_its_parent() -> Result {
    let scratch = Scratch::new();
    let held = start(&scratch, &[], "fork")?;
    let said = scratch.path("said");
    until("it has a child", || fs::read_to_string(&said).is_ok_and(|text| text.contains("child")))?;
    let child = *process::children(held.pid).first().ok_or("no child")?;
    if !may_attach(child)? {
        return Ok(());
    }
    let pid = child.to_string();
    process::run(command(Path::new("gcore")).args(["-o", "core", &pid]).current_dir(scratch.work()))?.good()?;
    let ran = tell(&["stats", &scratch.path(&format!("core.{pid}")).to_string_lossy()])?;
    check!(ran.status.code() == Some(1) && ran.err().contains("forked child"), "no sentence: {ran}");
    process::kill(i64::from(child), "KILL")?;
    process::kill(i64::from(held.pid), "KILL")?;
    held.run.finish(process::PATIENCE).map(|_| ())
}

#[test]
fn whereis_tells_blocks_and_what_was_there() -> Result {
    let scratch = Scratch::new();
    let held = start(&scratch, &[], "w")?;
    let pid = held.pid.to_string();
    let ask = |words: &[&str]| -> Result<Ran> { tell(&[&["whereis", &pid], words].concat()) };
    let inside = ask(&[&format!("{:#x}", held.live + 5)])?.good()?;
    for part in ["5 B from its start", " take\n", "Heap      : brk heap", "Mapping   : [heap]", "malloc 102 B"] {
        check!(inside.out().contains(part), "{part:?} is missing: {inside}");
    }
    let behind = ask(&[&format!("{}", held.live + 102)])?.good()?;
    check!(behind.out().contains("0 B behind the end of what was asked for"), "behind: {behind}");
    let freed = ask(&[&format!("{:#x}", held.freed)])?;
    check!(freed.status.code() == Some(1), "a freed block is no block: {freed}");
    for part in ["in no live block", "Allocated by malloc", "Freed by free", " take\n", " give_back\n"] {
        check!(freed.out().contains(part), "{part:?} is missing: {freed}");
    }
    let json = ask(&["--json", &format!("{:#x}", held.live), &format!("{:#x}", held.freed), "0x10"])?;
    let found: Vec<String> = json
        .out()
        .lines()
        .filter_map(|line| Some(serde_json::from_str::<serde_json::Value>(line).ok()?["found"].as_str()?.to_owned()))
        .collect();
    check!(found == ["block", "freed", "nothing"] && json.status.code() == Some(1), "found {found:?}: {json}");
    for odd in [vec!["zzz"], vec![], vec!["-1"], vec!["0x1ffffffffffffffff"]] {
        let ran = ask(&odd)?;
        check!(ran.status.code() == Some(2) && ran.stdout.is_empty(), "{odd:?}: {ran}");
    }
    let none = tell(&["whereis", "/no/such/ledger", "1"])?;
    check!(none.status.code() == Some(2), "no ledger: {none}");
    process::kill(i64::from(held.pid), "TERM")?;
    held.run.finish(process::PATIENCE)?;
    let ended = tell(&["whereis", &scratch.path("x.hl").to_string_lossy(), &format!("{:#x}", held.live)])?.good()?;
    check!(!ended.out().contains("Mapping") && ended.out().contains(" take\n"), "after its end: {ended}");
    Ok(())
}
