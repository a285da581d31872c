//! A page was touched that is closed because a block ends or begins there, or was freed: an error, at the very instruction.
//!
//! Called by the handler of the processor's fault, in the middle of anything the program may be doing: in its allocator, in a hook of the
//! recorder, with locks of its own held. So nothing of the thread's books is used: the stack is taken as for whoever asks
//! ([`crate::backtrace`]), and put into the trie without a lock ([`crate::depot`]).
#![forbid(unsafe_code)]

use crate::access::count_apart;
use crate::breaks::heapledger_error;
use crate::damage::{Around, KeptOfBlock};
use crate::instruction::{LENGTH_MAX, Touched, touched};
use crate::shared::Shared;
use crate::state::ThreadState;
use crate::sweep::Copied;
use crate::{arenas, error_stack, errors, family, hooks, start};
use core::sync::atomic::{AtomicU64, Ordering};
use heapledger_format::errors::{
    Direction, ErrorEntry, ErrorKind, ErrorStack, FoundAt, FoundBy, StackTag, Whereabouts,
};
use heapledger_format::{Site, TallyCounter, ThreadRow, Ticks};
use heapledger_guard::{Found, Life, Memory};
use heapledger_linux::context::{Fault, Interrupted};
use heapledger_linux::text::Text;
use heapledger_linux::{apart, syscall};
use heapledger_unwind::Registers;

const PAGE_BYTES: u64 = 4096;
/// An access to a closed page.
struct Touching<'f> {
    /// The block beside the address.
    block: Found,
    /// The address and the bytes; 0: not known how many.
    touched: Touched,
    fault: &'f Fault,
}

/// Whether the access at this address was one to a closed page of the guard's: then it is told, the page is open, and the program can go
/// on.
#[cold]
pub fn at(shared: &'static Shared, address: u64, fault: &Fault) -> bool {
    if !arenas::has_closed_pages(address as usize) {
        return false;
    }
    apart::result_of(false, || {
        let Some(block) = arenas::lookup(address) else { return false };
        if is_on_open_page(&block, address) {
            return may_be_open_by_now(address, &fault.interrupted);
        }
        tell(shared, &Touching { block, touched: what_is_touched(address, fault), fault });
        errors::halt_if_asked(shared);
        // No page of ours becomes code by being opened.
        !fault.is_fetch && arenas::open_at(address, fault.is_write)
    })
}

/// Whether the address lies on a page of a block that the program has: we have not closed that.
fn is_on_open_page(block: &Found, address: u64) -> bool {
    let page = address & !(PAGE_BYTES - 1);
    block.life == Life::Live && page < block.end() && block.start < page.saturating_add(PAGE_BYTES)
}

/// Whether an access is to be made once more that was refused where no page of ours is closed. It was closed, perhaps, and opened since for
/// a block that another thread was given: then all is well the second time. If not, the program has closed the page itself, and waits for the fault.
fn may_be_open_by_now(address: u64, at: &Interrupted) -> bool {
    /// What was tried last, by where the thread's stack is.
    static TRIED: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
    let which = (at.sp >> 12) as usize & 63;
    let trial = address.rotate_left(20) ^ at.ip.rotate_left(40) ^ at.sp;
    let is_new = |last: &AtomicU64| {
        if last.swap(trial, Ordering::Relaxed) != trial {
            return true;
        }
        last.store(0, Ordering::Relaxed);
        false
    };
    TRIED.get(which).is_some_and(is_new)
}

fn what_is_touched(address: u64, fault: &Fault) -> Touched {
    // As much of the instruction as can be read: the page behind may be none of its code.
    let memory = Copied::new();
    let (mut code, mut count) = ([0; LENGTH_MAX], 0usize);
    for (place, at) in code.iter_mut().zip(fault.interrupted.ip..) {
        let Some([byte]) = memory.read::<1>(at) else { break };
        *place = byte;
        count = count.wrapping_add(1);
    }
    let known = touched(code.get(..count).unwrap_or(&[]), &fault.registers, address, fault.is_write);
    known.unwrap_or(Touched { address, bytes: 0 })
}

impl Touching<'_> {
    fn is_freed(&self) -> bool {
        self.block.life != Life::Live
    }

    fn kind(&self) -> ErrorKind {
        match self.touched.address {
            _ if self.is_freed() => ErrorKind::UseAfterFree,
            address if address < self.block.start => ErrorKind::BufferUnderflow,
            _ => ErrorKind::BufferOverflow,
        }
    }

    fn direction(&self) -> Direction {
        if self.fault.is_write { Direction::Write } else { Direction::Read }
    }

    /// Memory around the address, of the block and what lies beside it on its pages.
    fn around(&self) -> Option<Around> {
        let low = self.block.start & !(PAGE_BYTES - 1);
        let high = self.block.end().next_multiple_of(PAGE_BYTES);
        let is_there = !self.is_freed() && self.block.size != 0;
        let nearest = self.touched.address.clamp(self.block.start, self.block.end());
        // Copied by the kernel: who frees the block meanwhile closes its pages.
        is_there.then(|| Around::of(&Copied::new(), nearest, low, high))
    }
}

fn tell(shared: &'static Shared, access: &Touching) {
    let _ = family::note_fork(shared);
    let is_told = hooks::follows(shared) && shared.settings().guard.has_reader;
    if hooks::follows(shared) {
        enter(shared, access);
    } else {
        count_apart(shared, TallyCounter::ErrorsUnrecorded);
    }
    if !is_told {
        say(access);
    }
}

fn enter(shared: &'static Shared, access: &Touching) {
    let time = shared.now().max(Ticks(1));
    let (block, touched) = (&access.block, &access.touched);
    let record = (!access.is_freed()).then(|| arenas::entry_of(shared, block)).flatten();
    let kept = KeptOfBlock::of(block);
    let [kept_given, taken] = kept.stacks();
    let given = record.as_ref().map_or(kept_given, |record| {
        let thread = record.thread.unwrap_or(ThreadRow::OTHER);
        errors::stack(StackTag::Allocation, record.site, thread, record.time.unwrap_or_default())
    });
    let state = ThreadState::of_this_thread();
    let thread = state.and_then(|state| state.row_plus_1.get().row()).unwrap_or(ThreadRow::OTHER);
    let here = errors::stack(StackTag::Access, place(shared, access.fault), thread, time);
    let none = ErrorStack::default();
    let present = |stack: &&ErrorStack| stack.tag != 0;
    let mut stacks = [none; 3];
    for (place, stack) in stacks.iter_mut().zip([given, taken, here].iter().filter(present)) {
        *place = *stack;
    }
    let given_by = record.as_ref().map(|record| record.kind).or(kept.given_by());
    let interrupted = &access.fault.interrupted;
    let entry = ErrorEntry {
        kind: access.kind() as u16,
        found_by: FoundBy::GuardPage as u8,
        found_at: FoundAt::Instruction as u8,
        direction: access.direction() as u8,
        whereabouts: if access.is_freed() { Whereabouts::FreedBlock } else { Whereabouts::Heap } as u8,
        given_by: given_by.map_or(0, |kind| kind.0),
        heap: record.as_ref().and_then(|record| record.heap).map_or(0, |heap| u32::from(heap).wrapping_add(1)),
        address: touched.address,
        bytes: touched.bytes,
        block: block.start,
        block_bytes: block.size,
        allocated: record.as_ref().map_or(0, |record| record.number.wrapping_add(1)),
        first_time: time,
        last_time: time,
        stacks,
        program_counter: interrupted.ip,
        stack_pointer: interrupted.sp,
        frame_pointer: interrupted.bp,
        label: state.map_or(0, |state| state.label.load(Ordering::Relaxed)),
        ..ErrorEntry::default()
    };
    let around = access.around();
    let bytes = around.as_ref().map_or((0, &[][..]), Around::bytes);
    if shared.errors.enter_with(shared.ledger(), &entry, bytes) {
        heapledger_error();
    } else {
        count_apart(shared, TallyCounter::ErrorsLost);
    }
}

/// The call site of an access.
fn place(shared: &Shared, fault: &Fault) -> Site {
    let it = &fault.interrupted;
    // Who calls what is no code has pushed where it would go on.
    let caller = || Copied::new().read(it.sp).map(u64::from_ne_bytes);
    match if fault.is_fetch { caller() } else { None } {
        Some(ip) => site(shared, &Interrupted { sp: it.sp.wrapping_add(8), ..*it }, ip),
        // Of each frame the byte before its address is looked up, which is to be one of this instruction.
        None => site(shared, it, it.ip.wrapping_add(1)),
    }
}

/// The call site of the instruction that ends at `ip`, or in which that lies.
pub(crate) fn site(shared: &Shared, it: &Interrupted, ip: u64) -> Site {
    let registers =
        Registers { ip, sp: it.sp, bp: it.bp, bx: it.bx, r12: it.r12, r13: it.r13, r14: it.r14, r15: it.r15 };
    error_stack::of_registers(shared, &registers)
}

/// `heap-use-after-free: WRITE of 4 bytes, 8 bytes inside the freed 100-byte block at 0x7f…, by the instruction at 0x55… (process 77)`
fn say(access: &Touching) {
    let (block, touched) = (&access.block, &access.touched);
    let mut line = Text::<200>::new();
    line.push(access.kind().name().as_bytes());
    line.push(if access.fault.is_write { b": WRITE " } else { b": READ " });
    if touched.bytes != 0 {
        line.push(b"of ").push_number(touched.bytes).push(if touched.bytes == 1 { b" byte, " } else { b" bytes, " });
    }
    match touched.address {
        before if before < block.start => {
            line.push_number(block.start.wrapping_sub(before)).push(b" bytes before the ");
        }
        inside if inside < block.end() => {
            line.push_number(inside.wrapping_sub(block.start)).push(b" bytes inside the ");
        }
        after => {
            line.push_number(after.wrapping_sub(block.end())).push(b" bytes after the ");
        }
    }
    line.push(if access.is_freed() { b"freed " } else { b"" }).push_number(block.size).push(b"-byte block at 0x");
    line.push_hex(block.start).push(b", by the instruction at 0x").push_hex(access.fault.interrupted.ip);
    line.push(b" (process ").push_number(u64::from(syscall::getpid())).push(b")");
    start::complain(&[line.bytes()]);
}
