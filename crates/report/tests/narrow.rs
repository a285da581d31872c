//! Totals on narrow terminals: a figure is whole or not there, and what is not there is named.

use std::time::SystemTime;

use heapledger_analysis::{Clock, Summary};
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_report::{Form, Paint, Report, StatsReport};
use heapledger_source::Ledger;
use heapledger_testing::{Scratch, everything};

fn totals(columns: usize) -> String {
    let scratch = Scratch::new("narrow");
    let path = scratch.join("x");
    everything(ByteOrder::Little, WordSize::W64).write(&path).expect("written");
    let ledger = Ledger::open(&path).expect("a ledger");
    let clock = Clock::new(&ledger, SystemTime::UNIX_EPOCH).expect("a clock");
    let summary = Summary::of(&ledger, clock, 0, &mut |_| {}).expect("read");
    let paint = Paint { columns, ..Paint::default() };
    let mut report = StatsReport { ledger: "x", summary: &summary, top: &[], modules: &[], threads: 0, paint };
    let mut out = Vec::new();
    report.write(&Form::Text, &mut out).expect("memory");
    String::from_utf8(out).expect("text")
}

/// The lines of a part, by words.
fn part<'t>(text: &'t str, from: &str, to: &str) -> Vec<Vec<&'t str>> {
    let inside = text.lines().skip_while(|line| !line.starts_with(from)).take_while(|line| !line.starts_with(to));
    inside.map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn figures_are_whole_or_named_as_missing() {
    let wide = totals(0);
    let parts = [("Allocators", "Threads"), ("Threads", "Accounts"), ("Accounts", "Options")];
    let figures: Vec<Vec<&str>> = part(&wide, "Allocators", "Threads");
    assert!(figures.len() > 3, "{wide}");
    for columns in 30..110 {
        let text = totals(columns);
        for (from, to) in parts {
            let lines = part(&text, from, to);
            assert!(lines.len() > 2, "{columns}: {text}");
            for line in &lines {
                assert!(!line.iter().any(|word| word.ends_with('…')), "{columns}: {line:?} in {text}");
            }
            let wide = part(&wide, from, to);
            let words = |lines: &[Vec<&str>]| lines.iter().flatten().filter(|word| word.parse::<u64>().is_ok()).count();
            let is_told = lines.iter().any(|line| line.starts_with(&["(no", "room"]));
            // (Handles of threads are left out without a word: they are for debuggers.)
            assert!(is_told || words(&lines) >= words(&wide), "{columns}: {text}");
        }
    }
    let narrow = totals(60);
    assert!(narrow.contains("  KIND") && narrow.contains("LIVE BLOCKS"), "{narrow}");
}
