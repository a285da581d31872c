//! The ledger's file as memory: one mapping of a sparse file, in which no page is written before
//! storage was reserved for it.
//!
//! A store into an unbacked page of a full tmpfs or disk would be SIGBUS inside malloc. So pages
//! are made present with `MADV_POPULATE_WRITE` (Linux 5.14), which fails instead. It needs no file
//! descriptor, hence keeps working in a program that closed them all, changed its root or its
//! user. Until then pages are mapped without access, so that `mlockall` passes them over. On older kernels the file is opened again by its path, compared with what was mapped, and
//! `fallocate` is asked.

use crate::syscall::{self, Errno, FileIdentity, advice, open_flag};
use crate::text::Text;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Longest path of a ledger.
pub const PATH_BYTES_MAX: usize = 512;

const PAGE: usize = 4096;
/// How often the kernel is asked again that says "try again": nothing here waits without bound.
const TRIES_MAX: usize = 16;

/// Starts to load a line into the cache, for a store to come. Does nothing where nothing is mapped.
#[inline(always)]
pub fn fetch_soon(address: *const u8) {
    // SAFETY: a hint; it reads nothing and cannot fault.
    unsafe { core::arch::asm!("prefetcht0 [{}]", in(reg) address, options(nostack, preserves_flags, readonly)) };
}

/// A shared mapping of a ledger's file, or memory of the same kind without a name.
pub struct FileMapping {
    base: *mut u8,
    bytes: usize,
    identity: FileIdentity,
    path: Text<PATH_BYTES_MAX>,
    /// Bytes at the beginning that can be accessed and are in core dumps, with storage or without.
    open_bytes: AtomicUsize,
}

// SAFETY: the mapping is plain shared memory; who writes where is the business of its users.
unsafe impl Sync for FileMapping {}
// SAFETY: as above.
unsafe impl Send for FileMapping {}

impl FileMapping {
    /// Creates a new file and maps it. It must not exist before.
    ///
    /// # Errors
    /// Whatever creating, growing or mapping says. `EXIST` if the name is taken.
    pub fn create(path: Text<PATH_BYTES_MAX>, bytes: usize) -> Result<FileMapping, Errno> {
        let flags = open_flag::READ_WRITE
            | open_flag::CREATE
            | open_flag::EXCLUSIVE
            | open_flag::NO_FOLLOW
            | open_flag::CLOSE_ON_EXEC;
        let fd = syscall::open(path.c_str(), flags, 0o600)?;
        let made = syscall::set_length(fd, bytes as u64)
            .and_then(|()| syscall::identify(fd))
            .and_then(|identity| syscall::map_shared_closed(fd, bytes).map(|base| (identity, base)));
        syscall::close(fd);
        match made {
            Ok((identity, base)) => {
                // Unused ranges are holes: a core dump that reads them would allocate them all.
                let _ = syscall::advise(base, bytes, advice::DONT_DUMP);
                Ok(FileMapping { base, bytes, identity, path, open_bytes: AtomicUsize::new(0) })
            }
            Err(error) => {
                syscall::unlink(path.c_str());
                Err(error)
            }
        }
    }

    /// Maps memory of the process's own, which no file stands behind.
    ///
    /// # Errors
    /// No address space.
    pub fn of_memory(bytes: usize) -> Result<FileMapping, Errno> {
        let base = syscall::map_anonymous_closed(bytes)?;
        let _ = syscall::advise(base, bytes, advice::DONT_DUMP);
        let (identity, path, open_bytes) = (FileIdentity::default(), Text::new(), AtomicUsize::new(0));
        Ok(FileMapping { base, bytes, identity, path, open_bytes })
    }

    /// Whether there is a file.
    pub fn has_file(&self) -> bool {
        !self.path.bytes().is_empty()
    }

    /// First byte of the mapping.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Bytes of the mapping, most of them without storage.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the file was created.
    pub fn path(&self) -> &Text<PATH_BYTES_MAX> {
        &self.path
    }

    /// Opens so many bytes at the beginning, whole pages, most of which have no storage yet. That is less work for the kernel than to
    /// open them one by one as they are [backed](FileMapping::back). A program that locks its memory makes them real.
    pub fn open(&self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        if syscall::make_accessible(self.base, bytes).is_ok() {
            let _ = syscall::advise(self.base, bytes, advice::DO_DUMP);
            self.open_bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// Reserves storage for whole pages. After success they can be written without a fault.
    ///
    /// # Errors
    /// No room in the file system, no memory, or (on old kernels) the file is not to be found any more.
    pub fn back(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        let end = offset.checked_add(bytes).filter(|end| *end <= self.bytes).ok_or(Errno::NOMEM)?;
        let first = self.base.wrapping_add(offset);
        let is_open = end <= self.open_bytes.load(Ordering::Relaxed);
        if !is_open {
            // Closed until now: a program that locks its memory (`mlockall`) would make the whole file real.
            syscall::make_accessible(first, bytes)?;
        }
        let mut result = Err(Errno::AGAIN);
        for _ in 0..TRIES_MAX {
            result = syscall::advise(first, bytes, advice::POPULATE_WRITE);
            if !matches!(result, Err(Errno::INTR | Errno::AGAIN)) {
                break;
            }
        }
        if result == Err(Errno::INVAL) {
            result = self.back_by_path(offset, bytes);
        }
        if result.is_ok() && !is_open {
            let _ = syscall::advise(first, bytes, advice::DO_DUMP);
        }
        result
    }

    /// Not compiled into its caller, which stands deep on the program's stack.
    #[cold]
    #[inline(never)]
    fn back_by_path(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        if !self.has_file() {
            return Ok(()); // memory has storage as soon as it is written
        }
        let flags = open_flag::READ_WRITE | open_flag::NO_FOLLOW | open_flag::CLOSE_ON_EXEC;
        let fd = syscall::open(self.path.c_str(), flags, 0)?;
        let result = match syscall::identify(fd) {
            Ok(identity) if (identity.device, identity.inode) == (self.identity.device, self.identity.inode) => {
                syscall::allocate(fd, offset as u64, bytes as u64)
            }
            Ok(_) => Err(Errno::INVAL),
            Err(error) => Err(error),
        };
        syscall::close(fd);
        result
    }

    /// Gives storage back. The pages read as zero afterwards and must be backed again before a store.
    ///
    /// # Safety
    /// Nobody may store into these pages any more.
    pub unsafe fn give_back(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(Errno::NOMEM);
        }
        // SAFETY: within the mapping; the caller vouches that nobody uses it.
        unsafe { syscall::discard(self.base.wrapping_add(offset), bytes) }
    }

    /// Removes the file's name; the mapping stays.
    pub fn remove_file(&self) {
        if self.has_file() {
            syscall::unlink(self.path.c_str());
        }
    }

    /// Takes a part of the mapping out of the address space; the file keeps its length.
    ///
    /// # Safety
    /// Nobody may touch these pages before [`FileMapping::map_again`] has brought them back.
    pub unsafe fn unmap(&self, offset: usize, bytes: usize) {
        if offset.checked_add(bytes).is_some_and(|end| end <= self.bytes) {
            // What is mapped again may be closed.
            self.open_bytes.fetch_min(offset, Ordering::Relaxed);
            // SAFETY: within the mapping; the caller vouches that nobody uses it.
            unsafe { syscall::unmap(self.base.wrapping_add(offset), bytes) };
        }
    }

    /// Maps pages again that were taken out, at their place, from `offset` on. The page before must be mapped: it is
    /// made longer, which needs neither descriptor nor path.
    ///
    /// # Errors
    /// The address space is limited, or something else lies there by now.
    pub fn map_again(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        let before = offset.checked_sub(PAGE).filter(|_| inside).ok_or(Errno::NOMEM)?;
        syscall::lengthen(self.base.wrapping_add(before), PAGE, PAGE.wrapping_add(bytes))
    }

    /// Removes the file and the mapping.
    ///
    /// # Safety
    /// Nobody may use the mapping any more.
    pub unsafe fn destroy(self) {
        self.remove_file();
        // SAFETY: the caller's promise.
        unsafe { syscall::unmap(self.base, self.bytes) };
    }
}
