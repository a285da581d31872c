//! What was found or refused, as text.

use std::io::{self, Write};

use heapledger_format::LabelId;
use heapledger_format::errors::{Direction, ErrorEntry, ErrorStack, FoundAt, FoundBy, StackTag};
use heapledger_source::FoundError;

use super::{
    ErrorsReport, called, compared, direction, given_by, hex, is_failed_call, kind_name, known, operand_names,
    stack_name, stacks, whereabouts,
};
use crate::form::fit::Fit;
use crate::form::notes;
use crate::form::units::{clean, count, counted, plain_bytes};
use crate::record::frames;
use crate::{Context, ReportError};

/// Bytes of memory in a line.
const AROUND_BYTES: usize = 16;

/// Writes errors one by one.
///
/// ```text
/// heap-buffer-overflow: 4 B written at 0x10000044, in a live block
/// Found     : by canary, at free, time 0.200 s
/// Call      : free
/// Block     : 0x10000040, malloc 4 B, number 1
/// Expected  : 78 56 ad ba
/// Found     : 78 56 ad 00
/// allocated, time 0.002 s
///   By thread 0, 4242 jq
///   1) 0x00040ed8 worker2()
/// ```
pub(super) fn write(report: &mut ErrorsReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let context = report.context;
    let mut out = Fit::new(out, context.paint);
    if report.errors.is_empty() {
        writeln!(out, "No errors were found.")?;
    }
    for (index, found) in report.errors.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let label = report.labels.text(LabelId(found.entry.label));
        error(&mut out, context, found, &label)?;
        for stack in stacks(&found.entry) {
            let time = frames::time_and_age(&context.clock, known(stack.time));
            writeln!(out, "{}{time}", heading(&found.entry, stack))?;
            frames::thread(&mut out, context, stack.thread.row(), false)?;
            let named = report.names.stack(stack.site)?;
            frames::stack(&mut out, &named, context.paint)?;
        }
    }
    if report.left_out != 0 {
        writeln!(out, "\n{} left out (--limit 0 shows all)", counted(report.left_out, "error", "errors"))?;
    }
    report.seen.notes.extend(report.names.notes());
    notes::write(&mut out, &report.seen, context.paint)?;
    Ok(out.flush()?)
}

/// Writes an error, without its stacks.
fn error(out: &mut dyn Write, context: &Context, found: &FoundError, label: &str) -> io::Result<()> {
    let error = &found.entry;
    let access = access(error).map_or_else(String::new, |access| format!(": {access}"));
    writeln!(out, "{}{access}", context.paint.strong(kind_name(error)))?;
    let mut field = |name: &str, text: &str| {
        let heading = context.paint.strong(format!("{name:<10}:"));
        writeln!(out, "{heading} {}", context.paint.lines(&clean(text), 12, 12))
    };
    let by = FoundBy::from_number(error.found_by).map(|by| format!("by {}", by.name()));
    let at = FoundAt::from_number(error.found_at).map(|at| format!("at {}", at.name()));
    let how: Vec<String> = by.into_iter().chain(at).collect();
    let first = frames::time_and_age(&context.clock, known(error.first_time));
    let how = format!("{}{first}", how.join(", "));
    if !how.is_empty() {
        field("Detected", how.trim_start_matches(", "))?;
    }
    if error.repeats != 0 {
        let last = frames::time(&context.clock, known(error.last_time));
        field("Again", &format!("{}{last}", counted(error.repeats, "time", "times")))?;
    }
    if let Some(called) = called(found) {
        field("Call", &format!("{called}{}", operands(error)))?;
    }
    if is_failed_call(error) {
        field("Requested", &requested(error))?;
        if error.block != 0 {
            field("Block", &format!("{:#x}, which stays as it is", error.block))?;
        }
    } else if error.block != 0 || error.block_bytes != 0 {
        field("Block", &block(error))?;
    }
    if let Some(heap) = error.heap.checked_sub(1) {
        let name = context.heaps.get(&heap).map_or_else(String::new, |heap| format!(", {}", heap.name));
        field("Heap", &format!("{heap}{name}"))?;
    }
    if error.compared != 0 {
        field("Expected", &hex(&compared(error, error.expected)))?;
        field("Found", &hex(&compared(error, error.found)))?;
    }
    for (name, neighbour) in ["Before", "After"].into_iter().zip(&error.neighbours) {
        if neighbour.address != 0 {
            field(name, &format!("{:#x}, {}", neighbour.address, plain_bytes(neighbour.bytes)))?;
        }
    }
    if !label.is_empty() {
        field("Label", label)?;
    }
    for (index, bytes) in found.around.chunks(AROUND_BYTES).enumerate() {
        let address = error.around_address.saturating_add((index * AROUND_BYTES) as u64);
        field(if index == 0 { "Memory" } else { "" }, &format!("{address:#x}  {}", hex(bytes)))?;
    }
    Ok(())
}

/// What is said above a stack.
fn heading(error: &ErrorEntry, stack: &ErrorStack) -> String {
    match StackTag::from_number(stack.tag) {
        Some(StackTag::Allocation) => "allocated".to_owned(),
        Some(StackTag::Free) if error.found_at == FoundAt::Realloc as u8 => "resized".to_owned(),
        Some(StackTag::Free) => "freed".to_owned(),
        Some(StackTag::Access) if is_failed_call(error) => "failed call".to_owned(),
        _ => stack_name(stack),
    }
}

/// `1,024 B, aligned to 64`: what a call asked for that gave no block.
fn requested(error: &ErrorEntry) -> String {
    let bytes = plain_bytes(error.block_bytes);
    if error.alignment == 0 { bytes } else { format!("{bytes}, aligned to {}", count(error.alignment)) }
}

/// `4 B written at 0x10000044, in a live block`.
fn access(error: &ErrorEntry) -> Option<String> {
    if error.address == 0 && error.bytes == 0 {
        return None;
    }
    let bytes = (error.bytes != 0).then(|| plain_bytes(error.bytes));
    let done = direction(error).map(|direction| match direction {
        Direction::Read => "read".to_owned(),
        Direction::Write => "written".to_owned(),
    });
    let at = Some(format!("at {:#x}", error.address));
    let text = bytes.into_iter().chain(done).chain(at).collect::<Vec<_>>().join(" ");
    Some(whereabouts(error).map_or(text.clone(), |place| format!("{text}, {place}")))
}

/// `0x10000040, malloc 4 B, aligned to 16, number 1, freed as number 7`.
fn block(error: &ErrorEntry) -> String {
    let mut parts = Vec::new();
    if error.block != 0 {
        parts.push(format!("{:#x}", error.block));
    }
    let given = given_by(error).map_or_else(String::new, |kind| format!("{kind} "));
    parts.push(format!("{given}{}", plain_bytes(error.block_bytes)));
    if error.alignment != 0 {
        parts.push(format!("aligned to {}", count(error.alignment)));
    }
    parts.extend(error.allocated.checked_sub(1).map(|number| format!("number {number}")));
    parts.extend(error.freed.checked_sub(1).map(|number| format!("freed as number {number}")));
    parts.join(", ")
}

/// `, count 1,024, size 1,024`: what the call was given, if that says anything.
fn operands(error: &ErrorEntry) -> String {
    if error.operands == [0, 0] {
        return String::new();
    }
    let named = operand_names(error).into_iter().zip(error.operands).filter(|(name, _)| !name.is_empty());
    let texts = named.map(|(name, value)| {
        let is_address = name.ends_with("address");
        if is_address { format!(", {name} {value:#x}") } else { format!(", {name} {}", count(value)) }
    });
    texts.collect()
}
