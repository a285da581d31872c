//! Totals in the shape of `ecosmdd stats`.

use std::io::{self, Write};

use heapledger_analysis::{KindTotals, ThreadTotals};
use heapledger_format::record::Options;

use super::StatsReport;
use crate::form::units::clean;
use crate::record::written::function;

/// Writes the totals as `ecosmdd stats` does. Estimates are marked with `~`.
pub(super) fn write(report: &StatsReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let StatsReport { ledger, summary, .. } = *report;
    let mark = if summary.sampled.is_some() { "~" } else { "" };
    let kib = |bytes: u64| format!("{mark}{}K ({bytes} bytes)", bytes / 1024);
    writeln!(out, "{}: statistics", clean(ledger))?;
    let heaps: Vec<_> = summary.heaps.iter().filter(|totals| totals.heap.low < totals.heap.high).collect();
    for (index, totals) in heaps.iter().enumerate() {
        let (field, heap) = (if index == 0 { "Heap      " } else { "          " }, &totals.heap);
        // A heap in many pieces is as large as these, not as far as they lie apart.
        let size = totals.parts_bytes.unwrap_or(heap.high - heap.low);
        let (low, last) = (heap.low, heap.high - 1);
        writeln!(out, "{field}: {low:#010x} to {last:#010x}, size {}K ({size} bytes)", size / 1024)?;
    }
    writeln!(out, "History   : {mark}{} memory allocations, {mark}{} frees", summary.allocations, summary.frees)?;
    let (bytes, blocks) = (kib(summary.live_bytes), summary.live_blocks);
    writeln!(out, "Current   : {bytes} used in {mark}{blocks} allocations")?;
    if let Some(actual) = summary.actual_bytes {
        let overhead = actual.saturating_sub(summary.live_bytes);
        let percent = u128::from(overhead) * 100 / u128::from(actual.max(1));
        writeln!(out, "Actual    : approximately {}", kib(actual))?;
        writeln!(out, "Overhead  : approximately {}, {percent}%", kib(overhead))?;
    }
    // Records come and go with the blocks; all else is there from the beginning, or grows with the program's code.
    let all = summary.storage.ledger_bytes.saturating_add(summary.storage.private_bytes.unwrap_or(0));
    let dynamic = summary.memory.sections.map_or(0, |sections| sections.records_bytes);
    let fixed = all.saturating_sub(dynamic);
    let exactly = |bytes: u64| format!("{}K ({bytes} bytes)", bytes / 1024);
    let (fixed, dynamic) = (exactly(fixed), exactly(dynamic));
    writeln!(out, "Debugdata : approximately {fixed} static, {dynamic} dynamic")?;
    writeln!(out, "          : (debug data is in addition to other overheads)")?;
    if summary.storage.private_bytes.is_none() {
        writeln!(out, "          : (of memory outside of the ledger nothing is known)")?;
    }
    writeln!(out, "Allocators:")?;
    let mut kinds: Vec<&KindTotals> = summary.kinds.iter().filter(|kind| kind.live_blocks != 0).collect();
    kinds.sort_by_key(|kind| (std::cmp::Reverse(kind.live_blocks), kind.kind));
    for kind in kinds {
        writeln!(out, "            {} {mark}{}", function(kind.kind), kind.live_blocks)?;
    }
    if summary.options.has(Options::THREAD) {
        writeln!(out, "Threads   :")?;
        let row = |totals: &&ThreadTotals| totals.thread.as_ref().map(|thread| thread.row);
        let mut threads: Vec<&ThreadTotals> = summary.threads.iter().collect();
        threads.sort_by_key(row);
        for thread in threads.into_iter().filter_map(|totals| totals.thread.as_ref()) {
            writeln!(out, "{:>9} : handle {:#010x}, {}", thread.row, thread.handle, clean(&thread.name))?;
        }
    }
    let word = |option| if summary.options.has(option) { "enabled" } else { "disabled" };
    let (actual, time, thread) = (word(Options::ACTUAL_SIZE), word(Options::TIME), word(Options::THREAD));
    writeln!(out, "Options   : actual_size {actual}, time stamps {time}, thread info {thread}")?;
    if summary.options.has(Options::STACK) {
        writeln!(out, "          : backtrace enabled, {} levels", summary.depth_limit)?;
    } else {
        writeln!(out, "          : backtrace disabled")?;
    }
    if summary.options.has(Options::HISTORY) {
        writeln!(out, "          : history enabled, {} records max", summary.history_capacity)?;
    } else {
        writeln!(out, "          : history disabled")?;
    }
    out.flush()
}
