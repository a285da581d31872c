//! A call tree.

use std::io::Write;

use heapledger_analysis::query::TreeOrder;
use heapledger_analysis::tree::{CallTree, Measure, SiteSums};
use heapledger_analysis::{Identity, Seen};

use crate::{Ending, Form, Paint, Report, ReportError};

mod csv;
pub(crate) mod json;
mod line;
pub(crate) mod text;
mod walk;

pub use json::thread_name;
pub use text::{history_gap, measure_name};

/// What a tree is of, and which part of it is shown.
#[derive(Debug)]
pub struct TreeReport<'a> {
    /// What the ledger is called in the report.
    pub ledger: &'a str,
    /// The program.
    pub identity: &'a Identity,
    /// What was added up.
    pub sums: &'a SiteSums,
    /// The tree.
    pub tree: &'a CallTree,
    /// What it is ordered by, and what shares are of.
    pub measure: Measure,
    /// Nodes with less are summed up.
    pub least: u64,
    /// Levels that are shown; 0: all. A folded chain is one.
    pub depth: usize,
    /// Nodes below each that are shown; 0: all.
    pub children: usize,
    /// Lines that are shown, or nodes where each is one; 0: all.
    pub limit: usize,
    /// In which order those below a node come; the greatest by `measure` first, if there is none.
    pub order: Option<&'a TreeOrder>,
    /// Whether the tree has wrappers, standard libraries and what comes before `main`.
    pub wrappers: bool,
    /// What was not seen.
    pub seen: &'a Seen,
    /// Nodes that were left out; known when it is written with a line for each.
    pub left_out: u64,
    /// How text is emphasized.
    pub paint: Paint,
}

impl Report for TreeReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => text::write(out, self)?,
            Form::Json => self.left_out = json::write(out, self)?,
            Form::Csv => self.left_out = csv::write(out, self)?,
            _ => return Err(ReportError::no_form(form)),
        }
        Ok(())
    }

    fn seen(&self) -> &Seen {
        self.seen
    }

    fn ending(&self) -> Ending {
        let shown = (self.tree.nodes.len() as u64).saturating_sub(self.left_out);
        Ending { shown, left_out: self.left_out, in_flight: self.sums.in_flight }
    }

    fn gap(&self) -> Option<String> {
        history_gap(self.sums)
    }
}
