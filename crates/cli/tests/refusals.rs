//! What cannot be answered is refused with the reason, before anything is shown; what is missing is named.

mod common;

use std::process::Output;

use common::{Scratch, heapledger, output};
use heapledger_format::TallyCounter;
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::record::Options;
use heapledger_testing::{Builder, everything};

/// Runs it where the ledgers are.
fn ran(scratch: &Scratch, words: &[&str]) -> Output {
    output(heapledger().args(words).current_dir(scratch.cwd()).env("LANG", "C.UTF-8"))
}

fn refused(scratch: &Scratch, words: &[&str], status: i32, reason: &str) {
    let output = ran(scratch, words);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(status) && error.contains(reason), "{words:?}: {} {error}", output.status);
    assert!(output.stdout.is_empty(), "{words:?}");
}

#[test]
fn broken_globs() {
    let scratch = Scratch::new("refusals-globs");
    Builder::new().write(&scratch.cwd().join("x.hl")).expect("written");
    for command in ["dump", "history"] {
        refused(&scratch, &[command, "-I", "[", "x.hl"], 2, "a '[' has no ']'");
        assert!(ran(&scratch, &[command, "-I", "*.[ch]", "x.hl"]).status.success(), "{command}");
    }
    refused(&scratch, &["diff", "-I", "*\\", "x.hl", "x.hl"], 2, "ends in a backslash");
}

/// A ledger without what these options stand for, of a run of its own if `run` is not that of others.
fn without(scratch: &Scratch, name: &str, run: u8, options: u32) {
    let mut builder = Builder::new();
    builder.id([run; 16]).options(Options(Options::ALL.0 & !options)).block(0x1000, 16);
    builder.write(&scratch.cwd().join(name)).expect("written");
}

#[test]
fn what_was_not_recorded_is_no_comparison() {
    let scratch = Scratch::new("refusals-stacks");
    for (name, run, options) in [("all", 1, 0), ("bare", 1, Options::STACK), ("other", 2, Options::STACK)] {
        without(&scratch, name, run, options);
    }
    let reason =
        |ledger: &str, asked: &str| format!("{ledger}: '{asked}' cannot be asked of this ledger: it records no");
    refused(&scratch, &["diff", "all", "other"], 1, &reason("other", "stack"));
    refused(&scratch, &["diff", "other", "all", "--json"], 1, &reason("other", "stack"));
    refused(&scratch, &["diff", "all", "bare", "--group-by", "stack"], 1, &reason("bare", "stack"));
    refused(&scratch, &["diff", "all", "other", "--group-by", "fn"], 1, &reason("other", "fn"));
    for more in [&["--blocks"][..], &["--group-by", "size"]] {
        assert!(ran(&scratch, &[&["diff", "all", "bare"], more].concat()).status.success(), "{more:?}");
    }
}

#[test]
fn threads_that_were_not_recorded_are_no_groups() {
    let scratch = Scratch::new("refusals-threads");
    without(&scratch, "x", 1, Options::THREAD);
    let reason = "'thread' cannot be asked of this ledger: it records no threads";
    for words in [
        &["tree", "--threads", "x"][..],
        &["tree", "--threads", "--json", "x"],
        &["flame", "--threads", "-o", "x.html", "x"],
        &["top", "--batch", "1", "--group-by", "thread", "x"],
        &["top", "--batch", "1", "--json", "--group-by", "thread", "x"],
    ] {
        refused(&scratch, words, 1, reason);
    }
    assert!(ran(&scratch, &["tree", "x"]).status.success());
}

#[test]
fn a_ledger_without_a_history_says_so() {
    let scratch = Scratch::new("refusals-history");
    let mut builder = Builder::new();
    builder.options(Options(Options::ALL.0 & !Options::HISTORY)).block(0x1000, 16);
    builder.tally(TallyCounter::Frees, 313).write(&scratch.cwd().join("x")).expect("written");
    let reason = "freed blocks were not recorded (--history 0): 313 ";
    for words in [
        &["history", "x"][..],
        &["history", "--addr", "0x1000", "x"],
        &["history", "-f", "%p", "x"],
        &["whereis", "x", "0x1000"],
        &["tree", "--by", "freed", "x"],
        &["tree", "--by", "allocated-blocks", "x"],
        &["flame", "--format", "html", "-o", "-", "x"],
    ] {
        let output = ran(&scratch, words);
        let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && told.contains(reason) && !told.contains("no longer"), "{words:?}: {told}");
    }
    let live = String::from_utf8_lossy(&ran(&scratch, &["tree", "x"]).stdout).into_owned();
    assert!(!live.contains("Caution"), "{live}");
}

#[test]
fn marks_and_windows_are_asked_for_by_name() {
    let scratch = Scratch::new("refusals-marks");
    Builder::new().block(0x1000, 16).write(&scratch.cwd().join("plain")).expect("written");
    everything(ByteOrder::Little, WordSize::W64).write(&scratch.cwd().join("told")).expect("written");
    let refusal = "'since' cannot be asked of this ledger: its program set no mark";
    refused(&scratch, &["dump", "--since", "warm", "plain"], 1, refusal);
    refused(&scratch, &["top", "--batch", "1", "--window", "1st", "plain"], 1, "its program opened no window");
    let numbers = |words: &[&str]| -> Vec<u64> {
        let output = ran(&scratch, &[&["dump", "-S", "s", "-f", "%s", "told"], words].concat());
        assert!(output.status.success(), "{words:?}");
        String::from_utf8_lossy(&output.stdout).lines().map(|line| line.parse().expect("a number")).collect()
    };
    let all = numbers(&[]);
    let of = |numbers: std::ops::Range<u64>| -> Vec<u64> {
        all.iter().copied().filter(|number| numbers.contains(number)).collect()
    };
    assert_eq!(numbers(&["--since", "warm"]), of(21..u64::MAX));
    assert_eq!(numbers(&["--window", "requests"]), of(31..50));
    assert_eq!(numbers(&["--window", "requests", "--since", "warm", "--where", "number < 40"]), of(31..40));
    assert!(of(31..40).len() < of(31..50).len() && of(31..50).len() < of(21..u64::MAX).len());
    let misspelt = ran(&scratch, &["dump", "--since", "warmed", "told"]);
    let told = String::from_utf8_lossy(&misspelt.stderr).into_owned();
    assert!(told.contains("no mark of this ledger is named \"warmed\"; did you mean \"warm\"?"), "{told}");
}
