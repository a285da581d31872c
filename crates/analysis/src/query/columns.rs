//! Columns of a table of blocks.

use heapledger_source::Ledger;

use super::check::recorded_for;
use super::{Field, SyntaxError, Unsupported, keys};

/// A column of a table of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockColumn {
    /// What the allocation function returned.
    Address,
    /// Bytes asked for.
    Size,
    /// Bytes that the block really has.
    Actual,
    /// Actual bytes less those asked for.
    Overhead,
    /// Sequence number.
    Number,
    /// When it was allocated.
    Time,
    /// How long ago that was.
    Age,
    /// The thread.
    Thread,
    /// The function of the malloc family.
    Kind,
    /// The heap.
    Heap,
    /// Number of the call site.
    Site,
    /// For how many blocks it stands.
    Weight,
    /// The function that holds it.
    Function,
    /// The place in the source of that function.
    File,
    /// The module of that function.
    Module,
    /// All functions of the stack.
    Stack,
}

impl BlockColumn {
    const NAMES: &'static keys::Known<BlockColumn> = &[
        (BlockColumn::Address, &["addr", "address", "ptr"]),
        (BlockColumn::Size, &["size"]),
        (BlockColumn::Actual, &["actual"]),
        (BlockColumn::Overhead, &["overhead"]),
        (BlockColumn::Number, &["number", "seq", "seqno"]),
        (BlockColumn::Time, &["time"]),
        (BlockColumn::Age, &["age"]),
        (BlockColumn::Thread, &["thread"]),
        (BlockColumn::Kind, &["kind"]),
        (BlockColumn::Heap, &["heap"]),
        (BlockColumn::Site, &["site"]),
        (BlockColumn::Weight, &["weight"]),
        (BlockColumn::Function, &["fn", "function", "func", "holder"]),
        (BlockColumn::File, &["file"]),
        (BlockColumn::Module, &["module", "lib"]),
        (BlockColumn::Stack, &["stack"]),
    ];

    /// The names of all of them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter_map(|(_, names)| names.first().copied())
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        keys::name_of(Self::NAMES, &self)
    }

    /// Reads `addr,size,thread,fn`.
    ///
    /// # Errors
    /// If it cannot be understood: what, and where.
    pub fn parse(text: &str) -> Result<Vec<BlockColumn>, SyntaxError> {
        keys::list(Self::NAMES, "column", text)
    }

    /// Those that a ledger records, of the ones that most people want.
    pub fn usual(ledger: &Ledger) -> Vec<BlockColumn> {
        let all = [
            BlockColumn::Address,
            BlockColumn::Size,
            BlockColumn::Actual,
            BlockColumn::Kind,
            BlockColumn::Number,
            BlockColumn::Age,
            BlockColumn::Thread,
            BlockColumn::Function,
            BlockColumn::File,
        ];
        all.into_iter().filter(|column| column.check(ledger).is_ok()).collect()
    }

    /// Whether names of code stand in it.
    pub fn needs_names(self) -> bool {
        matches!(self, BlockColumn::Function | BlockColumn::File | BlockColumn::Module | BlockColumn::Stack)
    }

    /// Whether `ledger` records that.
    ///
    /// # Errors
    /// If not.
    pub fn check(self, ledger: &Ledger) -> Result<(), Unsupported> {
        let field = match self {
            BlockColumn::Actual => Some(Field::Actual),
            BlockColumn::Overhead => Some(Field::Overhead),
            BlockColumn::Time | BlockColumn::Age => Some(Field::Time),
            BlockColumn::Thread => Some(Field::Thread),
            BlockColumn::Heap => Some(Field::Heap),
            BlockColumn::Site => Some(Field::Site),
            _ if self.needs_names() => Some(Field::Function),
            _ => None,
        };
        recorded_for(ledger, field, self.name())
    }
}
