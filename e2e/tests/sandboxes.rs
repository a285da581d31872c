//! Programs that shut themselves in: whatever they forbid themselves, they do not die of the recorder, and what is not recorded of them is
//! said.

use std::fs;
use std::process::Command;

use heapledger_e2e::families::processes;
use heapledger_e2e::ledger::Stats;
use heapledger_e2e::process::run;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::{Result, check, skip, victim};

/// Ways in which a process shuts itself in.
const WAYS: [&str; 5] = ["refuses", "kills", "kills-by-syscall", "traps", "strict"];

/// All that can be tried here.
fn ways() -> Result<Vec<&'static str>> {
    let mut ways = WAYS.to_vec();
    let user = run(Command::new("id").arg("-u"))?.good()?.out();
    if user.trim() == "0" {
        ways.push("chroot");
    } else {
        skip("chroot", "only root can");
    }
    Ok(ways)
}

/// Runs the victim under `run` with `options`, and compares what it says with what it says alone.
fn as_alone(scratch: &Scratch, options: &[&str], words: &[&str]) -> Result<String> {
    let program = victim::named("sandboxed")?.build()?;
    let alone = run(command(&program).args(words).current_dir(scratch.work()))?.good()?;
    let mut recorded = command(heapledger());
    recorded.args(["run", "-o", "out", "--ledger-dir"]).arg(scratch.live()).args(options).arg("--").arg(&program);
    let ran = run(recorded.args(words).current_dir(scratch.work()))?;
    check!(ran.status == alone.status && ran.out() == alone.out(), "{options:?} {words:?}: {ran}");
    Ok(ran.err())
}

#[test]
fn forked_children_that_shut_themselves_in_live() -> Result {
    for options in [&[][..], &["--guard=light"], &["--guard=full"]] {
        as_alone(&Scratch::new(), options, &ways()?)?;
    }
    Ok(())
}

#[test]
fn children_are_recorded_as_far_as_they_let_themselves_be() -> Result {
    for options in [&["--children"][..], &["--children", "--guard=light"], &["--children", "--guard=full"]] {
        let scratch = Scratch::new();
        let ways = ways()?;
        let told = as_alone(&scratch, options, &ways)?;
        let all = processes(&scratch.work().join("out"))?;
        let statuses = all.iter().filter(|process| process["end"] == "exit:0").count();
        // They begin before they are shut in; who has left the root directory cannot begin any more, and says so.
        check!(all.len() == 1 + WAYS.len() && statuses >= 1, "{all:?}; {told}");
        check!(told.contains("nothing is recorded") == ways.contains(&"chroot"), "{told}");
        let stats = run(command(heapledger()).args(["stats", "--all", "out"]).current_dir(scratch.work()))?.good()?;
        let stopped = "In 4 processes, together: Recording stopped before the program ended";
        check!(stats.out().contains(stopped), "{stats}");
    }
    Ok(())
}

/// A filter that kills for everything but what the recorder says it takes: threads, and tables that grow, in a child and in the program.
#[test]
fn what_recording_is_said_to_take_is_all_that_it_takes() -> Result {
    for options in [
        &[][..],
        &["--guard=light"],
        &["--guard=full"],
        &["--free-depth", "whole"],
        &["--sample", "1000"],
        &["--accounts"],
    ] {
        let scratch = Scratch::new();
        let told = as_alone(&scratch, options, &["self", "lets-record"])?;
        check!(!told.contains("Recording stopped"), "{options:?}: {told}");
        // A hundred blocks of its own besides.
        let allocations = Stats::of(scratch.work().join("out"))?.number("allocations");
        check!(options.contains(&"--sample") || (60_000..60_200).contains(&allocations), "{options:?}: {allocations}");
        as_alone(&Scratch::new(), options, &["lets-record"])?;
    }
    let scratch = Scratch::new();
    let told = as_alone(&scratch, &["--children"], &["lets-record", "lets-record"])?;
    let all = processes(&scratch.work().join("out"))?;
    check!(all.len() == 3 && !told.contains("Recording stopped"), "{all:?}; {told}");
    Ok(())
}

#[test]
fn a_program_that_shuts_itself_in_lives() -> Result {
    for way in WAYS {
        for options in [&[][..], &["--guard=light"], &["--guard=full"]] {
            let scratch = Scratch::new();
            let told = as_alone(&scratch, options, &["self", way])?;
            // What refuses only leaves something out, if anything.
            let stopped = told.contains("Recording stopped before the program ended");
            check!(stopped == (way != "refuses"), "{way} {options:?}: {told}");
        }
    }
    Ok(())
}

/// Refuses a system call to the program that it becomes: its number, then the program and its arguments.
const REFUSES: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, strtoul(argv[1], NULL, 10), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 99;
    execv(argv[2], argv + 2);
    return 98;
}
"#;

/// Rust's runtime would abort before `main` without a word.
#[test]
fn where_poll_is_refused_that_is_said() -> Result {
    const SYS_POLL: &str = "7";
    let scratch = Scratch::new();
    let (code, launcher) = (scratch.path("refuses.c"), scratch.path("refuses"));
    fs::write(&code, REFUSES).map_err(|error| error.to_string())?;
    run(command("gcc").arg("-o").arg(&launcher).arg(&code))?.good()?;
    for words in [&["run", "-o", "x.hl", "--", "/bin/echo", "ran"][..], &["stats", "x.hl"]] {
        let ran = run(command(&launcher).arg(SYS_POLL).arg(heapledger()).args(words).current_dir(scratch.work()))?;
        check!(ran.status.code() == Some(125) && ran.out().is_empty(), "{words:?}: {ran}");
        check!(ran.err().starts_with("heapledger: the system call `poll` is refused here"), "{words:?}: {ran}");
        check!(ran.err().ends_with("outside of the sandbox\n"), "{words:?}: {ran}");
    }
    Ok(())
}
