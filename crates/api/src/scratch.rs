//! Memory for the time of a call: from the kernel, so that nothing is allocated where allocations are asked about.

use crate::error::ApiError;
use core::marker::PhantomData;
use heapledger_linux::syscall;
use heapledger_recorder::inspect::tasks::{AllocationStat, Cell, HeapStat, TaskStat};

/// All zeros are a value.
///
/// # Safety
/// It must be true.
pub(crate) unsafe trait Zeros {}
// SAFETY: numbers only.
unsafe impl Zeros for [u32; 2] {}
// SAFETY: numbers only.
unsafe impl Zeros for Cell {}
// SAFETY: numbers only.
unsafe impl Zeros for AllocationStat {}
// SAFETY: numbers, and a pointer that may be null.
unsafe impl Zeros for HeapStat {}
// SAFETY: as that.
unsafe impl Zeros for TaskStat {}

/// So many values, zeros at first.
pub(crate) struct Scratch<T> {
    first: *mut u8,
    count: usize,
    of: PhantomData<T>,
}

impl<T: Zeros> Scratch<T> {
    /// Room for them.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn new(count: usize) -> Result<Scratch<T>, ApiError> {
        let bytes = count.checked_mul(size_of::<T>()).ok_or(ApiError::NO_ROOM)?;
        let first = syscall::map_anonymous(bytes.max(1)).map_err(|_| ApiError::NO_ROOM)?;
        Ok(Scratch { first, count, of: PhantomData })
    }

    /// The values.
    pub(crate) fn all(&mut self) -> &mut [T] {
        // SAFETY: mapped for so many, which all zeros are values of, and lent by whoever owns it alone.
        unsafe { core::slice::from_raw_parts_mut(self.first.cast(), self.count) }
    }
}

impl<T> Drop for Scratch<T> {
    fn drop(&mut self) {
        // SAFETY: mapped with so many bytes; nobody else knows of it.
        unsafe { syscall::unmap(self.first, self.count.wrapping_mul(size_of::<T>()).max(1)) };
    }
}
