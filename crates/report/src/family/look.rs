//! A session that goes on, as `top` shows it: a line for each process that runs.

use std::io::{self, Write};

use heapledger_analysis::{FamilyLook, ProcessLook, Seen};
use serde::Serialize;

use crate::form::fit::Fit;
use crate::form::json::{HeaderLine, end, line};
use crate::form::units::{clean, count, counted, span};
use crate::{
    Cell, Column, Ending, Form, Paint, Report, ReportError, Stepwise, Table, TableForm, TableStyle, process_name,
};

/// A look at a session.
#[derive(Debug)]
pub struct FamilyLookReport<'r> {
    /// What it is called.
    pub session: &'r str,
    /// What was seen.
    pub look: &'r FamilyLook,
    /// When, in nanoseconds since 1970.
    pub at_unix_ns: u64,
    /// Rows that are shown at most; 0: all.
    pub limit: usize,
    /// What was not seen.
    pub seen: &'r Seen,
    /// How text is emphasized.
    pub paint: Paint,
}

impl FamilyLookReport<'_> {
    /// The first line: how many run, and what they hold.
    pub fn summary(&self) -> String {
        let running = self.look.rows.iter().filter(|row| row.running).count() as u64;
        let figures = self.paint.exact_figures();
        let live = figures.bytes(self.look.live_bytes);
        let state = if self.look.goes_on { "" } else { "; the session has ended" };
        let ended = count(self.look.ended);
        let run = if running == 1 { "process runs" } else { "processes run" };
        format!("{}: {} {run} with {live}, {ended} have ended{state}", clean(self.session), count(running))
    }

    /// The rows that are shown.
    pub fn rows(&self) -> &[ProcessLook] {
        let all = &self.look.rows;
        let most = if self.limit == 0 { all.len() } else { self.limit.min(all.len()) };
        all.get(..most).unwrap_or(all)
    }

    /// The table as lines, the heading first.
    pub fn lines(&self) -> Vec<String> {
        let style = TableStyle { width: self.paint.columns, paint: Paint { columns: 0, ..self.paint } };
        let mut out = Vec::new();
        // Memory takes whatever is written.
        let _ = self.table(&mut out, TableForm::Text(style));
        String::from_utf8_lossy(&out).lines().map(|line| line.trim_end().to_owned()).collect()
    }

    fn table(&self, out: &mut dyn Write, form: TableForm) -> io::Result<()> {
        let columns = vec![
            Column::number("live").key("live_bytes"),
            Column::number("growth").key("growth_bytes"),
            Column::number("blocks").key("live_blocks"),
            Column::number("calls").key("allocations"),
            Column::number("runs for").key("age_ns"),
            Column::number("pid"),
            Column::text("process").key("program"),
        ];
        let is_text = matches!(form, TableForm::Text(_));
        let mut table = Table::new(out, form, columns)?;
        for row in self.rows() {
            let age = self.at_unix_ns.checked_sub(row.began_unix_ns).filter(|_| row.began_unix_ns != 0);
            let name = process_name(std::slice::from_ref(&row.program));
            table.row(&[
                Cell::Bytes(row.live_bytes),
                Cell::Growth(row.growth_bytes),
                Cell::Count(row.live_blocks),
                Cell::Count(row.allocations),
                match age {
                    _ if !row.running && is_text => Cell::Text("ended".to_owned()),
                    Some(ns) if is_text => Cell::Text(span(ns)),
                    age => Cell::maybe(age, Cell::Span),
                },
                Cell::Plain(row.key.pid.into()),
                Cell::Text(name),
            ])?;
        }
        table.end()?.flush()
    }
}

#[derive(Serialize)]
struct LookLine {
    r#type: &'static str,
    at_unix_ns: u64,
    live_bytes: u64,
    running: usize,
    ended: u64,
    goes_on: bool,
}

impl Report for FamilyLookReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        self.step(form, 1, out)?;
        self.end(form, 1, out)
    }

    fn seen(&self) -> &Seen {
        self.seen
    }
}

impl Stepwise for FamilyLookReport<'_> {
    fn step(&mut self, form: &Form, number: u64, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => {
                let mut out = Fit::new(out, self.paint);
                writeln!(out, "{}", self.paint.strong(self.summary()))?;
                for line in self.lines() {
                    writeln!(out, "{line}")?;
                }
                let more = self.look.rows.len() - self.rows().len();
                if more != 0 {
                    writeln!(out, "{}", counted(more as u64, "more process", "more processes"))?;
                }
                writeln!(out)?;
                out.flush()?;
            }
            Form::Json => {
                if number == 1 {
                    line(out, &HeaderLine::new("top", self.session, None))?;
                }
                let FamilyLook { live_bytes, ended, goes_on, .. } = *self.look;
                let running = self.look.rows.iter().filter(|row| row.running).count();
                let at_unix_ns = self.at_unix_ns;
                line(out, &LookLine { r#type: "family_look", at_unix_ns, live_bytes, running, ended, goes_on })?;
                self.table(out, TableForm::Json("process"))?;
            }
            _ => return Err(ReportError::no_form(form)),
        }
        Ok(())
    }

    fn end(&mut self, form: &Form, _: u64, out: &mut dyn Write) -> Result<(), ReportError> {
        if *form == Form::Json {
            let shown = self.rows().len() as u64;
            end(out, Ending { shown, ..Ending::default() }, self.seen)?;
        }
        Ok(())
    }
}
