//! The lives of an address as JSON. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::NamedFrame;
use serde::Serialize;

use super::{LivesReport, ShownLife, each_life};
use crate::form::json::{HeaderLine, Hex, ThreadJson, end, frames, heap, line, thread, weight};
use crate::{Context, Report, ReportError};

#[derive(Serialize)]
struct LifeLine<'a> {
    r#type: &'static str,
    chain: u64,
    contains: bool,
    address: Hex,
    size: Option<u64>,
    actual: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u64>,
    heap: Option<String>,
    moved_from: Option<Hex>,
    moved_to: Option<Hex>,
    allocation: HalfJson<'a>,
    free: Option<HalfJson<'a>>,
}

#[derive(Serialize)]
struct HalfJson<'a> {
    function: String,
    number: u64,
    time_ns: Option<u64>,
    thread: Option<ThreadJson<'a>>,
    site: u32,
    #[serde(serialize_with = "frames")]
    frames: &'a [NamedFrame],
}

/// What the first line has besides.
#[derive(Serialize)]
struct LivesAsked<'a> {
    address: Hex,
    complete: bool,
    frees_missing: u64,
    r#where: Option<&'a str>,
}

/// Writes each life.
pub(super) fn write(report: &mut LivesReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let LivesReport { context, address, lives, .. } = *report;
    let (frees_missing, r#where) = (lives.frees_missing, lives.filter.as_deref());
    let more = LivesAsked { address: Hex(address), complete: frees_missing == 0, frees_missing, r#where };
    line(out, &HeaderLine::new("history", &context.ledger, lives.sampled).with(more))?;
    let mut chains = 0;
    each_life(lives, report.names, |shown| {
        chains += u64::from(shown.around[0].is_none());
        Ok(life_line(out, context, chains, shown)?)
    })?;
    report.seen.notes.extend(report.names.notes());
    Ok(end(out, report.ending(), &report.seen)?)
}

fn life_line(out: &mut dyn Write, context: &Context, chain: u64, shown: &ShownLife<'_>) -> io::Result<()> {
    let ShownLife { life, around: [from, to], begin, end } = shown;
    let block = &life.block;
    let ns = |ticks: Option<u64>| ticks.and_then(|ticks| context.clock.ns(ticks));
    let object = LifeLine {
        r#type: "life",
        chain,
        contains: life.holds,
        address: Hex(block.address),
        size: block.size,
        actual: block.actual,
        weight: weight(context, block),
        heap: heap(context, block),
        moved_from: from.map(|life| Hex(life.block.address)),
        moved_to: to.map(|life| Hex(life.block.address)),
        allocation: HalfJson {
            function: block.kind.to_string(),
            number: block.number,
            time_ns: ns(block.time),
            thread: thread(context, block.thread),
            site: block.site,
            frames: &begin.frames,
        },
        free: life.end.as_ref().map(|freed| HalfJson {
            function: freed.by.to_string(),
            number: freed.number,
            time_ns: ns(freed.time),
            thread: thread(context, freed.thread),
            site: freed.site,
            frames: end.as_ref().map_or(&[], |stack| &stack.frames),
        }),
    };
    line(out, &object)
}
