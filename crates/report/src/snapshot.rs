//! What a snapshot was taken of.

use std::io::{self, Write};

use heapledger_analysis::{Note, Seen};
use heapledger_source::Taken;
use serde::Serialize;

use crate::form::json::{HeaderLine, end, line};
use crate::form::units::{Paint, clean, count, counted, span};
use crate::{Ending, Form, Report, ReportError};

/// A snapshot that was taken.
#[derive(Clone, Debug)]
pub struct SnapshotReport<'a> {
    /// What was asked for: a process or a file.
    pub ledger: &'a str,
    /// The snapshot.
    pub path: &'a str,
    /// Where it should have been, if another file was there.
    pub instead_of: Option<&'a str>,
    /// The program.
    pub program: &'a str,
    /// Its number.
    pub pid: Option<u32>,
    /// Whether it has ended.
    pub ended: bool,
    /// The moment.
    pub taken: Taken,
    /// Records in it.
    pub records: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// [What was not seen](SnapshotReport::seen_of).
    pub seen: Seen,
    /// Whether bytes have units.
    pub paint: Paint,
}

impl SnapshotReport<'_> {
    /// What a snapshot has not: blocks that were being entered.
    pub fn seen_of(taken: &Taken) -> Seen {
        let in_flight = Some(taken.in_flight).filter(|blocks| *blocks != 0);
        Seen { notes: in_flight.map(Note::InFlight).into_iter().collect() }
    }
}

impl Report for SnapshotReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => text(self, out)?,
            Form::Json => json(self, out)?,
            _ => return Err(ReportError::no_form(form)),
        }
        Ok(())
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }

    fn ending(&self) -> Ending {
        Ending { shown: self.records, left_out: 0, in_flight: self.taken.in_flight }
    }
}

/// One line, and another one if the file has not the name that was asked for.
fn text(report: &SnapshotReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let paint = report.paint;
    if let Some(wanted) = report.instead_of {
        writeln!(out, "{}", paint.lines(&format!("{} was there already", clean(wanted)), 0, 2))?;
    }
    let who = report.pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
    let records = counted(report.records, "record", "records");
    let size = paint.exact_figures().bytes(report.bytes);
    let mut text = format!("{}{who} -> {} ({size}): {records}", clean(report.program), clean(report.path));
    match report.taken.held_ns {
        Some(ns) => text.push_str(&format!("; it was held for {}", span(ns))),
        None if report.ended => text.push_str("; it has ended"),
        None => {}
    }
    if report.taken.in_flight != 0 || (report.taken.held_ns.is_none() && !report.ended) {
        text.push_str(&format!(", {} in flight", count(report.taken.in_flight)));
    }
    writeln!(out, "{}", paint.lines(&text, 0, 2))?;
    out.flush()
}

/// The same as JSON.
fn json(report: &SnapshotReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct SnapshotLine<'a> {
        r#type: &'static str,
        path: &'a str,
        program: &'a str,
        pid: Option<u32>,
        unix_ns: u64,
        held_ns: Option<u64>,
        records: u64,
        file_bytes: u64,
    }
    line(out, &HeaderLine::new("snapshot", report.ledger, None))?;
    let object = SnapshotLine {
        r#type: "snapshot",
        path: report.path,
        program: report.program,
        pid: report.pid,
        unix_ns: report.taken.unix_ns,
        held_ns: report.taken.held_ns,
        records: report.records,
        file_bytes: report.bytes,
    };
    line(out, &object)?;
    end(out, report.ending(), &report.seen)
}
