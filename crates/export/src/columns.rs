//! The figures that one file holds beside each other.

use heapledger_analysis::tree::{Amounts, Measure};

use crate::profile::Profile;

/// One of the figures of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueColumn {
    pub(crate) measure: Measure,
    /// As pprof and what follows it call it.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) title: &'static str,
}

const fn column(measure: Measure, name: &'static str, title: &'static str) -> ValueColumn {
    ValueColumn { measure, name, title }
}

/// All of them, in the order that pprof has of old: of each pair blocks first, and what lives last.
const COLUMNS: [ValueColumn; 8] = [
    column(Measure::AllocatedBlocks, "alloc_objects", "allocated (blocks)"),
    column(Measure::AllocatedBytes, "alloc_space", "allocated (bytes)"),
    column(Measure::TemporaryBlocks, "temporary_objects", "freed at once (blocks)"),
    column(Measure::TemporaryBytes, "temporary_space", "freed at once (bytes)"),
    column(Measure::PeakBlocks, "peak_objects", "live at the peak (blocks)"),
    column(Measure::PeakBytes, "peak_space", "live at the peak (bytes)"),
    column(Measure::LiveBlocks, "inuse_objects", "live (blocks)"),
    column(Measure::LiveBytes, "inuse_space", "live (bytes)"),
];

impl ValueColumn {
    /// `bytes`, or `count`.
    pub(crate) fn unit(&self) -> &'static str {
        if self.measure.is_bytes() { "bytes" } else { "count" }
    }

    /// What a stack holds more than it did in the older ledger, if there is one.
    pub(crate) fn grown(&self, [new, old]: &[Amounts; 2]) -> i64 {
        let [new, old] = [new, old].map(|own| i64::try_from(own.get(self.measure)).unwrap_or(i64::MAX));
        new.saturating_sub(old)
    }
}

/// The figures that the profile knows.
pub(crate) fn columns(profile: &Profile) -> Vec<ValueColumn> {
    COLUMNS.into_iter().filter(|column| profile.about.known.has(column.measure)).collect()
}

/// Whether a file with these columns has a figure.
pub(crate) fn has_column(measure: Measure) -> bool {
    COLUMNS.iter().any(|column| column.measure == measure)
}
