//! What a look at all blocks is told as: sentences, lines of JSON.

use heapledger_analysis::{Clock, NamedStack, Note, Sampling, Verified};
use heapledger_format::Site;
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_source::{Ledger, SourceError};
use heapledger_testing::{Scratch, everything};
use std::sync::Arc;
use std::time::SystemTime;

use super::*;
use crate::{Context, Paint, Stacks};

struct Nameless;

impl Stacks for Nameless {
    fn stack(&mut self, _: Site) -> Result<NamedStack, SourceError> {
        Ok(NamedStack::default())
    }

    fn notes(&mut self) -> Vec<Note> {
        Vec::new()
    }
}

fn written(form: &Form, level: &str, verified: &Verified, shown: usize) -> String {
    let scratch = Scratch::new("verify");
    let path = scratch.join("x");
    everything(ByteOrder::Little, WordSize::W64).write(&path).expect("written");
    let ledger = Ledger::open(&path).expect("a ledger");
    let context = Context {
        ledger: "4711".to_owned(),
        parts: Vec::new(),
        clock: Clock::new(&ledger, SystemTime::UNIX_EPOCH).expect("a clock"),
        threads: std::collections::HashMap::new(),
        heaps: std::collections::HashMap::new(),
        told: Arc::default(),
        sampling: Sampling::of(&ledger),
        free_depths: ledger.free_depths().expect("marks"),
        paint: Paint::default(),
    };
    let (errors, labels) = (ledger.errors().expect("read"), ledger.labels().expect("read"));
    let damage = ErrorsReport {
        context: &context,
        errors: &errors[..shown],
        origins: &[],
        excused: &[],
        left_out: 0,
        tokens: false,
        labels: &labels,
        names: &mut Nameless,
        seen: Seen::default(),
    };
    let mut report = VerifyReport { damage, verified, level };
    let mut out = Vec::new();
    report.write(form, &mut out).expect("memory");
    let beside = report.beside().join("\n");
    String::from_utf8(out).expect("text") + if *form == Form::Csv { &beside } else { "" }
}

#[test]
fn a_sentence_says_what_was_looked_at() {
    let text = |level, verified: &Verified| written(&Form::Text, level, verified, 0);
    let mut verified = Verified::default();
    assert_eq!(text("light", &verified), "No guarded block was there to look at.\n");
    verified.live = 1;
    assert_eq!(text("light", &verified), "1 block is whole.\n");
    verified.live = 1200;
    assert_eq!(text("light", &verified), "1,200 blocks are whole.\n");
    (verified.waiting, verified.damaged) = (34, 1);
    assert_eq!(text("full", &verified), "1 of 1,234 blocks (1,200 live, 34 freed and waiting) is damaged.\n");
    assert_eq!(text("page", &verified), "1 of 1,234 blocks (1,200 live, 34 freed, in closed pages) is damaged.\n");
    (verified.damaged, verified.unread, verified.is_cut) = (2, 3, true);
    let said = "2 of 1,234 blocks (1,200 live, 34 freed and waiting) are damaged.\n\
        3 more could not be read: blocks whose memory is not there, or parts of the guard's tables.\n\
        Not all were looked at: it took too long.";
    assert_eq!(text("full", &verified), format!("{said}\n"));
    assert!(written(&Form::Csv, "full", &verified, 1).ends_with(said));
}

#[test]
fn programs_have_the_same_behind_the_errors() {
    let verified = Verified { live: 5, waiting: 2, damaged: 1, ..Verified::default() };
    let text = written(&Form::Json, "full", &verified, 1);
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let kinds: Vec<&str> =
        lines.iter().filter_map(|line| line["type"].as_str()).filter(|kind| *kind != "site").collect();
    assert_eq!(kinds, ["header", "error", "verified", "end"]);
    assert_eq!(lines[0]["command"], "verify");
    let expected = r#"{"type":"verified","level":"full","live":5,"waiting":2,"damaged":1,"unread":0,"complete":true}"#;
    assert!(text.lines().any(|line| line == expected), "{text}");
}
