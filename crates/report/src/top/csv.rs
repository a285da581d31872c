//! Looks as CSV: a row of each look a line, all in one table.

use std::io::{self, Write};

use super::{LookReport, whole};
use crate::{Cell, Column, Table, TableForm};

/// Writes the look that has this number, from 1; the first one with the names of the columns.
pub(super) fn look(report: &LookReport<'_>, number: u64, out: &mut dyn Write) -> io::Result<()> {
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
    let mut columns = vec![Column::number("look"), Column::number("time_ns"), Column::text(report.look.group)];
    columns.extend(figures.map(Column::number));
    let form = TableForm::Csv;
    let mut table = if number == 1 { Table::new(out, form, columns)? } else { Table::continued(out, form, columns) };
    let look = report.look;
    let marked = look.mark_age_ns.is_some();
    let rate = |rate: Option<f64>| rate.map_or(Cell::Nothing, |rate| Cell::Growth(whole(rate)));
    for row in report.rows {
        let young = |number: u64| if marked { Cell::Count(number) } else { Cell::Nothing };
        table.row(&[
            Cell::Plain(number),
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
    table.end().map(drop)
}
