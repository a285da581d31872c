//! The blocks that only one of two ledgers of a run has, one by one.

use std::io::Write;

use heapledger_analysis::diff::OnlyHere;
use heapledger_analysis::{Estimate, Seen};

use super::text::DiffText;
use super::{Compared, json};
use crate::dump::BlockLine;
use crate::dump::text::block_text;
use crate::form::json::{StackLines, end, line};
use crate::record::ecos::{self, EcosSide, Records};
use crate::{Context, Ending, Form, Report, ReportError, Stacks};

/// A comparison block by block: first those that are new, then those that were freed.
pub struct DiffBlocks<'d> {
    /// What is compared.
    pub compared: Compared<'d>,
    /// Of what ledgers.
    pub contexts: [&'d Context; 2],
    /// Whether they say who allocated.
    pub threads_recorded: [bool; 2],
    /// The blocks that only the first ledger has, and those that only the second has.
    pub only: [&'d OnlyHere; 2],
    /// Names of their stacks, as far as the form needs any.
    pub names: [&'d mut dyn Stacks; 2],
    /// What was not seen; what is missing for names is added when it is written.
    pub seen: Seen,
}

/// The second ledger, then the first.
const SIDES: [usize; 2] = [1, 0];

impl Report for DiffBlocks<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => self.text(out),
            Form::Json => self.json(out),
            Form::Ecos | Form::Lines { .. } => self.records(form, out),
            _ => Err(ReportError::no_form(form)),
        }
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }

    fn ending(&self) -> Ending {
        let sum = |count: fn(&OnlyHere) -> u64| self.only.iter().map(|only| count(only)).sum();
        Ending { shown: sum(|only| only.blocks.len() as u64), left_out: sum(OnlyHere::left_out), in_flight: 0 }
    }
}

impl DiffBlocks<'_> {
    fn text(&mut self, out: &mut dyn Write) -> Result<(), ReportError> {
        let mut text = DiffText::new(out, &self.compared);
        text.filter()?;
        text.totals()?;
        let [a, b] = self.contexts.map(|context| context.ledger.as_str());
        let headings =
            [format!("Allocations in {a} but freed in {b}"), format!("New allocations in {b} but not in {a}")];
        for side in SIDES {
            text.heading(&headings[side])?;
            let only = self.only[side];
            for (index, block) in only.blocks.iter().enumerate() {
                if index > 0 {
                    text.line("")?;
                }
                let stack = self.names[side].stack(block.site)?;
                block_text(&mut text.out, self.contexts[side], self.threads_recorded[side], &block, &stack)?;
            }
            text.blocks_left_out(only)?;
            self.seen.join(self.names[side].notes());
        }
        Ok(text.end(&self.seen)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), ReportError> {
        json::header(out, &self.compared)?;
        json::totals(out, &self.compared, "diff")?;
        let mut stacks = StackLines::default();
        for side in SIDES {
            let change = if side == 1 { "new" } else { "freed" };
            for block in &self.only[side].blocks {
                stacks.line(out, self.names[side], block.site)?;
                line(out, &BlockLine::of(self.contexts[side], &block, Some(change)))?;
            }
            self.seen.join(self.names[side].notes());
        }
        Ok(end(out, self.ending(), &self.seen)?)
    }

    /// As `ecosmdd` shows it, whose totals are those of the whole ledgers, or as somebody wants each.
    fn records(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        let diff = self.compared.diff;
        let sides = [0, 1].map(|side: usize| EcosSide {
            name: self.contexts[side].ledger.clone(),
            blocks: diff.all[side].blocks,
            bytes: diff.all[side].bytes,
        });
        let both = sides.each_ref();
        let count = |amount: Option<Estimate>| amount.unwrap_or_default().blocks;
        ecos::diff_head(&mut *out, both, count(diff.born), count(diff.freed))?;
        let headings = [format!("\n{}", ecos::diff_gone(both)), ecos::diff_new(both)];
        for side in SIDES {
            let mut records = Records::new(&mut *out, self.contexts[side], form);
            records.line(&headings[side])?;
            for block in &self.only[side].blocks {
                records.block(&block, self.names[side])?;
            }
            self.seen.join(self.names[side].notes());
        }
        Ok(out.flush()?)
    }
}
