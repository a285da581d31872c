//! What each task holds of each heap: from its live blocks, in arrays of the caller's.
//!
//! A block is the task's that allocated it, until it is freed by whomever. Blocks whose task nobody knows are those of a task of their
//! own, that comes last.

use core::ptr;

/// The task of blocks that have none.
pub const NO_TASK_NAME: &[u8] = b"Pre-scheduler";
/// Bytes of names.
pub const NAME_BYTES: usize = 32;

/// What is known of figures.
pub mod known {
    /// The peak, exactly.
    pub const PEAK: u32 = 1;
    /// The peak is this or less: it is the sum of peaks in several heaps.
    pub const PEAK_AT_MOST: u32 = 2;
    /// Its heap's size.
    pub const SIZE: u32 = 4;
}

/// A block that is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct AllocationStat {
    /// Where it begins.
    pub address: usize,
    /// Bytes asked for.
    pub bytes: usize,
    /// The number of its allocation: they are in the order of these.
    pub number: u64,
}

/// What a task holds of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct HeapStat {
    /// Its name, ended by a zero byte.
    pub name: [u8; NAME_BYTES],
    /// Its number.
    pub heap: i32,
    /// Its capabilities.
    pub capabilities: u32,
    /// Its bytes, if they are [`known`].
    pub heap_bytes: usize,
    /// Bytes asked for in live blocks.
    pub current_bytes: usize,
    /// The most that was, if it is [`known`].
    pub peak_bytes: usize,
    /// Live blocks.
    pub allocation_count: usize,
    /// These, or null: there are none, or they did not all find room.
    pub allocations: *mut AllocationStat,
    /// What is [`known`].
    pub known: u32,
    /// Nothing yet.
    pub spare: u32,
}

/// What a task holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TaskStat {
    /// Its name, ended by a zero byte.
    pub name: [u8; NAME_BYTES],
    /// What the program knows it by.
    pub handle: usize,
    /// Its number.
    pub id: u32,
    /// 0: it is gone.
    pub is_alive: i32,
    /// Bytes asked for in its live blocks.
    pub current_bytes: usize,
    /// The most that was, if it is [`known`].
    pub peak_bytes: usize,
    /// Heaps of which it holds something, or held, as far as is known.
    pub heap_count: usize,
    /// These, or null: there are none, or they did not all find room.
    pub heaps: *mut HeapStat,
    /// What is [`known`].
    pub known: u32,
    /// Nothing yet.
    pub spare: u32,
}

impl AllocationStat {
    /// None.
    pub const NONE: AllocationStat = AllocationStat { address: 0, bytes: 0, number: 0 };
}

impl HeapStat {
    /// Of no heap.
    pub const NONE: HeapStat = HeapStat {
        name: [0; NAME_BYTES],
        heap: 0,
        capabilities: 0,
        heap_bytes: 0,
        current_bytes: 0,
        peak_bytes: 0,
        allocation_count: 0,
        allocations: ptr::null_mut(),
        known: 0,
        spare: 0,
    };
}

impl TaskStat {
    /// Of no task.
    pub const NONE: TaskStat = TaskStat {
        name: [0; NAME_BYTES],
        handle: 0,
        id: 0,
        is_alive: 0,
        current_bytes: 0,
        peak_bytes: 0,
        heap_count: 0,
        heaps: ptr::null_mut(),
        known: 0,
        spare: 0,
    };
}

/// A name that is ended by a zero byte.
pub fn name_of(name: &[u8; NAME_BYTES]) -> &[u8] {
    name.split(|byte| *byte == 0).next().unwrap_or(&[])
}

/// A name as it is kept.
pub fn named(name: &[u8]) -> [u8; NAME_BYTES] {
    let mut kept = [0; NAME_BYTES];
    kept.iter_mut().zip(name).take(NAME_BYTES.saturating_sub(1)).for_each(|(place, byte)| *place = *byte);
    kept
}

/// A block, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedBlock {
    /// Its task by its place; none.
    pub task: Option<usize>,
    /// Its heap by its place.
    pub heap: usize,
    /// The block.
    pub allocation: AllocationStat,
}

/// Where tasks, heaps and blocks are told of.
pub trait Tasks {
    /// How many tasks there are.
    fn task_count(&self) -> usize;
    /// How many heaps there are.
    fn heap_count(&self) -> usize;
    /// A task's name, handle, number, and whether it is there. `None`: it is not asked for.
    fn task(&self, place: usize) -> Option<TaskStat>;
    /// Whether blocks without a task are asked for.
    fn wants_taskless(&self) -> bool;
    /// The number of a task that stands for these.
    fn taskless_id(&self) -> u32;
    /// A heap's name, number, capabilities, and bytes if they are known.
    fn heap(&self, place: usize) -> HeapStat;
    /// Tells of all live blocks.
    fn each_block(&self, tell: &mut dyn FnMut(&OwnedBlock));
    /// Tells of the most that a task had of a heap, where that is kept.
    fn each_peak(&self, tell: &mut dyn FnMut(Option<usize>, usize, usize));
}

/// What is reckoned up of a task and a heap. All zeros at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cell {
    blocks: usize,
    bytes: usize,
    /// Plus 1; 0: it is not known.
    peak: usize,
    /// Where its blocks go, plus 1; 0: nowhere.
    first: usize,
    /// How many are there.
    filled: usize,
}

/// How many cells are needed.
pub fn cells(tasks: &impl Tasks) -> usize {
    tasks.task_count().saturating_add(1).saturating_mul(tasks.heap_count())
}

/// Tasks, heaps and allocations: so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tasks.
    pub tasks: usize,
    /// Of all tasks together.
    pub heaps: usize,
    /// Of all heaps together.
    pub allocations: usize,
}

/// The caller's arrays.
#[derive(Debug)]
pub struct Arrays<'a> {
    /// For tasks.
    pub tasks: &'a mut [TaskStat],
    /// For the heaps of each, one after the other.
    pub heaps: &'a mut [HeapStat],
    /// For the blocks of each.
    pub allocations: &'a mut [AllocationStat],
}

/// Fills the arrays with what is asked for, and says how much of them is filled, and how much there is. A task for which there is no
/// room is left out; so are the heaps of one if they do not all find room, and the blocks of a heap.
pub fn fill(tasks: &impl Tasks, cells: &mut [Cell], arrays: &mut Arrays) -> (Counts, Counts) {
    let heap_count = tasks.heap_count();
    let task_count = tasks.task_count();
    let place_of = |task: Option<usize>, heap: usize| {
        let task = task.unwrap_or(task_count).min(task_count);
        (heap < heap_count).then(|| task.saturating_mul(heap_count).saturating_add(heap))
    };
    tasks.each_block(&mut |block| {
        if let Some(cell) = place_of(block.task, block.heap).and_then(|place| cells.get_mut(place)) {
            cell.blocks = cell.blocks.saturating_add(1);
            cell.bytes = cell.bytes.saturating_add(block.allocation.bytes);
        }
    });
    tasks.each_peak(&mut |task, heap, bytes| {
        if let Some(cell) = place_of(task, heap).and_then(|place| cells.get_mut(place)) {
            cell.peak = cell.peak.max(bytes.saturating_add(1));
        }
    });
    let (mut used, mut there) = (Counts::default(), Counts::default());
    for place in 0..=task_count {
        let first = place.saturating_mul(heap_count);
        let row = cells.get_mut(first..first.saturating_add(heap_count)).unwrap_or(&mut []);
        let met = row.iter().filter(|cell| cell.has_met()).count();
        let task = if place < task_count { tasks.task(place) } else { taskless(tasks, met) };
        let Some(task) = task else { continue };
        there.tasks = there.tasks.saturating_add(1);
        there.heaps = there.heaps.saturating_add(met);
        there.allocations = row.iter().fold(there.allocations, |sum, cell| sum.saturating_add(cell.blocks));
        if let Some(stat) = arrays.tasks.get_mut(used.tasks) {
            used.tasks = used.tasks.saturating_add(1);
            *stat = with_sums(&task, row, met);
            fill_heaps(tasks, row, (met, stat), (arrays.heaps, arrays.allocations), &mut used);
        }
    }
    tasks.each_block(&mut |block| {
        let Some(cell) = place_of(block.task, block.heap).and_then(|place| cells.get_mut(place)) else { return };
        // One more than before is another time's.
        let Some(first) = cell.first.checked_sub(1).filter(|_| cell.filled < cell.blocks) else { return };
        if let Some(place) = arrays.allocations.get_mut(first.saturating_add(cell.filled)) {
            *place = block.allocation;
            cell.filled = cell.filled.saturating_add(1);
        }
    });
    let kept = cells.iter().filter(|cell| cell.first != 0);
    for cell in kept {
        let first = cell.first.saturating_sub(1);
        sort(arrays.allocations.get_mut(first..first.saturating_add(cell.filled)).unwrap_or(&mut []));
    }
    drop_what_has_gone(arrays, &used);
    (used, there)
}

fn taskless(tasks: &impl Tasks, met: usize) -> Option<TaskStat> {
    let is_asked_for = tasks.wants_taskless() && met > 0;
    is_asked_for.then(|| TaskStat { name: named(NO_TASK_NAME), id: tasks.taskless_id(), is_alive: 1, ..TaskStat::NONE })
}

impl Cell {
    fn has_met(&self) -> bool {
        self.blocks > 0 || self.peak > 0
    }

    /// The peak, and whether it is known.
    fn peak(&self) -> (usize, bool) {
        (self.peak.saturating_sub(1).max(self.bytes), self.peak != 0)
    }
}

fn with_sums(task: &TaskStat, row: &[Cell], met: usize) -> TaskStat {
    let sum = |of: fn(&Cell) -> usize| row.iter().map(of).fold(0usize, usize::saturating_add);
    let are_known = row.iter().filter(|cell| cell.has_met()).all(|cell| cell.peak().1) && met > 0;
    let known = match (are_known, met) {
        (true, 1) => known::PEAK,
        (true, _) => known::PEAK_AT_MOST,
        (false, _) => 0,
    };
    let peak_bytes = if are_known { sum(|cell| cell.peak().0) } else { 0 };
    TaskStat { current_bytes: sum(|cell| cell.bytes), peak_bytes, heap_count: met, known, ..*task }
}

fn fill_heaps(
    tasks: &impl Tasks,
    row: &mut [Cell],
    (met, stat): (usize, &mut TaskStat),
    (heaps, allocations): (&mut [HeapStat], &mut [AllocationStat]),
    used: &mut Counts,
) {
    let Some(places) = heaps.get_mut(used.heaps..used.heaps.saturating_add(met)).filter(|places| !places.is_empty())
    else {
        return;
    };
    stat.heaps = places.as_mut_ptr();
    used.heaps = used.heaps.saturating_add(met);
    let cells = row.iter_mut().enumerate().filter(|(_, cell)| cell.has_met());
    for (place, (heap, cell)) in places.iter_mut().zip(cells) {
        let ((peak_bytes, is_known), known) = (cell.peak(), tasks.heap(heap).known);
        let known = if is_known { known | known::PEAK } else { known };
        let peak_bytes = if is_known { peak_bytes } else { 0 };
        *place = HeapStat {
            current_bytes: cell.bytes,
            peak_bytes,
            allocation_count: cell.blocks,
            allocations: ptr::null_mut(),
            known,
            ..tasks.heap(heap)
        };
        let room = allocations.get_mut(used.allocations..used.allocations.saturating_add(cell.blocks));
        if let Some(room) = room.filter(|room| !room.is_empty()) {
            room.fill(AllocationStat::NONE);
            place.allocations = room.as_mut_ptr();
            cell.first = used.allocations.saturating_add(1);
            used.allocations = used.allocations.saturating_add(cell.blocks);
        }
    }
}

/// Blocks that were freed between counting and filling have left places empty: counts say how many are filled.
fn drop_what_has_gone(arrays: &mut Arrays, used: &Counts) {
    let mut first = 0usize;
    for heap in arrays.heaps.iter_mut().take(used.heaps).filter(|heap| !heap.allocations.is_null()) {
        let end = first.saturating_add(heap.allocation_count);
        let places = arrays.allocations.get(first..end).unwrap_or(&[]);
        heap.allocation_count = places.iter().filter(|place| place.address != 0).count();
        if heap.allocation_count == 0 {
            heap.allocations = ptr::null_mut();
        }
        first = end;
    }
}

/// By the order of allocation. A heap sort: it needs no memory.
fn sort(allocations: &mut [AllocationStat]) {
    let count = allocations.len();
    for root in (0..count / 2).rev() {
        sift(allocations, root, count);
    }
    for end in (1..count).rev() {
        swap(allocations, 0, end);
        sift(allocations, 0, end);
    }
}

/// Both are below the length; what looks at it again could panic.
fn swap(allocations: &mut [AllocationStat], one: usize, other: usize) {
    if let (Some(a), Some(b)) = (allocations.get(one).copied(), allocations.get(other).copied()) {
        allocations.get_mut(one).into_iter().for_each(|place| *place = b);
        allocations.get_mut(other).into_iter().for_each(|place| *place = a);
    }
}

fn sift(allocations: &mut [AllocationStat], mut root: usize, end: usize) {
    let number = |allocations: &[AllocationStat], place: usize| allocations.get(place).map_or(0, |one| one.number);
    loop {
        let left = root.saturating_mul(2).saturating_add(1);
        if left >= end {
            return;
        }
        let right = left.saturating_add(1);
        let is_right = right < end && number(allocations, right) > number(allocations, left);
        let child = if is_right { right } else { left };
        if number(allocations, child) <= number(allocations, root) {
            return;
        }
        swap(allocations, root, child);
        root = child;
    }
}
