//! Groups of two ledgers, compared by what they are called.

use std::collections::HashMap;

use super::{ChangeKind, difference, is_within};
use crate::{Amount, Estimate};
use crate::{Group, GroupKey, Groups};

/// What became of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupChange {
    /// What its blocks have in common, as it is called.
    pub labels: Vec<String>,
    /// In one word.
    pub kind: ChangeKind,
    /// Blocks and bytes in the first ledger.
    pub before: [u64; 2],
    /// Blocks and bytes in the second.
    pub after: [u64; 2],
    /// The standard error of the growth in bytes; 0 if exact. Blocks that are in both ledgers count in it.
    pub bytes_error: u64,
}

impl GroupChange {
    /// By how many bytes it grew.
    pub fn bytes(&self) -> i64 {
        difference(self.after[1], self.before[1])
    }

    /// By how many blocks it grew.
    pub fn blocks(&self) -> i64 {
        difference(self.after[0], self.before[0])
    }

    /// Whether the growth is no more than what chance makes of a sample.
    pub fn is_within_error(&self) -> bool {
        is_within(self.bytes(), self.bytes_error)
    }

    /// The groups that changed, most growth first. `label` says what a key of the first (0) or of the second ledger is
    /// called: rows of tables mean something else in another run.
    pub fn of(a: &Groups, b: &Groups, label: &dyn Fn(usize, &GroupKey) -> String) -> Vec<GroupChange> {
        #[derive(Default)]
        struct Both([[u64; 3]; 2], f64);
        let mut found: HashMap<Vec<String>, Both> = HashMap::new();
        for (side, groups) in [a, b].into_iter().enumerate() {
            for Group { keys, samples, blocks, bytes, bytes_error, .. } in &groups.groups {
                let both = found.entry(keys.iter().map(|key| label(side, key)).collect()).or_default();
                for (sum, part) in both.0[side].iter_mut().zip([blocks, bytes, samples]) {
                    *sum = sum.saturating_add(*part);
                }
                both.1 += (*bytes_error as f64).powi(2);
            }
        }
        let mut changes: Vec<GroupChange> = found
            .into_iter()
            .filter_map(|(labels, Both([before, after], variance))| {
                let amount = |[blocks, bytes, samples]: [u64; 3]| Estimate::from(Amount { samples, blocks, bytes });
                let kind = super::Change::kind(&amount(before), &amount(after))?;
                let [before, after] = [before, after].map(|[blocks, bytes, _]| [blocks, bytes]);
                Some(GroupChange { labels, kind, before, after, bytes_error: variance.sqrt().round() as u64 })
            })
            .collect();
        changes.sort_by(|one, other| {
            let growth = |change: &GroupChange| (change.bytes(), change.blocks());
            growth(other).cmp(&growth(one)).then_with(|| one.labels.cmp(&other.labels))
        });
        changes
    }

    /// The changes to show: the most grown, and the most shrunk, so many of each (0: all). These stand last: one table
    /// from the most grown to the most shrunk.
    pub fn largest(changes: &[GroupChange], limit: usize) -> Vec<&GroupChange> {
        let limit = if limit == 0 { usize::MAX } else { limit };
        let grown = changes.iter().filter(|change| change.kind.is_up()).take(limit);
        let shrunk = changes.iter().rev().filter(|change| !change.kind.is_up()).take(limit);
        let mut shrunk: Vec<&GroupChange> = shrunk.collect();
        shrunk.reverse();
        grown.chain(shrunk).collect()
    }
}
