//! The commands that read a ledger. Each opens it, has it reckoned and named, and has it written.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::time::SystemTime;

use anyhow::Result;
use heapledger_analysis::{Clock, Sampling};
use heapledger_format::record::Options;
use heapledger_report::{Context, Form, Paint};
use heapledger_source::Ledger;

use crate::terminal::{Color, Progress};

pub(crate) mod check;
pub(crate) mod diff;
pub(crate) mod dump;
pub(crate) mod flame;
pub(crate) mod form;
mod frames_args;
mod grouped;
pub(crate) mod history;
mod ledgers;
mod naming;
mod proposed;
pub(crate) mod snapshot;
pub(crate) mod standard;
pub(crate) mod stats;
pub(crate) mod top;
pub(crate) mod tree;
pub(crate) mod whereis;

pub(crate) use check::CheckArgs;
pub(crate) use diff::DiffArgs;
pub(crate) use dump::DumpArgs;
pub(crate) use flame::FlameArgs;
pub(crate) use form::FormArgs;
pub(crate) use frames_args::FramesArgs;
pub(crate) use history::HistoryArgs;
pub(crate) use naming::{NamingArgs, find_names};
pub(crate) use snapshot::SnapshotArgs;
pub(crate) use stats::StatsArgs;
pub(crate) use top::TopArgs;
pub(crate) use tree::TreeArgs;
pub(crate) use whereis::WhereisArgs;

/// Blocks or events shown to a person who did not say how many.
const LIMIT: usize = 100;

/// What all reading commands take.
#[derive(Debug, clap::Args)]
pub(crate) struct LedgerArgs {
    /// A ledger, the number of a process that is being recorded (it is not stopped), or a core dump
    #[arg(value_name = "FILE|PID")]
    pub(crate) ledger: OsString,
    #[command(flatten)]
    pub(crate) view: ViewArgs,
}

/// How text is shown.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ViewArgs {
    /// Write bytes exactly, without units; JSON and CSV always do
    #[arg(long)]
    pub(crate) bytes: bool,
    /// When to emphasize with colour
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    pub(crate) color: Color,
    /// Do not show long text through a pager ($HEAPLEDGER_PAGER, $PAGER, less)
    #[arg(long)]
    pub(crate) no_pager: bool,
}

/// How many blocks or events are shown.
#[derive(Debug, clap::Args)]
pub(crate) struct LimitArgs {
    /// Show at most so many, 0 for all [default: 100, of groups 20; all in any format but text]
    #[arg(short, long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

impl LimitArgs {
    fn get(&self, form: &Form) -> usize {
        self.limit.unwrap_or(if form.is_for_programs() { 0 } else { LIMIT })
    }
}

/// A ledger, opened for a report.
struct Opened {
    ledger: Ledger,
    context: Context,
    threads_recorded: bool,
}

impl LedgerArgs {
    /// How text is emphasized, and whether bytes have units.
    pub(crate) fn paint(&self) -> Paint {
        self.view.color.paint(self.view.bytes)
    }

    fn open(&self) -> Result<Opened> {
        self.open_target(&self.ledger)
    }

    /// Opens something else than the first argument.
    fn open_target(&self, target: &OsStr) -> Result<Opened> {
        self.opened(&[target], Ledger::open_target(target)?)
    }

    /// A report on `ledger`, which is the last of several that were named, or the only one.
    fn opened(&self, named: &[&OsStr], ledger: Ledger) -> Result<Opened> {
        let named: Vec<_> = named.iter().map(|name| name.to_string_lossy()).collect();
        let clock = Clock::new(&ledger, SystemTime::now())?;
        let context = Context {
            parts: Vec::new(),
            ledger: named.join(" "),
            clock,
            threads: ledger.threads()?.into_iter().map(|thread| (thread.row, thread)).collect(),
            heaps: ledger.heaps()?.into_iter().map(|heap| (heap.row, heap)).collect::<HashMap<_, _>>(),
            sampling: Sampling::of(&ledger),
            paint: self.paint(),
        };
        let threads_recorded = ledger.header().options.has(Options::THREAD);
        Ok(Opened { ledger, context, threads_recorded })
    }
}

/// What threads are called, again: more may have come while the records of a running program were read.
fn refresh(ledger: &Ledger, context: &mut Context) -> Result<()> {
    if !ledger.is_finished() {
        context.threads = ledger.threads()?.into_iter().map(|thread| (thread.row, thread)).collect();
    }
    Ok(())
}

/// Nobody reads any further (`heapledger dump … | head`): that is no failure.
fn unless_pipe_closed(result: Result<()>) -> Result<()> {
    let closed = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    match result {
        Err(error) if error.chain().any(closed) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(unless_pipe_closed(Err(closed.into())).is_ok());
        assert!(unless_pipe_closed(Err(io::Error::from(io::ErrorKind::StorageFull).into())).is_err());
        assert!(unless_pipe_closed(Ok(())).is_ok());
    }
}
