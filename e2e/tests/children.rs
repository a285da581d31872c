//! `run --children`: every process of a family has a ledger of its own, and each says what a counting library in that process counts,
//! which knows nothing of ours.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use heapledger_e2e::families::{agree, agree_but_for_hooks, first_pid, processes, under_run};
use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::process::{self, PATIENCE, Ran, kill, run, start, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger, root};
use heapledger_e2e::{Result, check, skip, victim};
use serde_json::Value;

/// So many forks from handlers, which interrupt hooks.
const IN_HOOKS: u64 = 120;

/// Runs it with and without, and compares what can be seen from outside.
fn runs_as_ever(scratch: &Scratch, options: &[&str], program: &Path, arguments: &[&str]) -> Result<Ran> {
    let plain = run(command(program).args(arguments).current_dir(scratch.work()))?;
    let ran = run(&mut under_run(scratch, options, program, arguments)?)?;
    ran.compare(&plain)?;
    let left = scratch.unfinished();
    check!(left.is_empty(), "left behind: {left:?}; {ran}");
    Ok(ran)
}

fn family() -> Result<PathBuf> {
    victim::named("family")?.build()
}

#[test]
fn ends_of_processes_that_others_wait_for_are_known() -> Result {
    // Each lives until the list of processes names it; that it ends is told then, and the shell above waits for it at once.
    const SCRIPT: &str = r#"
        sh -c 'until grep -q "\"pid\":$$," "$S/session.jsonl"; do sleep 0.01; done; exit 5'
        sh -c 'until grep -q "\"pid\":$$," "$S/session.jsonl"; do sleep 0.01; done; kill -9 $$'
        exit 3"#;
    let scratch = Scratch::new();
    let session = scratch.path("s");
    let mut command = command(heapledger());
    command.args(["run", "-q", "--children", "-o"]).arg(&session).arg("--ledger-dir").arg(scratch.live());
    command.args(["--", "/bin/sh", "-c", SCRIPT]).env("S", &session).current_dir(scratch.work());
    let ran = run(&mut command)?;
    check!(ran.status.code() == Some(3), "{ran}");
    let first = first_pid(&session)?;
    let all = processes(&session)?;
    let shells = all.iter().filter(|process| process["program"] == "sh" && process["forked"] != true);
    let mut ends: Vec<(bool, &str)> =
        shells.map(|process| (process["pid"] == first, process["end"].as_str().unwrap_or("none"))).collect();
    ends.sort_unstable();
    let release = process::run(Command::new("uname").arg("-r"))?.out();
    let version: Vec<u32> = release.split(['.', '-']).take(2).filter_map(|part| part.parse().ok()).collect();
    if version < vec![6, 15] {
        skip("statuses of processes that others have waited for", "Linux tells them from 6.15 on");
        return Ok(());
    }
    check!(ends == [(false, "exit:5"), (false, "signal:9"), (true, "exit:3")], "{all:?}");
    // So its own ledger says, too.
    let of = |end: &str| all.iter().find(|process| process["end"] == end).and_then(|process| process["pid"].as_u64());
    let stats = Stats::of(format!("{}:{}", session.display(), of("exit:5").unwrap_or(0)))?;
    check!(stats.inner("process", "exit") == 5, "{stats:?}");
    Ok(())
}

/// A process that becomes one program after the other, each of which is finished while it goes on: they stay in their order, and all are there.
#[test]
fn programs_of_one_process_are_in_the_order_in_which_they_were() -> Result {
    // A shell that is the last command of another one is executed in its place; each waits until the list has the end of the one before.
    const SCRIPT: &str = r#"
        n=$1; until [ "$(grep -c '"end":"exec"' "$S/session.jsonl")" -ge "$n" ]; do sleep 0.01; done
        [ "$n" -lt 4 ] || exit 6
        exec env sh -c "$0" "$0" $((n + 2))"#;
    let scratch = Scratch::new();
    let session = scratch.path("s");
    let mut command = command(heapledger());
    command.args(["run", "-q", "--children", "-o"]).arg(&session).arg("--ledger-dir").arg(scratch.live());
    command.args(["--", "/bin/sh", "-c", r#"/bin/sh -c "$0" "$0" 0; [ $? = 6 ]"#, SCRIPT]);
    command.env("S", &session).current_dir(scratch.work());
    run(&mut command)?.good()?;
    let first = first_pid(&session)?;
    let is_it = |one: &Value| one["ppid"] == first && one["forked"] != true;
    let mut of_child: Vec<Value> = processes(&session)?.into_iter().filter(is_it).collect();
    of_child.sort_by_key(|one| one["image"].as_u64());
    let programs: Vec<&str> = of_child.iter().filter_map(|one| one["program"].as_str()).collect();
    check!(programs == ["sh", "env", "sh", "env", "sh"], "{of_child:#?}");
    let ends: Vec<&str> = of_child.iter().filter_map(|one| one["end"].as_str()).collect();
    check!(ends == ["exec", "exec", "exec", "exec", "exit:6"], "{ends:?}");
    let ledgers = of_child.iter().filter(|one| one["ledger"].is_string()).count();
    check!(ledgers == 5 && scratch.unfinished().is_empty(), "{ledgers} ledgers; {:?}", scratch.unfinished());
    Ok(())
}

/// Children that are gone before anybody could look: each says with what status it ends, whichever way it takes.
#[test]
fn ends_of_children_that_live_for_an_instant_are_known() -> Result {
    let scratch = Scratch::new();
    runs_as_ever(&scratch, &[], &victim::named("ends")?.build()?, &[])?;
    let session = scratch.path("s");
    let first = first_pid(&session)?;
    let all = processes(&session)?;
    let end = |process: &Value| process["end"].as_str().unwrap_or("none").to_owned();
    let mut ends: Vec<String> = all.iter().filter(|process| process["pid"] != first).map(end).collect();
    ends.sort_unstable();
    let expected = ["exit:11", "exit:12", "exit:13", "exit:14", "exit:15", "exit:16", "exit:17", "exit:20"];
    // One is killed, and one forbids itself all system calls, so that its ledger says nothing of it from then on: `run` may have seen how they end.
    let others: Vec<String> = ends.iter().filter(|end| !expected.contains(&end.as_str())).cloned().collect();
    let are_right = others.iter().all(|end| ["signal:9", "exit:21", "unknown"].contains(&end.as_str()));
    check!(ends.len() == expected.len() + 2 && others.len() == 2 && are_right, "{ends:?}");
    let own: Vec<String> = all.iter().filter(|process| process["pid"] == first).map(end).collect();
    check!(own.last().is_some_and(|end| end == "exit:0"), "{own:?}");
    Ok(())
}

#[test]
fn each_process_of_a_tree_says_what_was_counted_in_it() -> Result {
    let scratch = Scratch::new();
    runs_as_ever(&scratch, &[], &family()?, &["tree"])?;
    let sums = agree(&scratch, 0)?;
    let all = processes(&scratch.path("s"))?;
    check!(sums.len() == 6 && all.len() == 8, "{} processes, {} programs", sums.len(), all.len());
    // Each of the four has freed a quarter of its parent's blocks and resized another; the grandchild two of its parent's.
    let mut inherited: Vec<u64> = sums.values().map(|sums| sums.inherited).collect();
    inherited.sort_unstable();
    check!(inherited == [0, 2, 26, 26, 26, 26], "{inherited:?}");
    let ends: Vec<&str> = all.iter().filter_map(|process| process["end"].as_str()).collect();
    // One child ends by `_exit(7)`, one is killed: of that one nobody may have seen how.
    let count = |end: &str| ends.iter().filter(|one| **one == end).count();
    check!(count("exit:7") == 1 && count("signal:9") + count("unknown") == 1 && count("exec") == 2, "{ends:?}");
    check!(ends.len() == all.len() && count("exit:0") == all.len() - 4, "{ends:?}");
    let forked = all.iter().filter(|process| process["forked"] == true).count();
    let named = all.iter().filter(|process| process["program"] == "true").count();
    check!((forked, named) == (5, 1), "{forked} forked, {named} called true");
    limits_are_of_what_lives(&scratch.path("s"))
}

/// Of programs that became others nothing lives any more: not for `stats`, and not for limits of the sum.
fn limits_are_of_what_lives(session: &Path) -> Result {
    let all = read("stats", session, &[])?;
    let lives = all.iter().find(|line| line["type"] == "session").map(|line| line["live_blocks"].clone());
    let limits = ["--of", "sum", "--max-live-blocks", "1000000", "--inconclusive", "pass"];
    let checked = read("check", session, &limits)?;
    let found = checked.iter().find(|line| line["type"] == "limit").map(|line| line["found"].clone());
    check!(lives.is_some() && found == lives, "{found:?} blocks, and {lives:?} of `stats`");
    // Each by itself, too: whoever went on as another program holds nothing.
    let each =
        process::run(command(heapledger()).arg("check").arg(session).args(["--max-live-blocks", "1000000", "--json"]))?;
    let each: Vec<Value> = each.out().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let found =
        each.iter().filter(|line| line["type"] == "limit").filter_map(|line| line["found"].as_u64()).sum::<u64>();
    check!(lives == Some(found.into()), "{found} blocks of each, and {lives:?} of `stats`");
    check!(each.last().is_some_and(|end| end["went_on"] == 2), "{:?}", each.last());
    // Who has most part in what is too much, and its stacks.
    let together = process::run(command(heapledger()).arg("check").arg(session).args([
        "--of",
        "sum",
        "--max-allocs",
        "1",
        "--json",
    ]))?;
    check!(together.status.code() == Some(1), "{together}");
    let limit: Value =
        together.out().lines().nth(1).and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    let shares: Vec<u64> =
        limit["processes"].as_array().into_iter().flatten().filter_map(|one| one["found"].as_u64()).collect();
    check!(shares.len() == 5 && shares.is_sorted_by(|one, next| one >= next), "{limit}");
    let (most, of) = (limit["processes"][0]["process"].as_str().unwrap_or("?"), limit["responsible_of"].as_str());
    check!(of.is_some_and(|of| of.starts_with(&format!("stacks of {most}"))), "{limit}");
    check!(limit["responsible"].as_array().is_some_and(|stacks| !stacks.is_empty()), "{limit}");
    Ok(())
}

#[test]
fn children_begin_while_other_threads_of_their_parent_allocate() -> Result {
    let scratch = Scratch::new();
    runs_as_ever(&scratch, &[], &family()?, &["threads", "60"])?;
    let sums = agree(&scratch, 0)?;
    check!(sums.len() == 61, "{} processes", sums.len());
    Ok(())
}

#[test]
fn children_begin_in_a_handler_in_the_middle_of_a_call_of_their_parents() -> Result {
    let scratch = Scratch::new();
    runs_as_ever(&scratch, &[], &family()?, &["handler", &IN_HOOKS.to_string()])?;
    // What a hook was in the middle of at the fork goes on in both, and is in the parent's ledger once more, or once less.
    let sums = agree_but_for_hooks(&scratch, IN_HOOKS)?;
    check!(sums.len() as u64 == IN_HOOKS + 1, "{} processes", sums.len());
    // Each of them has done the same, but for the call that it was forked in.
    let alike = sums.values().filter(|sums| (5_990..=6_010).contains(&sums.allocations)).count() as u64;
    check!(alike >= IN_HOOKS, "{alike} are alike: {sums:?}");
    Ok(())
}

#[test]
fn a_leak_in_one_of_eight_workers_is_in_its_ledger() -> Result {
    let scratch = Scratch::new();
    runs_as_ever(&scratch, &[], &family()?, &["workers", "8", "5"])?;
    agree(&scratch, 0)?;
    let mut guilty = 0;
    for process in processes(&scratch.path("s"))?.iter().filter(|process| process["forked"] == true) {
        let ledger = scratch.path("s").join(process["ledger"].as_str().ok_or("a child has no ledger")?);
        let lines = read("tree", &ledger, &[])?;
        let leaks = lines.iter().find(|line| line["function"] == "leaks_here");
        guilty += u64::from(leaks.is_some_and(|line| line["live_blocks"] == 1000 && line["live_bytes"] == 100_000));
    }
    check!(guilty == 1, "{guilty} workers leak");
    Ok(())
}

#[test]
fn only_programs_of_these_names_are_recorded() -> Result {
    let scratch = Scratch::new();
    let ran = run(&mut under_run(&scratch, &["--children=tru?|nobody"], &family()?, &["tree"])?)?;
    check!(ran.status.success(), "{ran}");
    let names: Vec<String> = processes(&scratch.path("s"))?
        .iter()
        .filter_map(|process| Some(process["program"].as_str()?.to_owned()))
        .collect();
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    check!(names == BTreeSet::from(["family", "sh", "true"]), "{names:?}");
    Ok(())
}

#[test]
fn there_is_a_limit() -> Result {
    let scratch = Scratch::new();
    let ran = run(&mut under_run(&scratch, &["--max-processes", "5"], &family()?, &["n", "300"])?)?;
    check!(ran.status.success(), "{ran}");
    let there = processes(&scratch.path("s"))?.len();
    let list = fs::read_to_string(scratch.path("s/session.jsonl")).map_err(|error| error.to_string())?;
    let last: Value =
        serde_json::from_str(list.lines().last().unwrap_or_default()).map_err(|error| error.to_string())?;
    let refused = last["ended"]["not_recorded"].as_u64().unwrap_or(0);
    // Those that began before the sign was there are recorded, too.
    check!((6..250).contains(&there) && refused > 40, "{there} recorded, {refused} refused; {last}");
    check!(last["ended"]["limits"][0].as_str().is_some_and(|limit| limit.contains("--max-processes")), "{last}");
    Ok(())
}

/// A daemon goes on when `run` has ended: its ledger is unfinished then, `recover` leaves it alone, and finishes it into the session
/// when the daemon has ended.
#[test]
fn a_daemon_outlives_run() -> Result {
    let scratch = Scratch::new();
    let end = scratch.path("end");
    let ran = run(&mut under_run(&scratch, &[], &family()?, &["daemon", &end.to_string_lossy()])?)?;
    check!(ran.status.success(), "{ran}");
    let ledgers =
        || scratch.unfinished().iter().filter(|path| path.extension().is_some_and(|end| end == "hlive")).count();
    check!(ledgers() == 1, "{:?}", scratch.unfinished());
    let recover = || run(command(heapledger()).arg("recover").arg(scratch.live()).current_dir(scratch.work()))?.good();
    let told = recover()?;
    check!(ledgers() == 1, "it still runs: {}; {:?}", told.out(), scratch.unfinished());
    fs::write(&end, "").map_err(|error| error.to_string())?;
    until("the daemon has ended", || recover().is_ok() && scratch.unfinished().is_empty())?;
    let all = processes(&scratch.path("s"))?;
    check!(all.len() == 3 && all.iter().all(|process| process["ledger"].is_string()), "{all:?}");
    // Nobody saw when it ended, which was before it was recovered.
    check!(all.iter().all(|process| process["ended_unix_ns"].is_null() == (process["forked"] == true)), "{all:?}");
    agree(&scratch, 0)?;
    Ok(())
}

/// One that has recorded nothing when `run` ends, and begins afterwards, belongs to the session as well.
#[test]
fn a_child_that_begins_when_run_has_ended_is_in_its_session() -> Result {
    let scratch = Scratch::new();
    let (session, sign) = (scratch.path("s"), scratch.path("go"));
    let mut command = command(heapledger());
    command.args(["run", "-q", "--children", "-o"]).arg(&session).arg("--ledger-dir").arg(scratch.live());
    command.arg("--").arg(victim::named("late_child")?.build()?).arg(&sign).current_dir(scratch.work());
    let ran = run(&mut command)?;
    check!(ran.status.success(), "{ran}");
    let forked = || Ok::<_, String>(processes(&session)?.into_iter().find(|process| process["forked"] == true));
    check!(forked()?.is_none(), "it has begun too early");
    let recover = || run(self::command(heapledger()).arg("recover").arg(scratch.live()).current_dir(scratch.work()));
    // Not even that takes away what it needs.
    recover()?;
    fs::write(&sign, "").map_err(|error| error.to_string())?;
    until("the child has ended", || recover().is_ok() && forked().is_ok_and(|one| one.is_some()))?;
    let child = forked()?.unwrap_or_default();
    let name = child["ledger"].as_str().ok_or_else(|| format!("it has no ledger: {child}"))?;
    let stats = Stats::of(session.join(name))?;
    check!(stats.number("allocations") == 5 && child["end"] == "exit:0", "{child}: {stats:?}");
    until("nothing is left", || recover().is_ok() && scratch.unfinished().is_empty())
}

/// The program that `run` itself started is one of the processes while it runs: limits hold for it.
#[test]
fn the_program_itself_is_in_its_session_while_it_runs() -> Result {
    let scratch = Scratch::new();
    let (session, sign) = (scratch.path("s"), scratch.path("go"));
    let mut command = command(heapledger());
    command.args(["run", "-q", "--children", "-o"]).arg(&session).arg("--ledger-dir").arg(scratch.live());
    const SCRIPT: &str = r#"until [ -e "$1" ]; do sleep 0.05; done"#;
    let running = start(command.args(["--", "/bin/sh", "-c", SCRIPT, "sh"]).arg(&sign).current_dir(scratch.work()))?;
    until("it is listed", || first_pid(&session).is_ok_and(|pid| pid != 0))?;
    let (pid, reads) = (first_pid(&session)?, || self::command(heapledger()));
    let stats = Stats::of(format!("{}:{pid}", session.display()))?;
    check!(stats.number("live_bytes") > 0 && stats.inner("process", "pid") == pid, "{stats:?}");
    let checked = run(reads().args(["check", "--max-live", "1"]).arg(&session))?;
    check!(checked.status.code() == Some(1), "{checked}");
    check!(checked.out().contains(&format!("EXCEEDED sh {pid}: live now")), "{checked}");
    let top = run(reads().args(["top", "--batch", "1"]).arg(&session))?.good()?;
    check!(top.out().contains(&format!("{pid}  sh")), "{top}");
    fs::write(&sign, "").map_err(|error| error.to_string())?;
    let ran = running.finish(PATIENCE)?;
    check!(ran.status.success() && scratch.unfinished().is_empty(), "{ran}; {:?}", scratch.unfinished());
    Ok(())
}

#[test]
fn run_waits_for_a_daemon_if_it_is_told_to() -> Result {
    let scratch = Scratch::new();
    let end = scratch.path("end");
    let mut running = start(&mut under_run(&scratch, &["--wait"], &family()?, &["daemon", &end.to_string_lossy()])?)?;
    thread::sleep(Duration::from_millis(600));
    check!(running.runs(), "it does not wait");
    // The program itself is over and told of as that, though its ledger is not finished yet.
    let session = scratch.path("s");
    let first = || -> Result<(Value, Value)> {
        let stats = run(command(heapledger()).args(["stats", "--json", "--all"]).arg(&session))?.good()?.out();
        let mut lines = stats.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let pid = first_pid(&session)?;
        let is_first = |process: &Value| process["pid"] == pid && process["program"] == "family";
        let listed = processes(&session)?.into_iter().find(is_first).unwrap_or_default();
        Ok((listed, lines.find(|line| line["type"] == "process" && is_first(line)).unwrap_or_default()))
    };
    let (listed, waiting) = first()?;
    check!(listed["end"] == "exit:0" && listed["live"].is_string() && listed["ledger"].is_null(), "{listed}");
    check!(waiting["figures"]["allocations"].as_u64() > Some(0) && waiting["end"] == "exit:0", "{waiting}");
    fs::write(&end, "").map_err(|error| error.to_string())?;
    let ran = running.finish(PATIENCE)?;
    check!(ran.status.success() && scratch.unfinished().is_empty(), "{ran}; {:?}", scratch.unfinished());
    check!(processes(&session)?.len() == 3, "not all are listed");
    // Whoever forked it is gone: it is theirs all the same.
    let all = read("stats", &session, &["--all"])?;
    let daemon = all.iter().find(|line| line["forked"] == true).ok_or("no daemon")?;
    check!(daemon["ppid"] == first_pid(&session)? && daemon["depth"] == 1, "{daemon}");
    // How long it was there does not change by the waiting.
    let (over, finished) = first()?;
    check!(over["ended_unix_ns"] == listed["ended_unix_ns"] && over["ledger"].is_string(), "{listed}; {over}");
    check!(finished["ended_unix_ns"] == waiting["ended_unix_ns"], "{waiting}; {finished}");
    agree(&scratch, 0)?;
    Ok(())
}

/// It has no ledger yet, or one in which nothing is, when the two are gone from which it comes.
#[test]
fn a_daemon_that_forks_twice_is_waited_for() -> Result {
    let scratch = Scratch::new();
    let program = scratch.path("daemon");
    let source = root().join("e2e/guests/daemon.c");
    run(command("gcc").args(["-g", "-O1", "-Wall", "-Wextra", "-o"]).arg(&program).arg(source))?.good()?;
    for turn in 0..8 {
        let (session, end) = (scratch.path(&format!("s{turn}")), scratch.path(&format!("end{turn}")));
        let mut command = command(heapledger());
        command.args(["run", "-q", "--children", "--wait", "--guard=full", "-o"]).arg(&session);
        command.arg("--ledger-dir").arg(scratch.live()).arg("--").arg(&program).arg(&end);
        let ran = run(&mut command)?.good()?;
        check!(end.exists(), "it did not wait: {ran}");
        let ends: Vec<Value> = processes(&session)?.into_iter().map(|process| process["end"].clone()).collect();
        check!(ends.len() >= 2 && ends.iter().all(|end| *end == "exit:0"), "{ends:?}");
    }
    Ok(())
}

/// A person who does not want to wait for the last process any more says so as ever: what has ended is finished, and the daemon goes on.
#[test]
fn waiting_ends_when_somebody_wants_it_to() -> Result {
    let scratch = Scratch::new();
    let end = scratch.path("end");
    let mut running = start(&mut under_run(&scratch, &["--wait"], &family()?, &["daemon", &end.to_string_lossy()])?)?;
    let list = scratch.path("s/session.jsonl");
    until("the daemon is listed", || fs::read_to_string(&list).is_ok_and(|text| text.contains("\"forked\":true")))?;
    // The program itself has ended by then, or the signal reaches it first.
    until("run has ended", || {
        let _ = kill(running.pid().into(), "INT");
        thread::sleep(Duration::from_millis(100));
        !running.runs()
    })?;
    running.finish(PATIENCE)?;
    let left: Vec<PathBuf> = scratch.unfinished();
    check!(left.iter().any(|path| path.extension().is_some_and(|end| end == "hlive")), "it does not go on: {left:?}");
    fs::write(&end, "").map_err(|error| error.to_string())?;
    until("the daemon has ended", || {
        let ran = run(command(heapledger()).arg("recover").arg(scratch.live()).current_dir(scratch.work()));
        ran.is_ok_and(|ran| ran.status.success()) && scratch.unfinished().is_empty()
    })
}

#[test]
fn what_cannot_be_executed_leaves_no_session() -> Result {
    let scratch = Scratch::new();
    fs::write(scratch.path("no_program"), "\0\0\0\0").map_err(|error| error.to_string())?;
    let mut command = command(heapledger());
    command.args(["run", "--children", "-o"]).arg(scratch.path("s")).arg("--ledger-dir").arg(scratch.live());
    let ran = run(command.arg("--").arg(scratch.path("no_program")).current_dir(scratch.work()))?;
    check!(ran.status.code() == Some(126), "{ran}");
    check!(!scratch.path("s").exists() && scratch.unfinished().is_empty(), "{:?}", scratch.unfinished());
    Ok(())
}

/// Whoever is killed at whatever moment: what was recorded is there, and agrees with what was counted.
#[test]
fn nothing_is_lost_when_somebody_is_killed() -> Result {
    for round in 0..12_u64 {
        let scratch = Scratch::new();
        let mut running = start(&mut under_run(&scratch, &[], &family()?, &["threads", "1000000"])?)?;
        let list = scratch.path("s/session.jsonl");
        until("a child is listed", || fs::read_to_string(&list).is_ok_and(|text| text.contains("\"forked\":true")))?;
        thread::sleep(Duration::from_millis(20 + round * 37 % 90));
        let program = *process::children(running.pid()).first().ok_or("there is no program")?;
        let victim = if round % 3 == 2 { running.pid() } else { program };
        kill(victim.into(), "KILL")?;
        if victim != program {
            // Without `run` it goes on.
            thread::sleep(Duration::from_millis(50));
            kill(program.into(), "KILL")?;
        }
        let _ = running.runs();
        running.finish(PATIENCE)?;
        let recovered = || {
            let ran = run(command(heapledger()).arg("recover").arg(scratch.live()).current_dir(scratch.work()));
            ran.and_then(Ran::good).is_ok() && scratch.unfinished().is_empty()
        };
        until("all is finished", recovered)?;
        // Its three threads and itself may have been in the middle of a call each; so may a child.
        agree(&scratch, 6).map_err(|error| format!("round {round}: {error}"))?;
    }
    Ok(())
}

/// Real programs, with what they are asked to do.
fn real(name: &str, arguments: &[&str], least: usize, slack: u64) -> Result {
    let Some(program) = find(&[name]) else {
        skip(name, "it is not installed");
        return Ok(());
    };
    let scratch = Scratch::new();
    for (file, text) in [
        ("a.c", "int a(int x) { return x + 1; }\n"),
        ("b.c", "int a(int); int main(void) { return a(-1); }\n"),
        ("Makefile", "CC = gcc\nall: prog\n\t./prog\nprog: a.o b.o\n\t$(CC) -o $@ a.o b.o\nclean:\n\trm -f *.o prog\n"),
        (
            "pool.py",
            "import multiprocessing as m, subprocess\nif __name__ == '__main__':\n    with m.get_context('fork').Pool(3) as p:\n        print(sum(p.map(abs, range(-500, 500))))\n    print(subprocess.run(['/bin/echo', 'sub'], capture_output=True).stdout)\n",
        ),
    ] {
        fs::write(scratch.path(file), text).map_err(|error| error.to_string())?;
    }
    let ran = run(under_run(&scratch, &[], &program, arguments)?.env("PYTHONMALLOC", "malloc"))?;
    check!(ran.status.success(), "{ran}");
    let sums = agree(&scratch, slack)?;
    check!(sums.len() >= least, "{} processes", sums.len());
    let left = scratch.unfinished();
    check!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

#[test]
fn make_with_two_jobs() -> Result {
    // make, two compilers with an assembler each, the linker's three, and the program.
    real("make", &["-j2"], 10, 0)
}

#[test]
fn a_pool_of_python_processes() -> Result {
    // Workers of a pool are killed in the middle of something.
    real("/usr/bin/python3", &["pool.py"], 5, 2)
}

#[test]
fn a_pipeline_of_a_shell() -> Result {
    real("sh", &["-c", "seq 1 2000 | sort -r | (while read x; do echo $x; done) | tail -1; git --version | cat"], 7, 0)
}

#[test]
fn a_program_whose_environment_is_emptied_on_the_way_is_told_of() -> Result {
    let scratch = Scratch::new();
    let ran = run(&mut under_run(&scratch, &[], Path::new("/bin/sh"), &["-c", "env -i sleep 1; true"])?)?;
    check!(ran.status.success(), "{ran}");
    let all = processes(&scratch.path("s"))?;
    let sleep = all.iter().find(|process| process["program"] == "sleep").ok_or_else(|| format!("{all:?}"))?;
    check!(sleep["unrecorded"].as_str().is_some_and(|why| why.contains("LD_PRELOAD")), "{sleep}");
    Ok(())
}
