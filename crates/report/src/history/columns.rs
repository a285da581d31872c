//! Events as a table, with the columns that somebody asks for.

use heapledger_analysis::fields::Field;
use heapledger_analysis::query::EventColumn;
use heapledger_analysis::{Event, EventKind, Holders, NamedStack, as_freed};
use heapledger_format::Entry;
use heapledger_source::SourceError;

use crate::record::columns::{block_cell, block_column};
use crate::{Cell, Column, Context, Stacks};

/// The column of a table of events.
pub(super) fn event_column(column: EventColumn, sampled: bool) -> Column {
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
pub(super) struct EventStacks {
    /// Who allocated it.
    allocation: NamedStack,
    /// Who freed it.
    free: NamedStack,
}

/// Which stacks of an event's block stand in a table.
#[derive(Clone, Copy)]
pub(super) struct StackNeeds {
    own: bool,
    allocation: bool,
    free: bool,
}

impl StackNeeds {
    pub(super) fn of(columns: &[EventColumn]) -> StackNeeds {
        let has = |wanted: fn(&EventColumn) -> bool| columns.iter().filter(|column| column.needs_names()).any(wanted);
        StackNeeds {
            own: has(|column| matches!(column, EventColumn::Own(_))),
            allocation: has(|column| matches!(column, EventColumn::Allocation(_))),
            free: has(|column| matches!(column, EventColumn::Free(_))),
        }
    }

    /// Call sites of the allocation and of the free, as far as they are needed.
    pub(super) fn sites(self, event: &Event) -> [Option<u32>; 2] {
        let is_free = matches!(event.kind, EventKind::Free(_));
        let allocation = self.allocation || self.own && !is_free;
        let free = self.free || self.own && is_free;
        [Some(event.block.site).filter(|_| allocation), event.end().map(|end| end.site).filter(|_| free)]
    }

    pub(super) fn stacks(self, event: &Event, names: &mut dyn Stacks) -> Result<EventStacks, SourceError> {
        let [allocation, free] = self.sites(event).map(|site| site.map(|site| names.stack(site)).transpose());
        Ok(EventStacks { allocation: allocation?.unwrap_or_default(), free: free?.unwrap_or_default() })
    }
}

/// What stands at a column for an event.
pub(super) fn event_cell(
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
