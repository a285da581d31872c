//! Copies of one program in several sessions of gdb: numbers, and what each shows of the history.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use heapledger_e2e::process::{self, Ran, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::{Result, check};

use super::tools::*;

/// Four threads that allocate and free, a round each time that a signal comes, and say how many rounds are over.
const ROUNDS: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_barrier_t barrier;
static void *work(void *arg) {
    for (;;) {
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < 75; i++) { char *volatile block = malloc(100 + i); free(block); }
        pthread_barrier_wait(&barrier);
    }
    return arg;
}
int main(void) {
    sigset_t set;
    int number;
    sigemptyset(&set), sigaddset(&set, SIGUSR1), sigprocmask(SIG_BLOCK, &set, 0);
    setvbuf(stdout, 0, _IONBF, 0);
    pthread_barrier_init(&barrier, 0, 5);
    pthread_t thread;
    for (int i = 0; i < 4; i++) pthread_create(&thread, 0, work, 0);
    for (int round = 1;; round++) {
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        printf("round %d\n", round);
        sigwait(&set, &number);
    }
}
"#;

/// Frees in the history of these ledgers, by number, and how many are said to be missing, and to be shown before.
fn frees(scratch: &Scratch, ledgers: &[&str]) -> Result<(BTreeSet<u64>, u64, u64)> {
    let paths: Vec<String> = ledgers.iter().map(|name| scratch.path(name).to_string_lossy().into_owned()).collect();
    frees_of(&paths)
}

fn frees_of(ledgers: &[String]) -> Result<(BTreeSet<u64>, u64, u64)> {
    let words: Vec<&str> = ["history", "--json"].into_iter().chain(ledgers.iter().map(String::as_str)).collect();
    let ran = tell(&words)?.good()?;
    let (mut numbers, mut head) = (BTreeSet::new(), (0, 0));
    for line in ran.out().lines() {
        let line: serde_json::Value = serde_json::from_str(line).map_err(text)?;
        let number = |key: &str| line[key].as_u64().unwrap_or(u64::MAX);
        if !line["frees_missing"].is_null() {
            head = (number("frees_missing"), number("frees_shown_before"));
        }
        if line["event"] == "free" {
            check!(numbers.insert(number("number")), "number {} is there twice", number("number"));
        }
    }
    Ok((numbers, head.0, head.1))
}

fn said_rounds(pid: u32, scratch: &Scratch, round: u32) -> Result {
    if round > 1 {
        process::kill(i64::from(pid), "USR1")?;
    }
    let line = format!("round {round}\n");
    until(&line, || fs::read_to_string(scratch.path("said")).is_ok_and(|said| said.contains(&line)))
}

/// A session of gdb that is attached to the process.
fn session(scratch: &Scratch, with_python: bool, pid: u32, words: &[&str]) -> Result<Ran> {
    in_gdb(scratch, with_python, &["-p", &pid.to_string()], &[words, &["detach"]].concat())?.good()
}

/// Bytes of a file.
fn bytes(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(text)
}

fn in_several_sessions(with_python: bool) -> Result {
    let scratch = Scratch::new();
    let program = compile(ROUNDS, scratch.work(), "rounds")?;
    let (run, pid) = start_this(&scratch, &[], &program, "")?;
    if !may_attach(pid)? {
        return Ok(());
    }
    said_rounds(pid, &scratch, 1)?;
    let mut all = BTreeSet::new();
    for round in 0..4u32 {
        said_rounds(pid, &scratch, round + 1)?;
        let before: Vec<_> = (0..round).map(|number| bytes(&scratch.path(&format!("mddout.{number}")))).collect();
        let ran = session(&scratch, with_python, pid, &["mdd_dump"])?;
        check!(ran.out().contains(&format!("The ledger is in mddout.{round}.")), "session {round}: {ran}");
        for (number, before) in before.into_iter().enumerate() {
            check!(bytes(&scratch.path(&format!("mddout.{number}")))? == before?, "mddout.{number} was overwritten");
        }
        let (found, missing, shown) = frees(&scratch, &[&format!("mddout.{round}")])?;
        // A thread frees 75 blocks in a round, and the first one some of its own.
        check!(found.len() == 300 || round == 0 && found.len() >= 300, "{} frees in mddout.{round}", found.len());
        check!(all.is_disjoint(&found), "mddout.{round} shows what was shown before");
        check!(missing == all.len() as u64 && shown == missing, "{missing} missing, {shown} shown of {}", all.len());
        all.extend(found);
    }
    // Nothing is lost, whoever reads: all copies together, some of them, and the ledger itself.
    let names: Vec<String> = (0..4).map(|number| format!("mddout.{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    check!(frees(&scratch, &names)? == (all.clone(), 0, 0), "the copies together");
    let (later, missing, shown) = frees(&scratch, &names[2..])?;
    check!(later.len() == 600 && missing == shown && shown as usize == all.len() - 600, "two copies: {shown} shown");
    check!(frees_of(&[pid.to_string()])? == (all.clone(), 0, 0), "the process itself");
    let whole = session(&scratch, with_python, pid, &["heapledger history --limit 0"])?;
    check!(!whole.out().contains("left out"), "history in gdb: {whole}");
    let said = tell(&["history", "--limit", "1", &scratch.path("mddout.3").to_string_lossy()])?.good()?;
    check!(said.out().contains("left out, because an earlier copy of the ledger shows them"), "{said}");
    // mdd_reset begins anew, and goes on from there in this session; the next one overwrites nothing.
    let ran = session(&scratch, with_python, pid, &["mdd_reset", "mdd_dump", "mdd_dump"])?;
    check!(ran.out().contains("in mddout.0.") && ran.out().contains("in mddout.1."), "mdd_reset: {ran}");
    let ran = session(&scratch, with_python, pid, &["mdd_dump", "mdd_dump"])?;
    check!(ran.out().contains("in mddout.4.") && ran.out().contains("in mddout.5."), "after mdd_reset: {ran}");
    check!(frees(&scratch, &["mddout.5"])?.0.is_empty(), "nothing happened since");
    // The finished ledger has everything.
    process::kill(i64::from(pid), "TERM")?;
    run.finish(process::PATIENCE)?;
    check!(frees(&scratch, &["x.hl"])?.0.is_superset(&all), "at the end");
    // A new run of the program begins with 0.
    fs::remove_file(scratch.path("said")).map_err(text)?;
    let (other_run, other) = start_this(&scratch, &[], &program, "")?;
    said_rounds(other, &scratch, 1)?;
    let ran = session(&scratch, with_python, other, &["mdd_dump"])?;
    check!(ran.out().contains("in mddout.0."), "a new run: {ran}");
    let ran = session(&scratch, with_python, other, &["mdd_dump"])?;
    check!(ran.out().contains("in mddout.1."), "a new run, the second time: {ran}");
    check!(left_behind(&scratch).is_empty(), "left behind: {:?}", left_behind(&scratch));
    process::kill(i64::from(other), "TERM")?;
    other_run.finish(process::PATIENCE).map(|_| ())
}

#[test]
fn numbers_and_history_go_on_with_python() -> Result {
    in_several_sessions(true)
}

#[test]
fn numbers_and_history_go_on_without_python() -> Result {
    in_several_sessions(false)
}
