//! In which form a report is written: the same options for every command.

use std::marker::PhantomData;

use anyhow::Result;
use heapledger_report::{Abilities, Form};
use heapledger_source::Ledger;

mod typed;

/// The forms of the reports of a command. Those that only one command has stand with it.
pub(crate) trait Forms {
    /// All of them; the usual one first.
    const ALL: &'static [Form];
    /// Whether records can be shown as somebody wants them.
    const LINES: bool = false;
}

/// Forms of totals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals;
/// Forms of blocks and events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Records;
/// Forms of anything that is a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables;
/// Forms of what is a sentence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sentences;

impl Forms for Totals {
    const ALL: &'static [Form] = &[Form::Text, Form::Json, Form::Csv, Form::Ecos];
}

impl Forms for Records {
    const ALL: &'static [Form] = Totals::ALL;
    const LINES: bool = true;
}

impl Forms for Tables {
    const ALL: &'static [Form] = &[Form::Text, Form::Json, Form::Csv];
}

impl Forms for Sentences {
    const ALL: &'static [Form] = &[Form::Text, Form::Json];
}

/// In which form a report is written: `--format`, and short ways to say the same.
#[derive(Clone, Debug)]
pub(crate) struct FormArgs<F> {
    given: Option<Form>,
    forms: PhantomData<F>,
}

impl<F> Default for FormArgs<F> {
    fn default() -> FormArgs<F> {
        FormArgs { given: None, forms: PhantomData }
    }
}

impl<F: Forms> FormArgs<F> {
    /// The form: what was asked for, else the usual one.
    pub(crate) fn get(&self) -> &Form {
        self.given.as_ref().unwrap_or(&F::ALL[0])
    }

    /// The form that was asked for, if one was.
    pub(crate) fn given(&self) -> Option<&Form> {
        self.given.as_ref()
    }

    /// Whether it is JSON.
    pub(crate) fn is_json(&self) -> bool {
        *self.get() == Form::Json
    }

    /// Whether it is CSV.
    pub(crate) fn is_csv(&self) -> bool {
        *self.get() == Form::Csv
    }

    /// Refused if the ledger does not record what a line for each record asks for.
    pub(crate) fn check(&self, ledger: &Ledger) -> Result<()> {
        if let Form::Lines { template, .. } = self.get() {
            template.check(Abilities::of(ledger))?;
        }
        Ok(())
    }
}
