//! The lives of an address, as text.

use std::io::{self, Write};

use heapledger_analysis::query::Subject;

use super::{LivesReport, ShownLife, each_life};

use crate::dump::text::{address_width, sampled, sentence_line};
use crate::form::fit::Fit;
use crate::form::notes;
use crate::form::units::{clock, count, counted, span};
use crate::record::frames;
use crate::{Context, ReportError};

/// Columns of `  Allocated : `.
const HEADING: usize = 14;

/// Writes the lives of an address one by one.
///
/// ```text
/// 0x000c0f50 : malloc 13 B, actual size 24 B (+11)
///   Allocated : number 25, time 3.960 s
///   By thread 3, 4242 worker-3
///   1) 0x00040ed8 worker2()
///   Moved     : realloc, number 77, time 4.461 s, after 501 ms, to 0x000d1000
///   By thread 3, 4242 worker-3
///   1) 0x00040f10 grow()
/// 0x000d1000 : realloc 26 B, actual size 40 B (+14); does not contain the address
///   Allocated : number 77, time 4.461 s, by the call above, from 0x000c0f50
/// ```
pub(super) fn write(report: &mut LivesReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let LivesReport { context, threads_recorded, address, lives, .. } = *report;
    let mut out = Fit::new(out, context.paint);
    if let Some(from) = lives.sampled {
        sampled(&mut out, context.paint, from, "of blocks at this address")?;
    }
    if lives.frees_missing != 0 {
        let estimated = lives.sampled.is_some();
        let missing = notes::missing_frees(notes::MissingFrees {
            frees: lives.frees_missing,
            estimated,
            recorded: lives.frees_recorded,
        });
        let caution = format!("Caution: {missing}.");
        writeln!(out, "{}\n", context.paint.strong(context.paint.lines(&caution, 0, 2)))?;
    }
    let mut begun = false;
    each_life(lives, report.names, |shown| {
        if begun && shown.around[0].is_none() {
            writeln!(out)?;
        }
        begun = true;
        Ok(life_text(&mut out, (context, threads_recorded, address), shown)?)
    })?;
    report.seen.notes.extend(report.names.notes());
    if begun {
        writeln!(out)?;
    }
    let address = format!("{:#010x}", address);
    let blocks = counted(lives.total, "block", "blocks");
    if lives.total == 0 {
        let chosen = if lives.filter.is_some() { " of those asked for" } else { "" };
        writeln!(out, "No block{chosen} that the ledger knows has contained {address}.")?;
    } else if lives.left_out == 0 {
        writeln!(out, "{blocks} contained {address}.")?;
    } else {
        let (shown, left_out) = (count(lives.total - lives.left_out), count(lives.left_out));
        let text = format!("{shown} of {blocks} that contained {address}; {left_out} left out (--limit 0 shows all).");
        sentence_line(&mut out, context.paint, &text)?;
    }
    notes::write(&mut out, &report.seen, context.paint)?;
    Ok(out.flush()?)
}

fn life_text(
    out: &mut dyn Write,
    (context, threads_recorded, address_asked): (&Context, bool, u64),
    shown: &ShownLife<'_>,
) -> io::Result<()> {
    let ShownLife { life, around: [from, to], begin, end } = shown;
    let paint = context.paint;
    let block = &life.block;
    let address = paint.strong(format!("{:#010x}", block.address));
    let (size, weight) = (frames::size(block), frames::weight(context, block));
    let remark = match (life.holds, address_asked - block.address.min(address_asked)) {
        (false, _) => "; does not contain the address".to_owned(),
        (true, 0) => String::new(),
        (true, offset) => format!("; contains the address at +{offset}"),
    };
    let text = format!(": {} {size}{weight}{remark}", block.kind);
    writeln!(out, "{address} {}", paint.lines(&text, address_width(block.address) + 1, 2))?;
    let came = match from {
        Some(before) if before.block.address == block.address => ", by the call above, in place".to_owned(),
        Some(before) => format!(", by the call above, from {:#010x}", before.block.address),
        None if life.is_moved() => ", of nothing, or of a block that the history no longer has".to_owned(),
        None => String::new(),
    };
    let time = frames::time(&context.clock, block.time) + &frames::core(&Subject::live(block));
    let heading = paint.strong("Allocated :");
    let text = format!("number {}{time}{came}", block.number);
    writeln!(out, "  {heading} {}", paint.lines(&text, HEADING, HEADING))?;
    // What took the block before gave this one: that was shown a few lines above.
    if from.is_none() {
        frames::thread(&mut *out, context, block.thread, threads_recorded)?;
        frames::stack(&mut *out, begin, paint)?;
    }
    let Some(freed) = &life.end else {
        let age = block.time.and_then(|ticks| context.clock.age_ns(ticks));
        let age = age.map(|ns| format!(", age {}", span(ns))).unwrap_or_default();
        return writeln!(out, "  {} still{age}", paint.strong("Allocated :"));
    };
    let (heading, went) = match to {
        Some(after) if after.block.address == block.address => ("Resized   :", ", in place".to_owned()),
        Some(after) => ("Moved     :", format!(", to {:#010x}", after.block.address)),
        None if life.moves() => {
            ("Moved     :", ", to nothing, or to a block that the history no longer has".to_owned())
        }
        None => ("Freed     :", String::new()),
    };
    let when = freed.time.map(|ticks| match context.clock.ns(ticks) {
        Some(ns) => format!(", time {}", clock(ns)),
        None => format!(", time {ticks} ticks"),
    });
    let lived = freed.time.zip(block.time).and_then(|(end, begin)| context.clock.ns(end.since(begin)));
    let lived = lived.map(|ns| format!(", after {}", span(ns))).unwrap_or_default();
    let (heading, by, number) = (paint.strong(heading), freed.by, freed.number);
    let text = format!("{by}, number {number}{}{lived}{went}", when.unwrap_or_default());
    writeln!(out, "  {heading} {}", paint.lines(&text, HEADING, HEADING))?;
    frames::thread(&mut *out, context, freed.thread, threads_recorded)?;
    match end {
        Some(stack) => frames::stack_of_end(&mut *out, (Some(number), stack), context),
        None => Ok(()),
    }
}
