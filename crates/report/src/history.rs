//! What happened, event by event or as a table.

use std::io::Write;

use heapledger_analysis::query::EventColumn;
use heapledger_analysis::{Events, Holders, Seen};
use heapledger_format::Site;

use crate::form::notes::missing_events;
use crate::record::ecos::Records;
use crate::{Cell, Context, Ending, Form, Report, ReportError, Stacks, Table, TableForm};

mod columns;
mod json;
pub(crate) mod text;

pub(crate) use json::HistoryGaps;

use columns::{StackNeeds, event_cell, event_column};

/// Events, one by one.
pub struct EventsReport<'r> {
    /// Of what ledger.
    pub context: &'r Context,
    /// Whether it says who allocated and freed.
    pub threads_recorded: bool,
    /// The events.
    pub events: &'r Events,
    /// Names of their stacks, as far as the form needs any.
    pub names: &'r mut dyn Stacks,
    /// What was not seen; what is missing for names is added when it is written.
    pub seen: Seen,
}

impl Report for EventsReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => text::write(self, out),
            Form::Json => json::write(self, out),
            Form::Ecos | Form::Lines { .. } => {
                let mut records = Records::new(out, self.context, form);
                if self.events.frees_missing != 0 {
                    records.caution()?;
                }
                for event in &self.events.events {
                    records.event(&event, self.names)?;
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
        ending(self.events)
    }

    fn gap(&self) -> Option<String> {
        gap(self.events)
    }
}

fn ending(events: &Events) -> Ending {
    Ending { shown: events.events.len() as u64, left_out: events.left_out(), in_flight: events.in_flight }
}

fn gap(events: &Events) -> Option<String> {
    (events.frees_missing != 0).then(|| missing_events(&events.coverage()))
}

/// Events as a table, with the columns that somebody asks for.
pub struct EventTable<'r> {
    /// Of what ledger.
    pub context: &'r Context,
    /// The columns.
    pub columns: &'r [EventColumn],
    /// Which functions hold blocks.
    pub holders: &'r Holders,
    /// The events.
    pub events: &'r Events,
    /// Names of their [stacks](EventTable::sites).
    pub names: &'r mut dyn Stacks,
    /// What was not seen; what is missing for names is added when it is written.
    pub seen: Seen,
}

impl EventTable<'_> {
    /// The call sites whose names a table of these columns needs.
    pub fn sites(columns: &[EventColumn], events: &Events) -> impl Iterator<Item = Site> {
        let needs = StackNeeds::of(columns);
        events.events.iter().flat_map(move |event| needs.sites(&event)).flatten()
    }
}

impl Report for EventTable<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        let EventTable { columns, holders, events, .. } = *self;
        let form = TableForm::of(form, "row", self.context.paint)?;
        let for_machine = (!matches!(form, TableForm::Text(_))).then(|| self.context.whole_names());
        let context = for_machine.as_ref().unwrap_or(self.context);
        match form {
            TableForm::Json(_) => json::header(&mut *out, context, events)?,
            TableForm::Text(_) => text::caution(&mut *out, context, &events.coverage())?,
            TableForm::Csv => {}
        }
        let needs = StackNeeds::of(columns);
        let heads = columns.iter().map(|column| event_column(*column, events.sampled.is_some())).collect();
        let mut table = Table::new(&mut *out, form, heads)?;
        for event in &events.events {
            let stacks = needs.stacks(&event, self.names)?;
            let cells: Vec<Cell> =
                columns.iter().map(|column| event_cell(*column, context, holders, &event, &stacks)).collect();
            table.row(&cells)?;
        }
        table.end()?;
        self.seen.notes.extend(self.names.notes());
        match form {
            TableForm::Json(_) => crate::form::json::end(out, ending(events), &self.seen)?,
            TableForm::Csv => out.flush()?,
            TableForm::Text(_) => {
                if !events.events.is_empty() {
                    writeln!(out)?;
                }
                text::end(out, context, events, &self.seen)?;
            }
        }
        Ok(())
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }

    fn ending(&self) -> Ending {
        ending(self.events)
    }

    fn gap(&self) -> Option<String> {
        gap(self.events)
    }
}
