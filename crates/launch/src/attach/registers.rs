//! Requests of `ptrace` without a safe door in our dependencies. Each function here is safe to call: who is not the tracer of a thread
//! that stands is refused.

use std::io;

/// Bytes of a set of signals, as the kernel has it.
const SIGNALS_BYTES: usize = size_of::<u64>();
/// More than the state of any processor takes.
const EXTENDED_BYTES_MAX: usize = 64 << 10;
const EXTENDED: usize = 0x202;
const SHADOW_STACK: usize = 0x204;

fn request(what: libc::c_uint, thread: i32, address: usize, data: *mut libc::c_void) -> io::Result<()> {
    let address = std::ptr::without_provenance_mut::<libc::c_void>(address);
    // SAFETY: below, each request is given memory of the form and size that it reads or writes.
    if unsafe { libc::ptrace(what, thread, address, data) } == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn register_set(what: libc::c_uint, thread: i32, set: usize, bytes: &mut [u8]) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    request(what, thread, set, (&raw mut part).cast())?;
    Ok(part.iov_len)
}

/// The registers of integers.
pub(super) fn general(thread: i32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: plain data for which all zeros is a valid value.
    let mut found: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETREGS, thread, 0, (&raw mut found).cast())?;
    Ok(found)
}

/// Sets them.
pub(super) fn set_general(thread: i32, mut registers: libc::user_regs_struct) -> io::Result<()> {
    request(libc::PTRACE_SETREGS, thread, 0, (&raw mut registers).cast())
}

/// The floating-point and vector registers, as the processor saves them.
pub(super) fn extended(thread: i32) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; EXTENDED_BYTES_MAX];
    let count = register_set(libc::PTRACE_GETREGSET, thread, EXTENDED, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Sets them.
pub(super) fn set_extended(thread: i32, bytes: &[u8]) -> io::Result<()> {
    register_set(libc::PTRACE_SETREGSET, thread, EXTENDED, &mut bytes.to_vec()).map(drop)
}

/// Whether the processor keeps a second stack of return addresses for this thread.
pub(super) fn has_shadow_stack(thread: i32) -> bool {
    register_set(libc::PTRACE_GETREGSET, thread, SHADOW_STACK, &mut [0; 8]).is_ok()
}

/// The signals that it blocks.
pub(super) fn blocked_signals(thread: i32) -> io::Result<u64> {
    let mut signals = 0u64;
    request(libc::PTRACE_GETSIGMASK, thread, SIGNALS_BYTES, (&raw mut signals).cast())?;
    Ok(signals)
}

/// Sets them.
pub(super) fn block_signals(thread: i32, mut signals: u64) -> io::Result<()> {
    request(libc::PTRACE_SETSIGMASK, thread, SIGNALS_BYTES, (&raw mut signals).cast())
}

/// Where a thread keeps what it does on one processor without interruption (`rseq`): the place of its `struct rseq`, 0 without.
pub(super) fn restartable(thread: i32) -> u64 {
    const GET_CONFIGURATION: libc::c_uint = 0x420f;
    #[repr(C)]
    #[derive(Default)]
    struct Configuration {
        place: u64,
        bytes: u32,
        signature: u32,
        flags: u32,
        padding: u32,
    }
    let mut found = Configuration::default();
    let asked = request(GET_CONFIGURATION, thread, size_of::<Configuration>(), (&raw mut found).cast());
    if asked.is_ok() { found.place } else { 0 }
}

/// How many bytes of the saved state hold its parts of these numbers, the first two included: as the processor lays them out.
pub(super) fn extended_bytes(parts: u64) -> usize {
    const FIRST_BYTES: usize = 576;
    const LEAF: u32 = 0xd;
    let ends = (2..63).filter(|part| parts >> part & 1 != 0).map(|part| {
        let part = std::arch::x86_64::__cpuid_count(LEAF, part);
        (part.eax as usize).saturating_add(part.ebx as usize)
    });
    ends.fold(FIRST_BYTES, usize::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_reads_or_sets_what_is_not_held() {
        let own = std::process::id() as i32;
        assert!(general(own).is_err());
        assert!(extended(own).is_err() && set_extended(own, &[0; 576]).is_err());
        assert!(blocked_signals(own).is_err() && block_signals(own, 0).is_err());
        assert!(!has_shadow_stack(own));
        assert_eq!(restartable(own), 0);
    }

    #[test]
    fn parts_lie_behind_the_first_two() {
        assert_eq!(extended_bytes(3), 576);
        assert!(extended_bytes(7) >= 576 && extended_bytes(7).is_multiple_of(8));
    }
}
