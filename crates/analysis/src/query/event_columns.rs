//! Columns of a table of events.

use heapledger_source::Ledger;
use heapledger_source::format::record::Options;

use super::check::recorded_for;
use super::{BlockColumn, Field, SyntaxError, Unsupported, keys};

/// A column of a table of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventColumn {
    /// `allocation` or `free`.
    Event,
    /// Whether the block is freed by now.
    Freed,
    /// How long the block lived, if its free is known.
    Lifetime,
    /// Of the event itself; address, sizes and heap are those of its block.
    Own(BlockColumn),
    /// Of the allocation of its block, whichever event it is.
    Allocation(BlockColumn),
    /// Of the free of its block, if that is known.
    Free(BlockColumn),
}

impl EventColumn {
    const NAMES: &'static keys::Known<EventColumn> = &[
        (EventColumn::Event, &["event"]),
        (EventColumn::Own(BlockColumn::Number), &["number", "seq", "seqno"]),
        (EventColumn::Own(BlockColumn::Time), &["time"]),
        (EventColumn::Own(BlockColumn::Age), &["age"]),
        (EventColumn::Own(BlockColumn::Thread), &["thread"]),
        (EventColumn::Own(BlockColumn::Kind), &["kind", "by"]),
        (EventColumn::Own(BlockColumn::Address), &["addr", "address", "ptr"]),
        (EventColumn::Own(BlockColumn::Size), &["size"]),
        (EventColumn::Own(BlockColumn::Actual), &["actual"]),
        (EventColumn::Own(BlockColumn::Overhead), &["overhead"]),
        (EventColumn::Own(BlockColumn::Heap), &["heap"]),
        (EventColumn::Own(BlockColumn::Weight), &["weight"]),
        (EventColumn::Own(BlockColumn::Site), &["site"]),
        (EventColumn::Own(BlockColumn::Function), &["fn", "function", "func", "holder"]),
        (EventColumn::Own(BlockColumn::File), &["file"]),
        (EventColumn::Own(BlockColumn::Module), &["module", "lib"]),
        (EventColumn::Own(BlockColumn::Stack), &["stack"]),
        (EventColumn::Freed, &["freed"]),
        (EventColumn::Lifetime, &["lifetime"]),
        (EventColumn::Allocation(BlockColumn::Number), &["alloc_number"]),
        (EventColumn::Allocation(BlockColumn::Time), &["alloc_time"]),
        (EventColumn::Allocation(BlockColumn::Thread), &["alloc_thread"]),
        (EventColumn::Allocation(BlockColumn::Kind), &["alloc_kind"]),
        (EventColumn::Allocation(BlockColumn::Function), &["alloc_fn"]),
        (EventColumn::Allocation(BlockColumn::File), &["alloc_file"]),
        (EventColumn::Allocation(BlockColumn::Stack), &["alloc_stack"]),
        (EventColumn::Free(BlockColumn::Number), &["free_number"]),
        (EventColumn::Free(BlockColumn::Time), &["free_time"]),
        (EventColumn::Free(BlockColumn::Thread), &["free_thread"]),
        (EventColumn::Free(BlockColumn::Kind), &["free_kind"]),
        (EventColumn::Free(BlockColumn::Function), &["free_fn"]),
        (EventColumn::Free(BlockColumn::File), &["free_file"]),
        (EventColumn::Free(BlockColumn::Stack), &["free_stack"]),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        keys::name_of(Self::NAMES, &self)
    }

    /// The names of all of them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter_map(|(_, names)| names.first().copied())
    }

    /// Reads `event,number,size,fn`.
    ///
    /// # Errors
    /// If it cannot be understood: what, and where.
    pub fn parse(text: &str) -> Result<Vec<EventColumn>, SyntaxError> {
        keys::list(Self::NAMES, "column", text)
    }

    /// Those that a ledger records, of the ones that most people want.
    pub fn usual(ledger: &Ledger) -> Vec<EventColumn> {
        let all = [
            EventColumn::Own(BlockColumn::Time),
            EventColumn::Own(BlockColumn::Number),
            EventColumn::Event,
            EventColumn::Own(BlockColumn::Kind),
            EventColumn::Own(BlockColumn::Address),
            EventColumn::Own(BlockColumn::Size),
            EventColumn::Own(BlockColumn::Thread),
            EventColumn::Lifetime,
            EventColumn::Own(BlockColumn::Function),
            EventColumn::Own(BlockColumn::File),
        ];
        all.into_iter().filter(|column| column.check(ledger).is_ok()).collect()
    }

    /// The figure of a block that stands in it, if it is one.
    pub fn block(self) -> Option<BlockColumn> {
        match self {
            EventColumn::Own(column) | EventColumn::Allocation(column) | EventColumn::Free(column) => Some(column),
            EventColumn::Event | EventColumn::Freed | EventColumn::Lifetime => None,
        }
    }

    /// Whether names of code stand in it.
    pub fn needs_names(self) -> bool {
        self.block().is_some_and(BlockColumn::needs_names)
    }

    /// Whether `ledger` records that.
    ///
    /// # Errors
    /// If not.
    pub fn check(self, ledger: &Ledger) -> Result<(), Unsupported> {
        match (self, self.block()) {
            (EventColumn::Lifetime, _) => recorded_for(ledger, Some(Field::Lifetime), self.name()),
            (EventColumn::Free(_), _) if !ledger.header().options.has(Options::HISTORY) => {
                let (asked, option) = (self.name().to_owned(), Some("history"));
                Err(Unsupported::NotRecorded { asked, what: "history", option })
            }
            (_, Some(column)) => column.check(ledger),
            (_, None) => Ok(()),
        }
    }
}
