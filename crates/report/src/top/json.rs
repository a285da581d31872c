//! Looks as JSON: each is a line, with its rows.

use std::io::{self, Write};

use serde::Serialize;

use super::{LookReport, LookState};
use crate::Ending;
use crate::form::json::{HeaderLine, end, line};

#[derive(Serialize)]
struct RowJson<'a> {
    label: &'a str,
    live_bytes: u64,
    live_blocks: u64,
    young_bytes: Option<u64>,
    young_blocks: Option<u64>,
    bytes_per_second: Option<f64>,
    blocks_per_second: Option<f64>,
    growth_bytes: i64,
    growth_blocks: i64,
    allocated_blocks: Option<u64>,
    allocated_bytes: Option<u64>,
    oldest_age_ns: Option<u64>,
}

#[derive(Serialize)]
struct LookJson<'a> {
    r#type: &'static str,
    time_ns: Option<u64>,
    program: &'a str,
    pid: Option<u32>,
    state: &'static str,
    live_bytes: u64,
    live_blocks: u64,
    peak_bytes: u64,
    allocations: u64,
    frees: u64,
    bytes_per_second: Option<f64>,
    allocations_per_second: Option<f64>,
    frees_per_second: Option<f64>,
    mark_age_ns: Option<u64>,
    read_ns: u64,
    r#where: Option<&'a str>,
    chosen_bytes: u64,
    chosen_blocks: u64,
    group: &'static str,
    rows_total: usize,
    rows: Vec<RowJson<'a>>,
}

/// To a thousandth.
fn rounded(rate: Option<f64>) -> Option<f64> {
    rate.map(|rate| (rate * 1000.0).round() / 1000.0)
}

/// Writes the first line.
pub(super) fn header(report: &LookReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    line(out, &HeaderLine::new("top", report.ledger, report.sampled))
}

/// Writes a look.
pub(super) fn look(report: &LookReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let look = report.look;
    let marked = look.mark_age_ns.is_some();
    let rows = report.rows.iter().map(|each| RowJson {
        label: &each.label,
        live_bytes: each.live.bytes,
        live_blocks: each.live.blocks,
        young_bytes: marked.then_some(each.young.bytes),
        young_blocks: marked.then_some(each.young.blocks),
        bytes_per_second: rounded(each.bytes_per_second),
        blocks_per_second: rounded(each.blocks_per_second),
        growth_bytes: each.growth_bytes,
        growth_blocks: each.growth_blocks,
        allocated_blocks: each.allocated_blocks,
        allocated_bytes: each.allocated_bytes,
        oldest_age_ns: each.oldest_ns,
    });
    let state = match look.state {
        LookState::Running => "running",
        LookState::Ended => "ended",
        LookState::Finished => "finished",
    };
    let look = LookJson {
        r#type: "look",
        time_ns: look.uptime_ns,
        program: &look.program,
        pid: look.pid,
        state,
        live_bytes: look.live_bytes,
        live_blocks: look.live_blocks,
        peak_bytes: look.peak_bytes,
        allocations: look.allocations,
        frees: look.frees,
        bytes_per_second: rounded(look.bytes_per_second),
        allocations_per_second: rounded(look.allocations_per_second),
        frees_per_second: rounded(look.frees_per_second),
        mark_age_ns: look.mark_age_ns,
        read_ns: look.read_ns,
        r#where: Some(look.condition.as_str()).filter(|text| !text.is_empty()),
        chosen_bytes: look.chosen.bytes,
        chosen_blocks: look.chosen.blocks,
        group: look.group,
        rows_total: look.rows_total,
        rows: rows.collect(),
    };
    line(out, &look)
}

/// Writes the last line, behind so many looks.
pub(super) fn last(report: &LookReport<'_>, shown: u64, out: &mut dyn Write) -> io::Result<()> {
    end(out, Ending { shown, left_out: 0, in_flight: report.in_flight }, &report.seen)
}
