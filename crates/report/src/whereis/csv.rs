//! Where addresses belong, as CSV.

use std::io::{self, Write};

use heapledger_analysis::fields::Field;
use heapledger_analysis::query::Subject;
use heapledger_analysis::whereis::{Found, KnownAddress};
use heapledger_analysis::{Holders, NamedStack};

use super::WhereisReport;
use crate::record::columns::{self, block_column};
use crate::{Cell, Column, Context, ReportError, Table, TableForm};

/// What is told of a block.
const BLOCK: [Field; 8] =
    [Field::Address, Field::Size, Field::Kind, Field::Number, Field::Time, Field::Thread, Field::Function, Field::File];

/// What is told of its free.
const FREE: [Field; 6] = [Field::Kind, Field::Number, Field::Time, Field::Thread, Field::Function, Field::File];

/// Writes a row for each address, and one for each earlier block that held it.
pub(super) fn write(report: &mut WhereisReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let mut csv = WhereisCsv::new(&mut *out, report.context)?;
    report.each(|place, stack, lives| csv.place(place, stack, lives))?;
    csv.table.end()?;
    Ok(out.flush()?)
}

/// Where addresses belong, as CSV: a row for each address, and one for each earlier block that held it.
struct WhereisCsv<'a, W> {
    table: Table<W>,
    context: &'a Context,
    holders: Holders,
}

impl<'a, W: Write> WhereisCsv<'a, W> {
    /// A table to `out`.
    fn new(out: W, context: &'a Context) -> io::Result<WhereisCsv<'a, W>> {
        let mut columns = vec![Column::word("asked"), Column::word("found"), Column::number("offset")];
        columns.extend(BLOCK.map(|column| block_column(column, false)));
        columns.extend(FREE.map(|column| Column::text(format!("free_{}", block_column(column, false).key))));
        columns.extend(["heap", "module", "mapping"].map(Column::text));
        let table = Table::new(out, TableForm::Csv, columns)?;
        Ok(WhereisCsv { table, context, holders: Holders::default() })
    }

    /// Writes an address: with the stack of its block, and the two stacks of each earlier life.
    fn place(&mut self, place: &KnownAddress, stack: &NamedStack, lives: &[[NamedStack; 2]]) -> io::Result<()> {
        let found = match place.found {
            Found::Inside(_) | Found::Behind(_) => "block",
            Found::Freed => "freed",
            Found::Nothing => "nothing",
        };
        let text = |text: Option<String>| text.map_or(Cell::Nothing, Cell::Text);
        let around = [
            text(place.heap.as_ref().map(|heap| heap.name.clone())),
            text(place.module.as_ref().map(|module| module.path.to_string_lossy().into_owned())),
            text(place.mapping.as_ref().map(|mapping| mapping.name.clone())),
        ];
        self.row(place.address, found, place.block.as_ref().map(|block| (Subject::live(block), stack)), None, &around)?;
        for (life, [begun, ended]) in place.lives.iter().zip(lives) {
            let [begun, ended] = [(Subject::allocation(life), begun), (Subject::free(life), ended)];
            self.row(place.address, "earlier", Some(begun), Some(ended), &around)?;
        }
        Ok(())
    }

    fn row(
        &mut self,
        asked: u64,
        found: &str,
        block: Option<(Subject<'_>, &NamedStack)>,
        free: Option<(Subject<'_>, &NamedStack)>,
        around: &[Cell],
    ) -> io::Result<()> {
        let cell = |column, of: Option<(Subject<'_>, &NamedStack)>| {
            of.map_or(Cell::Nothing, |(of, stack)| columns::cell(column, self.context, &self.holders, &of, stack))
        };
        let offset = block.map(|(block, _)| asked.saturating_sub(block.block().address));
        let mut cells = vec![Cell::Address(asked), Cell::Text(found.to_owned()), Cell::maybe(offset, Cell::Count)];
        cells.extend(BLOCK.map(|column| cell(column, block)));
        cells.extend(FREE.map(|column| cell(column, free)));
        cells.extend(around.iter().cloned());
        self.table.row(&cells)
    }
}
