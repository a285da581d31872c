//! Live blocks, as text.

use std::io::{self, Write};

use heapledger_analysis::query::Subject;
use heapledger_analysis::{NamedStack, Sampled, Seen, Selection};
use heapledger_format::Entry;

use super::BlocksReport;

use crate::form::fit::Fit;
use crate::form::notes;
use crate::form::units::{count, counted};
use crate::record::frames;
use crate::{Context, Ending, Paint, Report, ReportError};

/// Writes blocks one by one, where they come from if these are samples, how many there are, and what was not seen.
///
/// ```text
/// 0x000c0f50 : malloc 13 B, actual size 24 B (+11), number 229605, time 3.960 s, age 12.1 s
///   By thread 3, 4242 worker-3
///   1) 0x00040ed8 worker2()
///      /tmp/mdd/consume.cxx:393
///      "            allocs[index].data.c    = malloc(size);"
/// ```
pub(super) fn write(report: &mut BlocksReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let BlocksReport { context, threads_recorded, selection, .. } = *report;
    let mut out = Fit::new(out, context.paint);
    begin(&mut out, context, selection)?;
    for block in &selection.blocks {
        block_text(&mut out, context, threads_recorded, &block, &report.names.stack(block.site)?)?;
        writeln!(out)?;
    }
    report.seen.notes.extend(report.names.notes());
    Ok(end(out, context, report.ending(), selection, &report.seen)?)
}

/// Writes the line with which a report of samples begins.
pub(super) fn begin(mut out: impl Write, context: &Context, selection: &Selection) -> io::Result<()> {
    if let Some(from) = selection.sampled {
        sampled(&mut out, context.paint, from, "of live blocks")?;
    }
    Ok(())
}

/// Writes how many blocks there were of `selection`, and what was not seen.
pub(super) fn end(
    out: impl Write,
    context: &Context,
    ending: Ending,
    selection: &Selection,
    seen: &Seen,
) -> io::Result<()> {
    let mut out = Fit::new(out, context.paint);
    let all = ending.shown + ending.left_out;
    let figures = context.paint.figures(selection.sampled.is_some());
    let bytes = figures.bytes_with_error(selection.total_bytes, selection.total_bytes_error);
    let (of, what) = if figures.estimated {
        let blocks = figures.counted(selection.total_blocks, "block", "blocks");
        (counted(all, "sample", "samples"), format!("standing for {blocks}, {bytes}"))
    } else {
        (counted(all, "block", "blocks"), bytes)
    };
    if all == 0 {
        let block = if figures.estimated { "No sampled block" } else { "No block" };
        let chosen = if selection.filter.is_some() { " of those asked for" } else { "" };
        writeln!(out, "{block}{chosen} is allocated.")?;
    } else if ending.left_out == 0 {
        sentence_line(&mut out, context.paint, &format!("{of}, {what}."))?;
    } else {
        let (shown, left_out) = (count(ending.shown), count(ending.left_out));
        let text = format!("{shown} of {of}, {what}; {left_out} left out (--limit 0 shows all).");
        sentence_line(&mut out, context.paint, &text)?;
    }
    notes::write(&mut out, seen, context.paint)?;
    out.flush()
}

/// Writes where the estimates of a report come from, and an empty line.
pub(crate) fn sampled(out: &mut dyn Write, paint: Paint, from: Sampled, what: &str) -> io::Result<()> {
    let text = paint.estimated_figures().sampled(from, what);
    writeln!(out, "{} {}\n", paint.strong("Sampled   :"), paint.lines(&text, 12, 12))
}

/// Writes a sentence that ends a report.
pub(crate) fn sentence_line(out: &mut dyn Write, paint: Paint, text: &str) -> io::Result<()> {
    writeln!(out, "{}", paint.lines(text, 0, 2))
}

/// An address as reports begin with it; one that was not recorded as well.
pub(crate) fn address_text(address: u64) -> String {
    if address == 0 { "(no address)".to_owned() } else { format!("{address:#010x}") }
}

/// Columns of that.
pub(crate) fn address_width(address: u64) -> usize {
    address_text(address).len()
}

/// One block with all that is known of it.
pub(crate) fn block_text(
    out: &mut dyn Write,
    context: &Context,
    threads_recorded: bool,
    block: &Entry,
    stack: &NamedStack,
) -> io::Result<()> {
    let address = context.paint.strong(address_text(block.address));
    let time = frames::time_and_age(&context.clock, block.time) + &frames::core(&Subject::live(block));
    let (size, weight) = (frames::size(block), frames::weight(context, block));
    let text = format!(": {} {size}{weight}, number {}{time}", block.kind, block.number);
    writeln!(out, "{address} {}", context.paint.lines(&text, address_width(block.address) + 1, 2))?;
    frames::thread(out, context, block.thread, threads_recorded)?;
    frames::label(out, context, &Subject::live(block))?;
    frames::stack(out, stack, context.paint)
}
