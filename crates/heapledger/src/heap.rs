//! What the C library says of its heap.
#![forbid(unsafe_code)]

use crate::Error;

/// What the C library's heap holds, all arenas together. See [`heap_info`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapInfo {
    /// Bytes that it has from the system.
    pub system_bytes: usize,
    /// Bytes in blocks, with what it keeps in front of each; blocks that a thread has ready to be given out again are among them.
    pub in_use_bytes: usize,
    /// Bytes that it has from the system and nobody uses.
    pub free_bytes: usize,
    /// Bytes at the end of the main heap that it can give back: `malloc_trim` does.
    pub releasable_bytes: usize,
    /// Large blocks that each have a mapping of their own; they are in the figures above.
    pub mapped_blocks: usize,
    /// Bytes in these.
    pub mapped_bytes: usize,
}

/// What the C library says of its heap at this moment (`mallinfo2`): how much the program has taken from the system, and how much of that
/// is free. What `stats` counts is what the program asked for; the difference is what the heap costs beside it.
///
/// It asks each arena in turn and waits for its lock, so it is not for signal handlers; hooks may call it. The recorder's own memory is
/// not in it. It says the same under `heapledger run`.
///
/// ```
/// # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return Ok(()) }
/// let before = heapledger::heap_info()?;
/// let large = vec![0u8; 64 << 20];
/// let after = heapledger::heap_info()?;
/// assert!(after.in_use_bytes >= before.in_use_bytes + (64 << 20) && after.mapped_blocks > before.mapped_blocks);
/// assert_eq!(after.system_bytes, after.in_use_bytes + after.free_bytes);
/// # drop(large);
/// # Ok::<(), heapledger::Error>(())
/// ```
///
/// # Errors
/// [`Error::Library`] if the program's `malloc` is not that of glibc 2.33 or later, [`Error::Unsupported`] on other systems.
pub fn heap_info() -> Result<HeapInfo, Error> {
    here::heap_info()
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use super::HeapInfo;
    use crate::Error;
    use heapledger_process::c_heap::{self, CHeap};
    use heapledger_process::ways::OurMalloc;

    pub(super) fn heap_info() -> Result<HeapInfo, Error> {
        let CHeap { system_bytes, in_use_bytes, free_bytes, releasable_bytes, mapped_blocks, mapped_bytes } =
            c_heap::info(OurMalloc::Answers).ok_or(Error::Library)?;
        Ok(HeapInfo { system_bytes, in_use_bytes, free_bytes, releasable_bytes, mapped_blocks, mapped_bytes })
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod here {
    use super::HeapInfo;
    use crate::Error;

    pub(super) fn heap_info() -> Result<HeapInfo, Error> {
        Err(Error::Unsupported)
    }
}
