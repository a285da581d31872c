//! What cannot be answered is refused with the reason, before anything is shown.

mod common;

use std::process::Output;

use common::{Scratch, heapledger, output};
use heapledger_source::testing::Builder;

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
