//! Addresses of the guard's own, from which its blocks come, and pages there that are closed to everybody.
//!
//! A room with `unsafe`: takes memory away, and access to it, that the kernel has given for this alone.
//!
//! Pages are closed by `MADV_GUARD_INSTALL` where the kernel has it (Linux 6.13): the range stays one mapping, however many pages of it
//! are closed. Elsewhere by `mprotect`, where each open block is two mappings more; closed ones fall together again, as long as all of
//! them are of one origin (the kernel joins mappings only if what it keeps of their pages is the same), so a page is touched first.

use core::sync::atomic::{AtomicBool, Ordering};
use heapledger_guard::Window;
use heapledger_linux::syscall::{self, advice};

const PAGE_BYTES: usize = 4096;
/// Time of processors that the calling thread took (`CLOCK_THREAD_CPUTIME_ID`).
const CLOCK_THREAD_CPU: usize = 3;

/// A range of addresses.
#[derive(Clone, Copy)]
pub(crate) struct Land {
    first: u64,
    bytes: u64,
    window: Window,
    /// Pages are closed by taking their protection away, and all are in the beginning.
    is_protected: bool,
    /// No single page of it is ever closed.
    may_be_huge: bool,
}

/// A huge page.
const HUGE_PAGE_BYTES: u64 = 2 << 20;
/// What it takes to fill one with zeros is a tenth of that, and what 512 small ones take is half of it.
const HUGE_PAGE_NS_MAX: u64 = 2_000_000;
/// One took longer.
static HUGE_IS_SLOW: AtomicBool = AtomicBool::new(false);

/// Whether the kernel was seen to take long for a huge page.
pub(crate) fn are_huge_pages_slow() -> bool {
    HUGE_IS_SLOW.load(Ordering::Relaxed)
}

/// Whether pages may be closed without mappings of their own; switched off by tests of the other way.
static MAY_ADVISE: AtomicBool = AtomicBool::new(true);

/// No huge pages, as long as little of it is used; and nothing of it goes into core dumps before it is used ([`Land::dump`]): the kernel would look at each page of it.
fn settle(mapped: *mut u8, bytes: usize) {
    let _ = syscall::advise(mapped, bytes, advice::NO_HUGE_PAGE);
    let _ = syscall::advise(mapped, bytes, advice::DONT_DUMP);
}

/// From now on pages are closed by `mprotect`, as on kernels that know nothing else.
pub(crate) fn close_by_protection() {
    MAY_ADVISE.store(false, Ordering::Relaxed);
}

/// The program may make no system calls any more.
static NO_CALLS: AtomicBool = AtomicBool::new(false);

/// From now on nothing is closed, opened or given back.
pub(crate) fn make_no_calls() {
    NO_CALLS.store(true, Ordering::SeqCst);
}

impl Land {
    /// These bytes.
    ///
    /// # Safety
    ///
    /// They were mapped for the guard alone, and stay as long as this is in use.
    unsafe fn of(first: usize, bytes: usize) -> Land {
        let (first, bytes) = (first as u64, bytes as u64);
        // SAFETY: as the caller says; what of it the program has is its business, and only an arena looks at it, and only where it has no
        // closed page.
        let window = unsafe { Window::new(first, bytes) };
        Land { first, bytes, window, is_protected: false, may_be_huge: false }
    }

    /// So many bytes that can be read and written, zeros, that begin at a multiple of `alignment`. `None` if there are none.
    pub(crate) fn reserve(bytes: usize, alignment: usize) -> Option<Land> {
        let all = bytes.checked_add(alignment)?;
        let mapped = syscall::map_anonymous(all).ok()? as usize;
        settle(mapped as *mut u8, all);
        let first = mapped.checked_next_multiple_of(alignment)?;
        // SAFETY: they lie in what was mapped just now.
        let land = unsafe { Land::of(first, bytes) };
        Some(Land { may_be_huge: true, ..land })
    }

    /// So many bytes of which pages can be [closed](Self::close). `None` if there are none.
    pub(crate) fn reserve_for_closing(bytes: usize) -> Option<Land> {
        if MAY_ADVISE.load(Ordering::Relaxed)
            && let Some(land) = Land::reserve(bytes, PAGE_BYTES)
        {
            if land.close(land.first, PAGE_BYTES as u64) && land.open(land.first, PAGE_BYTES as u64) {
                return Some(Land { may_be_huge: false, ..land });
            }
            // SAFETY: nobody knows of it yet.
            unsafe { syscall::unmap(land.first as *mut u8, bytes.saturating_add(PAGE_BYTES)) };
        }
        let mapped = syscall::map_private_closed(bytes).ok()?;
        settle(mapped, bytes);
        // SAFETY: mapped just now.
        let land = Land { is_protected: true, ..unsafe { Land::of(mapped as usize, bytes) } };
        land.has_one_origin().then_some(land)
    }

    /// Has the kernel keep one list for pages of the whole range, so that parts of it are joined again.
    fn has_one_origin(&self) -> bool {
        let page = self.first as *mut u8;
        let is_open = syscall::make_accessible(page, self.bytes as usize).is_ok();
        // Where all that may be written is charged, that fails: parts are joined less often then.
        if !is_open && syscall::make_accessible(page, PAGE_BYTES).is_err() {
            return false;
        }
        // SAFETY: a page of ours alone, which is open.
        unsafe { page.write_volatile(0) };
        self.close(self.first, if is_open { self.bytes } else { PAGE_BYTES as u64 })
    }

    /// Its first address.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Bytes of it.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether all pages are closed in the beginning, and each that is opened is a mapping of its own.
    pub(crate) fn is_protected(&self) -> bool {
        self.is_protected
    }

    /// All of it.
    #[inline(always)]
    pub(crate) fn window(&self) -> &Window {
        &self.window
    }

    /// Whether the system may be asked for anything.
    pub(crate) fn may_be_changed(&self) -> bool {
        !NO_CALLS.load(Ordering::Relaxed)
    }

    /// Whether all of these bytes are its own, and something can be done to them.
    fn has(&self, first: u64, bytes: u64) -> bool {
        self.may_be_changed()
            && first.checked_sub(self.first).and_then(|at| at.checked_add(bytes)).is_some_and(|end| end <= self.bytes)
    }

    /// These whole pages go into core dumps from now on.
    pub(crate) fn dump(&self, first: u64, bytes: u64) {
        if self.has(first, bytes) {
            let _ = syscall::advise(first as *mut u8, bytes as usize, advice::DO_DUMP);
        }
    }

    /// These bytes may be given as huge pages from now on, where no single ones are closed, unless that takes the kernel too long: then
    /// nothing of the range is any more ([`are_huge_pages_slow`]).
    ///
    /// A guest of a hypervisor that takes back what is free (WSL, containers in a machine of their own) may have to ask for each huge page
    /// anew, which was seen to take seven times as long as to have its bytes in small ones, of which there are some at hand.
    pub(crate) fn make_huge(&self, first: u64, bytes: u64) {
        let page = first.next_multiple_of(HUGE_PAGE_BYTES);
        let has_one = page.saturating_add(HUGE_PAGE_BYTES) <= first.saturating_add(bytes);
        if !self.may_be_huge || !has_one || !self.has(first, bytes) || are_huge_pages_slow() {
            return;
        }
        let _ = syscall::advise(first as *mut u8, bytes as usize, advice::HUGE_PAGE);
        // The first of them is made at once, to see; it will be needed soon. A kernel that cannot do that (before Linux 5.14) is believed.
        let began_ns = syscall::clock(CLOCK_THREAD_CPU);
        let _ = syscall::advise(page as *mut u8, HUGE_PAGE_BYTES as usize, advice::POPULATE_WRITE);
        if syscall::clock(CLOCK_THREAD_CPU).saturating_sub(began_ns) > HUGE_PAGE_NS_MAX {
            HUGE_IS_SLOW.store(true, Ordering::Relaxed);
            // Also where some were promised before and never used, or given back.
            let until = first.saturating_add(bytes).saturating_sub(self.first);
            if self.has(self.first, until) {
                let _ = syscall::advise(self.first as *mut u8, until as usize, advice::NO_HUGE_PAGE);
            }
        }
    }

    /// Gives back what lies behind the first so many bytes: it was never used, and nobody looks there any more.
    pub(crate) fn give_back_from(&self, bytes: u64) {
        let first = bytes.saturating_add(self.first).next_multiple_of(PAGE_BYTES as u64);
        if let Some(rest) = self.first.saturating_add(self.bytes).checked_sub(first).filter(|rest| *rest != 0) {
            // SAFETY: nobody has anything there.
            unsafe { syscall::unmap(first as *mut u8, rest as usize) };
        }
    }

    /// Lets go of what is in whole pages, which are zeros then. False if that cannot be done.
    pub(crate) fn discard(&self, first: u64, bytes: u64) -> bool {
        // SAFETY: memory of the guard's own, of blocks that nobody has.
        self.has(first, bytes)
            && unsafe { syscall::change(first as *mut u8, bytes as usize, advice::DONT_NEED).is_ok() }
    }

    /// Makes every access to whole pages fault, and lets go of what is in them. False if that cannot be done.
    pub(crate) fn close(&self, first: u64, bytes: u64) -> bool {
        if !self.has(first, bytes) {
            return false;
        }
        let page = first as *mut u8;
        if self.is_protected {
            // SAFETY: memory of the guard's own, of blocks that nobody has; who touches it all the same is to fault.
            return self.discard(first, bytes) && unsafe { syscall::make_inaccessible(page, bytes as usize).is_ok() };
        }
        // SAFETY: as above.
        unsafe { syscall::change(page, bytes as usize, advice::GUARD_INSTALL).is_ok() }
    }

    /// Whether an access to an address that was opened is had now. It is not if the program has closed the page, too.
    pub(crate) fn bears(&self, address: u64, is_write: bool) -> bool {
        let page = address & !const { PAGE_BYTES as u64 - 1 };
        // Where pages are closed by protection, opening them makes them so.
        let may_write = || syscall::advise(page as *mut u8, PAGE_BYTES, advice::POPULATE_WRITE).is_ok();
        self.is_protected || syscall::readable(page as usize) && (!is_write || may_write())
    }

    /// Opens pages that were closed: zeros. Those that are open stay as they are. False if that cannot be done.
    pub(crate) fn open(&self, first: u64, bytes: u64) -> bool {
        if !self.has(first, bytes) {
            return false;
        }
        let page = first as *mut u8;
        if self.is_protected {
            return syscall::make_accessible(page, bytes as usize).is_ok();
        }
        // SAFETY: takes away what was installed there, and nothing else.
        unsafe { syscall::change(page, bytes as usize, advice::GUARD_REMOVE).is_ok() }
    }
}
