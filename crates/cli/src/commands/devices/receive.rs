//! `heapledger receive`: a ledger of events that a device sends, while they come.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use heapledger_logs::live::LiveLine;
use heapledger_report::{clean, counted};

use super::saving::{Renewed, name_for};
use crate::args::output_path;
use crate::commands::opening::FromLog;
use crate::commands::unless_pipe_closed;
use crate::say;
use crate::terminal::stdout;
use crate::text::parse_span;

mod source;

use source::{Came, open};

/// Arguments of `receive`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
SOURCE is a file, a serial device, - for standard input, tcp://HOST:PORT, which
is connected to, or udp://HOST:PORT, where packets are waited for. The device
has the crate heapledger-wire inside; its frames may also stand as lines of text
between others. ESP-IDF's heap tracing to a host (SystemView) is received too.
A serial device is to be set up before, with stty.

The ledger can be read meanwhile by all commands. Ctrl-C ends it, and so does
the end of SOURCE. Each start of a device gives a ledger of its own.

Examples:
  heapledger receive tcp://localhost:4444 -o board.hl
  stty -F /dev/ttyUSB0 115200 raw && heapledger receive /dev/ttyUSB0
  heapledger receive --ask udp://0.0.0.0:4444")]
pub(crate) struct ReceiveArgs {
    /// Where events come from
    #[arg(value_name = "SOURCE")]
    pub(crate) source: OsString,
    /// Name of the ledger [default: that of the source, with .hl behind it]
    #[arg(short, long, value_name = "FILE", value_parser = output_path())]
    pub(crate) output: Option<PathBuf>,
    /// Renew the ledger at this interval while events come: 500ms, 10s
    #[arg(long, value_name = "TIME", value_parser = parse_span, default_value = "1s")]
    pub(crate) every: Duration,
    /// Take what comes for that kind, events or systemview; else that is seen by how it begins
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) from: Option<FromLog>,
    /// Ask the device for all live blocks, so that a ledger that is begun late becomes whole (serial devices, tcp)
    #[arg(long)]
    pub(crate) ask: bool,
}

/// Receives until there is nothing more, or Ctrl-C.
pub(crate) fn run(args: &ReceiveArgs) -> Result<()> {
    unless_pipe_closed(receive(args))
}

/// So many pieces wait to be taken; whoever sends faster waits.
const PIECES: usize = 64;
/// Of the time, writing the ledger again and again may take one part in so many.
const WRITING_SHARE: u32 = 20;

fn receive(args: &ReceiveArgs) -> Result<()> {
    let shown = args.source.to_string_lossy().into_owned();
    let (sender, pieces) = sync_channel(PIECES);
    open(&args.source, args.ask, sender)?;
    let name = Path::new(&args.source).file_name().map_or_else(|| args.source.clone(), OsString::from);
    let mut files = Renewed::new(args.output.clone().unwrap_or_else(|| name_for(&name)))?;
    say(&format!("receiving from {shown}; Ctrl-C ends it, and {} can be read meanwhile", files.first().display()));
    let mut line = LiveLine::new(args.from.map(FromLog::kind));
    let (mut next, mut is_new) = (Instant::now() + args.every, false);
    let failure = loop {
        match pieces.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(Came::Bytes(bytes)) => {
                line.take(&bytes)?;
                is_new = true;
            }
            Ok(Came::Failed(error)) => break Some(error),
            Ok(Came::End) | Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = Instant::now();
        if now >= next {
            if std::mem::take(&mut is_new) {
                files.write(line.ledgers()?)?;
            }
            next = now + args.every.max(now.elapsed() * WRITING_SHARE);
        }
    };
    line.end()?;
    if !line.is_any() {
        bail!(
            "nothing that came from {shown} was a frame of a device with heapledger-wire, or a heap event of SystemView"
        );
    }
    for one in files.write(line.ledgers()?)? {
        let blocks = counted(one.finished.records, "live block", "live blocks");
        writeln!(stdout(), "{}: {}; {blocks}", clean(&one.path.to_string_lossy()), clean(&one.name))?;
        one.missing.iter().for_each(|sentence| say(&clean(sentence)));
    }
    match failure {
        Some(error) => bail!("{shown} cannot be read any further: {error}"),
        None => Ok(()),
    }
}
