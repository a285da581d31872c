//! A session of several processes: the tree of them, their sums, and their memory together over time.

use std::io::Write;

use heapledger_analysis::{FamilySummary, Note, Seen};
use heapledger_source::{Family, MemberEnd};

use crate::{Ending, Form, Paint, Report, ReportError};

mod csv;
mod groups;
mod json;
mod look;
mod rows;
mod run;
mod text;

pub use groups::FamilyGroupsReport;
pub use look::FamilyLookReport;
pub use run::{FamilyRun, largest_holder};
pub(crate) use text::command;

/// Totals of a session.
#[derive(Debug)]
pub struct FamilyReport<'r> {
    /// What the session is called.
    pub session: &'r str,
    /// The session.
    pub family: &'r Family,
    /// What it comes to.
    pub summary: &'r FamilySummary,
    /// Whether each process has a line of its own as text; in other forms each has.
    pub all: bool,
    /// How text is emphasized.
    pub paint: Paint,
    seen: Seen,
}

impl<'r> FamilyReport<'r> {
    /// A report on `family`.
    pub fn new(session: &'r str, family: &'r Family, summary: &'r FamilySummary, paint: Paint) -> FamilyReport<'r> {
        FamilyReport { session, family, summary, all: false, paint, seen: family_seen(summary) }
    }
}

/// What was not seen of a session, as any report has it.
pub fn family_seen(summary: &FamilySummary) -> Seen {
    Seen { notes: summary.notes.iter().map(|note| Note::Family(Box::new(note.clone()))).collect() }
}

impl Report for FamilyReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => text::write(self, out)?,
            Form::Json => json::write(self, out)?,
            Form::Csv => csv::write(self, out)?,
            _ => return Err(ReportError::no_form(form)),
        }
        Ok(())
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }

    fn ending(&self) -> Ending {
        Ending { shown: self.summary.processes.len() as u64, ..Ending::default() }
    }
}

/// What a process is called: its programs, one after the other as it became them.
pub fn process_name(programs: &[String]) -> String {
    let named: Vec<&str> = programs.iter().map(|name| if name.is_empty() { "unknown" } else { name }).collect();
    if named.is_empty() { "unknown".to_owned() } else { named.join(" → ") }
}

/// How a process ended, in a word or two.
pub(crate) fn end_words(end: Option<MemberEnd>, running: bool) -> String {
    match end {
        _ if running => "running".to_owned(),
        Some(MemberEnd::Exit(status)) => format!("status {status}"),
        Some(MemberEnd::Signal(signal)) => format!("signal {signal}"),
        Some(MemberEnd::Exited) => "ended".to_owned(),
        Some(MemberEnd::Exec) => "by exec".to_owned(),
        Some(MemberEnd::Unknown) | None => "not known".to_owned(),
    }
}
