//! Live blocks, added up: as text, CSV or JSON.

use std::io::{self, Write};

use heapledger_analysis::fields::{Field, Unit};
use heapledger_analysis::tree::Measure;
use heapledger_analysis::{Group, GroupKey, Groups, NamedFrame, NamedStack, Seen};
use heapledger_format::{ThreadRow, Ticks};
use serde::Serialize;
use serde::ser::SerializeMap;

use crate::dump::text::{sampled, sentence_line};
use crate::form::fit::Fit;
use crate::form::json::{HeaderLine, end, frames as frames_json, line, thread};
use crate::form::notes::{self, missing_events};
use crate::form::units::{counted, percent, plain_bytes, span};
use crate::history::HistoryGaps;
use crate::history::text::caution;
use crate::lifetimes;
use crate::record::columns::{folded, group_cell, group_column};
use crate::record::frames;
use crate::tree::text::{measure_name, other_peak};
use crate::{Cell, Column, Context, Ending, Form, Report, ReportError, Table, TableForm, TableStyle};

/// Blocks or events, added up.
#[derive(Debug)]
pub struct GroupsReport<'r> {
    /// Of what ledger.
    pub context: &'r Context,
    /// The groups.
    pub groups: &'r Groups,
    /// The stacks of their sites, if the form shows any.
    pub stacks: &'r [NamedStack],
    /// What was not seen.
    pub seen: &'r Seen,
}

impl Report for GroupsReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => text(self, out)?,
            Form::Json => json(self, out)?,
            Form::Csv => csv(self, out)?,
            _ => return Err(ReportError::no_form(form)),
        }
        Ok(())
    }

    fn seen(&self) -> &Seen {
        self.seen
    }

    fn gap(&self) -> Option<String> {
        self.groups.history.as_ref().filter(|found| found.frees_missing != 0).map(missing_events)
    }
}

/// Which part of `groups` a group is: in bytes, or in blocks where these are what is asked for.
fn share(groups: &Groups, group: &Group) -> f64 {
    let [part, whole] = match groups.measure {
        Some(measure) if !measure.is_bytes() => [group.blocks, groups.total_blocks],
        _ => [group.bytes, groups.total_bytes],
    };
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// What blocks are that are not the live ones: ` at the peak`.
fn of_measure(groups: &Groups) -> &'static str {
    match groups.measure {
        None | Some(Measure::LiveBytes | Measure::LiveBlocks) => "",
        Some(Measure::AllocatedBytes | Measure::AllocatedBlocks) => " allocated in all",
        Some(Measure::FreedBytes | Measure::FreedBlocks) => " freed in all",
        Some(Measure::PeakBytes | Measure::PeakBlocks) => " at the peak",
        Some(Measure::TemporaryBytes | Measure::TemporaryBlocks) => " freed at once",
    }
}

/// Writes groups as text. Stacks, if that is what blocks are grouped by, are written below their figures. Anything else is a table.
fn text(report: &GroupsReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let GroupsReport { context, groups, stacks, seen } = *report;
    let style = TableStyle { width: context.paint.columns, paint: context.paint };
    let mut out = Fit::new(out, context.paint);
    if let Some(found) = &groups.history {
        caution(&mut out, context, found)?;
    } else if let Some(from) = groups.sampled {
        sampled(&mut out, context.paint, from, "of live blocks")?;
    }
    let figures = context.paint.figures(groups.sampled.is_some());
    if groups.by.contains(&Field::Stack) {
        for (group, stack) in groups.groups.iter().zip(stacks) {
            heading(&mut out, context, groups, group)?;
            frames::stack(&mut out, stack, context.paint)?;
            writeln!(out)?;
        }
    } else {
        let mut table = Table::new(&mut out, TableForm::Text(style), columns(groups, figures.estimated))?;
        for group in &groups.groups {
            table.row(&cells(context, groups, group, false))?;
        }
        table.end()?;
        if !groups.groups.is_empty() {
            writeln!(out)?;
        }
    }
    let total = match groups.measure {
        // Nobody knows how far sums are off that the recorder has made of samples.
        Some(_) => figures.within_exact(groups.total_bytes, groups.peak_error.unwrap_or(0)) + of_measure(groups),
        None => figures.bytes_with_error(groups.total_bytes, groups.total_bytes_error),
    };
    let (all, left_out) = (counted(groups.total, "group", "groups"), groups.left_out());
    let (one, many) = of_what(groups);
    let blocks = figures.counted(groups.total_blocks, one, many);
    if groups.total == 0 {
        let block = if figures.estimated { "No sampled block" } else { "No block" };
        let block = if groups.history.is_some() { "No event" } else { block };
        let chosen = if groups.filter.is_some() { " of those asked for" } else { "" };
        match groups.measure {
            Some(_) => writeln!(out, "There is no block{}.", of_measure(groups))?,
            None => {
                let is = if groups.history.is_some() { "recorded" } else { "allocated" };
                writeln!(out, "{block}{chosen} is {is}.")?;
            }
        }
    } else if left_out == 0 {
        sentence_line(&mut out, context.paint, &format!("{all}: {blocks}, {total}."))?;
    } else {
        let part = percent(groups.groups.iter().map(|group| share(groups, group)).sum());
        let number = groups.groups.len();
        let text = format!("{number} of {all}, with {part} of {blocks}, {total} (--top 0 shows all).");
        sentence_line(&mut out, context.paint, &text)?;
    }
    // The sum is one of bytes where blocks are what is asked for, too.
    if let Some(other) = other_peak(figures, groups.peak_highest, groups.total_bytes) {
        sentence_line(&mut out, context.paint, &format!("{other}."))?;
    }
    if groups.lifetimes && groups.total != 0 {
        sentence_line(&mut out, context.paint, lifetimes::EXPLAINED)?;
    }
    notes::write(&mut out, seen, context.paint)?;
    out.flush()
}

/// What is added up, one of it and several.
fn of_what(groups: &Groups) -> (&'static str, &'static str) {
    if groups.history.is_some() { ("event", "events") } else { ("block", "blocks") }
}

/// `1.24 MiB (12.3%) in 1,234 blocks of thread 3 worker-3, largest 4.00 KiB, oldest 12.1 s, stack 17`.
fn heading(out: &mut dyn Write, context: &Context, groups: &Groups, group: &Group) -> io::Result<()> {
    let figures = context.paint.figures(groups.sampled.is_some());
    let largest = group.largest.map(|size| figures.known().bytes(size));
    let largest = largest.map_or_else(String::new, |size| format!(", largest {size}"));
    let oldest = group.oldest.and_then(|ticks| context.clock.age_ns(ticks));
    let oldest = oldest.map_or_else(String::new, |age| format!(", oldest {}", span(age)));
    let mut of = String::new();
    for (by, key) in groups.by.iter().zip(&group.keys).filter(|(by, _)| !by.group_told().is_empty()) {
        let cell = match group_cell(key, context) {
            Cell::Named(row, name) => format!("{row} {}", crate::clean(&name)).trim_end().to_owned(),
            Cell::Text(text) => crate::clean(&text).into_owned(),
            Cell::Bytes(size) => plain_bytes(size),
            Cell::Plain(number) | Cell::Count(number) => number.to_string(),
            _ => "unknown".to_owned(),
        };
        of.push_str(&format!(" {} {cell}", by.group_told()));
    }
    let event = group.keys.iter().find_map(|key| match key {
        GroupKey::Figure(Field::Event, Some(0)) => Some(("allocation", "allocations")),
        GroupKey::Figure(Field::Event, _) => Some(("free", "frees")),
        _ => None,
    });
    let (one, many) = event.unwrap_or_else(|| of_what(groups));
    let blocks = figures.counted(group.blocks, one, many);
    let bytes = figures.bytes(group.bytes);
    let part = percent(share(groups, group));
    let text = format!(" ({part}) in {blocks}{of}{largest}{oldest}, stack {}", group.site.0);
    let text = context.paint.lines(&text, bytes.len(), 2);
    writeln!(out, "{}{text}", context.paint.strong(bytes))
}

/// The column with the largest block, which says nothing new where all are of one size; sums tell of single blocks neither that nor what
/// comes behind it.
const LARGEST: usize = 3;

fn columns(groups: &Groups, estimated: bool) -> Vec<Column> {
    let mut columns = vec![
        Column::number("bytes").estimated(estimated),
        Column::number("share"),
        Column::number(of_what(groups).1).estimated(estimated),
        Column::number("largest"),
        Column::number("oldest").key("oldest_age_ns"),
    ];
    if groups.by.contains(&Field::Size) {
        columns.remove(LARGEST);
    }
    if groups.measure.is_some() {
        columns.truncate(LARGEST);
    }
    if groups.lifetimes {
        columns = lifetimes::columns();
    }
    columns.extend(groups.by.iter().map(|by| group_column(*by)));
    columns
}

/// What stands in a row. `counted`: blocks of a lifetime in numbers.
fn cells(context: &Context, groups: &Groups, group: &Group, counted: bool) -> Vec<Cell> {
    let oldest = group.oldest.and_then(|ticks| context.clock.age_ns(ticks));
    let mut cells = vec![
        Cell::Bytes(group.bytes),
        Cell::Share(share(groups, group)),
        Cell::Count(group.blocks),
        Cell::maybe(group.largest, Cell::Bytes),
        Cell::maybe(oldest, Cell::Span),
    ];
    if groups.by.contains(&Field::Size) {
        cells.remove(LARGEST);
    }
    if groups.measure.is_some() {
        cells.truncate(LARGEST);
    }
    if groups.lifetimes {
        cells = lifetimes::cells(group, counted);
    }
    cells.extend(group.keys.iter().map(|key| group_cell(key, context)));
    cells
}

/// Writes groups as CSV, one line each. Grouped by stack, the functions of the stack stand in one more column.
fn csv(report: &GroupsReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let GroupsReport { groups, stacks, .. } = *report;
    let context = &report.context.whole_names();
    let by_stack = groups.by.contains(&Field::Stack);
    let mut columns = columns(groups, false);
    if by_stack {
        columns.push(Column::text("functions"));
    }
    let mut table = Table::new(&mut *out, TableForm::Csv, columns)?;
    for (index, group) in groups.groups.iter().enumerate() {
        let mut cells = cells(context, groups, group, true);
        if by_stack {
            cells.push(Cell::Text(stacks.get(index).map(|stack| folded(stack, context.paint)).unwrap_or_default()));
        }
        table.row(&cells)?;
    }
    table.end()?;
    out.flush()
}

/// What the blocks of a group have in common.
struct Keys<'g>(&'g Groups, &'g Group, &'g Context);

impl Serialize for Keys<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Keys(groups, group, context) = *self;
        let mut map = serializer.serialize_map(Some(group.keys.len()))?;
        for (by, key) in groups.by.iter().zip(&group.keys) {
            match key {
                GroupKey::Function { name, module } => {
                    map.serialize_entry(by.name(), &name.as_deref())?;
                    if name.is_none() && !groups.by.contains(&Field::Module) {
                        map.serialize_entry("module", &module.as_deref())?;
                    }
                }
                GroupKey::File(text) | GroupKey::Module(text) => map.serialize_entry(by.name(), &text.as_deref())?,
                GroupKey::Stack(site) => map.serialize_entry(by.name(), &site.0)?,
                GroupKey::Figure(field, row) if field.unit() == Unit::Thread => {
                    let row = row.and_then(|row| u32::try_from(row).ok());
                    map.serialize_entry(by.name(), &thread(context, row.map(ThreadRow)))?;
                }
                GroupKey::Told(_, text) => map.serialize_entry(by.name(), &text.as_deref())?,
                GroupKey::Figure(..) => map.serialize_entry(by.name(), &group_cell(key, context))?,
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
struct GroupLine<'g> {
    r#type: &'static str,
    keys: Keys<'g>,
    bytes: u64,
    share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_error: Option<u64>,
    largest: Option<u64>,
    oldest_time_ns: Option<u64>,
    oldest_age_ns: Option<u64>,
    youngest_age_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lived: Option<lifetimes::LivedJson>,
    site: u32,
    #[serde(serialize_with = "frames_json")]
    frames: &'g [NamedFrame],
}

#[derive(Serialize)]
struct GroupsAsked<'g> {
    #[serde(flatten)]
    history: Option<HistoryGaps<'g>>,
    r#where: Option<&'g str>,
    group_by: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    groups: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_error: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_error_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats_peak_bytes: Option<u64>,
    #[serde(flatten)]
    lifetimes: Option<lifetimes::ClassesJson>,
}

/// Writes groups as JSON, one object each.
fn json(report: &GroupsReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let GroupsReport { context, groups, stacks, seen } = *report;
    let has_errors = groups.sampled.is_some() && groups.measure.is_none();
    let of_events = groups.history.is_some();
    let command = if of_events { "history" } else { "dump" };
    let more = GroupsAsked {
        history: groups.history.as_ref().map(HistoryGaps::of),
        r#where: groups.filter.as_deref(),
        group_by: groups.by.iter().map(|by| by.name()).collect(),
        by: groups.measure.map(|measure| measure_name(measure).replace(' ', "_")),
        groups: groups.total,
        blocks: (!of_events).then_some(groups.total_blocks),
        events: of_events.then_some(groups.total_blocks),
        bytes: groups.total_bytes,
        bytes_error: has_errors.then_some(groups.total_bytes_error),
        peak_error_bytes: groups.peak_error,
        stats_peak_bytes: groups.peak_highest,
        lifetimes: groups.lifetimes.then(lifetimes::classes_json),
    };
    line(out, &HeaderLine::new(command, &context.ledger, groups.sampled).with(more))?;
    let ns = |time: Option<Ticks>| time.and_then(|time| context.clock.ns(time));
    let age = |time: Option<Ticks>| time.and_then(|time| context.clock.age_ns(time));
    for (group, stack) in groups.groups.iter().zip(stacks) {
        let object = GroupLine {
            r#type: "group",
            keys: Keys(groups, group, context),
            bytes: group.bytes,
            share: (share(groups, group) * 1e6).round() / 1e6,
            blocks: (!of_events).then_some(group.blocks),
            events: of_events.then_some(group.blocks),
            samples: has_errors.then_some(group.samples),
            bytes_error: has_errors.then_some(group.bytes_error),
            largest: group.largest,
            oldest_time_ns: ns(group.oldest),
            oldest_age_ns: age(group.oldest),
            youngest_age_ns: age(group.youngest),
            lived: lifetimes::json(group),
            site: group.site.0,
            frames: &stack.frames,
        };
        line(out, &object)?;
    }
    let shown = groups.groups.len() as u64;
    end(out, Ending { shown, left_out: groups.left_out(), in_flight: groups.in_flight }, seen)
}
