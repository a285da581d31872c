//! `heapledger snapshot`: a finished ledger of this moment, of a program that goes on.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::id;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use heapledger_analysis::{Note, Seen};
use heapledger_format::session::process as key;
use heapledger_report::{Report, SnapshotReport, clean, sentence};
use heapledger_source::{Ledger, Meanwhile, Snapshot, SourceError};
use nix::sys::signal::{SigSet, Signal};

use super::form::{FormArgs, Sentences, unwritten};
use super::unless_pipe_closed;
use crate::say;
use crate::terminal::{Color, Progress};
use heapledger_launch::LaunchError;
use heapledger_launch::finish::{abandon, plain, remember};
use heapledger_launch::freeze::{HeldProcess, Trace};
use heapledger_launch::output::{PatternNames, Pending, check, expand};
use heapledger_launch::{startup, sys};

/// The pattern of the output's name.
const OUTPUT: &str = "heapledger.%n.%p.%i.hl";
/// How often a process is held anew if a call was in the middle of an entry after all.
const HOLDS: u32 = 4;
/// How often threads that sleep are left alone. If one of them woke each time, all are interrupted.
const QUIET_HOLDS: u32 = 3;
/// For tests: `interrupt` interrupts all threads at once, also those that sleep.
const HOW: &str = "HEAPLEDGER_FREEZE";

/// Arguments of `snapshot`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The program goes on, and its ledger too: the snapshot is a ledger of its own,
for all commands that read one. Without --freeze nothing of the program is
touched; each record is whole as it was at some time during the copy, and those
that were being written are left out and counted.

--freeze holds threads that run, and leaves those that sleep asleep. If one of
them wakes three times during the copy, all are interrupted. A system call that
slept then goes on, but a few begin their time-out anew (those of epoll_wait,
semtimedop, sigtimedwait and SO_RCVTIMEO), and a write or read that had done a
part of its work returns with that part, as after any signal.

In FILE of --output: %n program, %p process, %i the first number from 0 whose
file is not there yet, %h host, %t seconds since 1970, %% a percent sign. No
file is ever replaced.

Examples:
  heapledger snapshot 4711            heapledger.NAME.4711.0.hl, then .1.hl, …
  heapledger snapshot --freeze 4711   all of one moment, to the last block
  heapledger snapshot -o mddout.%i 4711            mddout.0, mddout.1, …
  heapledger diff heapledger.NAME.4711.0.hl heapledger.NAME.4711.1.hl")]
pub(crate) struct SnapshotArgs {
    /// The number of a process that is being recorded, or its unfinished ledger
    #[arg(value_name = "PID|FILE")]
    pub(crate) target: OsString,
    /// Name of the snapshot [default: heapledger.%n.%p.%i.hl]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<OsString>,
    /// Hold the program while the copy is made, and say for how long
    #[arg(long)]
    pub(crate) freeze: bool,
    /// Print nothing on success
    #[arg(short, long, conflicts_with = "form")]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) form: FormArgs<Sentences>,
    /// Write bytes exactly, without units
    #[arg(long)]
    pub(crate) bytes: bool,
}

/// Takes it.
pub(crate) fn run(args: &SnapshotArgs) -> Result<()> {
    unless_pipe_closed(take(args))
}

fn take(args: &SnapshotArgs) -> Result<()> {
    let live = Ledger::open_target(&args.target)?;
    if live.is_finished() {
        bail!("{} is finished already: nobody writes it any more, so it is its own snapshot", live.path().display());
    }
    // Of a core dump: of which moment that is which is copied.
    for note in Seen::of(&live, 0)?.notes.iter().filter(|note| matches!(note, Note::FoundBy(_)) && !args.quiet) {
        say(&clean(&sentence(note)));
    }
    let process = live.process();
    let program = process.program().unwrap_or_else(|| "unknown".to_owned());
    let pattern = args.output.clone().unwrap_or_else(|| OUTPUT.into());
    let name = |index| {
        let names = PatternNames { program: OsStr::new(&program), pid: process.pid().unwrap_or(0), index: Some(index) };
        expand(&pattern, &names)
    };
    let first = name(0)?;
    check(&first)?;
    clean_up_when_told();
    let pending = Pending::new(first.clone()).context("the snapshot cannot be written")?;
    remember(Some((pending.workplace().to_owned(), None)));
    let result = write(args, &live, &pending);
    remember(None);
    let (snapshot, bytes) = result?;
    let numbered = name(1)? != first;
    let names = (0..).map_while(|index| match (numbered, index) {
        (true, _) => name(index).ok(),
        (false, 0) => Some(first.clone()),
        // Asked for by this name, which is taken: the number goes behind it, as for `run`.
        (false, _) => Some(PathBuf::from([first.as_os_str(), OsStr::new(&format!(".{index}"))].join(OsStr::new("")))),
    });
    let path = pending.place_at_first(names).with_context(|| first.display().to_string())?;
    let instead_of = (!numbered && path != first).then(|| first.to_string_lossy());
    let mut report = SnapshotReport {
        ledger: &args.target.to_string_lossy(),
        path: &path.to_string_lossy(),
        instead_of: instead_of.as_deref(),
        program: &program,
        pid: process.pid(),
        ended: !live.is_running() && !live.is_copy(),
        taken: snapshot.0,
        records: snapshot.1,
        bytes,
        seen: SnapshotReport::seen_of(&snapshot.0),
        paint: Color::Never.paint(args.bytes),
    };
    if args.quiet { Ok(()) } else { report.write(args.form.get(), &mut io::stdout().lock()).map_err(unwritten) }
}

/// A person who presses Ctrl-C wants nothing left. A program that is held is let go when this process ends.
fn clean_up_when_told() {
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

type Figures = (heapledger_source::Taken, u64);

fn write(args: &SnapshotArgs, live: &Ledger, pending: &Pending) -> Result<(Figures, u64)> {
    let wanted = pending.wanted().to_owned();
    let raw = pending.copy();
    let unfit = |error: SourceError| plain(error, &wanted);
    let snapshot =
        if args.freeze { held(args, live, &raw, &unfit)? } else { copy(live, &raw, Meanwhile::Runs).map_err(unfit)? };
    let mut progress = Progress::of_ours("writing the snapshot", args.quiet || !io::stderr().is_terminal());
    let version = [(key::RUN_VERSION, env!("CARGO_PKG_VERSION").to_owned())];
    let taken = snapshot.taken;
    let finished = snapshot.finish(&pending.temporary(), &version, &mut |done, of| progress.bytes(done, of));
    drop(progress);
    let finished = finished.map_err(unfit)?;
    Ok(((taken, finished.records), finished.bytes))
}

/// Copies while the program stands.
fn held(
    args: &SnapshotArgs,
    live: &Ledger,
    raw: &std::path::Path,
    unfit: &dyn Fn(SourceError) -> LaunchError,
) -> Result<Snapshot> {
    let asked = args.target.to_str().and_then(|text| text.parse::<i32>().ok());
    let asked = asked.filter(|_| !std::path::Path::new(&args.target).exists());
    let pid = asked.or_else(|| live.process().pid().and_then(|pid| pid.try_into().ok()));
    let Some(pid) = pid.filter(|_| live.is_running()) else {
        // It has ended: nobody writes any more.
        return Ok(copy(live, raw, Meanwhile::Held).map_err(unfit)?);
    };
    if pid == id() as i32 {
        bail!("a process cannot hold itself");
    }
    let mut longest = 0u64;
    let (mut tries, mut quiet) = (0, 0);
    let mut trace = Trace::Awake(BTreeSet::new());
    if std::env::var_os(HOW).is_some_and(|how| how == "interrupt") {
        trace = Trace::All;
    }
    loop {
        let held = HeldProcess::hold(pid, &trace)?;
        let mut snapshot = copy(live, raw, Meanwhile::Held).map_err(unfit)?;
        let span = u64::try_from(held.span().as_nanos()).unwrap_or(u64::MAX);
        let woken = held.woken();
        drop(held);
        longest = longest.max(span);
        if !woken.is_empty() {
            quiet += 1;
            match &mut trace {
                Trace::Awake(but) if quiet < QUIET_HOLDS => but.extend(woken),
                _ => trace = Trace::All,
            }
            continue;
        }
        tries += 1;
        let unsettled = snapshot.unsettled.unwrap_or(0);
        if unsettled == 0 || tries == HOLDS {
            snapshot.taken.held_ns = Some(longest);
            // Entered in the totals and not in a record yet, or the other way round.
            snapshot.taken.in_flight = u64::try_from(unsettled).unwrap_or(0);
            return Ok(snapshot);
        }
        // A call was in the middle of an entry where it could not be told, in a signal handler for instance.
        drop(snapshot);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn copy(live: &Ledger, raw: &std::path::Path, program: Meanwhile) -> Result<Snapshot, SourceError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Snapshot::copy(live, raw, u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), program)
}
