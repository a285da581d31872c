//! Threads and heaps by name: decided once for each row.

use std::collections::HashMap;

use heapledger_source::{Ledger, SourceError};

use super::moments;
use super::plan::TextTest;
use crate::fields::{Field, Unit};

/// The rows of the table that a field's figures are rows of, with their names.
pub(crate) fn named(field: Field, ledger: &Ledger) -> Result<Vec<(u32, String)>, SourceError> {
    Ok(match field.unit() {
        Unit::Thread => ledger.threads()?.into_iter().map(|thread| (thread.row.0, thread.name)).collect(),
        Unit::Heap => ledger.heaps()?.into_iter().map(|heap| (heap.row, heap.name)).collect(),
        Unit::Mark | Unit::Window => moments::names(field, ledger)?,
        Unit::Label => label_names(field, ledger)?,
        _ => Vec::new(),
    })
}

/// What a label can be asked for by: each of its pairs and all of them, or what stands behind a key.
fn label_names(field: Field, ledger: &Ledger) -> Result<Vec<(u32, String)>, SourceError> {
    let labels = ledger.labels()?;
    let mut names = Vec::new();
    for label in labels.numbers() {
        let pairs = labels.pairs(label);
        match field.label_key() {
            Some(key) => {
                let values = pairs.iter().filter(|(known, _)| *known == key);
                names.extend(values.map(|(_, value)| (label.0, (*value).to_owned())));
            }
            None => {
                names.extend(pairs.iter().map(|(key, value)| (label.0, format!("{key}={value}"))));
                names.extend((pairs.len() > 1).then(|| (label.0, labels.text(label))));
            }
        }
    }
    Ok(names)
}

/// Which rows a test on their names accepts.
#[derive(Debug)]
pub(crate) struct Rows {
    field: Field,
    test: TextTest,
    decided: HashMap<u32, bool>,
}

impl Rows {
    pub(crate) fn new(field: Field, test: TextTest, ledger: &Ledger) -> Result<Rows, SourceError> {
        let mut rows = Rows { field, test, decided: HashMap::new() };
        rows.read(ledger)?;
        Ok(rows)
    }

    fn read(&mut self, ledger: &Ledger) -> Result<(), SourceError> {
        if self.field.unit() == Unit::Label {
            // One without the key is accepted by no test.
            self.decided.extend(ledger.labels()?.numbers().map(|label| (label.0, false)));
        }
        for (row, name) in named(self.field, ledger)? {
            // A label has several names.
            *self.decided.entry(row).or_insert(false) |= self.test.holds(&name);
        }
        Ok(())
    }

    pub(crate) fn field(&self) -> Field {
        self.field
    }

    /// Whether the row is accepted; `None` if it is not known yet.
    pub(crate) fn accepts(&self, row: u32) -> Option<bool> {
        self.decided.get(&row).copied()
    }

    /// Reads the table again: the row may have come since. One that is not there has no name, which is no name that
    /// was asked for.
    pub(crate) fn learn(&mut self, row: u32, ledger: &Ledger) -> Result<(), SourceError> {
        if !ledger.is_finished() {
            self.read(ledger)?;
        }
        self.decided.entry(row).or_insert(false);
        Ok(())
    }
}
