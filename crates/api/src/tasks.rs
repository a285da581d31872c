//! What tasks hold, threads as they are here: figures in arrays of the program's, and text.

use crate::error::{ApiError, answer};
use crate::output::{Output, written};
use crate::recording::recorder;
use crate::scratch::Scratch;
use core::ffi::{c_int, c_uint};
use heapledger_linux::syscall;
use heapledger_process::walk::BlockFacts;
use heapledger_process::ways::Way;
use heapledger_recorder::inspect::tasks::{
    self, AllocationStat, Arrays, Counts, HeapStat, OwnedBlock, TaskStat, Tasks, known,
};
use heapledger_recorder::inspect::{tasks_text, text};

/// In place of a task's number: blocks whose task nobody knows.
pub const NO_TASK: c_uint = c_uint::MAX;
/// Tasks that are gone are left out.
pub const ALIVE_ONLY: c_uint = 1;
/// Most rows of heaps.
const HEAPS_MAX: u32 = 256;
/// Most rows of threads.
const TASKS_MAX: u32 = 1 << 16;

/// What is known of figures.
pub const KNOWN: &[(&str, c_int)] =
    &[("PEAK", known::PEAK as c_int), ("PEAK_AT_MOST", known::PEAK_AT_MOST as c_int), ("SIZE", known::SIZE as c_int)];

/// The program's arrays: how much room there is, then how much is filled.
#[derive(Debug)]
#[repr(C)]
pub struct TaskArrays {
    /// Bytes of this structure, as the caller knows it.
    pub size: usize,
    /// [`ALIVE_ONLY`].
    pub options: c_uint,
    /// Nothing yet.
    pub spare: c_uint,
    /// Tasks.
    pub task_count: usize,
    /// Room for these.
    pub tasks: *mut TaskStat,
    /// Heaps of all tasks.
    pub heap_count: usize,
    /// Room for these.
    pub heaps: *mut HeapStat,
    /// Blocks of all heaps.
    pub allocation_count: usize,
    /// Room for these.
    pub allocations: *mut AllocationStat,
    /// How many there are, however much room there was.
    pub there: [usize; 3],
}

const _: () = assert!(size_of::<TaskArrays>() == 88 && size_of::<TaskStat>() == 88);
const _: () = assert!(size_of::<HeapStat>() == 88 && size_of::<AllocationStat>() == 24);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All { alive_only: bool },
    Row(u32),
    Taskless,
}

/// Threads and heaps as places of arrays: the rows that they have.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) way: &'static Way,
    which: Which,
    tasks: u32,
    heaps: u32,
}

impl Rows {
    fn of(way: &'static Way, which: Which) -> Rows {
        Rows {
            way,
            which,
            tasks: count(TASKS_MAX, |row| way.thread_facts(row).is_ok()),
            heaps: count(HEAPS_MAX, |row| way.heap_facts(row).is_ok()),
        }
    }

    pub(crate) fn all(way: &'static Way) -> Rows {
        Rows::of(way, Which::All { alive_only: false })
    }

    /// The task of a number; `None`: it is a thread that has never been seen.
    fn one(way: &'static Way, id: c_uint) -> Result<Option<Rows>, ApiError> {
        let which = match id {
            0 => Which::Row(way.own_row()?),
            NO_TASK => Which::Taskless,
            _ => {
                let rows = Rows::all(way);
                let of_id =
                    |row: u32| way.thread_facts(row).ok().filter(|facts| facts.id == id).map(|facts| (row, facts));
                // Numbers are used again: the one that is there, else the last that was.
                let found = (0..rows.tasks).rev().filter_map(of_id).max_by_key(|(row, facts)| (facts.is_alive, *row));
                match found {
                    Some((row, _)) => Which::Row(row),
                    None if syscall::thread_exists(syscall::getpid(), id) => return Ok(None),
                    None => return Err(ApiError::UNKNOWN),
                }
            }
        };
        Ok(Some(Rows::of(way, which)))
    }

    /// How many rows of threads there are.
    pub(crate) fn task_rows(&self) -> usize {
        self.tasks as usize
    }

    pub(crate) fn each(&self, mut tell: impl FnMut(&BlockFacts)) {
        let mut from = 0;
        while let Some((slot, block)) = self.way.next_record(from) {
            tell(&block);
            from = slot.wrapping_add(1);
        }
    }

    /// Fills the arrays: how much is filled, and how much there is.
    fn fill(&self, mut arrays: Arrays) -> Result<(Counts, Counts), ApiError> {
        let mut cells = Scratch::new(tasks::cells(self))?;
        Ok(tasks::fill(self, cells.all(), &mut arrays))
    }
}

/// How many rows there are: they are used one after the other.
fn count(most: u32, is_there: impl Fn(u32) -> bool) -> u32 {
    let (mut there, mut end) = (0, most);
    while there < end {
        let middle = there.midpoint(end);
        if is_there(middle) {
            there = middle.saturating_add(1);
        } else {
            end = middle;
        }
    }
    there
}

impl Tasks for Rows {
    fn task_count(&self) -> usize {
        self.tasks as usize
    }

    fn heap_count(&self) -> usize {
        self.heaps as usize
    }

    fn task(&self, place: usize) -> Option<TaskStat> {
        let row = place as u32;
        let is_asked_for = match self.which {
            Which::All { .. } => true,
            Which::Row(asked) => asked == row,
            Which::Taskless => false,
        };
        let facts = self.way.thread_facts(row).ok().filter(|_| is_asked_for)?;
        let is_alive = facts.is_alive as i32;
        let name = facts.name.split(|byte| *byte == 0).next().unwrap_or(&[]);
        let task = TaskStat { name: tasks::named(name), handle: facts.handle as usize, id: facts.id, ..TaskStat::NONE };
        let is_left_out = self.which == Which::All { alive_only: true } && is_alive == 0;
        (!is_left_out).then_some(TaskStat { is_alive, ..task })
    }

    fn wants_taskless(&self) -> bool {
        !matches!(self.which, Which::Row(_))
    }

    fn taskless_id(&self) -> u32 {
        NO_TASK
    }

    fn heap(&self, place: usize) -> HeapStat {
        let Ok(facts) = self.way.heap_facts(place as u32) else { return HeapStat::NONE };
        // Of a heap that the program has not told of only what lies between its ends is known.
        let bytes = if facts.is_own == 0 { 0 } else { facts.range().len() };
        HeapStat {
            name: tasks::named(facts.name()),
            heap: place as i32,
            capabilities: facts.capabilities,
            heap_bytes: bytes,
            known: if bytes == 0 { 0 } else { known::SIZE },
            ..HeapStat::NONE
        }
    }

    fn each_block(&self, tell: &mut dyn FnMut(&OwnedBlock)) {
        self.each(|block| {
            let allocation =
                AllocationStat { address: block.address as usize, bytes: block.bytes as usize, number: block.number };
            let task = block.thread_plus_1.checked_sub(1).map(|row| row as usize);
            tell(&OwnedBlock { task, heap: block.heap as usize, allocation });
        });
    }

    fn each_peak(&self, tell: &mut dyn FnMut(Option<usize>, usize, usize)) {
        let accounts = (0..).map_while(|row| self.way.account_facts(row));
        for account in accounts {
            let task = account.thread_plus_1.checked_sub(1).map(|row| row as usize);
            tell(task, account.heap as usize, account.peak_bytes as usize);
        }
    }
}

/// An array of the program's.
///
/// # Safety
/// There must be room for so many.
pub(crate) unsafe fn array<'a, T>(first: *mut T, count: usize) -> Result<&'a mut [T], ApiError> {
    if count == 0 {
        return Ok(&mut []);
    }
    let fits = count.checked_mul(size_of::<T>()).is_some_and(|bytes| isize::try_from(bytes).is_ok());
    let is_room = !first.is_null() && first.is_aligned() && fits;
    // SAFETY: the caller's.
    if is_room { Ok(unsafe { core::slice::from_raw_parts_mut(first, count) }) } else { Err(ApiError::INVALID) }
}

/// # Safety
/// There must be a structure whose size stands in it, and the arrays that it says.
unsafe fn filled(
    into: *mut TaskArrays,
    which: impl FnOnce(&'static Way, c_uint) -> Result<Option<Rows>, ApiError>,
) -> Result<u32, ApiError> {
    if into.is_null() {
        return Err(ApiError::INVALID);
    }
    // SAFETY: it begins with its size.
    if unsafe { (*into).size } < size_of::<TaskArrays>() {
        return Err(ApiError::TOO_SMALL);
    }
    // SAFETY: it is all there.
    let into = unsafe { &mut *into };
    // SAFETY: the caller's.
    let arrays = unsafe {
        Arrays {
            tasks: array(into.tasks, into.task_count)?,
            heaps: array(into.heaps, into.heap_count)?,
            allocations: array(into.allocations, into.allocation_count)?,
        }
    };
    let (used, there) = match which(recorder()?, into.options)? {
        Some(rows) => rows.fill(arrays)?,
        None => unseen(arrays),
    };
    (into.task_count, into.heap_count, into.allocation_count) = (used.tasks, used.heaps, used.allocations);
    into.there = [there.tasks, there.heaps, there.allocations];
    Ok(0)
}

/// A thread that has never allocated.
fn unseen(arrays: Arrays) -> (Counts, Counts) {
    let one = Counts { tasks: 1, ..Counts::default() };
    match arrays.tasks.first_mut() {
        Some(task) => {
            *task = TaskStat { is_alive: 1, ..TaskStat::NONE };
            (one, one)
        }
        None => (Counts::default(), one),
    }
}

fn all_of(way: &'static Way, options: c_uint) -> Rows {
    Rows::of(way, Which::All { alive_only: options & ALIVE_ONLY != 0 })
}

/// What all tasks hold.
///
/// # Safety
/// There must be a structure whose size stands in it, and the arrays that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_all_tasks(into: *mut TaskArrays) -> c_int {
    // SAFETY: the caller's.
    answer(unsafe { filled(into, |way, options| Ok(Some(all_of(way, options)))) })
}

/// What one task holds: of a number, or the calling one.
///
/// # Safety
/// There must be a structure whose size stands in it, and the arrays that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_one_task(id: c_uint, into: *mut TaskArrays) -> c_int {
    // SAFETY: the caller's.
    answer(unsafe { filled(into, |way, _| Rows::one(way, id)) })
}

/// # Safety
/// An output must be there, or null.
unsafe fn printed(rows: &Rows, is_tree: bool, output: *const Output) -> Result<u32, ApiError> {
    let nothing = Arrays { tasks: &mut [], heaps: &mut [], allocations: &mut [] };
    let (_, there) = rows.fill(nothing)?;
    // Others go on meanwhile.
    let room = |count: usize| count.saturating_add(count / 8).saturating_add(16);
    let (mut tasks, mut heaps) = (Scratch::<TaskStat>::new(room(there.tasks))?, Scratch::new(room(there.heaps))?);
    let mut blocks = Scratch::new(if is_tree { room(there.allocations) } else { 0 })?;
    let arrays = Arrays { tasks: tasks.all(), heaps: heaps.all(), allocations: blocks.all() };
    let (used, _) = rows.fill(arrays)?;
    let (heaps, blocks) = (heaps.all(), blocks.all());
    let tasks = tasks.all().get(..used.tasks).unwrap_or(&[]);
    let write = |text: &mut text::Writer<_>| {
        if is_tree { tree(text, tasks, heaps, blocks) } else { tasks_text::overview(text, tasks) }
    };
    // SAFETY: the caller's.
    unsafe { written(output, write) }
}

/// Arrays as they were filled: what has found room lies one after the other.
fn tree<S: text::Sink>(
    text: &mut text::Writer<S>,
    tasks: &[TaskStat],
    mut heaps: &[HeapStat],
    blocks: &[AllocationStat],
) {
    let first_block = blocks.as_ptr() as usize;
    for (place, task) in tasks.iter().enumerate() {
        let is_last_task = place.saturating_add(1) == tasks.len();
        tasks_text::tree_task(text, task, is_last_task);
        let count = if task.heaps.is_null() { 0 } else { task.heap_count };
        let (own, rest) = heaps.split_at_checked(count).unwrap_or((&[], &[]));
        heaps = rest;
        for (place, heap) in own.iter().enumerate() {
            let is_last = place.saturating_add(1) == own.len();
            tasks_text::tree_heap(text, heap, [is_last_task, is_last]);
            if heap.allocations.is_null() {
                continue;
            }
            let bytes = (heap.allocations as usize).saturating_sub(first_block);
            let first = bytes.checked_div(size_of::<AllocationStat>()).unwrap_or(0);
            let own = blocks.get(first..first.saturating_add(heap.allocation_count)).unwrap_or(&[]);
            own.iter().for_each(|block| tasks_text::tree_allocation(text, block, [is_last_task, is_last]));
        }
    }
}

/// # Safety
/// An output must be there, or null.
unsafe fn all_printed(options: c_uint, is_tree: bool, output: *const Output) -> c_int {
    // SAFETY: the caller's.
    answer(recorder().and_then(|way| unsafe { printed(&all_of(way, options), is_tree, output) }))
}

/// # Safety
/// An output must be there, or null.
unsafe fn one_printed(id: c_uint, is_tree: bool, output: *const Output) -> c_int {
    let rows = recorder().and_then(|way| Rows::one(way, id)).and_then(|rows| rows.ok_or(ApiError::UNKNOWN));
    // SAFETY: the caller's.
    answer(rows.and_then(|rows| unsafe { printed(&rows, is_tree, output) }))
}

/// Prints a tree of all tasks, their heaps and blocks.
///
/// # Safety
/// An output must be there, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_all_tasks_print(options: c_uint, output: *const Output) -> c_int {
    // SAFETY: the caller's.
    unsafe { all_printed(options, true, output) }
}

/// The same of one task.
///
/// # Safety
/// An output must be there, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_one_task_print(id: c_uint, output: *const Output) -> c_int {
    // SAFETY: the caller's.
    unsafe { one_printed(id, true, output) }
}

/// Prints a table of all tasks.
///
/// # Safety
/// An output must be there, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_all_tasks_overview(options: c_uint, output: *const Output) -> c_int {
    // SAFETY: the caller's.
    unsafe { all_printed(options, false, output) }
}

/// The same of one task.
///
/// # Safety
/// An output must be there, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_one_task_overview(id: c_uint, output: *const Output) -> c_int {
    // SAFETY: the caller's.
    unsafe { one_printed(id, false, output) }
}
