//! Columns of a table of blocks: fields.

use heapledger_source::Ledger;

use super::check::recorded;
use super::{SyntaxError, Unsupported, keys};
use crate::fields::{COLUMNS, Field};

/// Of the columns of blocks, those that most people want.
const USUAL: [Field; 9] = [
    Field::Address,
    Field::Size,
    Field::Actual,
    Field::Kind,
    Field::Number,
    Field::Age,
    Field::Thread,
    Field::Function,
    Field::File,
];

impl Field {
    /// Reads columns of blocks: `addr,size,thread,fn`.
    ///
    /// # Errors
    /// If it cannot be understood: what, and where.
    pub fn parse_columns(text: &str) -> Result<Vec<Field>, SyntaxError> {
        keys::list(&COLUMNS, "column", text)
    }

    /// Those that a ledger records, of the columns that most people want.
    pub fn usual_columns(ledger: &Ledger) -> Vec<Field> {
        USUAL.into_iter().filter(|column| column.check(ledger).is_ok()).collect()
    }

    /// Whether `ledger` records it.
    ///
    /// # Errors
    /// If not.
    pub fn check(self, ledger: &Ledger) -> Result<(), Unsupported> {
        recorded(ledger, self, self.name())
    }
}
