//! What a report is: one value, and the forms in which it can be written.

use std::fmt;
use std::io::{self, Write};

use heapledger_analysis::{NamedStack, Names, Note, Seen};
use heapledger_format::Site;
use heapledger_source::SourceError;

use crate::{Ending, Format, count, sentence};

/// In which form a report is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// One object a line, as `docs/json.md` describes.
    Json,
    /// A table, as RFC 4180 has it.
    Csv,
    /// As `ecosmdd` writes it.
    Ecos,
    /// A line for each record, as somebody wants it.
    Lines {
        /// What stands in the line.
        template: Format,
        /// Whether a history that is not complete begins with a caution, as `ecosmdd`'s does. For other programs it
        /// would be a record that is none.
        cautioned: bool,
    },
    /// A page to explore.
    Html,
    /// A picture.
    Svg,
    /// Stacks, a line each.
    Folded,
    /// JUnit's XML.
    Junit,
    /// SARIF 2.1.0.
    Sarif,
    /// Annotations of GitHub's actions.
    Github,
}

impl Form {
    /// What it is called, and what that means.
    pub fn words(&self) -> (&'static str, &'static str) {
        match self {
            Form::Text => ("text", "for people"),
            Form::Json => ("json", "one JSON object a line, as described in docs/json.md"),
            Form::Csv => ("csv", "a table with plain numbers: bytes and nanoseconds"),
            Form::Ecos => ("ecos", "as ecosmdd writes it"),
            Form::Lines { .. } => ("lines", "a line for each record"),
            Form::Html => ("html", "an interactive page"),
            Form::Svg => ("svg", "a picture"),
            Form::Folded => ("folded", "stacks, one a line, for other tools"),
            Form::Junit => ("junit", "JUnit's XML"),
            Form::Sarif => ("sarif", "SARIF 2.1.0"),
            Form::Github => ("github", "annotations of GitHub Actions"),
        }
    }

    /// Whether it is for programs, which want everything.
    pub fn is_for_programs(&self) -> bool {
        *self != Form::Text
    }

    /// Whether it shows records as `ecosmdd` does or as somebody wants them, and nothing else.
    pub fn is_of_records(&self) -> bool {
        matches!(self, Form::Ecos | Form::Lines { .. })
    }

    /// Whether it says itself what is missing. Where it does not, that is said [beside it](Report::beside).
    pub fn says_what_is_missing(&self) -> bool {
        !matches!(self, Form::Csv | Form::Ecos | Form::Lines { .. })
    }

    /// Whether functions and lines of blocks must be looked up for it.
    pub fn needs_names(&self) -> bool {
        if let Form::Lines { template, .. } = self { template.needs_names() } else { true }
    }

    /// Whether it shows anything of the stacks of blocks.
    pub(crate) fn needs_stack(&self) -> bool {
        if let Form::Lines { template, .. } = self { template.needs_stack() } else { true }
    }

    /// Whether source files must be read for it.
    pub fn needs_source_text(&self) -> bool {
        if let Form::Lines { template, .. } = self { template.needs_source_text() } else { true }
    }
}

/// Whoever gives stacks with their names, by the number of their call site.
pub trait Stacks {
    /// The stack of a call site.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    fn stack(&mut self, site: Site) -> Result<NamedStack, SourceError>;

    /// What was missing for their names.
    fn notes(&mut self) -> Vec<Note>;
}

impl Stacks for Names<'_> {
    fn stack(&mut self, site: Site) -> Result<NamedStack, SourceError> {
        Names::stack(self, site)
    }

    fn notes(&mut self) -> Vec<Note> {
        Names::notes(self)
    }
}

/// One value that can be written in several forms.
pub trait Report {
    /// Writes it.
    ///
    /// # Errors
    /// If it cannot be written, if what is still to be read for it cannot be, or if it has no such form.
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError>;

    /// What was not seen.
    fn seen(&self) -> &Seen;

    /// How many there were.
    fn ending(&self) -> Ending {
        Ending::default()
    }

    /// What of the history is missing, in a sentence.
    fn gap(&self) -> Option<String> {
        None
    }

    /// In sentences, what a form without a place for it has not [said](Form::says_what_is_missing). It is known when
    /// the report is written.
    fn beside(&self) -> Vec<String> {
        let left_out = self.ending().left_out;
        let left_out = (left_out != 0).then(|| format!("{} left out (--limit 0 shows all)", count(left_out)));
        let notes = self.seen().notes.iter().map(sentence);
        self.gap().into_iter().chain(left_out).chain(notes).collect()
    }
}

/// A report of which there are several in one output, one after the other, as time goes on.
pub trait Stepwise: Report {
    /// Writes one of several, which has this number, from 1: with the first one what the output begins with.
    ///
    /// # Errors
    /// As [`Report::write`].
    fn step(&mut self, form: &Form, number: u64, out: &mut dyn Write) -> Result<(), ReportError>;

    /// Writes what stands behind the last of so many.
    ///
    /// # Errors
    /// As [`Report::write`].
    fn end(&mut self, form: &Form, steps: u64, out: &mut dyn Write) -> Result<(), ReportError>;
}

/// Why a report was not written.
#[derive(Debug)]
pub enum ReportError {
    /// What it goes to does not take it.
    Write(io::Error),
    /// The ledger could not be read.
    Read(SourceError),
    /// It has no form of this name.
    NoForm(&'static str),
}

impl ReportError {
    /// There is no such form.
    pub(crate) fn no_form(form: &Form) -> ReportError {
        ReportError::NoForm(form.words().0)
    }
}

impl fmt::Display for ReportError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReportError::Write(error) => error.fmt(out),
            ReportError::Read(error) => error.fmt(out),
            ReportError::NoForm(name) => write!(out, "this report has no form {name}"),
        }
    }
}

impl std::error::Error for ReportError {}

impl From<io::Error> for ReportError {
    fn from(error: io::Error) -> ReportError {
        ReportError::Write(error)
    }
}

impl From<SourceError> for ReportError {
    fn from(error: SourceError) -> ReportError {
        ReportError::Read(error)
    }
}
