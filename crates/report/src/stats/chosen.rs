//! Totals of those blocks that a filter means, as text.

use std::io;

use heapledger_analysis::Chosen;
use heapledger_format::record::Options;

use crate::form::notes;
use crate::form::notes::{MissingFrees, missing_frees};
use crate::form::units::clean;
use crate::stats::StatsReport;
use crate::stats::text::{Fields, allocators, heaps, recorded, sites, threads};

/// What is of the whole program and so is not here.
const WHOLE: &str = "The peak, failed calls and what recording took are of the whole program: see them without --where \
                     and -F.";

/// Writes all that comes behind the program.
pub(crate) fn rest(mut fields: Fields<'_>, report: &StatsReport<'_>, chosen: &Chosen) -> io::Result<()> {
    let StatsReport { summary, top, paint, .. } = *report;
    let figures = paint.figures(summary.sampled.is_some());
    fields.line("Only", clean(&chosen.filter).into_owned())?;
    fields.field("Heap", &heaps(summary, figures))?;
    let allocations = figures.counted(summary.allocations, "allocation", "allocations");
    let mut history = vec![format!("{allocations} in the ledger, {} freed", figures.count(summary.frees))];
    if chosen.frees_missing != 0 {
        let missing = missing_frees(MissingFrees {
            frees: chosen.frees_missing,
            estimated: figures.estimated,
            recorded: chosen.frees_recorded,
        });
        history.push(format!("Caution: {missing}, of any blocks."));
    }
    fields.field("History", &history)?;
    let blocks = figures.counted(summary.live_blocks, "block", "blocks");
    let live = figures.bytes_with_error(summary.live_bytes, summary.live_bytes_error);
    fields.line("Current", format!("{live} in {blocks}"))?;
    if let Some(actual) = summary.actual_bytes {
        fields.line("Actual", figures.bytes_exact(actual))?;
        let overhead = figures.bytes_exact(actual.saturating_sub(summary.live_bytes));
        fields.line("Overhead", overhead)?;
    }
    sites(&mut fields, summary, top)?;
    allocators(&mut fields, summary)?;
    if summary.options.has(Options::THREAD) {
        let mut holding = summary.clone();
        holding.threads.retain(|totals| totals.live_blocks != 0);
        threads(&mut fields, &holding, report.threads)?;
    }
    fields.field("Options", &recorded(summary))?;
    fields.line("Left out", WHOLE.to_owned())?;
    notes::write(fields.out, &summary.seen, paint)?;
    fields.out.flush()
}
