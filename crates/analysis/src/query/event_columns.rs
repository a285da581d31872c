//! Columns of a table of events.

use std::sync::LazyLock;

use heapledger_format::record::Options;
use heapledger_source::Ledger;

use super::{SyntaxError, Unsupported, keys};
use crate::fields::{COLUMNS, EVENT_COLUMNS, Field};

/// A column of a table of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventColumn {
    /// Of the event itself; address, sizes and heap are those of its block.
    Own(Field),
    /// Of the allocation of its block, whichever event it is.
    Allocation(Field),
    /// Of the free of its block, if that is known.
    Free(Field),
}

impl keys::OfLabel for EventColumn {
    fn of_label(name: &str) -> Option<EventColumn> {
        Field::of_label(name).map(EventColumn::Own)
    }
}

static NAMES: LazyLock<Vec<(EventColumn, &'static [&'static str])>> = LazyLock::new(|| {
    let own = EVENT_COLUMNS.iter().map(|(field, names)| (EventColumn::Own(*field), *names));
    let end = |which: usize, column: fn(Field) -> EventColumn| {
        let names = COLUMNS.iter().filter_map(move |(field, _)| Some((*field, field.ends()?.get(which..=which)?)));
        names.map(move |(field, names)| (column(field), names))
    };
    own.chain(end(0, EventColumn::Allocation)).chain(end(1, EventColumn::Free)).collect()
});

impl EventColumn {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            EventColumn::Own(field @ Field::LabelOf(_)) => field.name(),
            _ => keys::name_of(&NAMES, &self),
        }
    }

    /// The names of all of them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().filter_map(|(_, names)| names.first().copied())
    }

    /// The names of those of an event itself.
    pub fn own_names() -> impl Iterator<Item = &'static str> {
        EVENT_COLUMNS.iter().filter_map(|(_, names)| names.first().copied())
    }

    /// What stands behind `alloc_` and `free_` in the names of the others.
    pub fn end_names() -> impl Iterator<Item = &'static str> {
        COLUMNS.iter().filter(|(field, _)| field.ends().is_some()).filter_map(|(_, names)| names.first().copied())
    }

    /// Reads `event,number,size,fn`.
    ///
    /// # Errors
    /// If it cannot be understood: what, and where.
    pub fn parse(text: &str) -> Result<Vec<EventColumn>, SyntaxError> {
        keys::list(&NAMES, "column", text)
    }

    /// Those that a ledger records, of the ones that most people want.
    pub fn usual(ledger: &Ledger) -> Vec<EventColumn> {
        let all = [
            EventColumn::Own(Field::Time),
            EventColumn::Own(Field::Number),
            EventColumn::Own(Field::Event),
            EventColumn::Own(Field::Kind),
            EventColumn::Own(Field::Address),
            EventColumn::Own(Field::Size),
            EventColumn::Own(Field::Thread),
            EventColumn::Own(Field::Lifetime),
            EventColumn::Own(Field::Function),
            EventColumn::Own(Field::File),
        ];
        all.into_iter().filter(|column| column.check(ledger).is_ok()).collect()
    }

    /// What stands in it, of whichever of the two.
    pub fn field(self) -> Field {
        match self {
            EventColumn::Own(field) | EventColumn::Allocation(field) | EventColumn::Free(field) => field,
        }
    }

    /// Whether names of code stand in it.
    pub fn needs_names(self) -> bool {
        self.field().needs_names()
    }

    /// Whether `ledger` records that.
    ///
    /// # Errors
    /// If not.
    pub fn check(self, ledger: &Ledger) -> Result<(), Unsupported> {
        if matches!(self, EventColumn::Free(_)) && !ledger.header().options.has(Options::HISTORY) {
            let (asked, option) = (self.name().to_owned(), Some("history"));
            return Err(Unsupported::NotRecorded { asked, what: "history", option });
        }
        self.field().check(ledger)
    }
}
