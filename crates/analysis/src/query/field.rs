//! What can be asked for.

use std::fmt;

/// What a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// Bytes asked for.
    Size,
    /// Bytes that the block really has.
    Actual,
    /// Actual bytes less those asked for.
    Overhead,
    /// What the allocation function returned.
    Address,
    /// Sequence number, from 0.
    Number,
    /// Time since the ledger began.
    Time,
    /// How long ago.
    Age,
    /// How long the block lived.
    Lifetime,
    /// The thread: its row or its name.
    Thread,
    /// The function of the malloc family.
    Kind,
    /// The heap: its row or its name.
    Heap,
    /// Number of the call site.
    Site,
    /// Any function of the stack.
    Function,
    /// The function that holds the block: the innermost that is no wrapper of an allocation function.
    Holder,
    /// The source file of any frame, perhaps with a line.
    File,
    /// The module of any frame.
    Module,
    /// Whether no frame of the stack was guessed.
    Exact,
    /// Whether the block is freed by now.
    Freed,
    /// `allocation` or `free`.
    Event,
}

/// Of which type a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Bytes,
    Address,
    Count,
    Time,
    /// A row by its number or its name.
    Row,
    Kind,
    Text,
    File,
    YesNo,
    Event,
}

impl Type {
    /// Whether values have an order.
    pub(crate) fn is_ordered(self) -> bool {
        matches!(self, Type::Bytes | Type::Address | Type::Count | Type::Time)
    }

    /// Whether patterns can be looked for.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Type::Row | Type::Kind | Type::Text | Type::File)
    }
}

impl Field {
    /// All of them: the name and what else it may be called.
    pub(crate) const NAMES: &'static [(Field, &'static [&'static str])] = &[
        (Field::Size, &["size"]),
        (Field::Actual, &["actual"]),
        (Field::Overhead, &["overhead"]),
        (Field::Address, &["addr", "address", "ptr"]),
        (Field::Number, &["number", "seq", "seqno"]),
        (Field::Time, &["time"]),
        (Field::Age, &["age"]),
        (Field::Lifetime, &["lifetime"]),
        (Field::Thread, &["thread"]),
        (Field::Kind, &["kind", "by"]),
        (Field::Heap, &["heap"]),
        (Field::Site, &["site"]),
        (Field::Function, &["fn", "function", "func"]),
        (Field::Holder, &["holder"]),
        (Field::File, &["file"]),
        (Field::Module, &["module", "lib"]),
        (Field::Exact, &["exact"]),
        (Field::Freed, &["freed"]),
        (Field::Event, &["event"]),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(field, _)| *field == self).and_then(|(_, names)| names.first()).copied().unwrap_or("")
    }

    /// The field of that name.
    pub fn of(name: &str) -> Option<Field> {
        let same = |names: &&[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        Self::NAMES.iter().find(|(_, names)| same(names)).map(|(field, _)| *field)
    }

    pub(crate) fn kind(self) -> Type {
        match self {
            Field::Size | Field::Actual | Field::Overhead => Type::Bytes,
            Field::Address => Type::Address,
            Field::Number | Field::Site => Type::Count,
            Field::Time | Field::Age | Field::Lifetime => Type::Time,
            Field::Thread | Field::Heap => Type::Row,
            Field::Kind => Type::Kind,
            Field::Function | Field::Holder | Field::Module => Type::Text,
            Field::File => Type::File,
            Field::Freed | Field::Exact => Type::YesNo,
            Field::Event => Type::Event,
        }
    }

    /// Whether it is decided call site by call site.
    pub(crate) fn is_of_stack(self) -> bool {
        self.needs_names() || self == Field::Exact
    }

    /// Whether names of code must be found to decide.
    pub(crate) fn needs_names(self) -> bool {
        matches!(self, Field::Function | Field::Holder | Field::File | Field::Module)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `~`: a part of it matches a pattern.
    Matches,
    /// `!~`
    MatchesNot,
    /// `in (…)`: equal to one of several.
    In,
}

impl Op {
    pub(crate) fn is_order(self) -> bool {
        matches!(self, Op::Below | Op::AtMost | Op::Above | Op::AtLeast)
    }

    pub(crate) fn is_pattern(self) -> bool {
        matches!(self, Op::Matches | Op::MatchesNot)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Equal => "==",
            Op::Unequal => "!=",
            Op::Below => "<",
            Op::AtMost => "<=",
            Op::Above => ">",
            Op::AtLeast => ">=",
            Op::Matches => "~",
            Op::MatchesNot => "!~",
            Op::In => "in",
        })
    }
}
