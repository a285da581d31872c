//! What all commands that read a ledger take, and the ledger, opened.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Result;
use heapledger_analysis::{Clock, Sampling, Told};
use heapledger_format::record::Options;
use heapledger_report::{Context, Form, Paint};
use heapledger_source::{Family, Ledger};

use crate::commands::opening::{OpeningArgs, open_target, whole_session};
use crate::commands::standard::Usage;
use crate::terminal::Color;

/// Blocks or events shown to a person who did not say how many.
const LIMIT: usize = 100;

/// What all reading commands take. It comes last in their arguments, so that help begins with what is their own.
#[derive(Debug, clap::Args)]
pub(crate) struct LedgerArgs {
    /// A ledger, the process id of a program that is being recorded (it is not stopped), a core dump, a log of a device, or
    /// the directory of a session of several processes
    #[arg(value_name = "FILE|PID", help_heading = None::<&str>)]
    pub(crate) ledger: OsString,
    #[command(flatten)]
    pub(crate) view: ViewArgs,
}

/// How text is shown.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "How text is shown")]
pub(crate) struct ViewArgs {
    /// Write bytes exactly, without units; JSON and CSV always do
    #[arg(long)]
    pub(crate) bytes: bool,
    /// When to emphasize with colour
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    pub(crate) color: Color,
    /// Show functions with all that they are instantiated with and take, not `std::map<…>::operator[]`; JSON and CSV
    /// always do
    #[arg(long, help_heading = "Names of functions")]
    pub(crate) full_names: bool,
    /// Do not show long text through a pager ($HEAPLEDGER_PAGER, $PAGER, less)
    #[arg(long)]
    pub(crate) no_pager: bool,
    #[command(flatten)]
    pub(crate) opening: OpeningArgs,
}

impl ViewArgs {
    /// How text is emphasized, whether bytes have units, and whether functions have their whole names.
    pub(crate) fn paint(&self) -> Paint {
        Paint { full_names: self.full_names, ..self.color.paint(self.bytes) }
    }
}

/// How many blocks or events are shown.
#[derive(Debug, clap::Args)]
pub(crate) struct LimitArgs {
    /// Show at most N, 0 for all [default: 100, 20 groups; all in any format but text]
    #[arg(short, long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

impl LimitArgs {
    pub(super) fn get(&self, form: &Form) -> usize {
        self.limit.unwrap_or(if form.is_for_programs() { 0 } else { LIMIT })
    }
}

/// A ledger, opened for a report.
pub(crate) struct Opened {
    pub(super) ledger: Ledger,
    pub(super) context: Context,
    pub(super) threads_recorded: bool,
}

impl LedgerArgs {
    /// How text is written.
    pub(crate) fn paint(&self) -> Paint {
        self.view.paint()
    }

    /// The session that was named, if it is meant as a whole.
    pub(super) fn session(&self) -> Result<Option<Family>> {
        whole_session(&self.ledger, &self.view.opening.members)
    }

    pub(super) fn open(&self) -> Result<Opened> {
        self.open_target(&self.ledger)
    }

    /// Opens something else than the first argument.
    pub(super) fn open_target(&self, target: &OsStr) -> Result<Opened> {
        self.opened(&[target], open_target(target, &self.view.opening)?)
    }

    /// A report on `ledger`, which is the last of several that were named, or the only one.
    pub(super) fn opened(&self, named: &[&OsStr], ledger: Ledger) -> Result<Opened> {
        let named: Vec<_> = named.iter().map(|name| name.to_string_lossy()).collect();
        let clock = Clock::new(&ledger, SystemTime::now())?;
        let context = Context {
            parts: Vec::new(),
            ledger: named.join(" "),
            clock,
            threads: ledger.threads()?.into_iter().map(|thread| (thread.row, thread)).collect(),
            heaps: ledger.heaps()?.into_iter().map(|heap| (heap.row, heap)).collect::<HashMap<_, _>>(),
            told: Arc::new(Told::of(&ledger)?),
            sampling: Sampling::of(&ledger),
            free_depths: ledger.free_depths()?,
            paint: self.paint(),
        };
        let threads_recorded = ledger.header().options.has(Options::THREAD);
        Ok(Opened { ledger, context, threads_recorded })
    }
}

/// Refuses to look for addresses in a ledger without any.
pub(crate) fn needs_addresses(ledger: &Ledger) -> Result<()> {
    if ledger.header().options.has(Options::ADDRESS) {
        return Ok(());
    }
    let shown = ledger.path().display();
    Err(Usage::new(format!("{shown} tells of sizes and stacks alone: no address is known, so none can be looked for"))
        .into())
}

/// What threads are called, again: more may have come while the records of a running program were read.
pub(crate) fn refresh(ledger: &Ledger, context: &mut Context) -> Result<()> {
    if !ledger.is_finished() {
        context.threads = ledger.threads()?.into_iter().map(|thread| (thread.row, thread)).collect();
        context.told = Arc::new(Told::of(ledger)?);
    }
    Ok(())
}
