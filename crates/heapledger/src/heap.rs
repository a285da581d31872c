//! What the C library says of its heap.

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
    use core::mem::transmute;
    use core::sync::atomic::{AtomicUsize, Ordering};
    use heapledger_process::ways;

    /// `struct mallinfo2` of glibc's `malloc.h`.
    #[repr(C)]
    struct Figures {
        /// From the system, but for mappings.
        arena: usize,
        ordblks: usize,
        smblks: usize,
        hblks: usize,
        hblkhd: usize,
        usmblks: usize,
        fsmblks: usize,
        uordblks: usize,
        fordblks: usize,
        keepcost: usize,
    }

    type Function = extern "C" fn() -> Figures;

    /// Where `mallinfo2` is: 0 before somebody has looked, 1 if it is not to be had.
    static FUNCTION: AtomicUsize = AtomicUsize::new(UNKNOWN);
    const UNKNOWN: usize = 0;
    const NONE: usize = 1;

    /// The C library's, if it is that one whose `malloc` answers the program's calls.
    fn find() -> Option<usize> {
        let module = ways::answering_module()?;
        let is_glibc = module.name().to_bytes().ends_with(b"/libc.so.6");
        is_glibc.then(|| module.symbol(b"mallinfo2")).flatten().map(|symbol| symbol.address)
    }

    fn function() -> Option<Function> {
        let mut address = FUNCTION.load(Ordering::Relaxed);
        if address == UNKNOWN {
            address = find().unwrap_or(NONE);
            FUNCTION.store(address, Ordering::Relaxed);
        }
        // SAFETY: it is the address of glibc's function of that name, which takes nothing and returns such figures, and stays loaded.
        (address != NONE).then(|| unsafe { transmute::<usize, Function>(address) })
    }

    pub(super) fn heap_info() -> Result<HeapInfo, Error> {
        let figures = function().ok_or(Error::Library)?();
        Ok(HeapInfo {
            system_bytes: figures.arena.wrapping_add(figures.hblkhd),
            in_use_bytes: figures.uordblks.wrapping_add(figures.hblkhd),
            free_bytes: figures.fordblks,
            releasable_bytes: figures.keepcost,
            mapped_blocks: figures.hblks,
            mapped_bytes: figures.hblkhd,
        })
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
