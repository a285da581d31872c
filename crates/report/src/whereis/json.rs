//! Where addresses belong, as JSON. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::fields::JsonObject;
use heapledger_analysis::query::Subject;
use heapledger_analysis::whereis::{Found, KnownAddress};
use heapledger_analysis::{NamedFrame, NamedStack};
use heapledger_format::{Entry, FreedEntry};
use serde::Serialize;

use super::WhereisReport;
use crate::form::json::{HeaderLine, Hex, end, frames, line};
use crate::record::json::{FieldsJson, FreeDepthsJson};
use crate::{Context, Report, ReportError};

#[derive(Serialize)]
struct BlockJson<'a> {
    #[serde(flatten)]
    block: FieldsJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<u64>,
    #[serde(serialize_with = "some_frames", skip_serializing_if = "Option::is_none")]
    frames: Option<&'a [NamedFrame]>,
}

fn some_frames<S: serde::Serializer>(list: &Option<&[NamedFrame]>, serializer: S) -> Result<S::Ok, S::Error> {
    frames(&list.unwrap_or(&[]), serializer)
}

fn block<'a>(context: &'a Context, entry: &'a Entry, frames: Option<&'a [NamedFrame]>) -> BlockJson<'a> {
    let block = FieldsJson::of(context, JsonObject::Block, Subject::live(entry));
    BlockJson { block, distance: None, frames }
}

fn neighbour<'a>(context: &'a Context, entry: Option<&'a Entry>, distance: Option<u64>) -> Option<BlockJson<'a>> {
    entry.map(|entry| BlockJson { distance, ..block(context, entry, None) })
}

#[derive(Serialize)]
struct FreeJson<'a> {
    #[serde(flatten)]
    free: FieldsJson<'a>,
    #[serde(serialize_with = "frames")]
    frames: &'a [NamedFrame],
}

#[derive(Serialize)]
struct LifeJson<'a> {
    block: BlockJson<'a>,
    offset: u64,
    freed: FreeJson<'a>,
}

fn life<'a>(context: &'a Context, at: u64, entry: &'a FreedEntry, stacks: &'a [NamedStack; 2]) -> LifeJson<'a> {
    let [begun, ended] = stacks;
    LifeJson {
        block: block(context, &entry.block, Some(&begun.frames)),
        offset: at.saturating_sub(entry.block.address),
        freed: FreeJson {
            free: FieldsJson::of(context, JsonObject::AgedEnd, Subject::free(entry)),
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
    #[serde(flatten)]
    free_depths: FreeDepthsJson,
}

/// Writes each address.
pub(super) fn write(report: &mut WhereisReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let WhereisReport { context, places, .. } = *report;
    let frees_missing = places.frees_missing;
    let more = PlacesAsked { complete: frees_missing == 0, frees_missing, free_depths: FreeDepthsJson::of(context) };
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
        before: neighbour(context, place.before.as_ref(), place.distance_before()),
        after: neighbour(context, place.after.as_ref(), place.distance_after()),
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
