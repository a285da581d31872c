//! Call stacks on chips.
//!
//! Frame pointers, as LLVM lays them: on Thumb `r7` is the address of two words, the caller's `r7` and the return address; on RISC-V the two
//! lie below the address in `s0`. A walk ends where a frame pointer is not aligned, does not lie further out than the one before, or not on
//! the stack, and where what should be a return address is none.
//!
//! # Safety
//! A room with `unsafe`: it reads words between the stack pointer and the end of the stack, which the board has said, and of code.

use super::{Address, Board};
use core::mem::MaybeUninit;

/// How call stacks are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stacks {
    /// Along frame pointers.
    FramePointers,
    /// By return addresses: words on the stack that are code addresses behind a call. Stacks are guesses, and counted as such: words that earlier
    /// calls have left there are often among them, so that there are more different stacks than there really are.
    Scan,
}

/// Where the allocator was called: the frame of the function that was called. Made by [`ChipAllocator`](super::ChipAllocator) and
/// [`Frame::here`].
#[derive(Clone, Copy, Debug)]
pub struct Frame(usize);

/// Frames that are being found: as many as there is room for.
#[derive(Debug)]
pub struct FrameList<'f> {
    room: &'f mut [MaybeUninit<Address>],
    count: usize,
    is_guessed: bool,
}

impl<'f> FrameList<'f> {
    /// Without any yet.
    #[inline(always)]
    pub fn new(room: &'f mut [MaybeUninit<Address>]) -> Self {
        FrameList { room, count: 0, is_guessed: false }
    }

    /// Adds the frame that called the one before; false, if there is no room.
    #[inline(always)]
    pub fn push(&mut self, code: Address) -> bool {
        let Some(place) = self.room.get_mut(self.count) else { return false };
        place.write(code);
        self.count = self.count.wrapping_add(1);
        true
    }

    /// Some of the frames are guesses.
    #[inline(always)]
    pub fn guessed(&mut self) {
        self.is_guessed = true;
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.count >= self.room.len()
    }

    #[inline(always)]
    pub(super) fn is_guessed(&self) -> bool {
        self.is_guessed
    }

    /// Those behind so many inner ones and before so many outer ones; if there are none, the innermost.
    #[inline(always)]
    pub(super) fn between(&self, inner: usize, outer: usize) -> &[Address] {
        let all = self.frames();
        if inner == 0 && outer == 0 {
            return all;
        }
        let between = all.get(inner..all.len().saturating_sub(outer)).filter(|between| !between.is_empty());
        between.or_else(|| all.get(..1)).unwrap_or(&[])
    }

    #[inline(always)]
    pub(super) fn frames(&self) -> &[Address] {
        let known = self.room.get(..self.count).unwrap_or(&[]);
        // SAFETY: so many were written, one after the other.
        unsafe { core::slice::from_raw_parts(known.as_ptr().cast(), known.len()) }
    }
}

/// Bytes of a frame below and above the address in the frame pointer.
#[cfg(target_arch = "riscv32")]
const AROUND: (usize, usize) = (2 * size_of::<usize>(), 0);
#[cfg(not(target_arch = "riscv32"))]
const AROUND: (usize, usize) = (0, 2 * size_of::<usize>());

impl Frame {
    /// Of a block that is entered by hand, from nowhere: without a stack.
    pub const NONE: Frame = Frame(0);

    /// The frame at an address: two words, the caller's frame pointer and the return address (on RISC-V they lie below it).
    ///
    /// # Safety
    /// They are there.
    #[inline(always)]
    pub unsafe fn at(pointer: *const usize) -> Frame {
        Frame(pointer.addr())
    }

    /// Where it lies.
    #[inline(always)]
    pub fn address(self) -> usize {
        self.0
    }

    /// Adds the address behind the call, and nothing else.
    #[inline(always)]
    pub fn caller(self, frames: &mut FrameList) {
        if self.0 != 0 {
            frames.push((pair(self.0).1 & !THUMB) as Address);
        }
    }

    /// The frame of the function that calls this, if it is built with frame pointers: the first address of its stack is where it
    /// will return to.
    ///
    /// # Safety
    /// The function that calls this keeps a frame pointer.
    #[inline(always)]
    pub unsafe fn here() -> Frame {
        #[cfg(any(target_arch = "arm", target_arch = "riscv32"))]
        {
            let pointer: usize;
            #[cfg(target_arch = "arm")]
            // SAFETY: reads a register.
            unsafe {
                core::arch::asm!("mov {}, r7", out(reg) pointer, options(nomem, nostack, preserves_flags));
            }
            #[cfg(target_arch = "riscv32")]
            // SAFETY: reads a register.
            unsafe {
                core::arch::asm!("mv {}, s0", out(reg) pointer, options(nomem, nostack, preserves_flags));
            }
            Frame(pointer)
        }
        #[cfg(not(any(target_arch = "arm", target_arch = "riscv32")))]
        Frame::NONE
    }
}

/// A word of a stack, or of code.
#[inline(always)]
fn read(address: usize) -> usize {
    // SAFETY: all callers have looked whether it is aligned and lies on the stack, or in code.
    unsafe { core::ptr::with_exposed_provenance::<usize>(address).read_volatile() }
}

/// The caller's frame pointer and the return address.
#[inline(always)]
fn pair(pointer: usize) -> (usize, usize) {
    let first = pointer.wrapping_sub(AROUND.0);
    (read(first), read(first.wrapping_add(size_of::<usize>())))
}

/// Thumb addresses have their lowest bit set.
const THUMB: usize = cfg!(target_arch = "arm") as usize;

/// Bits that no address of a word has.
const UNALIGNED: usize = size_of::<usize>().wrapping_sub(1);

/// Whether a return address is as they are here.
#[inline(always)]
fn has_thumb_bit(code: usize) -> bool {
    THUMB == 0 || code & 1 != 0
}

/// The least of the numbers that are no return address on a Cortex-M, but the end of an interrupt's handler.
#[cfg(target_arch = "arm")]
const EXC_RETURN: usize = 0xFFFF_FFE0;
/// In such a number: the interrupted function's registers lie on the process's stack.
#[cfg(target_arch = "arm")]
const ON_PROCESS_STACK: usize = 4;
/// Where the interrupted address lies in what a Cortex-M saves.
#[cfg(target_arch = "arm")]
const SAVED_PC: usize = 24;

/// One past the last byte of the main stack of a Cortex-M, with which its vector table begins; 0 elsewhere.
#[inline(always)]
pub fn main_stack_end() -> usize {
    #[cfg(target_arch = "arm")]
    {
        /// The register with the address of the vector table. (A Cortex-M0 has none, and reads as 0, where its table is.)
        const VTOR: usize = 0xE000_ED08;
        read(read(VTOR))
    }
    #[cfg(not(target_arch = "arm"))]
    0
}

/// The frames of a stack, the innermost first.
#[inline(always)]
pub(super) fn take<B: Board>(from: Frame, frames: &mut FrameList) {
    if from.0 == 0 {
        return;
    }
    let (pointer, code) = pair(from.0);
    if !frames.push((code & !THUMB) as Address) || frames.is_full() {
        return;
    }
    let end = B::stack_end(from.0);
    match B::STACKS {
        Stacks::FramePointers => follow::<B>(from.0, pointer, end, frames),
        Stacks::Scan => scan::<B>(from.0.wrapping_add(AROUND.1), end, frames),
    }
}

/// Along frame pointers, of which the first is `pointer`; `last`: the one before.
#[inline(always)]
fn follow<B: Board>(last: usize, pointer: usize, end: usize, frames: &mut FrameList) {
    let room = frames.room.len();
    let mut vacant = frames.room.get_mut(frames.count..).unwrap_or(&mut []).iter_mut();
    follow_into::<B>(last, pointer, end, &mut vacant);
    frames.count = room.wrapping_sub(vacant.len());
}

/// The same, with the places that are left.
#[inline(always)]
fn follow_into<B: Board>(
    mut last: usize,
    mut pointer: usize,
    end: usize,
    vacant: &mut core::slice::IterMut<'_, MaybeUninit<Address>>,
) {
    let mut end = end.saturating_sub(AROUND.1);
    let of_code = B::code();
    // One comparison for both ends.
    let (code_start, code_bytes) = (of_code.start, of_code.end.wrapping_sub(of_code.start));
    while pointer > last && pointer & UNALIGNED == 0 && pointer <= end {
        let (outer, code) = pair(pointer);
        (last, pointer) = (pointer, outer);
        #[cfg(target_arch = "arm")]
        if code >= EXC_RETURN {
            let found = interrupted::<B>(last, code, end);
            (last, end) = (found as u32 as usize, (found >> 32) as usize);
            let Some(place) = (if last == 0 { None } else { vacant.next() }) else { return };
            // The byte before it is the instruction's.
            place.write((read(last.wrapping_add(SAVED_PC)) as Address).wrapping_add(1));
            continue;
        }
        let _ = &mut end;
        let is_code = has_thumb_bit(code) && code.wrapping_sub(code_start) < code_bytes;
        let Some(place) = (if is_code { vacant.next() } else { None }) else { return };
        place.write((code & !THUMB) as Address);
    }
}

/// Where the processor has saved the registers of the function that a handler has interrupted, if they lie on a stack, else 0; in the upper half where the
/// last frame of that may lie. `handler`: the handler's frame, behind which they are if both have the same stack. (One number: it comes back in registers.)
#[cfg(target_arch = "arm")]
#[cold]
#[inline(never)]
fn interrupted<B: Board>(handler: usize, exc_return: usize, end: usize) -> u64 {
    let (saved, end) = if exc_return & ON_PROCESS_STACK == 0 {
        (handler.wrapping_add(AROUND.1), end)
    } else {
        let saved = super::cortex_m::process_stack();
        (saved, B::stack_end(saved).saturating_sub(AROUND.1))
    };
    // (It is a multiple of 4: the processor has no other stack pointers, and the handler's frame was looked at.)
    if saved <= end.wrapping_sub(SAVED_PC) { saved as u64 | (end as u64) << 32 } else { 0 }
}

/// Words that are looked at for return addresses.
const SCANNED: usize = 128;

/// Words from `at` on that are return addresses.
#[inline(always)]
fn scan<B: Board>(mut at: usize, end: usize, frames: &mut FrameList) {
    frames.guessed();
    let last = end.min(at.wrapping_add(SCANNED.wrapping_mul(size_of::<usize>())));
    let of_code = B::code();
    while at < last {
        let word = read(at);
        let is_frame = has_thumb_bit(word) && of_code.contains(&word) && is_behind_call::<B>(word & !THUMB);
        if is_frame && (!frames.push((word & !THUMB) as Address) || frames.is_full()) {
            return;
        }
        at = at.wrapping_add(size_of::<usize>());
    }
}

/// The half word of code at an address; 0 where there is no code.
#[inline(always)]
fn half<B: Board>(address: usize) -> u16 {
    if !B::code().contains(&address) {
        return 0;
    }
    // SAFETY: in the program's code, and aligned: return addresses are multiples of 2.
    unsafe { core::ptr::with_exposed_provenance::<u16>(address).read_volatile() }
}

/// Whether the instruction before an address is a call.
#[inline(always)]
fn is_behind_call<B: Board>(address: usize) -> bool {
    if address & 1 != 0 {
        return false;
    }
    let (first, second) = (half::<B>(address.wrapping_sub(4)), half::<B>(address.wrapping_sub(2)));
    if cfg!(target_arch = "arm") {
        // BL, and BLX of a register.
        let bl = first & 0xF800 == 0xF000 && second & 0xD000 == 0xD000;
        return bl || second & 0xFF87 == 0x4780;
    }
    // JAL and JALR that leave the address in `ra`, and their short forms.
    let long = u32::from(first) | u32::from(second) << 16;
    let short_jalr = second & 0xF07F == 0x9002 && second & 0x0F80 != 0;
    long & 0xFFF == 0x0EF || long & 0x7FFF == 0x00E7 || short_jalr || second & 0xE003 == 0x2001
}
