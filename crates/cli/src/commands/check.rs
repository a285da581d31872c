//! `heapledger check`: whether a program kept its limits, for CI.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};
use heapledger_analysis::query::Scope;
use heapledger_analysis::{
    Clock, Evidence, Figure, Finding, Growth, Leaked, Limits, MatchingBlocks, Names, NamingOptions, Note, Responsible,
    SiteTotals, Summary, Suppressions, Verdict, allocated_by_site, check, grown, is_kept_by_design,
};
use heapledger_report::{CheckReport, Form, Paint, Report, ReportError};
use heapledger_source::Ledger;

use super::form::{Checks, unwritten};
use super::standard::{FilterArgs, Usage};
use super::{FormArgs, LedgerArgs, NamingArgs, Progress, unless_pipe_closed};
use crate::terminal::Output;
use heapledger_launch::output::replace;
use heapledger_launch::size::parse_size;

/// Exit code when there is nothing to be checked: wrong usage, no ledger.
const UNUSABLE: u8 = 2;
/// What a comparison allows if nothing is said.
const GROWTH: Growth = Growth::Percent(5.0);
/// Why blocks of the C and the C++ library do not count.
const BY_DESIGN: &str = "kept by the C or C++ library by design (--all-leaks counts it)";

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
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
for exceptions) does not count. A program that runs has no leaks yet: there,
--max-live is what you want. Files for --suppress have lines leak:PATTERN as for
LeakSanitizer: text in a function, source file or module of the stack, with
* ^ $.

In a sampled ledger --max-leaked 0 fails at the first block that was sampled; if
there is none, blocks that were not sampled may have leaked: inconclusive.

Examples:
  heapledger check --max-leaked 0 --suppress known.supp mytest.hl
  heapledger check --max-peak 512M --max-allocs 2000000 mytest.hl
  heapledger check --baseline main.hl --max-growth 2% --format github new.hl
  heapledger check --where 'fn ~ \"cache\"' --max-live 64M 4711
  heapledger check --max-live 64M --format junit -o report.xml mytest.hl")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    /// Most bytes in blocks that live: now, or when the program ended
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_live: Option<u64>,
    /// Most blocks that live
    #[arg(long, value_name = "N")]
    pub(crate) max_live_blocks: Option<u64>,
    /// Most bytes that were not freed when the program ended; 0: not one block
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_leaked: Option<u64>,
    /// Most bytes that lived at a time
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_peak: Option<u64>,
    /// Most allocations
    #[arg(long, value_name = "N")]
    pub(crate) max_allocs: Option<u64>,
    /// Most bytes allocated in all
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_allocated: Option<u64>,
    /// An earlier ledger: live bytes and the peak must not be much above its own
    #[arg(long, value_name = "OLD")]
    pub(crate) baseline: Option<PathBuf>,
    /// How much above: 5%, or a size [default: 5%]
    #[arg(long, value_name = "PERCENT|SIZE", value_parser = parse_growth, requires = "baseline")]
    pub(crate) max_growth: Option<Growth>,
    /// Stacks that may leak, one leak:PATTERN a line; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) suppress: Vec<PathBuf>,
    /// Count also what the C and C++ libraries keep until the end by design
    #[arg(long)]
    pub(crate) all_leaks: bool,
    /// Take the figures as they are in the ledger, whatever it says was not seen
    #[arg(long)]
    pub(crate) allow_losses: bool,
    /// What becomes of a limit of which the ledger does not tell whether it holds: exit status 3, or 0
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Inconclusive::Fail)]
    pub(crate) inconclusive: Inconclusive,
    /// Stacks shown for each limit that is exceeded, 0 for all
    #[arg(short, long, visible_alias = "limit", value_name = "N", default_value_t = 5, value_parser = all_or_some)]
    pub(crate) top: usize,
    #[command(flatten)]
    pub(crate) form: FormArgs<Checks>,
    /// Write it to this file, and the text to standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
}

/// What is made of a limit of which nobody knows whether it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Inconclusive {
    /// It fails the check
    Fail,
    /// It passes
    Pass,
}

/// So many; 0 is all.
fn all_or_some(text: &str) -> Result<usize, std::num::ParseIntError> {
    text.parse().map(|number| if number == 0 { usize::MAX } else { number })
}

/// `5%`, `0.5%`, `4M`.
fn parse_growth(text: &str) -> Result<Growth, String> {
    match text.strip_suffix('%') {
        Some(number) => number
            .trim()
            .parse()
            .ok()
            .filter(|percent: &f64| percent.is_finite() && *percent >= 0.0)
            .map(Growth::Percent)
            .ok_or_else(|| format!("'{text}' is not a percentage such as 5%")),
        None => parse_size(text).map(Growth::Bytes),
    }
}

/// Checks a ledger.
pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode> {
    let mut code = UNUSABLE;
    match unless_pipe_closed(checked(args, &mut code)) {
        Ok(()) => Ok(ExitCode::from(code)),
        Err(problem) => {
            crate::say_problem(&problem);
            Ok(ExitCode::from(UNUSABLE))
        }
    }
}

impl CheckArgs {
    fn limits(&self) -> Result<Limits> {
        let limits = Limits {
            live: self.max_live,
            live_blocks: self.max_live_blocks,
            leaked: self.max_leaked,
            peak: self.max_peak,
            allocations: self.max_allocs,
            allocated: self.max_allocated,
            growth: self.baseline.as_ref().map(|_| self.max_growth.unwrap_or(GROWTH)),
        };
        if limits == Limits::default() {
            bail!(
                "there is no limit to check: give one of --max-live, --max-live-blocks, --max-leaked, --max-peak, \
                 --max-allocs, --max-allocated, --baseline"
            );
        }
        let of_all = limits.peak.or(limits.allocations).or(limits.allocated);
        if of_all.is_some() && !self.filter.parse()?.is_all() {
            return Err(Usage::new(
                "--where and -F choose among live blocks: --max-peak, --max-allocs and --max-allocated are of all blocks",
            )
            .into());
        }
        Ok(limits)
    }

    fn suppressions(&self) -> Result<Suppressions> {
        let mut text = String::new();
        for path in &self.suppress {
            let shown = || path.display().to_string();
            let own = std::fs::read_to_string(path).with_context(shown)?;
            // Each by itself first, so that an error tells the line of its own file.
            Suppressions::parse(&own).with_context(shown)?;
            text += &own;
            text.push('\n');
        }
        Ok(Suppressions::parse(&text)?)
    }
}

fn checked(args: &CheckArgs, code: &mut u8) -> Result<()> {
    let limits = args.limits()?;
    let suppressions = args.suppressions()?;
    let opened = args.ledger.open()?;
    let ledger = &opened.ledger;
    if limits.leaked.is_some() && ledger.is_running() {
        let name = ledger.process().program().unwrap_or_else(|| "the program".to_owned());
        bail!(
            "{name} is running: what it leaks is known when it has ended; --max-live has a limit for what it holds now"
        );
    }
    let baseline = args.baseline.as_deref().map(Baseline::open).transpose()?;
    let both: Vec<&Ledger> = [ledger].into_iter().chain(baseline.as_ref().map(|(ledger, _)| ledger)).collect();
    args.naming.check(&both)?;
    let filtered = !args.filter.parse()?.is_all();
    let mut evidence = evidence(args, ledger, opened.context.clock)?;
    let mut before = baseline.as_ref().map(|(ledger, clock)| self::evidence(args, ledger, *clock)).transpose()?;
    let sites = evidence.sites().to_vec();
    let mut naming = Naming { names: None, args: &args.naming, ledger, sites: &sites };
    let leaked = match limits.leaked {
        Some(_) => Some(leaked(args, &suppressions, &evidence, &mut naming)?),
        None => None,
    };
    // Conditions and suppressions go by names: where these are damaged, fewer blocks may have been counted.
    evidence.renew_damage(ledger);
    if let (Some(before), Some((old, _))) = (&mut before, &baseline) {
        before.renew_damage(old);
    }
    let mut findings = check(&evidence, &limits, leaked.as_ref(), before.as_ref());
    findings.retain(|finding| !(filtered && finding.figure == Figure::PeakGrowth));
    let open = |finding: &&mut Finding| finding.verdict != Verdict::Holds;
    for finding in findings.iter_mut().filter(open) {
        finding.responsible = match (finding.figure, &baseline, &before) {
            (Figure::LiveGrowth | Figure::PeakGrowth, Some((old, _)), Some(before)) => {
                grown_stacks(args, old, before, &sites, naming.all()?)?
            }
            (Figure::Leaked, ..) => naming.some(leaked.as_ref().map_or(&[][..], |leaked| &leaked.sites), args.top)?,
            (Figure::Allocations | Figure::Allocated, ..) => {
                let (by_site, held) = allocated_by_site(ledger, &sites, finding.figure)?;
                finding.of_frees = Some(held);
                naming.some(&by_site, args.top)?
            }
            (Figure::LiveBlocks, ..) => {
                let mut by_blocks = sites.clone();
                by_blocks.sort_by_key(|totals| !totals.blocks);
                naming.some(&by_blocks, args.top)?
            }
            _ => naming.some(&sites, args.top)?,
        };
    }
    let mut seen = evidence.summary.seen.clone();
    seen.notes.extend(naming.names.iter_mut().flat_map(|names| names.notes()));
    let notes = before.iter().flat_map(|before| &before.summary.seen.notes);
    seen.notes.extend(notes.filter(|note| matches!(note, Note::FoundBy(_))).cloned());
    let base = std::env::current_dir().map(|path| format!("{}/", path.display())).unwrap_or_default();
    let mut report = CheckReport {
        ledger: &opened.context.ledger,
        summary: &evidence.summary,
        findings: &findings,
        leaked: leaked.as_ref(),
        lenient: args.inconclusive == Inconclusive::Pass,
        seen: &seen,
        base: &base,
        paint: opened.context.paint,
    };
    *code = report.code();
    write(args, &mut report)
}

/// Writes the report to where it was asked for.
fn write(args: &CheckArgs, report: &mut CheckReport<'_>) -> Result<()> {
    let (view, form) = (&args.ledger.view, args.form.get());
    let paint = report.paint;
    let plain = Paint { exact_bytes: paint.exact_bytes, ..Paint::default() };
    match &args.output {
        None if *form == Form::Text => view.present(form, report),
        None => report.write(form, &mut Output::data()).map_err(unwritten),
        Some(path) => {
            report.paint = plain;
            replace(path, |out| match report.write(form, out) {
                Err(ReportError::Write(error)) => Err(error),
                other => other.map_err(io::Error::other),
            })?;
            report.paint = paint;
            view.present(&Form::Text, report)
        }
    }
}

/// The totals with all call sites, and the live blocks that are meant.
fn evidence(args: &CheckArgs, ledger: &Ledger, clock: Clock) -> Result<Evidence> {
    let mut progress = Progress::new("reading");
    let summary = Summary::of(ledger, clock, usize::MAX, &mut |part| progress.show(part))?;
    let mut filter = args.filter.evaluator(ledger, clock, Scope::Blocks, args.naming.no_names(ledger)?)?;
    let mut held = None;
    if !filter.is_all() {
        let found = MatchingBlocks::of(ledger, &mut filter, &mut |part| progress.show(part))?;
        if found.blocks == 0 {
            args.filter.tell_unknown(ledger, filter.names())?;
        }
        held = Some(found);
    }
    Ok(Evidence::of(ledger, summary, held, args.allow_losses)?)
}

struct Baseline;

impl Baseline {
    fn open(path: &Path) -> Result<(Ledger, Clock)> {
        let ledger = Ledger::open_target(path.as_os_str())?;
        let clock = Clock::new(&ledger, SystemTime::now())?;
        Ok((ledger, clock))
    }
}

/// Names of stacks, as far as they are needed: debug information is gone through once a call.
struct Naming<'a> {
    names: Option<Names<'a>>,
    args: &'a NamingArgs,
    ledger: &'a Ledger,
    sites: &'a [SiteTotals],
}

impl<'a> Naming<'a> {
    /// Names of all stacks that hold blocks.
    fn all(&mut self) -> Result<&mut Names<'a>> {
        self.of(self.sites)
    }

    fn of(&mut self, sites: &[SiteTotals]) -> Result<&mut Names<'a>> {
        let wanted = sites.iter().map(|totals| totals.site);
        let names = match self.names.take() {
            Some(mut names) => {
                names.resolve(wanted, NamingOptions::default(), &mut |_| {})?;
                names
            }
            None => self.args.name(self.ledger, wanted, false)?,
        };
        Ok(self.names.insert(names))
    }

    /// The first `top` of `sites` with their stacks.
    fn some(&mut self, sites: &[SiteTotals], top: usize) -> Result<Vec<Responsible>> {
        let first = sites.get(..top.min(sites.len())).unwrap_or(sites);
        let names = self.of(first)?;
        let with_stack = |totals: &SiteTotals| Ok(Responsible { totals: *totals, stack: names.stack(totals.site)? });
        first.iter().map(with_stack).collect()
    }
}

/// What is held against the program of what it did not free.
fn leaked(
    args: &CheckArgs,
    suppressions: &Suppressions,
    evidence: &Evidence,
    naming: &mut Naming<'_>,
) -> Result<Leaked> {
    if args.all_leaks && suppressions.is_empty() {
        return Ok(Leaked::of(evidence, None));
    }
    let names = naming.all()?;
    let mut excuses: HashMap<u32, String> = HashMap::new();
    for totals in evidence.sites() {
        let stack = names.stack(totals.site)?;
        if let Some(pattern) = suppressions.find(&stack) {
            excuses.insert(totals.site, format!("leak:{pattern}"));
        } else if !args.all_leaks && is_kept_by_design(&stack) {
            excuses.insert(totals.site, BY_DESIGN.to_owned());
        }
    }
    Ok(Leaked::of(evidence, Some(&mut |site| excuses.remove(&site))))
}

/// The stacks that hold more than in the baseline.
fn grown_stacks(
    args: &CheckArgs,
    old: &Ledger,
    before: &Evidence,
    sites: &[SiteTotals],
    names: &mut Names<'_>,
) -> Result<Vec<Responsible>> {
    let mut old_names = args.naming.name(old, before.sites().iter().map(|totals| totals.site), false)?;
    let old_stacks: Result<Vec<_>, _> =
        before.sites().iter().map(|totals| old_names.stack(totals.site).map(|stack| (stack, *totals))).collect();
    let mut grown = grown(sites, &old_stacks?, |site| names.stack(site))?;
    grown.truncate(args.top);
    Ok(grown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_a_percentage_or_a_size() {
        assert_eq!(parse_growth("5%"), Ok(Growth::Percent(5.0)));
        assert_eq!(parse_growth("0.5 %"), Ok(Growth::Percent(0.5)));
        assert_eq!(parse_growth("4M"), Ok(Growth::Bytes(4 << 20)));
        for odd in ["", "%", "-1%", "inf%", "NaN%", "5%%", "x"] {
            assert!(parse_growth(odd).is_err(), "{odd}");
        }
    }
}
