//! `heapledger stats`: totals.

use anyhow::Result;
use heapledger_analysis::query::Scope;
use heapledger_analysis::{Summary, peak_by_site};
use heapledger_format::Site;
use heapledger_report::{Form, StatsReport};

use super::figure::At;
use super::form::Totals;
use super::standard::{ExecutableArgs, FilterArgs, Usage};

use super::{FormArgs, LedgerArgs, NamingArgs, Progress, SourceText, find_names, unless_pipe_closed};

mod session;

/// Threads shown to a person who did not ask for all.
const THREADS: usize = 40;

/// Arguments of `stats`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "heapledger stats [OPTIONS] [EXECUTABLE] <FILE|PID>")]
#[command(after_help = "\
Examples:
  heapledger stats heapledger.jq.4711.hl
  heapledger stats 4711                 a process that runs under heapledger now
  heapledger stats --at peak heapledger.jq.4711.hl
  heapledger stats --where 'fn ~ \"^parse\"' 4711   of these blocks only
  heapledger stats build                a session of several processes
  heapledger stats --json 4711 | jq 'select(.type == \"stats\").live_bytes'")]
pub(crate) struct StatsArgs {
    /// Show the N call sites that hold most, 0 for all
    #[arg(short, long, visible_alias = "limit", value_name = "N", default_value_t = 5)]
    pub(crate) top: usize,
    /// Of which moment the call sites are: the last one, or the one at which most bytes lived
    #[arg(long, value_enum, value_name = "MOMENT", default_value_t = At::End)]
    pub(crate) at: At,
    /// Show all threads, not only the 40 that hold most; of a session each process
    #[arg(short, long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs<Totals>,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) executable: ExecutableArgs,
}

/// Shows the totals of a ledger.
pub(crate) fn run(mut args: StatsArgs) -> Result<()> {
    args.executable.put_apart(&mut args.ledger.ledger, &mut args.naming)?;
    unless_pipe_closed(show(&args))
}

fn show(args: &StatsArgs) -> Result<()> {
    // Mistakes are told before anything is read.
    let asked = args.filter.parse()?;
    let form = args.form.get();
    if *form == Form::Ecos && asked.expr().is_some() {
        return Err(Usage::new("--format ecos has the totals of the whole program: leave --where and -F away").into());
    }
    if let Some(family) = args.ledger.session()? {
        return session::show(args, &family);
    }
    let opened = args.ledger.open()?;
    let ledger = &opened.ledger;
    args.naming.check(&[ledger])?;
    let clock = opened.context.clock;
    let mut filter = args.filter.evaluator(ledger, clock, Scope::Events, args.naming.no_names(ledger)?)?;
    let mut progress = Progress::new("reading");
    let top = if args.top == 0 { usize::MAX } else { args.top };
    let mut summary = Summary::matching(ledger, clock, top, Some(&mut filter), &mut |part| progress.show(part))?;
    drop(progress);
    if args.at == At::Peak {
        let of_peak = if asked.is_all() { peak_by_site(ledger)? } else { None };
        summary.sites.top = of_peak.ok_or_else(|| args.at.not_known(asked.is_all()))?;
        summary.sites.top.truncate(top);
        summary.sites.at_peak = true;
    }
    // ecosmdd shows no stacks.
    let shown = if *form == Form::Ecos { &[][..] } else { &summary.sites.top };
    let sites: Vec<Site> = shown.iter().map(|totals| totals.site).collect();
    let mut names = filter.into_names();
    if summary.live_blocks == 0 && summary.chosen.as_ref().is_some_and(|chosen| chosen.blocks == 0) {
        args.filter.tell_unknown(ledger, &mut names)?;
    }
    find_names(&mut names, sites.iter().copied(), SourceText::shown_if(args.form.is_json()))?;
    let stacks = sites.iter().map(|site| names.stack(*site)).collect::<Result<Vec<_>, _>>()?;
    summary.seen.notes.extend(names.notes());
    let mut report = StatsReport {
        ledger: &opened.context.ledger,
        summary: &summary,
        top: &stacks,
        modules: &ledger.modules()?,
        threads: if args.all { 0 } else { THREADS },
        paint: opened.context.paint,
    };
    args.ledger.view.present(form, &mut report)
}
