//! `heapledger history`: allocations and frees in the order in which they happened, or the lives of one address.

use std::ffi::{OsStr, OsString};

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Evaluator, EventColumn, GroupField, Scope, SortKeys};
use heapledger_analysis::{Events, Names, Seen, Sort, Wanted};
use heapledger_report::{EventsReport, conversions};
use heapledger_source::Ledger;

use super::form::Records;
use super::ledgers::{MoreLedgers, open_run};
use super::proposed::proposed;
use super::standard::{FilterArgs, GroupArgs, SortArgs, Usage, listed, sort_help};
use super::{
    FormArgs, FramesArgs, LedgerArgs, LimitArgs, NamingArgs, Opened, Progress, find_names, refresh, unless_pipe_closed,
};
use crate::say;

mod lives;
mod tables;

/// Arguments of `history`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "heapledger history [OPTIONS] [EXECUTABLE] <FILE|PID>...")]
#[command(
    mut_arg("sort", |arg| arg.help(
        format!("{}, those of the event itself where it has them [default: time,number]", sort_help())
    )),
    mut_arg("group_by", |arg| arg.value_parser(proposed(|| Field::groups(true).collect())).help(
        format!(
            "Add events up by one or several of {}, {} of the event itself; allocations and frees are always told apart. \
             --sort takes {} then",
            Field::Event,
            listed(Field::groups(false)),
            listed(GroupField::names())
        )
    )),
    mut_arg("top", |arg| arg.help(
        "Show the N largest, 0 for all: groups as --limit does, events in the order of their blocks' size unless --sort \
         or -S is given"
    )),
    mut_arg("columns", |arg| arg.value_parser(proposed(|| EventColumn::names().collect())).help(
        format!(
            "Show events as a table with these columns: {}; of the block's allocation and of its free alloc_ and free_ \
             with {}",
            listed(EventColumn::own_names()),
            listed(EventColumn::end_names())
        )
    ))
)]
#[command(after_help = format!("\
The ledger holds every block that is allocated, and the frees of the most recent
past with the blocks that they ended: see --history of `heapledger run`. Several
ledgers of one run (snapshots, say) are one history: all the frees that any of
them holds, and what lives by the last.

Conversions of -f, in which a record is an allocation or a free:
{}

Examples:
  heapledger history heapledger.jq.4711.hl
  heapledger history --reverse --limit 20 4711   what happened last
  heapledger history --addr 0x55d0c0ffee10 4711  all blocks that contained it
  heapledger history --where 'fn ~ \"^parse\" and size > 1M' 4711
  heapledger history -r -f '%a %p, %n bytes, seqno %s' a.hl.0 a.hl.1 a.hl.2
  heapledger history --where 'event == free' --group-by fn --top 5 4711
  heapledger history -SN --top 10 --columns time,size,fn,lifetime,free_fn 4711
  heapledger history --json 4711 | jq 'select(.event == \"free\")'", conversions()))]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) more: MoreLedgers,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    /// Show every life of this address: the blocks that contained it, who allocated and who freed them, and where
    /// realloc moved them from and to
    #[arg(long, value_name = "ADDRESS", value_parser = heapledger_analysis::query::address)]
    pub(crate) addr: Option<u64>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) sort: SortArgs,
    #[command(flatten)]
    pub(crate) groups: GroupArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs<Records>,
    #[command(flatten)]
    pub(crate) frames: FramesArgs,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
}

/// Shows the events of one run.
pub(crate) fn run(mut args: HistoryArgs) -> Result<()> {
    let targets = args.more.targets(&args.ledger.ledger, &mut args.naming);
    let targets: Vec<&OsStr> = targets.iter().map(OsString::as_os_str).collect();
    unless_pipe_closed(show(&args, &targets))
}

fn show(args: &HistoryArgs, targets: &[&OsStr]) -> Result<()> {
    // Mistakes are told before anything is read.
    args.filter.parse()?;
    let by = args.groups.by()?.map(tables::with_event);
    let columns = args.groups.list().map(EventColumn::parse).transpose();
    let columns = columns.map_err(|error| Usage::in_value("--columns", &error))?;
    let order = by.is_some().then(|| args.sort.groups()).transpose()?;
    if by.is_none() {
        args.sort.parse()?;
    }
    args.check(by.is_some() || columns.is_some())?;
    let (mut ledgers, parts) = open_run(targets)?;
    let given = targets.iter().map(|target| target.to_string_lossy());
    if !args.form.is_json() && !given.eq(parts.iter().map(String::as_str)) {
        say(&format!("the ledgers are shown in the order of time: {}", parts.join(", ")));
    }
    let Some(last) = ledgers.pop() else { return Ok(()) };
    args.naming.check(&[&last])?;
    let mut opened = args.ledger.opened(targets, last)?;
    opened.context.parts = parts;
    args.frames.explain(&opened.ledger);
    args.form.check(&opened.ledger)?;
    match (args.addr, by, order, columns) {
        (Some(address), ..) => lives::show(args, &ledgers, opened, address),
        (_, Some(by), Some(order), _) => tables::groups(args, &ledgers, opened, &by, &order),
        (.., Some(columns)) => tables::table(args, &ledgers, opened, &columns),
        _ if args.form.is_csv() => {
            let columns = EventColumn::usual(&opened.ledger);
            tables::table(args, &ledgers, opened, &columns)
        }
        _ => show_events(args, &ledgers, opened),
    }
}

/// In which order events come, if not by time, and how many.
struct EventOrder {
    keys: Option<SortKeys>,
    limit: usize,
}

impl HistoryArgs {
    /// At most so many events or lives.
    fn limit(&self) -> usize {
        self.groups.top.unwrap_or_else(|| self.limit.get(self.form.get()))
    }

    fn order(&self, ledger: &Ledger) -> Result<EventOrder> {
        let mut keys = self.sort.parse()?;
        if self.groups.top.is_some() && keys.is_none() {
            keys = Some(Sort::Size.into());
        }
        keys.iter().try_for_each(|keys| keys.check(ledger))?;
        Ok(EventOrder { keys, limit: self.limit() })
    }

    fn wanted<'w, 'l>(&self, order: &'w EventOrder, filter: &'w mut Evaluator<'l>) -> Wanted<'w, 'l> {
        let keys = order.keys.as_ref();
        Wanted { keys, reverse: self.sort.is_reversed(), limit: order.limit, filter: Some(filter) }
    }

    /// What cannot be asked for together.
    fn check(&self, is_table: bool) -> Result<()> {
        let tables = is_table || self.form.is_csv();
        if self.form.get().is_of_records() && tables {
            return Err(Usage::new("-f and --format ecos are for single events, not for tables").into());
        }
        if self.addr.is_some() && (tables || self.sort.is_given()) {
            let said =
                "--addr shows lives in the order of time; for a table or another order write --where 'addr == …'";
            return Err(Usage::new(said).into());
        }
        Ok(())
    }
}

/// Names of all that will be shown, as far as the form shows names.
fn names<'a>(args: &HistoryArgs, filter: Evaluator<'a>, sites: impl Iterator<Item = u32>) -> Result<Names<'a>> {
    let form = args.form.get();
    let mut names = filter.into_names();
    names.pass_over(args.frames.passing());
    find_names(&mut names, sites.filter(|_| form.needs_names()), form.needs_source_text())?;
    Ok(names)
}

fn show_events(args: &HistoryArgs, earlier: &[Ledger], opened: Opened) -> Result<()> {
    let Opened { ledger, mut context, threads_recorded } = opened;
    let all: Vec<&Ledger> = earlier.iter().chain([&ledger]).collect();
    let mut filter = args.filter.evaluator(&ledger, context.clock, Scope::Events, args.naming.no_names(&ledger)?)?;
    let order = args.order(&ledger)?;
    let mut progress = Progress::new("reading");
    let events = Events::of_run(&all, args.wanted(&order, &mut filter), &mut |part| progress.show(part))?;
    drop(progress);
    refresh(&ledger, &mut context)?;
    let mut names = names(args, filter, events.events.sites())?;
    if events.total == 0 {
        args.filter.tell_unknown(&ledger, &mut names)?;
    }
    let seen = Seen::of(&ledger, events.in_flight)?;
    let mut report = EventsReport { context: &context, threads_recorded, events: &events, names: &mut names, seen };
    args.ledger.view.present(args.form.get(), &mut report)
}
