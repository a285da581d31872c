//! What a process knows of itself, read from `/proc` without the C library: hooks run before
//! `environ` is set up, and the program may have changed it.

use crate::syscall::{self, open_flag};
use crate::text::{self, Text};
use core::ffi::CStr;

/// Reads a file from its start, a piece at a time; `piece` returns false to end it early.
fn read_pieces(path: &CStr, buffer: &mut [u8], piece: &mut dyn FnMut(&[u8]) -> bool) {
    let Ok(fd) = syscall::open(path, open_flag::READ | open_flag::CLOSE_ON_EXEC, 0) else { return };
    while let Ok(length @ 1..) = syscall::read(fd, buffer) {
        if !piece(buffer.get(..length).unwrap_or(&[])) {
            break;
        }
    }
    syscall::close(fd);
}

/// The value that the environment variable `name` had when the program was started. `None` if it
/// is not set or longer than `N`.
pub fn environment<const N: usize>(name: &[u8]) -> Option<Text<N>> {
    let mut buffer = [0u8; 1024];
    let mut value = Text::<N>::new();
    let mut matched = Some(0); // bytes of `name=` seen in this entry; None: another variable
    let mut found = false;
    read_pieces(c"/proc/self/environ", &mut buffer, &mut |bytes| {
        for byte in bytes.iter().copied() {
            if byte == 0 {
                if found {
                    return false;
                }
                matched = Some(0);
            } else if found {
                value.push(&[byte]);
            } else if let Some(seen) = matched {
                matched = match name.get(seen) {
                    Some(expected) if *expected == byte => Some(seen + 1),
                    None if byte == b'=' => {
                        found = true;
                        None
                    }
                    _ => None,
                };
            }
        }
        true
    });
    (found && !value.is_cut()).then_some(value)
}

/// Where the kernel put the program headers of the executable, as the auxiliary vector says; 0 if it does not.
pub fn program_headers() -> usize {
    const AT_PHDR: usize = 3;
    let mut vector = [0u8; 1024];
    let mut value = 0;
    read_pieces(c"/proc/self/auxv", &mut vector, &mut |bytes| {
        let word = |bytes: &[u8; 8]| usize::from_ne_bytes(*bytes);
        let (words, _) = bytes.as_chunks::<8>();
        let pair = words.as_chunks::<2>().0.iter().find(|[key, _]| word(key) == AT_PHDR);
        value = pair.map_or(0, |[_, value]| word(value));
        false
    });
    value
}

/// When the process was started: field 22 of `/proc/self/stat`, in clock ticks since boot.
pub fn start_ticks() -> u64 {
    stat_field(19)
}

/// The address at which the first thread's stack began: its stack pointer when the program was entered. 0 if the kernel does
/// not say.
pub fn start_stack() -> u64 {
    stat_field(25)
}

/// A number of `/proc/self/stat`, counted from the field behind the name.
fn stat_field(index: usize) -> u64 {
    let mut buffer = [0u8; 1024];
    let mut value = 0;
    read_pieces(c"/proc/self/stat", &mut buffer, &mut |bytes| {
        // The second field is the name in parentheses, which may itself hold anything.
        let after_name = bytes.iter().rposition(|byte| *byte == b')').map_or(0, |at| at + 2);
        let mut fields = bytes.get(after_name..).unwrap_or(&[]).split(|byte| *byte == b' ');
        value = fields.nth(index).and_then(text::number).unwrap_or(0);
        false
    });
    value
}

/// The first piece of a small file as a number, or `None`.
fn file_number(path: &CStr) -> Option<u64> {
    let mut buffer = [0u8; 64];
    let mut value = None;
    read_pieces(path, &mut buffer, &mut |bytes| {
        value = text::number(bytes.trim_ascii());
        false
    });
    value
}

/// Bytes of memory that the process may use: the machine's, or its control group's if that is less.
pub fn memory_limit() -> u64 {
    let group = file_number(c"/sys/fs/cgroup/memory.max")
        .or_else(|| file_number(c"/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    group.unwrap_or(u64::MAX).min(syscall::memory_bytes())
}

/// Bytes of address space that the process has mapped.
pub fn mapped_bytes() -> u64 {
    let mut buffer = [0u8; 64];
    let mut pages = 0;
    read_pieces(c"/proc/self/statm", &mut buffer, &mut |bytes| {
        let first = bytes.split(|byte| *byte == b' ').next().unwrap_or(&[]);
        pages = text::number(first).unwrap_or(0);
        false
    });
    pages * 4096
}

/// The path of the program's file, and of its working directory; empty if unknown.
pub fn link<const N: usize>(path: &CStr) -> Text<N> {
    let mut buffer = [0u8; N];
    let mut text = Text::new();
    if let Ok(target) = syscall::read_link(path, &mut buffer) {
        text.push(target);
    }
    text
}

/// Hands the program's arguments over, a piece at a time, each argument ended by a zero byte.
pub fn arguments(each_piece: &mut dyn FnMut(&[u8]) -> bool) {
    let mut buffer = [0u8; 512];
    read_pieces(c"/proc/self/cmdline", &mut buffer, each_piece);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_the_standard_library_tells() {
        let path = environment::<8192>(b"PATH").expect("PATH");
        assert_eq!(path.bytes(), std::env::var("PATH").expect("PATH").as_bytes());
        assert!(environment::<64>(b"NO_SUCH_VARIABLE_HERE").is_none());
        assert!(environment::<1>(b"PATH").is_none(), "too long is as good as absent");
        let exe = link::<512>(c"/proc/self/exe");
        assert_eq!(exe.bytes(), std::env::current_exe().expect("exe").as_os_str().as_encoded_bytes());
        assert!(start_ticks() > 0);
        let here = 0u8;
        assert!(start_stack() > 1 << 20 && start_stack() != &raw const here as u64);
        assert!(memory_limit() > 1 << 24);
        let mut bytes = std::vec::Vec::new();
        arguments(&mut |piece| {
            bytes.extend_from_slice(piece);
            true
        });
        assert!(bytes.ends_with(b"\0"));
    }
}
