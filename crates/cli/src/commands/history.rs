//! `heapledger history`: allocations and frees in the order in which they happened, or the lives of one address.

use std::ffi::{OsStr, OsString};

use anyhow::Result;
use heapledger_analysis::query::{Evaluator, EventColumn, Scope};
use heapledger_analysis::{Events, Names, Seen};
use heapledger_format::Site;
use heapledger_report::EventsReport;
use heapledger_source::Ledger;

use super::ledgers::open_run;
use super::standard::Usage;
use super::{Opened, Progress, SourceText, find_names, needs_addresses, refresh, unless_pipe_closed};
use crate::say;

mod args;
mod inherited;
mod lives;
mod tables;

pub(crate) use args::HistoryArgs;

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
    let (mut ledgers, parts) = open_run(targets, &args.ledger.view.opening)?;
    let given = targets.iter().map(|target| target.to_string_lossy());
    if !args.form.is_json() && !given.eq(parts.iter().map(String::as_str)) {
        say(&format!("the ledgers are shown in the order of time: {}", parts.join(", ")));
    }
    let Some(last) = ledgers.pop() else { return Ok(()) };
    if args.addr.is_some() {
        needs_addresses(&last)?;
    }
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

/// Names of all that will be shown, as far as the form shows names.
fn names<'a>(args: &HistoryArgs, filter: Evaluator<'a>, sites: impl Iterator<Item = Site>) -> Result<Names<'a>> {
    let form = args.form.get();
    let mut names = filter.into_names();
    names.pass_over(args.frames.passing());
    find_names(&mut names, sites.filter(|_| form.needs_names()), SourceText::shown_if(form.needs_source_text()))?;
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
