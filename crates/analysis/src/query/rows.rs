//! Threads and heaps by name: decided once for each row.

use std::collections::HashMap;

use heapledger_source::{Ledger, SourceError};

use super::plan::TextTest;
use crate::fields::Field;

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
        match self.field {
            Field::Thread => {
                for thread in ledger.threads()? {
                    self.decided.insert(thread.row, self.test.holds(&thread.name));
                }
            }
            _ => {
                for heap in ledger.heaps()? {
                    self.decided.insert(heap.row, self.test.holds(&heap.name));
                }
            }
        }
        Ok(())
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
