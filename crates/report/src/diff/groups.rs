//! Groups of two ledgers compared: what they are called, and a table.

use std::io::{self, Write};

use heapledger_analysis::diff::{GroupChange, plain_name};
use heapledger_analysis::fields::Field;
use heapledger_analysis::{GroupKey, Groups, Sampled, Seen};
use serde::Serialize;

use crate::diff::text::sampled_in_all;
use crate::form::fit::Fit;
use crate::form::json::{HeaderLine, end, line};
use crate::form::notes;
use crate::form::units::{clean, counted, growth_counted, moment, span};
use crate::record::columns::{group_cell, group_column};
use crate::{
    Cell, Column, Context, DiffSide, Ending, Form, Paint, Report, ReportError, Stepwise, Table, TableForm, TableStyle,
};

/// What a key is called, so that it means the same in both ledgers: within one run rows of tables do, across runs
/// names.
pub fn group_label(key: &GroupKey, context: &Context, one_run: bool) -> String {
    if let GroupKey::Function { name: Some(name), .. } = key {
        return plain_name(name).to_owned();
    }
    match group_cell(key, context) {
        Cell::Named(row, name) if one_run => format!("{row} {name}").trim_end().to_owned(),
        Cell::Named(_, name) if name.is_empty() => "(without a name)".to_owned(),
        Cell::Named(_, name) | Cell::Text(name) => name,
        Cell::Bytes(number) | Cell::Plain(number) | Cell::Count(number) => number.to_string(),
        _ => "-".to_owned(),
    }
}

/// A comparison of groups.
pub struct DiffGroups<'d> {
    /// All groups of the first ledger and of the second.
    pub groups: [&'d Groups; 2],
    /// The ledgers.
    pub sides: [DiffSide<'d>; 2],
    /// Whether they are of one run.
    pub one_run: bool,
    /// What was added up by.
    pub by: &'d [Field],
    /// The changes that are shown.
    pub shown: &'d [&'d GroupChange],
    /// How many there are in all.
    pub all: u64,
    /// What could not be seen.
    pub seen: &'d Seen,
    /// How text is emphasized, and how wide tables may be.
    pub paint: Paint,
}

/// For people with the totals above, as CSV the table alone, as JSON with a line of type `change` for each group.
impl Report for DiffGroups<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        if *form == Form::Json {
            header(out, self)?;
        }
        whole(self, form, out)
    }

    fn seen(&self) -> &Seen {
        self.seen
    }
}

/// Of several, each is an interval: as text a line and a table, as CSV rows of one table for all.
impl Stepwise for DiffGroups<'_> {
    fn step(&mut self, form: &Form, number: u64, out: &mut dyn Write) -> Result<(), ReportError> {
        match change_table(form, self)? {
            TableForm::Text(style) => interval(self, style, out)?,
            TableForm::Csv => interval_rows(self, number, out)?,
            TableForm::Json(name) => {
                if number == 1 {
                    header(out, self)?;
                }
                totals(out, self, "interval")?;
                table(out, TableForm::Json(name), self)?;
            }
        }
        Ok(out.flush()?)
    }

    fn end(&mut self, form: &Form, _: u64, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            // The intervals are the table: one more row for all of them would count twice in any sum.
            Form::Csv => return Ok(()),
            Form::Text => writeln!(out, "In all:")?,
            _ => {}
        }
        whole(self, form, out)
    }
}

impl DiffGroups<'_> {
    fn estimated(&self) -> Option<Sampled> {
        sampled_in_all(self.groups.map(|groups| groups.sampled))
    }

    fn growth(&self) -> i64 {
        let [a, b] = self.groups.map(|groups| i128::from(groups.total_bytes));
        (b - a).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    fn growth_blocks(&self) -> i64 {
        let [a, b] = self.groups.map(|groups| i64::try_from(groups.total_blocks).unwrap_or(i64::MAX));
        b.saturating_sub(a)
    }
}

/// Writes it all, but for the first line of JSON.
fn whole(report: &DiffGroups<'_>, form: &Form, mut out: &mut dyn Write) -> Result<(), ReportError> {
    let form = change_table(form, report)?;
    let estimated = report.estimated();
    let left_out = report.all.saturating_sub(report.shown.len() as u64);
    match form {
        TableForm::Text(style) => {
            let mut out = Fit::new(out, style.paint);
            let lines = |text: &str| style.paint.lines(text, 12, 12);
            let figures = style.paint.figures(estimated.is_some());
            let field = |name: &str| style.paint.strong(format!("{name:<10}:"));
            if let Some(from) = estimated {
                writeln!(out, "{} {}", field("Sampled"), lines(&figures.sampled(from, "of live blocks")))?;
            }
            if let Some(filter) = &report.groups[1].filter {
                writeln!(out, "{} {}", field("Only"), lines(&clean(filter)))?;
            }
            for (name, groups, side) in
                [("A", report.groups[0], report.sides[0]), ("B", report.groups[1], report.sides[1])]
            {
                let used = figures.bytes_with_error(groups.total_bytes, groups.total_bytes_error);
                let blocks = figures.counted(groups.total_blocks, "block", "blocks");
                let text = format!("{}, {used} in {blocks}", clean(side.ledger));
                writeln!(out, "{} {}", field(name), lines(&text))?;
            }
            writeln!(out, "{} {}\n", field("Growth"), figures.growth_exact(report.growth()))?;
            if report.all == 0 {
                writeln!(out, "No group holds more or less than before.")?;
            }
            table(&mut out, form, report)?;
            if left_out > 0 {
                writeln!(out, "… and {} (--limit 0 shows all)", counted(left_out, "more group", "more groups"))?;
            }
            notes::write(&mut out, report.seen, style.paint)?;
            out.flush()?;
        }
        TableForm::Csv => {
            table(&mut out, form, report)?;
            out.flush()?;
        }
        TableForm::Json(_) => {
            totals(&mut out, report, "diff")?;
            table(&mut out, form, report)?;
            let in_flight = report.groups.iter().map(|groups| groups.in_flight).sum();
            end(&mut out, Ending { shown: report.shown.len() as u64, left_out, in_flight }, report.seen)?;
        }
    }
    Ok(())
}

/// The form of the table of changes.
fn change_table(form: &Form, report: &DiffGroups<'_>) -> Result<TableForm, ReportError> {
    TableForm::of(form, "change", report.paint)
}

/// Writes the first line of JSON, of this comparison or of several.
fn header(out: &mut dyn Write, report: &DiffGroups<'_>) -> io::Result<()> {
    #[derive(Serialize)]
    struct GroupsCompared<'a> {
        before: &'a str,
        r#where: Option<&'a str>,
        group_by: Vec<&'static str>,
    }
    let [a, b] = report.sides;
    let more = GroupsCompared {
        before: a.ledger,
        r#where: report.groups[1].filter.as_deref(),
        group_by: report.by.iter().map(|by| by.name()).collect(),
    };
    line(out, &HeaderLine::new("diff", b.ledger, report.estimated()).with(more))
}

/// The line of totals.
fn totals(out: &mut dyn Write, report: &DiffGroups<'_>, name: &'static str) -> io::Result<()> {
    #[derive(Serialize)]
    struct SideTotals {
        blocks: u64,
        bytes: u64,
        bytes_error: u64,
        unix_ns: Option<u64>,
    }
    #[derive(Serialize)]
    struct Totals {
        r#type: &'static str,
        one_run: bool,
        before: SideTotals,
        after: SideTotals,
        growth_blocks: i64,
        growth_bytes: i64,
    }
    let [before, after] = [0, 1].map(|side: usize| SideTotals {
        blocks: report.groups[side].total_blocks,
        bytes: report.groups[side].total_bytes,
        bytes_error: report.groups[side].total_bytes_error,
        unix_ns: report.sides[side].unix_ns,
    });
    let (growth_blocks, growth_bytes) = (report.growth_blocks(), report.growth());
    line(out, &Totals { r#type: name, one_run: report.one_run, before, after, growth_blocks, growth_bytes })
}

/// Writes one of several intervals as text.
fn interval(report: &DiffGroups<'_>, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
    let estimated = report.estimated().is_some();
    let figures = style.paint.figures(estimated);
    let [from, to] = report.sides.map(|side| side.unix_ns);
    let length = span(from.zip(to).map_or(0, |(from, to)| to.saturating_sub(from)));
    let when = to.map(moment).unwrap_or_default();
    let blocks = growth_counted(report.growth_blocks(), "block", "blocks");
    let mark = if estimated { "~" } else { "" };
    let heading = format!("{when}  {}, {mark}{blocks} in {length}", figures.growth(report.growth()));
    writeln!(out, "{}", style.paint.strong(heading))?;
    table(out, TableForm::Text(style), report)?;
    let left_out = report.all.saturating_sub(report.shown.len() as u64);
    if left_out > 0 {
        writeln!(out, "… and {} (--limit 0 shows all)", counted(left_out, "more group", "more groups"))?;
    }
    writeln!(out)
}

/// Writes the rows of an interval, which has this number, with the first one the head of the table.
fn interval_rows(report: &DiffGroups<'_>, number: u64, out: &mut dyn Write) -> io::Result<()> {
    let estimated = report.estimated().is_some();
    let mut all = vec![Column::number("interval"), Column::number("unix_ns")];
    all.extend(columns(report, estimated));
    let mut table =
        if number == 1 { Table::new(out, TableForm::Csv, all)? } else { Table::continued(out, TableForm::Csv, all) };
    for change in report.shown {
        let mut row = vec![Cell::Plain(number), Cell::maybe(report.sides[1].unix_ns, Cell::Plain)];
        row.extend(cells(change, estimated));
        table.row(&row)?;
    }
    table.end().map(drop)
}

fn columns(report: &DiffGroups<'_>, estimated: bool) -> Vec<Column> {
    let figure = |name: &str, key: &str| Column::number(name).key(key).estimated(estimated);
    let mut columns = vec![
        figure("growth", "growth_bytes"),
        figure("blocks", "growth_blocks"),
        figure("now", "after_bytes"),
        figure("blocks", "after_blocks"),
        figure("before", "before_bytes"),
        figure("blocks", "before_blocks"),
    ];
    if estimated {
        columns.insert(1, Column::number("± error").key("growth_bytes_error"));
    }
    columns.extend(report.by.iter().map(|by| group_column(*by)));
    columns
}

fn cells(change: &GroupChange, estimated: bool) -> Vec<Cell> {
    let mut cells = vec![
        Cell::Growth(change.bytes()),
        Cell::GrowthCount(change.blocks()),
        Cell::Bytes(change.after[1]),
        Cell::Count(change.after[0]),
        Cell::Bytes(change.before[1]),
        Cell::Count(change.before[0]),
    ];
    if estimated {
        cells.insert(1, Cell::Bytes(change.bytes_error));
    }
    cells.extend(change.labels.iter().map(|label| Cell::Text(label.clone())));
    cells
}

fn table(out: &mut dyn Write, form: TableForm, report: &DiffGroups<'_>) -> io::Result<()> {
    let estimated = report.estimated().is_some();
    let mut table = Table::new(out, form, columns(report, estimated))?;
    for change in report.shown {
        table.row(&cells(change, estimated))?;
    }
    table.end().map(drop)
}
