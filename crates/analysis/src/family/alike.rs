//! A tree of processes in few lines: those of one program below one parent, or below parents that are one line, are one.

use std::collections::HashMap;

use super::{FamilySummary, ProcessTotals};

/// Processes that are one line of the tree: of the same programs, below the same line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlikeProcesses {
    /// The processes, as indices of [`heapledger_source::ProcessTree::processes`].
    pub processes: Vec<usize>,
    /// How many lines are above it.
    pub depth: usize,
    /// The line above; `None` at the top.
    pub parent: Option<usize>,
    /// Of one process its figures; of several: the earliest beginning, the longest time, the highest peak, and the sums of all else.
    pub totals: ProcessTotals,
}

impl AlikeProcesses {
    /// Whether it stands for several.
    pub fn is_several(&self) -> bool {
        self.processes.len() > 1
    }
}

/// The lines of the tree, parents before their children, in the order in which the first of each began. `apart`: each process is a
/// line of its own.
pub fn alike(summary: &FamilySummary, apart: bool) -> Vec<AlikeProcesses> {
    let mut lines: Vec<AlikeProcesses> = Vec::new();
    let mut children: Vec<Vec<usize>> = Vec::new();
    let mut tops = Vec::new();
    let mut known: HashMap<(Option<usize>, &[String]), usize> = HashMap::new();
    let mut line_of: HashMap<usize, usize> = HashMap::new();
    for (index, depth) in summary.tree.walk() {
        let (Some(one), Some(totals)) = (summary.tree.processes.get(index), summary.processes.get(index)) else {
            continue;
        };
        let parent = one.parent.and_then(|parent| line_of.get(&parent).copied());
        let same = known.get(&(parent, &totals.programs[..])).copied().filter(|_| !apart);
        let line = same.unwrap_or_else(|| {
            let line = lines.len();
            lines.push(AlikeProcesses { depth, parent, ..AlikeProcesses::default() });
            children.push(Vec::new());
            match parent.and_then(|parent| children.get_mut(parent)) {
                Some(siblings) => siblings.push(line),
                None => tops.push(line),
            }
            known.insert((parent, &totals.programs[..]), line);
            line
        });
        line_of.insert(index, line);
        if let Some(line) = lines.get_mut(line) {
            line.processes.push(index);
            add(&mut line.totals, totals, line.processes.len() == 1);
        }
    }
    in_order(lines, &children, &tops)
}

/// Merged lines met their later children late: puts each below its parent again.
fn in_order(mut lines: Vec<AlikeProcesses>, children: &[Vec<usize>], tops: &[usize]) -> Vec<AlikeProcesses> {
    let mut ordered: Vec<AlikeProcesses> = Vec::with_capacity(lines.len());
    let mut left: Vec<(usize, Option<usize>)> = tops.iter().rev().map(|top| (*top, None)).collect();
    while let Some((line, parent)) = left.pop() {
        let Some(taken) = lines.get_mut(line).map(std::mem::take) else { continue };
        let place = ordered.len();
        ordered.push(AlikeProcesses { parent, ..taken });
        left.extend(children.get(line).into_iter().flatten().rev().map(|child| (*child, Some(place))));
    }
    ordered
}

fn add(sum: &mut ProcessTotals, one: &ProcessTotals, is_first: bool) {
    if is_first {
        *sum = one.clone();
        return;
    }
    if one.began_unix_ns != 0 && (sum.began_unix_ns == 0 || one.began_unix_ns < sum.began_unix_ns) {
        sum.began_unix_ns = one.began_unix_ns;
    }
    sum.lasted_ns = sum.lasted_ns.max(one.lasted_ns);
    sum.lasted_at_least |= one.lasted_at_least;
    sum.peak_bytes = sum.peak_bytes.max(one.peak_bytes);
    sum.live_blocks = sum.live_blocks.saturating_add(one.live_blocks);
    sum.live_bytes = sum.live_bytes.saturating_add(one.live_bytes);
    sum.allocations = sum.allocations.saturating_add(one.allocations);
    sum.bytes_allocated = sum.bytes_allocated.saturating_add(one.bytes_allocated);
    sum.errors = sum.errors.saturating_add(one.errors);
    // They ended alike, or it is not said how.
    sum.end = sum.end.filter(|end| Some(*end) == one.end);
    sum.running |= one.running;
    sum.recorded = sum.recorded.saturating_add(one.recorded);
    sum.unrecorded = sum.unrecorded.saturating_add(one.unrecorded);
    sum.sampled |= one.sampled;
    sum.inherited.add(&one.inherited);
}
