//! What all reports in JSON have in common: their first and last lines, frames, threads. Described in `docs/json.md`.

use std::collections::HashSet;
use std::io::{self, Write};

use heapledger_analysis::{NamedFrame, Note, Sampled, Seen};
use heapledger_format::{Site, ThreadRow};
use serde::Serialize;
use serde::ser::SerializeSeq;

use crate::form::notes;
use crate::{Context, Ending, ReportError, Stacks};

/// The name of the schema. Its number goes up when a field changes its meaning or goes; new fields may come.
pub const SCHEMA: &str = "heapledger/2";

/// An address, as a string: JSON numbers are exact to 53 bits only.
pub(crate) struct Hex(pub(crate) u64);

impl Serialize for Hex {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

/// Where the estimates of a report come from.
#[derive(Serialize)]
pub(crate) struct SampledJson {
    interval_bytes: u64,
    samples: u64,
}

impl SampledJson {
    pub(crate) fn of(sampled: Sampled) -> SampledJson {
        SampledJson { interval_bytes: sampled.interval_bytes, samples: sampled.samples }
    }
}

#[derive(Serialize)]
pub(crate) struct HeaderLine<'a> {
    r#type: &'static str,
    schema: &'static str,
    command: &'static str,
    ledger: &'a str,
    sampled: Option<SampledJson>,
}

impl<'a> HeaderLine<'a> {
    pub(crate) fn new(command: &'static str, ledger: &'a str, sampled: Option<Sampled>) -> HeaderLine<'a> {
        HeaderLine { r#type: "header", schema: SCHEMA, command, ledger, sampled: sampled.map(SampledJson::of) }
    }
}

/// What a first line has besides.
#[derive(Serialize)]
pub(crate) struct WithMore<'a, M> {
    #[serde(flatten)]
    header: HeaderLine<'a>,
    #[serde(flatten)]
    more: M,
}

impl<'a> HeaderLine<'a> {
    /// The same line with the fields of `more` behind it.
    pub(crate) fn with<M: Serialize>(self, more: M) -> WithMore<'a, M> {
        WithMore { header: self, more }
    }
}

/// Which blocks or events were asked for.
#[derive(Serialize)]
pub(crate) struct Condition<'a> {
    pub(crate) r#where: Option<&'a str>,
}

#[derive(Serialize)]
pub(crate) struct NoteJson {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<i64>,
    text: String,
}

impl NoteJson {
    pub(crate) fn of(note: &Note) -> NoteJson {
        let count = match note {
            Note::Loss(_, number)
            | Note::HistoryWithoutRoom(number)
            | Note::ScannedStacks(number)
            | Note::InFlight(number)
            | Note::StacksDamaged(number) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
            Note::Unaccounted { blocks, .. } => Some(*blocks),
            _ => None,
        };
        NoteJson { kind: notes::name(note), count, text: notes::sentence(note) }
    }
}

#[derive(Serialize)]
struct EndLine {
    r#type: &'static str,
    shown: u64,
    left_out: u64,
    in_flight: u64,
    damaged: bool,
    notes: Vec<NoteJson>,
}

/// Writes the last line.
pub(crate) fn end(out: &mut dyn Write, ending: Ending, seen: &Seen) -> io::Result<()> {
    let damaged = seen.notes.iter().any(|note| matches!(note, Note::Damage(_)));
    let notes = seen.notes.iter().map(NoteJson::of).collect();
    let Ending { shown, left_out, in_flight } = ending;
    line(out, &EndLine { r#type: "end", shown, left_out, in_flight, damaged, notes })?;
    out.flush()
}

/// Writes an object and a line end.
pub(crate) fn line(out: &mut dyn Write, object: &impl Serialize) -> io::Result<()> {
    crate::form::outside::json(&mut *out, object)?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
pub(crate) struct FrameJson<'a> {
    address: Option<Hex>,
    module: Option<&'a str>,
    build_id: Option<&'a str>,
    offset: Option<Hex>,
    function: Option<&'a str>,
    raw: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    source: Option<&'a str>,
    inlined: bool,
    passed_over: bool,
    guessed: bool,
}

pub(crate) fn frames<S: serde::Serializer>(frames: &&[NamedFrame], serializer: S) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(frames.len()))?;
    for frame in *frames {
        list.serialize_element(&FrameJson {
            address: frame.address.map(Hex),
            module: frame.module.as_deref(),
            build_id: frame.build_id.as_deref(),
            offset: frame.offset.map(Hex),
            function: frame.function.as_deref(),
            raw: frame.raw_name.as_deref(),
            file: frame.file.as_deref(),
            line: frame.line,
            source: frame.source.as_deref(),
            inlined: frame.inlined,
            passed_over: frame.passed_over,
            guessed: frame.guessed,
        })?;
    }
    list.end()
}

#[derive(Serialize)]
pub(crate) struct ThreadJson<'a> {
    row: u32,
    id: Option<u32>,
    name: Option<&'a str>,
}

pub(crate) fn thread(context: &Context, row: Option<ThreadRow>) -> Option<ThreadJson<'_>> {
    row.map(|row| {
        let thread = context.threads.get(&row);
        ThreadJson { row: row.0, id: thread.map(|thread| thread.id), name: thread.map(|thread| thread.name.as_str()) }
    })
}

/// Stacks, each on a line of its own before what comes from it.
#[derive(Default)]
pub(crate) struct StackLines(HashSet<Site>);

#[derive(Serialize)]
struct SiteLine<'a> {
    r#type: &'static str,
    site: u32,
    #[serde(serialize_with = "frames")]
    frames: &'a [NamedFrame],
}

impl StackLines {
    /// Writes the stack of a call site, if that was not done.
    pub(crate) fn line(&mut self, out: &mut dyn Write, stacks: &mut dyn Stacks, site: Site) -> Result<(), ReportError> {
        if self.0.insert(site) {
            line(out, &SiteLine { r#type: "site", site: site.0, frames: &stacks.stack(site)?.frames })?;
        }
        Ok(())
    }
}
