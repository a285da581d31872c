//! Events as a table, or added up.

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{EventColumn, GroupOrder, Scope};
use heapledger_analysis::{Events, Groups, Seen};
use heapledger_report::EventTable;
use heapledger_source::Ledger;

use super::HistoryArgs;
use crate::commands::grouped::{self, Asked};
use crate::commands::{Opened, Progress, SourceText, find_names, refresh};

/// Allocations and frees are never one sum.
pub(super) fn with_event(mut by: Vec<Field>) -> Vec<Field> {
    if !by.contains(&Field::Event) {
        by.insert(0, Field::Event);
    }
    by
}

/// Events as a table.
pub(super) fn table(args: &HistoryArgs, earlier: &[Ledger], opened: Opened, columns: &[EventColumn]) -> Result<()> {
    let Opened { ledger, mut context, .. } = opened;
    columns.iter().try_for_each(|column| column.check(&ledger))?;
    let all: Vec<&Ledger> = earlier.iter().chain([&ledger]).collect();
    let mut filter = args.filter.evaluator(&ledger, context.clock, Scope::Events, args.naming.no_names(&ledger)?)?;
    let order = args.order(&ledger)?;
    let mut progress = Progress::new("reading");
    let events = Events::of_run(&all, args.wanted(&order, &mut filter), &mut |part| progress.show(part))?;
    drop(progress);
    refresh(&ledger, &mut context)?;
    let mut names = filter.into_names();
    names.pass_over(args.frames.passing());
    if events.total == 0 {
        args.filter.tell_unknown(&ledger, &mut names)?;
    }
    find_names(&mut names, EventTable::sites(columns, &events), SourceText::NotShown)?;
    let (seen, holders) = (Seen::of(&ledger, events.in_flight)?, args.filter.holders()?);
    let (context, holders) = (&context, &holders);
    let mut report = EventTable { context, columns, holders, events: &events, names: &mut names, seen };
    args.ledger.view.present(args.form.get(), &mut report)
}

/// Events, added up.
pub(super) fn groups(
    args: &HistoryArgs,
    earlier: &[Ledger],
    opened: Opened,
    by: &[Field],
    order: &GroupOrder,
) -> Result<()> {
    let HistoryArgs { ledger, filter, groups, limit, form, naming, .. } = args;
    let asked = Asked { ledger, filter, groups, limit, form: form.get(), naming };
    grouped::show(&asked, opened, (by, Scope::Events), |ledger, filter, holders, limit, progress| {
        let all: Vec<&Ledger> = earlier.iter().chain([ledger]).collect();
        Groups::of_events(&all, by, filter, holders, (order, limit), progress)
    })
}
