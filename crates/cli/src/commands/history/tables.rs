//! Events as a table, or added up.

use std::io::Write;

use anyhow::Result;
use heapledger_analysis::query::{EventColumn, GroupBy, GroupOrder, Scope};
use heapledger_analysis::source::Ledger;
use heapledger_analysis::{Event, EventKind, Events, Groups, Names, Seen};
use heapledger_report::{
    Cell, Ending, EventStacks, Table, TableForm, event_cell, event_column, history_begin, history_end,
    history_json_header, json_end,
};

use super::HistoryArgs;
use crate::commands::grouped::{self, Asked, tell_missing};
use crate::commands::shape::tell_ending;
use crate::commands::standard::TableArgs;
use crate::commands::{Opened, Progress, find_names, refresh};

/// Allocations and frees are never one sum.
pub(super) fn with_event(mut by: Vec<GroupBy>) -> Vec<GroupBy> {
    if !by.contains(&GroupBy::Event) {
        by.insert(0, GroupBy::Event);
    }
    by
}

/// Which stacks of an event's block stand in a table.
#[derive(Clone, Copy)]
struct Sides {
    own: bool,
    allocation: bool,
    free: bool,
}

impl Sides {
    fn of(columns: &[EventColumn]) -> Sides {
        let has = |wanted: fn(&EventColumn) -> bool| columns.iter().filter(|column| column.needs_names()).any(wanted);
        Sides {
            own: has(|column| matches!(column, EventColumn::Own(_))),
            allocation: has(|column| matches!(column, EventColumn::Allocation(_))),
            free: has(|column| matches!(column, EventColumn::Free(_))),
        }
    }

    /// Call sites of the allocation and of the free, as far as they are needed.
    fn sites(self, event: &Event) -> [Option<u32>; 2] {
        let is_free = matches!(event.kind, EventKind::Free(_));
        let allocation = self.allocation || self.own && !is_free;
        let free = self.free || self.own && is_free;
        [Some(event.block.site).filter(|_| allocation), event.end().map(|end| end.site).filter(|_| free)]
    }

    fn stacks(self, event: &Event, names: &mut Names<'_>) -> Result<EventStacks> {
        let [allocation, free] = self.sites(event).map(|site| site.map(|site| names.stack(site)).transpose());
        Ok(EventStacks { allocation: allocation?.unwrap_or_default(), free: free?.unwrap_or_default() })
    }
}

/// Events as a table.
pub(super) fn table(args: &HistoryArgs, earlier: &[Ledger], opened: Opened, columns: &[EventColumn]) -> Result<()> {
    let Opened { ledger, mut context, mut out, .. } = opened;
    columns.iter().try_for_each(|column| column.check(&ledger))?;
    let all: Vec<&Ledger> = earlier.iter().chain([&ledger]).collect();
    let mut filter = args.filter.evaluator(&ledger, context.clock, Scope::Events, args.naming.no_names(&ledger)?)?;
    let order = args.order(&ledger)?;
    let mut progress = Progress::new("reading");
    let events = Events::of_run(&all, args.wanted(&order, &mut filter), &mut |part| progress.show(part))?;
    drop(progress);
    refresh(&ledger, &mut context)?;
    let sides = Sides::of(columns);
    let mut names = filter.into_names();
    names.pass_over(args.frames.passing());
    if events.total == 0 {
        args.filter.tell_unknown(&ledger, &mut names)?;
    }
    find_names(&mut names, events.events.iter().flat_map(|event| sides.sites(&event)).flatten(), false)?;
    let mut seen = Seen::of(&ledger, events.in_flight)?;
    let holders = args.filter.holders()?;
    let form = TableArgs::form(args.ledger.json, args.table.csv, "row", &context);
    match form {
        TableForm::Json(_) => history_json_header(&mut out, &context, &events)?,
        TableForm::Text(_) => history_begin(&mut out, &context, &events)?,
        TableForm::Csv => {}
    }
    let mut table =
        Table::new(out, form, columns.iter().map(|column| event_column(*column, events.sampled.is_some())).collect())?;
    for event in &events.events {
        let stacks = sides.stacks(&event, &mut names)?;
        let cells: Vec<Cell> =
            columns.iter().map(|column| event_cell(*column, &context, &holders, &event, &stacks)).collect();
        table.row(&cells)?;
    }
    let mut out = table.end()?;
    seen.notes.extend(names.notes());
    let ending = Ending { shown: events.events.len() as u64, left_out: events.left_out(), in_flight: events.in_flight };
    match form {
        TableForm::Json(_) => json_end(&mut out, ending, &seen)?,
        TableForm::Csv => {
            out.flush()?;
            tell_missing(&events.coverage());
            tell_ending(ending, &seen);
        }
        TableForm::Text(_) => {
            if !events.events.is_empty() {
                writeln!(out)?;
            }
            history_end(out, &context, ending, &events, &seen)?;
        }
    }
    Ok(())
}

/// Events, added up.
pub(super) fn groups(
    args: &HistoryArgs,
    earlier: &[Ledger],
    opened: Opened,
    by: &[GroupBy],
    order: &GroupOrder,
) -> Result<()> {
    let HistoryArgs { ledger, filter, groups, limit, table, naming, .. } = args;
    let asked = Asked { ledger, filter, groups, limit, table, naming };
    grouped::show(&asked, opened, (by, Scope::Events), |ledger, filter, holders, limit, progress| {
        let all: Vec<&Ledger> = earlier.iter().chain([ledger]).collect();
        Groups::of_events(&all, by, filter, holders, (order, limit), progress)
    })
}
