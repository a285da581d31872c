//! What became of the blocks between two ledgers: stack by stack, block by block, or group by group.

use std::io::Write;

use heapledger_analysis::Seen;
use heapledger_analysis::diff::Diff;

use crate::{Form, Paint, Report, ReportError, Stacks, Stepwise};

mod blocks;
mod groups;
mod json;
mod sessions;
mod text;

pub use sessions::FamilyDiff;

pub use blocks::DiffBlocks;
pub use groups::{DiffGroups, group_label};

/// One of the two ledgers.
#[derive(Clone, Copy, Debug)]
pub struct DiffSide<'a> {
    /// What it is called.
    pub ledger: &'a str,
    /// Of what moment it is, in nanoseconds since 1970, if that is known.
    pub unix_ns: Option<u64>,
    /// If that is its peak: by how many bytes that may be off.
    pub peak_error: Option<u64>,
}

/// Two ledgers, and what became of the blocks between them.
#[derive(Clone, Copy)]
pub struct Compared<'d> {
    /// What became of them.
    pub diff: &'d Diff,
    /// The ledgers.
    pub sides: [DiffSide<'d>; 2],
    /// Which blocks are meant, if not all.
    pub filter: Option<&'d str>,
    /// How text is emphasized, and how wide it may be.
    pub paint: Paint,
}

/// A comparison stack by stack. Of several in one output, those that are not the last are intervals.
pub struct DiffReport<'d> {
    /// What is compared.
    pub compared: Compared<'d>,
    /// Stacks shown of those that grew, and of those that shrank; 0 for all.
    pub limit: usize,
    /// Frames of each stack, 0 for all; `None` for as many as are usual, of an interval none.
    pub frames: Option<usize>,
    /// Names of the stacks of the first ledger, and of the second.
    pub names: [&'d mut dyn Stacks; 2],
    /// What was not seen; what is missing for names is added when it is written.
    pub seen: Seen,
}

impl Report for DiffReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => text::write(self, out, 0),
            Form::Json => {
                json::header(out, &self.compared)?;
                json::end(self, out)
            }
            _ => Err(ReportError::no_form(form)),
        }
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }
}

impl Stepwise for DiffReport<'_> {
    fn step(&mut self, form: &Form, number: u64, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => text::interval(self, out, number),
            Form::Json => {
                if number == 1 {
                    json::header(out, &self.compared)?;
                }
                json::interval(self, out)
            }
            _ => Err(ReportError::no_form(form)),
        }
    }

    fn end(&mut self, form: &Form, steps: u64, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => text::write(self, out, steps),
            Form::Json => json::end(self, out),
            _ => Err(ReportError::no_form(form)),
        }
    }
}

/// Adds what was missing for names of either ledger.
fn add_notes(seen: &mut Seen, names: &mut [&mut dyn Stacks; 2]) {
    names.iter_mut().for_each(|names| seen.join(names.notes()));
}
