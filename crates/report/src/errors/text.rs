//! What was found or refused, as text.

use std::io::Write;

use heapledger_analysis::Excused;
use heapledger_format::errors::{Direction, ErrorEntry, ErrorKind, ErrorStack, FoundAt, FoundBy, Neighbour, StackTag};
use heapledger_format::{LabelId, Site, Ticks};
use heapledger_source::FoundError;

use super::place::{culprit, is_in_front, is_unseen, position, stack_of, summary};
use super::token::token;
use super::{
    ErrorOrigin, ErrorsReport, called, direction, given_by, is_failed_call, kind_name, known, memory, operand_names,
    stack_name, stacks, whereabouts, whole,
};
use crate::form::fit::Fit;
use crate::form::notes;
use crate::form::units::{clean, count, counted, plain_bytes, span};
use crate::record::frames;
use crate::{Context, Paint, ReportError, Stacks, callers};

/// Writes errors one by one.
///
/// ```text
/// heap-buffer-overflow: WRITE of 4 bytes at 0x10000044, in a live block
/// Detected  : by canary, at free, 198 ms after the allocation, time 0.200 s
/// Place     : not known: it was written in the 198 ms from the allocation on
/// Call      : free
/// Block     : 0x10000040, malloc 4 B, number 1
/// Address   : 0 bytes after a 4-byte region
/// Expected  : 78 56 ad ba (tail canary)
/// Found     : 78 56 ad 00
/// allocated, time 0.002 s
///   By thread 0, 4242 jq
///   1) 0x00040ed8 worker2()
/// SUMMARY: heap-buffer-overflow in worker2(), where its block was allocated
/// ```
pub(super) fn write(report: &mut ErrorsReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    if report.errors.is_empty() {
        writeln!(out, "No errors were found.")?;
    }
    each(report, out)?;
    ending(report, out)
}

/// Writes the errors.
pub(crate) fn each(report: &mut ErrorsReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let context = report.context;
    let mut out = Fit::new(out, context.paint);
    for (index, found) in report.errors.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let label = report.labels.text(LabelId(found.entry.label));
        let origin = report.origins.get(index).and_then(Option::as_ref);
        one(&mut out, (context, report.tokens), report.names, (found, origin), &label)?;
    }
    Ok(out.flush()?)
}

/// Writes what stands behind them.
pub(crate) fn ending(report: &mut ErrorsReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let context = report.context;
    let mut out = Fit::new(out, context.paint);
    if report.left_out != 0 {
        writeln!(out, "\n{} left out (--limit 0 shows all)", counted(report.left_out, "error", "errors"))?;
    }
    if !report.excused.is_empty() {
        writeln!(out, "\n{}", context.paint.strong("Suppressed:"))?;
    }
    let width = report.excused.iter().map(|excused| excused.by.chars().count()).max().unwrap_or(0);
    for excused in report.excused {
        writeln!(out, "  {:<width$}  {}", clean(&excused.by), excused_words(excused))?;
    }
    report.seen.notes.extend(report.names.notes());
    notes::write(&mut out, &report.seen, context.paint)?;
    Ok(out.flush()?)
}

/// `2 errors, found 5 times`: what a line has excused.
pub(crate) fn excused_words(excused: &Excused) -> String {
    let (errors, times) = (counted(excused.errors, "error", "errors"), counted(excused.times, "time", "times"));
    format!("{errors}, found {times}")
}

/// Where a stack is that the ledger does not have.
const OF_ANCESTOR: &str = "In a process that this one was forked from: its ledger has the stack";

/// Writes an error with its stacks, its token if asked for, and what it comes to in one line.
pub(super) fn one(
    out: &mut dyn Write,
    (context, tokens): (&Context, bool),
    names: &mut dyn Stacks,
    (found, origin): (&FoundError, Option<&ErrorOrigin>),
    label: &str,
) -> Result<(), ReportError> {
    let error = &found.entry;
    facts(out, context, names, found, label)?;
    if let Some(origin) = origin {
        let heading = context.paint.strong(format!("{:<10}:", "Inherited"));
        writeln!(out, "{heading} {}", context.paint.lines(&origin.sentence(), 12, 12))?;
    }
    let of = origin.and_then(ErrorOrigin::block);
    // What a parent has in its ledger follows, from there.
    for stack in stacks(error).filter(|stack| stack.ancestor == 0 || of.is_none()) {
        let time = frames::time_and_age(&context.clock, known(stack.time));
        writeln!(out, "{}{time}{}", heading(error, stack), before(context, error, stack))?;
        if stack.ancestor != 0 {
            writeln!(out, "  {OF_ANCESTOR}")?;
            continue;
        }
        frames::thread(out, context, stack.thread.row(), false)?;
        let named = names.stack(stack.site)?;
        // What was freed lately is known from the history.
        if stack.tag == StackTag::Free as u16 {
            frames::stack_of_end(out, (error.freed.checked_sub(1), &named), context)?;
        } else {
            frames::stack(out, &named, context.paint)?;
        }
    }
    if let Some(of) = of {
        let is_free_told = stack_of(error, StackTag::Free).is_some_and(|stack| stack.ancestor == 0);
        of.stacks(out, context, is_free_told)?;
    }
    let front = &error.neighbours[0];
    if is_unseen(error) && is_in_front(error) && front.address != 0 && front.site != Site::NONE {
        writeln!(out, "block in front, which may have overrun, allocated")?;
        frames::thread(out, context, front.thread.row(), false)?;
        frames::stack(out, &names.stack(front.site)?, context.paint)?;
    }
    if tokens {
        writeln!(out, "DEDUP_TOKEN: {}", clean(&token(error, names)?))?;
    }
    let culprit = match (culprit(error), of) {
        (Some(stack), _) if stack.site != Site::NONE => Some(names.stack(stack.site)?),
        (_, Some(of)) => Some(of.allocated.clone()),
        _ => None,
    };
    Ok(writeln!(out, "SUMMARY: {}", summary(error, culprit.as_ref()))?)
}

/// `, 3.20 s before`: of a free that came before the call that was wrong.
fn before(context: &Context, error: &ErrorEntry, stack: &ErrorStack) -> String {
    if stack.tag != StackTag::Free as u16 {
        return String::new();
    }
    let then = match stack_of(error, StackTag::Access) {
        Some(access) => access.time,
        None if is_unseen(error) => error.first_time,
        None => return String::new(),
    };
    between(context, stack.time, then).map_or_else(String::new, |span| format!(", {span} before"))
}

/// The time from one moment to a later one, if both are known.
fn between(context: &Context, from: Ticks, to: Ticks) -> Option<String> {
    let ns = |time| known(time).and_then(|ticks| context.clock.ns(ticks));
    ns(to)?.checked_sub(ns(from)?).filter(|ns| *ns != 0).map(span)
}

/// `198 ms after the allocation`: from when on nobody looked, and how long until it was found. Of freed memory, the free.
fn unwatched(context: &Context, error: &ErrorEntry) -> (Option<String>, &'static str) {
    let (tag, name) = match error.found_by {
        by if by == FoundBy::Fill as u8 => (StackTag::Free, "free"),
        _ => (StackTag::Allocation, "allocation"),
    };
    let from = stack_of(error, tag).map(|stack| stack.time);
    match whole(error).filter(|whole| from.is_none_or(|from| from < *whole)) {
        Some(whole) => (between(context, whole, error.first_time), "last look at all blocks"),
        None => (from.and_then(|from| between(context, from, error.first_time)), name),
    }
}

/// How it was found, and when.
fn detected(context: &Context, error: &ErrorEntry) -> String {
    let by = FoundBy::from_number(error.found_by).map(|by| format!("by {}", by.name()));
    let at = FoundAt::from_number(error.found_at).map(|at| format!("at {}", at.name()));
    let (span, from) = if is_unseen(error) { unwatched(context, error) } else { (None, "") };
    let later = span.map(|span| format!("{span} after the {from}"));
    let how: Vec<String> = by.into_iter().chain(at).chain(later).collect();
    let first = frames::time_and_age(&context.clock, known(error.first_time));
    format!("{}{first}", how.join(", ")).trim_start_matches(", ").to_owned()
}

/// How sure it is where an access was made: of calls with what is no block the call itself says it.
fn certainty(context: &Context, error: &ErrorEntry) -> Option<String> {
    use ErrorKind::{BufferOverflow, BufferUnderflow, UseAfterFree};
    if ![BufferOverflow, BufferUnderflow, UseAfterFree].iter().any(|kind| error.kind == *kind as u16) {
        return None;
    }
    if is_unseen(error) {
        let (span, from) = unwatched(context, error);
        let span = span.map_or_else(String::new, |span| format!(" in the {span}"));
        return Some(format!("not known: it was written{span} from the {from} on"));
    }
    match FoundAt::from_number(error.found_at)? {
        FoundAt::Instruction if error.program_counter != 0 => {
            Some(format!("sure: the instruction at {:#x}", error.program_counter))
        }
        FoundAt::Instruction => Some("sure: the very instruction".to_owned()),
        FoundAt::Call => Some("sure: the very call".to_owned()),
        _ => None,
    }
}

/// Writes an error, without its stacks.
fn facts(
    out: &mut dyn Write,
    context: &Context,
    names: &mut dyn Stacks,
    found: &FoundError,
    label: &str,
) -> Result<(), ReportError> {
    let error = &found.entry;
    let access = access(error).map_or_else(String::new, |access| format!(": {access}"));
    writeln!(out, "{}{access}", context.paint.strong(kind_name(error)))?;
    let heading = |name: &str| context.paint.strong(format!("{name:<10}:"));
    let mut field =
        |name: &str, text: &str| writeln!(out, "{} {}", heading(name), context.paint.lines(&clean(text), 12, 12));
    let how = detected(context, error);
    if !how.is_empty() {
        field("Detected", &how)?;
    }
    if let Some(certainty) = certainty(context, error) {
        field("Place", &certainty)?;
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
        if let Some(position) = position(error) {
            field("Address", &position)?;
        }
    }
    if let Some(heap) = error.heap.checked_sub(1) {
        let name = context.heaps.get(&heap).map_or_else(String::new, |heap| format!(", {}", heap.name));
        field("Heap", &format!("{heap}{name}"))?;
    }
    if error.compared != 0 {
        field("Expected", &memory::expected(error))?;
        field("Found", &memory::found(error))?;
    }
    for (name, neighbour) in ["Before", "After"].into_iter().zip(&error.neighbours) {
        if neighbour.address != 0 {
            field(name, &beside(error, neighbour, names, context.paint)?)?;
        }
    }
    if !label.is_empty() {
        field("Label", label)?;
    }
    for hint in memory::hints(error) {
        field("Hint", &hint)?;
    }
    for (index, row) in memory::rows(error, &found.around).iter().enumerate() {
        writeln!(out, "{} {row}", heading(if index == 0 { "Memory" } else { "" }))?;
    }
    Ok(())
}

/// `0x10000000, 24 B, 8 bytes in front, allocated by give (x.c:10) < main`.
fn beside(
    error: &ErrorEntry,
    neighbour: &Neighbour,
    names: &mut dyn Stacks,
    paint: Paint,
) -> Result<String, ReportError> {
    let end = |address: u64, bytes: u64| address.saturating_add(bytes);
    let in_front = error.block.checked_sub(end(neighbour.address, neighbour.bytes)).map(|gap| (gap, "in front"));
    let behind = neighbour.address.checked_sub(end(error.block, error.block_bytes)).map(|gap| (gap, "behind"));
    let gap = in_front.or(behind).filter(|_| error.block != 0);
    let gap = gap.map(|(gap, where_to)| format!(", {} {where_to}", counted(gap, "byte", "bytes")));
    let by = match neighbour.site == Site::NONE {
        true => String::new(),
        false => format!(", allocated by {}", callers(&names.stack(neighbour.site)?, paint)),
    };
    let bytes = plain_bytes(neighbour.bytes);
    Ok(format!("{:#x}, {bytes}{}{by}", neighbour.address, gap.unwrap_or_default()))
}

/// Whether a call was given what is no block.
fn is_wrong_free(error: &ErrorEntry) -> bool {
    use ErrorKind::{BadFree, BadMallocUsableSize, BadRealloc};
    [BadFree, BadRealloc, BadMallocUsableSize].iter().any(|kind| error.kind == *kind as u16)
}

/// What is said above a stack.
fn heading(error: &ErrorEntry, stack: &ErrorStack) -> String {
    match StackTag::from_number(stack.tag) {
        Some(StackTag::Allocation) => "allocated".to_owned(),
        // Whoever frees a block, or calls at all when it is looked at, has not damaged it.
        Some(StackTag::Access) if is_unseen(error) => "found".to_owned(),
        Some(StackTag::Free) if error.found_at == FoundAt::Realloc as u8 => "resized".to_owned(),
        Some(StackTag::Free) => "freed".to_owned(),
        Some(StackTag::Access) if is_failed_call(error) => "failed call".to_owned(),
        Some(StackTag::Access) if error.kind == ErrorKind::DoubleFree as u16 => "freed again".to_owned(),
        Some(StackTag::Access) if is_wrong_free(error) => "wrong call".to_owned(),
        _ => stack_name(stack),
    }
}

/// `1,024 B, aligned to 64`: what a call asked for that gave no block.
fn requested(error: &ErrorEntry) -> String {
    let bytes = plain_bytes(error.block_bytes);
    if error.alignment == 0 { bytes } else { format!("{bytes}, aligned to {}", count(error.alignment)) }
}

/// `WRITE of 4 bytes at 0x10000044, in a live block`.
fn access(error: &ErrorEntry) -> Option<String> {
    if error.address == 0 && error.bytes == 0 {
        return None;
    }
    let done = direction(error).map(|direction| match direction {
        Direction::Read => "READ",
        Direction::Write => "WRITE",
    });
    let bytes = (error.bytes != 0).then(|| counted(error.bytes, "byte", "bytes"));
    let what = match (done, bytes) {
        (Some(done), Some(bytes)) => format!("{done} of {bytes} "),
        (Some(done), None) => format!("{done} "),
        (None, Some(bytes)) => format!("{bytes} "),
        (None, None) => String::new(),
    };
    let text = format!("{what}at {:#x}", error.address);
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
    // What was not said of a block is no operand; of a count of 0 it is told.
    let is_said = |(name, value): &(&str, u64)| !(name.is_empty() || name.ends_with(" given") && *value == 0);
    let named = operand_names(error).into_iter().zip(error.operands).filter(is_said);
    let texts = named.map(|(name, value)| {
        let is_address = name.ends_with("address");
        if is_address {
            format!(", {name} {value:#x}")
        } else if error.kind == ErrorKind::NegativeSize as u16 {
            format!(", {name} {}", value as i64)
        } else {
            format!(", {name} {}", count(value))
        }
    });
    texts.collect()
}
