//! What `/proc` says of processes.

use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use heapledger_format::session::ending;

use crate::SourceError;

/// A process that is there.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    /// Its number in the innermost namespace, as it knows itself.
    pub(crate) inner_pid: u32,
    pub(crate) start_ticks: u64,
    pub(crate) name: String,
}

/// A ledger that a process maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub(crate) path: PathBuf,
    /// The file's inode: by now there may be another file of this name.
    pub(crate) inode: u64,
    /// Whether it has no name any more.
    pub(crate) deleted: bool,
    /// What is mapped of it where: address, end, place in the file. In the order of addresses.
    pub(crate) ranges: Vec<[u64; 3]>,
}

impl Mapped {
    /// Whether children of the process that it is of are recorded: `run --children` left a link beside it, and no sign that there are too many.
    pub(crate) fn records_children(&self) -> bool {
        let session = self.path.file_name().and_then(|name| name.to_str()?.split('-').next());
        let Some(session) = session else { return false };
        let is_there = |end: &str| self.path.with_file_name(format!("{session}{end}")).symlink_metadata().is_ok();
        is_there(ending::FAMILY) && !is_there(ending::FULL)
    }
}

/// The process `pid`, or `None` if there is none.
pub(crate) fn running(pid: u32) -> Option<Running> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let (state, ProcessSeen { name, start_ticks, .. }) = parse_stat(&stat)?;
    // A program goes on whose first thread has ended (`pthread_exit` in `main`).
    if has_ended(state) && !threads(pid).into_iter().any(|thread| thread != pid && thread_runs(pid, thread)) {
        return None;
    }
    let status = std::fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    Some(Running { inner_pid: innermost_pid(&status).unwrap_or(pid), start_ticks, name })
}

/// When a process started, in ticks of the system's clock since it started itself; `None` if there is none.
pub fn start_ticks(pid: u32) -> Option<u64> {
    running(pid).map(|running| running.start_ticks)
}

/// Anonymous memory of a process that is present, and what of it is swapped out: `RssAnon` and `VmSwap` of `/proc/PID/status`, in bytes.
pub(crate) fn anonymous_memory(pid: u32) -> Option<(u64, u64)> {
    let status = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some((of("RssAnon")?, of("VmSwap").unwrap_or(0)))
}

/// The same of a process that may have ended, as long as nobody has waited for it.
pub fn start_ticks_of_any(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&stat).map(|(_, seen)| seen.start_ticks)
}

/// How a process ended that nobody has waited for yet, as `wait` would tell it. `None` if it has not ended, somebody has waited, the number
/// is another one's, or this process may not know.
pub fn zombie_status(pid: u32, start_ticks: u64) -> Option<i32> {
    // Without the right to look the kernel says 0, which is also a status. The same right is asked for by this link, which a process has as
    // long as it has a number.
    std::fs::read_link(format!("/proc/{pid}/ns/user")).ok()?;
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let (state, seen) = parse_stat(&stat)?;
    if !has_ended(state) || seen.start_ticks != start_ticks {
        return None;
    }
    // Field 52 of the line.
    let behind_name = stat.rsplit(|byte| *byte == b')').next()?;
    std::str::from_utf8(behind_name).ok()?.split_ascii_whitespace().nth(49)?.parse().ok()
}

fn has_ended(state: u8) -> bool {
    matches!(state, b'Z' | b'X')
}

fn thread_runs(pid: u32, thread: u32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/task/{thread}/stat")).unwrap_or_default();
    parse_stat(&stat).is_some_and(|(state, _)| !has_ended(state))
}

/// A process as `/proc/PID/stat` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSeen {
    /// What it is called.
    pub name: String,
    /// Its parent.
    pub ppid: u32,
    /// When it started, in ticks of the system's clock.
    pub start_ticks: u64,
}

/// A process of this number that has not ended.
pub fn process_seen(pid: u32) -> Option<ProcessSeen> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&stat).filter(|(state, _)| !has_ended(*state)).map(|(_, seen)| seen)
}

/// The numbers of all processes, as far as they can be seen.
pub fn processes() -> impl Iterator<Item = u32> {
    let items = std::fs::read_dir("/proc").into_iter().flatten();
    items.filter_map(|item| item.ok()?.file_name().to_str()?.parse().ok())
}

/// The processes that have another number in a namespace of their own than here, as far as they may be looked into.
/// One look at each: there may be thousands.
pub(crate) fn processes_in_namespaces() -> impl Iterator<Item = u32> {
    let own = pid_namespace();
    processes().filter(move |pid| pid_namespace_of(&pid.to_string()).is_some_and(|other| Some(other) != own))
}

/// The number of the namespace in which this process has its number.
pub(crate) fn pid_namespace() -> Option<u64> {
    pid_namespace_of("self")
}

/// The link leads to `pid:[4026531836]`.
fn pid_namespace_of(pid: &str) -> Option<u64> {
    let link = std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// Whether the process has been killed and has not noticed yet, or dumps core.
pub(crate) fn is_ending(pid: u32) -> bool {
    let status = std::fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    said_to_end(&String::from_utf8_lossy(&status))
}

fn said_to_end(status: &str) -> bool {
    const KILLED: u64 = 1 << (9 - 1);
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let pending = |name| value(name).and_then(|set| u64::from_str_radix(set, 16).ok()).unwrap_or(0);
    (pending("SigPnd") | pending("ShdPnd")) & KILLED != 0 || value("CoreDumping") == Some("1")
}

/// What is known of a process's mappings.
pub(crate) enum Maps {
    /// The list of them.
    Known(Vec<u8>),
    /// It has none any more, or is no more.
    Gone,
    /// It may not be looked into.
    Hidden,
}

/// The mappings of `pid`: those of whichever thread still has its memory.
pub(crate) fn maps(pid: u32) -> Maps {
    let mut known = Maps::Gone;
    let own = std::iter::once(format!("/proc/{pid}/maps"));
    // Only if there is nothing in it: threads may be many.
    let others = || threads(pid).into_iter().map(move |thread| format!("/proc/{pid}/task/{thread}/maps"));
    for path in own.chain(std::iter::once_with(others).flatten()) {
        match std::fs::read(path) {
            Ok(maps) if !maps.is_empty() => return Maps::Known(maps),
            Err(reason) if reason.kind() == io::ErrorKind::PermissionDenied => known = Maps::Hidden,
            _ => {}
        }
    }
    known
}

/// Whether a live ledger of this inode is among the mappings. By the inode alone: what device a file is on is told
/// differently here and there on some file systems, and a process maps one ledger.
pub(crate) fn maps_inode(maps: &[u8], inode: u64) -> bool {
    parse_maps(maps).iter().any(|mapped| mapped.inode == inode)
}

/// Name, state and start time.
/// The state of a process or thread, and what it is.
fn parse_stat(stat: &[u8]) -> Option<(u8, ProcessSeen)> {
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let name = String::from_utf8_lossy(stat.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.bytes().next()?;
    let ppid = fields.next()?.parse().ok()?;
    // Field 22 of the line; the parent is field 4.
    Some((state, ProcessSeen { name, ppid, start_ticks: fields.nth(17)?.parse().ok()? }))
}

fn innermost_pid(status: &[u8]) -> Option<u32> {
    let status = String::from_utf8_lossy(status);
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// The ledgers that `pid` maps.
pub(crate) fn mapped_ledgers(pid: u32) -> Result<Vec<Mapped>, SourceError> {
    match maps(pid) {
        Maps::Known(maps) => Ok(parse_maps(&maps)),
        Maps::Hidden => Err(SourceError::ProcessNotYours(pid)),
        Maps::Gone => Err(SourceError::NoProcess(pid)),
    }
}

fn parse_maps(maps: &[u8]) -> Vec<Mapped> {
    let mut found: Vec<Mapped> = Vec::new();
    for line in maps.split(|byte| *byte == b'\n') {
        let mut rest = line;
        let mut fields = [&line[..0]; 5];
        for field in &mut fields {
            let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
            *field = &rest[..end];
            rest = rest[end..].trim_ascii_start();
        }
        let (path, deleted) = rest.strip_suffix(b" (deleted)").map_or((rest, false), |path| (path, true));
        if path.first() != Some(&b'/') || !path.ends_with(ending::LIVE.as_bytes()) {
            continue;
        }
        let [range, _, offset, _, inode] = fields.map(|field| std::str::from_utf8(field).unwrap_or_default());
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let (Some((low, high)), Some(offset), Ok(inode)) = (range.split_once('-'), hex(offset), inode.parse()) else {
            continue;
        };
        let (Some(low), Some(high)) = (hex(low), hex(high)) else { continue };
        let path = PathBuf::from(std::ffi::OsString::from_vec(unescape(path)));
        match found.iter_mut().find(|known| known.inode == inode && known.path == path) {
            Some(known) => known.ranges.push([low, high, offset]),
            None => found.push(Mapped { path, inode, deleted, ranges: vec![[low, high, offset]] }),
        }
    }
    found
}

/// The kernel writes a line end within a name as `\012`.
fn unescape(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((byte, after)) = rest.split_first() {
        rest = match after.strip_prefix(b"012") {
            Some(after) if *byte == b'\\' => {
                plain.push(b'\n');
                after
            }
            _ => {
                plain.push(*byte);
                after
            }
        };
    }
    plain
}

/// A range of a running process's memory, as the system tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub low: u64,
    /// One past the last address.
    pub high: u64,
    /// What may be done with it: `rw-p`.
    pub rights: String,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file, or what the system calls it (`[heap]`); empty for memory without a name.
    pub name: String,
    /// The thread whose stack it is.
    pub stack_of: Option<u32>,
}

/// The mapping of `pid` that holds `address`; `None` if there is none or it may not be asked.
pub(crate) fn mapping_at(pid: u32, address: u64) -> Option<Mapping> {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let mut mapping = maps.split(|byte| *byte == b'\n').filter_map(parse_map).find(|mapping| mapping.holds(address))?;
    if mapping.name == "[stack]" {
        mapping.stack_of = Some(pid);
    } else if mapping.name.is_empty() && mapping.rights.starts_with("rw") {
        mapping.stack_of = threads(pid).into_iter().find(|thread| {
            let call = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")).unwrap_or_default();
            stack_pointer(&call).is_some_and(|pointer| mapping.holds(pointer))
        });
    }
    Some(mapping)
}

impl Mapping {
    fn holds(&self, address: u64) -> bool {
        self.low <= address && address < self.high
    }
}

fn threads(pid: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The stack pointer of a thread that waits in the kernel: the last but one figure of `/proc/PID/task/TID/syscall`.
fn stack_pointer(call: &str) -> Option<u64> {
    let mut figures = call.split_ascii_whitespace().rev();
    figures.next()?;
    u64::from_str_radix(figures.next()?.strip_prefix("0x")?, 16).ok()
}

/// `start-end rights offset device inode name`.
fn parse_map(line: &[u8]) -> Option<Mapping> {
    let line = String::from_utf8_lossy(line);
    let mut fields = line.splitn(6, ' ');
    let (low, high) = fields.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let rights = fields.next()?.to_owned();
    let offset = number(fields.next()?)?;
    let name = fields.nth(2).unwrap_or("").trim_start().to_owned();
    Some(Mapping { low: number(low)?, high: number(high)?, rights, offset, name, stack_of: None })
}

/// Where the file that `pid` knows as `mapped` may be opened, best first.
pub(crate) fn candidates(pid: u32, mapped: &Mapped) -> Vec<PathBuf> {
    let inside = mapped.path.strip_prefix("/").unwrap_or(&mapped.path);
    let mut all = vec![Path::new(&format!("/proc/{pid}/root")).join(inside), mapped.path.clone()];
    let ranges = mapped.ranges.first();
    all.extend(ranges.map(|[low, high, _]| PathBuf::from(format!("/proc/{pid}/map_files/{low:x}-{high:x}"))));
    all
}

/// The descriptors by which the parent of `pid` holds this file: `heapledger run` keeps the ledger of its program open.
pub(crate) fn held_by_parent(pid: u32, mapped: &Mapped) -> Vec<PathBuf> {
    let parent = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse::<u32>().ok()
    };
    let Some(items) = parent().and_then(|parent| std::fs::read_dir(format!("/proc/{parent}/fd")).ok()) else {
        return Vec::new();
    };
    // Told by its name, which says that it has none, before it is touched: others may be anything.
    let name = mapped.path.file_name().map(|name| [name.as_encoded_bytes(), b" (deleted)"].concat());
    let is_it = |path: &PathBuf| {
        let target = std::fs::read_link(path).unwrap_or_default();
        name.as_ref().is_some_and(|name| target.as_os_str().as_encoded_bytes().ends_with(name))
    };
    items.filter_map(|item| Some(item.ok()?.path())).filter(is_it).collect()
}

/// The memory of `pid`, as a file.
pub(crate) fn memory(pid: u32) -> PathBuf {
    let alive = threads(pid).into_iter().find(|thread| thread_runs(pid, *thread)).unwrap_or(pid);
    PathBuf::from(format!("/proc/{pid}/task/{alive}/mem"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_and_spaces_do_not_confuse() {
        let stat = b"42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21";
        let seen = ProcessSeen { name: "a) b (c".to_owned(), ppid: 1, start_ticks: 987_654 };
        assert_eq!(parse_stat(stat), Some((b'S', seen)));
        assert_eq!(parse_stat(b""), None);
        assert_eq!(parse_stat(b"1 (x) S 1"), None);
        assert_eq!(innermost_pid(b"Name:\tx\nNSpid:\t4711\t12\t1\n"), Some(1));
        let own = running(std::process::id()).expect("this process");
        assert_eq!(own.inner_pid, std::process::id());
    }

    #[test]
    fn memory_is_told_by_address() {
        let line = b"7f00-7f10 rw-p 00001000 00:19 77                 /usr/lib/a b.so";
        let mapping = parse_map(line).expect("a mapping");
        assert_eq!((mapping.low, mapping.high, mapping.offset), (0x7f00, 0x7f10, 0x1000));
        assert_eq!((mapping.rights.as_str(), mapping.name.as_str()), ("rw-p", "/usr/lib/a b.so"));
        assert_eq!(parse_map(b"7f00-7f10 rw-p 0 00:00 0").expect("a mapping").name, "");
        assert_eq!(parse_map(b"nonsense"), None);
        assert_eq!(stack_pointer("35 0x7ff0 0x0 0x0 0x0 0x0 0x0 0x7ffc10 0x7f22\n"), Some(0x7f_fc10));
        assert_eq!(stack_pointer("running\n"), None);
        let local = 0u8;
        let address = std::ptr::from_ref(&local) as u64;
        let own = mapping_at(std::process::id(), address).expect("this stack");
        assert!(own.holds(address) && own.rights.starts_with("rw"), "{own:?}");
        assert_eq!(mapping_at(std::process::id(), 1), None);
    }

    #[test]
    fn finds_the_ledger_among_the_mappings() {
        let maps = b"7f00-7f10 rw-s 00000000 00:19 77 /dev/shm/heapledger-0/ab\\012 c-0.hlive (deleted)\n\
            7f10-7f20 rw-s 00001000 00:19 77 /dev/shm/heapledger-0/ab\\012 c-0.hlive (deleted)\n\
            5500-5600 r-xp 00000000 08:01 12 /usr/bin/x\n7ffd-7ffe rw-p 0 0 0 [stack]\n\n";
        let found = parse_maps(maps);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, Path::new("/dev/shm/heapledger-0/ab\n c-0.hlive"));
        assert_eq!(found[0].ranges, [[0x7f00, 0x7f10, 0], [0x7f10, 0x7f20, 0x1000]]);
        assert!(found[0].deleted && found[0].inode == 77);
        assert!(maps_inode(maps, 77) && !maps_inode(maps, 12), "only ledgers count");
        assert!(candidates(1, &found[0])[2].ends_with("map_files/7f00-7f10"));
    }

    #[test]
    fn who_was_killed_is_said_to_end() {
        assert!(!said_to_end("Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\nCoreDumping:\t0\n"));
        assert!(said_to_end("SigPnd:\t0000000000000100\n"));
        assert!(said_to_end("SigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n"));
        assert!(said_to_end("CoreDumping:\t1\n"));
    }
}
