//! Live blocks as JSON, one object a line. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::Selection;
use heapledger_analysis::fields::JsonObject;
use heapledger_analysis::query::Subject;
use heapledger_format::Entry;
use serde::Serialize;

use super::BlocksReport;
use crate::form::json::{Condition, HeaderLine, StackLines, end, line};
use crate::record::json::FieldsJson;
use crate::{Context, Report, ReportError};

#[derive(Serialize)]
pub(crate) struct BlockLine<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'static str>,
    #[serde(flatten)]
    block: FieldsJson<'a>,
}

/// Writes the first line of a report of `selection`.
pub(super) fn header(out: &mut dyn Write, context: &Context, selection: &Selection) -> io::Result<()> {
    let head = HeaderLine::new("dump", &context.ledger, selection.sampled);
    line(out, &head.with(Condition { r#where: selection.filter.as_deref() }))
}

impl<'a> BlockLine<'a> {
    /// `change` is what became of the block, where that is told.
    pub(crate) fn of(context: &'a Context, block: &'a Entry, change: Option<&'static str>) -> BlockLine<'a> {
        let block = FieldsJson::of(context, JsonObject::Block, Subject::live(block));
        BlockLine { r#type: "block", change, block }
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
