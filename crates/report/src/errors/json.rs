//! What was found or refused, as JSON: an object for each, behind those of its stacks. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::{Excused, Seen};
use heapledger_format::errors::{ErrorStack, FoundAt, FoundBy, Neighbour, Whereabouts};
use heapledger_format::{LabelId, Site, Ticks};
use heapledger_source::FoundError;
use serde::Serialize;

use super::origin::OriginJson;
use super::token::token;
use super::{
    ErrorOrigin, ErrorsReport, called, compared, direction, given_by, hex, kind_name, known, stack_name, stacks, whole,
};
use crate::form::json::{HeaderLine, Hex, StackLines, ThreadJson, end, line, thread};
use crate::record::json::FreeDepthsJson;
use crate::{Context, Ending, Report, ReportError};

#[derive(Serialize)]
struct ErrorLine<'a> {
    r#type: &'static str,
    row: u32,
    kind: String,
    found_by: Option<&'static str>,
    found_at: Option<&'static str>,
    direction: Option<&'static str>,
    whereabouts: Option<&'static str>,
    address: Option<Hex>,
    bytes: u64,
    called: Option<String>,
    operands: [u64; 2],
    block: Option<Hex>,
    block_bytes: u64,
    alignment: u64,
    given_by: Option<String>,
    allocated: Option<u64>,
    freed: Option<u64>,
    heap: Option<&'a str>,
    capabilities: u32,
    repeats: u64,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    whole_ns: Option<u64>,
    expected: Option<String>,
    found: Option<String>,
    around_address: Option<Hex>,
    around: Option<String>,
    before: Option<NeighbourJson<'a>>,
    after: Option<NeighbourJson<'a>>,
    program_counter: Option<Hex>,
    stack_pointer: Option<Hex>,
    frame_pointer: Option<Hex>,
    label: Option<String>,
    core: Option<u16>,
    stacks: Vec<ErrorStackJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inherited: Option<OriginJson<'a>>,
    token: String,
}

#[derive(Serialize)]
struct SuppressedLine<'a> {
    r#type: &'static str,
    by: &'a str,
    errors: u64,
    times: u64,
}

#[derive(Serialize)]
struct NeighbourJson<'a> {
    address: Hex,
    bytes: u64,
    site: u32,
    thread: Option<ThreadJson<'a>>,
}

#[derive(Serialize)]
struct ErrorStackJson<'a> {
    of: String,
    time_ns: Option<u64>,
    thread: Option<ThreadJson<'a>>,
    site: u32,
}

/// Writes each error, and before it what stacks of it were not there yet.
pub(super) fn write(report: &mut ErrorsReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    write_for("errors", report, None::<&()>, out)
}

/// The same for another command, which has more to say behind the errors.
pub(crate) fn write_for(
    command: &'static str,
    report: &mut ErrorsReport<'_>,
    more: Option<&impl Serialize>,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    #[derive(Serialize)]
    struct ErrorsAsked {
        #[serde(flatten)]
        free_depths: FreeDepthsJson,
    }
    let asked = ErrorsAsked { free_depths: FreeDepthsJson::of(report.context) };
    line(out, &HeaderLine::new(command, &report.context.ledger, None).with(asked))?;
    let mut lines = StackLines::default();
    for (index, found) in report.errors.iter().enumerate() {
        let neighbours = found.entry.neighbours.iter().map(|neighbour| neighbour.site);
        for site in stacks(&found.entry).map(|stack| stack.site).chain(neighbours).filter(|site| *site != Site(0)) {
            lines.line(out, report.names, site)?;
        }
        let label = Some(report.labels.text(LabelId(found.entry.label))).filter(|label| !label.is_empty());
        let token = token(&found.entry, report.names)?;
        let inherited = report.origin(index).map(ErrorOrigin::json);
        line(out, &ErrorLine { inherited, ..error_line(report.context, found, label, token) })?;
    }
    for Excused { by, errors, times } in report.excused {
        line(out, &SuppressedLine { r#type: "suppressed", by, errors: *errors, times: *times })?;
    }
    if let Some(more) = more {
        line(out, more)?;
    }
    report.seen.notes.extend(report.names.notes());
    Ok(end(out, report.ending(), &report.seen)?)
}

/// A report of a session in which nothing was found: header and end, so that nobody takes it for one that was cut off.
pub fn nothing_found(session: &str, seen: &Seen, out: &mut dyn Write) -> io::Result<()> {
    line(out, &HeaderLine::new("errors", session, None))?;
    end(out, Ending::default(), seen)
}

fn error_line<'a>(context: &'a Context, found: &'a FoundError, label: Option<String>, token: String) -> ErrorLine<'a> {
    let error = &found.entry;
    let address = |address: u64| (address != 0).then_some(Hex(address));
    let ns = |time: Ticks| known(time).and_then(|ticks| context.clock.ns(ticks));
    let bytes = |bytes: &[u8]| (!bytes.is_empty()).then(|| hex(bytes));
    let stack = |stack: &ErrorStack| ErrorStackJson {
        of: stack_name(stack),
        time_ns: ns(stack.time),
        thread: thread(context, stack.thread.row()),
        site: stack.site.0,
    };
    let neighbour = |neighbour: &Neighbour| {
        address(neighbour.address).map(|address| NeighbourJson {
            address,
            bytes: neighbour.bytes,
            site: neighbour.site.0,
            thread: thread(context, neighbour.thread.row()),
        })
    };
    let [before, after] = &error.neighbours;
    let heap = error.heap.checked_sub(1).and_then(|row| context.heaps.get(&row));
    ErrorLine {
        r#type: "error",
        row: found.row,
        kind: kind_name(error),
        found_by: FoundBy::from_number(error.found_by).map(FoundBy::name),
        found_at: FoundAt::from_number(error.found_at).map(FoundAt::name),
        direction: direction(error).map(|direction| direction.name()),
        whereabouts: Whereabouts::from_number(error.whereabouts).map(Whereabouts::name),
        address: address(error.address),
        bytes: error.bytes,
        called: called(found),
        operands: error.operands,
        block: address(error.block),
        block_bytes: error.block_bytes,
        alignment: error.alignment,
        given_by: given_by(error).map(|kind| kind.to_string()),
        allocated: error.allocated.checked_sub(1),
        freed: error.freed.checked_sub(1),
        heap: heap.map(|heap| heap.name.as_str()),
        capabilities: error.capabilities,
        repeats: error.repeats,
        first_ns: ns(error.first_time),
        last_ns: ns(error.last_time),
        whole_ns: whole(error).and_then(|whole| context.clock.ns(whole)),
        expected: bytes(&compared(error, error.expected)),
        found: bytes(&compared(error, error.found)),
        around_address: address(error.around_address),
        around: bytes(&found.around),
        before: neighbour(before),
        after: neighbour(after),
        program_counter: address(error.program_counter),
        stack_pointer: address(error.stack_pointer),
        frame_pointer: address(error.frame_pointer),
        label,
        core: error.core.checked_sub(1),
        stacks: stacks(error).map(stack).collect(),
        inherited: None,
        token,
    }
}
