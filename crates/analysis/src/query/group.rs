//! What blocks are added up by, and in which order the sums are shown.

use std::cmp::Ordering;

use heapledger_source::Ledger;

use super::{Scope, SyntaxError, Unsupported, keys};
use crate::Group;
use crate::fields::{Field, GROUPS};

impl Field {
    /// Reads what blocks are added up by: `fn,thread`.
    ///
    /// # Errors
    /// If it cannot be understood: what, and where.
    pub fn parse_groups(text: &str) -> Result<Vec<Field>, SyntaxError> {
        keys::list(&GROUPS, "group", text)
    }

    /// Whether it can be asked of what `ledger` holds of that.
    ///
    /// # Errors
    /// If not.
    pub fn check_in(self, ledger: &Ledger, scope: Scope) -> Result<(), Unsupported> {
        if scope == Scope::Blocks && self.is_of_events() {
            return Err(Unsupported::EventsOnly(self));
        }
        self.check(ledger)
    }
}

impl keys::OfLabel for GroupField {}

/// What groups are put in order by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupField {
    /// Bytes in all.
    Bytes,
    /// Blocks.
    Blocks,
    /// The largest block.
    Largest,
    /// The age of the oldest block.
    Oldest,
    /// What they are grouped by.
    Name,
}

impl GroupField {
    const NAMES: &'static keys::Known<GroupField> = &[
        (GroupField::Bytes, &["bytes", "size"]),
        (GroupField::Blocks, &["blocks", "count"]),
        (GroupField::Largest, &["largest"]),
        (GroupField::Oldest, &["oldest", "age"]),
        (GroupField::Name, &["name"]),
    ];

    /// The names of all of them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter_map(|(_, names)| names.first().copied())
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(field, _)| *field == self).and_then(|(_, names)| names.first().copied()).unwrap_or("")
    }

    fn descends(self) -> bool {
        self != GroupField::Name
    }

    fn compare(self, one: &Group, other: &Group) -> Ordering {
        match self {
            GroupField::Bytes => one.bytes.cmp(&other.bytes),
            GroupField::Blocks => one.blocks.cmp(&other.blocks),
            GroupField::Largest => one.largest.cmp(&other.largest),
            // The smaller the time, the greater the age.
            GroupField::Oldest => match (one.oldest, other.oldest) {
                (Some(one), Some(other)) => other.cmp(&one),
                (one, other) => one.is_some().cmp(&other.is_some()),
            },
            GroupField::Name => one.keys.cmp(&other.keys),
        }
    }
}

/// An order of groups. What all keys leave equal is ordered by bytes, blocks, and what they are grouped by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOrder(Vec<(GroupField, bool)>);

impl Default for GroupOrder {
    /// Most bytes first.
    fn default() -> GroupOrder {
        GroupOrder(vec![(GroupField::Bytes, true)])
    }
}

impl GroupOrder {
    /// Reads `blocks:desc,name`. Without a direction, the greatest comes first, but for names.
    ///
    /// # Errors
    /// If it cannot be understood: what, and where.
    pub fn parse(text: &str) -> Result<GroupOrder, SyntaxError> {
        keys::sort(GroupField::NAMES, GroupField::descends, text).map(GroupOrder)
    }

    /// Most blocks first.
    pub fn by_blocks() -> GroupOrder {
        GroupOrder(vec![(GroupField::Blocks, true)])
    }

    /// Reverse the order.
    pub fn reversed(mut self) -> GroupOrder {
        self.0.iter_mut().for_each(|(_, descending)| *descending = !*descending);
        self
    }

    /// Which of two groups comes first.
    pub fn compare(&self, one: &Group, other: &Group) -> Ordering {
        let rest = [(GroupField::Bytes, true), (GroupField::Blocks, true), (GroupField::Name, false)];
        for (field, descending) in self.0.iter().chain(&rest) {
            let order = field.compare(one, other);
            if order != Ordering::Equal {
                return if *descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    }
}
