//! Totals of tasks by classes of heaps, and their blocks: what ESP-IDF's first functions of this kind say.

use crate::error::{ApiError, answer};
use crate::recording::recorder;
use crate::scratch::Scratch;
use crate::tasks::{NO_TASK, Rows, array};
use core::ffi::{c_int, c_uint};

/// Classes of heaps.
pub const CLASSES: usize = 4;

/// What a task holds of each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TaskTotals {
    /// Its number.
    pub task: c_uint,
    /// Nothing yet.
    pub spare: c_uint,
    /// Bytes asked for.
    pub bytes: [usize; CLASSES],
    /// Blocks.
    pub count: [usize; CLASSES],
}

/// A block of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TaskBlock {
    /// Where it begins.
    pub address: usize,
    /// Bytes asked for.
    pub bytes: usize,
    /// The task's number.
    pub task: c_uint,
    /// Nothing yet.
    pub spare: c_uint,
}

/// What is asked.
#[derive(Debug)]
#[repr(C)]
pub struct TaskInfo {
    /// Bytes of this structure, as the caller knows it.
    pub size: usize,
    /// A heap is of the first class whose capabilities it has, of those that the mask lets through; of none: it is left out.
    pub capabilities: [c_uint; CLASSES],
    /// See above.
    pub masks: [c_uint; CLASSES],
    /// Tasks whose blocks are asked for; null: all.
    pub tasks: *const c_uint,
    /// How many.
    pub task_count: usize,
    /// Room for totals.
    pub totals: *mut TaskTotals,
    /// How many are there already: they stay where they are, and begin at 0.
    pub total_count: usize,
    /// For how many there is room.
    pub totals_max: usize,
    /// Room for blocks.
    pub blocks: *mut TaskBlock,
    /// For how many.
    pub blocks_max: usize,
}

const _: () = assert!(size_of::<TaskInfo>() == 96 && size_of::<TaskTotals>() == 72 && size_of::<TaskBlock>() == 24);

/// A row of threads: the number of its task, and the place of its totals plus 1.
type Known = [c_uint; 2];

/// The totals of a task: those that are there, or new ones if there is room.
fn totals_of<'a>(
    totals: &'a mut [TaskTotals],
    used: &mut usize,
    [task, place_plus_1]: &mut Known,
) -> Option<&'a mut TaskTotals> {
    if *place_plus_1 == 0 {
        let known = totals.iter().take(*used).position(|one| one.task == *task);
        let place = match known {
            Some(place) => place,
            None => {
                *totals.get_mut(*used)? = TaskTotals { task: *task, ..TaskTotals::default() };
                let place = *used;
                *used = used.saturating_add(1);
                place
            }
        };
        *place_plus_1 = (place as c_uint).saturating_add(1);
    }
    totals.get_mut((*place_plus_1 as usize).saturating_sub(1))
}

/// Totals of tasks, and their blocks: gives how many of these were stored.
///
/// # Safety
/// There must be a structure whose size stands in it, and the arrays that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_task_totals(info: *mut TaskInfo) -> c_int {
    if info.is_null() {
        return ApiError::INVALID.0;
    }
    // SAFETY: it begins with its size.
    if unsafe { (*info).size } < size_of::<TaskInfo>() {
        return ApiError::TOO_SMALL.0;
    }
    // SAFETY: it is all there.
    let info = unsafe { &mut *info };
    // SAFETY: the caller's.
    let arrays = unsafe {
        array(info.totals, info.totals_max).and_then(|totals| Ok((totals, array(info.blocks, info.blocks_max)?)))
    };
    // SAFETY: the caller's.
    let wanted = unsafe { array(info.tasks.cast_mut(), if info.tasks.is_null() { 0 } else { info.task_count }) };
    answer(arrays.and_then(|(totals, blocks)| totalled(info, totals, blocks, wanted?)))
}

fn totalled(
    info: &mut TaskInfo,
    totals: &mut [TaskTotals],
    blocks: &mut [TaskBlock],
    wanted: &[c_uint],
) -> Result<u32, ApiError> {
    if info.total_count > totals.len() {
        return Err(ApiError::INVALID);
    }
    let rows = Rows::all(recorder()?);
    for one in totals.iter_mut().take(info.total_count) {
        *one = TaskTotals { task: one.task, ..TaskTotals::default() };
    }
    // Which class each heap is of.
    let mut classes = [None; 256];
    for (row, class) in (0..).zip(classes.iter_mut()) {
        let Ok(heap) = rows.way.heap_facts(row) else { break };
        let is_of = |(wanted, mask): (&c_uint, &c_uint)| heap.capabilities & mask == *wanted;
        *class = info.capabilities.iter().zip(&info.masks).position(is_of);
    }
    let mut known = Scratch::<Known>::new(rows.task_rows().saturating_add(1))?;
    let known = known.all();
    for (row, place) in (0..).zip(known.iter_mut()) {
        *place = [rows.way.thread_facts(row).map_or(NO_TASK, |facts| facts.id), 0];
    }
    let (mut stored, mut used) = (0usize, info.total_count);
    rows.each(|block| {
        let Some(class) = classes.get(block.heap as usize).copied().flatten() else { return };
        // The last place is of those without a row.
        let row = (block.thread_plus_1 as usize).checked_sub(1).unwrap_or(rows.task_rows());
        let Some(known) = known.get_mut(row) else { return };
        let [task, _] = *known;
        let bytes = block.bytes as usize;
        if let Some(of_task) = totals_of(totals, &mut used, known) {
            of_task.bytes.get_mut(class).into_iter().for_each(|sum| *sum = sum.saturating_add(bytes));
            of_task.count.get_mut(class).into_iter().for_each(|sum| *sum = sum.saturating_add(1));
        }
        let is_wanted = info.tasks.is_null() || wanted.contains(&task);
        if let Some(place) = blocks.get_mut(stored).filter(|_| is_wanted) {
            *place = TaskBlock { address: block.address as usize, bytes, task, spare: 0 };
            stored = stored.saturating_add(1);
        }
    });
    info.total_count = used;
    Ok(u32::try_from(stored).unwrap_or(u32::MAX))
}
