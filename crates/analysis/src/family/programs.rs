//! Sessions by program: what all processes that ran one came to, and how that differs between two sessions.

use std::collections::BTreeMap;

use super::{FamilySummary, ProcessTotals};

/// What the processes of one program came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramTotals {
    /// How many there were that have figures.
    pub processes: u64,
    /// Bytes that lived at their ends, or live now.
    pub live_bytes: u64,
    /// Such blocks.
    pub live_blocks: u64,
    /// The highest peak of one of them.
    pub peak_bytes: u64,
    /// Blocks entered.
    pub allocations: u64,
    /// Bytes asked for in them.
    pub bytes_allocated: u64,
    /// Errors that were found.
    pub errors: u64,
}

impl ProgramTotals {
    fn add(&mut self, one: &ProcessTotals) {
        self.processes += 1;
        self.live_bytes = self.live_bytes.saturating_add(one.live_bytes);
        self.live_blocks = self.live_blocks.saturating_add(one.live_blocks);
        self.peak_bytes = self.peak_bytes.max(one.peak_bytes);
        self.allocations = self.allocations.saturating_add(one.allocations);
        self.bytes_allocated = self.bytes_allocated.saturating_add(one.bytes_allocated);
        self.errors = self.errors.saturating_add(one.errors);
    }
}

/// One program in two sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramChange {
    /// What it is called: its programs, where a process was several.
    pub programs: Vec<String>,
    /// What it came to in the earlier session; nothing, if it is not in that.
    pub before: ProgramTotals,
    /// And in the later one.
    pub after: ProgramTotals,
}

impl ProgramChange {
    /// Whether anything that counts is another than before.
    pub fn is_any(&self) -> bool {
        self.before != self.after
    }

    /// By how much the bytes that live changed, then those of the peak: what it is ordered by.
    fn weight(&self) -> (u64, u64, u64) {
        (
            self.after.live_bytes.abs_diff(self.before.live_bytes),
            self.after.peak_bytes.abs_diff(self.before.peak_bytes),
            self.after.bytes_allocated.abs_diff(self.before.bytes_allocated),
        )
    }
}

/// What became of the programs of a session in another one: most change first. Processes without figures are in neither.
pub fn programs_changed(before: &FamilySummary, after: &FamilySummary) -> Vec<ProgramChange> {
    let mut all: BTreeMap<&[String], (ProgramTotals, ProgramTotals)> = BTreeMap::new();
    for one in before.processes.iter().filter(|one| one.recorded != 0) {
        all.entry(&one.programs).or_default().0.add(one);
    }
    for one in after.processes.iter().filter(|one| one.recorded != 0) {
        all.entry(&one.programs).or_default().1.add(one);
    }
    let mut changes: Vec<ProgramChange> = all
        .into_iter()
        .map(|(programs, (before, after))| ProgramChange { programs: programs.to_vec(), before, after })
        .collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.weight()));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(processes: &[(&str, u64, u64)]) -> FamilySummary {
        let processes = processes.iter().map(|(name, live_bytes, peak_bytes)| ProcessTotals {
            programs: vec![(*name).to_owned()],
            live_bytes: *live_bytes,
            peak_bytes: *peak_bytes,
            recorded: 1,
            ..ProcessTotals::default()
        });
        FamilySummary { processes: processes.collect(), ..FamilySummary::default() }
    }

    #[test]
    fn programs_are_matched_by_name_and_most_change_comes_first() {
        let before = session(&[("make", 5, 10), ("cc1", 1, 100), ("cc1", 2, 50), ("gone", 3, 3)]);
        let mut after = session(&[("make", 5, 10), ("cc1", 100, 100), ("new", 7, 7)]);
        after.processes.push(ProcessTotals { programs: vec!["static".into()], ..ProcessTotals::default() });
        let changes = programs_changed(&before, &after);
        let shown: Vec<_> = changes
            .iter()
            .map(|change| {
                (change.programs[0].as_str(), change.before.live_bytes, change.after.live_bytes, change.is_any())
            })
            .collect();
        assert_eq!(shown, [("cc1", 3, 100, true), ("new", 0, 7, true), ("gone", 3, 0, true), ("make", 5, 5, false)]);
        assert_eq!((changes[0].before.processes, changes[0].before.peak_bytes), (2, 100));
    }
}
