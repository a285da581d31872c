//! Stacks with their figures as JSON, a stack a line. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::tree::{CallTree, LevelKind, ProcessLevel};
use serde::Serialize;

use super::FlameReport;
use crate::Ending;
use crate::form::json::{HeaderLine, end, line};
use crate::tree::json::AmountsJson;

#[derive(Serialize)]
struct FlameAsked<'a> {
    before: Option<&'a str>,
    r#where: Option<&'a str>,
    program: Option<&'a str>,
    pid: Option<u32>,
    inverted: bool,
    /// What the first levels are, if they are processes or programs.
    processes: Option<&'static str>,
    by_thread: bool,
    complete: bool,
    frees: u64,
    frees_missing: u64,
    whole_run: bool,
    peak_error_bytes: Option<u64>,
    stats_peak_bytes: Option<u64>,
}

#[derive(Serialize)]
struct StackLine<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<&'a str>,
    functions: &'a [&'a str],
    guessed: bool,
    #[serde(flatten)]
    figures: AmountsJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<AmountsJson>,
}

/// Writes each stack that holds anything, or held anything in the older ledger.
pub(super) fn write(out: &mut dyn Write, tree: &CallTree, report: &FlameReport<'_>) -> io::Result<()> {
    let FlameReport { ledgers, identity, sums, seen, .. } = *report;
    let before = ledgers.get(1).copied();
    let more = FlameAsked {
        before,
        r#where: sums.filter.as_deref(),
        program: identity.program.as_deref(),
        pid: identity.pid,
        inverted: tree.inverted,
        processes: tree.processes.map(ProcessLevel::name),
        by_thread: tree.by_thread,
        complete: sums.frees_missing == 0,
        frees: sums.frees,
        frees_missing: sums.frees_missing,
        whole_run: sums.is_whole,
        peak_error_bytes: sums.peak_error,
        stats_peak_bytes: sums.peak_highest,
    };
    let head = HeaderLine::new("flame", ledgers.first().copied().unwrap_or_default(), sums.sampled);
    line(out, &head.with(more))?;
    let children = tree.children(|node| node.level);
    let (mut path, mut waiting, mut shown): (Vec<&str>, _, _) = (Vec::new(), vec![0u32], 0);
    let mut guessed: Vec<bool> = Vec::new();
    let (mut process, mut thread) = (None, None);
    while let Some(id) = waiting.pop() {
        let node = &tree.nodes[id as usize];
        let level = tree.level(node);
        let above = (node.depth as usize).saturating_sub(1 + tree.top_levels());
        path.truncate(above);
        guessed.truncate(above);
        match level.kind {
            _ if id == 0 => {}
            LevelKind::Process => (process, thread) = (Some(&*level.name), None),
            LevelKind::Thread => thread = Some(&*level.name),
            _ => {
                path.push(level.plain_name());
                guessed.push(level.guesses_callers());
            }
        }
        let [new, old] = node.own;
        if id != 0 && !(new.is_zero() && old.is_zero()) {
            let object = StackLine {
                r#type: "stack",
                process,
                thread,
                functions: &path,
                guessed: guessed.contains(&true),
                figures: AmountsJson::of(&new),
                before: before.map(|_| AmountsJson::of(&old)),
            };
            line(out, &object)?;
            shown += 1;
        }
        waiting.extend(children.of(id).iter().rev());
    }
    end(out, Ending { shown, left_out: 0, in_flight: sums.in_flight }, seen)
}
