//! `heapledger encode`: compressed backtraces of what `decode` prints.

use std::ffi::OsString;
use std::io::{self, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use anyhow::Result;
use heapledger_logs::lines::{LogLine, LogLines};
use heapledger_logs::lws::{LoggedTrace, words_of_line};
use heapledger_lws::{BLOB_BYTES_MAX, EncodeError, Width, encode as encode_narrow, encode_any, line};

use super::decode::WidthArgs;
use crate::commands::opening::FromLog;
use crate::commands::unless_pipe_closed;
use crate::terminal::stdout;
use crate::{FAILURE, say};

mod frames;
mod live;

/// Arguments of `encode`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Lines ~b#size: …, with or without their first three characters, become lines
~m#…; in a log all other lines are left out. What libwebsockets' format cannot
hold (64-bit addresses, more than 31 frames) is written in an extension that its
own tool refuses. --ledger prints the blocks that live in a ledger, oldest
first; with --module their frames are as they stand in the file of that module,
which libwebsockets' tools can name where the program lies elsewhere each time.
Of more than 255 frames (31 with 32 bits) the innermost are printed.

Examples:
  heapledger encode '~b#size: 7520, 0x406651 0x406852 0x406c1b 0x406294'
  heapledger encode --ledger 4711 --module app > app.log")]
pub(crate) struct EncodeArgs {
    /// Backtraces in words [default: standard input]
    #[arg(value_name = "TEXT")]
    pub(crate) texts: Vec<OsString>,
    /// Print the blocks that live in a ledger, oldest first: a file, a process, a log
    #[arg(long, value_name = "FILE|PID", conflicts_with = "texts")]
    pub(crate) ledger: Option<OsString>,
    /// With --ledger: lines ~b# in words
    #[arg(long, requires = "ledger", conflicts_with = "texts")]
    pub(crate) plain: bool,
    /// With --ledger: only frames of the module with that name, by their addresses in its file
    #[arg(long, value_name = "NAME", requires = "ledger", conflicts_with = "texts")]
    pub(crate) module: Option<String>,
    /// With --ledger: take the file for a log of that kind; else that is seen by what is in it
    #[arg(long, value_enum, value_name = "KIND", requires = "ledger", conflicts_with = "texts")]
    pub(crate) from: Option<FromLog>,
    #[command(flatten)]
    pub(crate) width: WidthArgs,
}

/// Prints them.
pub(crate) fn run(args: &EncodeArgs) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    let encoded = match &args.ledger {
        Some(target) => live::write(args, target),
        None => encode(args),
    };
    unless_pipe_closed(encoded.map(|whole| {
        if !whole {
            code = ExitCode::from(FAILURE);
        }
    }))?;
    Ok(code)
}

/// Whether all of them could be written, and there were some.
fn encode(args: &EncodeArgs) -> Result<bool> {
    let mut out = io::BufWriter::new(stdout());
    let (mut written, mut failed) = (0u64, 0u64);
    let mut one = |number: u64, text: &[u8], is_needed: bool| -> io::Result<()> {
        let result = match words_of_line(text) {
            Some(trace) => written_as(&trace, args.width.get()).map_err(|error| error.to_string()),
            None if is_needed || text.starts_with(b"~b#") => {
                Err("it is not \"size: N, \" and frames in hexadecimal digits".to_owned())
            }
            None => return Ok(()),
        };
        match result {
            Ok(text) => {
                written += 1;
                writeln!(out, "{text}")
            }
            Err(reason) => {
                failed += 1;
                say(&format!("line {number} was not encoded: {reason}"));
                Ok(())
            }
        }
    };
    if args.texts.is_empty() {
        let mut lines = LogLines::new(BufReader::new(io::stdin()));
        let mut line = LogLine::default();
        while lines.next_into(&mut line)? {
            one(line.number, &line.bytes, false)?;
        }
    }
    for (index, text) in args.texts.iter().enumerate() {
        one(index as u64 + 1, text.as_bytes(), true)?;
    }
    out.flush()?;
    if written == 0 && failed == 0 {
        say("there is no backtrace in what was read");
    }
    Ok(written != 0 && failed == 0)
}

fn written_as(trace: &LoggedTrace, width: Width) -> Result<String, EncodeError> {
    let mut blob = [0; BLOB_BYTES_MAX];
    let bytes = if width == Width::W32 {
        let narrow = |value: u64, what| u32::try_from(value).map_err(|_| what);
        let frames = trace.frames.iter().enumerate().map(|(index, frame)| narrow(*frame, EncodeError::Frame(index)));
        let frames = frames.collect::<Result<Vec<u32>, _>>()?;
        encode_narrow(&frames, narrow(trace.size, EncodeError::Size)?, &mut blob)?
    } else {
        encode_any(&trace.frames, trace.size, &mut blob)?
    };
    let mut text = String::new();
    // A String has room for anything.
    let _ = line::write_compressed(&blob[..bytes], &mut text);
    Ok(text)
}
