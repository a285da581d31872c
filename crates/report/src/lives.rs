//! The lives of an address.

use std::io::Write;

use heapledger_analysis::{Event, EventKind, Life, Lives, NamedStack, Seen};

use crate::form::notes::{MissingFrees, missing_frees};
use crate::record::ecos::Records;
use crate::{Context, Ending, Form, Report, ReportError, Stacks};

mod json;
mod text;

/// The blocks that contained an address.
pub struct LivesReport<'r> {
    /// Of what ledger.
    pub context: &'r Context,
    /// Whether it says who allocated and freed.
    pub threads_recorded: bool,
    /// The address.
    pub address: u64,
    /// The blocks.
    pub lives: &'r Lives,
    /// Names of their stacks, as far as the form needs any.
    pub names: &'r mut dyn Stacks,
    /// What was not seen; what is missing for names is added when it is written.
    pub seen: Seen,
}

impl Report for LivesReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => text::write(self, out),
            Form::Json => json::write(self, out),
            Form::Ecos | Form::Lines { .. } => self.records(form, out),
            _ => Err(ReportError::no_form(form)),
        }
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }

    fn ending(&self) -> Ending {
        let Lives { total, left_out, in_flight, .. } = *self.lives;
        Ending { shown: total - left_out, left_out, in_flight }
    }

    fn gap(&self) -> Option<String> {
        let lives = self.lives;
        let missing = || {
            missing_frees(MissingFrees {
                frees: lives.frees_missing,
                estimated: lives.sampled.is_some(),
                recorded: lives.frees_recorded,
            })
        };
        (lives.frees_missing != 0).then(missing)
    }
}

impl LivesReport<'_> {
    fn records(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        let mut records = Records::new(out, self.context, form);
        if self.lives.frees_missing != 0 {
            records.caution()?;
        }
        for life in self.lives.chains.iter().flat_map(|chain| &chain.lives) {
            let allocation = Event { block: life.block, kind: EventKind::Allocation { freed: life.end } };
            records.event(&allocation, self.names)?;
            if let Some(freed) = life.end {
                records.event(&Event { block: life.block, kind: EventKind::Free(freed) }, self.names)?;
            }
        }
        self.seen.notes.extend(self.names.notes());
        Ok(out.flush()?)
    }
}

/// A life with what is shown of it besides.
struct ShownLife<'l> {
    life: &'l Life,
    /// The lives before and behind it in its chain.
    around: [Option<&'l Life>; 2],
    /// Who allocated it.
    begin: NamedStack,
    /// Who freed it, if it is freed.
    end: Option<NamedStack>,
}

/// Calls `show` with each life.
fn each_life(
    lives: &Lives,
    names: &mut dyn Stacks,
    mut show: impl FnMut(&ShownLife<'_>) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    for chain in &lives.chains {
        for (index, life) in chain.lives.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|before| chain.lives.get(before));
            let begin = names.stack(life.block.site)?;
            let end = life.end.map(|end| names.stack(end.site)).transpose()?;
            show(&ShownLife { life, around: [before, chain.lives.get(index + 1)], begin, end })?;
        }
    }
    Ok(())
}
