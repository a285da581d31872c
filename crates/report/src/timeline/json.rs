//! Figures over time as JSON. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::{SeenBy, TimelinePoint};
use serde::Serialize;

use super::{TimelineReport, seen_by};
use crate::Report;
use crate::form::json::{HeaderLine, end, line};

#[derive(Serialize)]
struct TimelineLine<'a> {
    r#type: &'static str,
    program: Option<&'a str>,
    start_unix_ns: Option<u64>,
    span_ns: u64,
    peak_bytes: Option<u64>,
    peak_blocks: Option<u64>,
    peak_time_ns: Option<u64>,
    peak_error_bytes: u64,
    /// Anonymous memory, present or swapped out, at its most.
    most_memory_bytes: Option<u64>,
    most_memory_ns: Option<u64>,
    coarsest_ns: u64,
    seen_by_run_ns: u64,
}

#[derive(Serialize)]
struct PointLine<'a> {
    r#type: &'static str,
    begin_ns: u64,
    end_ns: u64,
    seen_by: &'a str,
    looks: u32,
    live_bytes: u64,
    live_error_bytes: u64,
    live_blocks: Option<u64>,
    highest_bytes: u64,
    highest_blocks: Option<u64>,
    highest_ns: u64,
    lowest_bytes: u64,
    allocations: Option<u64>,
    frees: Option<u64>,
    bytes_allocated: Option<u64>,
    resident_bytes: Option<u64>,
    swapped_bytes: Option<u64>,
    minor_faults: Option<u64>,
    major_faults: Option<u64>,
}

/// Writes what it comes to, and each interval.
pub(super) fn write(report: &TimelineReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let TimelineReport { ledger, identity, timeline, sampled, seen, .. } = *report;
    line(out, &HeaderLine::new("timeline", ledger, sampled))?;
    let (peak, most) = (timeline.peak(), timeline.most_memory());
    let by_run = timeline.parts().into_iter().filter(|part| part.seen_by == SeenBy::Run);
    let whole = TimelineLine {
        r#type: "timeline",
        program: identity.program.as_deref(),
        start_unix_ns: timeline.start_unix_ns,
        span_ns: timeline.span_ns(),
        peak_bytes: peak.map(|point| point.highest_bytes),
        peak_blocks: timeline.peak_blocks(),
        peak_time_ns: timeline.peak_ns(),
        peak_error_bytes: timeline.peak_error_bytes,
        most_memory_bytes: most.and_then(TimelinePoint::own_memory_bytes),
        most_memory_ns: most.map(|point| point.end_ns),
        coarsest_ns: timeline.coarsest_ns(),
        seen_by_run_ns: by_run.map(|part| part.end_ns.saturating_sub(part.begin_ns)).sum(),
    };
    line(out, &whole)?;
    for point in &timeline.points {
        line(out, &point_line(point))?;
    }
    end(out, report.ending(), seen)
}

fn point_line(point: &TimelinePoint) -> PointLine<'_> {
    PointLine {
        r#type: "point",
        begin_ns: point.begin_ns,
        end_ns: point.end_ns,
        seen_by: seen_by(point),
        looks: point.looks,
        live_bytes: point.live_bytes,
        live_error_bytes: point.live_error_bytes,
        live_blocks: point.live_blocks,
        highest_bytes: point.highest_bytes,
        highest_blocks: point.highest_blocks,
        highest_ns: point.highest_ns,
        lowest_bytes: point.lowest_bytes,
        allocations: point.allocations,
        frees: point.frees,
        bytes_allocated: point.bytes_allocated,
        resident_bytes: point.resident_bytes,
        swapped_bytes: point.swapped_bytes,
        minor_faults: point.minor_faults,
        major_faults: point.major_faults,
    }
}
