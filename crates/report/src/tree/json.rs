//! A call tree as JSON, a node a line. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::tree::{Amounts, LevelKind, Measure, ProcessLevel};
use heapledger_format::ThreadRow;
use heapledger_source::Thread;
use serde::Serialize;

use super::walk::walk;
use super::{TreeReport, measure_name};
use crate::Ending;
use crate::form::json::{HeaderLine, end, line};

/// What a node holds.
#[derive(Serialize)]
pub(crate) struct AmountsJson {
    live_bytes: u64,
    live_blocks: u64,
    allocated_bytes: u64,
    allocated_blocks: u64,
    freed_bytes: u64,
    freed_blocks: u64,
    peak_bytes: u64,
    peak_blocks: u64,
    temporary_bytes: u64,
    temporary_blocks: u64,
}

impl AmountsJson {
    pub(crate) fn of(amounts: &Amounts) -> AmountsJson {
        let get = |measure| amounts.get(measure);
        AmountsJson {
            live_bytes: get(Measure::LiveBytes),
            live_blocks: get(Measure::LiveBlocks),
            allocated_bytes: get(Measure::AllocatedBytes),
            allocated_blocks: get(Measure::AllocatedBlocks),
            freed_bytes: get(Measure::FreedBytes),
            freed_blocks: get(Measure::FreedBlocks),
            peak_bytes: get(Measure::PeakBytes),
            peak_blocks: get(Measure::PeakBlocks),
            temporary_bytes: get(Measure::TemporaryBytes),
            temporary_blocks: get(Measure::TemporaryBlocks),
        }
    }
}

#[derive(Serialize)]
struct TreeAsked<'a> {
    r#where: Option<&'a str>,
    program: Option<&'a str>,
    pid: Option<u32>,
    inverted: bool,
    /// What the first levels are, if they are processes or programs.
    processes: Option<&'static str>,
    by_thread: bool,
    by: String,
    complete: bool,
    frees: u64,
    frees_missing: u64,
    /// Whether figures of freed blocks are of the whole run, and those of the peak and of temporary blocks are known.
    whole_run: bool,
    peak_error_bytes: Option<u64>,
    stats_peak_bytes: Option<u64>,
}

#[derive(Serialize)]
struct NodeLine<'a> {
    r#type: &'static str,
    id: u32,
    parent: Option<u32>,
    depth: u32,
    kind: &'static str,
    function: Option<&'a str>,
    module: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    several_lines: bool,
    inlined: bool,
    callers_guessed: bool,
    #[serde(flatten)]
    total: AmountsJson,
    own: AmountsJson,
}

/// Writes the tree: the root, then each node behind the one that it belongs to, greatest first. Returns how many nodes
/// were left out.
pub(super) fn write(out: &mut dyn Write, view: &TreeReport<'_>) -> io::Result<u64> {
    let TreeReport { tree, sums, measure, identity, .. } = *view;
    let more = TreeAsked {
        r#where: sums.filter.as_deref(),
        program: identity.program.as_deref(),
        pid: identity.pid,
        inverted: tree.inverted,
        processes: tree.processes.map(ProcessLevel::name),
        by_thread: tree.by_thread,
        by: measure_name(measure).replace(' ', "_"),
        complete: sums.frees_missing == 0,
        frees: sums.frees,
        frees_missing: sums.frees_missing,
        whole_run: sums.is_whole,
        peak_error_bytes: sums.peak_error,
        stats_peak_bytes: sums.peak_highest,
    };
    line(out, &HeaderLine::new("tree", view.ledger, sums.sampled).with(more))?;
    let left_out = walk(view, &mut |id| {
        let node = &tree.nodes[id as usize];
        let level = tree.level(node);
        let kind = match level.kind {
            _ if id == 0 => "root",
            LevelKind::Function => "function",
            LevelKind::Address => "address",
            LevelKind::Thread => "thread",
            LevelKind::Process => "process",
            LevelKind::NoStack => "no_stack",
        };
        let object = NodeLine {
            r#type: "node",
            id,
            parent: (id != 0).then_some(node.parent),
            depth: node.depth,
            kind,
            function: (id != 0).then_some(level.plain_name()),
            module: level.module.as_deref(),
            file: tree.file(node).map(|file| &**file),
            line: node.line,
            several_lines: node.several_lines,
            inlined: node.inlined,
            callers_guessed: level.guesses_callers(),
            total: AmountsJson::of(&node.total[0]),
            own: AmountsJson::of(&node.own[0]),
        };
        line(out, &object)
    })?;
    let shown = tree.nodes.len() as u64 - left_out;
    end(out, Ending { shown, left_out, in_flight: sums.in_flight }, view.seen)?;
    Ok(left_out)
}

/// What a thread is called where it is a level of a tree.
pub fn thread_name(row: Option<ThreadRow>, thread: Option<&Thread>) -> String {
    match (row, thread) {
        (None, _) => "no thread recorded".to_owned(),
        (Some(row), Some(thread)) if thread.name.is_empty() => format!("thread {row}, {}", thread.id),
        (Some(row), Some(thread)) => format!("thread {row}, {} {}", thread.id, thread.name),
        (Some(row), None) => format!("thread {row}"),
    }
}
