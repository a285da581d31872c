//! What is put on the stack of a thread that is to open a library: what is asked of the library, and the frame of a signal handler.
//!
//! `dlopen` is called as the kernel would call a signal handler: it returns to the C library's code that asks the kernel to restore all
//! registers from that frame. So the thread goes on where it was, by itself, whatever has become of us.

use heapledger_format::handover::{ALIGN, MAGIC, at};
use libc::user_regs_struct;

use super::registers;

/// What functions may use below the stack pointer.
const RED_ZONE: u64 = 128;
const WORD: usize = size_of::<u64>();
const EXTENDED_ALIGN: u64 = 64;

/// Offsets in the kernel's `struct rt_sigframe` of x86-64.
mod offset {
    pub(super) const RETURN: usize = 0;
    pub(super) const FLAGS: usize = 8;
    pub(super) const STACK_FLAGS: usize = 32;
    pub(super) const REGISTERS: usize = 48;
    pub(super) const SEGMENTS: usize = REGISTERS + 18 * 8;
    pub(super) const EXTENDED: usize = REGISTERS + 23 * 8;
    pub(super) const BLOCKED: usize = REGISTERS + 32 * 8;
    /// With what the kernel tells of a signal, which nobody reads.
    pub(super) const BYTES: usize = BLOCKED + 8 + 128;
}

/// Bytes, and where they are to lie.
pub(super) struct Placed {
    pub(super) address: u64,
    pub(super) bytes: Vec<u8>,
}

/// All that is put on the stack.
pub(super) struct Laid {
    /// Where the frame begins: the stack pointer with which `dlopen` is entered.
    pub(super) frame: u64,
    /// Where what is asked of the library lies.
    pub(super) handover: u64,
    /// Where the library's path lies.
    pub(super) path: u64,
    pub(super) parts: [Placed; 4],
}

/// The state of a thread.
pub(super) struct State {
    pub(super) registers: user_regs_struct,
    pub(super) extended: Vec<u8>,
    pub(super) blocked: u64,
}

/// Lays all of it below the thread's stack pointer. `restorer` is the code that asks the kernel to restore the registers.
pub(super) fn lay(state: &State, path: &str, words: &[u8], restorer: u64) -> Laid {
    let below = |place: u64, bytes: usize, align: u64| place.saturating_sub(bytes as u64) & !(align - 1);
    let path = [path.as_bytes(), b"\0"].concat();
    let path_at = below(state.registers.rsp.saturating_sub(RED_ZONE), path.len(), ALIGN as u64);
    let handover_at = below(path_at, at::WORDS + words.len(), ALIGN as u64);
    let extended = restorable(&state.extended);
    let extended_at = below(handover_at, extended.len(), EXTENDED_ALIGN);
    // As a function is entered: a return address below a multiple of 16.
    let frame_at = below(extended_at, offset::BYTES, ALIGN as u64).saturating_sub(WORD as u64);
    let parts = [
        Placed { address: path_at, bytes: path },
        Placed { address: handover_at, bytes: handover(handover_at, words) },
        Placed { address: extended_at, bytes: extended },
        Placed { address: frame_at, bytes: signal_frame(state, extended_at, restorer) },
    ];
    Laid { frame: frame_at, handover: handover_at, path: path_at, parts }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.get_mut(..value.len())) {
        place.copy_from_slice(value);
    }
}

fn handover(address: u64, words: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; at::WORDS + words.len()];
    put(&mut bytes, 0, &MAGIC[0].to_ne_bytes());
    put(&mut bytes, WORD, &MAGIC[1].to_ne_bytes());
    put(&mut bytes, at::ADDRESS, &address.to_ne_bytes());
    put(&mut bytes, at::WORDS_BYTES, &(words.len() as u64).to_ne_bytes());
    put(&mut bytes, at::WORDS, words);
    bytes
}

/// The processor's state as the kernel expects it in a signal frame: with marks in front and behind that say how much of it there is.
fn restorable(extended: &[u8]) -> Vec<u8> {
    const USED: usize = 512;
    const MARKS: usize = 464;
    const MARK_IN_FRONT: u32 = 0x4650_5853;
    const MARK_BEHIND: u32 = 0x4650_5845;
    const BASIC: u64 = 3;
    let used = extended.get(USED..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_ne_bytes(*word));
    let parts = used | BASIC;
    let bytes = registers::extended_bytes(parts);
    if extended.len() < bytes {
        // A processor that only has the first part.
        return extended.to_vec();
    }
    let mut out = extended.get(..bytes).unwrap_or_default().to_vec();
    put(&mut out, MARKS, &MARK_IN_FRONT.to_ne_bytes());
    put(&mut out, MARKS + 4, &(bytes as u32 + 4).to_ne_bytes());
    put(&mut out, MARKS + 8, &parts.to_ne_bytes());
    put(&mut out, MARKS + 16, &(bytes as u32).to_ne_bytes());
    out.extend_from_slice(&MARK_BEHIND.to_ne_bytes());
    out
}

fn signal_frame(state: &State, extended_at: u64, restorer: u64) -> Vec<u8> {
    // There is saved state of the processor; the stack segment is saved, and is to be restored.
    const FLAGS: u64 = 1 | 2 | 4;
    // No valid word for an alternate stack: the kernel leaves that as it is.
    const NO_STACK: u32 = 0x7fff;
    let regs = resumed(&state.registers);
    let mut bytes = vec![0; offset::BYTES];
    put(&mut bytes, offset::RETURN, &restorer.to_ne_bytes());
    put(&mut bytes, offset::FLAGS, &FLAGS.to_ne_bytes());
    put(&mut bytes, offset::STACK_FLAGS, &NO_STACK.to_ne_bytes());
    let words = [
        regs.r8,
        regs.r9,
        regs.r10,
        regs.r11,
        regs.r12,
        regs.r13,
        regs.r14,
        regs.r15,
        regs.rdi,
        regs.rsi,
        regs.rbp,
        regs.rbx,
        regs.rdx,
        regs.rax,
        regs.rcx,
        regs.rsp,
        regs.rip,
        regs.eflags,
    ];
    for (index, word) in words.iter().enumerate() {
        put(&mut bytes, offset::REGISTERS + index * WORD, &word.to_ne_bytes());
    }
    let segments = [regs.cs as u16, 0, 0, regs.ss as u16];
    for (index, segment) in segments.iter().enumerate() {
        put(&mut bytes, offset::SEGMENTS + index * 2, &segment.to_ne_bytes());
    }
    put(&mut bytes, offset::EXTENDED, &extended_at.to_ne_bytes());
    put(&mut bytes, offset::BLOCKED, &state.blocked.to_ne_bytes());
    bytes
}

/// The registers with which a thread goes on that was interrupted in a system call: it makes that again, as after a signal whose
/// handler asks for it. (One that waits for a time waits for all of it once more. That is only so if we are killed meanwhile:
/// else the kernel goes on with the call.)
pub(super) fn resumed(regs: &user_regs_struct) -> user_regs_struct {
    const CALL_BYTES: u64 = 2;
    const AGAIN: [i64; 4] = [-512, -513, -514, -516];
    let mut regs = *regs;
    if regs.orig_rax.cast_signed() >= 0 && AGAIN.contains(&regs.rax.cast_signed()) {
        regs.rax = regs.orig_rax;
        regs.rip = regs.rip.wrapping_sub(CALL_BYTES);
    }
    regs
}

/// The registers with which `function` is called, with these two arguments.
pub(super) fn calling(state: &State, laid: &Laid, function: u64, arguments: [u64; 2]) -> user_regs_struct {
    // The direction of copies, and single steps.
    const CLEARED: u64 = 0x400 | 0x100;
    let mut regs = state.registers;
    regs.rip = function;
    regs.rsp = laid.frame;
    [regs.rdi, regs.rsi] = arguments;
    regs.rax = 0;
    regs.orig_rax = u64::MAX;
    regs.eflags &= !CLEARED;
    regs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        let registers = user_regs_struct {
            r15: 15,
            r14: 14,
            r13: 13,
            r12: 12,
            rbp: 5,
            rbx: 3,
            r11: 11,
            r10: 10,
            r9: 9,
            r8: 8,
            rax: (-514i64).cast_unsigned(),
            rcx: 2,
            rdx: 1,
            rsi: 4,
            rdi: 7,
            orig_rax: 23,
            rip: 0x1002,
            cs: 0x33,
            eflags: 0x602,
            rsp: 0x7fff_0000_1234,
            ss: 0x2b,
            fs_base: 0,
            gs_base: 0,
            ds: 0,
            es: 0,
            fs: 0,
            gs: 0,
        };
        let mut extended = vec![0; 4096];
        put(&mut extended, 512, &7u64.to_ne_bytes());
        State { registers, extended, blocked: 0x55 }
    }

    fn word(bytes: &[u8], at: usize) -> u64 {
        u64::from_ne_bytes(*bytes[at..].first_chunk().expect("a word"))
    }

    #[test]
    fn all_lies_below_the_red_zone_and_apart() {
        let (state, words) = (state(), b"depth=9");
        let laid = lay(&state, "/lib/x.so", words, 0x4000);
        assert_eq!((laid.frame % 16, laid.handover % 16), (8, 0));
        let mut above = state.registers.rsp - 128;
        for part in &laid.parts {
            let end = part.address + part.bytes.len() as u64;
            assert!(end <= above, "{:x} to {end:x}, below {above:x}", part.address);
            above = part.address;
        }
        let [path, handover, extended, frame] = &laid.parts;
        assert_eq!(path.bytes, b"/lib/x.so\0");
        assert_eq!(word(&handover.bytes, at::ADDRESS), handover.address);
        assert_eq!(&handover.bytes[at::WORDS..], words);
        assert_eq!(extended.address % 64, 0);
        assert_eq!(word(&frame.bytes, 0), 0x4000);
        assert_eq!(word(&frame.bytes, offset::EXTENDED), extended.address);
        assert_eq!(word(&frame.bytes, offset::BLOCKED), 0x55);
    }

    #[test]
    fn a_call_that_was_interrupted_is_made_again() {
        let state = state();
        let anew = resumed(&state.registers);
        assert_eq!((anew.rax, anew.rip), (23, 0x1000));
        let done = user_regs_struct { rax: 4, ..state.registers };
        assert_eq!((resumed(&done).rax, resumed(&done).rip), (4, 0x1002), "it has returned 4");
        let called = calling(&state, &lay(&state, "/x", b"", 1), 0x5000, [1, 2]);
        assert_eq!((called.rip, called.rdi, called.rsi, called.eflags), (0x5000, 1, 2, 0x202));
    }

    #[test]
    fn the_state_of_the_processor_is_marked_at_both_ends() {
        let bytes = restorable(&state().extended);
        let size = bytes.len() - 4;
        assert_eq!(size, registers::extended_bytes(7));
        assert_eq!(word(&bytes, 464), 0x4650_5853 | (size as u64 + 4) << 32);
        assert_eq!(word(&bytes, 472), 7);
        assert_eq!(&bytes[size..], &0x4650_5845u32.to_ne_bytes());
    }
}
