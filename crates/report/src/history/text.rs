//! What happened, as text.

use std::io::{self, Write};

use heapledger_analysis::query::Subject;
use heapledger_analysis::{Coverage, Event, EventKind, Events, NamedStack, Seen};

use super::EventsReport;
use crate::dump::text::{address_text, address_width, sampled, sentence_line};
use crate::form::fit::Fit;
use crate::form::notes;
use crate::form::units::{clean, count, counted, plain_bytes};
use crate::record::frames;
use crate::{Context, ReportError};

/// Writes events one by one.
///
/// ```text
/// Caution: history is incomplete: 4,711 frees are no longer in the ring.
///
/// malloc 131,072 B: 0x00097e88 (freed), actual size 131,088 B (+16), number 1, time 0.000 s
///   By thread 2, 4241 main
/// free 347 B: 0x001e6b08, actual size 368 B (+21), number 258951, time 4.461 s, allocated as number 25
/// ```
pub(super) fn write(report: &mut EventsReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let EventsReport { context, threads_recorded, events, .. } = *report;
    let mut out = Fit::new(out, context.paint);
    caution(&mut out, context, &events.coverage())?;
    for event in &events.events {
        event_text(&mut out, context, threads_recorded, &event, &report.names.stack(event.site())?)?;
        writeln!(out)?;
    }
    report.seen.notes.extend(report.names.notes());
    Ok(end(out, context, events, &report.seen)?)
}

fn event_text(
    out: &mut dyn Write,
    context: &Context,
    threads_recorded: bool,
    event: &Event,
    stack: &NamedStack,
) -> io::Result<()> {
    let block = &event.block;
    let size = match block.size {
        Some(size) => plain_bytes(size),
        None => "unknown size".to_owned(),
    };
    let actual = block.size.zip(block.actual).map(|(asked, actual)| frames::actual_size(asked, actual));
    let (function, freed, from) = match &event.kind {
        EventKind::Allocation { freed } => (block.kind, if freed.is_some() { " (freed)" } else { "" }, String::new()),
        EventKind::Free(entry) => (entry.by, "", format!(", allocated by {} as number {}", block.kind, block.number)),
    };
    let address = context.paint.strong(address_text(block.address));
    let time = frames::time(&context.clock, event.time()) + &frames::core(&Subject::from(event));
    let (actual, weight) = (actual.unwrap_or_default(), frames::weight(context, block));
    let number = event.number();
    let (head, tail) =
        (format!("{function} {size}: "), format!("{freed}{actual}{weight}, number {number}{time}{from}"));
    let tail = context.paint.lines(&tail, head.len() + address_width(block.address), 2);
    writeln!(out, "{head}{address}{tail}")?;
    frames::thread(&mut *out, context, event.thread(), threads_recorded)?;
    frames::label(&mut *out, context, &Subject::from(event))?;
    match &event.kind {
        EventKind::Allocation { .. } => frames::stack(&mut *out, stack, context.paint),
        EventKind::Free(_) => frames::stack_of_end(&mut *out, (Some(number), stack), context),
    }
}

/// A line that says so if these are of samples, and a caution if frees are missing.
pub(crate) fn caution(out: &mut dyn Write, context: &Context, events: &Coverage) -> io::Result<()> {
    if let Some(from) = events.sampled {
        sampled(out, context.paint, from, "of all blocks")?;
    }
    if events.frees_missing != 0 {
        let estimated = events.sampled.is_some();
        let missing = notes::missing_events(events);
        let caution = format!("Caution: {missing}.");
        writeln!(out, "{}", context.paint.strong(context.paint.lines(&caution, 0, 2)))?;
        for (index, gap) in events.gaps.iter().enumerate().filter(|(_, gap)| **gap != 0 && events.gaps.len() > 1) {
            let frees = context.paint.figures(estimated).counted(*gap, "free", "frees");
            let name = |index: usize| {
                context
                    .parts
                    .get(index)
                    .map_or_else(|| format!("ledger {}", index + 1), |name| clean(name).into_owned())
            };
            let place = match index.checked_sub(1) {
                None => format!("before {}", name(0)),
                Some(earlier) => format!("between {} and {}", name(earlier), name(index)),
            };
            writeln!(out, "  {}", context.paint.lines(&format!("{frees} {place}"), 2, 4))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// What stands behind it: how many there are, and what was not seen.
pub(super) fn end(out: impl Write, context: &Context, events: &Events, not_seen: &Seen) -> io::Result<()> {
    let mut out = Fit::new(out, context.paint);
    let ending = super::ending(events);
    let all = ending.shown + ending.left_out;
    let chosen = if events.filter.is_some() { " of those asked for" } else { "" };
    let events = counted(all, "event", "events");
    if all == 0 {
        writeln!(out, "No event{chosen} is recorded.")?;
    } else if ending.left_out == 0 {
        writeln!(out, "{events}.")?;
    } else {
        let (shown, left_out) = (count(ending.shown), count(ending.left_out));
        let text = format!("{shown} of {events}; {left_out} left out (--limit 0 shows all).");
        sentence_line(&mut out, context.paint, &text)?;
    }
    notes::write(&mut out, not_seen, context.paint)?;
    out.flush()
}
