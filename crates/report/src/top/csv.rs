//! Looks as CSV.

use std::io::{self, Write};

use super::{Look, LookRow, whole};
use crate::{Cell, Column, Table, TableForm};

/// Looks as CSV: a row of each look a line, all in one table.
pub struct LooksCsv<W> {
    table: Table<W>,
    looks: u64,
}

impl<W: Write> LooksCsv<W> {
    /// A table to `out`. `group` is what rows are.
    ///
    /// # Errors
    /// If `out` cannot be written to.
    pub fn new(out: W, group: &str) -> io::Result<LooksCsv<W>> {
        let figures = [
            "live_bytes",
            "live_blocks",
            "young_bytes",
            "young_blocks",
            "bytes_per_second",
            "blocks_per_second",
            "growth_bytes",
            "growth_blocks",
            "allocated_blocks",
            "allocated_bytes",
            "oldest_age_ns",
        ];
        let mut columns = vec![Column::number("look"), Column::number("time_ns"), Column::text(group)];
        columns.extend(figures.map(Column::number));
        Ok(LooksCsv { table: Table::new(out, TableForm::Csv, columns)?, looks: 0 })
    }

    /// Writes a look, at once.
    ///
    /// # Errors
    /// If `out` cannot be written to.
    pub fn look(&mut self, look: &Look, rows: &[LookRow]) -> io::Result<()> {
        self.looks += 1;
        let marked = look.mark_age_ns.is_some();
        let rate = |rate: Option<f64>| rate.map_or(Cell::Nothing, |rate| Cell::Growth(whole(rate)));
        for row in rows {
            let young = |number: u64| if marked { Cell::Count(number) } else { Cell::Nothing };
            self.table.row(&[
                Cell::Plain(self.looks),
                Cell::maybe(look.uptime_ns, Cell::Span),
                Cell::Text(row.label.clone()),
                Cell::Bytes(row.live.bytes),
                Cell::Count(row.live.blocks),
                young(row.young.bytes),
                young(row.young.blocks),
                rate(row.bytes_per_second),
                rate(row.blocks_per_second),
                Cell::Growth(row.growth_bytes),
                Cell::GrowthCount(row.growth_blocks),
                Cell::maybe(row.allocated_blocks, Cell::Count),
                Cell::maybe(row.allocated_bytes, Cell::Bytes),
                Cell::maybe(row.oldest_ns, Cell::Span),
            ])?;
        }
        self.table.flush()
    }
}
