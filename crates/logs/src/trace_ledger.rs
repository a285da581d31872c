//! A ledger of libwebsockets' lines: sizes and stacks of what was live when they were printed, in their order.

use std::io;

use heapledger_format::session::process::LOG;
use heapledger_lws::Dialect;

use crate::counted;
use crate::draft::{DraftShape, LedgerDraft, unknown_block};
use crate::lines::LINE_BYTES_MAX;
use crate::lws::{LoggedTrace, TraceAt};

/// A ledger that is being made.
#[derive(Debug)]
pub struct TraceLedger {
    draft: LedgerDraft,
    bad: u64,
    first_bad: Option<String>,
    high_lost: u64,
    lenient: u64,
    first_lenient: Option<String>,
    by_other_builds: u64,
    cut: u64,
    first_cut: u64,
}

impl TraceLedger {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "an empty one is no usual ledger")]
    pub fn new() -> TraceLedger {
        let draft = LedgerDraft::new(DraftShape::default());
        TraceLedger {
            draft,
            bad: 0,
            first_bad: None,
            high_lost: 0,
            lenient: 0,
            first_lenient: None,
            by_other_builds: 0,
            cut: 0,
            first_cut: 0,
        }
    }

    /// Takes one more.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, found: &TraceAt) -> io::Result<()> {
        match &found.trace {
            Ok(trace) => self.good(found.line, trace),
            Err(reason) => {
                self.bad += 1;
                self.first_bad.get_or_insert_with(|| format!("line {}, {reason}", found.line));
                Ok(())
            }
        }
    }

    fn good(&mut self, line: u64, trace: &LoggedTrace) -> io::Result<()> {
        self.high_lost += u64::from(trace.high_lost);
        if let Some(problem) = &trace.lenient {
            self.lenient += 1;
            self.first_lenient.get_or_insert_with(|| format!("line {line}, {problem}"));
        }
        self.by_other_builds += u64::from(matches!(trace.dialect, Some(Dialect::FewSpacers | Dialect::FewestSpacers)));
        let site = self.draft.stack(&trace.frames);
        let number = self.draft.number();
        self.draft.block(&unknown_block(number, trace.size, site))
    }

    /// A line with backtraces was longer than is read.
    pub(crate) fn cut(&mut self, line: u64) {
        if self.cut == 0 {
            self.first_cut = line;
        }
        self.cut += 1;
    }

    /// Backtraces that were read.
    pub fn blocks(&self) -> u64 {
        self.draft.blocks()
    }

    /// Backtraces that could not be read.
    pub fn bad(&self) -> u64 {
        self.bad
    }

    /// What is known of the whole.
    pub fn process(&mut self, key: &str, value: &str) {
        self.draft.process(key, value);
    }

    /// The ledger.
    pub fn draft(mut self) -> LedgerDraft {
        self.draft.process(LOG, "libwebsockets");
        if self.bad != 0 {
            let first = self.first_bad.take().unwrap_or_default();
            let lines = if self.bad == 1 { "backtrace" } else { "backtraces" };
            self.draft.missing(&format!("{} {lines} could not be read; the first: {first}.", self.bad));
        }
        if self.cut != 0 {
            self.draft.missing(&too_long(self.cut, self.first_cut));
        }
        if self.lenient != 0 {
            let first = self.first_lenient.take().unwrap_or_default();
            self.draft.remark(&format!("{} read leniently; the first: {first}.", backtraces(self.lenient)));
        }
        if self.high_lost != 0 {
            self.draft.remark(&format!(
                "{} with values of 2^31 or more, whose upper bits libwebsockets destroys on 64 bits: such frames have no names.",
                backtraces(self.high_lost)
            ));
        }
        if self.by_other_builds != 0 {
            self.draft.remark(&format!(
                "{} of a build of libwebsockets (clang 15 or later, optimized) whose lines its own tool cannot read.",
                backtraces(self.by_other_builds)
            ));
        }
        self.draft
    }
}

/// Of lines that are too long the rest was not read.
pub(crate) fn too_long(lines: u64, first: u64) -> String {
    let what = counted(lines, "line is", "lines are");
    format!(
        "{what} longer than {} KiB, and what stands behind that was not read; the first: line {first}.",
        LINE_BYTES_MAX >> 10
    )
}

fn backtraces(number: u64) -> String {
    counted(number, "backtrace was", "backtraces were")
}
