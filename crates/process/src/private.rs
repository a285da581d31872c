//! Private memory: tables beside the ledger, mapped when they are first needed, of all zeros.
//!
//! A room with `unsafe`: memory that the kernel gives becomes typed tables here. What is in them may be looked at for ever: only
//! who is [`Alone`] gives them back.

use crate::spare::Spare;
use core::arch::asm;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use heapledger_linux::syscall::{self, advice};

const PAGE_BYTES: usize = 4096;

/// What can lie in a table: all zeros are a value of it, and it needs nobody to be alone with it.
///
/// # Safety
/// Both must be true.
pub(crate) unsafe trait Zeros: Sync + 'static {}

// SAFETY: any bits are a value.
unsafe impl Zeros for u8 {}
// SAFETY: any bits are a value.
unsafe impl Zeros for u64 {}
// SAFETY: any bits are a value.
unsafe impl Zeros for usize {}
// SAFETY: any bits are a value.
unsafe impl Zeros for AtomicU32 {}
// SAFETY: any bits are a value.
unsafe impl Zeros for AtomicU64 {}
// SAFETY: as each of them.
unsafe impl<T: Zeros, const COUNT: usize> Zeros for [T; COUNT] {}
// SAFETY: null says that there is none.
unsafe impl<T: Zeros> Zeros for Table<T> {}
// SAFETY: as the words.
unsafe impl Zeros for Sixteen {}

// SAFETY: no leaf is there, and so no block is dressed.
unsafe impl<const LEAVES: usize, const WORDS: usize> Zeros for heapledger_guard::Dressed<LEAVES, WORDS> {}

// SAFETY: a row that is vacant.
unsafe impl Zeros for heapledger_guard::Slot {}
// SAFETY: made of words; zeros are a group of which nothing is free.
unsafe impl Zeros for heapledger_guard::groups::Group {}

/// Parts of the bitmap of dressed blocks, each in a mapping of its own.
pub(crate) struct Leaves;

impl<const WORDS: usize> heapledger_guard::Pages<WORDS> for Leaves {
    #[cold]
    #[inline(never)]
    fn take(&self) -> Option<&'static heapledger_guard::Leaf<WORDS>> {
        let fresh = map::<heapledger_guard::Leaf<WORDS>>(1)?;
        let _ = syscall::advise(fresh.cast(), pages::<heapledger_guard::Leaf<WORDS>>(1), advice::NO_HUGE_PAGE);
        // SAFETY: mapped for such a value, of which zeros are one; only `give_back` unmaps it.
        Some(unsafe { &*fresh })
    }

    fn give_back(&self, leaf: &'static heapledger_guard::Leaf<WORDS>) {
        let address = core::ptr::from_ref(leaf).cast_mut().cast();
        // SAFETY: it was taken, and is given back by the only one who knows it.
        unsafe { syscall::unmap(address, pages::<heapledger_guard::Leaf<WORDS>>(1)) };
    }
}

/// Nobody else uses what the recorder has mapped, nor will.
pub(crate) struct Alone(());

impl Alone {
    /// Says so.
    ///
    /// # Safety
    /// It must be true, as long as this is there: one thread, that holds no reference into a table. And what was unmapped with it is
    /// asked for again only after its place was made zeros, or was unmapped itself.
    pub(crate) unsafe fn new() -> Alone {
        Alone(())
    }

    /// Makes a static value all zeros again. Whole pages are given back, and not written to: after a fork that would copy them first.
    ///
    /// # Safety
    /// Zeros are a value of it, and it has no bytes in a file: its whole pages are the kernel's zeros at first.
    pub(crate) unsafe fn make_zeros<T>(&self, value: *mut T) {
        let start = value as usize;
        let end = start.wrapping_add(size_of::<T>());
        let (first, last) = (start.next_multiple_of(PAGE_BYTES), end & !PAGE_BYTES.wrapping_sub(1));
        // SAFETY: whole pages of the value, which the caller may lose.
        let given = first < last
            && unsafe { syscall::change(first as *mut u8, last.wrapping_sub(first), advice::DONT_NEED) }.is_ok();
        let (first, last) = if given { (first, last) } else { (end, end) };
        for (from, to) in [(start, first), (last, end)] {
            // SAFETY: bytes of the value, of which the caller says that they may be zeros.
            unsafe { core::ptr::write_bytes(from as *mut u8, 0, to.saturating_sub(from)) };
        }
    }
}

/// So little is used as a whole, more or less: it is all there at once.
pub(crate) const PRESENT_BYTES_MAX: usize = 16 << 10;

/// Fresh memory for a value. `None` if there is none.
fn map<T>(count: usize) -> Option<*mut T> {
    const { assert!(align_of::<T>() <= PAGE_BYTES) };
    let bytes = pages::<T>(count);
    if let Some(spare) = Spare::take(bytes) {
        return Some(spare.cast());
    }
    let mapped = if bytes > PRESENT_BYTES_MAX { syscall::map_anonymous(bytes) } else { syscall::map_present(bytes) };
    mapped.ok().map(<*mut u8>::cast)
}

/// Bytes of so many values, in whole pages.
fn pages<T>(count: usize) -> usize {
    count.saturating_mul(size_of::<T>()).next_multiple_of(PAGE_BYTES)
}

/// A row of values for the time of a call, zeros at first: its owner's alone, and given back with it.
pub(crate) struct Passing<T> {
    first: *mut T,
    count: usize,
}

impl<T: Zeros> Passing<T> {
    /// Room for so many. `None` if there is no memory.
    pub(crate) fn new(count: usize) -> Option<Passing<T>> {
        let count = count.max(1);
        let bytes = count.checked_mul(size_of::<T>())?;
        (bytes < isize::MAX as usize / 2).then(|| map::<T>(count)).flatten().map(|first| Passing { first, count })
    }

    /// The values.
    pub(crate) fn all(&mut self) -> &mut [T] {
        // SAFETY: mapped for so many, of which zeros are values, and nobody else knows of it.
        unsafe { core::slice::from_raw_parts_mut(self.first, self.count) }
    }
}

impl<T> Drop for Passing<T> {
    fn drop(&mut self) {
        // SAFETY: mapped with so many bytes, and lent to nobody any more.
        unsafe { syscall::unmap(self.first.cast(), pages::<T>(self.count)) };
    }
}

/// A value that is mapped when it is first needed. One touched word of it costs a page, not two megabytes.
#[repr(transparent)]
pub(crate) struct Table<T>(AtomicPtr<T>);

impl<T: Zeros> Table<T> {
    /// Not mapped.
    pub(crate) const fn new() -> Table<T> {
        Table(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// The value, if it was needed before.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or mapped for such a value, of which zeros are one.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Whether it was needed before.
    #[inline(always)]
    pub(crate) fn is_there(&self) -> bool {
        !self.0.load(Ordering::Relaxed).is_null()
    }

    /// The value. `None` if there is no memory.
    pub(crate) fn get_or_map(&self) -> Option<&'static T> {
        if let Some(known) = self.get() {
            return Some(known);
        }
        let fresh = map::<T>(1)?;
        let _ = syscall::advise(fresh.cast(), pages::<T>(1), advice::NO_HUGE_PAGE);
        if self.0.compare_exchange(core::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: nobody else has seen the fresh memory.
            unsafe { syscall::unmap(fresh.cast(), pages::<T>(1)) };
        }
        self.get()
    }

    /// Bytes of it that are present in memory. Asks the kernel.
    #[cold]
    #[inline(never)]
    pub(crate) fn resident_bytes(&self) -> u64 {
        let address = self.0.load(Ordering::Acquire) as usize;
        if address == 0 { 0 } else { syscall::resident_bytes(address, pages::<T>(1)) }
    }

    /// Gives its memory back. What leads there stays as it is: see [`Alone`].
    pub(crate) fn unmap(&self, alone: &Alone) {
        // Looking only: after a fork a store copies the page that this lies in.
        let address = self.0.load(Ordering::Acquire);
        if !address.is_null() {
            // SAFETY: mapped with so many bytes, and nobody asks for it before this is zeros: [`Alone`].
            unsafe { Spare::put(address.cast(), pages::<T>(1), alone) };
        }
    }
}

impl<E: Zeros, const COUNT: usize> Table<[E; COUNT]> {
    /// Tells of the values that lie in pages which are present, if it was needed before: the others are zeros, and looking at them would
    /// cost a page fault each.
    /// Returns the bytes of those pages.
    #[inline(always)]
    pub(crate) fn each_present(&self, mut tell: impl FnMut(&'static E)) -> u64 {
        let Some(values) = self.get() else { return 0 };
        let in_page = const { PAGE_BYTES / size_of::<E>() };
        let mut bytes = 0u64;
        syscall::each_present_page(values.as_ptr() as usize, size_of::<[E; COUNT]>(), &mut |page| {
            values.iter().skip(page.wrapping_mul(in_page)).take(in_page).for_each(&mut tell);
            bytes = bytes.wrapping_add(PAGE_BYTES as u64);
        });
        bytes
    }
}

/// A row of values, as many as are asked for when it is mapped.
pub(crate) struct Run<T> {
    first: AtomicPtr<T>,
    /// Set once, before the first pointer is.
    count: AtomicU32,
}

/// A part of a whole in fractions of 2³², of so many: which one, and what fraction of that is left.
#[inline(always)]
pub(crate) fn share(fraction: u32, count: u32) -> (u32, u32) {
    let product = u64::from(fraction).wrapping_mul(u64::from(count));
    ((product >> 32) as u32, product as u32)
}

impl<T: Zeros> Run<T> {
    /// Not mapped.
    pub(crate) const fn new() -> Run<T> {
        Run { first: AtomicPtr::new(core::ptr::null_mut()), count: AtomicU32::new(0) }
    }

    /// Maps so many, if nobody has. `None` if there is no memory.
    pub(crate) fn map(&self, count: u32) -> Option<&'static [T]> {
        // Who asks first has chosen.
        let count = self
            .count
            .compare_exchange(0, count, Ordering::AcqRel, Ordering::Acquire)
            .map_or_else(|known| known, |_| count);
        if self.first.load(Ordering::Acquire).is_null() {
            let fresh = map::<T>(count as usize)?;
            if self.first.compare_exchange(core::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: nobody else has seen the fresh memory.
                unsafe { syscall::unmap(fresh.cast(), pages::<T>(count as usize)) };
            }
        }
        Some(self.all())
    }

    /// How many were asked for.
    #[inline(always)]
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// All values; none before they are mapped.
    #[inline(always)]
    pub(crate) fn all(&self) -> &'static [T] {
        let first = self.first.load(Ordering::Acquire);
        if first.is_null() {
            return &[];
        }
        // SAFETY: mapped for so many values, of which zeros are one; the count was set before and never changes.
        unsafe { core::slice::from_raw_parts(first, self.count() as usize) }
    }

    /// The value at a fraction of the row, and what is [left](share) of that. `None` before they are mapped.
    #[inline(always)]
    pub(crate) fn at(&self, fraction: u32) -> Option<(&'static T, u32)> {
        let first = self.first.load(Ordering::Acquire);
        if first.is_null() {
            return None;
        }
        let (index, left) = share(fraction, self.count());
        // SAFETY: as in `all`; a fraction of the count is below it.
        Some((unsafe { &*first.add(index as usize) }, left))
    }

    /// None of them goes into core dumps, but for the first so many: the kernel would look at each page.
    pub(crate) fn dump_only(&self, count: u64) {
        let first = self.first.load(Ordering::Acquire);
        let all = pages::<T>(self.count() as usize);
        let used = pages::<T>(usize::try_from(count).unwrap_or(usize::MAX)).min(all);
        if !first.is_null() {
            let _ = syscall::advise(first.cast(), all, advice::DONT_DUMP);
            if used != 0 {
                let _ = syscall::advise(first.cast(), used, advice::DO_DUMP);
            }
        }
    }

    /// Whether those that are touched from now on may lie in huge pages.
    pub(crate) fn make_huge(&self, may_be: bool) {
        let first = self.first.load(Ordering::Acquire);
        if !first.is_null() {
            let advice = if may_be { advice::HUGE_PAGE } else { advice::NO_HUGE_PAGE };
            let _ = syscall::advise(first.cast(), pages::<T>(self.count() as usize), advice);
        }
    }

    /// Gives back the memory of those behind the first so many: nobody looks at them any more, and it is never [unmapped](Self::unmap).
    pub(crate) fn give_back_from(&self, count: u64) {
        let first = self.first.load(Ordering::Acquire) as usize;
        let all = pages::<T>(self.count() as usize);
        let used = pages::<T>(usize::try_from(count).unwrap_or(usize::MAX)).min(all);
        if first != 0 && used < all {
            // SAFETY: whole pages of ours, in which nobody has a reference to anything, nor asks for one.
            unsafe { syscall::unmap(first.wrapping_add(used) as *mut u8, all.wrapping_sub(used)) };
        }
    }

    /// As [`Table::resident_bytes`].
    #[cold]
    #[inline(never)]
    pub(crate) fn resident_bytes(&self) -> u64 {
        let address = self.first.load(Ordering::Acquire) as usize;
        if address == 0 { 0 } else { syscall::resident_bytes(address, pages::<T>(self.count() as usize)) }
    }

    /// As [`Table::unmap`].
    pub(crate) fn unmap(&self, alone: &Alone) {
        let first = self.first.load(Ordering::Acquire);
        if !first.is_null() {
            // SAFETY: mapped with so many bytes, and nobody asks for it before this is zeros: [`Alone`].
            unsafe { Spare::put(first.cast(), pages::<T>(self.count() as usize), alone) };
        }
    }
}

/// Sixteen words on a line of the cache, which are compared all at once: a loop over them would be mispredicted nearly every time.
#[repr(C, align(64))]
pub(crate) struct Sixteen([AtomicU32; 16]);

/// Those of sixteen words that are still to be looked at.
#[derive(Clone, Copy)]
pub(crate) struct Alike(u32);

impl Sixteen {
    /// Each of them.
    #[inline(always)]
    pub(crate) fn words(&self) -> &[AtomicU32; 16] {
        &self.0
    }

    /// Which of them are like `value` in the bits of `mask`. Each is loaded whole, and those that others store meanwhile may be
    /// missed. Never moved before what was loaded earlier.
    #[inline(always)]
    pub(crate) fn alike(&self, value: u32, mask: u32) -> Alike {
        let found: u32;
        // SAFETY: reads the 64 bytes of the words, which are aligned. In assembly, because other threads may store there meanwhile:
        // each is a word that is loaded whole.
        unsafe {
            asm!(
                "movd {tags}, {tag:e}",
                "pshufd {tags}, {tags}, 0",
                "movd {high}, {mask:e}",
                "pshufd {high}, {high}, 0",
                "movdqa {a}, [{window}]",
                "movdqa {b}, [{window} + 16]",
                "movdqa {c}, [{window} + 32]",
                "movdqa {d}, [{window} + 48]",
                "pand {a}, {high}",
                "pand {b}, {high}",
                "pand {c}, {high}",
                "pand {d}, {high}",
                "pcmpeqd {a}, {tags}",
                "pcmpeqd {b}, {tags}",
                "pcmpeqd {c}, {tags}",
                "pcmpeqd {d}, {tags}",
                "packssdw {a}, {b}",
                "packssdw {c}, {d}",
                "packsswb {a}, {c}",
                "pmovmskb {found:e}, {a}",
                window = in(reg) self,
                tag = in(reg) value & mask,
                mask = in(reg) mask,
                found = lateout(reg) found,
                tags = out(xmm_reg) _,
                high = out(xmm_reg) _,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags, readonly),
            );
        }
        Alike(found)
    }

    /// The next of those that are alike, which is not among them afterwards.
    #[inline(always)]
    pub(crate) fn next(&self, alike: &mut Alike) -> Option<&AtomicU32> {
        if alike.0 == 0 {
            return None;
        }
        let index = alike.0.trailing_zeros() as usize;
        alike.0 &= alike.0.wrapping_sub(1);
        // SAFETY: a bit that `pmovmskb` has made of one of sixteen bytes; nothing else makes an `Alike`.
        Some(unsafe { self.0.get_unchecked(index) })
    }
}

/// Fresh values for whoever asks, who gives their memory back.
pub(crate) struct Loan<T: Zeros> {
    first: *mut T,
    count: usize,
}

impl<T: Zeros> Loan<T> {
    /// So many. `None` if there is no memory.
    pub(crate) fn of(count: usize) -> Option<Loan<T>> {
        map::<T>(count.max(1)).map(|first| Loan { first, count })
    }
}

impl<T: Zeros> core::ops::Deref for Loan<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: mapped for so many values, of which zeros are one, and nobody else knows them.
        unsafe { core::slice::from_raw_parts(self.first, self.count) }
    }
}

impl<T: Zeros> core::ops::DerefMut for Loan<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(self.first, self.count) }
    }
}

impl<T: Zeros> Drop for Loan<T> {
    fn drop(&mut self) {
        // SAFETY: mapped with so many bytes, and what was lent has ended.
        unsafe { syscall::unmap(self.first.cast(), pages::<T>(self.count.max(1))) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_alike_are_all_found() {
        let words = Sixteen([const { AtomicU32::new(0) }; 16]);
        for (index, word) in words.words().iter().enumerate() {
            word.store(0xABCD_0000 | index as u32, Ordering::Relaxed);
        }
        words.words()[3].store(0x1234_0003, Ordering::Relaxed);
        let all = |value, mask| {
            let mut alike = words.alike(value, mask);
            core::iter::from_fn(|| words.next(&mut alike)).map(|word| word.load(Ordering::Relaxed) & 0xF).sum::<u32>()
        };
        assert_eq!(all(0xABCD_FFFF, 0xFFFF_0000), 120 - 3);
        assert_eq!(all(0x1234_FFFF, 0xFFFF_0000), 3);
        assert_eq!((all(0xABCD_000F, u32::MAX), all(0x5555_0000, 0xFFFF_0000)), (15, 0));
    }

    #[test]
    fn a_table_is_there_when_it_was_needed() {
        let mut table: Table<[AtomicU32; 5000]> = Table::new();
        assert!(table.get().is_none() && table.resident_bytes() == 0);
        table.get_or_map().expect("memory")[4999].store(7, Ordering::Relaxed);
        assert_eq!(table.get().expect("it was mapped")[4999].load(Ordering::Relaxed), 7);
        assert_eq!(table.resident_bytes(), PAGE_BYTES as u64);
        let mut run: Run<AtomicU64> = Run::new();
        assert!(run.all().is_empty() && run.at(0).is_none());
        assert_eq!((run.map(1000).expect("memory").len(), run.map(7).expect("the same").len()), (1000, 1000));
        for fraction in [0, 1, 1 << 31, u32::MAX] {
            let (word, _) = run.at(fraction).expect("it was mapped");
            assert!(core::ptr::eq(word, &run.all()[share(fraction, 1000).0 as usize]), "{fraction}");
        }
        // SAFETY: no reference into them is used any more.
        let alone = unsafe { Alone::new() };
        table.unmap(&alone);
        run.unmap(&alone);
        // SAFETY: of both zeros are a value, and neither is large enough for a page of its own.
        unsafe {
            alone.make_zeros(&raw mut table);
            alone.make_zeros(&raw mut run);
        }
        assert!(table.get().is_none() && run.all().is_empty());
    }
}
