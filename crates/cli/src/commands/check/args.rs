//! Arguments of `check`, and what they come to: limits.

use std::path::PathBuf;

use anyhow::{Result, bail};
use heapledger_analysis::{Growth, Limits};
use heapledger_launch::size::parse_size;
use heapledger_report::Form;

use super::CheckedOf;
use super::growth::{USUAL, all_or_some, parse_growth};
use crate::commands::form::Forms;
use crate::commands::standard::{ExecutableArgs, FilterArgs, SuppressArgs, Usage};
use crate::commands::{FormArgs, LedgerArgs, NamingArgs};

/// Forms of a check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checks;

impl Forms for Checks {
    const ALL: &'static [Form] = &[Form::Text, Form::Json, Form::Junit, Form::Sarif, Form::Github];
}

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "heapledger check [OPTIONS] [EXECUTABLE] <FILE|PID>")]
#[command(after_help = "\
Exit status: 0 all limits hold, 1 a limit is exceeded for certain, 2 nothing
could be checked (wrong usage, no ledger), 3 inconclusive: no limit is known to
be exceeded, but of one the ledger does not tell whether it holds. That is so
where the figure is nearer to the limit than it may be off: the peak of several
threads (it is told with its error), estimates of a sampled ledger (twice their
standard error), and figures from which blocks, frees or stacks are missing
(full disk, signals, RTLD_DEEPBIND, damage). --inconclusive pass makes it 0;
--allow-losses takes figures as if nothing were missing.

Not freed (--max-leaked) is every block that was still allocated when the
program ended, whether or not a pointer to it was left. What the C and C++
libraries keep until the end by design (buffers of streams, the emergency pool
for exceptions, glibc's locales, name services, time zones and environment,
what the loader holds for libraries) does not count. A program that runs has
no leaks yet: there, --max-live is what you want. Files for --suppress have
lines leak:PATTERN as for LeakSanitizer: text in a function, source file or
module of the stack, with * ^ $. For --max-errors they have error:PATTERN or
the kind of error, double-free:PATTERN; the pattern is looked for in all
stacks of an error.

In a sampled ledger --max-leaked 0 fails at the first block that was sampled; if
there is none, blocks that were not sampled may have leaked: inconclusive.

Of a session of several processes limits are those of each process, unless
--of says otherwise. Processes of which nothing is known leave it
inconclusive. What a program held when its process became another one (exec)
lives no longer.

Examples:
  heapledger check --max-leaked 0 --suppress known.supp mytest.hl
  heapledger check --max-peak 512M --max-allocs 2000000 mytest.hl
  heapledger check --max-leaked 0 --format junit -o report.xml build
  heapledger check --baseline main.hl --max-growth 2% --format github new.hl
  heapledger check --where 'fn ~ \"cache\"' --max-live 64M 4711
  heapledger check --max-live 64M --format junit -o report.xml mytest.hl")]
pub(crate) struct CheckArgs {
    /// Limit for live bytes: now, or when the program ended
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_live: Option<u64>,
    /// Limit for live blocks
    #[arg(long, value_name = "N")]
    pub(crate) max_live_blocks: Option<u64>,
    /// Limit for bytes that were not freed when the program ended; 0: not one block
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_leaked: Option<u64>,
    /// Limit for the peak: bytes live at the same time
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_peak: Option<u64>,
    /// Limit for the number of allocations
    #[arg(long, value_name = "N")]
    pub(crate) max_allocs: Option<u64>,
    /// Limit for bytes allocated in total
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_allocated: Option<u64>,
    /// Limit for errors that were found (double frees and the like): see `heapledger errors`
    #[arg(long, value_name = "N")]
    pub(crate) max_errors: Option<u64>,
    /// An earlier ledger to compare with: live bytes and the peak may exceed it by at most --max-growth
    #[arg(long, value_name = "OLD")]
    pub(crate) baseline: Option<PathBuf>,
    /// How far live bytes and the peak may exceed those of --baseline: a percentage or a size [default: 5%]
    #[arg(long, value_name = "PERCENT|SIZE", value_parser = parse_growth, requires = "baseline", allow_hyphen_values = true)]
    pub(crate) max_growth: Option<Growth>,
    /// Of a session, whether limits are those of each process, of all processes together, or both
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = CheckedOf::Each)]
    pub(crate) of: CheckedOf,
    #[command(flatten)]
    pub(crate) suppress: SuppressArgs,
    /// Also count what the C and C++ libraries keep until the end by design
    #[arg(long)]
    pub(crate) all_leaks: bool,
    /// Trust the figures of the ledger even if it says that something was not recorded
    #[arg(long)]
    pub(crate) allow_losses: bool,
    /// What an inconclusive limit (the ledger does not tell whether it holds) does: exit status 3, or 0
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Inconclusive::Fail)]
    pub(crate) inconclusive: Inconclusive,
    /// Show N stacks for each exceeded limit, 0 for all
    #[arg(short, long, visible_alias = "limit", value_name = "N", default_value_t = 5, value_parser = all_or_some)]
    pub(crate) top: usize,
    #[command(flatten)]
    pub(crate) form: FormArgs<Checks>,
    /// Write the report to this file, and text to standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) executable: ExecutableArgs,
}

/// What is made of a limit of which nobody knows whether it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Inconclusive {
    /// It fails the check
    Fail,
    /// It passes
    Pass,
}

impl CheckArgs {
    pub(super) fn limits(&self) -> Result<Limits> {
        let limits = Limits {
            live: self.max_live,
            live_blocks: self.max_live_blocks,
            leaked: self.max_leaked,
            peak: self.max_peak,
            allocations: self.max_allocs,
            allocated: self.max_allocated,
            errors: self.max_errors,
            growth: self.baseline.as_ref().map(|_| self.max_growth.unwrap_or(USUAL)),
        };
        if limits == Limits::default() {
            bail!(
                "there is no limit to check: give one of --max-live, --max-live-blocks, --max-leaked, --max-peak, \
                 --max-allocs, --max-allocated, --max-errors, --baseline"
            );
        }
        let of_all = limits.peak.or(limits.allocations).or(limits.allocated).or(limits.errors);
        if of_all.is_some() && !self.filter.parse()?.is_all() {
            return Err(Usage::new(
                "--where and -F choose live blocks: --max-peak, --max-allocs, --max-allocated and --max-errors are of all",
            )
            .into());
        }
        Ok(limits)
    }
}
