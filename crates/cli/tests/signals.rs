//! Signals that are sent to `run` itself, and what stops and continues.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};

mod common;
use common::{Scratch, children, finish, kill, state, text, until};

/// Starts a shell script under `run`, and waits until it has written its first line.
fn started(scratch: &Scratch, script: &str) -> (Child, u32) {
    // Who has started the tests may ignore some (`nohup`, a shell's `&`), and whatever is ignored stays so.
    let run = scratch.run(&["-q", "bash", "-c", script]);
    let mut command = Command::new("env");
    command.arg("--default-signal").arg(run.get_program()).args(run.get_args());
    for (name, value) in run.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(directory) = run.get_current_dir() {
        command.current_dir(directory);
    }
    command.stdin(Stdio::null()).stdout(fs::File::create(scratch.0.join("out")).expect("created"));
    // A process group of their own, as a shell with job control makes one.
    let child = command.stderr(Stdio::piped()).process_group(0).spawn().expect("started");
    let run = child.id();
    until("the program is ready", || written(scratch).contains("ready"));
    (child, children(run)[0])
}

fn written(scratch: &Scratch) -> String {
    fs::read_to_string(scratch.0.join("out")).unwrap_or_default()
}

const NAP: &str = "while :; do read -t 0.05 <> <(:); done";

#[test]
fn what_is_sent_to_run_reaches_the_program_once() {
    let scratch = Scratch::new("forward");
    for signal in ["HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "WINCH", "ALRM"] {
        // It goes on for a while after the first: a second one would be seen.
        let script = format!(
            "trap 'echo got; got=1' {signal}; echo ready; until [ $got ]; do sleep 0.02; done; \
             for i in 1 2 3 4 5; do sleep 0.05; done"
        );
        let (child, _) = started(&scratch, &script);
        kill(child.id(), signal);
        let seen = finish(child);
        assert_eq!(seen.status.code(), Some(0), "{signal}: {}", text(&seen.stderr));
        assert_eq!(written(&scratch).matches("got").count(), 1, "{signal}");
    }
}

#[test]
fn a_program_that_does_not_catch_it_dies_and_so_do_we() {
    let scratch = Scratch::new("forward-die");
    for (signal, number) in [("TERM", 15), ("HUP", 1), ("INT", 2), ("USR1", 10)] {
        let (child, program) = started(&scratch, "echo ready; exec sleep 600");
        until("exec", || fs::read_to_string(format!("/proc/{program}/comm")).is_ok_and(|name| name == "sleep\n"));
        kill(child.id(), signal);
        assert_eq!(finish(child).status.signal(), Some(number));
        assert_eq!(state(program), None);
    }
}

#[test]
fn stopping_and_continuing() {
    let scratch = Scratch::new("stop");
    let (child, program) = started(&scratch, &format!("trap 'echo end; exit 5' USR1; echo ready; {NAP}"));
    let run = child.id();
    // Sent to run alone, as a supervisor would; to the program alone; and again, for the mask must be as before.
    for stopped in [run, program, run] {
        kill(stopped, "TSTP");
        until("both are stopped", || state(program) == Some('T') && state(run) == Some('T'));
        kill(run, "CONT");
        until("both go on", || state(program) != Some('T') && state(run) != Some('T'));
    }
    kill(run, "USR1");
    assert_eq!(finish(child).status.code(), Some(5));
    assert!(written(&scratch).ends_with("end\n"));
}

#[test]
fn the_program_survives_run() {
    let scratch = Scratch::new("survive");
    let (mut child, program) =
        started(&scratch, "trap 'echo alive; exit' USR1; echo ready; while :; do sleep 0.02; done");
    child.kill().expect("killed");
    child.wait().expect("waited");
    assert!(state(program).is_some());
    kill(program, "USR1");
    until("it goes on", || written(&scratch).contains("alive"));
}
