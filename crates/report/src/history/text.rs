//! What happened, as text.

use std::io::{self, Write};

use heapledger_analysis::{Coverage, Event, EventKind, Events, NamedStack, Seen};

use crate::dump::text::{address_width, sampled};
use crate::form::fit::Fit;
use crate::form::notes;
use crate::form::units::{clean, plain_bytes};
use crate::history::columns::history_end;
use crate::record::frames;
use crate::{Context, Ending};

/// Writes events one by one.
///
/// ```text
/// Caution: history is incomplete: 4,711 frees are no longer in the ring.
///
/// malloc 131,072 B: 0x00097e88 (freed), actual size 131,088 B (+16), number 1, time 0.000 s
///   By thread 2, 4241 main
/// free 347 B: 0x001e6b08, actual size 368 B (+21), number 258951, time 4.461 s, allocated as number 25
/// ```
pub struct HistoryText<'a, W: Write> {
    out: Fit<W>,
    context: &'a Context,
    threads_recorded: bool,
    begun: bool,
}

impl<'a, W: Write> HistoryText<'a, W> {
    /// A report of `events` to `out`. It begins with a line that says so if these are of samples, and with a caution
    /// if frees are missing. `parts` are the names of the ledgers, in the order of time.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(
        out: W,
        context: &'a Context,
        threads_recorded: bool,
        events: &Events,
    ) -> io::Result<HistoryText<'a, W>> {
        let mut out = Fit::new(out, context.paint);
        caution(&mut out, context, &events.coverage())?;
        Ok(HistoryText { out, context, threads_recorded, begun: false })
    }

    /// Writes one event.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn event(&mut self, event: &Event, stack: &NamedStack) -> io::Result<()> {
        let context = self.context;
        if self.begun {
            writeln!(self.out)?;
        }
        self.begun = true;
        let block = &event.block;
        let size = match block.size {
            Some(size) => plain_bytes(size),
            None => "unknown size".to_owned(),
        };
        let actual = block.size.zip(block.actual).map(|(asked, actual)| frames::actual_size(asked, actual));
        let (function, freed, from) = match &event.kind {
            EventKind::Allocation { freed } => {
                (block.kind, if freed.is_some() { " (freed)" } else { "" }, String::new())
            }
            EventKind::Free(entry) => {
                (entry.by, "", format!(", allocated by {} as number {}", block.kind, block.number))
            }
        };
        let address = context.paint.strong(format!("{:#010x}", block.address));
        let time = frames::time(&context.clock, event.time(), false);
        let (actual, weight) = (actual.unwrap_or_default(), frames::weight(context, block));
        let number = event.number();
        let (head, tail) =
            (format!("{function} {size}: "), format!("{freed}{actual}{weight}, number {number}{time}{from}"));
        let tail = context.paint.lines(&tail, head.len() + address_width(block.address), 2);
        writeln!(self.out, "{head}{address}{tail}")?;
        frames::thread(&mut self.out, context, event.thread(), self.threads_recorded)?;
        frames::stack(&mut self.out, stack, context.paint)
    }

    /// Writes how many there were, and what was not seen.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(mut self, ending: Ending, events: &Events, seen: &Seen) -> io::Result<()> {
        if self.begun {
            writeln!(self.out)?;
        }
        history_end(self.out, self.context, ending, events, seen)
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
