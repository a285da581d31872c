//! Totals as CSV: all tables of `stats` in one.

use std::io::{self, Write};

use super::{StatsReport, accounts};
use crate::record::columns::folded;
use crate::{Cell, Column, Paint, Table, TableForm};

/// Writes the totals, functions, threads, heaps, accounts and call sites, a row each; the first column says which.
pub(super) fn write(report: &StatsReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let StatsReport { summary, top, .. } = *report;
    let columns = vec![
        Column::word("table"),
        Column::number("row"),
        Column::text("name"),
        Column::number("allocations"),
        Column::number("frees"),
        Column::number("live_blocks"),
        Column::number("live_bytes"),
    ];
    let mut table = Table::new(&mut *out, TableForm::Csv, columns)?;
    let mut row = |name: &str, row: Option<u32>, text: Option<String>, calls: [Option<u64>; 2], live: [u64; 2]| {
        let mut cells = vec![
            Cell::Text(name.to_owned()),
            Cell::maybe(row.map(u64::from), Cell::Plain),
            text.map_or(Cell::Nothing, Cell::Text),
        ];
        cells.extend(calls.map(|calls| Cell::maybe(calls, Cell::Count)));
        cells.extend([Cell::Count(live[0]), Cell::Bytes(live[1])]);
        table.row(&cells)
    };
    let calls = [summary.allocations, summary.frees].map(Some);
    row("total", None, None, calls, [summary.live_blocks, summary.live_bytes])?;
    for kind in &summary.kinds {
        // Who does not count what began does not count what ended.
        let calls = [kind.begun, kind.begun.map(|_| kind.ended)];
        row("function", None, Some(kind.kind.to_string()), calls, [kind.live_blocks, kind.live_bytes])?;
    }
    for totals in &summary.threads {
        let (live, thread) = ([totals.live_blocks, totals.live_bytes], totals.thread.as_ref());
        // What a thread called is known of all blocks together only.
        let calls = thread.filter(|_| summary.chosen.is_none());
        let calls = [calls.map(|thread| thread.allocations), calls.map(|thread| thread.frees)];
        row("thread", thread.map(|thread| thread.row.0), thread.map(|thread| thread.name.clone()), calls, live)?;
    }
    for totals in &summary.heaps {
        let (heap, live) = (&totals.heap, [totals.live_blocks, totals.live_bytes]);
        row("heap", Some(heap.row), Some(heap.name.clone()), [None, None], live)?;
    }
    for account in &summary.accounts {
        let frees = account.frees.0.saturating_add(account.frees_by_others.0);
        let (calls, live) = ([account.allocations.0, frees].map(Some), [account.blocks.0, account.bytes.0]);
        row("account", account.thread.row().map(|row| row.0), Some(accounts::name(summary, account)), calls, live)?;
    }
    for (totals, stack) in summary.sites.top.iter().zip(top) {
        row(
            "stack",
            Some(totals.site.0),
            Some(folded(stack, Paint::default())),
            [None, None],
            [totals.blocks, totals.bytes],
        )?;
    }
    table.end()?;
    out.flush()
}
