//! What a filter of system calls (seccomp) that the program is about to put on says of the recorder's own.
//!
//! A filter is a short program in the kernel's classic BPF, which is given the number and the arguments of a call and says what becomes
//! of it (`linux/filter.h`, `linux/seccomp.h`). Where that is a refusal the recorder goes on without; where it is a signal or the end, the
//! program would die of us.
#![forbid(unsafe_code)]

use super::syscall::{self, advice, number};

/// An instruction: its code, two bytes by how far to jump, and a number.
pub type Instruction = [u8; 8];

/// Most instructions that the kernel takes.
pub const INSTRUCTIONS_MAX: usize = 4096;

/// A call's number, and its first arguments. Addresses and lengths are left out: no filter looks at them.
type Made = (usize, [usize; 3]);

/// By which a line is written on standard error, which is looked at before.
const FOR_LINES: [Made; 3] = [(number::FSTAT, [2, 0, 0]), (number::READ, [2, 0, 0]), (number::WRITE, [2, 0, 0])];
/// By which a watchpoint ends.
const FOR_WATCHPOINTS: [Made; 3] =
    [(number::IOCTL, [3, syscall::EVENT_ID, 0]), (number::READ, [3, 0, 0]), (number::CLOSE, [3, 0, 0])];

/// The calls that the recorder makes while it records, once it has begun.
const NEEDED: [Made; 25] = [
    (number::RT_SIGPROCMASK, [2, 0, 0]),
    (number::FUTEX, [0, 129, 1]),
    (number::MMAP, [0, 4096, 3]),
    (number::MUNMAP, [0, 4096, 0]),
    (number::MREMAP, [0, 4096, 8192]),
    (number::MPROTECT, [0, 4096, 3]),
    (number::MADVISE, [0, 4096, advice::POPULATE_WRITE]),
    (number::MADVISE, [0, 4096, advice::DO_DUMP]),
    (number::MADVISE, [0, 4096, advice::DONT_DUMP]),
    (number::MADVISE, [0, 4096, advice::HUGE_PAGE]),
    (number::MADVISE, [0, 4096, advice::NO_HUGE_PAGE]),
    (number::MADVISE, [0, 4096, advice::DONT_NEED]),
    (number::MINCORE, [0, 4096, 0]),
    (number::GETPID, [0, 0, 0]),
    (number::GETTID, [0, 0, 0]),
    (number::TGKILL, [0, 0, 0]),
    // The name of a thread.
    (number::PRCTL, [16, 0, 0]),
    (number::PRLIMIT64, [0, 9, 0]),
    (number::SIGALTSTACK, [0, 0, 0]),
    (number::STATFS, [0, 0, 0]),
    (number::CLOCK_GETTIME, [0, 0, 0]),
    // How long a thread has run.
    (number::CLOCK_GETTIME, [3, 0, 0]),
    (number::READLINK, [0, 0, 0]),
    (number::GETCWD, [0, 0, 0]),
    // What the history holds is looked at when a block is freed that nobody knows.
    (number::PROCESS_VM_READV, [0, 0, 1]),
];

/// Whether by a filter's own words none of the recorder's calls is fatal.
pub fn lets_record(filter: &[Instruction]) -> bool {
    lets(filter, &NEEDED)
}

/// The same of a line on standard error.
pub fn lets_write_lines(filter: &[Instruction]) -> bool {
    lets(filter, &FOR_LINES)
}

/// The same of the end of a watchpoint.
pub fn lets_end_watchpoints(filter: &[Instruction]) -> bool {
    lets(filter, &FOR_WATCHPOINTS)
}

fn lets(filter: &[Instruction], calls: &[Made]) -> bool {
    calls.iter().all(|(number, [first, second, third])| {
        let call = Call { number: *number as u32, arguments: [*first as u64, *second as u64, *third as u64, 0, 0, 0] };
        !call.judged_by(filter).is_some_and(is_fatal)
    })
}

/// Whether what a filter says ends the thread or the process, or sends a signal.
fn is_fatal(said: u32) -> bool {
    const ACTION: u32 = 0xffff_0000;
    const KILL_THREAD: u32 = 0;
    const KILL_PROCESS: u32 = 0x8000_0000;
    const TRAP: u32 = 0x0003_0000;
    matches!(said & ACTION, KILL_THREAD | KILL_PROCESS | TRAP)
}

/// A system call as a filter sees it.
struct Call {
    number: u32,
    arguments: [u64; 6],
}

impl Call {
    /// A word of `struct seccomp_data`: the number, the machine, the address of the call, the arguments.
    fn word(&self, at: u32) -> Option<u32> {
        const X86_64: u32 = 0xc000_003e;
        const ARGUMENTS_AT: u32 = 16;
        if !at.is_multiple_of(4) {
            return None;
        }
        Some(match at {
            0 => self.number,
            4 => X86_64,
            8 | 12 => 0,
            _ => {
                let at = at.checked_sub(ARGUMENTS_AT)?;
                let argument = self.arguments.get((at / 8) as usize)?;
                if at.is_multiple_of(8) { *argument as u32 } else { (*argument >> 32) as u32 }
            }
        })
    }

    /// What a filter says of it; `None` if it is no filter that the kernel would take.
    fn judged_by(&self, filter: &[Instruction]) -> Option<u32> {
        const DATA_BYTES: u32 = 64;
        let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; 16]);
        let mut at = 0usize;
        // It goes forward only.
        for _ in 0..filter.len() {
            let [code_low, code_high, if_true, if_false, number @ ..] = *filter.get(at)?;
            let (code, k) = (u16::from_ne_bytes([code_low, code_high]), u32::from_ne_bytes(number));
            at = at.wrapping_add(1);
            let is = |holds: bool| usize::from(if holds { if_true } else { if_false });
            match code {
                0x20 => a = self.word(k)?,
                0x00 => a = k,
                0x01 => x = k,
                0x60 => a = *memory.get(k as usize)?,
                0x61 => x = *memory.get(k as usize)?,
                0x80 => a = DATA_BYTES,
                0x81 => x = DATA_BYTES,
                0x02 => *memory.get_mut(k as usize)? = a,
                0x03 => *memory.get_mut(k as usize)? = x,
                0x04 => a = a.wrapping_add(k),
                0x0c => a = a.wrapping_add(x),
                0x14 => a = a.wrapping_sub(k),
                0x1c => a = a.wrapping_sub(x),
                0x24 => a = a.wrapping_mul(k),
                0x2c => a = a.wrapping_mul(x),
                0x34 => a = a.checked_div(k)?,
                // The kernel ends the filter so.
                0x3c if x == 0 => return Some(0),
                0x3c => a = a.checked_div(x)?,
                0x44 => a |= k,
                0x4c => a |= x,
                0x54 => a &= k,
                0x5c => a &= x,
                0x64 => a = a.checked_shl(k)?,
                0x6c => a = a.wrapping_shl(x),
                0x74 => a = a.checked_shr(k)?,
                0x7c => a = a.wrapping_shr(x),
                0x84 => a = a.wrapping_neg(),
                0xa4 => a ^= k,
                0xac => a ^= x,
                0x07 => x = a,
                0x87 => a = x,
                0x05 => at = at.checked_add(k as usize)?,
                0x15 => at = at.wrapping_add(is(a == k)),
                0x1d => at = at.wrapping_add(is(a == x)),
                0x25 => at = at.wrapping_add(is(a > k)),
                0x2d => at = at.wrapping_add(is(a > x)),
                0x35 => at = at.wrapping_add(is(a >= k)),
                0x3d => at = at.wrapping_add(is(a >= x)),
                0x45 => at = at.wrapping_add(is(a & k != 0)),
                0x4d => at = at.wrapping_add(is(a & x != 0)),
                0x06 => return Some(k),
                0x16 => return Some(a),
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    const ALLOW: u32 = 0x7fff_0000;
    const KILL: u32 = 0x8000_0000;
    const REFUSE: u32 = 0x0005_0001;

    fn one(code: u16, if_true: u8, if_false: u8, k: u32) -> Instruction {
        let ([low, high], [a, b, c, d]) = (code.to_ne_bytes(), k.to_ne_bytes());
        [low, high, if_true, if_false, a, b, c, d]
    }

    /// Allows calls of these numbers, and says `else_say` of others.
    fn allowing(numbers: &[u32], else_say: u32) -> Vec<Instruction> {
        let mut filter = Vec::from([one(0x20, 0, 0, 0)]);
        for number in numbers {
            filter.extend([one(0x15, 0, 1, *number), one(0x06, 0, 0, ALLOW)]);
        }
        filter.push(one(0x06, 0, 0, else_say));
        filter
    }

    #[test]
    fn what_kills_one_of_our_calls_does_not_let_us_record() {
        let all: Vec<u32> = NEEDED.iter().map(|(number, _)| *number as u32).collect();
        assert!(lets_record(&allowing(&all, KILL)) && lets_record(&allowing(&[], REFUSE)));
        for left_out in &all {
            let others: Vec<u32> = all.iter().copied().filter(|number| number != left_out).collect();
            for fatal in [KILL, 0, 0x0003_0007] {
                assert!(!lets_record(&allowing(&others, fatal)), "{left_out} {fatal:x}");
            }
            assert!(lets_record(&allowing(&others, REFUSE)));
        }
    }

    #[test]
    fn what_kills_a_line_or_the_end_of_a_watchpoint_is_seen() {
        assert!(lets_write_lines(&[]) && lets_end_watchpoints(&[]));
        let lines = [number::FSTAT, number::READ, number::WRITE].map(|number| number as u32);
        assert!(lets_write_lines(&allowing(&lines, KILL)) && !lets_end_watchpoints(&allowing(&lines, KILL)));
        assert!(!lets_write_lines(&allowing(&lines[1..], KILL)) && lets_write_lines(&allowing(&[], REFUSE)));
        let ends = [number::IOCTL, number::READ, number::CLOSE].map(|number| number as u32);
        assert!(lets_end_watchpoints(&allowing(&ends, KILL)) && !lets_end_watchpoints(&allowing(&ends[1..], KILL)));
    }

    #[test]
    fn arguments_and_the_machine_are_seen() {
        let call = Call { number: 28, arguments: [1 << 40, 4096, 23, 0, 0, 7] };
        let says = |filter: &[Instruction]| call.judged_by(filter);
        let word_is = |at: u32, wanted: u32| {
            let filter = [one(0x20, 0, 0, at), one(0x15, 0, 1, wanted), one(0x06, 0, 0, 1), one(0x06, 0, 0, 2)];
            says(&filter) == Some(1)
        };
        assert!(word_is(0, 28) && word_is(4, 0xc000_003e) && word_is(16, 0) && word_is(20, 1 << 8));
        assert!(word_is(32, 23) && word_is(56, 7) && !word_is(32, 24));
        assert_eq!(says(&[one(0x20, 0, 0, 64), one(0x06, 0, 0, 1)]), None, "behind the last argument");
        assert_eq!(says(&[one(0x20, 0, 0, 2), one(0x06, 0, 0, 1)]), None);
        // ((4096 / 16 - 1) << 1 ^ 3) + 5, kept and fetched, by way of x.
        let reckoned = [
            one(0x20, 0, 0, 24),
            one(0x34, 0, 0, 16),
            one(0x14, 0, 0, 1),
            one(0x64, 0, 0, 1),
            one(0xa4, 0, 0, 3),
            one(0x02, 0, 0, 15),
            one(0x01, 0, 0, 5),
            one(0x00, 0, 0, 0),
            one(0x60, 0, 0, 15),
            one(0x0c, 0, 0, 0),
            one(0x16, 0, 0, 0),
        ];
        assert_eq!(says(&reckoned), Some((((4096 / 16 - 1) << 1) ^ 3) + 5));
    }

    #[test]
    fn what_is_no_filter_says_nothing() {
        let call = Call { number: 0, arguments: [0; 6] };
        for wrong in [
            &[][..],
            &[one(0x05, 0, 0, u32::MAX)],
            &[one(0x06, 0, 0, 0); 1][..0],
            &[one(0xff, 0, 0, 0)],
            &[one(0x60, 0, 0, 16), one(0x16, 0, 0, 0)],
            &[one(0x34, 0, 0, 0), one(0x16, 0, 0, 0)],
            &[one(0x15, 9, 9, 0), one(0x06, 0, 0, 0)],
        ] {
            assert_eq!(call.judged_by(wrong), None, "{wrong:?}");
        }
        assert!(lets_record(&[]));
    }
}
