//! `heapledger snapshot`: a finished ledger of this moment, of a program that goes on.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use heapledger_analysis::{Note, Seen};
use heapledger_format::session::process as key;
use heapledger_launch::finish::{AtWork, abandon_when_told, plain};
use heapledger_launch::output::{PatternNames, Pending, check, expand};
use heapledger_launch::snapshot::{copy, held_copy};
use heapledger_report::{Report, SnapshotReport, clean, sentence};
use heapledger_source::Ledger;

use super::form::{FormArgs, Sentences};
use super::present::unwritten;
use super::unless_pipe_closed;
use crate::args::output_file;
use crate::say;
use crate::terminal::{Color, Progress, stdout};

/// The pattern of the output's name.
const OUTPUT: &str = "heapledger.%n.%p.%i.hl";
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
    /// The process id of a program that is being recorded, or its unfinished ledger
    #[arg(value_name = "PID|FILE")]
    pub(crate) target: OsString,
    /// Name of the snapshot [default: heapledger.%n.%p.%i.hl]
    #[arg(short, long, value_name = "FILE", value_parser = output_file())]
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
    abandon_when_told();
    let pending = Pending::new(first.clone()).context("the snapshot cannot be written")?;
    let at_work = AtWork::in_place(pending.workplace(), None);
    let result = write(args, &live, &pending);
    drop(at_work);
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
    if args.quiet { Ok(()) } else { report.write(args.form.get(), &mut stdout()).map_err(unwritten) }
}

type Figures = (heapledger_source::Taken, u64);

fn write(args: &SnapshotArgs, live: &Ledger, pending: &Pending) -> Result<(Figures, u64)> {
    let (wanted, raw) = (pending.wanted(), pending.copy());
    let snapshot = if args.freeze { held_copy(live, &raw, wanted, asked(args))? } else { copy(live, &raw, wanted)? };
    let mut progress = Progress::of_ours("writing the snapshot", args.quiet || !io::stderr().is_terminal());
    let version = [(key::RUN_VERSION, env!("CARGO_PKG_VERSION").to_owned())];
    let taken = snapshot.taken;
    let finished = snapshot.finish(&pending.temporary(), &version, &mut |done, of| progress.bytes(done, of));
    drop(progress);
    let finished = finished.map_err(|error| plain(error, wanted))?;
    Ok(((taken, finished.records), finished.bytes))
}

/// The process whose number was typed; a file of that name is meant before.
fn asked(args: &SnapshotArgs) -> Option<i32> {
    let number = args.target.to_str().and_then(|text| text.parse().ok());
    number.filter(|_| !Path::new(&args.target).exists())
}
