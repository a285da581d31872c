//! Snapshots of a program that is busy.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::process::{self, PATIENCE, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check};

use super::{Target, compile, tell};

/// Threads that allocate, free and reallocate without a pause, until a file is there; then exit status 7.
const BUSY: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *work(void *start) {
    unsigned random = (unsigned)(long)start;
    void *blocks[64] = {0};
    for (;;) {
        random = random * 1103515245 + 12345;
        unsigned place = random >> 16 & 63;
        if (blocks[place] && random & 64) {
            blocks[place] = realloc(blocks[place], 16 + (random >> 8 & 1023));
        } else {
            free(blocks[place]);
            blocks[place] = malloc(16 + (random >> 8 & 255));
        }
    }
    return 0;
}
static void *last(void *path) {
    while (access(path, F_OK)) usleep(1000);
    _exit(7);
}
int main(int count, char **words) {
    pthread_t thread;
    for (long start = 1; start <= 6; start++) pthread_create(&thread, 0, work, (void *)start);
#ifdef MAIN_ENDS
    pthread_create(&thread, 0, last, words[1]);
    pthread_exit(0);
#endif
    last(words[1]);
}
"#;

/// Its books agree to the last block.
fn check_exact(stats: &Stats) -> Result {
    let number = |key| stats.number(key) as i64;
    let (allocations, frees, live) = (number("allocations"), number("frees"), number("live_blocks"));
    check!(allocations - frees == live, "{allocations} allocations - {frees} frees, and {live} records");
    check!(stats.number("in_flight") == 0 && stats.signed("unaccounted") == 0, "{}", stats.0);
    check!(live > 100 && live < 500, "{live} blocks live in a program that keeps 384");
    let bytes = number("bytes_allocated") - number("bytes_freed");
    check!(bytes == number("live_bytes"), "{bytes} bytes by the totals, {} in records", number("live_bytes"));
    check!(stats.losses().is_empty(), "{:?}", stats.losses());
    Ok(())
}

/// States of its threads: `R`, `S`, `T` for stopped, `t` for traced.
fn states(pid: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let state = |stat: String| stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    tasks.filter_map(|task| state(fs::read_to_string(task.path().join("stat")).ok()?)).collect()
}

#[test]
fn a_busy_program_is_held_and_let_go() -> Result {
    let scratch = Scratch::new();
    let program = compile(&scratch, "busy", BUSY, &[])?;
    let end = scratch.path("end-now");
    let target = Target::start(&scratch, &program, &[end.to_string_lossy().into_owned()])?;
    let pid = target.pid.to_string();
    // All six threads, each of which keeps 64 blocks.
    until("it is busy", || {
        let is_busy = |stats: Stats| stats.number("allocations") > 100_000 && stats.number("live_blocks") > 350;
        Stats::of(&pid).is_ok_and(is_busy)
    })?;
    let mut last = 0;
    for number in 0..4 {
        let path = target.snapshot(&scratch, &format!("held.{number}"), &["--freeze"])?;
        let stats = Stats::of(&path)?;
        check_exact(&stats)?;
        check!(stats.number("allocations") > last, "it stands still since {last} allocations");
        last = stats.number("allocations");
        let snapshot = &stats.0["process"]["snapshot"];
        check!(snapshot["held_ns"].as_u64().is_some_and(|ns| ns > 0 && ns < 60_000_000_000), "{snapshot}");
        check!(stats.0["ledger"]["finished"] == true && stats.0["process"]["running"] == false, "{}", stats.0);
    }
    // Not held: totals and records are of nearly the same time, and nobody calls that a loss.
    for number in 0..4 {
        let stats = Stats::of(target.snapshot(&scratch, &format!("free.{number}"), &[])?)?;
        check!(stats.signed("unaccounted") == 0, "{} unaccounted", stats.signed("unaccounted"));
        check!(stats.0["process"]["snapshot"]["held_ns"].is_null(), "{}", stats.0["process"]);
        check!((100..500).contains(&stats.number("live_blocks")), "{} live", stats.number("live_blocks"));
    }
    // Whoever holds it may be killed: then the kernel lets it go. By Ctrl-C, with nothing left behind.
    for (round, signal) in ["KILL", "INT", "KILL", "TERM", "KILL", "INT"].iter().enumerate() {
        let mut snapshot = command(heapledger());
        snapshot.args(["snapshot", "-q", "--freeze", "-o"]).arg(scratch.path("killed")).arg(&pid);
        let running = process::start(snapshot.stdin(Stdio::null()))?;
        std::thread::sleep(Duration::from_millis(3 + 4 * round as u64));
        let _ = process::kill(running.pid().into(), signal);
        running.finish(PATIENCE)?;
        until("all its threads go on", || {
            let states = states(target.pid);
            states.len() == 7 && !states.contains(['t', 'T'])
        })?;
    }
    // What was stopped before stays stopped.
    process::kill(target.pid.into(), "STOP")?;
    until("it is stopped", || states(target.pid) == "TTTTTTT")?;
    let path = target.snapshot(&scratch, "stopped", &["--freeze"])?;
    check!(states(target.pid) == "TTTTTTT", "it was let go: {}", states(target.pid));
    check!(Stats::of(&path)?.number("live_blocks") > 100, "nothing in the snapshot");
    process::kill(target.pid.into(), "CONT")?;
    until("it goes on", || !states(target.pid).contains(['t', 'T']))?;
    super::touch(&end)?;
    let ran = target.running.finish(PATIENCE)?;
    check!(ran.status.code() == Some(7) && ran.err().is_empty(), "{ran}");
    check!(scratch.unfinished().is_empty(), "left behind: {:?}", scratch.unfinished());
    Ok(())
}

/// The first thread has ended and is still in the list of threads: nobody waits for it to stand.
#[test]
fn a_program_without_its_main_thread_is_held_and_let_go() -> Result {
    let scratch = Scratch::new();
    let program = compile(&scratch, "busy", BUSY, &["-DMAIN_ENDS"])?;
    let end = scratch.path("end-now");
    let target = Target::start(&scratch, &program, &[end.to_string_lossy().into_owned()])?;
    let pid = target.pid.to_string();
    until("it is busy", || Stats::of(&pid).is_ok_and(|stats| stats.number("live_blocks") > 350))?;
    check!(states(target.pid).contains('Z'), "its main thread has not ended: {}", states(target.pid));
    for number in 0..3 {
        check_exact(&Stats::of(target.snapshot(&scratch, &format!("held.{number}"), &["--freeze"])?)?)?;
    }
    super::touch(&end)?;
    let ran = target.running.finish(PATIENCE)?;
    check!(ran.status.code() == Some(7), "{ran}");
    Ok(())
}

#[test]
fn a_shell_with_jobs_notices_nothing() -> Result {
    let scratch = Scratch::new();
    let program = compile(&scratch, "busy", BUSY, &[])?;
    let end = scratch.path("end-now");
    let run = under_run(&scratch, "end", &[], &program, &[end.to_string_lossy().into_owned()]);
    let words: Vec<_> = std::iter::once(run.get_program()).chain(run.get_args()).collect();
    // With -m the shell is told of children that stop, and `wait` returns when one does.
    let mut parent = command("bash");
    parent.args(["-c", r#"set -m; "$@" & wait $!; echo "ended with $?""#, "bash"]).args(words);
    let running = process::start(parent.current_dir(scratch.work()).stdin(Stdio::null()))?;
    let mut pid = 0;
    until("it is busy", || {
        let child = process::children(running.pid()).first().copied().unwrap_or(0);
        pid = process::children(child).first().copied().unwrap_or(0);
        pid != 0 && Stats::of(pid.to_string()).is_ok_and(|stats| stats.number("allocations") > 10_000)
    })?;
    for number in 0..5 {
        let path = scratch.path(&format!("s.{number}"));
        tell(&["snapshot", "--freeze", "-o", &path.to_string_lossy(), &pid.to_string()])?.good()?;
    }
    super::touch(&end)?;
    let ran = running.finish(PATIENCE)?;
    check!(ran.out() == "ended with 7\n" && !ran.err().contains("Stopped"), "{ran}");
    Ok(())
}

#[test]
fn snapshots_are_numbered_and_replace_nothing() -> Result {
    let scratch = Scratch::new();
    let program = compile(&scratch, "busy", BUSY, &[])?;
    let end = scratch.path("end-now");
    let target = Target::start(&scratch, &program, &[end.to_string_lossy().into_owned()])?;
    let take = |more: &[&str]| -> Result<String> {
        let mut snapshot = command(heapledger());
        snapshot.arg("snapshot").args(more).arg(target.pid.to_string()).current_dir(scratch.work());
        Ok(process::run(&mut snapshot)?.good()?.out())
    };
    let name = |number| format!("heapledger.busy.{}.{number}.hl", target.pid);
    for number in 0..2 {
        let said = take(&[])?;
        check!(said.contains(&name(number)) && said.contains("in flight"), "{said}");
    }
    let first = fs::read(scratch.path(&name(0))).map_err(|error| error.to_string())?;
    for number in 0..2 {
        check!(take(&["-o", "out.%i"])?.contains(&format!("out.{number} ")), "not numbered");
    }
    let said = take(&["--freeze", "-o", "out.0"])?;
    check!(said.starts_with("out.0 was there already\n") && said.contains("out.0.1 "), "{said}");
    check!(take(&["-q"])?.is_empty(), "-q says something");
    check!(fs::read(scratch.path(&name(0))).is_ok_and(|now| now == first), "the first one was changed");
    let taken = read("snapshot", target.pid.to_string(), &["-o", &scratch.path("j").to_string_lossy()])?;
    check!(taken[1]["type"] == "snapshot" && taken[1]["pid"] == target.pid, "{taken:?}");
    let refused = tell(&["snapshot", &scratch.path("j").to_string_lossy()])?;
    check!(refused.status.code() == Some(1) && refused.err().contains("finished already"), "{refused}");
    super::touch(&end)?;
    target.running.finish(PATIENCE)?;
    let hidden: Vec<_> = fs::read_dir(scratch.work())
        .map_err(|error| error.to_string())?
        .filter_map(|item| Some(item.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| name.starts_with('.'))
        .collect();
    check!(hidden.is_empty(), "left behind: {hidden:?}");
    Ok(())
}
