//! What can be found out of a process before anything is done to it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use heapledger_format::session::ending;

use super::AttachError;
use super::memory::Mapping;
use super::place::{C_LIBRARY, LOADER};
use crate::detect::{self, Verdict};
use crate::freeze::living;

/// How the name of the library begins.
const LIBRARY: &str = "libheapledger";

/// What `/proc/PID/status` says.
struct Status(String);

impl Status {
    fn of(process: i32) -> Result<Status, AttachError> {
        fs::read(format!("/proc/{process}/status"))
            .map(|status| Status(String::from_utf8_lossy(&status).into_owned()))
            .map_err(|_| AttachError::NoProcess(process))
    }

    fn value(&self, key: &str) -> &str {
        let line = self.0.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.map_or("", str::trim)
    }
}

/// Refuses what cannot be attached to, and says why.
pub(super) fn examine(process: i32, library: &Path) -> Result<(), AttachError> {
    if process == std::process::id() as i32 {
        return Err(AttachError::Itself);
    }
    let status = Status::of(process)?;
    let own = status.value("Tgid").parse() == Ok(process);
    if !own {
        return Err(AttachError::Thread { thread: process, process: status.value("Tgid").to_owned() });
    }
    match status.value("State").chars().next() {
        // Of what the library has to read of itself (`/proc/self`), the kernel tells nothing without the first thread.
        Some('Z' | 'X') if living(process).is_some() => return Err(AttachError::WithoutMainThread(process)),
        Some('Z' | 'X') => return Err(AttachError::Ended(process)),
        Some('T') => return Err(AttachError::Stopped(process)),
        _ => {}
    }
    if let Some(problem) = traced(process, &status) {
        return Err(problem);
    }
    let mappings = Mapping::all(process).map_err(|reason| refused(process, reason))?;
    if mappings.is_empty() {
        return Err(AttachError::Kernel(process));
    }
    if mappings.iter().any(|mapping| mapping.short_name().starts_with(LIBRARY)) {
        let is_recorded = mappings.iter().any(|mapping| mapping.short_name().ends_with(ending::LIVE));
        return Err(if is_recorded { AttachError::Recorded(process) } else { AttachError::LibraryThere(process) });
    }
    if status.value("Seccomp") == "1" || has_own_filter(&status) {
        return Err(AttachError::Filtered(process));
    }
    let exe = PathBuf::from(format!("/proc/{process}/exe"));
    if let Some(why) = detect::of_running(&exe).filter(|why| !why.partly()) {
        let path = fs::read_link(&exe).unwrap_or(exe);
        return Err(AttachError::Program(reason(&Verdict { path, why: Some(why) })));
    }
    if ![LOADER, C_LIBRARY].iter().all(|name| mappings.iter().any(|mapping| mapping.short_name() == *name)) {
        return Err(AttachError::NotGlibc(process));
    }
    reachable(process, library)
}

/// A verdict of what would be before a program is started, less the word on what becomes of it then.
fn reason(verdict: &Verdict) -> String {
    let text = verdict.to_string();
    text.strip_suffix(": it runs untracked").map_or(text.clone(), str::to_owned)
}

fn traced(process: i32, status: &Status) -> Option<AttachError> {
    let tracer = status.value("TracerPid");
    if matches!(tracer, "0" | "") {
        return None;
    }
    let name = fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
    Some(AttachError::Traced { process, tracer: tracer.to_owned(), name: name.trim().to_owned() })
}

/// Whether it has put on a filter of system calls that its parent has not: one of a container's is for all of its processes, and
/// lets programs open libraries.
fn has_own_filter(status: &Status) -> bool {
    let filters = |status: &Status| status.value("Seccomp_filters").parse::<u32>().unwrap_or(0);
    let parent = status.value("PPid").parse().ok().and_then(|parent| Status::of(parent).ok());
    // The first process of a container has a parent outside of it.
    let outside = parent.as_ref().is_none_or(|parent| filters(parent) == 0);
    match (filters(status), parent) {
        (0, _) => false,
        (_, None) => false,
        (1, _) if outside => !is_first_of_namespace(status),
        (own, Some(parent)) => own > filters(&parent),
    }
}

/// Whether it is the first process of a container.
fn is_first_of_namespace(status: &Status) -> bool {
    status.value("NSpid").split_ascii_whitespace().next_back() == Some("1")
}

/// The process has to find the same file by the same path.
fn reachable(process: i32, library: &Path) -> Result<(), AttachError> {
    let inside = PathBuf::from(format!("/proc/{process}/root")).join(library.strip_prefix("/").unwrap_or(library));
    let identity = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino()));
    let found = identity(&inside).map_err(|reason| match reason.kind() {
        io::ErrorKind::NotFound => AttachError::OutOfReach { process, library: library.to_owned() },
        _ => refused(process, reason),
    })?;
    let is_same = identity(library).is_ok_and(|own| own == found);
    if is_same { Ok(()) } else { Err(AttachError::OutOfReach { process, library: library.to_owned() }) }
}

/// Why a process may not be traced, in words.
pub(super) fn refused(process: i32, reason: io::Error) -> AttachError {
    let Ok(status) = Status::of(process) else { return AttachError::NoProcess(process) };
    if let Some(problem) = traced(process, &status) {
        return problem;
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let user = |status: &Status| status.value("Uid").split_ascii_whitespace().next().map(str::to_owned);
    let own = Status::of(std::process::id() as i32).ok().and_then(|status| user(&status));
    match reason.raw_os_error() {
        Some(libc::ESRCH) => AttachError::Ended(process),
        Some(libc::EPERM | libc::EACCES) if user(&status) != own && own.as_deref() != Some("0") => {
            AttachError::OtherUser { process, user: user(&status).unwrap_or_default() }
        }
        Some(libc::EPERM | libc::EACCES) if !matches!(scope.trim(), "" | "0") => {
            AttachError::Scope { process, scope: scope.trim().to_owned() }
        }
        Some(libc::EPERM | libc::EACCES) => AttachError::Protected(process),
        _ => AttachError::Trace(reason),
    }
}
