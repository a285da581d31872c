//! Processes of a session as CSV, a row each.

use std::io::{self, Write};

use super::{FamilyReport, end_words, process_name};
use crate::{Cell, Column, Table, TableForm};

pub(super) fn write(report: &FamilyReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let columns = vec![
        Column::number("pid"),
        Column::number("ppid"),
        Column::number("depth"),
        Column::text("program"),
        Column::number("began_unix_ns"),
        Column::number("lasted_ns"),
        Column::number("peak_bytes"),
        Column::number("live_bytes"),
        Column::number("live_blocks"),
        Column::number("allocations"),
        Column::number("bytes_allocated"),
        Column::number("errors"),
        Column::word("end"),
        Column::number("inherited_frees"),
        Column::number("inherited_blocks"),
        Column::number("inherited_bytes"),
    ];
    let mut table = Table::new(&mut *out, TableForm::Csv, columns)?;
    let summary = report.summary;
    for (index, depth) in summary.tree.walk() {
        let (Some(one), Some(totals)) = (summary.tree.processes.get(index), summary.processes.get(index)) else {
            continue;
        };
        let parent = one.parent.and_then(|parent| summary.tree.processes.get(parent));
        let known = |cell: Cell| if totals.recorded == 0 { Cell::Nothing } else { cell };
        let is_told = one.images.iter().any(|image| matches!(summary.inherited.get(*image), Some(Some(_))));
        let inherited = |cell: Cell| if is_told { cell } else { Cell::Nothing };
        table.row(&[
            Cell::Plain(one.pid.into()),
            parent.map_or(Cell::Nothing, |parent| Cell::Plain(parent.pid.into())),
            Cell::Plain(depth as u64),
            Cell::Text(process_name(&totals.programs)),
            Cell::maybe(Some(totals.began_unix_ns).filter(|began| *began != 0), Cell::Plain),
            Cell::maybe(totals.lasted_ns, Cell::Plain),
            known(Cell::Bytes(totals.peak_bytes)),
            known(Cell::Bytes(totals.live_bytes)),
            known(Cell::Count(totals.live_blocks)),
            known(Cell::Count(totals.allocations)),
            known(Cell::Bytes(totals.bytes_allocated)),
            known(Cell::Count(totals.errors)),
            Cell::Text(end_words(totals.end, totals.running)),
            inherited(Cell::Count(totals.inherited.frees)),
            inherited(Cell::Count(totals.inherited.blocks)),
            inherited(Cell::Bytes(totals.inherited.bytes)),
        ])?;
    }
    table.end()?.flush()
}
