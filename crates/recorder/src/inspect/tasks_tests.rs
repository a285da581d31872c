//! Tests of what is told of tasks, and of its text.

use super::tasks::{self, AllocationStat, Arrays, Counts, HeapStat, OwnedBlock, TaskStat, Tasks, known};
use super::tasks_text::{overview, tree_allocation, tree_heap, tree_task};
use super::text::tests::written;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

#[derive(Default)]
struct Books {
    /// Names; one that is empty is not asked for.
    tasks: Vec<&'static str>,
    heaps: Vec<&'static str>,
    /// Task, heap, address, bytes.
    blocks: Vec<(Option<usize>, usize, usize, usize)>,
    peaks: Vec<(Option<usize>, usize, usize)>,
    taskless: bool,
}

impl Tasks for Books {
    fn task_count(&self) -> usize {
        self.tasks.len()
    }
    fn heap_count(&self) -> usize {
        self.heaps.len()
    }
    fn task(&self, place: usize) -> Option<TaskStat> {
        let name = self.tasks.get(place).filter(|name| !name.is_empty())?;
        Some(TaskStat { name: tasks::named(name.as_bytes()), id: place as u32, is_alive: 1, ..TaskStat::NONE })
    }
    fn wants_taskless(&self) -> bool {
        self.taskless
    }
    fn taskless_id(&self) -> u32 {
        u32::MAX
    }
    fn heap(&self, place: usize) -> HeapStat {
        let name = tasks::named(self.heaps[place].as_bytes());
        HeapStat { name, heap: place as i32, heap_bytes: 1000, known: known::SIZE, ..HeapStat::NONE }
    }
    fn each_block(&self, tell: &mut dyn FnMut(&OwnedBlock)) {
        // In an order of its own: numbers are the order of allocation.
        for (number, (task, heap, address, bytes)) in self.blocks.iter().enumerate().rev() {
            let allocation = AllocationStat { address: *address, bytes: *bytes, number: number as u64 };
            tell(&OwnedBlock { task: *task, heap: *heap, allocation });
        }
    }
    fn each_peak(&self, tell: &mut dyn FnMut(Option<usize>, usize, usize)) {
        self.peaks.iter().for_each(|(task, heap, bytes)| tell(*task, *heap, *bytes));
    }
}

struct Filled {
    tasks: Vec<TaskStat>,
    heaps: Vec<HeapStat>,
    allocations: Vec<AllocationStat>,
    used: Counts,
    there: Counts,
}

fn filled(books: &Books, room: [usize; 3]) -> Filled {
    let mut tasks = vec![TaskStat::NONE; room[0]];
    let mut heaps = vec![HeapStat::NONE; room[1]];
    let mut allocations = vec![AllocationStat::NONE; room[2]];
    let mut cells = vec![tasks::Cell::default(); tasks::cells(books)];
    let mut arrays = Arrays { tasks: &mut tasks, heaps: &mut heaps, allocations: &mut allocations };
    let (used, there) = tasks::fill(books, &mut cells, &mut arrays);
    Filled { tasks, heaps, allocations, used, there }
}

/// Three tasks and what belongs to none; each but the second has two heaps.
fn books() -> Books {
    let blocks = vec![
        (Some(0), 0, 0x100, 10),
        (None, 1, 0x200, 7),
        (Some(2), 1, 0x300, 30),
        (Some(0), 1, 0x400, 5),
        (Some(0), 0, 0x500, 20),
        (Some(2), 0, 0x600, 1),
    ];
    Books { tasks: vec!["a", "b", "c"], heaps: vec!["X", "Y"], blocks, taskless: true, ..Books::default() }
}

#[test]
fn tasks_heaps_and_blocks_are_summed_and_ordered() {
    let all = filled(&books(), [9, 9, 9]);
    let counts = Counts { tasks: 4, heaps: 5, allocations: 6 };
    assert_eq!((all.used, all.there), (counts, counts));
    let tasks: Vec<_> = all.tasks[..4].iter().map(|task| (task.current_bytes, task.heap_count, task.id)).collect();
    assert_eq!(tasks, [(35, 2, 0), (0, 0, 1), (31, 2, 2), (7, 1, u32::MAX)]);
    assert_eq!(tasks::name_of(&all.tasks[3].name), b"Pre-scheduler");
    assert!(all.tasks[1].heaps.is_null());
    let first = all.tasks.iter().map(|task| task.heaps as usize).collect::<Vec<_>>();
    let heap_at = |index: usize| &raw const all.heaps[index] as usize;
    assert_eq!(first[..4], [heap_at(0), 0, heap_at(2), heap_at(4)]);
    let heaps: Vec<_> = all.heaps[..5].iter().map(|heap| (heap.current_bytes, heap.allocation_count)).collect();
    assert_eq!(heaps, [(30, 2), (5, 1), (1, 1), (30, 1), (7, 1)]);
    let addresses: Vec<_> = all.allocations[..6].iter().map(|block| block.address).collect();
    assert_eq!(addresses, [0x100, 0x500, 0x400, 0x600, 0x300, 0x200]);
    assert!(all.tasks.iter().all(|task| task.known == 0 && task.peak_bytes == 0), "no peak is invented");
    let overall: usize = all.heaps.iter().map(|heap| heap.current_bytes).sum();
    assert_eq!(overall, all.tasks.iter().map(|task| task.current_bytes).sum());
}

#[test]
fn what_finds_no_room_is_left_out_as_a_whole() {
    let there = Counts { tasks: 4, heaps: 5, allocations: 6 };
    let one_task = filled(&books(), [1, 9, 9]);
    assert_eq!((one_task.used, one_task.there), (Counts { tasks: 1, heaps: 2, allocations: 3 }, there));
    // The first task's heaps do not fit, the last one's does.
    let one_heap = filled(&books(), [9, 1, 9]);
    assert_eq!(one_heap.used, Counts { tasks: 4, heaps: 1, allocations: 1 });
    assert!(one_heap.tasks[0].heaps.is_null() && one_heap.tasks[0].heap_count == 2);
    assert!(!one_heap.tasks[3].heaps.is_null());
    // The first heap's two blocks do not fit, the second's does.
    let one_block = filled(&books(), [9, 9, 1]);
    assert_eq!(one_block.used, Counts { allocations: 1, ..there });
    assert!(one_block.heaps[0].allocations.is_null() && one_block.heaps[0].allocation_count == 2);
    assert!(!one_block.heaps[1].allocations.is_null() && one_block.allocations[0].address == 0x400);
    let nothing = filled(&books(), [0, 0, 0]);
    assert_eq!((nothing.used, nothing.there), (Counts::default(), there));
}

#[test]
fn peaks_are_told_where_they_are_kept() {
    let peaks = vec![(Some(0), 0, 100), (Some(0), 1, 3), (Some(1), 1, 50), (None, 1, 8)];
    let all = filled(&Books { peaks, ..books() }, [9, 9, 9]);
    let tasks: Vec<_> = all.tasks[..4].iter().map(|task| (task.peak_bytes, task.known, task.heap_count)).collect();
    // Never below what is live; a task that has freed all is known to have met a heap.
    assert_eq!(tasks, [(105, known::PEAK_AT_MOST, 2), (50, known::PEAK, 1), (0, 0, 2), (8, known::PEAK, 1)]);
    let freed = all.heaps[2];
    assert!(freed.allocations.is_null() && freed.allocation_count == 0 && freed.peak_bytes == 50);
}

#[test]
fn one_task_can_be_asked_for() {
    let only = Books { tasks: vec!["", "", "c"], taskless: false, ..books() };
    let counts = Counts { tasks: 1, heaps: 2, allocations: 2 };
    assert_eq!(filled(&only, [9, 9, 9]).used, counts);
    assert_eq!(filled(&Books::default(), [9, 9, 9]).used, Counts::default());
}

#[test]
fn many_blocks_are_in_the_order_of_allocation() {
    let blocks = (0..500).map(|block| (Some(0), 0, 1 + block * 7919 % 500, 1)).collect();
    let all = filled(&Books { tasks: vec!["a"], heaps: vec!["X"], blocks, ..Books::default() }, [1, 1, 500]);
    assert!(all.allocations.is_sorted_by_key(|block| block.number));
    assert_eq!(all.used.allocations, 500);
}

fn task(name: &str, current: usize, peak: usize, heaps: usize) -> TaskStat {
    TaskStat {
        name: tasks::named(name.as_bytes()),
        is_alive: 1,
        current_bytes: current,
        peak_bytes: peak,
        heap_count: heaps,
        known: known::PEAK,
        ..TaskStat::NONE
    }
}

#[test]
fn the_table_has_the_form_of_esp_idf() {
    let rows = [
        task("main", 3860, 7412, 2),
        TaskStat { is_alive: 0, ..task("x", 0, 1, 1) },
        task("fifteen letters", 1, 2, 3),
        TaskStat { known: 0, ..task("sixteen letters!", 1, 0, 3) },
    ];
    let head = "┌────────────────────┬─────────┬──────────────────────┬───────────────────┬─────────────────┐\n\
                │ TASK               │ STATUS  │ CURRENT MEMORY USAGE │ PEAK MEMORY USAGE │ TOTAL HEAP USED │\n\
                ├────────────────────┼─────────┼──────────────────────┼───────────────────┼─────────────────┤\n"
        .to_string();
    let foot = "└────────────────────┴─────────┴──────────────────────┴───────────────────┴─────────────────┘\n";
    let body = "│               main │ ALIVE   │                 3860 │              7412 │               2 │\n\
                │                  x │ DELETED │                    0 │                 1 │               1 │\n\
                │    fifteen letters │ ALIVE   │                    1 │                 2 │               3 │\n\
                │   sixteen letters! │ ALIVE   │                    1 │                 - │               3 │\n";
    assert_eq!(written(|text| overview(text, &rows)), head.clone() + body + foot);
    assert_eq!(written(|text| overview(text, &[])), head + foot);
}

fn heap(bytes: usize, current: usize, peak: usize, count: usize) -> HeapStat {
    HeapStat {
        name: tasks::named(b"RAM"),
        capabilities: 0x0010_580e,
        heap_bytes: bytes,
        current_bytes: current,
        peak_bytes: peak,
        allocation_count: count,
        known: known::PEAK,
        ..HeapStat::NONE
    }
}

#[test]
fn the_tree_has_the_form_of_esp_idf() {
    let block = |address, bytes| AllocationStat { address, bytes, number: 0 };
    let text = written(|text| {
        tree_task(text, &task("main", 308, 7412, 2), false);
        tree_heap(text, &heap(344_400, 220, 220, 2), [false, false]);
        tree_allocation(text, &block(0x3fc9_9024, 88), [false, false]);
        tree_allocation(text, &block(0x3fc9_9124, 132), [false, false]);
        tree_heap(text, &heap(22_308, 88, 7192, 5), [false, true]);
        tree_allocation(text, &block(0x3fce_99f8, 20), [false, true]);
        tree_task(text, &task("Pre-scheduler", 2236, 2236, 1), true);
        tree_heap(text, &heap(344_400, 2236, 2236, 11), [true, true]);
        tree_allocation(text, &block(0x3fc9_5cb0, 164), [true, true]);
    });
    let expected: String = [
        "├ ALIVE: main, CURRENT MEMORY USAGE 308, PEAK MEMORY USAGE 7412, TOTAL HEAP USED 2:",
        "│    ├ HEAP: RAM, CAPS: 0x0010580e, SIZE: 344400, USAGE: CURRENT 220 (0%), PEAK 220 (0%), ALLOC COUNT: 2",
        "│    │    ├ ALLOC 0x3fc99024, SIZE 88",
        "│    │    ├ ALLOC 0x3fc99124, SIZE 132",
        "│    └ HEAP: RAM, CAPS: 0x0010580e, SIZE: 22308, USAGE: CURRENT 88 (0%), PEAK 7192 (32%), ALLOC COUNT: 5",
        "│         ├ ALLOC 0x3fce99f8, SIZE 20",
        "└ ALIVE: Pre-scheduler, CURRENT MEMORY USAGE 2236, PEAK MEMORY USAGE 2236, TOTAL HEAP USED 1:",
        "     └ HEAP: RAM, CAPS: 0x0010580e, SIZE: 344400, USAGE: CURRENT 2236 (0%), PEAK 2236 (0%), ALLOC COUNT: 11",
        "          ├ ALLOC 0x3fc95cb0, SIZE 164",
    ]
    .iter()
    .flat_map(|line| [*line, "\n"])
    .collect();
    assert_eq!(text, expected);
}

#[test]
fn percent_are_rounded_down_and_never_invented() {
    let line = |heap: &HeapStat| written(|text| tree_heap(text, heap, [true, true]));
    assert!(line(&heap(1000, 999, 1000, 1)).contains("CURRENT 999 (99%), PEAK 1000 (100%)"));
    assert!(line(&HeapStat { known: 0, ..heap(0, 5, 0, 1) }).contains("SIZE: 0, USAGE: CURRENT 5 (-%), PEAK - (-%)"));
    let gone = TaskStat { is_alive: 0, known: 0, ..task("x", 5, 0, 1) };
    let text = written(|text| tree_task(text, &gone, true));
    assert_eq!(text, "└ DELETED: x, CURRENT MEMORY USAGE 5, PEAK MEMORY USAGE -, TOTAL HEAP USED 1:\n");
}
