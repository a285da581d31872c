//! How the heap grew: a chart for a terminal, a picture, and figures for other programs.

use std::io::{self, Write};

use heapledger_analysis::{HeapTimeline, Identity, Sampled, Seen, SeenBy, TimelinePoint};

use crate::form::units::Paint;
use crate::{Cell, Column, Ending, Form, Report, ReportError, Table, TableForm};

mod curve;
mod family;
mod json;
pub(crate) mod sparks;
mod svg;
mod text;

pub(crate) use curve::{CurvePicture, CurvePlace};
pub use family::FamilyTimelineReport;
pub use sparks::RunSparks;

/// Figures over time.
#[derive(Clone, Copy, Debug)]
pub struct TimelineReport<'a> {
    /// What the ledger is called.
    pub ledger: &'a str,
    /// The program.
    pub identity: &'a Identity,
    /// The figures.
    pub timeline: &'a HeapTimeline,
    /// What they come from, if they are estimates.
    pub sampled: Option<Sampled>,
    /// How it is written.
    pub paint: Paint,
    /// What was not seen.
    pub seen: &'a Seen,
}

impl Report for TimelineReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => text::write(self, out)?,
            Form::Json => json::write(self, out)?,
            Form::Csv => csv(self.timeline, out)?,
            Form::Svg => svg::write(self, out)?,
            _ => return Err(ReportError::no_form(form)),
        }
        Ok(())
    }

    fn seen(&self) -> &Seen {
        self.seen
    }

    fn ending(&self) -> Ending {
        Ending { shown: self.timeline.points.len() as u64, ..Ending::default() }
    }
}

impl TimelineReport<'_> {
    /// The program, by its name if that is known.
    fn program(&self) -> &str {
        self.identity.program.as_deref().unwrap_or(self.ledger)
    }
}

/// Who looked, as programs are told.
fn seen_by(point: &TimelinePoint) -> &'static str {
    match point.seen_by {
        SeenBy::Recorder => "recorder",
        SeenBy::Run => "run",
        SeenBy::Totals => "totals",
    }
}

/// A row for each interval.
fn csv(timeline: &HeapTimeline, out: &mut dyn Write) -> io::Result<()> {
    let columns = [
        "begin_ns",
        "end_ns",
        "live_bytes",
        "live_blocks",
        "highest_bytes",
        "highest_blocks",
        "highest_ns",
        "lowest_bytes",
        "allocations",
        "frees",
        "bytes_allocated",
        "resident_bytes",
        "swapped_bytes",
        "minor_faults",
        "major_faults",
        "looks",
    ];
    let mut columns: Vec<Column> = columns.into_iter().map(Column::number).collect();
    columns.push(Column::word("seen_by"));
    columns.push(Column::number("live_error_bytes"));
    let mut table = Table::new(&mut *out, TableForm::Csv, columns)?;
    for point in &timeline.points {
        let number = |number: Option<u64>| Cell::maybe(number, Cell::Count);
        table.row(&[
            Cell::Count(point.begin_ns),
            Cell::Count(point.end_ns),
            Cell::Bytes(point.live_bytes),
            number(point.live_blocks),
            Cell::Bytes(point.highest_bytes),
            number(point.highest_blocks),
            Cell::Count(point.highest_ns),
            Cell::Bytes(point.lowest_bytes),
            number(point.allocations),
            number(point.frees),
            number(point.bytes_allocated),
            number(point.resident_bytes),
            number(point.swapped_bytes),
            number(point.minor_faults),
            number(point.major_faults),
            Cell::Count(u64::from(point.looks)),
            Cell::Text(seen_by(point).to_owned()),
            Cell::Bytes(point.live_error_bytes),
        ])?;
    }
    table.end()?;
    out.flush()
}
