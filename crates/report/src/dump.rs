//! Live blocks, one by one or as a table.

use std::io::Write;

use heapledger_analysis::fields::Field;
use heapledger_analysis::query::Subject;
use heapledger_analysis::{Holders, NamedStack, Seen, Selection};

use crate::record::columns::{block_column, cell};
use crate::record::ecos::Records;
use crate::{Cell, Context, Ending, Form, Report, ReportError, Stacks, Table, TableForm};

mod json;
pub(crate) mod text;

pub(crate) use json::BlockLine;

/// Live blocks, one by one.
pub struct BlocksReport<'r> {
    /// Of what ledger.
    pub context: &'r Context,
    /// Whether it says who allocated.
    pub threads_recorded: bool,
    /// The blocks.
    pub selection: &'r Selection,
    /// Names of their stacks, as far as the form needs any.
    pub names: &'r mut dyn Stacks,
    /// What was not seen; what is missing for names is added when it is written.
    pub seen: Seen,
}

impl Report for BlocksReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => text::write(self, out),
            Form::Json => json::write(self, out),
            Form::Ecos | Form::Lines { .. } => {
                let mut records = Records::new(out, self.context, form);
                for block in &self.selection.blocks {
                    records.block(&block, self.names)?;
                }
                self.seen.notes.extend(self.names.notes());
                Ok(out.flush()?)
            }
            _ => Err(ReportError::no_form(form)),
        }
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }

    fn ending(&self) -> Ending {
        ending(self.selection)
    }
}

fn ending(selection: &Selection) -> Ending {
    let shown = selection.blocks.len() as u64;
    Ending { shown, left_out: selection.left_out(), in_flight: selection.in_flight }
}

/// Live blocks as a table, with the columns that somebody asks for.
pub struct BlockTable<'r> {
    /// Of what ledger.
    pub context: &'r Context,
    /// The columns.
    pub columns: &'r [Field],
    /// Which functions hold blocks.
    pub holders: &'r Holders,
    /// The blocks.
    pub selection: &'r Selection,
    /// Names of their stacks, if a column needs them.
    pub names: &'r mut dyn Stacks,
    /// What was not seen; what is missing for names is added when it is written.
    pub seen: Seen,
}

impl Report for BlockTable<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        let BlockTable { columns, holders, selection, .. } = *self;
        let form = TableForm::of(form, "row", self.context.paint)?;
        let for_machine = (!matches!(form, TableForm::Text(_))).then(|| self.context.whole_names());
        let context = for_machine.as_ref().unwrap_or(self.context);
        match form {
            TableForm::Json(_) => json::header(&mut *out, context, selection)?,
            TableForm::Text(_) => text::begin(&mut *out, context, selection)?,
            TableForm::Csv => {}
        }
        let (sampled, named) = (selection.sampled.is_some(), columns.iter().any(|column| column.needs_names()));
        let heads = columns.iter().map(|column| block_column(*column, sampled)).collect();
        let mut table = Table::new(&mut *out, form, heads)?;
        for block in &selection.blocks {
            let stack = if named { self.names.stack(block.site)? } else { NamedStack::default() };
            let cells: Vec<Cell> =
                columns.iter().map(|column| cell(*column, context, holders, &Subject::live(&block), &stack)).collect();
            table.row(&cells)?;
        }
        table.end()?;
        self.seen.notes.extend(self.names.notes());
        match form {
            TableForm::Json(_) => crate::form::json::end(out, ending(selection), &self.seen)?,
            TableForm::Csv => out.flush()?,
            TableForm::Text(_) => {
                if !selection.blocks.is_empty() {
                    writeln!(out)?;
                }
                text::end(out, context, ending(selection), selection, &self.seen)?;
            }
        }
        Ok(())
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }

    fn ending(&self) -> Ending {
        ending(self.selection)
    }
}
