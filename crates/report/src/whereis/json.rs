//! Where addresses belong, as JSON. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::whereis::{Found, KnownAddress};
use heapledger_analysis::{NamedFrame, NamedStack};
use heapledger_format::{Entry, FreedEntry};
use serde::Serialize;

use super::WhereisReport;
use crate::form::json::{self, HeaderLine, Hex, ThreadJson, end, frames, line, thread};
use crate::{Context, Report, ReportError};

#[derive(Serialize)]
struct BlockJson<'a> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<u64>,
    #[serde(serialize_with = "some_frames", skip_serializing_if = "Option::is_none")]
    frames: Option<&'a [NamedFrame]>,
}

fn some_frames<S: serde::Serializer>(list: &Option<&[NamedFrame]>, serializer: S) -> Result<S::Ok, S::Error> {
    frames(&list.unwrap_or(&[]), serializer)
}

fn block<'a>(context: &'a Context, entry: &Entry, frames: Option<&'a [NamedFrame]>) -> BlockJson<'a> {
    BlockJson {
        address: Hex(entry.address),
        size: entry.size,
        actual: entry.actual,
        weight: json::weight(context, entry),
        function: entry.kind.to_string(),
        number: entry.number,
        time_ns: entry.time.and_then(|ticks| context.clock.ns(ticks)),
        age_ns: entry.time.and_then(|ticks| context.clock.age_ns(ticks)),
        thread: thread(context, entry.thread),
        heap: json::heap(context, entry),
        site: entry.site,
        distance: None,
        frames,
    }
}

#[derive(Serialize)]
struct FreeJson<'a> {
    function: String,
    number: u64,
    time_ns: Option<u64>,
    age_ns: Option<u64>,
    thread: Option<ThreadJson<'a>>,
    site: u32,
    #[serde(serialize_with = "frames")]
    frames: &'a [NamedFrame],
}

#[derive(Serialize)]
struct LifeJson<'a> {
    block: BlockJson<'a>,
    offset: u64,
    freed: FreeJson<'a>,
}

fn life<'a>(context: &'a Context, at: u64, entry: &FreedEntry, stacks: &'a [NamedStack; 2]) -> LifeJson<'a> {
    let [begun, ended] = stacks;
    LifeJson {
        block: block(context, &entry.block, Some(&begun.frames)),
        offset: at.saturating_sub(entry.block.address),
        freed: FreeJson {
            function: entry.by.to_string(),
            number: entry.number,
            time_ns: entry.time.and_then(|ticks| context.clock.ns(ticks)),
            age_ns: entry.time.and_then(|ticks| context.clock.age_ns(ticks)),
            thread: thread(context, entry.thread),
            site: entry.site,
            frames: &ended.frames,
        },
    }
}

#[derive(Serialize)]
struct RangeJson<'a> {
    name: &'a str,
    low: Hex,
    high: Hex,
    #[serde(skip_serializing_if = "Option::is_none")]
    rights: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stack_of: Option<u32>,
}

#[derive(Serialize)]
struct PlaceLine<'a> {
    r#type: &'static str,
    address: Hex,
    found: &'static str,
    offset: Option<u64>,
    behind: Option<u64>,
    block: Option<BlockJson<'a>>,
    before: Option<BlockJson<'a>>,
    after: Option<BlockJson<'a>>,
    lives: Vec<LifeJson<'a>>,
    lives_left_out: u64,
    heap: Option<&'a str>,
    module: Option<RangeJson<'a>>,
    mapping: Option<RangeJson<'a>>,
}

/// What the first line has besides.
#[derive(Serialize)]
struct PlacesAsked {
    complete: bool,
    frees_missing: u64,
}

/// Writes each address.
pub(super) fn write(report: &mut WhereisReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let WhereisReport { context, places, .. } = *report;
    let frees_missing = places.frees_missing;
    let more = PlacesAsked { complete: frees_missing == 0, frees_missing };
    line(out, &HeaderLine::new("whereis", &context.ledger, None).with(more))?;
    report.each(|place, stack, lives| place_line(out, context, place, (stack, lives)))?;
    Ok(end(out, report.ending(), &report.seen)?)
}

fn place_line(
    out: &mut dyn Write,
    context: &Context,
    place: &KnownAddress,
    (stack, lives): (&NamedStack, &[[NamedStack; 2]]),
) -> io::Result<()> {
    let neighbour = |entry: &Option<Entry>, distance| {
        entry.as_ref().map(|entry| BlockJson { distance, ..block(context, entry, None) })
    };
    let (found, behind) = match place.found {
        Found::Inside(_) => ("block", None),
        Found::Behind(by) => ("block", Some(by)),
        Found::Freed => ("freed", None),
        Found::Nothing => ("nothing", None),
    };
    let object = PlaceLine {
        r#type: "place",
        address: Hex(place.address),
        found,
        offset: place.block.map(|entry| place.address - entry.address),
        behind,
        block: place.block.as_ref().map(|entry| block(context, entry, Some(&stack.frames))),
        before: neighbour(&place.before, place.distance_before()),
        after: neighbour(&place.after, place.distance_after()),
        lives: place.lives.iter().zip(lives).map(|(entry, of)| life(context, place.address, entry, of)).collect(),
        lives_left_out: place.lives_left_out,
        heap: place.heap.as_ref().map(|heap| heap.name.as_str()),
        module: place.module.as_ref().map(|module| RangeJson {
            name: module.path.to_str().unwrap_or_default(),
            low: Hex(module.low),
            high: Hex(module.high),
            rights: None,
            stack_of: None,
        }),
        mapping: place.mapping.as_ref().map(|mapping| RangeJson {
            name: &mapping.name,
            low: Hex(mapping.low),
            high: Hex(mapping.high),
            rights: Some(&mapping.rights),
            stack_of: mapping.stack_of,
        }),
    };
    line(out, &object)
}
