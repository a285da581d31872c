//! Live blocks as JSON, one object a line. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::Selection;
use heapledger_format::Entry;
use serde::Serialize;

use super::BlocksReport;
use crate::form::json::{Condition, HeaderLine, Hex, StackLines, ThreadJson, end, heap, line, thread, weight};
use crate::{Context, Report, ReportError};

#[derive(Serialize)]
pub(crate) struct BlockLine<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'static str>,
    address: Hex,
    size: Option<u64>,
    actual: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u64>,
    function: String,
    number: u64,
    time_ns: Option<u64>,
    age_ns: Option<u64>,
    thread: Option<ThreadJson<'a>>,
    heap: Option<String>,
    site: u32,
}

/// Writes the first line of a report of `selection`.
pub(super) fn header(out: &mut dyn Write, context: &Context, selection: &Selection) -> io::Result<()> {
    let head = HeaderLine::new("dump", &context.ledger, selection.sampled);
    line(out, &head.with(Condition { r#where: selection.filter.as_deref() }))
}

impl<'a> BlockLine<'a> {
    /// `change` is what became of the block, where that is told.
    pub(crate) fn of(context: &'a Context, block: &Entry, change: Option<&'static str>) -> BlockLine<'a> {
        BlockLine {
            r#type: "block",
            change,
            address: Hex(block.address),
            size: block.size,
            actual: block.actual,
            weight: weight(context, block),
            function: block.kind.to_string(),
            number: block.number,
            time_ns: block.time.and_then(|ticks| context.clock.ns(ticks)),
            age_ns: block.time.and_then(|ticks| context.clock.age_ns(ticks)),
            thread: thread(context, block.thread),
            heap: heap(context, block),
            site: block.site,
        }
    }
}

/// Writes each block, and before the first one of each stack the stack.
pub(super) fn write(report: &mut BlocksReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let BlocksReport { context, selection, .. } = *report;
    header(out, context, selection)?;
    let mut stacks = StackLines::default();
    for block in &selection.blocks {
        stacks.line(out, report.names, block.site)?;
        line(out, &BlockLine::of(context, &block, None))?;
    }
    report.seen.notes.extend(report.names.notes());
    Ok(end(out, report.ending(), &report.seen)?)
}
