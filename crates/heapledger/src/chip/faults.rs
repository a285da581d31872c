//! What handlers of exceptions tell the books: who has written to what is watched, and where the processor could not go on.
//!
//! # Safety
//! A room with `unsafe`: it reads what a processor has saved of the function that was interrupted, and its registers.

use super::walk::Frame;
use super::watch::{self, Hit};
use super::{Address, Books, Kind, NewError, Placed};
use heapledger_format::errors::{Direction, ErrorKind, FoundAt, FoundBy, Whereabouts};

/// What was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// The instruction; 0: not known, what was saved of it does not lie on a stack.
    pub code: usize,
    /// Where its function will return to, as the processor has it (a function that calls others may keep something else there); 0: not known.
    pub link: usize,
    /// Its frame pointer.
    pub frame: usize,
}

/// Who has written to what is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// What is watched.
    pub hit: Hit,
    /// By whom: the instruction, or the one behind it.
    pub by: Interrupted,
}

/// Where the processor could not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChipFault {
    /// Where.
    pub at: Interrupted,
    /// Why: Cortex-M3 and later `CFSR`, Cortex-M0 0, RISC-V `mcause`.
    pub status: usize,
    /// The address that was accessed; 0: not known.
    pub address: usize,
}

impl Interrupted {
    /// On a Cortex-M, of what a handler finds when it begins: `lr`, both stack pointers, and `r7`, in this order. Memory is read only where `end`, one past the last
    /// byte of that stack, says that it lies on it.
    ///
    /// # Safety
    /// That is so.
    #[cfg(target_arch = "arm")]
    pub unsafe fn of_handler([exc_return, main, process, frame]: [usize; 4], end: impl FnOnce(usize) -> usize) -> Self {
        const ON_PROCESS_STACK: usize = 4;
        const BYTES: usize = 32;
        let saved = if exc_return & ON_PROCESS_STACK == 0 { main } else { process };
        if saved & 3 != 0 || saved > end(saved).saturating_sub(BYTES) || was_not_saved() {
            return Interrupted { code: 0, link: 0, frame };
        }
        // SAFETY: eight words on the stack, of which the last but two are these.
        let word = |nth: usize| unsafe {
            core::ptr::with_exposed_provenance::<usize>(saved.wrapping_add(nth.wrapping_mul(4))).read_volatile()
        };
        Interrupted { code: word(6), link: word(5), frame }
    }

    /// On RISC-V, of a trap's handler: `mepc` is read here; `ra` and `s0` as they were.
    #[cfg(target_arch = "riscv32")]
    pub fn of_trap(link: usize, frame: usize) -> Self {
        let code: usize;
        // SAFETY: reads a register.
        unsafe { core::arch::asm!("csrr {}, mepc", out(reg) code, options(nomem, nostack)) };
        Interrupted { code, link, frame }
    }

    /// Runs something with the frame of what was interrupted, `behind` bytes further on: return addresses lie behind calls.
    fn with_frame<T>(self, behind: usize, work: impl FnOnce(Frame) -> T) -> T {
        if self.code == 0 {
            return work(Frame::NONE);
        }
        let pair = [self.frame, self.code.wrapping_add(behind)];
        let at = if cfg!(target_arch = "riscv32") { pair.as_ptr().wrapping_add(pair.len()) } else { pair.as_ptr() };
        // SAFETY: both words are there, where a frame on this stack would have them.
        work(unsafe { Frame::at(core::hint::black_box(at)) })
    }
}

/// The processor has failed to save registers: what lies there is something else.
#[cfg(target_arch = "arm")]
fn was_not_saved() -> bool {
    const NOT_SAVED: usize = 1 << 4 | 1 << 12;
    status().0 & NOT_SAVED != 0
}

/// Why there was a fault, and of which address.
#[cfg(target_arch = "arm")]
fn status() -> (usize, usize) {
    /// It is no processor of the sixth architecture, which has no such registers.
    const CPUID: usize = 0xE000_ED00;
    const CFSR: usize = 0xE000_ED28;
    const MEMORY_ADDRESS: usize = 0xE000_ED34;
    const BUS_ADDRESS: usize = 0xE000_ED38;
    // SAFETY: registers of the system control space.
    let read = |register: usize| unsafe { core::ptr::with_exposed_provenance::<usize>(register).read_volatile() };
    if read(CPUID) >> 16 & 0xF != 0xF {
        return (0, 0);
    }
    let status = read(CFSR);
    let address = match status {
        status if status & 1 << 7 != 0 => read(MEMORY_ADDRESS),
        status if status & 1 << 15 != 0 => read(BUS_ADDRESS),
        _ => 0,
    };
    (status, address)
}

#[cfg(target_arch = "riscv32")]
fn status() -> (usize, usize) {
    let (cause, value): (usize, usize);
    // SAFETY: reads registers.
    unsafe {
        core::arch::asm!("csrr {}, mcause", "csrr {}, mtval", out(reg) cause, out(reg) value, options(nomem, nostack));
    }
    (cause, value)
}

#[cfg(not(any(target_arch = "arm", target_arch = "riscv32")))]
fn status() -> (usize, usize) {
    (0, 0)
}

/// Past the first half word of an instruction: what is looked up is the byte before a return address.
const BEHIND: usize = 2;

impl<B: Placed> Books<B> {
    /// In the handler of the exception that a [`watch`](super::watch) has: who has written. It is an error of the ledger (`watched-write`), if there is room for errors
    /// ([`Config::errors`](super::Config::errors)). `None`: it was something else.
    pub fn written(self, by: Interrupted) -> Option<Written> {
        let hit = watch::hit()?;
        let address = hit.address as Address;
        let around = self.live_around(address);
        let (block, block_bytes) = around.unwrap_or((0, 0));
        let error = NewError {
            found_by: FoundBy::Program,
            whereabouts: around.map(|_| Whereabouts::Block),
            block,
            block_bytes,
            direction: Some(Direction::Write),
            address,
            bytes: hit.bytes as Address,
            ..new_error(ErrorKind::WatchedWrite)
        };
        // (Told behind the instruction, it is looked up as a return address is.)
        by.with_frame(if hit.is_over { BEHIND } else { 0 }, |frame| self.enter_error(&error, frame));
        B::error_found();
        Some(Written { hit, by })
    }

    /// In the handler of a fault: notes where it was and why, as an error of the ledger (`processor-fault`), if there is room for errors, and [stops](Self::stop)
    /// recording, so that readers know the end. A fault in the middle of an update finds the ledger busy, and is not entered: readers see that.
    pub fn faulted(self, at: Interrupted) -> ChipFault {
        let (status, address) = status();
        let error = NewError {
            address: address as Address,
            operands: [status as Address, at.link as Address],
            ..new_error(ErrorKind::ProcessorFault)
        };
        at.with_frame(BEHIND, |frame| self.enter_error(&error, frame));
        self.stop();
        B::error_found();
        ChipFault { at, status, address }
    }
}

fn new_error(kind: ErrorKind) -> NewError<Address> {
    NewError {
        kind,
        found_by: FoundBy::State,
        found_at: FoundAt::Instruction,
        direction: None,
        whereabouts: None,
        called: Kind::NONE,
        address: 0,
        bytes: 0,
        block: 0,
        block_bytes: 0,
        operands: [0; 2],
        expected: [0; 8],
        found: [0; 8],
    }
}
