//! What a program's own books say: which thread holds how much of which heap, and what heaps know of themselves.

use std::io;

use heapledger_analysis::Summary;
use heapledger_format::account::Account;
use heapledger_source::{HeapFigures, Thread};
use serde::Serialize;

use super::text::Fields;
use crate::form::units::{Figures, counted};
use crate::{Cell, Column};

/// `main / brk heap`.
pub(super) fn name(summary: &Summary, account: &Account) -> String {
    let of_row = |thread: &&Thread| Some(thread.row) == account.thread.row();
    let thread = summary.threads.iter().filter_map(|totals| totals.thread.as_ref()).find(of_row);
    let thread = thread.map_or("without a row", |thread| thread.name.as_str());
    let heap = summary.heaps.iter().find(|totals| totals.heap.row == account.heap);
    let heap = heap.map_or_else(|| account.heap.to_string(), |totals| totals.heap.name.clone());
    format!("{thread} / {heap}")
}

/// Writes the accounts, if there are any.
pub(super) fn text(fields: &mut Fields<'_>, summary: &Summary) -> io::Result<()> {
    if summary.accounts.is_empty() {
        return Ok(());
    }
    let estimated = summary.sampled.is_some();
    fields.line("Accounts", counted(summary.accounts.len() as u64, "account", "accounts"))?;
    let number = |name: &'static str| Column::number(name).estimated(estimated);
    let columns = vec![
        Column::text("thread"),
        Column::text("heap"),
        number("blocks"),
        number("bytes"),
        number("peak bytes"),
        number("allocations"),
        number("own frees"),
        number("others' frees"),
    ];
    let rows: Vec<Vec<Cell>> = Vec::from_iter(summary.accounts.iter().map(|account| {
        let heap = summary.heaps.iter().find(|totals| totals.heap.row == account.heap);
        let heap = heap.map_or_else(|| account.heap.to_string(), |totals| totals.heap.name.clone());
        let thread = account.thread.row().map_or_else(|| "without a row".to_owned(), |row| row.to_string());
        vec![
            Cell::Text(thread),
            Cell::Text(heap),
            Cell::Count(account.blocks.0),
            Cell::Bytes(account.bytes.0),
            Cell::Bytes(account.peak_bytes.0),
            Cell::Count(account.allocations.0),
            Cell::Count(account.frees.0),
            Cell::Count(account.frees_by_others.0),
        ]
    }));
    fields.table(columns, &rows)
}

/// `, 12.0 KiB free of 64.0 KiB, least ever free 8.00 KiB`: what a heap knows of itself.
pub(super) fn heap(known: Option<&HeapFigures>, figures: Figures) -> String {
    let Some(known) = known else { return String::new() };
    let bytes = |bytes: u64| figures.known().bytes(bytes);
    let mut text = String::new();
    if let Some(free) = known.free {
        text += &format!(", {} free", bytes(free));
        text += &known.total.map_or_else(String::new, |total| format!(" of {}", bytes(total)));
    }
    text += &known.least_free.map_or_else(String::new, |least| format!(", least ever free {}", bytes(least)));
    text += &known.largest_free.map_or_else(String::new, |most| format!(", largest free block {}", bytes(most)));
    let failures = known.failures.filter(|failures| *failures != 0);
    text + &failures.map_or_else(String::new, |number| format!(", {}", counted(number, "failed call", "failed calls")))
}

/// An account in JSON.
#[derive(Serialize)]
pub(super) struct AccountJson {
    thread: Option<u32>,
    heap: u32,
    bytes: u64,
    peak_bytes: u64,
    blocks: u64,
    peak_blocks: u64,
    allocations: u64,
    frees: u64,
    frees_by_others: u64,
}

/// What a heap knows of itself, in JSON.
#[derive(Serialize)]
pub(super) struct HeapFiguresJson {
    total_bytes: Option<u64>,
    free_bytes: Option<u64>,
    least_free_bytes: Option<u64>,
    least_free_bytes_since: Option<u64>,
    largest_free_bytes: Option<u64>,
    allocated_bytes: Option<u64>,
    allocated_blocks: Option<u64>,
    free_blocks: Option<u64>,
    failed_calls: Option<u64>,
}

impl HeapFiguresJson {
    /// Of these.
    pub(super) fn of(known: &HeapFigures) -> HeapFiguresJson {
        HeapFiguresJson {
            total_bytes: known.total,
            free_bytes: known.free,
            least_free_bytes: known.least_free,
            least_free_bytes_since: known.least_free_since,
            largest_free_bytes: known.largest_free,
            allocated_bytes: known.allocated,
            allocated_blocks: known.blocks,
            free_blocks: known.free_blocks,
            failed_calls: known.failures,
        }
    }
}

/// All of them. Of some blocks only nothing is on an account.
pub(super) fn json(summary: &Summary) -> Vec<AccountJson> {
    let all = if summary.chosen.is_some() { &[] } else { summary.accounts.as_slice() };
    let accounts = all.iter().map(|account| AccountJson {
        thread: account.thread.row().map(|row| row.0),
        heap: account.heap,
        bytes: account.bytes.0,
        peak_bytes: account.peak_bytes.0,
        blocks: account.blocks.0,
        peak_blocks: account.peak_blocks.0,
        allocations: account.allocations.0,
        frees: account.frees.0,
        frees_by_others: account.frees_by_others.0,
    });
    accounts.collect()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use heapledger_format::bytes::{ByteOrder, WordSize};
    use heapledger_source::Ledger;
    use heapledger_testing::{Scratch, everything};

    use super::*;
    use crate::Paint;

    #[test]
    fn accounts_are_told_of_a_program_that_keeps_them() {
        let scratch = Scratch::new("accounts");
        let path = scratch.join("x");
        everything(ByteOrder::Little, WordSize::W64).write(&path).expect("written");
        let ledger = Ledger::open(&path).expect("a ledger");
        let clock = heapledger_analysis::Clock::new(&ledger, SystemTime::UNIX_EPOCH).expect("a clock");
        let mut summary = Summary::of(&ledger, clock, 0, &mut |_| {}).expect("read");
        let mut out = Vec::new();
        text(&mut Fields { out: &mut out, paint: Paint::default() }, &summary).expect("memory");
        let told = String::from_utf8(out).expect("text");
        let rows: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["Accounts", ":", "2", "accounts"], "{told}");
        // What thread 1 freed of the first account and has not added yet is off it.
        assert!(rows.iter().any(|row| row.starts_with(&["0", "brk", "18", "4.79", "KiB"])), "{told}");
        assert!(rows.iter().any(|row| row.ends_with(&["40", "15", "7"])), "{told}");
        let json = serde_json::to_value(json(&summary)).expect("JSON");
        assert_eq!(
            (&json[0]["thread"], &json[0]["bytes"], &json[0]["frees_by_others"]),
            (&0.into(), &4_900.into(), &7.into())
        );
        assert_eq!((&json[1]["heap"], &json[1]["peak_blocks"]), (&1.into(), &6.into()));
        summary.accounts.clear();
        let mut none = Vec::new();
        text(&mut Fields { out: &mut none, paint: Paint::default() }, &summary).expect("memory");
        assert!(none.is_empty(), "who keeps none is told nothing of them");
    }

    #[test]
    fn a_heap_tells_what_it_knows() {
        let known = HeapFigures { free: Some(2048), total: Some(1 << 20), failures: Some(3), ..HeapFigures::default() };
        assert_eq!(heap(Some(&known), Figures::default()), ", 2.00 KiB free of 1.00 MiB, 3 failed calls");
        let least = HeapFigures {
            least_free: Some(512),
            largest_free: Some(1024),
            failures: Some(0),
            ..HeapFigures::default()
        };
        assert_eq!(heap(Some(&least), Figures::default()), ", least ever free 512 B, largest free block 1.00 KiB");
        assert_eq!(heap(None, Figures::default()), "");
    }
}
