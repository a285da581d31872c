//! What happened, as text.

use std::io::{self, Write};

use heapledger_analysis::{Coverage, Event, EventKind, Events, NamedStack, Seen};

use crate::event_columns::history_end;
use crate::{Context, Ending, frames, seen};

/// Writes events one by one.
///
/// ```text
/// Caution: history is incomplete: 4,711 frees are no longer in the ring.
///
/// malloc 131072 bytes: 0x00097e88 (freed), actual size 131088 (+16), number 1, time 0.000 s
///   By thread 2, 4241 main
/// free 347 bytes: 0x001e6b08, actual size 368 (+21), number 258951, time 4.461 s, allocated as number 25
/// ```
pub struct HistoryText<'a, W> {
    out: W,
    context: &'a Context,
    threads_recorded: bool,
    begun: bool,
}

impl<'a, W: Write> HistoryText<'a, W> {
    /// A report of `events` to `out`. It begins with a line that says so if these are of samples, and with a caution
    /// if frees are missing.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(
        mut out: W,
        context: &'a Context,
        threads_recorded: bool,
        events: &Events,
    ) -> io::Result<HistoryText<'a, W>> {
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
            Some(1) => "1 byte".to_owned(),
            Some(size) => format!("{size} bytes"),
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
        writeln!(self.out, "{function} {size}: {address}{freed}{actual}{weight}, number {number}{time}{from}")?;
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
        writeln!(
            out,
            "{} {}\n",
            context.paint.strong("Sampled   :"),
            context.paint.figures(true).sampled(from, "of all blocks")
        )?;
    }
    if events.frees_missing != 0 {
        let estimated = events.sampled.is_some();
        let missing = seen::missing_frees(estimated, events.frees_missing, events.frees_recorded);
        let caution = format!("Caution: {missing}.");
        writeln!(out, "{}", context.paint.strong(caution))?;
        for (index, gap) in events.gaps.iter().enumerate().filter(|(_, gap)| **gap != 0 && events.gaps.len() > 1) {
            let frees = context.paint.figures(events.sampled.is_some()).counted(*gap, "free", "frees");
            match index {
                0 => writeln!(out, "  {frees} before the first ledger")?,
                _ => writeln!(out, "  {frees} between ledgers {index} and {}", index + 1)?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}
