//! An allocator for firmware under test: blocks of powers of two bytes; what is given back is given again, the last first. Nothing
//! in it panics. And what all such firmware does with interrupts, and should it panic.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::null_mut;

#[cfg(target_arch = "arm")]
pub(crate) use heapledger::chip::cortex_m::without_interrupts;
#[cfg(target_arch = "riscv32")]
pub(crate) use heapledger::chip::riscv::without_interrupts;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    crate::start::fail(101)
}

pub(crate) struct Inner(UnsafeCell<Given>);

struct Given {
    used: usize,
    free: [*mut *mut u8; 16],
}

// SAFETY: only looked at without interrupts.
unsafe impl Sync for Inner {}

/// What it gives. Beside it: what is not zero has a copy of all of itself in the flash.
pub(crate) struct Memory(UnsafeCell<[u64; WORDS]>);

/// Where many blocks live there is room for them.
const WORDS: usize = if cfg!(room = "10000") {
    80_000
} else if cfg!(room = "1000") {
    8000
} else {
    2048
};

// SAFETY: nobody looks at it as a whole.
unsafe impl Sync for Memory {}

pub(crate) static MEMORY: Memory = Memory(UnsafeCell::new([0; WORDS]));

/// Bytes of it.
#[allow(dead_code, reason = "for firmware that guards it")]
pub(crate) const MEMORY_BYTES: usize = WORDS * 8;

impl Memory {
    /// Where it begins.
    #[allow(dead_code, reason = "for firmware that guards it")]
    pub(crate) const fn first(&self) -> *const u8 {
        self.0.get().cast_const().cast()
    }
}

fn class(layout: Layout) -> usize {
    let bytes = layout.size().max(layout.align()).max(8);
    (usize::BITS - (bytes - 1).leading_zeros()) as usize
}

impl Inner {
    pub(crate) const fn new() -> Inner {
        Inner(UnsafeCell::new(Given { used: 0, free: [null_mut(); 16] }))
    }
}

// SAFETY: a block is given to one at a time, and lies at a multiple of its size's power of two within aligned memory.
unsafe impl GlobalAlloc for Inner {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        without_interrupts(|| {
            // SAFETY: nobody else looks at it meanwhile.
            let given = unsafe { &mut *self.0.get() };
            let class = class(layout);
            let Some(free) = given.free.get_mut(class) else { return null_mut() };
            let first = *free;
            if !first.is_null() {
                // SAFETY: a free block begins with the address of the next one.
                *free = unsafe { first.read() }.cast();
                return first.cast();
            }
            let bytes = 1usize << class;
            let memory = MEMORY.0.get().cast::<u8>();
            let base = memory as usize;
            let step = bytes.min(64);
            let at = ((base + given.used + step - 1) & !(step - 1)) - base;
            if layout.align() > 64 || at + bytes > size_of::<Memory>() {
                return null_mut();
            }
            given.used = at + bytes;
            memory.wrapping_add(at)
        })
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        without_interrupts(|| {
            // SAFETY: as above.
            let given = unsafe { &mut *self.0.get() };
            let Some(free) = given.free.get_mut(class(layout)) else { return };
            // SAFETY: the block is ours again, and has room for an address.
            unsafe { block.cast::<*mut u8>().write(free.cast()) };
            *free = block.cast();
        })
    }
}
