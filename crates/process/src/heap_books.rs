//! What heaps of the program's own hold, and the least that was free: kept at each call that is told of.
//!
//! A heap's books are words in private memory, changed when a block of an [inner](crate::inner) allocator is in the ledger, and when it
//! no longer is; so they cost nobody anything who has no such heap. What lies between its blocks is found by a walk.
#![forbid(unsafe_code)]

use crate::heaps::ROWS_MAX;
use crate::marks::NotTold;
use crate::private::{Alone, Table};
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use heapledger_linux::token::Token;
use heapledger_recorder::inspect::heaps::{HeapShape, may_lie_beside};

/// The words of a heap.
type Book = [AtomicU64; 16];

/// Which of them is what.
mod at {
    /// 1: it has begun.
    pub(super) const BEGUN: usize = 0;
    pub(super) const LOW: usize = 1;
    pub(super) const END: usize = 2;
    pub(super) const FLAGS: usize = 3;
    /// Six words: its shape, once it is known.
    pub(super) const SHAPE: usize = 4;
    pub(super) const USED_BYTES: usize = 10;
    pub(super) const BLOCKS: usize = 11;
    pub(super) const TAKEN: usize = 12;
    pub(super) const MOST: usize = 13;
    pub(super) const MOST_WATCHED: usize = 14;
    /// Blocks that it ever had.
    pub(super) const EVER: usize = 15;
}

/// What is known of a heap beside its figures.
pub mod flag {
    /// It has a shape.
    pub const SHAPE: u64 = 1;
    /// Blocks have passed by that it does not know of, or lie outside.
    pub const PARTIAL: u64 = 2;
    /// It began when others had blocks already.
    pub const LATE: u64 = 4;
}

/// The books of all heaps.
pub struct HeapBooks {
    books: Table<[Book; ROWS_MAX as usize + 1]>,
    /// Held by whoever begins a heap.
    beginning: Token,
    /// 1: the least that is free is watched.
    is_watched: AtomicU32,
    /// 1: some heap has had a block.
    has_begun: AtomicU32,
}

/// A heap's books as they were at some moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeapBook {
    /// Its range; empty: not known.
    pub range: [u64; 2],
    /// See [`flag`].
    pub flags: u64,
    /// What its allocator takes.
    pub shape: HeapShape,
    /// Bytes asked for, blocks, bytes with what the allocator takes, the most of these, the most since the watch began.
    pub sums: [u64; 5],
}

impl HeapBooks {
    /// None.
    pub(crate) const fn new() -> HeapBooks {
        HeapBooks {
            books: Table::new(),
            beginning: Token::new(),
            is_watched: AtomicU32::new(0),
            has_begun: AtomicU32::new(0),
        }
    }

    /// Gives the memory back.
    pub(crate) fn unmap(&self, alone: &Alone) {
        self.books.unmap(alone);
    }

    /// Whether any heap has begun.
    pub(crate) fn are_there(&self) -> bool {
        self.books.is_there()
    }

    fn book(&self, heap: u32) -> Option<&'static Book> {
        self.books.get()?.get(heap as usize).filter(|book| get(book, at::BEGUN) != 0)
    }

    /// Whether a heap is the program's own.
    pub(crate) fn has(&self, heap: u32) -> bool {
        self.book(heap).is_some()
    }

    /// A heap begins in the row that `enter` gives, if its range may be one beside those of heaps that `is_there` says are not gone.
    ///
    /// # Errors
    /// If it may not, or there is no room for it.
    pub(crate) fn begin(
        &self,
        range: &Range<usize>,
        is_there: impl Fn(u32) -> bool,
        enter: impl FnOnce() -> Result<u8, NotTold>,
    ) -> Result<u8, NotTold> {
        let books = self.books.get_or_map().ok_or(NotTold::NoRoom)?;
        let _held = self.beginning.take().ok_or(NotTold::Busy)?;
        let overlaps = |(row, book): (u32, &Book)| {
            let there = get(book, at::LOW) as usize..get(book, at::END) as usize;
            get(book, at::BEGUN) != 0 && !there.is_empty() && !may_lie_beside(range, &there) && is_there(row)
        };
        if !range.is_empty() && (0..).zip(books).any(overlaps) {
            return Err(NotTold::Overlaps);
        }
        let row = enter()?;
        let book = books.get(usize::from(row)).ok_or(NotTold::NoRoom)?;
        set(book, at::LOW, range.start as u64);
        set(book, at::END, if range.is_empty() { range.start } else { range.end } as u64);
        set(book, at::FLAGS, if self.has_begun.load(Ordering::Relaxed) != 0 { flag::LATE } else { 0 });
        set(book, at::BEGUN, 1);
        Ok(row)
    }

    /// Says what a heap's allocator takes: before it has given a block, and once.
    ///
    /// # Errors
    /// If there is no such heap, or it is too late, or there cannot be such an allocator.
    pub(crate) fn set_shape(&self, heap: u32, shape: &HeapShape) -> Result<(), NotTold> {
        let book = self.book(heap).ok_or(NotTold::Unknown)?;
        let _held = self.beginning.take().ok_or(NotTold::Busy)?;
        let bytes = get(book, at::END).wrapping_sub(get(book, at::LOW)) as usize;
        if get(book, at::EVER) != 0 || get(book, at::FLAGS) & flag::SHAPE != 0 {
            return Err(NotTold::NotSo);
        }
        if !shape.can_be(bytes) {
            return Err(NotTold::Invalid);
        }
        let HeapShape { before, after, granule, least, first, last } = *shape;
        for (word, value) in (at::SHAPE..).zip([before, after, granule, least, first, last]) {
            set(book, word, value as u64);
        }
        add_flag(book, flag::SHAPE);
        Ok(())
    }

    /// The least that is free is watched from now on, anew if it was; or no longer.
    ///
    /// # Errors
    /// If it was not.
    pub(crate) fn watch(&self, begins: bool) -> Result<(), NotTold> {
        if !begins {
            let was = self.is_watched.swap(0, Ordering::SeqCst);
            return if was == 0 { Err(NotTold::NotSo) } else { Ok(()) };
        }
        self.is_watched.store(1, Ordering::SeqCst);
        for book in self.books.get().into_iter().flatten() {
            // Whoever has taken more and not noted it yet is seen by the load.
            set(book, at::MOST_WATCHED, 0);
            raise(book, at::MOST_WATCHED, load(book, at::TAKEN));
        }
        Ok(())
    }

    /// A heap's books.
    pub(crate) fn of(&self, heap: u32) -> Option<HeapBook> {
        let book = self.book(heap)?;
        let most = get(book, at::MOST);
        let is_watched = self.is_watched.load(Ordering::SeqCst) != 0;
        let watched = if is_watched { get(book, at::MOST_WATCHED) } else { most };
        Some(HeapBook {
            range: [get(book, at::LOW), get(book, at::END)],
            flags: get(book, at::FLAGS),
            shape: shape(book),
            sums: [get(book, at::USED_BYTES), get(book, at::BLOCKS), get(book, at::TAKEN), most, watched],
        })
    }

    /// A block is in the ledger. `bytes`: asked for in each, of so many.
    pub(crate) fn enters(&self, heap: u32, address: u64, bytes: u64, blocks: u64) {
        let Some(book) = self.book(heap) else { return };
        if self.has_begun.load(Ordering::Relaxed) == 0 {
            self.has_begun.store(1, Ordering::Relaxed);
        }
        book_of(book, at::EVER).fetch_add(blocks, Ordering::Relaxed);
        if !is_inside(book, address, bytes) {
            return add_flag(book, flag::PARTIAL);
        }
        add(book, at::USED_BYTES, bytes.wrapping_mul(blocks));
        add(book, at::BLOCKS, blocks);
        let taken = taken(book, bytes).wrapping_mul(blocks);
        let now = add(book, at::TAKEN, taken).wrapping_add(taken);
        raise(book, at::MOST, now);
        if self.is_watched.load(Ordering::SeqCst) != 0 {
            raise(book, at::MOST_WATCHED, now);
        }
    }

    /// It is in it no more.
    pub(crate) fn leaves(&self, heap: u32, address: u64, bytes: u64, blocks: u64) {
        let Some(book) = self.book(heap).filter(|book| is_inside(book, address, bytes)) else { return };
        add(book, at::USED_BYTES, bytes.wrapping_mul(blocks).wrapping_neg());
        add(book, at::BLOCKS, blocks.wrapping_neg());
        add(book, at::TAKEN, taken(book, bytes).wrapping_mul(blocks).wrapping_neg());
    }

    /// A block has passed by.
    pub(crate) fn note_missed(&self, heap: u32) {
        if let Some(book) = self.book(heap) {
            add_flag(book, flag::PARTIAL);
        }
    }
}

impl Default for HeapBooks {
    fn default() -> Self {
        Self::new()
    }
}

/// All indices are those above.
#[expect(clippy::indexing_slicing, reason = "a number below the length")]
fn book_of(book: &Book, word: usize) -> &AtomicU64 {
    &book[word % 16]
}

fn get(book: &Book, word: usize) -> u64 {
    book_of(book, word).load(Ordering::Acquire)
}

fn load(book: &Book, word: usize) -> u64 {
    book_of(book, word).load(Ordering::SeqCst)
}

fn set(book: &Book, word: usize, value: u64) {
    book_of(book, word).store(value, Ordering::SeqCst);
}

fn add(book: &Book, word: usize, value: u64) -> u64 {
    book_of(book, word).fetch_add(value, Ordering::SeqCst)
}

fn raise(book: &Book, word: usize, to: u64) {
    book_of(book, word).fetch_max(to, Ordering::SeqCst);
}

fn add_flag(book: &Book, flag: u64) {
    book_of(book, at::FLAGS).fetch_or(flag, Ordering::SeqCst);
}

fn shape(book: &Book) -> HeapShape {
    let part = |index: usize| get(book, at::SHAPE.wrapping_add(index)) as usize;
    HeapShape { before: part(0), after: part(1), granule: part(2), least: part(3), first: part(4), last: part(5) }
}

fn taken(book: &Book, bytes: u64) -> u64 {
    shape(book).taken(bytes as usize) as u64
}

/// Of a heap without a range every block is inside.
fn is_inside(book: &Book, address: u64, bytes: u64) -> bool {
    let (low, end) = (get(book, at::LOW), get(book, at::END));
    low == end || address >= low && address < end && bytes <= end.wrapping_sub(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(ranges: &[Range<usize>]) -> HeapBooks {
        let books = HeapBooks::new();
        for (row, range) in (3u8..).zip(ranges) {
            assert_eq!(books.begin(range, |_| true, || Ok(row)), Ok(row));
        }
        books
    }

    #[test]
    fn ranges_that_overlap_an_edge_are_refused_and_take_no_row() {
        let books = begun(&[0x1000..0x3000, 0..0, 0..0]);
        let begin = |range: Range<usize>, there| books.begin(&range, |row| there && row == 3, || Ok(9));
        for range in [0x1000..0x3000, 0x2000..0x4000, 0..0x4000] {
            let entered = core::cell::Cell::new(false);
            let enter = || {
                entered.set(true);
                Ok(9)
            };
            assert_eq!(books.begin(&range, |_| true, enter), Err(NotTold::Overlaps));
            assert!(!entered.get(), "a row for {range:x?}");
        }
        assert_eq!(begin(0x1000..0x2000, true), Ok(9));
        assert_eq!(begin(0x1000..0x3000, false), Ok(9), "that heap is gone");
    }

    #[test]
    fn the_most_is_kept_at_each_call_and_the_watch_begins_anew() {
        let books = begun(&[0x1000..0x2000, 0..0]);
        let most = || books.of(3).map(|book| [book.sums[2], book.sums[3], book.sums[4]]);
        books.enters(3, 0x1000, 100, 1);
        books.enters(3, 0x1100, 200, 1);
        books.leaves(3, 0x1100, 200, 1);
        assert_eq!(most(), Some([100, 300, 300]));
        assert_eq!(books.watch(false), Err(NotTold::NotSo));
        assert_eq!((books.watch(true), most()), (Ok(()), Some([100, 300, 100])));
        books.enters(3, 0x1100, 50, 1);
        books.leaves(3, 0x1100, 50, 1);
        assert_eq!(most(), Some([100, 300, 150]));
        assert_eq!((books.watch(true), most()), (Ok(()), Some([100, 300, 100])));
        assert_eq!((books.watch(false), most()), (Ok(()), Some([100, 300, 300])));
        assert_eq!(books.watch(false), Err(NotTold::NotSo));
        assert_eq!(books.of(5).map(|book| book.flags), None);
    }

    #[test]
    fn a_shape_comes_before_the_first_block_and_once() {
        let books = begun(&[0x1000..0x2000, 0x5000..0x5010]);
        let shape = HeapShape { before: 16, granule: 16, ..HeapShape::default() };
        assert_eq!(books.set_shape(4, &HeapShape { first: 17, ..shape }), Err(NotTold::Invalid));
        assert_eq!(books.set_shape(3, &shape), Ok(()));
        assert_eq!(books.set_shape(3, &shape), Err(NotTold::NotSo));
        books.enters(3, 0x1010, 1, 1);
        books.enters(4, 0x5000, 17, 1);
        assert_eq!(books.set_shape(4, &shape), Err(NotTold::NotSo));
        assert_eq!(books.set_shape(5, &shape), Err(NotTold::Unknown));
        let sums = |heap| books.of(heap).map(|book| (book.flags, book.sums[0], book.sums[2]));
        assert_eq!(sums(3), Some((flag::SHAPE, 1, 32)));
        assert_eq!(sums(4), Some((flag::PARTIAL, 0, 0)), "it does not lie inside");
        assert_eq!(books.begin(&(0..0), |_| true, || Ok(7)), Ok(7));
        assert_eq!(books.of(7).map(|book| book.flags), Some(flag::LATE));
    }
}
