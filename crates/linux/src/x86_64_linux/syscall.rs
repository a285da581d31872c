//! System calls, made directly: `errno` stays as it is, and nobody can have replaced them.
//!
//! # Safety
//! The wrappers are safe where the kernel checks every argument itself (it answers `EFAULT`) and
//! the call cannot change memory that Rust relies on. The others are `unsafe` and say what they need.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

mod files;
mod signals;

pub(super) use files::EVENT_ID;
pub use files::{
    FileIdentity, allocate, close, event_id, free_bytes, give_name, identify, is_write_only, make_directory, open,
    open_event, open_flag, read, read_at, read_directory, read_link, rename, set_length, symbolic_link, unlink,
    working_directory, write, write_at,
};
pub use signals::{
    SIGNAL_ABORT, SignalsBlocked, abort, action, exit, getpid, handle, handle_once, make_no_calls, on_alternate_stack,
    raise,
};
pub(crate) use signals::{block_signals, may_be_asked, restore_signals};

/// An error number of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Invalid argument: here mostly "this kernel does not know that".
    pub const INVAL: Errno = Errno(22);
    /// The file exists.
    pub const EXIST: Errno = Errno(17);
    /// No such file or directory.
    pub const NOENT: Errno = Errno(2);
    /// No such descriptor, or it is not open for that.
    pub const BADF: Errno = Errno(9);
    /// No such process.
    pub const SRCH: Errno = Errno(3);
    /// No room in the file system.
    pub const NOSPC: Errno = Errno(28);
    /// Interrupted by a signal.
    pub const INTR: Errno = Errno(4);
    /// Input or output has failed.
    pub const IO: Errno = Errno(5);
    /// Try again.
    pub const AGAIN: Errno = Errno(11);
    /// An address that nothing can be read from.
    pub const FAULT: Errno = Errno(14);
    /// No memory, or no room in the address space.
    pub const NOMEM: Errno = Errno(12);
}

/// What a system call gives.
pub type Result<T> = core::result::Result<T, Errno>;

pub(super) mod number {
    pub(in super::super) const READ: usize = 0;
    pub(in super::super) const WRITE: usize = 1;
    pub(in super::super) const OPEN: usize = 2;
    pub(in super::super) const CLOSE: usize = 3;
    pub(in super::super) const FSTAT: usize = 5;
    pub(in super::super) const MMAP: usize = 9;
    pub(in super::super) const MPROTECT: usize = 10;
    pub(in super::super) const MUNMAP: usize = 11;
    pub(in super::super) const RT_SIGACTION: usize = 13;
    pub(in super::super) const RT_SIGPROCMASK: usize = 14;
    pub(in super::super) const RT_SIGRETURN: usize = 15;
    pub(in super::super) const IOCTL: usize = 16;
    pub(in super::super) const PREAD64: usize = 17;
    pub(in super::super) const PWRITE64: usize = 18;
    pub(in super::super) const MREMAP: usize = 25;
    pub(in super::super) const MINCORE: usize = 27;
    pub(in super::super) const MADVISE: usize = 28;
    pub(in super::super) const GETPID: usize = 39;
    pub(in super::super) const FTRUNCATE: usize = 77;
    pub(in super::super) const GETCWD: usize = 79;
    pub(in super::super) const RENAME: usize = 82;
    pub(in super::super) const MKDIR: usize = 83;
    pub(in super::super) const UNLINK: usize = 87;
    pub(in super::super) const SYMLINK: usize = 88;
    pub(in super::super) const READLINK: usize = 89;
    pub(in super::super) const SYSINFO: usize = 99;
    pub(in super::super) const GETUID: usize = 102;
    pub(in super::super) const GETPPID: usize = 110;
    pub(in super::super) const SIGALTSTACK: usize = 131;
    pub(in super::super) const STATFS: usize = 137;
    pub(in super::super) const GETDENTS64: usize = 217;
    pub(in super::super) const PERF_EVENT_OPEN: usize = 298;
    pub(in super::super) const PRCTL: usize = 157;
    pub(in super::super) const GETTID: usize = 186;
    pub(in super::super) const FUTEX: usize = 202;
    pub(in super::super) const CLOCK_GETTIME: usize = 228;
    pub(in super::super) const EXIT_GROUP: usize = 231;
    pub(in super::super) const TGKILL: usize = 234;
    pub(in super::super) const LINKAT: usize = 265;
    pub(in super::super) const FALLOCATE: usize = 285;
    pub(in super::super) const PRLIMIT64: usize = 302;
    pub(in super::super) const PROCESS_VM_READV: usize = 310;
    pub(in super::super) const GETRANDOM: usize = 318;
}

/// Makes a system call.
///
/// # Safety
/// What the kernel does with these arguments must be sound for the calling program.
#[inline]
unsafe fn call(number: usize, args: [usize; 6]) -> Result<usize> {
    let result: isize;
    // SAFETY: the `syscall` instruction changes rax, rcx and r11 only; the caller vouches for the rest.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    if (-4095..0).contains(&result) { Err(Errno(result.wrapping_neg() as i32)) } else { Ok(result as usize) }
}

/// A call whose arguments the kernel checks completely.
#[inline(always)]
fn checked(number: usize, args: [usize; 6]) -> Result<usize> {
    // SAFETY: used here and in `files` only for calls that touch no memory, or memory passed as a valid reference.
    unsafe { call(number, args) }
}

/// Read and write access; also for `mmap`.
pub const PROT_READ_WRITE: usize = 3;
/// Advice to `madvise`.
pub mod advice {
    /// Leave out of core dumps.
    pub const DONT_DUMP: usize = 16;
    /// Put into core dumps again.
    pub const DO_DUMP: usize = 17;
    /// Zeroes in a child.
    pub const WIPE_ON_FORK: usize = 18;
    /// Free private pages: they are zeros then.
    pub const DONT_NEED: usize = 4;
    /// No access any more, without another mapping, and what was there is gone (Linux 6.13).
    pub const GUARD_INSTALL: usize = 102;
    /// Takes that back: zeros.
    pub const GUARD_REMOVE: usize = 103;
    /// Not needed soon; says no more, and changes nothing (Linux 5.4).
    pub const COLD: usize = 20;
    /// No huge pages.
    pub const NO_HUGE_PAGE: usize = 15;
    /// `MADV_HUGEPAGE`.
    pub const HUGE_PAGE: usize = 14;
    /// Make writable pages present, or fail (Linux 5.14).
    pub const POPULATE_WRITE: usize = 23;
    /// Free the pages and the storage behind them.
    pub const REMOVE: usize = 9;
}

/// Maps fresh private memory, zeroed, not charged before it is touched.
pub fn map_anonymous(bytes: usize) -> Result<*mut u8> {
    map_private(bytes, 0)
}

/// The same, with storage for all of it at once: page by page, as it is touched, that takes several times as long.
pub fn map_present(bytes: usize) -> Result<*mut u8> {
    const POPULATE: usize = 0x8000;
    map_private(bytes, POPULATE)
}

fn map_private(bytes: usize, flags: usize) -> Result<*mut u8> {
    const PRIVATE_ANONYMOUS_NORESERVE: usize = 0x2 | 0x20 | 0x4000;
    let flags = PRIVATE_ANONYMOUS_NORESERVE | flags;
    checked(number::MMAP, [0, bytes, PROT_READ_WRITE, flags, usize::MAX, 0]).map(|address| address as *mut u8)
}

/// Maps a file, shared.
pub fn map_shared(fd: usize, bytes: usize) -> Result<*mut u8> {
    const SHARED: usize = 1;
    checked(number::MMAP, [0, bytes, PROT_READ_WRITE, SHARED, fd, 0]).map(|address| address as *mut u8)
}

/// Maps a file, shared, so that nothing can touch it before [`make_accessible`].
pub fn map_shared_closed(fd: usize, bytes: usize) -> Result<*mut u8> {
    const SHARED: usize = 1;
    const NO_ACCESS: usize = 0;
    checked(number::MMAP, [0, bytes, NO_ACCESS, SHARED, fd, 0]).map(|address| address as *mut u8)
}

/// The same without a file: shared with forked children.
pub fn map_anonymous_closed(bytes: usize) -> Result<*mut u8> {
    const SHARED_ANONYMOUS_NORESERVE: usize = 0x1 | 0x20 | 0x4000;
    const NO_ACCESS: usize = 0;
    checked(number::MMAP, [0, bytes, NO_ACCESS, SHARED_ANONYMOUS_NORESERVE, usize::MAX, 0])
        .map(|address| address as *mut u8)
}

/// Maps fresh private memory that nothing can touch before [`make_accessible`]. Not charged, not even where nothing may be mapped that
/// there is no memory for.
pub fn map_private_closed(bytes: usize) -> Result<*mut u8> {
    const PRIVATE_ANONYMOUS_NORESERVE: usize = 0x2 | 0x20 | 0x4000;
    const NO_ACCESS: usize = 0;
    checked(number::MMAP, [0, bytes, NO_ACCESS, PRIVATE_ANONYMOUS_NORESERVE, usize::MAX, 0])
        .map(|address| address as *mut u8)
}

/// Makes every access to whole pages fault.
///
/// # Errors
/// Mostly [`Errno::NOMEM`]: the process may have no further mapping.
///
/// # Safety
/// Nothing may access that memory any more.
pub unsafe fn make_inaccessible(address: *mut u8, bytes: usize) -> Result<()> {
    const NO_ACCESS: usize = 0;
    // SAFETY: the caller's promise.
    unsafe { call(number::MPROTECT, [address as usize, bytes, NO_ACCESS, 0, 0, 0]).map(drop) }
}

/// Makes whole pages of one of our own mappings readable and writable.
pub fn make_accessible(address: *mut u8, bytes: usize) -> Result<()> {
    checked(number::MPROTECT, [address as usize, bytes, PROT_READ_WRITE, 0, 0, 0]).map(drop)
}

/// Closes whole pages for writing, which nobody is about to write to.
pub fn make_read_only(address: *mut u8, bytes: usize) -> Result<()> {
    const READ: usize = 1;
    checked(number::MPROTECT, [address as usize, bytes, READ, 0, 0, 0]).map(drop)
}

/// Makes one of our own mappings longer, where it lies: what is behind it must be vacant.
pub fn lengthen(address: *mut u8, bytes: usize, new_bytes: usize) -> Result<()> {
    const STAYS: usize = 0;
    checked(number::MREMAP, [address as usize, bytes, new_bytes, STAYS, 0, 0]).map(drop)
}

/// Unmaps.
///
/// # Safety
/// Nothing may use that memory any more.
pub unsafe fn unmap(address: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    let _ = unsafe { call(number::MUNMAP, [address as usize, bytes, 0, 0, 0, 0]) };
}

/// Gives advice that does not change what memory holds.
pub fn advise(address: *mut u8, bytes: usize, advice: usize) -> Result<()> {
    debug_assert!(advice != self::advice::REMOVE);
    checked(number::MADVISE, [address as usize, bytes, advice, 0, 0, 0]).map(drop)
}

/// Gives advice that changes what memory holds, or who may access it.
///
/// # Errors
/// If the kernel does not know it, or will not follow it there.
///
/// # Safety
/// Nothing may rely on what that memory holds, nor access it if it is closed.
pub unsafe fn change(address: *mut u8, bytes: usize, advice: usize) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { call(number::MADVISE, [address as usize, bytes, advice, 0, 0, 0]).map(drop) }
}

/// Bytes of a mapping that are present in memory; 0 if it is not mapped.
pub fn resident_bytes(address: usize, bytes: usize) -> u64 {
    let mut resident = 0u64;
    each_present_page(address, bytes, &mut |_| resident = resident.wrapping_add(PAGE as u64));
    resident
}

/// Whether some of a mapping may be present in memory: also where the kernel does not say (a filter of system calls refuses that).
pub fn may_be_resident(address: usize, bytes: usize) -> bool {
    let mut is_any = false;
    !each_present_page(address, bytes, &mut |_| is_any = true) || is_any
}

const PAGE: usize = 4096;

/// Tells of the pages of a mapping that are present in memory, by their numbers from its beginning on; of none if it is not mapped. A
/// page that was swapped out is not present. Whether the kernel has said it of all of them.
#[cold]
#[inline(never)]
pub fn each_present_page(address: usize, bytes: usize, tell: &mut dyn FnMut(usize)) -> bool {
    const PAGES: usize = 512;
    let (mut present, mut all_told) = ([0u8; PAGES], true);
    for first in (0..bytes).step_by(PAGES * PAGE) {
        let part = bytes.wrapping_sub(first).min(PAGES * PAGE);
        let asked = [address.wrapping_add(first), part, present.as_mut_ptr() as usize, 0, 0, 0];
        match checked(number::MINCORE, asked) {
            Ok(_) => {
                let pages = present.iter().take(part.div_ceil(PAGE)).zip(first / PAGE..);
                pages.filter(|(page, _)| **page & 1 != 0).for_each(|(_, index)| tell(index));
            }
            Err(why) => all_told &= why == Errno::NOMEM,
        }
    }
    all_told
}

/// Gives pages and the storage behind them back; they read as zero afterwards.
///
/// # Safety
/// Nothing may rely on what that memory holds.
pub unsafe fn discard(address: *mut u8, bytes: usize) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { call(number::MADVISE, [address as usize, bytes, advice::REMOVE, 0, 0, 0]).map(drop) }
}

/// Id of the calling thread.
pub fn gettid() -> u32 {
    checked(number::GETTID, [0; 6]).unwrap_or(0) as u32
}

/// Id of the parent process.
pub fn getppid() -> u32 {
    checked(number::GETPPID, [0; 6]).unwrap_or(0) as u32
}

/// The real user.
pub fn getuid() -> u32 {
    checked(number::GETUID, [0; 6]).unwrap_or(0) as u32
}

/// Whether the thread `tid` of process `pid` exists. In doubt it does.
pub fn thread_exists(pid: u32, tid: u32) -> bool {
    checked(number::TGKILL, [pid as usize, tid as usize, 0, 0, 0, 0]) != Err(Errno::SRCH)
}

/// The calling thread's name, filled up with zeros.
pub fn thread_name() -> [u8; 16] {
    const PR_GET_NAME: usize = 16;
    let mut name = [0u8; 16];
    let _ = checked(number::PRCTL, [PR_GET_NAME, name.as_mut_ptr() as usize, 0, 0, 0, 0]);
    name
}

/// Whether the calling thread must not read the processor's time stamp counter (`PR_SET_TSC`).
pub fn counter_is_forbidden() -> bool {
    const PR_GET_TSC: usize = 25;
    const PR_TSC_SIGSEGV: u32 = 2;
    let mut mode = 0u32;
    checked(number::PRCTL, [PR_GET_TSC, &raw mut mode as usize, 0, 0, 0, 0]).is_ok() && mode == PR_TSC_SIGSEGV
}

/// Whether 8 bytes at `address` can be read. Asks the kernel to read a signal set from there, with
/// an operation number that it refuses afterwards: `EFAULT` or `EINVAL`, and nothing else happens.
pub fn readable(address: usize) -> bool {
    const NO_SUCH_OPERATION: usize = usize::MAX;
    checked(number::RT_SIGPROCMASK, [NO_SUCH_OPERATION, address, 0, 8, 0, 0]) == Err(Errno::INVAL)
}

/// Whether anything is mapped at `address`, readable or not.
pub fn is_mapped(address: usize) -> bool {
    const PAGE: usize = 4096;
    let mut present = 0u8;
    checked(number::MINCORE, [address & !(PAGE - 1), PAGE, (&raw mut present) as usize, 0, 0, 0]) != Err(Errno::NOMEM)
}

/// Copies memory of this process, which may lie where nothing can be read: an error then, and no signal.
///
/// # Errors
/// [`Errno::FAULT`] if not all of it can be read; others if the kernel does not do this for us.
pub fn copy_memory(address: usize, into: &mut [u64]) -> Result<()> {
    if !may_be_asked() {
        return Err(Errno::FAULT);
    }
    let bytes = size_of_val(into);
    let (to, from) = ([into.as_mut_ptr() as usize, bytes], [address, bytes]);
    // By the calling thread's number: the process's own is that of its first thread, which may have ended and have no memory any more.
    let args = [gettid() as usize, to.as_ptr() as usize, 1, from.as_ptr() as usize, 1, 0];
    let copied = checked(number::PROCESS_VM_READV, args)?;
    if copied == bytes { Ok(()) } else { Err(Errno::FAULT) }
}

/// Waits until `word` is no longer `expected`, or `milliseconds` have passed, or for no reason.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, expected: u32, milliseconds: u32) {
    const WAIT_PRIVATE: usize = 128;
    let time = [u64::from(milliseconds / 1000), u64::from(milliseconds % 1000) * 1_000_000];
    let _ =
        checked(number::FUTEX, [word.as_ptr() as usize, WAIT_PRIVATE, expected as usize, time.as_ptr() as usize, 0, 0]);
}

/// Wakes everyone who waits for `word`.
#[inline(always)]
pub fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    const WAKE_PRIVATE: usize = 129;
    let _ = checked(number::FUTEX, [word.as_ptr() as usize, WAKE_PRIVATE, i32::MAX as usize, 0, 0, 0]);
}

/// Nanoseconds of a clock; 0 if there is no such clock.
#[inline(always)]
pub fn clock(clock_id: usize) -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the kernel stores two words, for which there is room. Not by `checked`: blocks are entered with a time.
    match unsafe { call(number::CLOCK_GETTIME, [clock_id, time.as_mut_ptr() as usize, 0, 0, 0, 0]) } {
        Ok(_) => time[0].wrapping_mul(1_000_000_000).wrapping_add(time[1]),
        Err(_) => 0,
    }
}

/// The soft limit of a resource, `None` if unlimited.
pub fn limit(resource: usize) -> Option<u64> {
    let mut limits = [0u64; 2];
    match checked(number::PRLIMIT64, [0, resource, 0, limits.as_mut_ptr() as usize, 0, 0]) {
        Ok(_) => Some(limits[0]).filter(|soft| *soft != u64::MAX),
        Err(_) => None,
    }
}

/// Largest file the process may make.
pub const LIMIT_FILE_BYTES: usize = 1;
/// Most private memory that can be written.
pub const LIMIT_DATA_BYTES: usize = 2;
/// Most memory that may be locked.
pub const LIMIT_LOCKED_BYTES: usize = 8;
/// Largest address space.
pub const LIMIT_ADDRESS_BYTES: usize = 9;

/// The machine's memory in bytes; 0 if unknown.
pub fn memory_bytes() -> u64 {
    let mut info = [0u64; 16]; // uptime, loads[3], totalram, …, mem_unit
    match checked(number::SYSINFO, [info.as_mut_ptr() as usize, 0, 0, 0, 0, 0]) {
        Ok(_) => info[4].saturating_mul((info[13] as u32).max(1).into()),
        Err(_) => 0,
    }
}

/// Random bytes, never waiting for entropy; mixed from clock and addresses if there are none.
pub fn random() -> u64 {
    const NONBLOCK: usize = 1;
    let mut value = 0u64;
    let value = match checked(number::GETRANDOM, [&raw mut value as usize, 8, NONBLOCK, 0, 0, 0]) {
        Ok(8) => value,
        _ => clock(0).wrapping_mul(GOLDEN) ^ u64::from(gettid()) << 32 ^ &raw const value as u64,
    };
    DRAWN.store(value | 1, Ordering::Relaxed);
    value
}

/// What was drawn last, and what was made of it since; 0: nothing was.
static DRAWN: AtomicU64 = AtomicU64::new(0);
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Bytes that are as good as random, but for secrets: of what [`random`] has drawn once, so that a filter which the program puts on later is
/// not asked.
pub fn random_again() -> u64 {
    if DRAWN.load(Ordering::Relaxed) == 0 {
        return random();
    }
    let drawn = DRAWN.fetch_add(GOLDEN, Ordering::Relaxed) ^ u64::from(gettid()) << 32;
    // As `splitmix64` ends.
    let mixed = (drawn ^ drawn >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn readable_tells_mapped_from_unmapped() {
        let here = 5u64;
        assert!(readable(&raw const here as usize));
        assert!(!readable(0));
        let pages = pages_of_which_the_last_cannot_be_read("readable", 2);
        assert!(readable(pages) && !readable(pages + 4096));
        let mut words = [0; 512];
        assert_eq!(copy_memory(&raw const here as usize, &mut words[..1]).map(|()| words[0]), Ok(5));
        assert_eq!(copy_memory(pages, &mut words), Ok(()));
        assert_eq!(copy_memory(pages + 8, &mut words), Err(Errno::FAULT));
        assert_eq!(copy_memory(0, &mut words), Err(Errno::FAULT));
    }

    /// Maps so many pages of a file that is one page shorter: unlike an unmapped page, the last one
    /// cannot become somebody else's memory while the test runs.
    pub(in crate::x86_64_linux) fn pages_of_which_the_last_cannot_be_read(name: &str, pages: usize) -> usize {
        let path = std::env::temp_dir().join(std::format!("heapledger-{}-{name}", getpid()));
        std::fs::write(&path, std::vec![0u8; (pages - 1) * 4096]).expect("a file");
        let text = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("a path");
        let fd = open(&text, open_flag::READ_WRITE, 0).expect("open");
        let memory = map_shared(fd, pages * 4096).expect("mapping");
        close(fd);
        unlink(&text);
        memory as usize
    }

    #[test]
    fn memory_and_identity() {
        assert!(memory_bytes() > 1 << 24);
        assert!(thread_exists(getpid(), gettid()));
        assert!(!thread_exists(getpid(), 0x3fff_ffff));
        let fd = open(c"/proc/self/exe", open_flag::READ, 0).expect("open");
        assert!(identify(fd).expect("stat").inode != 0);
        close(fd);
    }
}
