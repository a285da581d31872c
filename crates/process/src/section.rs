//! The ledger's memory: words of its header, and elements of its sections.
//!
//! A room with `unsafe`: addresses in the mapped file become atomic words here. Elements are known by their numbers, which come
//! from [leases](crate::ledger::Ledger::lease): so what they lead to has storage, and stays mapped for good. Our own tests look at
//! each number (`checked`); what is built to be used trusts them, because a look would cost every block some instructions.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use heapledger_format::SectionKind;
use heapledger_format::bytes::WordSize;
use heapledger_format::header::{self, HEADER_BYTES_MAX, Header, State};
use heapledger_format::section::row;
use heapledger_linux::memory::{self, FileMapping};
use heapledger_linux::syscall::{self, Errno};

use crate::ledger::PAGE_BYTES;
use crate::private::Alone;

/// The words of a ledger's header.
pub(crate) struct HeaderPage(usize);

impl HeaderPage {
    /// Of no ledger.
    pub(crate) const fn none() -> HeaderPage {
        HeaderPage(0)
    }

    /// Writes a header to the beginning of a fresh mapping, all but the byte order mark. `None` if there is no storage; the file
    /// is gone then.
    pub(crate) fn write(mapping: FileMapping, header: &Header) -> Option<(HeaderPage, FileMapping)> {
        if mapping.back(0, HEADER_BYTES_MAX).is_err() {
            // SAFETY: who calls has given it away, and nothing of it was looked at.
            unsafe { mapping.destroy() };
            return None;
        }
        // SAFETY: the first pages were just backed, and nobody else knows the mapping yet.
        let page = unsafe { core::slice::from_raw_parts_mut(mapping.base(), HEADER_BYTES_MAX) };
        header.write_unready(page);
        Some((HeaderPage(mapping.base() as usize), mapping))
    }

    #[inline(always)]
    fn at(&self, offset: usize) -> usize {
        if cfg!(feature = "checked") {
            assert!(self.0 != 0 && offset < HEADER_BYTES_MAX, "no ledger is mapped");
        }
        self.0.wrapping_add(offset)
    }

    /// A counter.
    #[inline(always)]
    pub(crate) fn counter(&self, index: usize) -> &AtomicU64 {
        // SAFETY: an aligned word of the header page, which was backed before this was made.
        unsafe { &*(self.at(header::counter_at(WordSize::W64, index)) as *const AtomicU64) }
    }

    /// What it holds now.
    pub(crate) fn copy(&self, into: &mut [u8; HEADER_BYTES_MAX]) {
        for (offset, place) in (0..).step_by(8).zip(into.chunks_exact_mut(8)) {
            // SAFETY: an aligned word of the header page, which is backed as a whole.
            let word = unsafe { &*(self.at(offset) as *const AtomicU64) }.load(Ordering::Acquire);
            place.copy_from_slice(&word.to_ne_bytes());
        }
    }

    /// The mark without which readers keep off.
    pub(crate) fn set_byte_order(&self) {
        // SAFETY: an aligned half word of the backed header page.
        let mark = unsafe { &*(self.at(header::at::BYTE_ORDER) as *const core::sync::atomic::AtomicU16) };
        mark.store(0x0102, Ordering::Release);
    }

    /// What the recorder is doing.
    pub(crate) fn set_state(&self, state: State) {
        // SAFETY: a byte of the backed header page.
        unsafe { &*(self.at(header::at::STATE) as *const AtomicU8) }.store(state as u8, Ordering::Release);
    }
}

/// A section of the mapped ledger.
pub struct Section {
    base: usize,
    element_bytes: usize,
    offset: usize,
    capacity: u64,
    /// Bytes of it that are mapped, in whole pages. Changed by who holds the token for growing.
    pub(crate) mapped: AtomicUsize,
    used: AtomicUsize,
    backed: AtomicUsize,
    /// Elements that this process can touch. A child that was forked in the middle of a hook goes on in its parent's file, which may have
    /// grown since, and there the pages are closed in its own memory.
    open: AtomicU64,
    /// Requests still to be refused without asking, and how many the last failure made it.
    pub(crate) refused: AtomicU32,
    pub(crate) skips: AtomicU32,
}

impl Section {
    pub(crate) const fn vacant() -> Section {
        Section {
            base: 0,
            element_bytes: 0,
            offset: 0,
            capacity: 0,
            mapped: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            backed: AtomicUsize::new(0),
            open: AtomicU64::new(0),
            refused: AtomicU32::new(0),
            skips: AtomicU32::new(0),
        }
    }

    /// A section as it was planned in the header that this page has.
    pub(crate) fn new(page: &HeaderPage, header: &Header, kind: SectionKind) -> Option<Section> {
        let (at, planned) = (header.row_at(kind)?, header.section(kind)?);
        let element_bytes = usize::from(planned.element_bytes);
        Some(Section {
            base: page.at(0).wrapping_add(planned.offset as usize),
            element_bytes,
            offset: planned.offset as usize,
            capacity: planned.capacity,
            mapped: AtomicUsize::new(
                (planned.capacity as usize).wrapping_mul(element_bytes).next_multiple_of(PAGE_BYTES),
            ),
            used: AtomicUsize::new(page.at(at.wrapping_add(row::used(WordSize::W64)))),
            backed: AtomicUsize::new(page.at(at.wrapping_add(row::backed(WordSize::W64)))),
            ..Section::vacant()
        })
    }

    fn cursor(word: &AtomicUsize) -> &AtomicU64 {
        let address = word.load(Ordering::Relaxed);
        if cfg!(feature = "checked") {
            assert!(address != 0, "no ledger is mapped");
        }
        // SAFETY: set once to the address of an aligned word of the header, which stays mapped and backed.
        unsafe { &*(address as *const AtomicU64) }
    }

    /// How many elements were handed out.
    pub(crate) fn used_word(&self) -> &AtomicU64 {
        Self::cursor(&self.used)
    }

    /// How many elements have storage.
    fn backed_word(&self) -> &AtomicU64 {
        Self::cursor(&self.backed)
    }

    /// From now on so many elements have storage, and can be touched.
    pub(crate) fn set_backed(&self, elements: u64) {
        self.open.store(elements, Ordering::Release);
        self.backed_word().fetch_max(elements, Ordering::Release);
    }

    /// Elements handed out so far.
    pub fn used(&self) -> u64 {
        self.used_word().load(Ordering::Acquire)
    }

    /// Elements that have storage and that this process can touch.
    pub(crate) fn backed(&self) -> u64 {
        self.open.load(Ordering::Acquire)
    }

    /// Bytes that so many elements take; where an element begins.
    #[inline(always)]
    fn bytes_of(&self, elements: u64) -> usize {
        (elements as usize).wrapping_mul(self.element_bytes)
    }

    /// Bytes that so many elements take, in whole pages.
    pub(crate) fn pages(&self, elements: u64) -> usize {
        self.bytes_of(elements).next_multiple_of(PAGE_BYTES)
    }

    /// Elements that there is address room for.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes of an element.
    pub(crate) fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Where it begins in the file.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// The words of an element that was leased to somebody; each has so many.
    #[inline(always)]
    pub fn element<const WORDS: usize>(&self, index: u64) -> &[AtomicU64; WORDS] {
        if cfg!(feature = "checked") {
            let is_leased = self.element_bytes == WORDS.wrapping_mul(8) && index < self.used();
            assert!(is_leased, "an element that nobody leased");
        }
        // SAFETY: an element below `used`, which is backed: so many aligned words, and all access to them is atomic.
        unsafe { &*(self.address::<WORDS>(index) as *const [AtomicU64; WORDS]) }
    }

    /// An element of 4 bytes that was leased to somebody.
    #[inline(always)]
    pub(crate) fn number(&self, index: u64) -> &AtomicU32 {
        debug_assert!(self.element_bytes == 4 && index < self.used(), "an element that nobody leased");
        // SAFETY: an element below `used`, which is backed: an aligned half word, and all access to it is atomic.
        unsafe { &*(self.base.wrapping_add((index as usize).wrapping_mul(4)) as *const AtomicU32) }
    }

    #[inline(always)]
    fn address<const WORDS: usize>(&self, index: u64) -> usize {
        self.base.wrapping_add((index as usize).wrapping_mul(WORDS.wrapping_mul(8)))
    }

    /// Starts to load an element. `index` can be any number: where nothing is mapped, that does nothing.
    #[inline(always)]
    pub(crate) fn fetch_soon<const WORDS: usize>(&self, index: u64) {
        memory::fetch_soon(self.address::<WORDS>(index) as *const u8);
    }

    /// A word of what has storage; 0 beyond that.
    pub(crate) fn word(&self, index: usize) -> u64 {
        let at = index.wrapping_mul(8);
        if at >= self.pages(self.backed()) {
            return 0;
        }
        // SAFETY: an aligned word of a page that has storage.
        unsafe { &*(self.base.wrapping_add(at) as *const AtomicU64) }.load(Ordering::Acquire)
    }

    /// Copies words of what has storage; zeros beyond that.
    pub(crate) fn copy_words(&self, first: usize, into: &mut [u64]) {
        for (index, place) in (first..).zip(into) {
            *place = self.word(index);
        }
    }

    /// Copies words that may have no storage any more: zeros then, and no signal.
    pub(crate) fn copy_words_if_there(&self, first: usize, into: &mut [u64]) {
        let at = first.wrapping_mul(8);
        let bytes = size_of_val(into);
        if at.saturating_add(bytes) > self.pages(self.backed()) {
            return into.fill(0);
        }
        match syscall::copy_memory(self.base.wrapping_add(at), into) {
            Ok(()) => {}
            Err(Errno::FAULT) => into.fill(0),
            // Forbidden: what is there is looked at, and who gives it back in this moment leaves a hole, which reads as zeros
            // wherever there is room for a page.
            Err(_) => self.copy_words(first, into),
        }
    }

    /// Copies bytes to elements that were leased, from the first byte of `index` on. What would lie beyond what is backed is left out.
    pub(crate) fn fill(&self, index: u64, bytes: &[u8]) {
        let end = self.bytes_of(self.backed());
        let first = self.bytes_of(index);
        // Where others look at words, words are stored.
        let (words, bytes) = if self.element_bytes.is_multiple_of(8) { bytes.as_chunks() } else { (&[][..], bytes) };
        for (at, word) in (first..end).step_by(8).zip(words) {
            // SAFETY: an aligned word of an element that has storage.
            let place = unsafe { &*(self.base.wrapping_add(at) as *const AtomicU64) };
            place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        for (at, byte) in (first.wrapping_add(words.len().wrapping_mul(8))..end).zip(bytes) {
            // SAFETY: a byte of an element that has storage.
            unsafe { &*(self.base.wrapping_add(at) as *const AtomicU8) }.store(*byte, Ordering::Relaxed);
        }
    }

    /// Takes what is mapped beyond so many bytes out of the address space. What has storage stays, and a page at least, from
    /// which the mapping can be made longer. Not while somebody else makes the section grow.
    pub(crate) fn cut(&self, mapping: &FileMapping, kept: usize) {
        let kept = kept.max(self.pages(self.backed())).max(PAGE_BYTES);
        let mapped = self.mapped.load(Ordering::Relaxed);
        if kept < mapped {
            // First: a child that is forked in between takes out of its memory no more than what is said here.
            self.mapped.store(kept, Ordering::Relaxed);
            // SAFETY: elements are handed out below `backed` only.
            unsafe { mapping.unmap(self.offset.wrapping_add(kept), mapped.wrapping_sub(kept)) };
        }
    }

    /// Gives the storage of elements on whole pages back. They stay mapped, and read as zero. To be stored to no more: there may be
    /// no storage for it.
    pub(crate) fn give_back(&self, mapping: &FileMapping, first: u64, count: u64) -> Option<usize> {
        let (at, bytes) = (self.bytes_of(first), self.bytes_of(count));
        // SAFETY: what is discarded are atomic words, of which zeros are as good as any.
        unsafe { mapping.give_back(self.offset.wrapping_add(at), bytes) }.ok().map(|()| bytes)
    }
}

/// Takes a ledger that is another process's out of the address space, its header and what of its sections is still mapped: where the rest
/// was, others may have something by now. The file stays.
pub(crate) fn leave(mapping: &FileMapping, sections: &[Section], _: &Alone) {
    // SAFETY: nobody else is there who could look at it.
    let unmap = |(from, end): (usize, usize)| unsafe { mapping.unmap(from, end.wrapping_sub(from)) };
    let mut found = (0, HEADER_BYTES_MAX);
    for section in sections {
        let (from, bytes) = (section.offset, section.mapped.load(Ordering::Relaxed));
        if from != found.1 && bytes != 0 {
            unmap(found);
            found = (from, from);
        }
        found.1 = found.1.wrapping_add(bytes);
    }
    unmap(found);
}
