//! What the finished ledger of `run` is called, and what is there already under that name.

mod common;

use std::fs;

use common::{Scratch, output, text};
use heapledger_source::Ledger;

#[test]
fn quiet_is_quiet_and_names_can_be_chosen() {
    let scratch = Scratch::new("quiet");
    let ledger = scratch.ledger("sh");
    let run = |options: &[&str]| {
        let seen = output(scratch.run(options).args(["sh", "-c", "kill -TERM $$"]).env("STAND_IN_LEDGER", &ledger));
        text(&seen.stderr)
    };
    assert_eq!(run(&["-q", "-o", "x%%-%n-%p.hl"]), "");
    assert_eq!(scratch.finished(), ["x%-sh-4242.hl"]);
    assert!(run(&["-q", "-o", "x%%-%n-%p.hl"]).contains("was there already: this ledger is x%-sh-4242.hl.1"));
    assert_eq!(run(&["-q", "--force", "-o", "x%%-%n-%p.hl"]), "");
    assert_eq!(scratch.finished(), ["x%-sh-4242.hl", "x%-sh-4242.hl.1"]);
    let ledger = Ledger::open(scratch.cwd().join("x%-sh-4242.hl")).expect("a ledger");
    assert_eq!(ledger.process().number("signal"), Some(15));
}

/// As the help of `--force` has it.
#[test]
fn a_link_is_replaced_and_not_followed() {
    let scratch = Scratch::new("link");
    let (ledger, other, link) = (scratch.ledger("sh"), scratch.cwd().join("other"), scratch.cwd().join("link.hl"));
    fs::write(&other, "mine").expect("written");
    std::os::unix::fs::symlink("other", &link).expect("linked");
    let run = |options: &[&str]| {
        let seen = output(scratch.run(options).args(["sh", "-c", ":"]).env("STAND_IN_LEDGER", &ledger));
        assert!(seen.status.success(), "{}", text(&seen.stderr));
    };
    run(&["-q", "-o", "link.hl"]);
    assert!(link.is_symlink() && Ledger::open(scratch.cwd().join("link.hl.1")).is_ok(), "not without --force");
    run(&["-q", "--force", "-o", "link.hl"]);
    assert!(!link.is_symlink() && Ledger::open(&link).is_ok());
    assert_eq!(fs::read_to_string(&other).expect("there"), "mine");
}
