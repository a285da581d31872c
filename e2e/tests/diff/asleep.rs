//! Programs that are held while their threads sleep in system calls: none may notice.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Stdio};

use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::process::{self, PATIENCE, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::victim;
use heapledger_e2e::{Result, check};

/// What its threads did: name, and how often each was taken off a processor.
fn switches(pid: u32) -> BTreeMap<String, (String, Vec<String>)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |status: &str| status.lines().filter(|line| line.contains("ctxt_switches")).map(str::to_owned).collect();
    let one = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned();
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        Some((task.file_name().to_string_lossy().into_owned(), (name, of(&status))))
    };
    tasks.filter_map(one).collect()
}

/// `interruptible` under `run`, held five times in one way. How many of the threads that wait for others woke meanwhile,
/// and how many there are.
fn hold_in_every_call(word: &str, how: &str) -> Result<(usize, usize)> {
    let scratch = Scratch::new();
    let victim = victim::named("interruptible")?;
    let program = victim.build()?;
    // Those that end by themselves must still sleep when they are held for the last time; if not, less is tested.
    let words = [word.to_owned(), "3000".to_owned()];
    let plain = process::run(command(&program).args(&words).current_dir(scratch.work()))?.good()?;
    let mut run = under_run(&scratch, "end", &[], &program, &words);
    let mut running = process::start(run.stdin(Stdio::piped()))?;
    let input = running.child.stdin.take();
    let mut pid = 0;
    until("all are asleep", || {
        pid = process::children(running.pid()).first().copied().unwrap_or(0);
        // The last that the main thread does is to read its input.
        pid != 0 && switches(pid).len() > 80 && process::reads_input(pid)
    })?;
    let before = switches(pid);
    for number in 0..5 {
        let path = scratch.path(&format!("held.{number}"));
        let mut snapshot = command(heapledger());
        snapshot.env("HEAPLEDGER_FREEZE", how).args(["snapshot", "-q", "--freeze", "-o"]).arg(&path);
        process::run(snapshot.arg(pid.to_string()))?.good()?;
        let stats = Stats::of(&path)?;
        check!(stats.0["process"]["snapshot"]["held_ns"].as_u64().is_some(), "{}", stats.0["process"]);
        let blocks = read("dump", &path, &["--where", "function == asleep_block"])?;
        check!(blocks.iter().filter(|line| line["type"] == "block").count() == 1, "the block is missing: {blocks:?}");
    }
    let after = switches(pid);
    drop(input);
    let held = running.finish(PATIENCE)?;
    plain.compare(&held)?;
    let waiting: Vec<_> = before.iter().filter(|(_, (name, _))| name == "waits").collect();
    let woken = waiting.iter().filter(|(thread, then)| after.get(*thread) != Some(then)).count();
    Ok((woken, waiting.len()))
}

#[test]
fn who_sleeps_is_not_woken() -> Result {
    let (woken, of) = hold_in_every_call("whole", "")?;
    check!(woken == 0 && of > 60, "{woken} of {of} threads were woken");
    Ok(())
}

#[test]
fn who_is_woken_is_set_back_to_its_call() -> Result {
    let (woken, of) = hold_in_every_call("", "interrupt")?;
    check!(woken == of && of > 60, "{woken} of {of} threads were interrupted: this tests nothing");
    Ok(())
}

/// A program that is started and killed with its guard.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A signal with a handler and one that is ignored, sent while the program is interrupted again and again: a call ends
/// with `EINTR` when a handler ran, and only then.
#[test]
fn signals_that_come_meanwhile_are_what_they_were() -> Result {
    const COUNTED: &str = r#"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
static volatile int handled;
static void handler(int number) { handled++; }
int main(int count, char **words) {
    struct epoll_event event;
    int fd = epoll_create1(0), ended = 0;
    signal(SIGUSR1, handler), signal(SIGUSR2, SIG_IGN);
    void *block = malloc(100);
    while (access(words[1], F_OK)) {
        int before = handled, result = epoll_wait(fd, &event, 1, 3600000);
        if (result != -1 || errno != EINTR || handled == before) { printf("%d %d\n", result, errno); return 1; }
        ended++;
    }
    printf("%s\n", ended > 0 && block ? "as often as handlers ran" : "never");
    return 0;
}
"#;
    let scratch = Scratch::new();
    let program = super::compile(&scratch, "counted", COUNTED, &[])?;
    let end = scratch.path("end-now");
    let target = super::Target::start(&scratch, &program, &[end.to_string_lossy().into_owned()])?;
    let pid = target.pid.to_string();
    let in_call = || fs::read_to_string(format!("/proc/{pid}/syscall")).is_ok_and(|line| line.starts_with("232 "));
    until("it waits", in_call)?;
    let script = r#"while kill -USR2 $1 && kill -USR1 $1; do sleep 0.002; done"#;
    let mut sender = command("/bin/sh");
    sender.args(["-c", script, "sh", &pid]).stderr(Stdio::null());
    let sender = Guarded(sender.spawn().map_err(|error| error.to_string())?);
    for number in 0..40 {
        let mut snapshot = command(heapledger());
        snapshot.args(["snapshot", "-q", "--freeze", "-o"]).arg(scratch.path(&format!("s.{number}"))).arg(&pid);
        if number % 4 != 0 {
            snapshot.env("HEAPLEDGER_FREEZE", "interrupt");
        }
        process::run(&mut snapshot)?.good()?;
    }
    drop(sender);
    super::touch(&end)?;
    process::kill(target.pid.into(), "USR1")?;
    let ran = target.running.finish(PATIENCE)?;
    check!(ran.status.success() && ran.out() == "as often as handlers ran\n", "{ran}");
    Ok(())
}
