//! A call tree as CSV, a node a row.

use std::io::{self, Write};

use heapledger_analysis::tree::{Amounts, Measure};

use super::TreeReport;
use super::walk::walk;
use crate::{Cell, Column, Table, TableForm};

const FIGURES: [(&str, Measure); 10] = [
    ("live_bytes", Measure::LiveBytes),
    ("live_blocks", Measure::LiveBlocks),
    ("allocated_bytes", Measure::AllocatedBytes),
    ("allocated_blocks", Measure::AllocatedBlocks),
    ("freed_bytes", Measure::FreedBytes),
    ("freed_blocks", Measure::FreedBlocks),
    ("peak_bytes", Measure::PeakBytes),
    ("peak_blocks", Measure::PeakBlocks),
    ("temporary_bytes", Measure::TemporaryBytes),
    ("temporary_blocks", Measure::TemporaryBlocks),
];

/// Writes the tree in the order of the lines of JSON, each node with all that are above it: `main;parse`.
/// Returns how many nodes were left out.
pub(super) fn write(out: &mut dyn Write, view: &TreeReport<'_>) -> io::Result<u64> {
    let tree = view.tree;
    let mut columns = vec![Column::number("depth"), Column::text("path")];
    columns.extend(["function", "module", "file"].map(Column::text));
    columns.push(Column::number("line"));
    columns.extend(FIGURES.map(|(name, _)| Column::number(name)));
    columns.extend(FIGURES.map(|(name, _)| Column::number(format!("own_{name}"))));
    let mut table = Table::new(&mut *out, TableForm::Csv, columns)?;
    let names: Vec<String> = tree.levels.iter().map(|level| level.name.replace(';', ":")).collect();
    let mut path: Vec<&str> = Vec::new();
    let left_out = walk(view, &mut |id| {
        let node = &tree.nodes[id as usize];
        path.truncate(node.depth.saturating_sub(1) as usize);
        if id != 0 {
            path.push(&names[node.level as usize]);
        }
        let level = tree.level(node);
        let text = |text: Option<&str>| text.map_or(Cell::Nothing, |text| Cell::Text(text.to_owned()));
        let figures = |amounts: &Amounts| FIGURES.map(|(_, measure)| Cell::Count(amounts.get(measure)));
        let mut cells = vec![
            Cell::Plain(u64::from(node.depth)),
            Cell::Text(path.join(";")),
            text(Some(&*level.name).filter(|_| id != 0)),
            text(level.module.as_deref()),
            text(tree.file(node).map(|file| &**file)),
            Cell::maybe(node.line.map(u64::from), Cell::Plain),
        ];
        cells.extend(figures(&node.total[0]));
        cells.extend(figures(&node.own[0]));
        table.row(&cells)
    })?;
    table.end()?;
    out.flush()?;
    Ok(left_out)
}
