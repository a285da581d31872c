//! Events as a table, with the columns that somebody asks for.

use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{EventColumn, Subject};
use heapledger_analysis::{Event, EventKind, Holders, NamedStack};
use heapledger_format::Site;
use heapledger_source::SourceError;

use crate::record::columns::{block_column, cell};
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
    pub(super) fn sites(self, event: &Event) -> [Option<Site>; 2] {
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
    let cell = |column, subject, stack| cell(column, context, holders, &subject, stack);
    let own = if matches!(event.kind, EventKind::Free(_)) { &stacks.free } else { &stacks.allocation };
    match column {
        EventColumn::Own(field) => cell(field, Subject::from(event), own),
        EventColumn::Allocation(field) => cell(field, Subject::live(&event.block), &stacks.allocation),
        EventColumn::Free(field) => {
            event.end().map_or(Cell::Nothing, |end| cell(field, Subject::free(end), &stacks.free))
        }
    }
}
