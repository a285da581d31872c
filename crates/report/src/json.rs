//! Blocks and events as JSON, one object a line. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::format::Entry;
use heapledger_analysis::{Coverage, Event, EventKind, Events, NamedFrame, NamedStack, Note, Sampled, Seen, Selection};
use serde::Serialize;
use serde::ser::SerializeSeq;

use crate::json_parts::SampledJson;
use crate::{Context, Ending, seen};

/// The name of the schema. Its number goes up when a field changes its meaning or goes; new fields may come.
pub const SCHEMA: &str = "heapledger/1";

/// An address, as a string: JSON numbers are exact to 53 bits only.
pub(crate) struct Hex(pub(crate) u64);

impl Serialize for Hex {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
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
            Note::Loss(_, number) | Note::InFlight(number) | Note::StacksDamaged(number) => {
                Some(i64::try_from(*number).unwrap_or(i64::MAX))
            }
            Note::Unaccounted { blocks, .. } => Some(*blocks),
            _ => None,
        };
        NoteJson { kind: seen::name(note), count, text: seen::sentence(note) }
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
    crate::outside::json(&mut *out, object)?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
pub(crate) struct FrameJson<'a> {
    address: Option<Hex>,
    module: Option<&'a str>,
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

pub(crate) fn thread(context: &Context, row: Option<u32>) -> Option<ThreadJson<'_>> {
    row.map(|row| {
        let thread = context.threads.get(&row);
        ThreadJson { row, id: thread.map(|thread| thread.id), name: thread.map(|thread| thread.name.as_str()) }
    })
}

/// For how many blocks it stands, if blocks were sampled.
pub(crate) fn weight(context: &Context, block: &Entry) -> Option<u64> {
    context.sampling.is_on().then(|| context.sampling.weight(block))
}

pub(crate) fn heap(context: &Context, block: &Entry) -> Option<String> {
    let row = u32::from(block.heap?);
    Some(context.heaps.get(&row).map_or_else(|| row.to_string(), |heap| heap.name.clone()))
}

#[derive(Serialize)]
pub(crate) struct BlockLine<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'static str>,
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
    #[serde(serialize_with = "frames")]
    frames: &'a [NamedFrame],
}

/// Writes the first line of a report of `selection`.
///
/// # Errors
/// If it cannot be written.
pub fn dump_json_header(mut out: impl Write, context: &Context, selection: &Selection) -> io::Result<()> {
    #[derive(Serialize)]
    struct First<'a> {
        #[serde(flatten)]
        header: HeaderLine<'a>,
        r#where: Option<&'a str>,
    }
    let header = HeaderLine::new("dump", &context.ledger, selection.sampled);
    line(&mut out, &First { header, r#where: selection.filter.as_deref() })
}

/// Writes the last line of a report.
///
/// # Errors
/// If it cannot be written.
pub fn json_end(mut out: impl Write, ending: Ending, seen: &Seen) -> io::Result<()> {
    end(&mut out, ending, seen)
}

impl<'a> BlockLine<'a> {
    /// `change` is what became of the block, where that is told.
    pub(crate) fn of(
        context: &'a Context,
        block: &Entry,
        stack: &'a NamedStack,
        change: Option<&'static str>,
    ) -> BlockLine<'a> {
        BlockLine {
            r#type: "block",
            change,
            address: Hex(block.address),
            size: block.size,
            actual: block.actual,
            weight: weight(context, block),
            function: block.kind.to_string(),
            number: block.number,
            time_ns: block.time.and_then(|ticks| context.clock.ns(ticks)),
            age_ns: block.time.and_then(|ticks| context.clock.age_ns(ticks)),
            thread: thread(context, block.thread),
            heap: heap(context, block),
            site: block.site,
            frames: &stack.frames,
        }
    }
}

/// Live blocks as JSON.
pub struct DumpJson<'a, W> {
    out: W,
    context: &'a Context,
}

impl<'a, W: Write> DumpJson<'a, W> {
    /// A report of `selection` to `out`; writes its first line.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut out: W, context: &'a Context, selection: &Selection) -> io::Result<DumpJson<'a, W>> {
        dump_json_header(&mut out, context, selection)?;
        Ok(DumpJson { out, context })
    }

    /// Writes one block.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn block(&mut self, block: &Entry, stack: &NamedStack) -> io::Result<()> {
        line(&mut self.out, &BlockLine::of(self.context, block, stack, None))
    }

    /// Writes the last line.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(mut self, ending: Ending, seen: &Seen) -> io::Result<()> {
        end(&mut self.out, ending, seen)
    }
}

#[derive(Serialize)]
struct EventLine<'a> {
    r#type: &'static str,
    event: &'static str,
    function: String,
    address: Hex,
    size: Option<u64>,
    actual: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u64>,
    number: u64,
    time_ns: Option<u64>,
    thread: Option<ThreadJson<'a>>,
    heap: Option<String>,
    site: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    freed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocation: Option<AllocationJson<'a>>,
    #[serde(serialize_with = "frames")]
    frames: &'a [NamedFrame],
}

#[derive(Serialize)]
struct AllocationJson<'a> {
    function: String,
    number: u64,
    time_ns: Option<u64>,
    thread: Option<ThreadJson<'a>>,
    site: u32,
}

/// Writes the first line of a report of `events`.
///
/// # Errors
/// If it cannot be written.
pub fn history_json_header(mut out: impl Write, context: &Context, events: &Events) -> io::Result<()> {
    #[derive(Serialize)]
    struct First<'a> {
        #[serde(flatten)]
        header: HeaderLine<'a>,
        #[serde(flatten)]
        gaps: HistoryGaps<'a>,
        r#where: Option<&'a str>,
    }
    let header = HeaderLine::new("history", &context.ledger, events.sampled);
    let found = events.coverage();
    line(&mut out, &First { header, gaps: HistoryGaps::of(&found), r#where: events.filter.as_deref() })
}

/// What a history has not.
#[derive(Serialize)]
pub(crate) struct HistoryGaps<'a> {
    complete: bool,
    frees_missing: u64,
    frees_shown_before: u64,
    gaps: &'a [u64],
}

impl HistoryGaps<'_> {
    pub(crate) fn of(found: &Coverage) -> HistoryGaps<'_> {
        let &Coverage { frees_missing, frees_shown_before, ref gaps, .. } = found;
        HistoryGaps { complete: frees_missing == 0, frees_missing, frees_shown_before, gaps }
    }
}

/// Events as JSON.
pub struct HistoryJson<'a, W> {
    out: W,
    context: &'a Context,
}

impl<'a, W: Write> HistoryJson<'a, W> {
    /// A report of `events` to `out`; writes its first line.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut out: W, context: &'a Context, events: &Events) -> io::Result<HistoryJson<'a, W>> {
        history_json_header(&mut out, context, events)?;
        Ok(HistoryJson { out, context })
    }

    /// Writes one event.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn event(&mut self, event: &Event, stack: &NamedStack) -> io::Result<()> {
        let context = self.context;
        let block = &event.block;
        let ns = |ticks: Option<u64>| ticks.and_then(|ticks| context.clock.ns(ticks));
        let moved_number = match &event.kind {
            EventKind::Free(entry) if entry.by.allocates() && entry.by.frees() => {
                Some(entry.number + u64::from(entry.later))
            }
            _ => None,
        };
        let (name, function, freed, allocation) = match &event.kind {
            EventKind::Allocation { freed } => ("allocation", block.kind, Some(freed.is_some()), None),
            EventKind::Free(entry) => {
                let allocation = AllocationJson {
                    function: block.kind.to_string(),
                    number: block.number,
                    time_ns: ns(block.time),
                    thread: thread(context, block.thread),
                    site: block.site,
                };
                ("free", entry.by, None, Some(allocation))
            }
        };
        let object = EventLine {
            r#type: "event",
            event: name,
            function: function.to_string(),
            address: Hex(block.address),
            size: block.size,
            actual: block.actual,
            weight: weight(context, block),
            number: event.number(),
            time_ns: ns(event.time()),
            thread: thread(context, event.thread()),
            heap: heap(context, block),
            site: event.site(),
            freed,
            moved_number,
            allocation,
            frames: &stack.frames,
        };
        line(&mut self.out, &object)
    }

    /// Writes the last line.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(mut self, ending: Ending, seen: &Seen) -> io::Result<()> {
        end(&mut self.out, ending, seen)
    }
}
