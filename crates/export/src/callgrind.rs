//! Callgrind's format, version 1, for `callgrind_annotate` and KCachegrind: figures by function and line, and along calls.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::io::{self, Write};

use heapledger_analysis::tree::{Amounts, Measure};

use crate::about::TOOL;
use crate::columns::{ValueColumn, columns};
use crate::formats::{Comparison, ExportFormat, any_column, no_remarks};
use crate::merged::{Merged, MergedFrame};
use crate::profile::{Profile, ProfileFunction, TextId};

pub(crate) const FORMAT: ExportFormat = ExportFormat {
    name: "callgrind",
    about: "For KCachegrind and callgrind_annotate: all figures",
    ending: "callgrind.out",
    packed: None,
    comparison: Comparison::Never,
    needs_sizes: false,
    untold: "whole stacks (it has functions and who called them), addresses and times; calls=N counts blocks",
    holds: any_column,
    remarks: no_remarks,
    write,
};

/// A function as called from a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct GrindFrame {
    /// Its number among those of the file.
    function: u32,
    line: u32,
}

/// What is known of a function.
#[derive(Clone, Debug, Default)]
struct GrindFunction {
    /// By line.
    own: BTreeMap<u32, Amounts>,
    /// By line, and what is called there: the line of what is called, and what all of that holds.
    calls: BTreeMap<(u32, u32), (u32, Amounts)>,
}

/// Names that are written whole once, and by their numbers from then on.
#[derive(Default)]
struct Compressed(HashMap<TextId, usize>);

impl Compressed {
    fn write(&mut self, out: &mut dyn Write, key: &str, id: TextId, text: &str) -> io::Result<()> {
        let next = self.0.len() + 1;
        match self.0.get(&id) {
            Some(number) => writeln!(out, "{key}=({number})"),
            None => {
                self.0.insert(id, next);
                // An empty name would be taken for a reference to a number.
                writeln!(out, "{key}=({next}) {}", if text.is_empty() { "???" } else { text })
            }
        }
    }
}

/// The figures of the functions of a profile.
struct Grind {
    keys: Vec<ProfileFunction>,
    functions: Vec<GrindFunction>,
}

impl Grind {
    fn of(profile: &Profile) -> Grind {
        let mut keys: Vec<ProfileFunction> = Vec::new();
        let mut known: HashMap<ProfileFunction, u32> = HashMap::new();
        let merged = Merged::new(profile, |told| {
            let (key, line) = match told {
                MergedFrame::Line(_, line) => {
                    // One name, file and module are one function, however the linker calls it.
                    let function = profile.functions[line.function as usize];
                    (ProfileFunction { raw_name: TextId::default(), ..function }, line.line)
                }
                MergedFrame::Thread(name) => (ProfileFunction { name, ..ProfileFunction::default() }, 0),
            };
            let function = *known.entry(key).or_insert_with(|| {
                keys.push(key);
                keys.len() as u32 - 1
            });
            GrindFrame { function, line }
        });
        let mut functions = vec![GrindFunction::default(); keys.len()];
        let mut totals: Vec<Amounts> = merged.own.iter().map(|own| own[0]).collect();
        for node in (1..totals.len()).rev() {
            let total = totals[node];
            totals[merged.parents[node] as usize] += total;
        }
        let call = |node: usize| {
            let (caller, callee) = (merged.frames[merged.parents[node] as usize], merged.frames[node]);
            (caller, callee.function)
        };
        let repeated = repeated(&merged.parents, call);
        for (node, frame) in merged.frames.iter().copied().enumerate().skip(1) {
            if !merged.own[node][0].is_zero() {
                *functions[frame.function as usize].own.entry(frame.line).or_default() += merged.own[node][0];
            }
            let parent = merged.parents[node] as usize;
            if parent == 0 {
                continue;
            }
            let (caller, callee) = call(node);
            // In a recursion what is below has been counted by the outer one of two same calls.
            if !repeated[node] {
                let calls = &mut functions[caller.function as usize].calls;
                calls.entry((caller.line, callee)).or_insert((frame.line, Amounts::default())).1 += totals[node];
            }
        }
        Grind { keys, functions }
    }
}

/// Of each node whether the call that leads to it is made further out as well. Nodes have a parent of a lower number, the first is the root,
/// to whose children nobody calls.
fn repeated<Call: Eq + Hash>(parents: &[u32], call: impl Fn(usize) -> Call) -> Vec<bool> {
    // The first child of each, and its next sibling; 0: none.
    let (mut first, mut next) = (vec![0u32; parents.len()], vec![0u32; parents.len()]);
    for node in (1..parents.len()).rev() {
        let parent = parents[node] as usize;
        next[node] = first[parent];
        first[parent] = node as u32;
    }
    let mut repeated = vec![false; parents.len()];
    // Calls on the way from the root.
    let mut open: HashMap<Call, u32> = HashMap::new();
    let mut at = first.first().map_or(0, |node| *node as usize);
    while at != 0 {
        if parents[at] != 0 {
            let count = open.entry(call(at)).or_default();
            repeated[at] = *count != 0;
            *count += 1;
        }
        if first[at] != 0 {
            at = first[at] as usize;
            continue;
        }
        // Back to where there is another way.
        while at != 0 {
            if parents[at] != 0
                && let Some(count) = open.get_mut(&call(at))
            {
                *count -= 1;
            }
            if next[at] != 0 {
                at = next[at] as usize;
                break;
            }
            at = parents[at] as usize;
        }
    }
    repeated
}

fn costs(columns: &[ValueColumn], amounts: &Amounts) -> String {
    columns.iter().map(|column| format!(" {}", amounts.get(column.measure))).collect()
}

fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let grind = Grind::of(profile);
    // What was asked for comes first: viewers sort by that.
    let mut columns: Vec<ValueColumn> = columns(profile).into_iter().rev().collect();
    columns.sort_by_key(|column| column.measure != profile.about.measure);
    let about = &profile.about;
    writeln!(out, "# callgrind format\nversion: 1\ncreator: {TOOL}\npid: {}", about.pid.unwrap_or(0))?;
    writeln!(out, "cmd: {}", &about.command())?;
    for remark in about.remarks() {
        writeln!(out, "desc: {}", &remark)?;
    }
    writeln!(out, "positions: line")?;
    for column in &columns {
        writeln!(out, "event: {} : {}", column.name, column.title)?;
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    let total = profile.total(heapledger_analysis::tree::Side::New);
    writeln!(out, "events: {}\nsummary:{}", names.join(" "), costs(&columns, &total))?;
    let (mut modules, mut files, mut functions) = (Compressed::default(), Compressed::default(), HashMap::new());
    let mut position = |out: &mut dyn Write, prefix: &str, index: u32| -> io::Result<()> {
        let key = &grind.keys[index as usize];
        let module = profile.module(key.module_plus_1).map(|module| module.path).unwrap_or_default();
        modules.write(out, if prefix.is_empty() { "ob" } else { "cob" }, module, profile.texts.get(module))?;
        files.write(out, if prefix.is_empty() { "fl" } else { "cfi" }, key.file, profile.texts.get(key.file))?;
        let next = functions.len() + 1;
        match functions.get(&index) {
            Some(number) => writeln!(out, "{prefix}fn=({number})"),
            None => {
                functions.insert(index, next);
                let name = profile.texts.get(key.name);
                writeln!(out, "{prefix}fn=({next}) {}", if name.is_empty() { "???" } else { name })
            }
        }
    };
    for (index, function) in grind.functions.iter().enumerate() {
        if function.own.is_empty() && function.calls.is_empty() {
            continue;
        }
        writeln!(out)?;
        position(out, "", index as u32)?;
        for (line, own) in &function.own {
            writeln!(out, "{line}{}", costs(&columns, own))?;
        }
        for ((line, callee), (callee_line, amounts)) in &function.calls {
            position(out, "c", *callee)?;
            let blocks = amounts.get(Measure::AllocatedBlocks).max(amounts.get(Measure::LiveBlocks));
            writeln!(out, "calls={blocks} {callee_line}\n{line}{}", costs(&columns, amounts))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_repeated_where_one_further_out_is_the_same() {
        // main calls a, that b, that a, that b; main calls b, that a; each node with its parent and its function.
        let nodes =
            [(0, ""), (0, "main"), (1, "a"), (2, "b"), (3, "a"), (4, "b"), (1, "b"), (6, "a"), (0, "a"), (8, "b")];
        let parents = nodes.map(|(parent, _)| parent);
        let call = |node: usize| (nodes[parents[node] as usize].1, nodes[node].1);
        let mut expected = [false; 10];
        expected[5] = true; // a calls b, as two further out
        assert_eq!(repeated(&parents, call), expected);
        assert!(repeated(&[], call).is_empty());
        assert_eq!(repeated(&[0], call), [false]);
    }

    #[test]
    fn deep_stacks_take_no_longer_for_each_frame() {
        const DEPTH: u32 = 2_000_000;
        let parents: Vec<u32> = (0..DEPTH).map(|node| node.saturating_sub(1)).collect();
        // In a recursion of one function all calls but the first are repeated.
        let all = repeated(&parents, |_| 0);
        assert_eq!(all.iter().filter(|repeated| **repeated).count(), DEPTH as usize - 3);
    }
}
