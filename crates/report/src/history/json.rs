//! Events as JSON, one object a line. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::fields::JsonObject;
use heapledger_analysis::query::Subject;
use heapledger_analysis::{Coverage, Event, EventKind, Events};
use serde::Serialize;

use super::EventsReport;
use crate::form::json::{HeaderLine, StackLines, end, line};
use crate::record::json::{FieldsJson, FreeDepthsJson};
use crate::{Context, Report, ReportError};

#[derive(Serialize)]
struct EventLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    event: FieldsJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    freed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocation: Option<FieldsJson<'a>>,
}

/// Writes the first line of a report of `events`.
pub(super) fn header(out: &mut dyn Write, context: &Context, events: &Events) -> io::Result<()> {
    #[derive(Serialize)]
    struct EventsAsked<'a> {
        #[serde(flatten)]
        gaps: HistoryGaps<'a>,
        #[serde(flatten)]
        free_depths: FreeDepthsJson,
        r#where: Option<&'a str>,
    }
    let found = events.coverage();
    let (gaps, free_depths) = (HistoryGaps::of(&found), FreeDepthsJson::of(context));
    let more = EventsAsked { gaps, free_depths, r#where: events.filter.as_deref() };
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
    let (freed, moved_number, allocation) = match &event.kind {
        EventKind::Allocation { freed } => (Some(freed.is_some()), None, None),
        EventKind::Free(entry) => {
            let moved = entry.by.reallocates();
            let allocation = FieldsJson::of(context, JsonObject::End, Subject::allocation(entry));
            (None, moved.then_some(entry.number + u64::from(entry.later)), Some(allocation))
        }
    };
    let event = FieldsJson::of(context, JsonObject::Event, Subject::from(event));
    line(out, &EventLine { r#type: "event", event, freed, moved_number, allocation })
}
