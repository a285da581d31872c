//! In which order functions stand beside each other in a call tree.

use std::cmp::Ordering;

use super::{SyntaxError, keys};
use crate::tree::{Amounts, Measure};

/// What functions are put in order by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreeField {
    /// One of their figures.
    Figure(Measure),
    /// Their name.
    Name,
}

impl keys::OfLabel for TreeField {}

impl TreeField {
    const NAMES: &'static keys::Known<TreeField> = &[
        (TreeField::Figure(Measure::LiveBytes), &["bytes", "size", "live_bytes"]),
        (TreeField::Figure(Measure::LiveBlocks), &["blocks", "count", "live_blocks"]),
        (TreeField::Figure(Measure::AllocatedBytes), &["allocated", "allocated_bytes"]),
        (TreeField::Figure(Measure::AllocatedBlocks), &["allocated-blocks", "allocated_blocks"]),
        (TreeField::Figure(Measure::FreedBytes), &["freed", "freed_bytes"]),
        (TreeField::Figure(Measure::FreedBlocks), &["freed-blocks", "freed_blocks"]),
        (TreeField::Figure(Measure::PeakBytes), &["peak", "peak_bytes"]),
        (TreeField::Figure(Measure::PeakBlocks), &["peak-blocks", "peak_blocks"]),
        (TreeField::Figure(Measure::TemporaryBytes), &["temporary-bytes", "temporary_bytes"]),
        (TreeField::Figure(Measure::TemporaryBlocks), &["temporary", "temporary_blocks"]),
        (TreeField::Name, &["name"]),
    ];

    fn descends(self) -> bool {
        self != TreeField::Name
    }
}

/// An order of functions that have the same caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeOrder(Vec<(TreeField, bool)>);

impl TreeOrder {
    /// The names of all keys.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TreeField::NAMES.iter().filter_map(|(_, names)| names.first().copied())
    }

    /// Reads `blocks:desc,name`. Without a direction, the greatest comes first, but for names.
    ///
    /// # Errors
    /// If it cannot be understood: what, and where.
    pub fn parse(text: &str) -> Result<TreeOrder, SyntaxError> {
        keys::sort(TreeField::NAMES, TreeField::descends, text).map(TreeOrder)
    }

    /// Which of two comes first, by their figures and names. What is equal stays as it was.
    pub fn compare(&self, one: (&Amounts, &str), other: (&Amounts, &str)) -> Ordering {
        for (field, descending) in &self.0 {
            let order = match field {
                TreeField::Figure(measure) => one.0.get(*measure).cmp(&other.0.get(*measure)),
                TreeField::Name => one.1.cmp(other.1),
            };
            if order != Ordering::Equal {
                return if *descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    }
}
