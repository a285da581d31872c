//! Totals: the nine fields of `ecosmdd stats`, and what a process has besides.

use std::io::Write;

use heapledger_analysis::{NamedStack, Seen, Summary};
use heapledger_source::Module;

use crate::form::notes::{MissingFrees, missing_frees};
use crate::{Form, Paint, Report, ReportError};

mod accounts;
mod chosen;
mod csv;
mod ecos;
mod json;
mod json_parts;
mod memory;
pub(crate) mod text;

/// Totals of a ledger.
#[derive(Debug)]
pub struct StatsReport<'r> {
    /// What the ledger is called.
    pub ledger: &'r str,
    /// Its totals.
    pub summary: &'r Summary,
    /// The stacks of [`Summary::sites`], in their order, if the form shows any.
    pub top: &'r [NamedStack],
    /// The ledger's modules.
    pub modules: &'r [Module],
    /// Threads shown at most as text; the others are counted. 0 shows all.
    pub threads: usize,
    /// How text is emphasized.
    pub paint: Paint,
}

impl Report for StatsReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => text::write(self, out)?,
            Form::Json => json::write(self, out)?,
            Form::Csv => csv::write(self, out)?,
            Form::Ecos => ecos::write(self, out)?,
            _ => return Err(ReportError::no_form(form)),
        }
        Ok(())
    }

    fn seen(&self) -> &Seen {
        &self.summary.seen
    }

    fn gap(&self) -> Option<String> {
        let chosen = self.summary.chosen.as_ref().filter(|chosen| chosen.frees_missing != 0)?;
        Some(missing_frees(MissingFrees {
            frees: chosen.frees_missing,
            estimated: self.summary.sampled.is_some(),
            recorded: chosen.frees_recorded,
        }))
    }
}
