//! What ESP-IDF prints of tasks and heaps: the overview of all tasks, their tree, `heap_caps_print_heap_info` and
//! `heap_caps_dump`.

use std::collections::HashMap;
use std::io;

use heapledger_format::account::Account;
use heapledger_format::section::heap_figures;
use heapledger_format::{Entry, ThreadRow, ThreadRowPlus1, Word};

use super::words::{around, decimal, hex};
use crate::counted;
use crate::draft::{DraftShape, HeapPlace, LedgerDraft};

/// Most tasks that are kept: a ledger has numbers for so many.
const TASKS_MAX: usize = 60_000;
/// Most figures of what a task holds of a heap.
const ACCOUNTS_MAX: usize = 500_000;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatsKind {
    Overview,
    Tree,
    Heaps,
    Blocks,
}

/// A line of one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StatsLine<'t> {
    /// The heading of the overview.
    Overview,
    /// A task of the overview: bytes now, and at most.
    TaskRow { name: &'t str, alive: bool, bytes: u64, peak: u64 },
    /// A task of the tree, and whether it is the last.
    Task { name: &'t str, alive: bool, is_last: bool },
    /// A heap of that task.
    TaskHeap { name: &'t str, capabilities: u32, size: u64, bytes: u64, peak: u64, blocks: u64 },
    /// A block of that.
    TaskBlock { address: u64, size: u64 },
    /// The heading of a list of heaps.
    Heaps(u64),
    /// A heap: where it lies, its length, what is free, what is given out, what was free at least.
    Heap([u64; 5]),
    /// The rest of it: the largest free block, blocks given out, blocks that are free.
    HeapMore([u64; 3]),
    /// The heading of a list of blocks.
    BlocksOf(u64),
    /// A block, if it is given out.
    Block { address: u64, size: u64, is_free: bool },
    /// The end of a list.
    End,
}

/// Numbers behind words, in this order.
fn numbers<const N: usize>(text: &str, words: [&str; N]) -> Option<[u64; N]> {
    let mut found = [0; N];
    let mut rest = text;
    for (place, word) in found.iter_mut().zip(words) {
        let (_, behind) = around(rest, word)?;
        let (number, behind) = if behind.starts_with("0x") { hex(behind)? } else { decimal(behind)? };
        (*place, rest) = (number, behind);
    }
    Some(found)
}

fn read(line: &str) -> Option<StatsLine<'_>> {
    if line.contains("CURRENT MEMORY USAGE") && line.contains("\u{2502} STATUS") {
        return Some(StatsLine::Overview);
    }
    if line.contains('\u{2518}') {
        return Some(StatsLine::End);
    }
    let cells: Vec<&str> = line.split('\u{2502}').map(str::trim).collect();
    if let [_, name, status @ ("ALIVE" | "DELETED"), bytes, peak, _, ..] = cells[..]
        && let (Ok(bytes), Ok(peak)) = (bytes.parse(), peak.parse())
    {
        return Some(StatsLine::TaskRow { name, alive: status == "ALIVE", bytes, peak });
    }
    for (word, alive) in [("ALIVE: ", true), ("DELETED: ", false)] {
        if let Some((stem, rest)) = around(line, word)
            && let Some((name, figures)) = around(rest, ", CURRENT MEMORY USAGE ")
        {
            decimal(figures.trim_start_matches('-'))?;
            return Some(StatsLine::Task { name, alive, is_last: stem.contains('\u{2514}') });
        }
    }
    if let Some((_, rest)) = around(line, "HEAP: ")
        && let Some((name, rest)) = around(rest, ", CAPS: ")
    {
        let [size, bytes, peak, blocks] = numbers(rest, ["SIZE: ", "CURRENT ", "PEAK ", "ALLOC COUNT: "])?;
        let (capabilities, _) = hex(rest)?;
        return Some(StatsLine::TaskHeap { name, capabilities: capabilities as u32, size, bytes, peak, blocks });
    }
    if let Some([address, size]) = around(line, "ALLOC 0x").and(numbers(line, ["ALLOC ", "SIZE "])) {
        return Some(StatsLine::TaskBlock { address, size });
    }
    if let Some([capabilities]) = numbers(line, ["Heap summary for capabilities "]) {
        return Some(StatsLine::Heaps(capabilities));
    }
    if let Some(figures) = numbers(line, ["At ", "len ", "free ", "allocated ", "min_free "]) {
        return Some(StatsLine::Heap(figures));
    }
    if let Some(figures) = numbers(line, ["largest_free_block ", "alloc_blocks ", "free_blocks "]) {
        return Some(StatsLine::HeapMore(figures));
    }
    if let Some([address]) = numbers(line, ["Showing data for heap: "]) {
        return Some(StatsLine::BlocksOf(address));
    }
    if let Some([address, size]) = around(line, "Block 0x").and(numbers(line, ["Block ", "data, size: "])) {
        return Some(StatsLine::Block { address, size, is_free: line.contains("Free: Yes") });
    }
    None
}

/// One of them that is being read.
#[derive(Debug)]
pub(super) struct HeapStats {
    kind: StatsKind,
    draft: LedgerDraft,
    /// The line that it begins in.
    pub(super) line: u64,
    task: Option<ThreadRow>,
    tasks: usize,
    accounts: usize,
    last_task: bool,
    heap: Option<u8>,
    heaps: HashMap<(String, u32, u64), u8>,
    figures: Option<[u64; 5]>,
    seen: Vec<u64>,
    rows: u64,
    /// Lines that found no room.
    left: u64,
}

impl HeapStats {
    fn new(kind: StatsKind, line: u64) -> HeapStats {
        let threads = matches!(kind, StatsKind::Overview | StatsKind::Tree);
        let shape = DraftShape { addresses: true, threads, heaps: true, ..DraftShape::default() };
        HeapStats {
            kind,
            draft: LedgerDraft::new(shape),
            line,
            task: None,
            tasks: 0,
            accounts: 0,
            last_task: false,
            heap: None,
            heaps: HashMap::new(),
            figures: None,
            seen: Vec::new(),
            rows: 0,
            left: 0,
        }
    }

    /// The ledger, still to be told of other things.
    pub(super) fn draft(mut self) -> LedgerDraft {
        if self.left != 0 {
            self.draft.missing(&format!(
                "{} of the list found no room: it has more tasks or heaps than are kept.",
                counted(self.left, "line", "lines")
            ));
        }
        self.draft
    }

    /// What it is, in words.
    pub(super) fn name(&self) -> String {
        let what = match self.kind {
            StatsKind::Overview => "overview of tasks",
            StatsKind::Tree => "blocks by task",
            StatsKind::Heaps => "heaps",
            StatsKind::Blocks => "blocks by heap",
        };
        format!("{what} in line {}", self.line)
    }

    /// Takes a line. What is over by it is returned, and stands in `stats` no longer.
    pub(super) fn take(stats: &mut Option<HeapStats>, number: u64, text: &str) -> io::Result<Option<HeapStats>> {
        let Some(line) = read(text) else { return Ok(None) };
        let begins = match (&line, stats.as_ref()) {
            (StatsLine::Overview, _) => Some(StatsKind::Overview),
            (StatsLine::Heaps(_), _) => Some(StatsKind::Heaps),
            (StatsLine::Task { .. }, Some(known)) if known.kind == StatsKind::Tree && !known.last_task => None,
            (StatsLine::Task { .. }, _) => Some(StatsKind::Tree),
            (StatsLine::BlocksOf(at), Some(known)) if known.kind == StatsKind::Blocks && !known.seen.contains(at) => {
                None
            }
            (StatsLine::BlocksOf(_), _) => Some(StatsKind::Blocks),
            _ => None,
        };
        let mut over = None;
        if let Some(kind) = begins {
            over = stats.replace(HeapStats::new(kind, number));
        }
        if let Some(known) = stats {
            known.line(&line)?;
        }
        if line == StatsLine::End && stats.as_ref().is_some_and(|known| known.kind == StatsKind::Overview) {
            over = stats.take();
        }
        Ok(over.filter(|known| known.rows != 0))
    }

    /// Whether anything was read.
    pub(super) fn is_any(&self) -> bool {
        self.rows != 0
    }

    fn line(&mut self, line: &StatsLine<'_>) -> io::Result<()> {
        self.rows += 1;
        match (self.kind, line) {
            (StatsKind::Overview, StatsLine::TaskRow { name, alive, bytes, peak }) => {
                let heap = self.known_heap("all heaps", 0, 0);
                if let Some(row) = self.thread(name, *alive) {
                    self.account(row, heap, [*bytes, *peak, 0]);
                }
            }
            (StatsKind::Tree, StatsLine::Task { name, alive, is_last }) => {
                (self.task, self.last_task, self.heap) = (self.thread(name, *alive), *is_last, None);
            }
            (StatsKind::Tree, StatsLine::TaskHeap { name, capabilities, size, bytes, peak, blocks }) => {
                self.heap = self.known_heap(name, *capabilities, *size);
                if let Some(task) = self.task {
                    self.account(task, self.heap, [*bytes, *peak, *blocks]);
                }
            }
            (StatsKind::Tree, StatsLine::TaskBlock { address, size }) => self.block(*address, *size)?,
            (StatsKind::Heaps, StatsLine::Heap(figures)) => self.figures = Some(*figures),
            (StatsKind::Heaps, StatsLine::HeapMore([largest, blocks, free_blocks])) => {
                let Some([at, length, free, allocated, least]) = self.figures.take() else { return Ok(()) };
                let name = format!("heap at {at:#010x}");
                self.draft.heap_with(
                    &name,
                    [at, at.saturating_add(length)],
                    0,
                    &[
                        (heap_figures::total, length),
                        (heap_figures::free, free),
                        (heap_figures::least_free, least),
                        (heap_figures::largest_free, *largest),
                        (heap_figures::allocated, allocated),
                        (heap_figures::blocks, *blocks),
                        (heap_figures::free_blocks, *free_blocks),
                    ],
                );
            }
            (StatsKind::Blocks, StatsLine::BlocksOf(at)) => {
                self.heap = self.draft.heap(&format!("heap at {at:#010x}"), [u64::MAX, 0], 0);
                match self.heap {
                    Some(_) => self.seen.push(*at),
                    None => self.left += 1,
                }
            }
            (StatsKind::Blocks, StatsLine::Block { address, size, is_free: false }) => self.block(*address, *size)?,
            (StatsKind::Heaps, StatsLine::Heaps(_)) | (StatsKind::Overview, StatsLine::Overview) => {}
            _ => self.rows -= 1,
        }
        Ok(())
    }

    fn thread(&mut self, name: &str, alive: bool) -> Option<ThreadRow> {
        if self.tasks >= TASKS_MAX {
            self.left += 1;
            return None;
        }
        self.tasks += 1;
        let row = self.draft.thread(name, 0, 0);
        if !alive {
            self.draft.thread_gone(row);
        }
        Some(row)
    }

    /// Heaps of one name, with the same capabilities and size, are one.
    fn known_heap(&mut self, name: &str, capabilities: u32, size: u64) -> Option<u8> {
        let key = (name.to_owned(), capabilities, size);
        if let Some(row) = self.heaps.get(&key) {
            return Some(*row);
        }
        let total = [(heap_figures::total as HeapPlace, size)];
        let figures = if size == 0 { &[][..] } else { &total[..] };
        let row = self.draft.heap_with(name, [u64::MAX, 0], capabilities, figures)?;
        self.heaps.insert(key, row);
        Some(row)
    }

    fn account(&mut self, task: ThreadRow, heap: Option<u8>, [bytes, peak, blocks]: [u64; 3]) {
        if self.accounts >= ACCOUNTS_MAX {
            self.left += 1;
            return;
        }
        self.accounts += 1;
        self.draft.account(&Account {
            thread: ThreadRowPlus1(task.0 + 1),
            heap: u32::from(heap.unwrap_or(0)),
            bytes: Word(bytes),
            peak_bytes: Word(peak),
            blocks: Word(blocks),
            ..Account::default()
        });
    }

    fn block(&mut self, address: u64, size: u64) -> io::Result<()> {
        let number = self.draft.number();
        let (size, thread, heap) = (Some(size), self.task, self.heap);
        self.draft.block(&Entry { number, address, size, thread, heap, ..Entry::NONE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_whatever_stands_before_them() {
        let cases = [
            (
                "\u{2502}               main \u{2502} ALIVE   \u{2502}                 3860 \u{2502}              7412 \u{2502}               2 \u{2502}",
                StatsLine::TaskRow { name: "main", alive: true, bytes: 3860, peak: 7412 },
            ),
            (
                "I (1) x: \u{251c} ALIVE: main, CURRENT MEMORY USAGE 308, PEAK MEMORY USAGE 7412, TOTAL HEAP USED 2:",
                StatsLine::Task { name: "main", alive: true, is_last: false },
            ),
            (
                "\u{2514} DELETED: Pre-scheduler, CURRENT MEMORY USAGE 2236, PEAK MEMORY USAGE 2236, TOTAL HEAP USED 1:",
                StatsLine::Task { name: "Pre-scheduler", alive: false, is_last: true },
            ),
            (
                "\u{2502}    \u{2514} HEAP: RAM, CAPS: 0x0010580e, SIZE: 22308, USAGE: CURRENT 88 (0%), PEAK 7192 (32%), ALLOC COUNT: 5",
                StatsLine::TaskHeap {
                    name: "RAM",
                    capabilities: 0x10_580e,
                    size: 22308,
                    bytes: 88,
                    peak: 7192,
                    blocks: 5,
                },
            ),
            (
                "\u{2502}         \u{251c} ALLOC 0x3fce99f8, SIZE 20",
                StatsLine::TaskBlock { address: 0x3fce_99f8, size: 20 },
            ),
            (
                "  At 0x3ffb3210 len 183792 free 166372 allocated 15740 min_free 165372",
                StatsLine::Heap([0x3ffb_3210, 183_792, 166_372, 15740, 165_372]),
            ),
            (
                "    largest_free_block 163840 alloc_blocks 14 free_blocks 1 total_blocks 15",
                StatsLine::HeapMore([163_840, 14, 1]),
            ),
            (
                "Block 0x3ffb3468 data, size: 20 bytes, Free: No ",
                StatsLine::Block { address: 0x3ffb_3468, size: 20, is_free: false },
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(read(line), Some(expected), "{line}");
        }
        for line in ["", "Block 0x", "ALLOC 0x", "ALIVE: ", "HEAP: x, CAPS: y", "At 5 len", "\u{2502}\u{2502}\u{2502}"]
        {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
