//! Backtraces on their way out, many at a time where their functions are to be looked up.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use heapledger_analysis::NamedStack;
use heapledger_logs::draft::{DraftShape, LedgerDraft, unknown_block};
use heapledger_logs::lws::{LoggedTrace, TraceAt};
use heapledger_report::{DecodedTrace, Form};
use heapledger_source::Ledger;

use super::DecodeArgs;
use crate::commands::SourceText;
use crate::say;

/// So many are named at a time: memory does not grow with the log.
const NAMED_AT_ONCE: usize = 20_000;

pub(super) struct Batch<'a> {
    args: &'a DecodeArgs,
    kept: Vec<(u64, LoggedTrace)>,
    /// Those that were read, and those that could not be.
    pub(super) shown: u64,
    pub(super) unread: u64,
    unmarked: u64,
    first_unmarked: Option<String>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(args: &'a DecodeArgs) -> Batch<'a> {
        Batch { args, kept: Vec::new(), shown: 0, unread: 0, unmarked: 0, first_unmarked: None }
    }

    /// One more: printed at once, unless its functions are wanted.
    pub(super) fn add(&mut self, found: TraceAt, out: &mut dyn Write) -> io::Result<()> {
        match found.trace {
            // It may be other text: who knows before the end?
            Err(reason) if !found.marked => {
                self.unmarked += 1;
                self.first_unmarked.get_or_insert_with(|| format!("line {} did not decode: {reason}", found.line));
                Ok(())
            }
            Err(reason) => {
                self.unread += 1;
                let what = if self.args.texts.is_empty() { "line" } else { "text" };
                say(&format!("{what} {} did not decode: {reason}", found.line));
                Ok(())
            }
            Ok(trace) if self.args.naming.exe.is_empty() => self.write(found.line, &trace, None, out),
            Ok(trace) => {
                self.kept.push((found.line, trace));
                if self.kept.len() < NAMED_AT_ONCE { Ok(()) } else { self.flush(out).map_err(io::Error::other) }
            }
        }
    }

    /// Lines without the three characters that are no backtraces are none, unless there is nothing else.
    pub(super) fn end(&mut self) {
        if self.shown == 0 && self.unread == 0 && self.unmarked != 0 {
            self.unread = self.unmarked;
            say(&self.first_unmarked.take().unwrap_or_default());
        }
    }

    /// Prints those that were kept, with their functions.
    pub(super) fn flush(&mut self, out: &mut dyn Write) -> Result<()> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let kept = std::mem::take(&mut self.kept);
        let mut draft = LedgerDraft::new(DraftShape::default());
        let mut sites = Vec::with_capacity(kept.len());
        for (_, trace) in &kept {
            let site = draft.stack(&trace.frames);
            let number = draft.number();
            draft.block(&unknown_block(number, trace.size, site))?;
            sites.push(site);
        }
        let ledger = Ledger::of_file(draft.finish()?, Path::new("-"))?;
        self.args.naming.check(&[&ledger])?;
        let mut names = self.args.naming.name(&ledger, sites.iter().copied(), SourceText::NotShown)?;
        for ((line, trace), site) in kept.iter().zip(sites) {
            let stack = names.stack(site)?;
            self.write(*line, trace, Some(&stack), out)?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        line: u64,
        trace: &LoggedTrace,
        stack: Option<&NamedStack>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.shown += 1;
        let lenient = trace.lenient.as_ref().map(|problem| (problem.bit, problem.what.to_string()));
        let (size, frames, high_lost) = (trace.size, &trace.frames[..], trace.high_lost);
        let dialect = trace.dialect.map(heapledger_lws::Dialect::name);
        let decoded = DecodedTrace { line, size, frames, dialect, high_lost, lenient, stack };
        match self.args.form.get() {
            Form::Json => decoded.json(out),
            _ => decoded.text(self.args.view.paint(), out),
        }
    }
}
