//! The program runs under `run` as it would without: status, streams, arguments, signals, descriptors.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

mod common;
use common::{Scratch, finish, heapledger, output, text};

#[test]
fn the_exit_status_is_the_programs() {
    let scratch = Scratch::new("status");
    for status in [0, 1, 7, 125, 255] {
        let seen = output(&mut scratch.run(&["-q", "sh", "-c", &format!("exit {status}")]));
        assert_eq!(seen.status.code(), Some(status));
    }
}

#[test]
fn a_program_that_dies_of_a_signal_takes_run_along() {
    let scratch = Scratch::new("signal");
    // 15 with and without a core, and one that has no name.
    for signal in [15, 9, 6, 11, 13, 40] {
        let seen = output(&mut scratch.run(&["-q", "sh", "-c", &format!("kill -{signal} $$")]));
        assert_eq!(seen.status.signal(), Some(signal), "{}", text(&seen.stderr));
        assert!(!seen.status.core_dumped());
    }
    let shell = "\"$@\"; echo $?";
    let run = scratch.run(&["-q", "sh", "-c", "kill -TERM $$"]);
    let mut outer = Command::new("sh");
    outer.args(["-c", shell, "sh"]).arg(run.get_program()).args(run.get_args()).current_dir(scratch.cwd());
    assert_eq!(text(&output(&mut outer).stdout), "143\n");
}

#[test]
fn programs_that_cannot_be_executed() {
    let scratch = Scratch::new("refused");
    let missing = output(&mut scratch.run(&["no-such-program", "x"]));
    assert_eq!(missing.status.code(), Some(127));
    assert_eq!(text(&missing.stderr), "heapledger: no-such-program: there is no such program\n");
    let plain = scratch.0.join("plain");
    fs::write(&plain, "echo run by the shell: $0 $1").expect("written");
    let refused = output(scratch.run::<&str>(&[]).arg(&plain));
    assert_eq!(refused.status.code(), Some(126));
    assert!(text(&refused.stderr).starts_with("heapledger: ") && text(&refused.stderr).lines().count() == 1);
    assert_eq!(output(scratch.run::<&str>(&[]).arg("/etc")).status.code(), Some(126));
    // As execvp does: a text without `#!` is for the shell.
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o755)).expect("chmod");
    let shell = output(scratch.run(&["-q"]).arg(&plain).arg("one"));
    assert_eq!(text(&shell.stdout), format!("run by the shell: {} one\n", plain.display()));
    // What the kernel alone can tell.
    fs::write(&plain, [0_u8, 1, 2, 3]).expect("written");
    let damaged = output(scratch.run::<&str>(&[]).arg(&plain));
    assert_eq!(damaged.status.code(), Some(126), "{}", text(&damaged.stderr));
    assert_eq!(text(&damaged.stderr).lines().count(), 1, "{}", text(&damaged.stderr));
}

#[test]
fn own_failures_are_125_and_wrong_usage_is_2() {
    let scratch = Scratch::new("own");
    let marker = scratch.0.join("marker");
    let too_long = "x".repeat(300);
    for options in [
        &["-o", "/no/such/dir/x.hl"][..],
        &["-o", &too_long],
        &["-o", "/proc/x.hl"],
        &["--ledger-dir", "/no/such/dir"],
        &["--preload", "/no/lib.so"],
        &["-o", "%x"],
    ] {
        let mut command = heapledger();
        command.arg("run").args(options).arg("touch").arg(&marker);
        let seen = output(&mut command);
        assert_eq!(seen.status.code(), Some(125), "{options:?}");
        assert!(text(&seen.stderr).starts_with("heapledger: ") && text(&seen.stderr).lines().count() == 1);
        assert!(!marker.exists(), "the program was not started");
    }
    for line in [
        &["run"][..],
        &["run", "--bogus", "x"],
        &["nonsense"],
        &["run", "--depth", "x", "y"],
        &["run", "-o", "/dev/stdout", "true"],
    ] {
        let seen = output(heapledger().args(line));
        assert_eq!(seen.status.code(), Some(2), "{line:?}");
        assert!(text(&seen.stderr).starts_with("heapledger: "), "{}", text(&seen.stderr));
        assert!(seen.stdout.is_empty());
    }
}

#[test]
fn without_arguments_it_teaches() {
    let seen = output(&mut heapledger());
    assert_eq!(seen.status.code(), Some(0));
    assert!(text(&seen.stdout).contains("heapledger run -- jq"));
}

/// Number first, as scripts cut it out; then the commit, the one that git names where git says anything.
#[test]
fn it_says_what_it_was_built_of() {
    let [long, short] = ["--version", "-V"].map(|word| text(&output(heapledger().arg(word)).stdout));
    let line = short.strip_suffix('\n').expect("a line");
    let rest = line.strip_prefix(concat!("heapledger ", env!("CARGO_PKG_VERSION"))).expect(line);
    let told = rest.strip_prefix(" (commit ").and_then(|rest| rest.strip_suffix(')'));
    assert!(rest.is_empty() || told.is_some_and(|name| name.len() == 12), "{line}");
    let git = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    // It does not where another user's checkout is tested.
    if let Some(git) = git.ok().filter(|git| git.status.success()) {
        assert_eq!(told, text(&git.stdout).get(..12), "{line}");
    }
    let features = long.strip_prefix(&short).and_then(|rest| rest.strip_prefix("features: ")).expect("features");
    assert_eq!(features.contains("tui"), cfg!(feature = "tui"), "{features}");
    let recorded = cfg!(all(target_os = "linux", target_arch = "x86_64"));
    assert_eq!(features.contains("recorder"), recorded, "{features}");
}

#[test]
fn arguments_streams_and_directory_arrive_untouched() {
    let scratch = Scratch::new("streams");
    let odd = OsStr::from_bytes(b"\xff -q\n\x01");
    let mut command =
        scratch.run(&["-q", "sh", "-c", "printf '%s|' \"$0\" \"$@\"; cat; pwd; umask; echo err >&2", "--", "-q", ""]);
    let run = command.arg(odd);
    let mut direct = Command::new("sh");
    direct.args(["-c", "printf '%s|' \"$0\" \"$@\"; cat; pwd; umask; echo err >&2", "--", "-q", ""]).arg(odd);
    direct.current_dir(scratch.cwd());
    let mut seen = Vec::new();
    for command in [&mut direct, run] {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        child.stdin.take().expect("piped").write_all(b"\0bytes\xff").expect("written");
        let out = finish(child);
        seen.push((out.stdout, out.status.code()));
        assert!(text(&out.stderr).starts_with("err\n"));
    }
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn the_program_keeps_its_name_and_environment() {
    let scratch = Scratch::new("name");
    let seen = output(
        scratch.run(&["-q", "sh", "-c", "tr '\\0' '\\n' </proc/$$/cmdline | head -1; env"]).env("ODD", "a,b=c\n"),
    );
    let out = text(&seen.stdout);
    assert!(out.starts_with("sh\n"), "{out}");
    assert!(out.contains("ODD=a,b=c\n\n"));
    assert!(out.contains("LD_PRELOAD=") && out.contains("HEAPLEDGER="));
    let seen =
        output(scratch.run(&["-q", "env"]).env("LD_PRELOAD", "/own/library.so").env("HEAPLEDGER", "depth=9,x=1"));
    let out = text(&seen.stdout);
    assert!(out.lines().any(|line| line.starts_with("LD_PRELOAD=") && line.ends_with("stand-in.so:/own/library.so")));
    let variable = out.lines().find(|line| line.starts_with("HEAPLEDGER=")).expect("set");
    assert!(variable.contains("depth=9") && !variable.contains("x=1"), "{variable}");
    assert!(text(&seen.stderr).contains("x=1: there is no such key; ignored"));
}

/// Starts the rest of its arguments with signals ignored and blocked, and with standard input closed.
const LAUNCHER: &str = r#"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2); sigaddset(&set, SIGTERM); sigaddset(&set, 40);
    sigprocmask(SIG_BLOCK, &set, 0);
    signal(SIGPIPE, argv[1][0] == 'i' ? SIG_IGN : SIG_DFL);
    signal(SIGHUP, SIG_IGN); signal(SIGCHLD, SIG_IGN); signal(41, SIG_IGN);
    if (argv[1][1] == 'c') close(0);
    execv(argv[2], argv + 2);
    return 99;
}
"#;

/// What a program can see of how it was started.
const SEEN: &str = "grep -E '^(Sig|Shd)(Blk|Ign|Cgt|Pnd)' /proc/self/status; ls /proc/self/fd; ulimit -c";

#[test]
fn signal_dispositions_mask_and_descriptors_are_those_of_run() {
    let scratch = Scratch::new("dispositions");
    let launcher = scratch.compile("launcher", LAUNCHER, &[]);
    for how in ["io", "do", "ic"] {
        let bash = ["/bin/bash", "-c", SEEN];
        let direct = output(Command::new(&launcher).arg(how).args(bash));
        let run = scratch.run(&["-q"]);
        let under = output(
            Command::new(&launcher)
                .arg(how)
                .arg(run.get_program())
                .args(run.get_args())
                .args(bash)
                .current_dir(scratch.cwd()),
        );
        assert!(text(&direct.stdout).contains("SigIgn"), "{}", text(&direct.stderr));
        assert_eq!(text(&under.stdout), text(&direct.stdout), "{how}: {}", text(&under.stderr));
    }
}

#[test]
fn a_broken_pipe_ends_the_program() {
    let scratch = Scratch::new("pipe");
    let run = scratch.run(&["-q", "yes"]);
    let mut shell = Command::new("bash");
    shell.args(["-c", "\"$@\" | head -1; echo ${PIPESTATUS[0]}", "bash"]).arg(run.get_program()).args(run.get_args());
    assert_eq!(text(&output(shell.current_dir(scratch.cwd())).stdout), "y\n141\n");
}

#[test]
fn a_grandchild_that_keeps_the_pipes_does_not_keep_run() {
    let scratch = Scratch::new("grandchild");
    let mut command = scratch.run(&["-q", "sh", "-c", "sleep 600 & echo $!"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().expect("piped")), &mut line)
        .expect("read");
    child.stderr = None;
    assert_eq!(finish(child).status.code(), Some(0));
    common::kill(line.trim().parse().expect("a number"), "KILL");
}

#[test]
fn an_untrackable_program_is_said_to_be_so_and_run() {
    let scratch = Scratch::new("untracked");
    let program = scratch.compile("static", "int main(void) { return 3; }", &["-static"]);
    let seen = output(scratch.run::<&str>(&[]).arg(&program).env("LD_PRELOAD", ""));
    assert_eq!(seen.status.code(), Some(3));
    let said = text(&seen.stderr);
    assert!(said.contains("is statically linked") && said.lines().count() == 1, "{said}");
    assert!(scratch.finished().is_empty());
}
