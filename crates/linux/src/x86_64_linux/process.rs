//! What a process knows of itself, read from `/proc` without the C library: hooks run before
//! `environ` is set up, and the program may have changed it. Where there is no `/proc` (a bare `chroot`), what the kernel
//! left at the end of the first stack must do.

use crate::loader;
use crate::syscall::{self, open_flag};
use crate::text::{self, Text};
use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Reads a file from its start, a piece at a time; `piece` returns false to end it early. False if there is no such file, or
/// it cannot be read.
fn read_pieces(path: &CStr, buffer: &mut [u8], piece: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    let Ok(fd) = syscall::open(path, open_flag::READ | open_flag::CLOSE_ON_EXEC, 0) else { return false };
    let whole = loop {
        match syscall::read(fd, buffer) {
            Ok(0) => break true,
            Ok(length) if piece(buffer.get(..length).unwrap_or(&[])) => {}
            Ok(_) => break true,
            Err(_) => break false,
        }
    };
    syscall::close(fd);
    whole
}

/// What the kernel put at the end of the first stack: the number of arguments, pointers to them, pointers to the environment,
/// the auxiliary vector. Null if the loader does not say where.
fn start_block() -> *const usize {
    loader::first_stack_end().filter(|address| syscall::readable(*address)).unwrap_or(0) as *const usize
}

/// Most pointers that are followed: the kernel allows a few million.
const POINTERS_MAX: usize = 1 << 22;

/// A list of pointers up to a null, beginning with the given word of the start block.
fn pointers(first: usize) -> impl Iterator<Item = usize> {
    let block = start_block();
    let count = if block.is_null() { 0 } else { POINTERS_MAX };
    // SAFETY: the kernel wrote both lists there, each ended by a null; they are read no further.
    (0..count).map(move |index| unsafe { *block.add(first.wrapping_add(index)) }).take_while(|pointer| *pointer != 0)
}

/// Where in the start block the environment begins.
fn environment_at() -> usize {
    const COUNT_AND_NULL: usize = 2;
    let block = start_block();
    // SAFETY: the first word is the number of arguments.
    if block.is_null() { 1 } else { unsafe { *block }.saturating_add(COUNT_AND_NULL) }
}

/// Hands a string over, its zero byte included. It need not be where the pointer says any more: the program may have changed
/// the list.
fn read_string(address: usize, piece: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    const PAGE: usize = 4096;
    let mut at = address;
    loop {
        if !syscall::readable(at & !7) {
            return piece(b"\0");
        }
        // SAFETY: what is left of the page that was just found to be readable.
        let rest = unsafe { core::slice::from_raw_parts(at as *const u8, PAGE.wrapping_sub(at % PAGE)) };
        let end = rest.iter().position(|byte| *byte == 0);
        if !piece(end.and_then(|end| rest.get(..=end)).unwrap_or(rest)) {
            return false;
        }
        if end.is_some() {
            return true;
        }
        at = at.wrapping_add(rest.len());
    }
}

/// Hands all strings of such a list over, until `piece` returns false.
#[cold]
#[inline(never)]
fn each_string(first: usize, piece: &mut dyn FnMut(&[u8]) -> bool) {
    let _ = pointers(first).all(|string| read_string(string, piece));
}

/// A value of the auxiliary vector on the first stack.
#[cold]
#[inline(never)]
fn auxiliary(key: usize) -> Option<usize> {
    const ENTRIES_MAX: usize = 64;
    let at = environment_at();
    let first = at.wrapping_add(pointers(at).count()).wrapping_add(1);
    let block = start_block();
    let count = if block.is_null() { 0 } else { ENTRIES_MAX };
    // SAFETY: pairs of words behind the environment, ended by one whose key is 0.
    let pair = |index: usize| unsafe {
        (
            *block.add(first.wrapping_add(index.wrapping_mul(2))),
            *block.add(first.wrapping_add(index.wrapping_mul(2)).wrapping_add(1)),
        )
    };
    (0..count).map(pair).take_while(|(own, _)| *own != 0).find(|(own, _)| *own == key).map(|(_, value)| value)
}

/// The value that the environment variable `name` had when the program was started. `None` if it
/// is not set or longer than `N`.
pub fn environment<const N: usize>(name: &[u8]) -> Option<Text<N>> {
    let mut buffer = [0u8; 1024];
    let mut value = Text::<N>::new();
    let mut search = Search { name, matched: Some(0), found: false };
    if !read_pieces(c"/proc/self/environ", &mut buffer, &mut |bytes| search.look(bytes, &mut value)) {
        value.clear();
        search = Search { name, matched: Some(0), found: false };
        each_string(environment_at(), &mut |bytes| search.look(bytes, &mut value));
    }
    (search.found && !value.is_cut()).then_some(value)
}

/// Looking for a variable in pieces of an environment.
struct Search<'a> {
    name: &'a [u8],
    /// Bytes of `name=` seen in this entry; `None`: another variable.
    matched: Option<usize>,
    found: bool,
}

impl Search<'_> {
    /// False when the value is complete.
    fn look<const N: usize>(&mut self, bytes: &[u8], value: &mut Text<N>) -> bool {
        for byte in bytes.iter().copied() {
            if byte == 0 {
                if self.found {
                    return false;
                }
                self.matched = Some(0);
            } else if self.found {
                value.push(&[byte]);
            } else if let Some(seen) = self.matched {
                self.matched = match self.name.get(seen) {
                    Some(expected) if *expected == byte => Some(seen.wrapping_add(1)),
                    None if byte == b'=' => {
                        self.found = true;
                        None
                    }
                    _ => None,
                };
            }
        }
        true
    }
}

/// Where the kernel put the program headers of the executable, as the auxiliary vector says; 0 if it does not.
pub fn program_headers() -> usize {
    const AT_PHDR: usize = 3;
    /// Not looked for yet, or unknown. It stays as it is, in forked children, too.
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    if KNOWN.load(Ordering::Relaxed) == 0 {
        KNOWN.store(told_by_kernel(AT_PHDR).unwrap_or(0), Ordering::Relaxed);
    }
    KNOWN.load(Ordering::Relaxed)
}

/// A value of the auxiliary vector.
fn told_by_kernel(key: usize) -> Option<usize> {
    let mut vector = [0u8; 1024];
    let mut value = None;
    let found = read_pieces(c"/proc/self/auxv", &mut vector, &mut |bytes| {
        let word = |bytes: &[u8; 8]| usize::from_ne_bytes(*bytes);
        let (words, _) = bytes.as_chunks::<8>();
        let pair = words.as_chunks::<2>().0.iter().find(|[own, _]| word(own) == key);
        value = pair.map(|[_, value]| word(value));
        false
    });
    if found { value } else { auxiliary(key) }
}

/// Whether the program runs with more rights than whoever started it: with those of its file.
pub fn is_privileged() -> bool {
    const AT_SECURE: usize = 23;
    /// Not looked for yet; then [`NO`] or another number. It stays as it is, in forked children, too.
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    const NO: u8 = 1;
    const YES: u8 = 2;
    if KNOWN.load(Ordering::Relaxed) == 0 {
        let is = told_by_kernel(AT_SECURE).is_some_and(|secure| secure != 0);
        KNOWN.store(if is { YES } else { NO }, Ordering::Relaxed);
    }
    KNOWN.load(Ordering::Relaxed) != NO
}

/// When the process was started: field 22 of `/proc/self/stat`, in clock ticks since boot.
pub fn start_ticks() -> u64 {
    stat_field(19)
}

/// The number of the namespace in which the process has its number: what is between the brackets of `pid:[4026531836]`. `None` if the
/// kernel does not say.
pub fn pid_namespace() -> Option<u64> {
    let mut buffer = [0u8; 64];
    let target = syscall::read_link(c"/proc/self/ns/pid", &mut buffer).ok()?;
    text::number(target.strip_prefix(b"pid:[")?.strip_suffix(b"]")?)
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
        let after_name = bytes.iter().rposition(|byte| *byte == b')').map_or(0, |at| at.wrapping_add(2));
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

/// How many mappings a process may have.
pub fn mappings_max() -> u64 {
    const USUAL: u64 = 65_530;
    file_number(c"/proc/sys/vm/max_map_count").unwrap_or(USUAL)
}

/// Bytes of memory that the process may use: the machine's, or its control group's if that is less. A forked child is told what its
/// parent was.
pub fn memory_limit() -> u64 {
    /// Not looked for yet.
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    if KNOWN.load(Ordering::Relaxed) == 0 {
        let group = file_number(c"/sys/fs/cgroup/memory.max")
            .or_else(|| file_number(c"/sys/fs/cgroup/memory/memory.limit_in_bytes"));
        KNOWN.store(group.unwrap_or(u64::MAX).min(syscall::memory_bytes()), Ordering::Relaxed);
    }
    KNOWN.load(Ordering::Relaxed)
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
    pages.saturating_mul(4096)
}

/// The key of the auxiliary vector for the name of the file that was executed.
const AT_EXECFN: usize = 31;

/// The path of the program's file; empty if unknown.
pub fn executable<const N: usize>() -> Text<N> {
    let path = link::<N>(c"/proc/self/exe");
    if path.bytes().is_empty() { executable_at_start() } else { path }
}

#[cold]
#[inline(never)]
fn executable_at_start<const N: usize>() -> Text<N> {
    let mut path = Text::new();
    let Some(name) = auxiliary(AT_EXECFN) else { return path };
    read_string(name, &mut |piece| {
        if path.bytes().is_empty() && !piece.starts_with(b"/") {
            // As it was called from the directory of that time, which is rarely left before the first allocation.
            path = directory();
            path.push(b"/");
        }
        path.push(piece.strip_suffix(b"\0").unwrap_or(piece));
        true
    });
    path
}

/// The path of the working directory; empty if unknown. Of one that was removed the kernel says the name it had, in `/proc` only. (The call is
/// asked first: it makes no file there, which takes as long as ten such calls.)
pub fn directory<const N: usize>() -> Text<N> {
    let mut buffer = [0u8; N];
    match syscall::working_directory(&mut buffer) {
        Ok(found) => {
            let mut path = Text::new();
            path.push(found);
            path
        }
        Err(_) => link(c"/proc/self/cwd"),
    }
}

/// Where a link leads to; empty if unknown.
#[inline(never)]
pub fn link<const N: usize>(path: &CStr) -> Text<N> {
    let mut buffer = [0u8; N];
    let mut text = Text::new();
    if let Ok(target) = syscall::read_link(path, &mut buffer) {
        text.push(target);
    }
    text
}

/// The last part of the name by which the program was called: what a symbolic link leads to would surprise. Of one that has written a title for
/// `ps` over its arguments, that of its file; `has_run`: it may have done so.
pub fn program<const N: usize>(executable: &[u8], has_run: bool) -> Text<N> {
    const REMOVED: &[u8] = b" (deleted)";
    let file = last_part(executable.strip_suffix(REMOVED).unwrap_or(executable));
    let mut program = Text::new();
    if !has_run || has_its_arguments() {
        arguments(&mut |piece| {
            program.push(name_in(piece, if has_run { Some(file) } else { None }));
            false
        });
    }
    if program.bytes().is_empty() {
        program.push(file);
    }
    program
}

/// What the first piece of the [`arguments`] says; nothing if it looks like a title, which may be just as long as what was there, of a program
/// with this file that may have one.
fn name_in<'a>(first_piece: &'a [u8], file: Option<&[u8]>) -> &'a [u8] {
    let first = first_piece.split(|byte| *byte == 0).next().unwrap_or(&[]);
    let name = last_part(first);
    if first.contains(&b' ') && file.is_some_and(|file| name != file) { &[] } else { name }
}

fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Whether behind the first argument another text of the kernel's begins, as when the program was started: a title is written over several of
/// them, or is shorter than what was there.
fn has_its_arguments() -> bool {
    let Some(first) = pointers(1).next() else { return true };
    let mut end = first;
    read_string(first, &mut |piece| {
        end = end.wrapping_add(piece.len());
        true
    });
    // Programs change the order of their arguments, not where each lies.
    pointers(1).chain(pointers(environment_at())).chain(auxiliary(AT_EXECFN)).any(|other| other == end)
}

/// Hands the program's arguments over, a piece at a time, each argument ended by a zero byte.
pub fn arguments(each_piece: &mut dyn FnMut(&[u8]) -> bool) {
    let mut buffer = [0u8; 512];
    if !read_pieces(c"/proc/self/cmdline", &mut buffer, each_piece) {
        each_string(1, each_piece);
    }
}

/// The same of a forked child, from its memory, in which they lie where its parent's do.
pub fn arguments_of_forked(each_piece: &mut dyn FnMut(&[u8]) -> bool) {
    if start_block().is_null() { arguments(each_piece) } else { each_string(1, each_piece) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_not_taken_for_a_name() {
        assert_eq!(name_in(b"./leaky\0more\0", Some(b"leaky")), b"leaky");
        assert_eq!(name_in(b"/usr/bin/vi\0", Some(b"vim.basic")), b"vi");
        assert_eq!(name_in(b"/opt/My Tools/tool\0", Some(b"tool")), b"tool");
        assert_eq!(name_in(b"nginx: master process /etc/nginx/n.conf\0", Some(b"nginx")), b"");
        assert_eq!(name_in(b"/usr/lib/chromium/chromium --type=broker /tmp/x\0", Some(b"chromium")), b"");
        assert_eq!(name_in(b"a name of two words\0", None), b"a name of two words", "no time for a title yet");
        assert_eq!(name_in(b"\0", Some(b"")), b"");
    }

    #[test]
    fn the_namespace_of_the_number_is_known() {
        let link = std::fs::read_link("/proc/self/ns/pid").expect("a link");
        assert_eq!(link.to_str(), pid_namespace().map(|number| std::format!("pid:[{number}]")).as_deref());
    }

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
        let called = std::env::args_os().next().expect("a name");
        let called = std::path::Path::new(&called).file_name().expect("a name").as_encoded_bytes();
        assert_eq!(program::<256>(b"", true).bytes(), called);
        assert!(has_its_arguments());
    }

    #[test]
    fn the_first_stack_tells_what_proc_tells() {
        let strings = |first: usize| {
            let mut bytes = std::vec::Vec::new();
            assert!(pointers(first).all(|string| read_string(string, &mut |piece| {
                bytes.extend_from_slice(piece);
                true
            })));
            bytes
        };
        assert_eq!(strings(1), std::fs::read("/proc/self/cmdline").expect("read"));
        assert_eq!(strings(environment_at()), std::fs::read("/proc/self/environ").expect("read"));
        const AT_PHDR: usize = 3;
        assert_eq!(auxiliary(AT_PHDR), Some(program_headers()));
        assert_eq!(auxiliary(usize::MAX), None);
        assert_eq!(executable::<512>().bytes(), std::env::current_exe().expect("exe").as_os_str().as_encoded_bytes());
        let mut buffer = [0; 512];
        let directory = std::env::current_dir().expect("a directory");
        assert_eq!(syscall::working_directory(&mut buffer), Ok(directory.as_os_str().as_encoded_bytes()));
    }
}
