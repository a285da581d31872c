//! A session's directory, read: the lines of its file, and the ledgers beside it.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use heapledger_format::session::ending;
use heapledger_format::session::process as key;

use super::line::{FamilyEnded, FamilyHead, FamilyLine, FamilyMemory, FamilyProcess, MemberEnd, ProcessKey, VERSION};
use super::member::{Member, MemberLedger, key_of};
use super::tree::ProcessTree;
use super::{LINE_BYTES_MAX, SESSION_FILE};
use crate::{Ledger, SourceError};

/// Most programs of processes that are kept.
const MEMBERS_MAX: usize = 1 << 18;
/// Most bytes of their lines.
const KEPT_BYTES_MAX: usize = 256 << 20;
/// Most moments that are kept: of more, the higher one of each two.
const MOMENTS_MAX: usize = 1 << 15;
/// Most processes of one moment.
const MOST_MAX: usize = 8;
/// Most files of the directory that are looked at.
const FILES_MAX: usize = 1 << 18;
/// Most sentences of limits.
const LIMITS_MAX: usize = 64;

/// What could not be read of a session, or is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyLoss {
    /// Lines that make no sense, or are too long. The last one, if it was cut, is not one of them.
    pub lines: u64,
    /// Processes beyond the most that are kept.
    pub processes: u64,
    /// Ledgers that should lie in the directory and do not.
    pub ledgers: u64,
    /// Files that are called ledgers and cannot be read as such.
    pub unreadable: u64,
    /// Ledgers of processes that have one already: copies, which are left out.
    pub copies: u64,
}

/// A session, as it was when it was read.
#[derive(Clone, Debug, Default)]
pub struct Family {
    directory: PathBuf,
    /// Its first line; all empty if whoever made the file was killed before it.
    pub head: FamilyHead,
    /// Its programs, in the order of their first lines; those without a line behind them.
    pub members: Vec<Member>,
    /// Memory of all over time, in the order in which it was written.
    pub memory: Vec<FamilyMemory>,
    /// How it ended; `None`: it goes on, or its `run` was killed.
    pub ended: Option<FamilyEnded>,
    /// What is missing.
    pub loss: FamilyLoss,
}

impl Family {
    /// Whether `path` is a session's directory, or its list of processes.
    pub fn is_at(path: &Path) -> bool {
        Self::directory_of(path).is_some()
    }

    fn directory_of(path: &Path) -> Option<&Path> {
        if path.join(SESSION_FILE).is_file() {
            return Some(path);
        }
        (path.file_name() == Some(OsStr::new(SESSION_FILE)) && path.is_file()).then(|| match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        })
    }

    /// Reads the session at `path`: its directory, or the file in it. Ledgers that have a line are not opened.
    ///
    /// # Errors
    /// If there is none, its file cannot be read, or begins with something else.
    pub fn open(path: impl AsRef<Path>) -> Result<Family, SourceError> {
        let path = path.as_ref();
        let Some(directory) = Self::directory_of(path) else {
            return Err(if path.exists() {
                SourceError::NotASession(path.to_owned())
            } else {
                SourceError::NotFound(path.to_owned())
            });
        };
        let list = directory.join(SESSION_FILE);
        let file = File::open(&list).map_err(|reason| SourceError::opening(list.clone(), reason))?;
        let mut reading = Reading {
            list,
            family: Family::default(),
            places: HashMap::new(),
            processes: Vec::new(),
            kept: 0,
            keep_one_in: 1,
            skipped: 0,
        };
        reading.lines(&mut BufReader::with_capacity(LINE_BYTES_MAX, file))?;
        let Reading { mut family, processes, .. } = reading;
        family.directory = directory.to_owned();
        family.find_ledgers(processes);
        Ok(family)
    }

    /// Where it lies.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Who began whom.
    pub fn tree(&self) -> ProcessTree {
        ProcessTree::of(&self.members)
    }

    /// Whether its `run` still writes it, as far as its file and the list of processes say.
    pub fn is_running(&self) -> bool {
        self.ended.is_none() && self.head.run_pid != 0 && crate::start_ticks(self.head.run_pid).is_some()
    }

    /// The moment with the most live bytes.
    pub fn peak(&self) -> Option<&FamilyMemory> {
        self.memory.iter().max_by_key(|moment| moment.live_bytes)
    }

    /// Looks which ledgers are there, and for those that have no line.
    fn find_ledgers(&mut self, processes: Vec<FamilyProcess>) {
        let mut files = ledger_files(&self.directory);
        let mut waiting: HashMap<ProcessKey, usize> = HashMap::new();
        // Whose ledger is there: the file that a line names, or the first by name.
        let mut there: HashSet<ProcessKey> = HashSet::new();
        for process in processes {
            let ledger = match &process.ledger {
                Some(name) if files.remove(OsStr::new(name)) => MemberLedger::Finished(self.directory.join(name)),
                Some(name) => MemberLedger::Missing(name.clone()),
                None => Self::unfinished(&process),
            };
            if matches!(ledger, MemberLedger::Finished(_)) {
                there.insert(process.key());
            } else {
                waiting.insert(process.key(), self.members.len());
            }
            self.members.push(Member { process, is_listed: true, ledger });
        }
        let mut unlisted: Vec<OsString> = files.into_iter().collect();
        unlisted.sort_unstable();
        for name in unlisted {
            let path = self.directory.join(name);
            let Ok(ledger) = Ledger::open(&path) else {
                self.loss.unreadable += 1;
                continue;
            };
            let key = key_of(&ledger);
            // A copy of a ledger is no further process.
            if key.is_some_and(|key| !there.insert(key)) {
                self.loss.copies += 1;
                continue;
            }
            let at = key.and_then(|key| waiting.remove(&key));
            match at {
                Some(at) => {
                    if let Some(member) = self.members.get_mut(at) {
                        member.ledger = MemberLedger::Finished(path);
                    }
                }
                None if self.members.len() >= MEMBERS_MAX => self.loss.processes += 1,
                None => {
                    let process = of_ledger(&ledger);
                    self.members.push(Member { process, is_listed: false, ledger: MemberLedger::Finished(path) });
                }
            }
        }
        self.loss.ledgers =
            self.members.iter().filter(|member| matches!(member.ledger, MemberLedger::Missing(_))).count() as u64;
    }

    /// Where the ledger of a process is that has no finished one.
    fn unfinished(process: &FamilyProcess) -> MemberLedger {
        let named = |path: &Path| path.is_absolute() && path.to_str().is_some_and(|path| path.ends_with(ending::LIVE));
        match (&process.unrecorded, process.live.as_ref().map(PathBuf::from)) {
            (Some(why), _) => MemberLedger::Unrecorded(why.clone()),
            (None, Some(path)) if named(&path) && path.is_file() => MemberLedger::Live(path),
            (None, Some(path)) => MemberLedger::Missing(path.display().to_string()),
            (None, None) => MemberLedger::NotYet,
        }
    }
}

/// The names of finished ledgers in a directory. One that cannot be listed has none that could be opened.
fn ledger_files(directory: &Path) -> HashSet<OsString> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().take(FILES_MAX).flatten();
    let is_ledger = |name: &OsString| {
        let name = name.to_string_lossy();
        !name.starts_with('.') && name.ends_with(ending::FINISHED)
    };
    entries.map(|entry| entry.file_name()).filter(is_ledger).collect()
}

/// What a ledger says of its process, where the session's file says nothing.
fn of_ledger(ledger: &Ledger) -> FamilyProcess {
    let process = ledger.process();
    let key = key_of(ledger).unwrap_or_default();
    let began = ledger.header().start_unix_ns;
    let number = |key| process.number(key).and_then(|number| i32::try_from(number).ok());
    let end = match (number(key::EXIT), number(key::SIGNAL), process.text(key::ENDED).as_deref()) {
        (Some(status), _, _) => MemberEnd::Exit(status),
        (None, Some(signal), _) => MemberEnd::Signal(signal),
        (None, None, Some(key::BY_EXEC)) => MemberEnd::Exec,
        _ => MemberEnd::Unknown,
    };
    FamilyProcess {
        pid: process.pid().unwrap_or_default(),
        start_ticks: key.start_ticks,
        image: key.image,
        ppid: process.number(key::PPID).and_then(|ppid| ppid.try_into().ok()).unwrap_or_default(),
        parent_pid: process.number(key::PARENT_PID).and_then(|pid| pid.try_into().ok()).unwrap_or_default(),
        program: process.program().unwrap_or_default(),
        ledger: ledger.path().file_name().map(|name| name.to_string_lossy().into_owned()),
        began_unix_ns: began,
        ended_unix_ns: process.number(key::WALL_NS).map(|wall| began.saturating_add(wall)),
        end: ledger.is_finished().then_some(end),
        ..FamilyProcess::default()
    }
}

/// The file, on the way through its lines.
struct Reading {
    list: PathBuf,
    family: Family,
    places: HashMap<ProcessKey, usize>,
    processes: Vec<FamilyProcess>,
    /// Bytes of the lines that they stood in.
    kept: usize,
    /// Of so many moments the highest is kept.
    keep_one_in: u32,
    /// So many of the present group were seen.
    skipped: u32,
}

impl Reading {
    fn lines(&mut self, file: &mut impl BufRead) -> Result<(), SourceError> {
        let mut line = Vec::new();
        let mut first = true;
        loop {
            let whole = self.line(file, &mut line)?;
            match whole {
                None => return Ok(()),
                Some(Whole::TooLong) => self.family.loss.lines += 1,
                Some(Whole::Yes) if first => self.head(&line)?,
                Some(Whole::Yes) => self.take(&line),
            }
            first = false;
        }
    }

    /// The next line that has an end.
    fn line(&self, file: &mut impl BufRead, line: &mut Vec<u8>) -> Result<Option<Whole>, SourceError> {
        line.clear();
        let mut whole = Whole::Yes;
        loop {
            let failed = |reason| SourceError::Read { path: self.list.clone(), reason };
            let bytes = match file.fill_buf() {
                Ok(bytes) => bytes,
                Err(reason) if reason.kind() == io::ErrorKind::Interrupted => continue,
                Err(reason) => return Err(failed(reason)),
            };
            if bytes.is_empty() {
                return Ok(None);
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let part = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(&[]);
            if line.len() + part.len() < LINE_BYTES_MAX {
                line.extend_from_slice(part);
            } else {
                whole = Whole::TooLong;
            }
            let used = end.map_or(bytes.len(), |end| end + 1);
            file.consume(used);
            if end.is_some() {
                return Ok(Some(whole));
            }
        }
    }

    fn head(&mut self, line: &[u8]) -> Result<(), SourceError> {
        let refused = |what: String| Err(SourceError::SessionUnread { path: self.list.clone(), what });
        match serde_json::from_slice::<FamilyHead>(line) {
            Ok(head) if head.version > VERSION => refused(format!(
                "it is of version {}, and this heapledger knows versions up to {VERSION}",
                head.version
            )),
            Ok(head) => {
                self.family.head = head;
                Ok(())
            }
            Err(_) => refused("its first line is something else".to_owned()),
        }
    }

    fn take(&mut self, line: &[u8]) {
        match serde_json::from_slice::<FamilyLine>(line) {
            Ok(FamilyLine::Process(process)) => self.process(process, line.len()),
            Ok(FamilyLine::Memory(moment)) => self.moment(moment),
            Ok(FamilyLine::Ended(mut ended)) => {
                ended.limits.truncate(LIMITS_MAX);
                self.family.ended = Some(ended);
            }
            // What later versions write is no damage.
            Err(_) if serde_json::from_slice::<HashMap<String, serde::de::IgnoredAny>>(line).is_ok_and(is_other) => {}
            Err(_) if line.is_empty() => {}
            Err(_) => self.family.loss.lines += 1,
        }
    }

    fn process(&mut self, mut process: FamilyProcess, bytes: usize) {
        // A name leads nowhere else.
        let is_name = |name: &String| !name.is_empty() && !name.contains('/') && name != ".." && name != ".";
        process.ledger = process.ledger.filter(is_name);
        match self.places.get(&process.key()) {
            Some(at) => {
                if let Some(earlier) = self.processes.get_mut(*at) {
                    *earlier = process;
                }
            }
            None if self.processes.len() >= MEMBERS_MAX || self.kept > KEPT_BYTES_MAX => {
                self.family.loss.processes += 1
            }
            None => {
                self.kept += bytes;
                self.places.insert(process.key(), self.processes.len());
                self.processes.push(process);
            }
        }
    }

    fn moment(&mut self, mut moment: FamilyMemory) {
        moment.most.truncate(MOST_MAX);
        let memory = &mut self.family.memory;
        match memory.last_mut() {
            Some(last) if self.skipped != 0 => {
                if last.live_bytes < moment.live_bytes {
                    *last = moment;
                }
            }
            _ => memory.push(moment),
        }
        self.skipped = (self.skipped + 1) % self.keep_one_in;
        if memory.len() >= MOMENTS_MAX && self.skipped == 0 {
            let halved = memory.chunks(2).filter_map(|two| two.iter().max_by_key(|moment| moment.live_bytes).cloned());
            *memory = halved.collect();
            self.keep_one_in = self.keep_one_in.saturating_mul(2);
        }
    }
}

/// Whether an object is none of those that this version knows.
fn is_other(object: HashMap<String, serde::de::IgnoredAny>) -> bool {
    !["process", "memory", "ended"].iter().any(|known| object.contains_key(*known))
}

/// Whether a line was kept.
#[derive(Clone, Copy, Debug)]
enum Whole {
    Yes,
    TooLong,
}
