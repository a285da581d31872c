//! Tasks as ESP-IDF prints them, byte for byte: a table, and a tree with heaps and blocks. A peak that is not known is a dash.

use super::tasks::{AllocationStat, HeapStat, TaskStat, known, name_of};
use super::text::{Sink, Writer};

/// Columns of the table.
const COLUMNS: [usize; 5] = [18, 7, 20, 17, 15];

/// The table of some tasks.
pub fn overview<S: Sink>(text: &mut Writer<S>, tasks: &[TaskStat]) {
    rule(text, ["┌", "┬", "┐"]);
    text.push(
        "│ TASK               │ STATUS  │ CURRENT MEMORY USAGE │ PEAK MEMORY USAGE │ TOTAL HEAP USED │\n".as_bytes(),
    );
    rule(text, ["├", "┼", "┤"]);
    let [name, _, current, peak, heaps] = COLUMNS;
    let bar = " │ ".as_bytes();
    for task in tasks {
        text.push("│ ".as_bytes()).right(name_of(&task.name), name);
        text.push(bar).push(if task.is_alive == 0 { b"DELETED" } else { b"ALIVE  " });
        text.push(bar).number(task.current_bytes as u64, current).push(bar);
        peak_of(text, task, peak);
        text.push(bar).number(task.heap_count as u64, heaps).push(" │\n".as_bytes());
    }
    rule(text, ["└", "┴", "┘"]);
}

fn rule<S: Sink>(text: &mut Writer<S>, [left, between, right]: [&str; 3]) {
    for (index, columns) in COLUMNS.iter().enumerate() {
        text.push(if index == 0 { left } else { between }.as_bytes());
        for _ in 0..columns.saturating_add(2) {
            text.push("─".as_bytes());
        }
    }
    text.push(right.as_bytes()).push(b"\n");
}

fn peak_of<S: Sink>(text: &mut Writer<S>, task: &TaskStat, columns: usize) {
    if task.known & (known::PEAK | known::PEAK_AT_MOST) == 0 {
        text.right(b"-", columns);
    } else {
        text.number(task.peak_bytes as u64, columns);
    }
}

/// The line of a task; its heaps follow, and theirs. The last one has another branch.
pub fn tree_task<S: Sink>(text: &mut Writer<S>, task: &TaskStat, is_last: bool) {
    text.push(branch(is_last)).push(if task.is_alive == 0 { b"DELETED: " } else { b"ALIVE: " });
    text.push(name_of(&task.name)).push(b", CURRENT MEMORY USAGE ").number(task.current_bytes as u64, 0);
    text.push(b", PEAK MEMORY USAGE ");
    peak_of(text, task, 0);
    text.push(b", TOTAL HEAP USED ").number(task.heap_count as u64, 0).push(b":\n");
}

/// The line of a heap: whether its task is the last, and it itself.
pub fn tree_heap<S: Sink>(text: &mut Writer<S>, heap: &HeapStat, [is_last_task, is_last]: [bool; 2]) {
    text.push(stem(is_last_task)).push(branch(is_last)).push(b"HEAP: ").push(name_of(&heap.name));
    text.push(b", CAPS: ").address(heap.capabilities.into());
    text.push(b", SIZE: ").number(heap.heap_bytes as u64, 0).push(b", USAGE: CURRENT ");
    share(text, Some(heap.current_bytes), heap);
    text.push(b", PEAK ");
    share(text, (heap.known & known::PEAK != 0).then_some(heap.peak_bytes), heap);
    text.push(b", ALLOC COUNT: ").number(heap.allocation_count as u64, 0).push(b"\n");
}

/// The line of a block: whether its task is the last, and its heap. None has the branch of the last.
pub fn tree_allocation<S: Sink>(text: &mut Writer<S>, block: &AllocationStat, [is_last_task, is_last_heap]: [bool; 2]) {
    text.push(stem(is_last_task)).push(stem(is_last_heap)).push(branch(false)).push(b"ALLOC ");
    text.address(block.address as u64).push(b", SIZE ").number(block.bytes as u64, 0).push(b"\n");
}

fn branch(is_last: bool) -> &'static [u8] {
    if is_last { "└ " } else { "├ " }.as_bytes()
}

fn stem(is_last: bool) -> &'static [u8] {
    if is_last { "     " } else { "│    " }.as_bytes()
}

/// Bytes, and how many of a hundred of the heap's.
fn share<S: Sink>(text: &mut Writer<S>, bytes: Option<usize>, heap: &HeapStat) {
    let Some(bytes) = bytes else {
        text.push(b"- (-%)");
        return;
    };
    text.number(bytes as u64, 0).push(b" (");
    match (bytes as u64).saturating_mul(100).checked_div(heap.heap_bytes as u64) {
        Some(percent) => text.number(percent, 0),
        None => text.push(b"-"),
    };
    text.push(b"%)");
}
