//! The allocator that records what passes through it.
//!
//! What is compiled into the program, for its allocator, is only how that one is called. All that is recorded is done in
//! `entry` and `calls`, which are compiled once, with this crate. These methods are compiled into their
//! callers whatever the optimisation, so that no frame of ours is in a stack.

use crate::Options;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use crate::entry;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use crate::spacing::Spacing;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
use crate::told;
use core::alloc::{GlobalAlloc, Layout};
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
use heapledger_format::Kind;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
use heapledger_watch::watched::{self, Block};
#[cfg(feature = "std")]
use std::alloc::System;

/// An allocator around another one, which records each block in the ledger of the process.
///
/// There is one ledger in a process, however many of these there are. See the [crate](crate) for an example.
#[derive(Debug)]
#[repr(C)]
pub struct Heapledger<A> {
    heap: Heap,
    allocator: A,
}

/// What is known of one without knowing the allocator inside.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Heap {
    pub(crate) options: Options,
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    pub(crate) spacing: Spacing,
    /// `GlobalAlloc::alloc` of the allocator inside.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    pub(crate) gives: Gives,
    /// Its `dealloc`.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    takes: Takes,
}

/// A function that has the allocator inside give a block: of which heap, size, alignment.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) type Gives = unsafe extern "C-unwind" fn(&Heap, usize, usize) -> *mut u8;
/// One that has it take a block back: size and alignment with which it was asked for.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) type Takes = unsafe extern "C-unwind" fn(&Heap, *mut u8, usize, usize);

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
impl Heap {
    /// Has the allocator inside give a block.
    ///
    /// # Safety
    /// Size and alignment are those of a layout, and the size is not 0.
    #[inline(always)]
    pub(crate) unsafe fn give(&self, size: usize, align: usize) -> *mut u8 {
        // SAFETY: the caller's; it is the heap of the `Heapledger` that the function is of.
        unsafe { (self.gives)(self, size, align) }
    }

    /// Has it take one back.
    ///
    /// # Safety
    /// It has given that block, and was asked for it with this size and alignment.
    #[inline(always)]
    pub(crate) unsafe fn take(&self, block: *mut u8, size: usize, align: usize) {
        // SAFETY: as above.
        unsafe { (self.takes)(self, block, size, align) }
    }

    /// Has the allocator inside give [`TRIED_BLOCKS`] blocks, and take them back.
    pub(crate) fn try_out(&self) {
        let mut blocks = [core::ptr::null_mut::<u8>(); TRIED_BLOCKS];
        // SAFETY: of a size that is not 0 and an alignment that is a power of two; what there is goes back once, as it was asked for.
        unsafe {
            for block in &mut blocks {
                *block = self.give(48, 16);
            }
            for block in blocks.into_iter().filter(|block| !block.is_null()) {
                self.take(block, 48, 16);
            }
        }
    }
}

/// See [`Heap::try_out`].
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) const TRIED_BLOCKS: usize = 8;

impl<A: GlobalAlloc + Default + 'static> Default for Heapledger<A> {
    fn default() -> Self {
        Heapledger::new(A::default())
    }
}

#[cfg(feature = "std")]
impl Heapledger<System> {
    /// Around the system's allocator.
    pub const fn system() -> Self {
        Heapledger::new(System)
    }
}

impl<A: GlobalAlloc + 'static> Heapledger<A> {
    /// Around an allocator. Records all blocks, from the first on.
    ///
    /// ```
    /// use heapledger::Heapledger;
    /// use std::alloc::System;
    ///
    /// #[global_allocator]
    /// static HEAP: Heapledger<System> = Heapledger::new(System);
    /// # fn main() { heapledger::discard(); }
    /// ```
    pub const fn new(allocator: A) -> Self {
        Heapledger::with(allocator, Options::new())
    }

    /// Around an allocator, in a way of the program's own.
    pub const fn with(allocator: A, options: Options) -> Self {
        Heapledger {
            heap: Heap {
                options,
                #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
                spacing: Spacing::of::<A>(),
                #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
                gives: real::alloc_of::<A>,
                #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
                takes: real::dealloc_of::<A>,
            },
            allocator,
        }
    }
}

impl<A> Heapledger<A> {
    /// The allocator inside.
    pub const fn inner(&self) -> &A {
        &self.allocator
    }
}

/// Layouts as words, and back. What is compiled here is compiled with the program, and perhaps without optimisation: there, the
/// standard library's own way takes a hundred instructions.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod words {
    use super::Layout;
    use core::mem::transmute;

    /// Whether a layout is two words, and its size the first of them; else it is made, and asked, as everybody does.
    const SIZE_IS_FIRST: Option<bool> = {
        const TRIED: Layout = Layout::new::<[u64; 5]>();
        // SAFETY: of the same size, both are words without gaps.
        match unsafe { transmute::<Layout, [usize; 2]>(TRIED) } {
            [40, 8] => Some(true),
            [8, 40] => Some(false),
            _ => None,
        }
    };

    /// # Safety
    /// They come from a layout.
    #[inline(always)]
    pub(super) unsafe fn layout(size: usize, align: usize) -> Layout {
        // SAFETY: the caller's promise; words that one of this size and alignment is made of, as the compiler has found out.
        unsafe {
            match SIZE_IS_FIRST {
                Some(true) => transmute::<[usize; 2], Layout>([size, align]),
                Some(false) => transmute::<[usize; 2], Layout>([align, size]),
                None => Layout::from_size_align_unchecked(size, align),
            }
        }
    }

    /// Size and alignment.
    #[inline(always)]
    pub(super) fn of(layout: Layout) -> (usize, usize) {
        // SAFETY: of the same size, both are words without gaps.
        let [first, second] = unsafe { transmute::<Layout, [usize; 2]>(layout) };
        match SIZE_IS_FIRST {
            Some(true) => (first, second),
            Some(false) => (second, first),
            None => (layout.size(), layout.align()),
        }
    }
}

/// How the allocator inside is called, by [`crate::entry`]. Whoever calls promises what `GlobalAlloc` asks for: size and alignment
/// come from a layout, and go back into one.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod real {
    use super::words::layout;
    use super::{GlobalAlloc, Heap, Heapledger};

    /// # Safety
    /// It is the heap of a `Heapledger<A>`, and as of `alloc`.
    pub(super) unsafe extern "C-unwind" fn alloc_of<A: GlobalAlloc>(heap: &Heap, size: usize, align: usize) -> *mut u8 {
        // SAFETY: the caller's; the heap is the first of its fields.
        unsafe { (*(&raw const *heap).cast::<Heapledger<A>>()).allocator.alloc(layout(size, align)) }
    }

    /// # Safety
    /// It is the heap of a `Heapledger<A>`, and as of `dealloc`.
    pub(super) unsafe extern "C-unwind" fn dealloc_of<A: GlobalAlloc>(
        heap: &Heap,
        block: *mut u8,
        size: usize,
        align: usize,
    ) {
        // SAFETY: the caller's; the heap is the first of its fields.
        unsafe { (*(&raw const *heap).cast::<Heapledger<A>>()).allocator.dealloc(block, layout(size, align)) }
    }

    pub(super) unsafe extern "C-unwind" fn alloc<A: GlobalAlloc>(
        heap: &Heapledger<A>,
        size: usize,
        align: usize,
    ) -> *mut u8 {
        // SAFETY: the program's own call.
        unsafe { heap.allocator.alloc(layout(size, align)) }
    }

    pub(super) unsafe extern "C-unwind" fn alloc_zeroed<A: GlobalAlloc>(
        heap: &Heapledger<A>,
        size: usize,
        align: usize,
    ) -> *mut u8 {
        // SAFETY: the program's own call.
        unsafe { heap.allocator.alloc_zeroed(layout(size, align)) }
    }

    pub(super) unsafe extern "C-unwind" fn dealloc<A: GlobalAlloc>(
        heap: &Heapledger<A>,
        block: *mut u8,
        size: usize,
        align: usize,
    ) {
        // SAFETY: the program's own call.
        unsafe { heap.allocator.dealloc(block, layout(size, align)) }
    }

    pub(super) unsafe extern "C-unwind" fn realloc<A: GlobalAlloc>(
        heap: &Heapledger<A>,
        block: *mut u8,
        size: usize,
        align: usize,
        new_size: usize,
    ) -> *mut u8 {
        // SAFETY: the program's own call.
        unsafe { heap.allocator.realloc(block, layout(size, align), new_size) }
    }
}

// SAFETY: every call goes on to an allocator that keeps the contract, once, with the same arguments.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
unsafe impl<A: GlobalAlloc> GlobalAlloc for Heapledger<A> {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = words::of(layout);
        // SAFETY: `real` is of this allocator.
        unsafe { entry::alloc((&raw const *self).cast(), size, align, real::alloc::<A> as *const ()) }
    }

    #[inline(always)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = words::of(layout);
        let real = real::alloc_zeroed::<A> as *const ();
        // SAFETY: as above.
        unsafe { entry::alloc_zeroed((&raw const *self).cast(), size, align, real) }
    }

    #[inline(always)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let (size, align) = words::of(layout);
        let real = real::dealloc::<A> as *const ();
        // SAFETY: as above.
        unsafe { entry::dealloc((&raw const *self).cast(), block, size, align, real) }
    }

    #[inline(always)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let (size, align) = words::of(layout);
        let real = real::realloc::<A> as *const ();
        // SAFETY: as above.
        unsafe { entry::realloc((&raw const *self).cast(), block, size, align, new_size, real) }
    }
}

// What `entry` takes for the heap of any of these, and its options: it does not know for which allocator it is called.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const _: () = assert!(core::mem::offset_of!(Heapledger<()>, heap.options) == 0);

/// A block with its layout.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn block_of(kind: Kind, block: *mut u8, layout: Layout) -> Block {
    let (size, align) = (layout.size(), layout.align());
    Block { kind, address: block as usize, size, counted: size, align, heap: 0 }
}

/// A call comes: the first one of all says what is wanted.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[inline]
fn begins(options: &Options) {
    use heapledger_watch::{counting, state};

    if state::base() == state::UNSTARTED {
        // A second one that comes at the same time is not counted twice, but for the number of those who want it.
        if options.counts {
            counting::count_all();
        }
        state::set_base(state::OFF);
    }
}

/// Elsewhere calls are counted, and nothing is recorded.
// SAFETY: every call goes on to an allocator that keeps the contract, at most once, with the same arguments.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
unsafe impl<A: GlobalAlloc> GlobalAlloc for Heapledger<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        begins(&self.heap.options);
        // SAFETY: the program's own call.
        let block =
            if watched::is_made(&|_| false) { unsafe { self.allocator.alloc(layout) } } else { core::ptr::null_mut() };
        watched::gave(block_of(Kind::RUST_ALLOC, block, layout), told::call);
        block
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        begins(&self.heap.options);
        // SAFETY: the program's own call.
        let block = if watched::is_made(&|_| false) {
            unsafe { self.allocator.alloc_zeroed(layout) }
        } else {
            core::ptr::null_mut()
        };
        watched::gave(block_of(Kind::RUST_ALLOC_ZEROED, block, layout), told::call);
        block
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if watched::frees(block_of(Kind::RUST_DEALLOC, block, layout), told::call) {
            // SAFETY: the program's own call.
            unsafe { self.allocator.dealloc(block, layout) }
        }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        begins(&self.heap.options);
        let old = block_of(Kind::RUST_REALLOC, block, layout);
        let is_made = watched::is_made(&|_| false) && watched::resizes(old, told::call);
        // SAFETY: the program's own call.
        let new =
            if is_made { unsafe { self.allocator.realloc(block, layout, new_size) } } else { core::ptr::null_mut() };
        watched::gave_anew(
            old,
            Block { size: new_size, counted: new_size, ..block_of(old.kind, new, layout) },
            is_made,
            told::call,
        );
        new
    }
}
