//! What became of the blocks between two ledgers, as JSON. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::Estimate;
use heapledger_analysis::diff::{Change, ChangeKind};
use heapledger_analysis::{NamedFrame, NamedStack};
use serde::Serialize;

use super::text::{sampled_in_all, stack};
use super::{Compared, DiffReport, add_notes};
use crate::form::json::{HeaderLine, frames, line};
use crate::{Ending, ReportError};

#[derive(Serialize)]
struct AmountJson {
    blocks: u64,
    bytes: u64,
}

fn amount(amount: &Estimate) -> AmountJson {
    AmountJson { blocks: amount.blocks, bytes: amount.bytes }
}

#[derive(Serialize)]
struct ListJson {
    stacks: u64,
    bytes: i64,
}

fn list((stacks, bytes): (u64, i64)) -> ListJson {
    ListJson { stacks, bytes }
}

/// Writes the first line: what is compared.
pub(super) fn header(out: &mut dyn Write, compared: &Compared<'_>) -> io::Result<()> {
    #[derive(Serialize)]
    struct LedgersCompared<'a> {
        before: &'a str,
        r#where: Option<&'a str>,
    }
    let [a, b] = compared.sides;
    let head = HeaderLine::new("diff", b.ledger, sampled_in_all(compared.diff.sampled));
    line(out, &head.with(LedgersCompared { before: a.ledger, r#where: compared.filter }))
}

/// Writes an interval, to be seen at once.
pub(super) fn interval(report: &mut DiffReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    totals(out, &report.compared, "interval")?;
    changes(report, out)?;
    Ok(out.flush()?)
}

/// Writes the comparison behind the first line, or behind intervals.
pub(super) fn end(report: &mut DiffReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    totals(out, &report.compared, "diff")?;
    let shown = changes(report, out)?;
    add_notes(&mut report.seen, &mut report.names);
    let diff = report.compared.diff;
    let left_out = (diff.changes.len() as u64).saturating_sub(shown);
    let ending = Ending { shown, left_out, in_flight: diff.in_flight };
    Ok(crate::form::json::end(out, ending, &report.seen)?)
}

/// Writes a line for each change that is shown, and says how many these were.
fn changes(report: &mut DiffReport<'_>, out: &mut dyn Write) -> Result<u64, ReportError> {
    let lists = report.compared.diff.largest(report.limit);
    for change in lists.iter().flatten() {
        change_line(out, change, &stack(&mut report.names, change)?)?;
    }
    Ok(lists.iter().map(Vec::len).sum::<usize>() as u64)
}

/// Writes the totals, in a line of this type.
pub(super) fn totals(out: &mut dyn Write, compared: &Compared<'_>, name: &'static str) -> io::Result<()> {
    #[derive(Serialize)]
    struct SideJson {
        #[serde(flatten)]
        amount: AmountJson,
        bytes_error: u64,
        unix_ns: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        peak_error_bytes: Option<u64>,
    }
    #[derive(Serialize)]
    struct DiffLine {
        r#type: &'static str,
        one_run: bool,
        reversed: bool,
        before: SideJson,
        after: SideJson,
        new: Option<AmountJson>,
        freed: Option<AmountJson>,
        growth_blocks: i64,
        growth_bytes: i64,
        growth_bytes_error: u64,
        grown: ListJson,
        shrunk: ListJson,
        unchanged_stacks: u64,
    }
    let Compared { diff, sides, .. } = *compared;
    let [before, after] = [0, 1].map(|side: usize| SideJson {
        amount: amount(&diff.all[side]),
        bytes_error: diff.all[side].bytes_error(),
        unix_ns: sides[side].unix_ns,
        peak_error_bytes: sides[side].peak_error,
    });
    let object = DiffLine {
        r#type: name,
        one_run: diff.born.is_some(),
        reversed: diff.reversed,
        before,
        after,
        new: diff.born.as_ref().map(amount),
        freed: diff.freed.as_ref().map(amount),
        growth_blocks: diff.blocks(),
        growth_bytes: diff.bytes(),
        growth_bytes_error: diff.bytes_error(),
        grown: list(diff.growth()),
        shrunk: list(diff.shrinkage()),
        unchanged_stacks: diff.unchanged,
    };
    line(out, &object)
}

/// Writes one change.
fn change_line(out: &mut dyn Write, change: &Change, stack: &NamedStack) -> io::Result<()> {
    #[derive(Serialize)]
    struct ChangeLine<'a> {
        r#type: &'static str,
        change: &'static str,
        growth_blocks: i64,
        growth_bytes: i64,
        growth_bytes_error: u64,
        within_error: bool,
        before: AmountJson,
        after: AmountJson,
        new: Option<AmountJson>,
        freed: Option<AmountJson>,
        stacks: u64,
        sites: [Option<u32>; 2],
        #[serde(serialize_with = "frames")]
        frames: &'a [NamedFrame],
    }
    let object = ChangeLine {
        r#type: "change",
        change: match change.kind {
            ChangeKind::New => "new",
            ChangeKind::Grown => "grown",
            ChangeKind::Shrunk => "shrunk",
            ChangeKind::Gone => "gone",
        },
        growth_blocks: change.blocks(),
        growth_bytes: change.bytes(),
        growth_bytes_error: change.bytes_error(),
        within_error: change.is_within_error(),
        before: amount(&change.before),
        after: amount(&change.after),
        new: change.born.as_ref().map(amount),
        freed: change.freed.as_ref().map(amount),
        stacks: change.stacks,
        sites: change.sites.map(|site| site.map(|site| site.0)),
        frames: &stack.frames,
    };
    line(out, &object)
}
