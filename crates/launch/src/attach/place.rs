//! Where a thread may be made to open a library: at any place where a signal handler could be run that takes the locks of the loader
//! and of `malloc`, because the thread has none of them.
//!
//! `dlopen` allocates, and takes locks of the loader and of the list of thread stacks. A thread that was stopped somewhere may be the
//! owner of one of these, and would wait for itself. So its whole stack is followed, by unwind tables only, to its outermost frame,
//! and none of its functions may be one that could own such a lock:
//!
//! - none in the loader, nor in the library of the program's allocator;
//! - in the C library, those that begin threads and the program, outermost; and, innermost, the functions of a system call in
//!   which the thread waits. `malloc` and the loader make none of these calls, and what has called one has none of the locks. Of
//!   waiting for a futex, which `malloc` does too, that is true where a function that is known has been called from outside;
//! - everything else of the C library may be in the middle of something.
//!
//! Signal handlers are among that: the kernel has them return to the C library. A thread on a stack other than its own (a
//! coroutine's, an alternate signal stack) is left alone: nobody knows how much room there is.

use std::cell::RefCell;

use heapledger_unwind::{End, Environment, Lookup, Registers, Strategy, walk_in_full};
use libc::user_regs_struct;

use super::image::{Exports, Image};
use super::memory::{Mapping, TargetMemory};
use super::registers;

/// What `dlopen` and the library's constructor may take of a stack, with what is put there before.
const ROOM: u64 = 128 << 10;
/// More frames than these are not followed.
const FRAMES_MAX: usize = 1024;
/// So much of a stack is read at once.
const STACK_CHUNK: usize = 64 << 10;
/// The loader's file.
pub(super) const LOADER: &str = "ld-linux-x86-64.so.2";
/// The C library's.
pub(super) const C_LIBRARY: &str = "libc.so.6";
/// Frames of the C library with which a program or a thread begins.
const FIRST_FRAMES_MAX: usize = 3;

/// System calls in which a thread waits, and which neither `malloc` nor the loader makes.
const WAITS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_pause,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigsuspend,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_io_uring_enter,
    libc::SYS_sched_yield,
    // One of those that wait for a time, gone on with.
    libc::SYS_restart_syscall,
];

/// Functions of the C library that wait for a futex and have nothing locked that opening a library would need.
const FUTEX_WAITS: &[&str] = &[
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "pthread_mutex_lock",
    "pthread_mutex_timedlock",
    "pthread_mutex_clocklock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
    "pthread_rwlock_timedrdlock",
    "pthread_rwlock_timedwrlock",
    "pthread_barrier_wait",
    "pthread_join",
    "pthread_timedjoin_np",
    "pthread_clockjoin_np",
    "sem_wait",
    "sem_timedwait",
    "sem_clockwait",
    "cnd_wait",
    "cnd_timedwait",
    "mtx_lock",
    "mtx_timedlock",
    "thrd_join",
    "syscall",
];

/// Functions of the C library that have locks while others run that they call, or are in the middle of what must be whole.
const OWNERS: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "malloc_trim",
    "malloc_info",
    "malloc_stats",
    "mallopt",
    "mallinfo",
    "mallinfo2",
    "fork",
    "_Fork",
    "vfork",
    "pthread_create",
    "pthread_exit",
    "thrd_create",
    "thrd_exit",
    "exit",
    "quick_exit",
    "dlopen",
    "dlmopen",
    "dlclose",
    "dlsym",
    "dlvsym",
    "dladdr",
    "dladdr1",
    "dlinfo",
    "dl_iterate_phdr",
    "iconv_open",
    "iconv_close",
    "__cxa_finalize",
    "__cxa_thread_atexit_impl",
];

/// What a thread is found at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadPlace {
    /// It can be made to open a library.
    Fit,
    /// It is inside of the loader, which others would wait for.
    InLoader,
    /// Why not here.
    Unfit(&'static str),
}

/// What is known of a process.
#[derive(Debug)]
pub(super) struct Modules {
    pub(super) images: Vec<Image>,
    pub(super) exports: Exports,
    mappings: Vec<Mapping>,
    allocator: Option<usize>,
    /// Most bytes of the first thread's stack.
    stack_max: u64,
}

/// Where a module is among the others.
enum Whose<'m> {
    Loader,
    CLibrary,
    Allocator,
    Others(&'m Image),
    Nobody,
}

impl Modules {
    /// Reads them. `None` if there is no C library of GNU's.
    pub(super) fn read(process: i32, memory: &TargetMemory) -> Option<Modules> {
        let mappings = Mapping::all(process).ok()?;
        let images = Image::all(memory, &mappings);
        let exports = images.iter().find(|image| image.name() == C_LIBRARY)?.exports(memory)?;
        let stack_max = stack_max(process);
        let mut modules = Modules { images, exports, mappings, allocator: None, stack_max };
        let is_allocator = |image: &Image| {
            let exports = image.exports(memory);
            image.name() != C_LIBRARY
                && image.name() != LOADER
                && exports.is_some_and(|exports| exports.address("malloc").is_some())
        };
        modules.allocator = modules.images.iter().position(is_allocator);
        Some(modules)
    }

    /// The module of this name.
    pub(super) fn image(&self, name: &str) -> Option<&Image> {
        self.images.iter().find(|image| image.name() == name)
    }

    /// The same as they are now: what is loaded is read again only if that is something else.
    pub(super) fn refreshed(mut self, process: i32, memory: &TargetMemory) -> Option<Modules> {
        let now = Mapping::all(process).ok()?;
        let code = |mappings: &[Mapping]| {
            let of_code = mappings.iter().filter(|mapping| mapping.is_of_file() && mapping.rights.contains('x'));
            of_code.map(|mapping| (mapping.range.start, mapping.name.clone())).collect::<Vec<_>>()
        };
        if code(&now) != code(&self.mappings) {
            return Modules::read(process, memory);
        }
        self.mappings = now;
        Some(self)
    }

    fn whose(&self, address: u64) -> Whose<'_> {
        match self.images.iter().enumerate().find(|(_, image)| image.has_code(address)) {
            None => Whose::Nobody,
            Some((_, image)) if image.name() == LOADER => Whose::Loader,
            Some((_, image)) if image.name() == C_LIBRARY => Whose::CLibrary,
            Some((index, _)) if self.allocator == Some(index) => Whose::Allocator,
            Some((_, image)) => Whose::Others(image),
        }
    }

    /// Where the function begins that has this address.
    fn function(&self, memory: &TargetMemory, address: u64) -> Option<u64> {
        let image = self.images.iter().find(|image| image.has_code(address))?;
        Some(image.table(memory)?.function(address)?.start)
    }

    /// Looks at where a thread stands.
    pub(super) fn place(&self, memory: &TargetMemory, thread: i32, regs: &user_regs_struct) -> ThreadPlace {
        if !self.has_room(regs) {
            return ThreadPlace::Unfit("a thread runs on a stack that is small, or not its own");
        }
        if is_restartable(memory, registers::restartable(thread), regs.rip) {
            return ThreadPlace::Unfit("a thread is inside of a restartable sequence");
        }
        let stack = Stack { memory, modules: self, chunk: RefCell::new((0, Vec::new())) };
        let registers = Registers {
            // As of a frame that a signal has interrupted.
            ip: regs.rip.wrapping_add(1),
            sp: regs.rsp,
            bp: regs.rbp,
            bx: regs.rbx,
            r12: regs.r12,
            r13: regs.r13,
            r14: regs.r14,
            r15: regs.r15,
        };
        let mut frames = Vec::new();
        let walk = walk_in_full(&stack, &registers, Strategy::Tables, &mut |pc| {
            frames.push(pc.wrapping_sub(1));
            frames.len() < FRAMES_MAX
        });
        if frames.iter().any(|address| matches!(self.whose(*address), Whose::Loader)) {
            return ThreadPlace::InLoader;
        }
        if walk.end != End::Outermost {
            return ThreadPlace::Unfit("the stack of a thread cannot be followed to its beginning");
        }
        self.judge(memory, &frames, regs)
    }

    /// Judges a whole stack, the innermost frame first.
    fn judge(&self, memory: &TargetMemory, frames: &[u64], regs: &user_regs_struct) -> ThreadPlace {
        const BUSY: ThreadPlace = ThreadPlace::Unfit("a thread is inside of the C library or of the allocator");
        let is_of_c = |address: &u64| matches!(self.whose(*address), Whose::CLibrary);
        let is_entry = |address: &u64| match self.whose(*address) {
            Whose::Others(image) => self.function(memory, *address) == Some(image.entry()),
            _ => false,
        };
        // A program begins in its own code, which calls the C library's; a thread in that one's.
        let frames = match frames.split_last() {
            Some((last, rest)) if is_entry(last) => rest,
            _ => frames,
        };
        let first = frames.iter().rev().take_while(|address| is_of_c(address)).count();
        let inner = frames.iter().take_while(|address| is_of_c(address)).count();
        let Some((waiting, rest)) = frames.split_at_checked(inner) else { return BUSY };
        let Some((own, beginning)) = rest.split_at_checked(rest.len().saturating_sub(first)) else { return BUSY };
        let are_others = own.iter().all(|address| matches!(self.whose(*address), Whose::Others(_)));
        let owns =
            |address: &u64| self.function(memory, *address).is_none_or(|start| self.exports.is_any(OWNERS, start));
        let begins_right = (1..=FIRST_FRAMES_MAX).contains(&beginning.len()) && !own.is_empty();
        if !begins_right || !are_others || waiting.iter().chain(beginning).any(owns) {
            return BUSY;
        }
        let call = regs.orig_rax.cast_signed();
        let entered = waiting.last().and_then(|address| self.function(memory, *address));
        let may_wait = match call {
            libc::SYS_futex => entered.is_none_or(|start| self.exports.is_any(FUTEX_WAITS, start)),
            call if call >= 0 => WAITS.contains(&call),
            _ => waiting.is_empty(),
        };
        if may_wait { ThreadPlace::Fit } else { BUSY }
    }

    /// Whether the thread is on its own stack, with room below.
    fn has_room(&self, regs: &user_regs_struct) -> bool {
        let Some(index) = self.mappings.iter().position(|mapping| mapping.range.contains(&regs.rsp)) else {
            return false;
        };
        let Some(here) = self.mappings.get(index) else { return false };
        let used = here.range.end.saturating_sub(regs.rsp);
        if here.name == "[stack]" {
            return used.saturating_add(ROOM) < self.stack_max;
        }
        // A thread's own stack has what the C library knows of the thread at its end, and a closed page before it.
        let below = index.checked_sub(1).and_then(|index| self.mappings.get(index));
        let is_guarded =
            below.is_some_and(|below| below.range.end == here.range.start && below.rights.starts_with("---"));
        let is_own = here.range.contains(&regs.fs_base) && regs.rsp < regs.fs_base && used > 0;
        is_guarded && is_own && regs.rsp.saturating_sub(here.range.start) > ROOM
    }
}

/// The limit of the first thread's stack, to which it grows.
fn stack_max(process: i32) -> u64 {
    const USUAL: u64 = 8 << 20;
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max stack size")?.split_ascii_whitespace().next());
    limit.and_then(|limit| limit.parse().ok()).unwrap_or(USUAL)
}

/// Whether a thread is in the middle of what the kernel would have it begin anew on another processor.
fn is_restartable(memory: &TargetMemory, place: u64, ip: u64) -> bool {
    const SECTION: u64 = 8;
    if place == 0 {
        return false;
    }
    let Ok(section) = memory.word(place.wrapping_add(SECTION)) else { return true };
    if section == 0 {
        return false;
    }
    let (start, bytes) = (memory.word(section.wrapping_add(8)), memory.word(section.wrapping_add(16)));
    let (Ok(start), Ok(bytes)) = (start, bytes) else { return true };
    ip.wrapping_sub(start) < bytes
}

/// A stack of the process.
struct Stack<'a> {
    memory: &'a TargetMemory,
    modules: &'a Modules,
    /// What was read last, and from where.
    chunk: RefCell<(u64, Vec<u8>)>,
}

impl Environment for Stack<'_> {
    fn read_word(&self, address: u64) -> Option<u64> {
        let find = |(start, bytes): &(u64, Vec<u8>)| {
            let at = usize::try_from(address.checked_sub(*start)?).ok()?;
            Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
        };
        let known = find(&self.chunk.borrow());
        if known.is_some() {
            return known;
        }
        let mapping = self.modules.mappings.iter().find(|mapping| mapping.range.contains(&address));
        let left = mapping.map_or(0, |mapping| mapping.range.end.saturating_sub(address));
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(STACK_CHUNK);
        if let Ok(bytes) = self.memory.bytes(address, count) {
            self.chunk.replace((address, bytes));
        }
        let read = find(&self.chunk.borrow());
        read.or_else(|| self.memory.word(address).ok())
    }

    fn find_table(&self, pc: u64) -> Lookup<'_> {
        let image = self.modules.images.iter().find(|image| image.has_code(pc));
        image.and_then(|image| image.table(self.memory)).map_or(Lookup::NoTable, Lookup::Found)
    }
}
