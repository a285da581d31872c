//! The system calls that have no safe door in our dependencies. Each function here is safe to call.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::SigSet;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

/// A lock on an open file, which goes with this value, or however the process ends. The crate `nix` has one that panics if
/// it cannot be given back.
#[derive(Debug)]
pub struct Lock(File);

/// Who else may have a lock at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Nobody else.
    Exclusive,
    /// Others who take it so.
    Shared,
}

impl Lock {
    /// Takes it at once.
    ///
    /// # Errors
    /// `EWOULDBLOCK` if somebody else has it; whatever else the file system says.
    pub fn take(file: File, kind: LockKind) -> Result<Lock, Errno> {
        lock(&file, kind).map(|()| Lock(file))
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.0
    }
}

/// Locks an open file at once, until it is closed wherever it is open.
///
/// # Errors
/// As [`Lock::take`].
pub fn lock(file: &File, kind: LockKind) -> Result<(), Errno> {
    let how = match kind {
        LockKind::Exclusive => libc::LOCK_EX,
        LockKind::Shared => libc::LOCK_SH,
    };
    // SAFETY: an open descriptor.
    Errno::result(unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) }).map(drop)
}

impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: an open descriptor. What cannot be given back goes when the file is closed.
        let _ = unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// What [`fork`] returned into.
pub enum Forked {
    /// The parent, with the child's number.
    Parent(i32),
    /// The child.
    Child,
}

/// Splits the process. Refused while it has more than one thread: the child could wait for ever for a lock whose
/// owner does not exist there.
pub fn fork() -> io::Result<Forked> {
    /// A thread that was joined is still listed for a moment.
    const LOOKS_MAX: u32 = 1000;
    let count = || {
        // Not the directory of threads: to close one is not allowed to fail.
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let behind_name = stat.rsplit(')').next().unwrap_or_default();
        behind_name.split_ascii_whitespace().nth(17).and_then(|count| count.parse().ok()).unwrap_or(1)
    };
    let mut looks = (0..LOOKS_MAX).map(|_| {
        let threads: usize = count();
        if threads != 1 {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        threads
    });
    if !looks.any(|threads| threads == 1) {
        return Err(io::Error::other("fork with several threads"));
    }
    // SAFETY: this process has a single thread (just looked), so the child owns all there is.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        child => Ok(Forked::Parent(child)),
    }
}

/// A number in memory that a forked child shares with its parent. It needs no descriptor, which might not be to be had.
pub struct SharedNumber(Option<&'static AtomicI32>);

impl Default for SharedNumber {
    fn default() -> SharedNumber {
        SharedNumber::new()
    }
}

impl SharedNumber {
    /// A new one, 0. Without memory for it, it stays 0.
    pub fn new() -> SharedNumber {
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: asks for fresh memory anywhere.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<AtomicI32>(), rights, kind, -1, 0) };
        // SAFETY: a page of zeros, aligned, never unmapped.
        SharedNumber((page != libc::MAP_FAILED).then(|| unsafe { &*page.cast::<AtomicI32>() }))
    }

    /// Sets it, for both.
    pub fn set(&self, number: i32) {
        if let Some(place) = self.0 {
            place.store(number, Ordering::Release);
        }
    }

    /// What either of them has set.
    pub fn get(&self) -> i32 {
        self.0.map_or(0, |place| place.load(Ordering::Acquire))
    }
}

/// A signal that was sent to this process, which blocks it.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its number.
    pub signal: i32,

    /// Whether a process sent it, and not the kernel: a terminal, say.
    pub by_process: bool,
    /// Which process.
    pub pid: i32,
}

/// The next of these signals, if one came within this time; `None` as a limit waits for ever, or until something else
/// interrupts. Needs no descriptor.
pub fn next_signal(set: &SigSet, limit: Option<Duration>) -> Option<Sent> {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(limit.subsec_nanos().cast_signed()),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: plain data for which all zeros is a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: all three are valid, or null where that is allowed.
    let signal = unsafe { libc::sigtimedwait(set.as_ref(), &mut info, limit) };
    if signal < 0 && !matches!(io::Error::last_os_error().raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) {
        // A filter of system calls, say: at least the processor is left to others.
        std::thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: of a signal that a process sent, and of SIGCHLD, the kernel fills in who; of others it is not looked at.
    let pid = unsafe { info.si_pid() };
    (signal > 0).then_some(Sent { signal, by_process: info.si_code <= 0, pid })
}

/// A file that another process hands over a socket, with one byte.
///
/// # Errors
/// If none comes.
pub fn receive_file(stream: &UnixStream) -> io::Result<File> {
    let (mut byte, mut room) = ([0], nix::cmsg_space!([RawFd; 1]));
    let mut into = [IoSliceMut::new(&mut byte)];
    let message = recvmsg::<()>(stream.as_raw_fd(), &mut into, Some(&mut room), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let descriptor = message.cmsgs()?.find_map(|part| match part {
        ControlMessageOwned::ScmRights(descriptors) => descriptors.first().copied(),
        _ => None,
    });
    let descriptor = descriptor.ok_or(io::ErrorKind::PermissionDenied)?;
    // SAFETY: the kernel has just made it for this process; nobody else knows it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

/// Random bytes of the kernel, for which no file is needed. False if it has none.
pub fn random(bytes: &mut [u8]) -> bool {
    // SAFETY: the buffer is valid and as long as is said.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    usize::try_from(got) == Ok(bytes.len())
}

/// This process is to be killed when its parent ends.
pub fn end_with_parent() {
    // SAFETY: sets a number of this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// A descriptor that becomes readable when a process ends, which need not be a child. The number may be another process's by now: who
/// asks compares.
pub fn process_end(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else knows. It is small.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// How a process ended that somebody has waited for, by the descriptor of [`process_end`] that was opened while it was there. `None` if nobody
/// has waited yet, and before Linux 6.15.
pub fn waited_status(end: BorrowedFd<'_>) -> Option<ExitStatus> {
    /// `struct pidfd_info` of `linux/pidfd.h`, as it was at first: kernels fill what a caller has room for.
    #[repr(C)]
    #[derive(Default)]
    struct PidfdInfo {
        mask: u64,
        cgroup: u64,
        ids: [u32; 11],
        exit_code: i32,
    }
    const PIDFD_INFO_EXIT: u64 = 1 << 3;
    // `_IOWR(0xff, 11, struct pidfd_info)`.
    const PIDFD_GET_INFO: libc::c_ulong = 3 << 30 | (size_of::<PidfdInfo>() as libc::c_ulong) << 16 | 0xff << 8 | 11;
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: an open descriptor, and room for as much as the request says.
    let result = unsafe { libc::ioctl(end.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    (result == 0 && info.mask & PIDFD_INFO_EXIT != 0).then(|| ExitStatus::from_raw(info.exit_code))
}

/// What this thread does from now on gives way to others' work.
pub fn be_nice() {
    const NICENESS: i32 = 10;
    // SAFETY: sets a number of this thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
}

/// Ends the process at once: no destructors, no exit handlers. For a forked child that could not exec.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}

/// Whether the child has ended and is still known by its number. Does not wait.
pub fn has_ended(child: i32) -> bool {
    // SAFETY: plain data for which all zeros is a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is a valid place.
    let asked = unsafe { libc::waitid(libc::P_PID, child.cast_unsigned(), &mut info, flags) };
    // SAFETY: filled in by the kernel, or still zero.
    asked == 0 && unsafe { info.si_pid() } == child
}

/// What became of the child, if anything did: ended or stopped. Does not wait.
///
/// Raw, because the typed wrapper has no name for real-time signals and would lose the status of a child that died
/// of one.
pub fn look_at_child(child: i32) -> io::Result<Option<ExitStatus>> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG | libc::WUNTRACED) } {
            0 => return Ok(None),
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
            _ => return Ok(Some(ExitStatus::from_raw(status))),
        }
    }
}

/// Sends a signal, which may be a real-time one.
pub fn send(process: i32, signal: i32) -> io::Result<()> {
    // SAFETY: sends a signal.
    if unsafe { libc::kill(process, signal) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets `signal` to its default action, sends it to this process, and lets it through. Comes back if that did not
/// end the process: with the mask as it was.
pub fn raise_default(signal: i32) {
    set_default(signal);
    // SAFETY: plain data for which all zeros is a valid value.
    let (mut mask, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: changes valid masks and unblocks one signal whose action is the default.
    unsafe {
        libc::sigaddset(&mut mask, signal);
        libc::raise(signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &mask, &mut before);
        libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
    }
}

/// Sets `signal` to its default action without touching the mask.
pub fn set_default(signal: i32) {
    // SAFETY: plain data for which all zeros is a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = libc::SIG_DFL;
    // SAFETY: sets the default action, no handler.
    unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
}

/// Ignores `signal`.
pub fn ignore(signal: i32) {
    // SAFETY: plain data for which all zeros is a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = libc::SIG_IGN;
    // SAFETY: sets an action that runs no code of ours.
    unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
}

/// Whether the file has an extended attribute of this name.
pub fn has_attribute(path: &CStr, name: &CStr) -> bool {
    // SAFETY: both strings end with a zero byte; with size 0 nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// What a thread that is held did when it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is not there any more.
    Gone,
    /// It was about to get this signal.
    Signal(i32),
    /// It stopped because it was asked to.
    Asked,
    /// Its process had been stopped by this signal before.
    Group(i32),
}

/// Becomes the tracer of a thread, which goes on. Ends with this process.
pub fn seize(thread: i32) -> io::Result<()> {
    trace(libc::PTRACE_SEIZE, thread, 0)
}

/// No signal, but what stands for one where a thread stops at a system call, if it was seized by [`seize_for_calls`].
pub const CALL_STOP: i32 = libc::SIGTRAP | 0x80;

/// The same as [`seize`], for [`resume_to_call`]. Should this process be killed while the thread stands at a system call, the kernel
/// would give it the signal as which that counts: one that there is not, so it gets none.
pub fn seize_for_calls(thread: i32) -> io::Result<()> {
    trace(libc::PTRACE_SEIZE, thread, libc::PTRACE_O_TRACESYSGOOD)
}

/// Asks a seized thread to stop.
pub fn interrupt(thread: i32) -> io::Result<()> {
    trace(libc::PTRACE_INTERRUPT, thread, 0)
}

/// Lets a stopped thread go on, with a signal that it was about to get, or 0.
pub fn resume(thread: i32, signal: i32) -> io::Result<()> {
    trace(libc::PTRACE_CONT, thread, signal)
}

/// The same, until it enters a system call or leaves one: it stops there as if it were about to get [`CALL_STOP`].
pub fn resume_to_call(thread: i32, signal: i32) -> io::Result<()> {
    trace(libc::PTRACE_SYSCALL, thread, signal)
}

/// The same, and leaves it alone from now on.
pub fn detach(thread: i32, signal: i32) -> io::Result<()> {
    trace(libc::PTRACE_DETACH, thread, signal)
}

/// Sets a stopped thread back to the system call that it was interrupted in, if the kernel would return `EINTR` from it.
///
/// Many calls return that, handler or not, and programs that have no handler do not expect it. The kernel itself knows
/// a result that means "once more, unless a handler runs": it gets that one. So a signal that is there, or comes before
/// the thread is on its way, still has its `EINTR`.
pub fn enter_again(thread: i32) -> io::Result<()> {
    // As the kernel calls it; it never leaves the kernel otherwise.
    const ERESTARTNOHAND: i64 = 514;
    let (call, result) = (register(thread, libc::ORIG_RAX)?, register(thread, libc::RAX)?);
    if is_64_bit(register(thread, libc::CS)?) && result == -i64::from(libc::EINTR) && may_be_entered_again(call) {
        set_register(thread, libc::RAX, -ERESTARTNOHAND)?;
    }
    Ok(())
}

/// The code segment of 64-bit programs. Others number their calls differently.
fn is_64_bit(segment: i64) -> bool {
    segment == 0x33
}

/// Whether a system call that was interrupted, and has done nothing, can be made again.
fn may_be_entered_again(call: i64) -> bool {
    // `close` has closed the descriptor all the same. A device that returns EINTR from `ioctl` means it: the kernel has
    // another word for "once more". -1: in no system call.
    call >= 0 && ![libc::SYS_close, libc::SYS_ioctl, libc::SYS_restart_syscall].contains(&call)
}

fn register(thread: i32, number: i32) -> io::Result<i64> {
    // The result is the value, so only this tells it from an error.
    // SAFETY: the place of errno is valid.
    unsafe { *libc::__errno_location() = 0 };
    // SAFETY: reads a register of a thread; refused unless that is stopped and ours.
    let value =
        unsafe { libc::ptrace(libc::PTRACE_PEEKUSER, thread, place(number), std::ptr::null_mut::<libc::c_void>()) };
    match io::Error::last_os_error() {
        error if value == -1 && error.raw_os_error() != Some(0) => Err(error),
        _ => Ok(value),
    }
}

fn set_register(thread: i32, number: i32, value: i64) -> io::Result<()> {
    let value = std::ptr::without_provenance_mut::<libc::c_void>(value as usize);
    // SAFETY: writes a register of a thread; refused unless that is stopped and ours.
    if unsafe { libc::ptrace(libc::PTRACE_POKEUSER, thread, place(number), value) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Where a register stands in what the kernel calls the user area.
fn place(register: i32) -> *mut libc::c_void {
    std::ptr::without_provenance_mut(register as usize * size_of::<u64>())
}

fn trace(request: libc::c_uint, thread: i32, data: i32) -> io::Result<()> {
    let nothing: *mut libc::c_void = std::ptr::null_mut();
    let data = std::ptr::without_provenance_mut::<libc::c_void>(data as usize);
    // SAFETY: none of the requests reads or writes memory of either process; data is a number.
    if unsafe { libc::ptrace(request, thread, nothing, data) } == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether a seized thread has stopped. Does not wait.
pub fn look_at_thread(thread: i32) -> io::Result<Option<Stop>> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place.
        match unsafe { libc::waitpid(thread, &mut status, libc::WNOHANG | libc::__WALL) } {
            0 => return Ok(None),
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error if error.raw_os_error() == Some(libc::ECHILD) => return Ok(Some(Stop::Gone)),
                error => return Err(error),
            },
            _ if !libc::WIFSTOPPED(status) => return Ok(Some(Stop::Gone)),
            _ => {
                return Ok(Some(match (status >> 16, libc::WSTOPSIG(status)) {
                    (0, signal) => Stop::Signal(signal),
                    (libc::PTRACE_EVENT_STOP, signal) if signal != libc::SIGTRAP => Stop::Group(signal),
                    _ => Stop::Asked,
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_have_done_nothing_are_made_again() {
        for call in [libc::SYS_epoll_wait, libc::SYS_semop, libc::SYS_read, libc::SYS_connect, libc::SYS_io_uring_enter]
        {
            assert!(may_be_entered_again(call), "{call}");
        }
        for call in [-1, libc::SYS_close, libc::SYS_ioctl, libc::SYS_restart_syscall] {
            assert!(!may_be_entered_again(call), "{call}");
        }
    }

    #[test]
    fn nobody_reads_registers_of_a_thread_that_is_not_held() {
        let own = std::process::id() as i32;
        assert!(register(own, libc::RAX).is_err() && set_register(own, libc::RAX, 0).is_err());
        assert!(enter_again(own).is_err());
    }
}
