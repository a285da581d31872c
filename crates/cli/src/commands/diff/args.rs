//! Arguments of `diff`.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Evaluator, Scope, SortKeys};
use heapledger_analysis::{Names, Sort};
use heapledger_report::conversions;
use heapledger_source::Ledger;

use crate::commands::figure::At;
use crate::commands::form::{FormArgs, Records};
use crate::commands::proposed::proposed;
use crate::commands::standard::{FilterArgs, SortArgs, groups, listed};
use crate::commands::{FramesArgs, LedgerArgs, NamingArgs, Opened, ViewArgs};
use crate::text::parse_span;

/// Arguments of `diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("\
Two ledgers of one run (two snapshots, or one and the process itself) are
compared by number: an address that is freed and used again fools nobody.
Ledgers of two runs, of two builds too, are compared by stack: by the names of
functions, whatever their lines and addresses are. Stacks that grew come first,
most growth first. One process is compared with itself, by --every or --after.

Examples:
  heapledger diff 4711.0.hl 4711.1.hl          what grew between two snapshots
  heapledger diff --group-by fn 4711.0.hl 4711.1.hl   a table, by function
  heapledger diff --blocks 4711.0.hl 4711.1.hl each new block, each freed one
  heapledger diff 4711.0.hl 4711               since then, in the process itself
  heapledger diff old-build.hl new-build.hl    what the new build holds more
  heapledger diff --at peak heapledger.jq.4711.hl   from its peak to its end
  heapledger diff --at peak old.hl new.hl      what lived at the two peaks
  heapledger diff monday tuesday               two sessions, by program
  heapledger diff --every 10s 4711             what grows now, until Ctrl-C
  heapledger diff --after 1m --group-by fn 4711   what grows within a minute
  heapledger diff --where 'thread == \"io\"' a.hl b.hl  of one thread only
  heapledger diff -Fsize_min=10240 -f '%n bytes at %p by %f1' -SN a.hl b.hl
  heapledger diff --json a.hl b.hl | jq 'select(.change == \"new\")'

Conversions of -f, which shows blocks one by one:
{}", conversions()))]
pub(crate) struct DiffArgs {
    /// Two ledgers, the earlier one first: files, or process ids of programs that are being recorded (which are not
    /// stopped); or one such process with --every or --after; or two sessions of several processes, which are compared by program. The program's executable may stand before them, as with --exe
    #[arg(value_name = "FILE|PID", required = true, num_args = 1..=3)]
    pub(crate) ledgers: Vec<OsString>,
    /// Compare a process with itself at this interval: 500ms, 10s, 1m
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) every: Option<Duration>,
    /// Stop after N intervals
    #[arg(long, value_name = "N", requires = "every", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Compare a process with itself after this time
    #[arg(long, value_name = "TIME", value_parser = parse_span, conflicts_with = "every")]
    pub(crate) after: Option<Duration>,
    /// Of which moment blocks are: with `peak`, what lived when most bytes did; of one ledger, compared with its end
    #[arg(long, value_enum, value_name = "MOMENT", default_value_t = At::End)]
    pub(crate) at: At,
    /// Show blocks one by one; within one run
    #[arg(short, long, conflicts_with_all = ["every", "after"])]
    pub(crate) blocks: bool,
    #[arg(help = format!(
        "Compare sums by one or several of {}; fn, file and module are those of the function that holds a block [default: by \
         call stack]",
        listed(Field::block_groups().filter(|name| *name != Field::Stack.name()))
    ))]
    #[arg(short, long, value_name = "LIST", conflicts_with = "blocks")]
    #[arg(value_parser = proposed(groups), hide_possible_values = true)]
    pub(crate) group_by: Option<String>,
    /// Show at most N of each list, 0 for all [default: 10 stacks, 20 groups or 100 blocks, 5 per interval; all in any
    /// format but text]
    #[arg(short, long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Show the N largest of each list, 0 for all: those that changed most, as --limit does, or with --blocks the
    /// largest blocks
    #[arg(long, value_name = "N", conflicts_with = "limit")]
    pub(crate) top: Option<usize>,
    /// Show N frames of each stack, 0 for all [default: 5; none in intervals]
    #[arg(long, value_name = "N")]
    pub(crate) frames: Option<usize>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) sort: SortArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs<Records>,
    #[command(flatten)]
    pub(crate) lines: FramesArgs,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
    #[command(flatten)]
    pub(crate) view: ViewArgs,
}

impl DiffArgs {
    /// Which blocks of a ledger are meant, as seen at the time of another.
    pub(super) fn filter_for<'a>(&self, opened: &'a Opened, at: &Opened) -> Result<Evaluator<'a>> {
        self.filter.evaluator(&opened.ledger, at.context.clock, Scope::Blocks, self.names(&opened.ledger)?)
    }

    /// What will find names, and has found none yet.
    pub(super) fn names<'a>(&self, ledger: &'a Ledger) -> Result<Names<'a>> {
        let mut names = self.naming.no_names(ledger)?;
        names.pass_over(self.lines.passing());
        Ok(names)
    }

    pub(super) fn limit(&self, otherwise: usize) -> usize {
        self.top.or(self.limit).unwrap_or(if self.form.get().is_for_programs() { 0 } else { otherwise })
    }

    /// The order of blocks.
    pub(super) fn order(&self, ledger: &Ledger) -> Result<SortKeys> {
        if self.top.is_some() && !self.sort.is_given() {
            return Ok(Sort::Size.into());
        }
        self.sort.get(ledger)
    }

    /// Whether blocks are shown one by one.
    pub(super) fn one_by_one(&self) -> bool {
        self.blocks || self.form.get().is_of_records()
    }

    pub(super) fn open(&self, target: &OsStr) -> Result<Opened> {
        let ledger = target.to_owned();
        let opened = LedgerArgs { ledger, view: self.view.clone() }.open()?;
        self.lines.explain(&opened.ledger);
        Ok(opened)
    }
}
