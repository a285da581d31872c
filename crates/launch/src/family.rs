//! `run --children`: the ledgers of all processes that come of a program, in one directory with a list of who they were.
//!
//! Each process writes a ledger of its own, whose name has its number. A thread beside `run` opens each as it appears, finishes it into the
//! session's directory when its process is gone, and writes down what it sees: so nothing has to wait for the end of the last
//! process, and what there is is on disk when `run` itself is killed. What is not finished then is found by `recover`, as ever.

mod child;
mod first;
mod memory;
mod new_ledgers;
mod outside;
mod pace;
mod taken;
pub(crate) mod told_end;
mod watch;

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heapledger_format::GlobalCounter;
use heapledger_format::session::{ending, process as key};
use heapledger_source::{
    Family, FamilyEnded, FamilyHead, FamilyLine, FamilyProcess, FamilyWriter, Ledger, MemberEnd, SESSION_FILE,
    ThreadState,
};
use nix::unistd::{pipe, write};

use crate::error::LaunchError;
use crate::finish::Written;
use crate::live::{self, Live};
use crate::output::{PatternNames, expand};
use crate::session;
use crate::wait::Signals;
use told_end::end_of;

/// Processes that are recorded unless told otherwise.
pub const PROCESSES_MAX: u64 = 10_000;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct FamilyPlan {
    /// Where the directories of live ledgers are.
    pub base: PathBuf,
    /// The session's name.
    pub session: String,
    /// The pattern of the directory to be made.
    pub pattern: OsString,
    /// What was started, with its arguments.
    pub command: Vec<OsString>,
    /// Most processes.
    pub processes_max: u64,
    /// Most bytes of all unfinished ledgers together; `None`: each has its own limit only.
    pub bytes_max: Option<u64>,
    /// Where the program runs: see [`crate::machine`].
    pub whereabouts: Vec<(&'static str, String)>,
}

/// When the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyEnd {
    /// With the program that was started.
    WithProgram,
    /// When none of its processes is left.
    WithLastProcess,
}

/// What became of the processes.
#[derive(Clone, Debug, Default)]
pub struct FamilyOutcome {
    /// The session's directory.
    pub directory: PathBuf,
    /// What leads to it from the directory of live ledgers.
    link: PathBuf,
    /// Programs of processes whose ledgers were finished, beside those of the program that was started.
    pub finished: u64,
    /// Processes that still run: their numbers and names, some of them.
    pub running: Vec<(u32, String)>,
    /// How many still run.
    pub running_count: u64,
    /// Processes that were seen and that nobody records: their names, some of them.
    pub unseen: Vec<String>,
    /// How many.
    pub unseen_count: u64,
    /// Ledgers of processes that have ended and that are left unfinished, because a person did not want to wait.
    pub given_up: u64,
    /// When the program that was started ended, in nanoseconds since 1970, and how.
    first_end: (u64, MemberEnd),
    /// What went wrong.
    pub problems: Vec<String>,
    /// Whether it is among that that the list of processes could not be written.
    list_is_short: bool,
    /// What was limited.
    pub limits: Vec<String>,
}

/// The thread that looks after them.
#[derive(Debug)]
pub struct FamilyWatch {
    directory: PathBuf,
    stop: OwnedFd,
    first_end: Arc<OnceLock<(u64, MemberEnd)>>,
    thread: JoinHandle<FamilyOutcome>,
}

/// What is told to the thread, a byte each. Later words go before earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    /// The program has ended: so does the watch, when all processes have.
    EndWithLast = b'l' as isize,
    /// When what has ended until now is finished.
    End = b'p' as isize,
    /// At once.
    GiveUp = b'u' as isize,
}

impl Word {
    const ALL: [Word; 3] = [Word::EndWithLast, Word::End, Word::GiveUp];

    fn of(byte: u8) -> Option<Word> {
        Word::ALL.into_iter().find(|word| *word as u8 == byte)
    }
}

/// How often signals are asked for while the thread is at work.
const PAUSE: Duration = Duration::from_millis(20);

impl FamilyWatch {
    /// Makes the session's directory and begins to look. `pid`: the program's.
    ///
    /// # Errors
    /// If the directory, or what is in it, cannot be made.
    pub fn begin(plan: FamilyPlan, pid: u32) -> Result<FamilyWatch, LaunchError> {
        let (directory, is_made) = make_directory(&plan, pid)?;
        let command = plan.command.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let head =
            FamilyHead::new(&plan.session, std::process::id(), now_unix_ns(), command, env!("CARGO_PKG_VERSION"));
        let writer = FamilyWriter::create(&directory, &head).map_err(|reason| {
            // The program's own ledger may go there, as a file.
            if is_made {
                let _ = fs::remove_dir(&directory);
            }
            LaunchError::File { path: directory.clone(), reason }
        })?;
        // For `recover`, should this be killed.
        let link = session::family_link(&live::directory_in(&plan.base), &plan.session);
        let _ = symlink(directory.canonicalize().unwrap_or_else(|_| directory.clone()), &link);
        let (told, stop) = pipe().map_err(|reason| LaunchError::System(reason.into()))?;
        let outcome = FamilyOutcome { directory: directory.clone(), link, ..FamilyOutcome::default() };
        let watch = watch::Watch::new(plan, outcome, pid, writer, told);
        let first_end = watch.first_end();
        let thread = std::thread::Builder::new().name("family".to_owned()).spawn(move || watch.run());
        Ok(FamilyWatch { directory, stop, first_end, thread: thread.map_err(LaunchError::System)? })
    }

    /// The session's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The program has ended, just now, with this status. Comes back when what has ended with it, or all of its processes, is finished. Each signal that asks this process
    /// to end makes that less: nobody else is waited for, and then nothing more is finished.
    pub fn end(self, end: FamilyEnd, status: ExitStatus, signals: &Signals) -> FamilyOutcome {
        let first_end = (now_unix_ns(), end_of(status).unwrap_or_default());
        let _ = self.first_end.set(first_end);
        let tell = |word: Word| {
            // It is there as long as the thread is.
            let _ = write(&self.stop, &[word as u8]);
            word
        };
        let mut told = tell(if end == FamilyEnd::WithProgram { Word::End } else { Word::EndWithLast });
        while !self.thread.is_finished() {
            if signals.asks_to_end(PAUSE) {
                told = tell(if told == Word::EndWithLast { Word::End } else { Word::GiveUp });
            }
        }
        let outcome = self.thread.join().unwrap_or_else(|_| FamilyOutcome {
            directory: self.directory.clone(),
            problems: vec!["a mistake of heapledger's own ended the watch over its processes".to_owned()],
            ..FamilyOutcome::default()
        });
        FamilyOutcome { first_end, ..outcome }
    }
}

impl FamilyOutcome {
    /// Removes the directory again, if no process has left a ledger in it: the program was never executed.
    pub fn remove_if_empty(&self) {
        if self.finished == 0 && self.running_count == 0 && self.unseen_count == 0 {
            let _ = fs::remove_file(&self.link);
            let _ = fs::remove_file(self.directory.join(SESSION_FILE));
            let _ = fs::remove_dir(&self.directory);
        }
    }

    /// Writes the program itself to the list, as far as it has ledgers, the last one first, and then the end of the session.
    ///
    /// # Errors
    /// If it cannot be written, and that is no known problem.
    pub fn close(&self, ledgers: &[(Ledger, &Written)], not_recorded: u64) -> io::Result<()> {
        self.append_end(ledgers, not_recorded).or_else(|reason| if self.list_is_short { Ok(()) } else { Err(reason) })
    }

    fn append_end(&self, ledgers: &[(Ledger, &Written)], not_recorded: u64) -> io::Result<()> {
        let mut writer = FamilyWriter::reopen(&self.directory)?;
        // It may have ended long ago, where others were waited for; and each of its programs began when the one before was over.
        let (mut ended_unix_ns, mut end) = self.first_end;
        let mut lines = Vec::with_capacity(ledgers.len());
        for (ledger, written) in ledgers {
            let process = process_of(ledger, Some((written, end)));
            let began_unix_ns = process.began_unix_ns;
            lines.push(FamilyProcess { ended_unix_ns: Some(ended_unix_ns.max(began_unix_ns)), ..process });
            (ended_unix_ns, end) = (began_unix_ns, MemberEnd::Exec);
        }
        lines.into_iter().rev().try_for_each(|process| writer.append(&FamilyLine::Process(process)))?;
        let ended = FamilyEnded {
            unix_ns: now_unix_ns(),
            exit: self.first_end.1,
            not_seen: self.unseen_count,
            not_recorded,
            limits: self.limits.clone(),
        };
        writer.append(&FamilyLine::Ended(ended))
    }
}

/// The directory of the session that an unfinished ledger belongs to, if it is one of several processes whose `run` is gone.
pub fn directory_of(live: &Live) -> Option<PathBuf> {
    let link = session::family_link(live.path.parent()?, &live.session);
    fs::read_link(link).ok().filter(|directory| directory.join(SESSION_FILE).is_file())
}

/// Tells the list of a session that the ledger of a process was finished by somebody else than its `run`. When the process ended is not
/// known then, unless the list says it.
///
/// # Errors
/// If it cannot be written.
pub fn recovered(directory: &Path, ledger: &Ledger, written: &Written) -> io::Result<()> {
    let mut process = process_of(ledger, Some((written, end_by_itself(ledger))));
    process.ended_unix_ns = None;
    // Only of the program that it started itself `run` writes down the end before the ledger is finished.
    if Live::from_path(ledger.path()).is_some_and(|live| live.pid.is_none())
        && let Ok(family) = Family::open(directory)
    {
        let mut known = family.members.into_iter().map(|member| member.process);
        if let Some(known) = known.find(|known| known.key() == process.key() && known.end.is_some()) {
            (process.end, process.ended_unix_ns) = (known.end, known.ended_unix_ns);
        }
    }
    FamilyWriter::reopen(directory)?.append(&FamilyLine::Process(process))
}

/// What a ledger says of its process, and, if it is finished, what became of it.
pub fn process_of(ledger: &Ledger, finished: Option<(&Written, MemberEnd)>) -> FamilyProcess {
    let process = ledger.process();
    let number = |key| process.number(key).and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
    let name = |written: &Written| written.path.file_name().map(|name| name.to_string_lossy().into_owned());
    FamilyProcess {
        pid: process.pid().unwrap_or_default(),
        start_ticks: process.start_ticks().unwrap_or_default(),
        image: number(key::IMAGE),
        ppid: number(key::PPID),
        parent_pid: number(key::PARENT_PID),
        program: process.program().unwrap_or_default(),
        forked: ledger.is_of_fork(),
        ledger: finished.and_then(|(written, _)| name(written)),
        live: finished.is_none().then(|| ledger.path().display().to_string()),
        began_unix_ns: ledger.header().start_unix_ns,
        ended_unix_ns: finished.map(|_| now_unix_ns()),
        end: finished.map(|(_, end)| end),
        ..FamilyProcess::default()
    }
}

/// How a program has ended, by its own word, of which nobody else has seen it.
fn end_by_itself(ledger: &Ledger) -> MemberEnd {
    let has_exited = || ledger.threads().unwrap_or_default().iter().any(|thread| thread.state == ThreadState::AtExit);
    match ledger.header().global(GlobalCounter::ExitStatus).checked_sub(1).map(i32::try_from) {
        Some(Ok(status)) => MemberEnd::Exit(status),
        _ if has_exited() => MemberEnd::Exited,
        _ => MemberEnd::Unknown,
    }
}

/// The pattern of a finished ledger in a session's directory: of the first program of a process, or of what it became by exec.
pub fn ledger_in(directory: &Path, image: u32) -> OsString {
    use std::os::unix::ffi::OsStringExt;
    let mut pattern = Vec::new();
    for byte in directory.as_os_str().as_bytes() {
        pattern.extend_from_slice(if *byte == b'%' { b"%%" } else { std::slice::from_ref(byte) });
    }
    pattern.extend_from_slice(b"/%n.%p");
    if image > 0 {
        pattern.extend_from_slice(format!("-{}", u64::from(image) + 1).as_bytes());
    }
    pattern.extend_from_slice(ending::FINISHED.as_bytes());
    OsString::from_vec(pattern)
}

/// Makes the directory, under a free name like the one that is asked for; false if it was there, empty.
fn make_directory(plan: &FamilyPlan, pid: u32) -> Result<(PathBuf, bool), LaunchError> {
    const TRIES: u32 = 10_000;
    let name = plan.command.first().map_or(OsStr::new(""), OsString::as_os_str);
    let names = PatternNames { program: crate::locate::short_name(name), pid, index: None };
    let wanted = expand(&plan.pattern, &names)?;
    for number in 0..TRIES {
        let mut path = wanted.clone();
        if number > 0 {
            path.as_mut_os_string().push(format!(".{number}"));
        }
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok((path, true)),
            // An empty one that somebody has made for it.
            Err(reason) if reason.kind() == io::ErrorKind::AlreadyExists => {
                if fs::read_dir(&path).is_ok_and(|mut items| items.next().is_none()) {
                    return Ok((path, false));
                }
            }
            Err(reason) => return Err(LaunchError::File { path, reason }),
        }
    }
    Err(LaunchError::File { path: wanted, reason: io::ErrorKind::AlreadyExists.into() })
}

fn now_unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
