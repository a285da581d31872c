//! Events as JSON, one object a line. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::{Coverage, Event, EventKind, Events};
use serde::Serialize;

use super::EventsReport;
use crate::form::json::{HeaderLine, Hex, StackLines, ThreadJson, end, heap, line, thread, weight};
use crate::{Context, Report, ReportError};

#[derive(Serialize)]
struct EventLine<'a> {
    r#type: &'static str,
    event: &'static str,
    function: String,
    address: Hex,
    size: Option<u64>,
    actual: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u64>,
    number: u64,
    time_ns: Option<u64>,
    thread: Option<ThreadJson<'a>>,
    heap: Option<String>,
    site: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    freed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocation: Option<AllocationJson<'a>>,
}

#[derive(Serialize)]
struct AllocationJson<'a> {
    function: String,
    number: u64,
    time_ns: Option<u64>,
    thread: Option<ThreadJson<'a>>,
    site: u32,
}

/// Writes the first line of a report of `events`.
pub(super) fn header(out: &mut dyn Write, context: &Context, events: &Events) -> io::Result<()> {
    #[derive(Serialize)]
    struct EventsAsked<'a> {
        #[serde(flatten)]
        gaps: HistoryGaps<'a>,
        r#where: Option<&'a str>,
    }
    let found = events.coverage();
    let more = EventsAsked { gaps: HistoryGaps::of(&found), r#where: events.filter.as_deref() };
    line(out, &HeaderLine::new("history", &context.ledger, events.sampled).with(more))
}

/// What a history has not.
#[derive(Serialize)]
pub(crate) struct HistoryGaps<'a> {
    complete: bool,
    frees_missing: u64,
    frees_shown_before: u64,
    gaps: &'a [u64],
}

impl HistoryGaps<'_> {
    pub(crate) fn of(found: &Coverage) -> HistoryGaps<'_> {
        let &Coverage { frees_missing, frees_shown_before, ref gaps, .. } = found;
        HistoryGaps { complete: frees_missing == 0, frees_missing, frees_shown_before, gaps }
    }
}

/// Writes each event, and before the first one of each stack the stack.
pub(super) fn write(report: &mut EventsReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let EventsReport { context, events, .. } = *report;
    header(out, context, events)?;
    let mut stacks = StackLines::default();
    for event in &events.events {
        stacks.line(out, report.names, event.site())?;
        event_line(out, context, &event)?;
    }
    report.seen.notes.extend(report.names.notes());
    Ok(end(out, report.ending(), &report.seen)?)
}

fn event_line(out: &mut dyn Write, context: &Context, event: &Event) -> io::Result<()> {
    let block = &event.block;
    let ns = |ticks: Option<u64>| ticks.and_then(|ticks| context.clock.ns(ticks));
    let moved_number = match &event.kind {
        EventKind::Free(entry) if entry.by.reallocates() => Some(entry.number + u64::from(entry.later)),
        _ => None,
    };
    let (name, function, freed, allocation) = match &event.kind {
        EventKind::Allocation { freed } => ("allocation", block.kind, Some(freed.is_some()), None),
        EventKind::Free(entry) => {
            let allocation = AllocationJson {
                function: block.kind.to_string(),
                number: block.number,
                time_ns: ns(block.time),
                thread: thread(context, block.thread),
                site: block.site,
            };
            ("free", entry.by, None, Some(allocation))
        }
    };
    let object = EventLine {
        r#type: "event",
        event: name,
        function: function.to_string(),
        address: Hex(block.address),
        size: block.size,
        actual: block.actual,
        weight: weight(context, block),
        number: event.number(),
        time_ns: ns(event.time()),
        thread: thread(context, event.thread()),
        heap: heap(context, block),
        site: event.site(),
        freed,
        moved_number,
        allocation,
    };
    line(out, &object)
}
