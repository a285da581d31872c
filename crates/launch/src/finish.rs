//! From an unfinished ledger to a finished one.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use heapledger_format::FormatError;
use heapledger_format::header::HEADER_BYTES_MAX;
use heapledger_format::session::process as key;
use heapledger_source::{Ledger, More, SourceError};
use nix::sys::signal::{SigSet, Signal};

use crate::error::LaunchError;
use crate::live::{Live, hold};
use crate::output::{PatternNames, Pending, Workplace, check, expand, remove_workplace};
use crate::session::{Note, TAKEN, is_at};
use crate::{startup, sys};

/// The name of the workplace of a session's ledgers, but for what all workplaces' names have.
const SHOP: &str = "ledgers";

/// A workplace, and the note that tells of it, if there is one.
type Work = (PathBuf, Option<PathBuf>);

/// Where something is being written at this moment, and the notes of it, to be removed by who ends this process in between.
static WORKPLACES: Mutex<Vec<Work>> = Mutex::new(Vec::new());

/// A workplace, as long as it is used.
#[derive(Debug)]
pub struct AtWork {
    workplace: PathBuf,
    /// Also removed.
    _note: Option<Note>,
}

impl AtWork {
    /// Remembers it, so that it goes if a signal ends this process.
    pub fn in_place(workplace: &Path, note: Option<Note>) -> AtWork {
        let path = note.as_ref().map(|note| note.path().to_owned());
        workplaces().push((workplace.to_owned(), path));
        AtWork { workplace: workplace.to_owned(), _note: note }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        workplaces().retain(|(workplace, _)| *workplace != self.workplace);
    }
}

fn workplaces() -> MutexGuard<'static, Vec<Work>> {
    WORKPLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A finished ledger.
#[derive(Debug)]
pub struct Written {
    /// Where it is.
    pub path: PathBuf,
    /// Where it should have been, if another file was there.
    pub instead_of: Option<PathBuf>,
    /// Its size.
    pub bytes: u64,
    /// Elements that were being written when the program ended, which it has not.
    pub in_flight: u64,
}

/// How ledgers are finished.
pub struct Finisher {
    /// The pattern of the output's name.
    pub pattern: OsString,
    /// Whether an existing file may be replaced.
    pub force: bool,
    /// What was written so far.
    pub fresh: BTreeSet<PathBuf>,
    /// Whether a ledger is finished even if it has no name any more: ours alone are, nobody else has done it then.
    pub nameless: bool,
    /// Whether an empty file gets the name of each: its process goes on, as another program, whose ledger is to have a later one.
    pub keeps_names: bool,
    /// What is known of where the program ran: see [`crate::machine`].
    pub whereabouts: Vec<(&'static str, String)>,
    /// Where they are written, if they all go into one directory.
    pub shop: Option<Shop>,
}

/// One workplace for the ledgers of a session: a directory for each would take longer than what is written in it.
#[derive(Debug)]
pub struct Shop {
    workplace: Arc<Workplace>,
    _at_work: AtWork,
}

impl Shop {
    /// Makes it, inside `directory`; `ledgers` is where unfinished ones lie.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(directory: &Path, ledgers: &Path, session: &str) -> Result<Shop, LaunchError> {
        let wanted = directory.join(SHOP);
        // Before it is there: who is killed in between leaves nothing that nobody knows of.
        let note = Note::of_session(ledgers, session, &Workplace::place_beside(&wanted));
        let workplace = Workplace::beside(&wanted).map_err(LaunchError::NoWorkplace)?;
        let at_work = AtWork::in_place(workplace.path(), Some(note));
        Ok(Shop { workplace: Arc::new(workplace), _at_work: at_work })
    }
}

impl Finisher {
    /// Into files of this pattern, none of which is replaced, each from a workplace of its own.
    pub fn new(pattern: OsString) -> Finisher {
        let (fresh, whereabouts) = (BTreeSet::new(), Vec::new());
        Finisher { pattern, force: false, fresh, nameless: false, keeps_names: false, whereabouts, shop: None }
    }

    /// Writes the finished ledger of `live` and removes the unfinished one. `progress` is told how many bytes are done, and of
    /// how many.
    ///
    /// # Errors
    /// Why it could not be written; the unfinished one is still there then.
    pub fn finish(
        &mut self,
        live: &Live,
        ledger: &Ledger,
        more: More<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Written, LaunchError> {
        hold(ledger.as_file(), &live.path)?;
        if !self.nameless && !is_at(ledger.as_file(), &live.path) {
            return Err(LaunchError::FinishedByAnother(live.path.clone()));
        }
        // Its program has ended.
        ledger.rests()?;
        let process = ledger.process();
        let program = process.program().unwrap_or_else(|| "unknown".to_owned());
        let names = PatternNames { program: OsStr::new(&program), pid: process.pid().unwrap_or(0), index: None };
        let wanted = expand(&self.pattern, &names)?;
        check(&wanted)?;
        let written = match &self.shop {
            Some(shop) => {
                let pending = Pending::written_in(&shop.workplace, wanted);
                self.write(ledger, pending, more, progress)?
            }
            None => {
                let note = Note::new(live, &Workplace::place_beside(&wanted));
                let pending = Pending::new(wanted).map_err(LaunchError::NoWorkplace)?;
                let at_work = AtWork::in_place(pending.workplace(), Some(note));
                let written = self.write(ledger, pending, more, progress);
                drop(at_work);
                written?
            }
        };
        // Without a name, or another has it by now.
        if is_at(ledger.as_file(), &live.path) {
            let kept = if self.keeps_names { leave_empty(&live.path).ok() } else { None };
            let gone = kept.map_or_else(|| fs::remove_file(&live.path), Ok);
            gone.map_err(|reason| LaunchError::NotRemoved(live.path.clone(), reason))?;
        }
        Ok(written)
    }

    fn write(
        &mut self,
        ledger: &Ledger,
        pending: Pending,
        more: More<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Written, LaunchError> {
        let mut all = more.pairs.to_vec();
        all.extend(self.whereabouts.iter().cloned());
        // Of a copy that does not say when it was made nobody knows the moment.
        let moment = ledger.moment_unix_ns().map(|ns| ns.to_string());
        all.extend(moment.or_else(|| (!ledger.is_copy()).then(|| key::AT_END.to_owned())).map(|at| (key::MOMENT, at)));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        all.push((key::FINISHED_UNIX_NS, now.as_nanos().to_string()));
        all.push((key::RUN_VERSION, env!("CARGO_PKG_VERSION").to_owned()));
        let temporary = pending.temporary();
        let finished = heapledger_source::finish_with(ledger, &temporary, More { pairs: &all, ..more }, progress);
        let wanted = pending.wanted().to_owned();
        let finished = finished.map_err(|error| plain(error, &wanted))?;
        let path = pending.place(self.force, &mut self.fresh).map_err(LaunchError::of(&wanted))?;
        let instead_of = (path != wanted).then_some(wanted);
        Ok(Written { instead_of, path, bytes: finished.bytes, in_flight: finished.in_flight })
    }
}

/// A person who presses Ctrl-C wants nothing left. A program that is held is let go when this process ends.
pub fn abandon_when_told() {
    let mut set = SigSet::empty();
    let wanted = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter();
    wanted.filter(|signal| !startup::was_ignored(*signal as i32)).for_each(|signal| set.add(signal));
    if set.thread_block().is_ok() {
        std::thread::spawn(move || {
            if let Ok(signal) = set.wait() {
                abandon();
                sys::raise_default(signal as i32);
            }
        });
    }
}

/// The message for a person: about the file that was asked for, not about our temporary one.
pub fn plain(error: SourceError, wanted: &Path) -> LaunchError {
    match error {
        SourceError::Write { reason, .. } if reason.kind() == io::ErrorKind::StorageFull => {
            LaunchError::DiskFull(wanted.to_owned())
        }
        SourceError::Write { reason, .. } => {
            LaunchError::Unwritten { path: wanted.to_owned(), reason: reason.to_string() }
        }
        other => other.into(),
    }
}

/// Puts an empty file in the place of a ledger, at no moment of which the name is free.
pub(crate) fn leave_empty(path: &Path) -> io::Result<()> {
    // No name of a ledger: nobody takes it for one.
    let mut beside = path.to_owned();
    beside.as_mut_os_string().push(TAKEN);
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&beside)?;
    fs::rename(&beside, path).inspect_err(|_| _ = fs::remove_file(&beside))
}

/// Opens an unfinished ledger. `None` if its recorder never got as far as recording: there is nothing in it.
pub fn open(live: &Live) -> Result<Option<Ledger>, LaunchError> {
    let file = File::open(&live.path).map_err(LaunchError::of(&live.path))?;
    open_file(file, live)
}

/// The same, of a file that is open already.
pub fn open_file(file: File, live: &Live) -> Result<Option<Ledger>, LaunchError> {
    let again = file.try_clone().map_err(LaunchError::System)?;
    match Ledger::of_file(file, &live.path) {
        Ok(ledger) => Ok(Some(ledger)),
        Err(SourceError::Format { reason: FormatError::NotReady, .. } | SourceError::Empty(_)) => Ok(None),
        // Its program was killed between making the file and writing the first word of it.
        Err(SourceError::Format { reason: FormatError::NotALedger, .. }) if is_blank(&again) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

/// Whether the place of the header is zeros.
fn is_blank(file: &File) -> bool {
    let mut bytes = [0; HEADER_BYTES_MAX];
    file.read_at(&mut bytes, 0).is_ok_and(|there| bytes.iter().take(there).all(|byte| *byte == 0))
}

/// Removes what is half written. For a thread that is about to end this process.
pub fn abandon() {
    for (workplace, note) in workplaces().drain(..) {
        remove_workplace(&workplace);
        let _ = note.map(fs::remove_file);
    }
}
