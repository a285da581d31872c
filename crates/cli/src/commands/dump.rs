//! `heapledger dump`: what is allocated, with the stacks that allocated it.

use anyhow::Result;
use heapledger_analysis::{Names, Seen, Selection, query::Scope};
use heapledger_report::{BlocksReport, Context, Form, conversions};
use heapledger_source::Ledger;

use super::figure::FigureArgs;
use super::form::Records;
use super::standard::{ExecutableArgs, FilterArgs, GroupArgs, SortArgs, Usage};
use super::{
    FormArgs, FramesArgs, LedgerArgs, LimitArgs, NamingArgs, Opened, Progress, SourceText, find_names, refresh,
    unless_pipe_closed,
};

mod session;
mod tables;

/// Arguments of `dump`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "heapledger dump [OPTIONS] [EXECUTABLE] <FILE|PID>")]
#[command(after_help = format!("\
Conversions of -f:
{}

Examples:
  heapledger dump heapledger.jq.4711.hl
  heapledger dump 4711                   on a terminal: who holds what
  heapledger dump --sort size --limit 10 4711
  heapledger dump --where 'size >= 4K and fn ~ \"parse\" and age > 10s' 4711
  heapledger dump -Fthread=4 -Fsize_min=1024 -SNs heapledger.jq.4711.hl
  heapledger dump --group-by fn --top 10 4711                who holds what
  heapledger dump --group-by stack --where 'age > 1m' 4711   with call stacks
  heapledger dump --group-by fn --at peak 4711               who held the peak
  heapledger dump --group-by fn --by calls 4711              who calls most
  heapledger dump --columns addr,size,thread,fn --sort size 4711
  heapledger dump -f '%p : %a %n bytes by %f1' heapledger.jq.4711.hl
  heapledger dump --json 4711 | jq -r 'select(.type == \"block\") | .size'", conversions()))]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) sort: SortArgs,
    #[command(flatten)]
    pub(crate) groups: GroupArgs,
    /// Show each block by itself, also on a terminal, where a table of functions stands if no order and no limit is asked for
    #[arg(long)]
    pub(crate) blocks: bool,
    #[command(flatten)]
    pub(crate) figure: FigureArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs<Records>,
    #[command(flatten)]
    pub(crate) frames: FramesArgs,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) executable: ExecutableArgs,
}

/// Shows the live blocks of a ledger.
pub(crate) fn run(mut args: DumpArgs) -> Result<()> {
    args.executable.put_apart(&mut args.ledger.ledger, &mut args.naming)?;
    unless_pipe_closed(show(&args))
}

fn show(args: &DumpArgs) -> Result<()> {
    // Mistakes are told before anything is read.
    if let Some(family) = session::meant(args)? {
        return session::show(args, &family);
    }
    let is_table = args.groups.by()?.is_some() || args.groups.columns()?.is_some();
    args.groups.by()?.map_or_else(|| args.sort.parse().map(drop), |_| args.sort.groups().map(drop))?;
    args.figure.parse(args.groups.by()?.is_some())?;
    match args.form.get().is_of_records() && is_table {
        true => Err(Usage::new("-f and --format ecos are for single blocks, not for tables").into()),
        false => show_opened(args, args.ledger.open()?),
    }
}

/// The same of a ledger that is open.
pub(super) fn show_opened(args: &DumpArgs, opened: Opened) -> Result<()> {
    args.naming.check(&[&opened.ledger])?;
    args.frames.explain(&opened.ledger);
    args.form.check(&opened.ledger)?;
    match (args.groups.by()?, args.groups.columns()?) {
        (Some(by), _) => tables::groups(args, opened, &by, &args.sort.groups()?),
        (_, Some(columns)) => tables::table(args, opened, &columns),
        _ if *args.form.get() == Form::Csv => tables::usual(args, opened),
        _ if tables::begins_with_groups(args) => tables::groups_first(args, opened),
        _ => show_blocks(args, opened),
    }
}

/// The blocks to show, and the names found on the way.
fn select<'l>(args: &DumpArgs, ledger: &'l Ledger, context: &Context) -> Result<(Selection, Names<'l>)> {
    let mut keys = args.sort.get(ledger)?;
    if args.groups.top.is_some() && !args.sort.is_given() {
        keys = args.sort.by_size();
    }
    let limit = args.groups.top.unwrap_or_else(|| args.limit.get(args.form.get()));
    let mut filter = args.filter.evaluator(ledger, context.clock, Scope::Blocks, args.naming.no_names(ledger)?)?;
    let mut progress = Progress::new("reading");
    let selection = Selection::matching(ledger, Some(&mut filter), &keys, limit, &mut |part| progress.show(part))?;
    let mut names = filter.into_names();
    names.pass_over(args.frames.passing());
    if selection.total == 0 {
        args.filter.tell_unknown(ledger, &mut names)?;
    }
    Ok((selection, names))
}

fn show_blocks(args: &DumpArgs, opened: Opened) -> Result<()> {
    let Opened { ledger, mut context, threads_recorded } = opened;
    let (selection, mut names) = select(args, &ledger, &context)?;
    refresh(&ledger, &mut context)?;
    let form = args.form.get();
    find_names(
        &mut names,
        selection.blocks.sites().filter(|_| form.needs_names()),
        SourceText::shown_if(form.needs_source_text()),
    )?;
    let seen = Seen::of(&ledger, selection.in_flight)?;
    let (context, selection) = (&context, &selection);
    let mut report = BlocksReport { context, threads_recorded, selection, names: &mut names, seen };
    args.ledger.view.present(form, &mut report)
}
