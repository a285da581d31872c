//! The lives of an address as JSON. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::NamedFrame;
use heapledger_analysis::fields::JsonObject;
use heapledger_analysis::query::Subject;
use serde::Serialize;

use super::{LivesReport, ShownLife, each_life};
use crate::form::json::{HeaderLine, Hex, end, frames, line};
use crate::record::json::{FieldsJson, FreeDepthsJson};
use crate::{Context, Report, ReportError};

#[derive(Serialize)]
struct LifeLine<'a> {
    r#type: &'static str,
    chain: u64,
    contains: bool,
    #[serde(flatten)]
    block: FieldsJson<'a>,
    moved_from: Option<Hex>,
    moved_to: Option<Hex>,
    allocation: EndJson<'a>,
    free: Option<EndJson<'a>>,
}

#[derive(Serialize)]
struct EndJson<'a> {
    #[serde(flatten)]
    end: FieldsJson<'a>,
    #[serde(serialize_with = "frames")]
    frames: &'a [NamedFrame],
}

/// What the first line has besides.
#[derive(Serialize)]
struct LivesAsked<'a> {
    address: Hex,
    complete: bool,
    frees_missing: u64,
    #[serde(flatten)]
    free_depths: FreeDepthsJson,
    r#where: Option<&'a str>,
}

/// Writes each life.
pub(super) fn write(report: &mut LivesReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let LivesReport { context, address, lives, .. } = *report;
    let (frees_missing, r#where) = (lives.frees_missing, lives.filter.as_deref());
    let (complete, free_depths) = (frees_missing == 0, FreeDepthsJson::of(context));
    let more = LivesAsked { address: Hex(address), complete, frees_missing, free_depths, r#where };
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
    let of = |object, subject| FieldsJson::of(context, object, subject);
    let object = LifeLine {
        r#type: "life",
        chain,
        contains: life.holds,
        block: of(JsonObject::Life, Subject::live(&life.block)),
        moved_from: from.map(|life| Hex(life.block.address)),
        moved_to: to.map(|life| Hex(life.block.address)),
        allocation: EndJson { end: of(JsonObject::End, Subject::live(&life.block)), frames: &begin.frames },
        free: life.end.as_ref().map(|freed| EndJson {
            end: of(JsonObject::End, Subject::free(freed)),
            frames: end.as_ref().map_or(&[], |stack| &stack.frames),
        }),
    };
    line(out, &object)
}
