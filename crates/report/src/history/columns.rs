//! Events as a table, with the columns that somebody asks for.

use std::io::{self, Write};

use heapledger_analysis::fields::Field;
use heapledger_analysis::format::Entry;
use heapledger_analysis::query::EventColumn;
use heapledger_analysis::{Event, EventKind, Events, Holders, NamedStack, Seen, as_freed};

use crate::dump::text::sentence_line;
use crate::form::fit::Fit;
use crate::form::notes;
use crate::form::units::{count, counted};
use crate::history::text::caution;
use crate::record::columns::{block_cell, block_column};
use crate::{Cell, Column, Context, Ending};

/// The column of a table of events.
pub fn event_column(column: EventColumn, sampled: bool) -> Column {
    let name = column.name();
    match column {
        EventColumn::Own(own) => block_column(own, sampled),
        EventColumn::Allocation(other) | EventColumn::Free(other) => {
            let column = Column { name: name.to_owned(), ..block_column(other, sampled) };
            match other {
                Field::Time => column.key(format!("{name}_ns")),
                _ => column.key(name),
            }
        }
    }
}

/// The stacks of an event's block, as far as its columns need them.
#[derive(Clone, Debug, Default)]
pub struct EventStacks {
    /// Who allocated it.
    pub allocation: NamedStack,
    /// Who freed it.
    pub free: NamedStack,
}

/// What stands at a column for an event.
pub fn event_cell(
    column: EventColumn,
    context: &Context,
    holders: &Holders,
    event: &Event,
    stacks: &EventStacks,
) -> Cell {
    let is_free = matches!(event.kind, EventKind::Free(_));
    let cell = |column, block: &Entry, stack| block_cell(column, context, holders, block, stack);
    match column {
        EventColumn::Own(Field::Event) => Cell::Text(if is_free { "free" } else { "allocation" }.to_owned()),
        EventColumn::Own(Field::Freed) => Cell::Text(if event.end().is_some() { "yes" } else { "no" }.to_owned()),
        EventColumn::Own(Field::Lifetime) => {
            let ns = |ticks: Option<u64>| ticks.and_then(|ticks| context.clock.ns(ticks));
            let ended = event.end().and_then(|end| ns(end.time));
            Cell::maybe(ended.zip(ns(event.block.time)).map(|(end, begin)| end.saturating_sub(begin)), Cell::Span)
        }
        EventColumn::Own(own) => cell(own, &event.as_entry(), if is_free { &stacks.free } else { &stacks.allocation }),
        EventColumn::Allocation(other) => cell(other, &event.block, &stacks.allocation),
        EventColumn::Free(other) => event.end().map_or(Cell::Nothing, |end| cell(other, &as_freed(end), &stacks.free)),
    }
}

/// What stands before a table of `events`: of what samples they are, and what is missing.
///
/// # Errors
/// If it cannot be written.
pub fn history_begin(mut out: impl Write, context: &Context, events: &Events) -> io::Result<()> {
    caution(&mut out, context, &events.coverage())
}

/// What stands behind it: how many there are, and what was not seen.
///
/// # Errors
/// If it cannot be written.
pub fn history_end(
    out: impl Write,
    context: &Context,
    ending: Ending,
    events: &Events,
    not_seen: &Seen,
) -> io::Result<()> {
    let mut out = Fit::new(out, context.paint);
    let all = ending.shown + ending.left_out;
    let chosen = if events.filter.is_some() { " of those asked for" } else { "" };
    let events = counted(all, "event", "events");
    if all == 0 {
        writeln!(out, "No event{chosen} is recorded.")?;
    } else if ending.left_out == 0 {
        writeln!(out, "{events}.")?;
    } else {
        let (shown, left_out) = (count(ending.shown), count(ending.left_out));
        let text = format!("{shown} of {events}; {left_out} left out (--limit 0 shows all).");
        sentence_line(&mut out, context.paint, &text)?;
    }
    notes::write(&mut out, not_seen, context.paint)?;
    out.flush()
}
