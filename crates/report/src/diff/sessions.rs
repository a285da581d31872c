//! Two sessions, compared by program.

use std::io::{self, Write};

use heapledger_analysis::{ProgramChange, ProgramTotals, Seen};

use crate::form::fit::Fit;
use crate::form::json::{HeaderLine, end};
use crate::form::notes;
use crate::form::units::{clean, count, counted};
use crate::{Cell, Column, Ending, Form, Paint, Report, ReportError, Table, TableForm, TableStyle, process_name};

/// Two sessions, compared.
#[derive(Debug)]
pub struct FamilyDiff<'r> {
    /// What they are called, the earlier one first.
    pub sessions: [&'r str; 2],
    /// The programs, most change first.
    pub changes: &'r [ProgramChange],
    /// How many are shown at most; 0: all.
    pub limit: usize,
    /// Whether figures are estimates.
    pub estimated: bool,
    /// What was not seen of both.
    pub seen: &'r Seen,
    /// How text is emphasized.
    pub paint: Paint,
}

impl Report for FamilyDiff<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => self.text(out)?,
            Form::Json => {
                let [before, after] = self.sessions;
                crate::form::json::line(out, &HeaderLine::new("diff", after, None).with(Before { before }))?;
                self.table(out, TableForm::Json("program"))?;
                end(out, self.ending(), self.seen)?;
            }
            Form::Csv => self.table(out, TableForm::Csv)?,
            _ => return Err(ReportError::no_form(form)),
        }
        Ok(())
    }

    fn seen(&self) -> &Seen {
        self.seen
    }

    fn ending(&self) -> Ending {
        let shown = self.shown().len() as u64;
        Ending { shown, left_out: self.changes.len() as u64 - shown, in_flight: 0 }
    }
}

#[derive(serde::Serialize)]
struct Before<'a> {
    before: &'a str,
}

/// By how much a figure is more than it was.
fn growth(change: &ProgramChange, get: fn(&ProgramTotals) -> u64) -> i64 {
    let growth = i128::from(get(&change.after)) - i128::from(get(&change.before));
    i64::try_from(growth).unwrap_or(if growth < 0 { i64::MIN } else { i64::MAX })
}

impl FamilyDiff<'_> {
    fn shown(&self) -> &[ProgramChange] {
        let most = if self.limit == 0 { self.changes.len() } else { self.limit.min(self.changes.len()) };
        self.changes.get(..most).unwrap_or(self.changes)
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let paint = self.paint;
        let mut out = Fit::new(out, paint);
        let [before, after] = self.sessions;
        writeln!(
            out,
            "{} {} {}: by program",
            paint.strong(clean(before)),
            paint.signs().arrow,
            paint.strong(clean(after))
        )?;
        let sum = |get: fn(&ProgramTotals) -> u64| {
            let add = |side: fn(&ProgramChange) -> &ProgramTotals| {
                self.changes.iter().map(|change| get(side(change))).fold(0, u64::saturating_add)
            };
            [add(|change| &change.before), add(|change| &change.after)]
        };
        let figures = paint.figures(self.estimated);
        let live = sum(|totals| totals.live_bytes);
        let processes = sum(|totals| totals.processes);
        let [live_before, live_after] = live.map(|bytes| figures.bytes(bytes));
        let before = counted(processes[0], "process", "processes");
        let (after, hold) = (count(processes[1]), if processes[1] == 1 { "holds" } else { "hold" });
        let text = format!(
            "{before} held {live_before} at their ends, {after} now {hold} {live_after}: {}",
            figures.growth(live[1].cast_signed().wrapping_sub(live[0].cast_signed()))
        );
        writeln!(out, "{}\n", paint.lines(&text, 0, 2))?;
        self.table(&mut out, TableForm::Text(TableStyle { width: paint.columns, paint }))?;
        let Ending { left_out, .. } = self.ending();
        if left_out != 0 {
            writeln!(out, "{} more (--limit 0 shows all)", counted(left_out, "program", "programs"))?;
        }
        notes::write(&mut out, self.seen, paint)?;
        out.flush()
    }

    fn table(&self, out: &mut dyn Write, form: TableForm) -> io::Result<()> {
        let estimated = |column: Column| column.estimated(self.estimated);
        let columns = vec![
            Column::text("program"),
            Column::number("before").key("processes_before"),
            Column::number("now").key("processes"),
            estimated(Column::number("at end").key("live_bytes")),
            estimated(Column::number("growth").key("live_bytes_growth")),
            estimated(Column::number("peak of one").key("peak_bytes")),
            estimated(Column::number("growth").key("peak_bytes_growth")),
            estimated(Column::number("allocated").key("bytes_allocated")),
            estimated(Column::number("growth").key("bytes_allocated_growth")),
            Column::number("errors").key("errors_growth"),
        ];
        let mut table = Table::new(out, form, columns)?;
        for change in self.shown() {
            table.row(&[
                Cell::Text(process_name(&change.programs)),
                Cell::Count(change.before.processes),
                Cell::Count(change.after.processes),
                Cell::Bytes(change.after.live_bytes),
                Cell::Growth(growth(change, |totals| totals.live_bytes)),
                Cell::Bytes(change.after.peak_bytes),
                Cell::Growth(growth(change, |totals| totals.peak_bytes)),
                Cell::Bytes(change.after.bytes_allocated),
                Cell::Growth(growth(change, |totals| totals.bytes_allocated)),
                Cell::GrowthCount(growth(change, |totals| totals.errors)),
            ])?;
        }
        table.end()?.flush()
    }
}
