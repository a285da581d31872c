//! Totals, as text: the nine fields of `ecosmdd stats`, and what a process has besides.

use std::fmt::Write as _;
use std::io::{self, Write};

use heapledger_analysis::{Clock, Identity, KindTotals, NamedStack, RunMarks, Summary, ThreadTotals};
use heapledger_format::record::Options;
use heapledger_source::ThreadState;

use super::StatsReport;
use crate::form::fit::Fit;
use crate::form::notes;
use crate::form::units::{Figures, clean, count, counted, moment, percent, span};
use crate::record::frames;
use crate::stats::{accounts, chosen, memory};
use crate::{Cell, Column, Paint, Table, TableForm, TableStyle};

/// Writes a field: its name on the first line, nothing on the others.
pub(crate) struct Fields<'a> {
    pub(crate) out: &'a mut dyn Write,
    pub(crate) paint: Paint,
}

/// Columns that a terminal needs for the handles of threads.
const HANDLES: usize = 100;
/// Columns before what a field says.
pub(crate) const INDENT: usize = 12;
/// Columns before a table.
const TABLE_INDENT: usize = 2;

impl Fields<'_> {
    pub(crate) fn field(&mut self, name: &str, lines: &[String]) -> io::Result<()> {
        for (index, line) in lines.iter().enumerate() {
            let line = self.paint.lines(line, INDENT, INDENT);
            self.entry(if index == 0 { name } else { "" }, &line)?;
        }
        Ok(())
    }

    /// A line that is cut where it is too long.
    pub(crate) fn entry(&mut self, name: &str, line: &str) -> io::Result<()> {
        writeln!(self.out, "{} {line}", self.paint.strong(format!("{name:<10}:")))
    }

    pub(crate) fn line(&mut self, name: &str, line: String) -> io::Result<()> {
        self.field(name, &[line])
    }

    /// A table below a field. It says which columns have no room.
    pub(crate) fn table(&mut self, columns: Vec<Column>, rows: &[Vec<Cell>]) -> io::Result<()> {
        let paint = Paint { columns: self.paint.columns.saturating_sub(TABLE_INDENT), ..self.paint };
        let style = TableStyle { width: paint.columns, paint };
        let mut table = Table::new(Vec::new(), TableForm::Text(style), columns)?;
        rows.iter().try_for_each(|row| table.row(row))?;
        for line in String::from_utf8_lossy(&table.end()?).lines() {
            writeln!(self.out, "{:TABLE_INDENT$}{line}", "")?;
        }
        Ok(())
    }
}

/// Writes the totals field by field.
pub(super) fn write(report: &StatsReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let StatsReport { ledger, summary, top, paint, .. } = *report;
    let mut out = Fit::new(out, paint);
    writeln!(out, "{}: statistics", paint.strong(clean(ledger)))?;
    let figures = paint.figures(summary.sampled.is_some());
    let mut fields = Fields { out: &mut out, paint };
    if let Some(from) = summary.sampled {
        fields.line("Sampled", figures.sampled(from, "of live blocks"))?;
    }
    let (program, args) = program(&summary.identity, summary.clock);
    fields.field("Program", &program)?;
    if let Some(args) = args {
        fields.entry("", &args)?;
    }
    let run = run(&summary.identity.run);
    if !run.is_empty() {
        fields.field("Run", &run)?;
    }
    if let Some(chosen) = &summary.chosen {
        return chosen::rest(fields, report, chosen);
    }
    fields.field("Heap", &heaps(summary, figures))?;
    let allocations = figures.counted(summary.allocations, "allocation", "allocations");
    let frees = figures.counted(summary.frees, "free", "frees");
    let inherited = summary.inherited_frees.filter(|frees| *frees != 0).map_or_else(String::new, |inherited| {
        format!("; {} of what it had not allocated: its parent's", figures.counted(inherited, "free", "frees"))
    });
    fields.line("History", format!("{allocations}, {frees}{inherited}"))?;
    let blocks = figures.counted(summary.live_blocks, "block", "blocks");
    let live = figures.bytes_with_error(summary.live_bytes, summary.live_bytes_error);
    fields.line("Current", format!("{live} in {blocks}"))?;
    if let Some(actual) = summary.actual_bytes {
        let approximately = if figures.estimated { "" } else { "approximately " };
        let mut lines = vec![format!("{approximately}{}", figures.bytes_exact(actual))];
        let overhead = actual.saturating_sub(summary.live_bytes);
        let part = |bytes: u64, of: u64| percent(bytes as f64 / of.max(1) as f64);
        let all = format!("{approximately}{}, {}", figures.bytes_exact(overhead), part(overhead, actual));
        let mut overheads = vec![all];
        match summary.headers_bytes {
            _ if summary.live_blocks == 0 => {}
            Some(headers) => {
                let with = actual.saturating_add(headers);
                let more = overhead.saturating_add(headers);
                lines.push(format!("{} with what glibc keeps in front of each block", figures.bytes_exact(with)));
                overheads.push(format!("{}, {} with that", figures.bytes_exact(more), part(more, with)));
            }
            None => lines.push("what the allocator keeps beside the blocks is not known".to_owned()),
        }
        fields.field("Actual", &lines)?;
        fields.field("Overhead", &overheads)?;
    }
    fields.line("Peak", peak(summary, figures))?;
    sites(&mut fields, summary, top)?;
    if let Some(frames) = memory::frames(summary) {
        fields.line("Stacks", frames)?;
    }
    if let Some(checked) = memory::checked(summary) {
        fields.line("Checked", checked)?;
    }
    fields.field("Debugdata", &memory::debug_data(summary, figures.known()))?;
    allocators(&mut fields, summary)?;
    if summary.options.has(Options::THREAD) {
        threads(&mut fields, summary, report.threads)?;
    }
    accounts::text(&mut fields, summary)?;
    fields.field("Options", &recorded(summary))?;
    notes::write(fields.out, &summary.seen, paint)?;
    out.flush()
}

/// The program and what became of it, a line each, and what it was called with.
pub(crate) fn program(identity: &Identity, at: Clock) -> (Vec<String>, Option<String>) {
    let name = identity.program.as_deref().unwrap_or("unknown");
    let mut first = clean(name).into_owned();
    if let Some(pid) = identity.pid {
        let _ = write!(first, ", pid {pid}");
    }
    if let Some(start) = at.start_unix_ns() {
        let _ = write!(first, ", began {}", moment(start));
    }
    let after = identity.wall_ns.or_else(|| at.span_ns()).map(span);
    let after = |word: &str| after.as_ref().map_or_else(String::new, |after| format!(" {word} {after}"));
    let end = match (identity.exit, identity.signal) {
        _ if identity.is_midway() => {
            let word = if identity.copied_unix_ns.is_some() { "after" } else { "after at least" };
            format!("as it was when this was copied{}", after(word))
        }
        _ if identity.running => format!("running{}", after("for")),
        _ if identity.taken.is_some() => "went on".to_owned(),
        (_, Some(signal)) => format!("killed by signal {signal}{}", after("after")),
        (Some(status), _) => format!("exited with status {status}{}", after("after")),
        _ if identity.replaced => format!("went on as another program (exec){}", after("after about")),
        _ => format!("ended{}; how is not known", after("after about")),
    };
    let mut lines = vec![format!("{first}, {end}")];
    let args: Vec<String> = identity.args.iter().map(|arg| quoted(arg)).collect();
    // Of a copy that does not say when it was made, a snapshot does not know it either.
    if let Some(taken) = identity.taken.filter(|_| !identity.copied || identity.copied_unix_ns.is_some()) {
        let after = at.span_ns().map_or_else(String::new, |ns| format!(", after {}", span(ns)));
        let held = taken.held_ns.map_or_else(String::new, |ns| format!("; it was held for {}", span(ns)));
        lines.push(format!("(a snapshot of {}{after}{held})", moment(taken.unix_ns)));
    }
    if identity.image != 0 {
        lines.push(format!("(program {} of this process: it has called exec)", identity.image + 1));
    }
    (lines, Some(args.join(" ")).filter(|args| !args.is_empty()))
}

/// What a person said of the run, and on which machine it was if that was asked for.
fn run(marks: &RunMarks) -> Vec<String> {
    let labels = marks.labels.iter().map(|(key, value)| format!("{}={}", clean(key), quoted(value)));
    let mut lines: Vec<String> =
        Some(labels.collect::<Vec<_>>().join(", ")).filter(|all| !all.is_empty()).into_iter().collect();
    if let Some(machine) = &marks.machine_id {
        let host = marks.host.as_deref().unwrap_or("unknown");
        lines.push(format!("on {}, machine {}", clean(host), clean(machine)));
    }
    lines
}

/// An argument as a shell would want it.
pub(crate) fn quoted(argument: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_=./:,+@%^".contains(letter);
    let argument = clean(argument);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.into_owned()
    } else {
        format!("'{}'", argument.replace('\'', "'\\''"))
    }
}

pub(crate) fn heaps(summary: &Summary, figures: Figures) -> Vec<String> {
    let mut lines: Vec<String> = summary
        .heaps
        .iter()
        .map(|totals| {
            let heap = &totals.heap;
            let name = if heap.name.is_empty() { format!("heap {}", heap.row) } else { clean(&heap.name).into_owned() };
            let live = figures.counted(totals.live_blocks, "block", "blocks");
            let holds = if totals.is_several() { "hold" } else { "holds" };
            let live = match totals.live_blocks {
                // Which heap a block lies in is no part of its record.
                _ if !summary.options.has(Options::HEAP) => String::new(),
                0 => format!(", {holds} {}", figures.nothing()),
                _ => format!(", {holds} {} in {live}", figures.bytes(totals.live_bytes)),
            };
            let live = live + &accounts::heap(heap.figures.as_ref(), figures);
            let (low, high) = (heap.low, heap.high);
            let size = figures.known().bytes(high.saturating_sub(low));
            match low < high {
                true if let Some(parts) = totals.parts_bytes => {
                    // How far apart they lie is no size: between them there is much else.
                    let least = match parts {
                        0 => String::new(),
                        _ => format!(", at least {} of it", figures.known().bytes(parts)),
                    };
                    format!("{name}, between {low:#010x} and {:#010x}{least}{live}", high - 1)
                }
                true => format!("{name}, {low:#010x} to {:#010x}, size {size}{live}", high - 1),
                false => format!("{name}{live}"),
            }
        })
        .collect();
    if lines.is_empty() {
        lines.push("not recorded".to_owned());
    }
    lines
}

fn peak(summary: &Summary, figures: Figures) -> String {
    let peak = &summary.peak;
    let mut text = figures.within_exact(peak.bytes, peak.error_bytes);
    // Estimates are marked, what is inexact otherwise is said in a word.
    let about = if figures.estimated || peak.is_exact() { "" } else { "about " };
    let _ = write!(text, " in {about}{}", figures.counted(peak.blocks, "block", "blocks"));
    if let Some(time) = peak.time_ns {
        let _ = write!(text, ", after {}", span(time));
    }
    text
}

pub(crate) fn sites(fields: &mut Fields<'_>, summary: &Summary, top: &[NamedStack]) -> io::Result<()> {
    const NAME: &str = "Call sites";
    if !summary.options.has(Options::STACK) {
        return fields.line(NAME, "not recorded".to_owned());
    }
    let figures = fields.paint.figures(summary.sampled.is_some());
    let sites = &summary.sites;
    let first = match &summary.chosen {
        Some(_) => vec![format!("{} with such live blocks", counted(sites.live, "stack", "stacks"))],
        None => memory::call_sites(sites, figures.known()),
    };
    fields.field(NAME, &first)?;
    let held = sites.top.iter().map(|totals| {
        let mut blocks = figures.counted(totals.blocks, "block", "blocks");
        if figures.estimated {
            let _ = write!(blocks, " ({})", counted(totals.samples, "sample", "samples"));
        }
        (figures.bytes(totals.bytes), blocks)
    });
    let held: Vec<(String, String)> = held.collect();
    let bytes_width = held.iter().map(|(bytes, _)| bytes.len()).max().unwrap_or(0);
    let blocks_width = held.iter().map(|(_, blocks)| blocks.len()).max().unwrap_or(0);
    if sites.at_peak && !held.is_empty() {
        fields.entry("", "at the peak:")?;
    }
    for ((bytes, blocks), stack) in held.iter().zip(top) {
        let who = frames::callers(stack, fields.paint);
        fields.entry("", &format!("{bytes:>bytes_width$} in {blocks:<blocks_width$}  {who}"))?;
    }
    Ok(())
}

/// Columns of an allocator's name, and of a number.
const NAME: usize = 22;
const NUMBER: usize = 14;

pub(crate) fn allocators(fields: &mut Fields<'_>, summary: &Summary) -> io::Result<()> {
    let figures = fields.paint.figures(summary.sampled.is_some());
    let allocating: Vec<_> =
        summary.kinds.iter().filter(|kind| kind.begun.unwrap_or(0) != 0 || kind.live_blocks != 0).collect();
    let are_counted = allocating.iter().any(|kind| kind.begun.is_some());
    // A column, unless nobody counts.
    let calls = |text: &str| if are_counted { format!(" {text:>NUMBER$}") } else { String::new() };
    let bytes: Vec<String> = allocating.iter().map(|kind| figures.bytes(kind.live_bytes)).collect();
    let width = bytes.iter().map(|bytes| bytes.chars().count()).fold(12, usize::max);
    let titles = format!("{:<NAME$}{} {:>NUMBER$} {:>width$}", "", calls("calls"), "live blocks", "live bytes");
    let columns = fields.paint.columns;
    if (1..INDENT + titles.len()).contains(&columns) {
        return narrow_allocators(fields, summary, &allocating, are_counted);
    }
    fields.field("Allocators", &[titles])?;
    for (kind, bytes) in allocating.iter().zip(bytes) {
        let name = format!("{}", kind.kind);
        let begun = calls(&kind.begun.map(|begun| figures.count(begun)).unwrap_or_default());
        let live = figures.count(kind.live_blocks);
        writeln!(fields.out, "            {name:<NAME$}{begun} {live:>NUMBER$} {bytes:>width$}")?;
    }
    let freeing: Vec<_> = summary.kinds.iter().filter(|kind| kind.ended != 0).collect();
    if !freeing.is_empty() {
        fields.field("Freed by", &[format!("{:<NAME$} {:>NUMBER$}", "", "calls")])?;
    }
    for kind in freeing {
        writeln!(fields.out, "            {:<NAME$} {:>NUMBER$}", format!("{}", kind.kind), figures.count(kind.ended))?;
    }
    other_calls(fields, summary)
}

/// The same where there is no room for columns as wide as usual.
fn narrow_allocators(
    fields: &mut Fields<'_>,
    summary: &Summary,
    allocating: &[&KindTotals],
    are_counted: bool,
) -> io::Result<()> {
    let estimated = summary.sampled.is_some();
    let number = |name: &'static str| Column::number(name).estimated(estimated);
    let name = |kind: &KindTotals| Cell::Text(kind.kind.to_string());
    fields.line("Allocators", counted(allocating.len() as u64, "kind of call", "kinds of calls"))?;
    let calls = are_counted.then(|| number("calls"));
    let columns = [Column::word("kind")].into_iter().chain(calls).chain([number("live blocks"), number("live bytes")]);
    let rows: Vec<Vec<Cell>> = allocating
        .iter()
        .map(|kind| {
            let calls = are_counted.then(|| Cell::maybe(kind.begun, Cell::Count));
            let live = [Cell::Count(kind.live_blocks), Cell::Bytes(kind.live_bytes)];
            [name(kind)].into_iter().chain(calls).chain(live).collect()
        })
        .collect();
    fields.table(columns.collect(), &rows)?;
    let freeing = summary.kinds.iter().filter(|kind| kind.ended != 0);
    let rows: Vec<Vec<Cell>> = freeing.map(|kind| vec![name(kind), Cell::Count(kind.ended)]).collect();
    if !rows.is_empty() {
        fields.line("Freed by", counted(rows.len() as u64, "kind of call", "kinds of calls"))?;
        fields.table(vec![Column::word("kind"), number("calls")], &rows)?;
    }
    other_calls(fields, summary)
}

/// Calls that did nothing to a block of the ledger.
fn other_calls(fields: &mut Fields<'_>, summary: &Summary) -> io::Result<()> {
    let figures = fields.paint.figures(summary.sampled.is_some());
    let mut say = |text: String| {
        let text = fields.paint.lines(&text, INDENT, INDENT);
        writeln!(fields.out, "{:INDENT$}{text}", "")
    };
    let ended = summary.kinds.iter().map(|kind| kind.ended).fold(0, u64::saturating_add);
    if ended > summary.frees && summary.unknown_frees != 0 && summary.chosen.is_none() {
        let of = figures.count(summary.unknown_frees);
        say(format!("{of} of these calls freed blocks that the ledger does not know"))?;
    }
    if summary.failed_calls != 0 && summary.chosen.is_none() {
        let calls = counted(summary.failed_calls, "call", "calls");
        say(format!("{calls} returned no block"))?;
    }
    Ok(())
}

pub(crate) fn threads(fields: &mut Fields<'_>, summary: &Summary, limit: usize) -> io::Result<()> {
    let paint = fields.paint;
    let figures = paint.figures(summary.sampled.is_some());
    let chosen = if summary.chosen.is_some() { " with such live blocks" } else { "" };
    fields.line("Threads", counted(summary.threads.len() as u64, "thread", "threads") + chosen)?;
    let shown = if limit == 0 { summary.threads.len() } else { limit.min(summary.threads.len()) };
    let (first, rest) = summary.threads.split_at(shown);
    let mut columns = vec![
        Column::number("row"),
        Column::word("name"),
        Column::number("id"),
        Column::number("allocations").estimated(figures.estimated),
        Column::number("live blocks").estimated(figures.estimated),
        Column::number("live bytes").estimated(figures.estimated),
        Column::word("ended"),
        Column::text("handle"),
    ];
    // That is for debuggers, and the first to go where there is little room.
    if (1..HANDLES).contains(&paint.columns) {
        columns.pop();
    }
    let rows: Vec<Vec<Cell>> = first.iter().map(|totals| thread(totals, summary)).collect();
    fields.table(columns, &rows)?;
    if !rest.is_empty() {
        let blocks: u64 = rest.iter().map(|totals| totals.live_blocks).fold(0, u64::saturating_add);
        let held: u64 = rest.iter().map(|totals| totals.live_bytes).fold(0, u64::saturating_add);
        let (threads, blocks) =
            (counted(rest.len() as u64, "thread", "threads"), figures.counted(blocks, "block", "blocks"));
        fields.line("", format!("{threads} more with {} in {blocks} (--all shows them)", figures.bytes(held)))?;
    }
    Ok(())
}

fn thread(totals: &ThreadTotals, summary: &Summary) -> Vec<Cell> {
    let live = [Cell::Count(totals.live_blocks), Cell::Bytes(totals.live_bytes)];
    let (known, end) = match &totals.thread {
        Some(thread) => {
            let identity = &summary.identity;
            let goes_on = identity.running || identity.is_midway() || identity.taken.is_some();
            let state = match (thread.state, summary.thread_ended_by_ns(thread)) {
                (ThreadState::Gone, Some(ns)) => format!("by {}", span(ns)),
                (ThreadState::Gone, None) => "gone".to_owned(),
                (ThreadState::AtExit, _) => "at exit".to_owned(),
                (ThreadState::Alive, _) if goes_on => "alive".to_owned(),
                // The first thread is there as long as the process, nearly always.
                (ThreadState::Alive, _) if Some(thread.id) == identity.pid => "at the end".to_owned(),
                (ThreadState::Alive, _) => "not known".to_owned(),
            };
            let name = Cell::Text(thread.name.clone());
            // All that a thread allocated is known of all blocks together only.
            let allocations = if summary.chosen.is_some() { Cell::Nothing } else { Cell::Count(thread.allocations) };
            let known = [Cell::Plain(thread.row.0.into()), name, Cell::Plain(thread.id.into()), allocations];
            (known, [Cell::Text(state), Cell::Address(thread.handle)])
        }
        None => {
            let name = Cell::Text("(without a row)".to_owned());
            ([Cell::Nothing, name, Cell::Nothing, Cell::Nothing], [Cell::Nothing, Cell::Nothing])
        }
    };
    known.into_iter().chain(live).chain(end).collect()
}

pub(crate) fn recorded(summary: &Summary) -> Vec<String> {
    let options = summary.options;
    let word = |option| if options.has(option) { "enabled" } else { "disabled" };
    let (actual, time, thread) = (word(Options::ACTUAL_SIZE), word(Options::TIME), word(Options::THREAD));
    let mut lines = vec![format!("actual_size {actual}, time stamps {time}, thread info {thread}")];
    lines.push(if options.has(Options::STACK) {
        format!("backtrace enabled, {} levels at most", count(u64::from(summary.depth_limit)))
    } else {
        "backtrace disabled".to_owned()
    });
    lines.push(if options.has(Options::HISTORY) {
        let room = counted(summary.history_capacity, "record", "records");
        format!("history enabled, {room} max, {} held", count(summary.history_entries))
    } else {
        "history disabled".to_owned()
    });
    lines
}
