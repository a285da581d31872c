//! Live blocks of all processes of a session, added up by process or program, and by what holds them.

use std::collections::HashMap;

use crate::query::GroupOrder;
use crate::{Group, GroupKey, Groups};

/// Blocks of a session that have something in common.
#[derive(Clone, Debug, PartialEq)]
pub struct FamilyGroup {
    /// The process or program, if these are told apart.
    pub process: Option<String>,
    /// The rest, as of one ledger. Call sites and times, which are each ledger's own, say nothing.
    pub group: Group,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct FamilyGroups {
    /// In the order that was asked for, once they are [finished](FamilyGroups::finish).
    pub groups: Vec<FamilyGroup>,
    places: HashMap<(Option<String>, Vec<GroupKey>), usize>,
    /// Blocks in all.
    pub total_blocks: u64,
    /// Bytes in all.
    pub total_bytes: u64,
    /// Whether figures are estimates, of some processes at least.
    pub is_sampled: bool,
    /// Records that were being written.
    pub in_flight: u64,
    /// How many groups there are in all.
    pub total: u64,
}

impl FamilyGroups {
    /// Adds all groups of one ledger; `process`: what they belong to, where that is told apart.
    pub fn add(&mut self, process: Option<&str>, groups: &Groups) {
        self.total_blocks = self.total_blocks.saturating_add(groups.total_blocks);
        self.total_bytes = self.total_bytes.saturating_add(groups.total_bytes);
        self.is_sampled |= groups.sampled.is_some();
        self.in_flight = self.in_flight.saturating_add(groups.in_flight);
        for group in &groups.groups {
            let key = (process.map(str::to_owned), group.keys.clone());
            let place = *self.places.entry(key).or_insert(self.groups.len());
            let Some(FamilyGroup { group: known, .. }) = self.groups.get_mut(place) else {
                let group = Group { oldest: None, youngest: None, lived: None, ..group.clone() };
                self.groups.push(FamilyGroup { process: process.map(str::to_owned), group });
                continue;
            };
            known.samples = known.samples.saturating_add(group.samples);
            known.blocks = known.blocks.saturating_add(group.blocks);
            known.bytes = known.bytes.saturating_add(group.bytes);
            // Errors of samples that were drawn apart.
            known.bytes_error = (known.bytes_error as f64).hypot(group.bytes_error as f64).round() as u64;
            known.largest = known.largest.max(group.largest);
        }
    }

    /// Puts them in order, and keeps the first `limit`; 0: all.
    pub fn finish(&mut self, order: &GroupOrder, limit: usize) {
        let process = |one: &FamilyGroup| one.process.clone();
        self.groups.sort_by(|one, other| {
            order.compare(&one.group, &other.group).then_with(|| process(one).cmp(&process(other)))
        });
        self.total = self.groups.len() as u64;
        self.places.clear();
        if limit != 0 {
            self.groups.truncate(limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use heapledger_format::Site;

    use super::*;

    fn groups(all: &[(&str, u64, u64)]) -> Groups {
        let group = |(name, blocks, bytes): &(&str, u64, u64)| Group {
            keys: vec![GroupKey::Module(Some(Arc::from(*name)))],
            samples: *blocks,
            blocks: *blocks,
            bytes: *bytes,
            bytes_error: 3,
            largest: Some(*bytes),
            oldest: Some(heapledger_format::Ticks(1)),
            youngest: None,
            site: Site(1),
            lived: None,
        };
        let (total_blocks, total_bytes) = (all.iter().map(|one| one.1).sum(), all.iter().map(|one| one.2).sum());
        Groups { groups: all.iter().map(group).collect(), total_blocks, total_bytes, ..Groups::default() }
    }

    #[test]
    fn what_is_alike_in_several_processes_is_one_group_unless_they_are_told_apart() {
        let both = [groups(&[("libc", 2, 50), ("a", 1, 10)]), groups(&[("libc", 3, 5), ("b", 1, 60)])];
        let told = |apart: bool, limit: usize| {
            let mut all = FamilyGroups::default();
            all.add(apart.then_some("sh 1"), &both[0]);
            all.add(apart.then_some("sh 2"), &both[1]);
            all.finish(&GroupOrder::default(), limit);
            assert_eq!((all.total_blocks, all.total_bytes), (7, 125));
            all
        };
        let shown = |all: &FamilyGroups| -> Vec<(u64, u64, Option<u64>)> {
            all.groups.iter().map(|one| (one.group.bytes, one.group.blocks, one.group.largest)).collect()
        };
        let together = told(false, 0);
        assert_eq!(shown(&together), [(60, 1, Some(60)), (55, 5, Some(50)), (10, 1, Some(10))]);
        assert_eq!((together.groups[1].group.bytes_error, together.groups[1].group.oldest), (4, None));
        let apart = told(true, 2);
        assert_eq!((shown(&apart), apart.total), (vec![(60, 1, Some(60)), (50, 2, Some(50))], 4));
        assert_eq!(apart.groups[0].process.as_deref(), Some("sh 2"));
    }
}
