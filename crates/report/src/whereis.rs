//! Where addresses belong.

use std::io::Write;

use heapledger_analysis::whereis::{Found, KnownAddress, KnownAddresses};
use heapledger_analysis::{NamedStack, Seen};

use crate::form::notes::{MissingFrees, missing_frees};
use crate::{Context, Ending, Form, Report, ReportError, Stacks};

mod csv;
mod json;
mod text;

/// Where addresses belong.
pub struct WhereisReport<'r> {
    /// Of what ledger.
    pub context: &'r Context,
    /// Whether it says who allocated.
    pub threads_recorded: bool,
    /// The addresses.
    pub places: &'r KnownAddresses,
    /// Names of the stacks of their blocks.
    pub names: &'r mut dyn Stacks,
    /// What was not seen; what is missing for names is added when it is written.
    pub seen: Seen,
}

impl Report for WhereisReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => text::write(self, out),
            Form::Json => json::write(self, out),
            Form::Csv => csv::write(self, out),
            _ => Err(ReportError::no_form(form)),
        }
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }

    fn ending(&self) -> Ending {
        let shown = self.places.places.iter().filter(|place| place.found != Found::Nothing).count() as u64;
        Ending { shown, left_out: 0, in_flight: self.places.in_flight }
    }

    fn gap(&self) -> Option<String> {
        let places = self.places;
        (places.frees_missing != 0).then(|| {
            missing_frees(MissingFrees {
                frees: places.frees_missing,
                estimated: false,
                recorded: places.frees_recorded,
            })
        })
    }
}

impl WhereisReport<'_> {
    /// Hands out each address: with the stack of its block, and the two stacks of each earlier life.
    fn each(
        &mut self,
        mut out: impl FnMut(&KnownAddress, &NamedStack, &[[NamedStack; 2]]) -> std::io::Result<()>,
    ) -> Result<(), ReportError> {
        for place in &self.places.places {
            let stack = place.block.map(|block| self.names.stack(block.site)).transpose()?.unwrap_or_default();
            let mut lives = Vec::new();
            for life in &place.lives {
                lives.push([self.names.stack(life.block.site)?, self.names.stack(life.site)?]);
            }
            out(place, &stack, &lives)?;
        }
        self.seen.notes.extend(self.names.notes());
        Ok(())
    }
}
