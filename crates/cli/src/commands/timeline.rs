//! `heapledger timeline`: how the heap grew.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use heapledger_analysis::{HeapTimeline, Identity, Seen};
use heapledger_format::SectionKind;
use heapledger_launch::output::{Pending, unwritten};
use heapledger_report::{Form, Paint, Report, ReportError, TimelineReport, clean, counted};

use super::form::Tables;
use super::{FormArgs, LedgerArgs, unless_pipe_closed};
use crate::terminal::stdout;

mod session;

/// Arguments of `timeline`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Live bytes over time, and below them what memory the process had of its own
(RSS): anonymous memory without the recorder's, not the pages of files that the
system's own maximum has too, and not what came and went between two looks. The
highest point is the peak. `run` looks from outside, every 10 ms at first; of a
long run at most 2,000 intervals are kept, each with its highest.
What a program has noted itself when it allocated is shown while it runs, with
the RSS that it has now, and where no `run` stood beside it or that was killed,
without RSS. Of a session: all of its processes together, and those that held
most.

Examples:
  heapledger timeline heapledger.jq.4711.hl
  heapledger timeline 4711              a process that runs under heapledger now
  heapledger timeline build             all processes of a session
  heapledger timeline --svg curve.svg heapledger.jq.4711.hl
  heapledger timeline --csv 4711 | cut -d, -f2,5")]
pub(crate) struct TimelineArgs {
    /// Write a picture to this file instead; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "form")]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) form: FormArgs<Tables>,
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
}

/// Shows how the heap of a program grew.
pub(crate) fn run(args: &TimelineArgs) -> Result<()> {
    unless_pipe_closed(show(args))
}

fn show(args: &TimelineArgs) -> Result<()> {
    if let Some(family) = args.ledger.session()? {
        return session::show(args, &family);
    }
    let opened = args.ledger.open()?;
    let (ledger, context) = (&opened.ledger, &opened.context);
    let timeline = HeapTimeline::of(ledger, &context.clock)?;
    if !timeline.is_known() {
        let why = match (ledger.has_timeline(), ledger.is_of_chip()) {
            (true, _) => "nothing was noted over time",
            (false, true) => "a chip's ledger says nothing over time",
            (false, false) => "it was made by a recorder that noted nothing over time",
        };
        bail!("{}: {why}", ledger.path().display());
    }
    let mut report = TimelineReport {
        ledger: &context.ledger,
        identity: &Identity::of(ledger),
        timeline: &timeline,
        sampled: context.sampling.from(ledger.count(SectionKind::Records)?),
        paint: context.paint,
        seen: &Seen::of(ledger, 0)?,
    };
    match &args.svg {
        Some(path) => picture(
            path,
            &mut report,
            args.ledger.paint(),
            counted(timeline.points.len() as u64, "interval", "intervals"),
        ),
        None => args.ledger.view.present(args.form.get(), &mut report),
    }
}

/// Writes the picture, of so much; a file is replaced when the new one is complete.
fn picture(path: &Path, report: &mut dyn Report, paint: Paint, of: String) -> Result<()> {
    let mut write = |out: &mut dyn Write| {
        report.write(&Form::Svg, out).map_err(|error| match error {
            ReportError::Write(error) => error,
            other => io::Error::other(other),
        })
    };
    if path == Path::new("-") {
        return Ok(write(&mut BufWriter::new(stdout()))?);
    }
    let mut written = || match fs::metadata(path) {
        // A device, or a pipe that has a name.
        Ok(meta) if !meta.is_file() => write(&mut BufWriter::new(File::create(path)?)),
        _ => {
            let pending = Pending::new(path.to_owned())?;
            write(&mut BufWriter::new(pending.create()?))?;
            pending.place(true, &mut BTreeSet::new()).map(drop)
        }
    };
    written().map_err(|error| unwritten(path, &error))?;
    let size = paint.exact_figures().bytes(fs::metadata(path).map_or(0, |meta| meta.len()));
    crate::say(&format!("{} ({size}, {of})", clean(&path.to_string_lossy())));
    Ok(())
}
