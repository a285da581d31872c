//! `heapledger decode`: what compressed backtraces of libwebsockets say.

use std::ffi::OsString;
use std::io::{self, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use anyhow::Result;
use heapledger_logs::lines::LogLines;
use heapledger_logs::lws::{LeadIn, TraceAt, TraceReader, TraceScanner, each_trace};
use heapledger_lws::Width;
use heapledger_report::{Form, decoded_end, decoded_header};

use crate::commands::form::Sentences;
use crate::commands::opened::ViewArgs;
use crate::commands::{FormArgs, NamingArgs, unless_pipe_closed};
use crate::terminal::Paging;
use crate::{FAILURE, say};

mod named;

use named::Batch;

/// Arguments of `decode`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What was typed, or else standard input: lines ~m#… anywhere in a log, lines cut
in two by others, and lines that are nothing but base64. Each is printed as
libwebsockets' own tool does it: ~b#size: …, and the frames. With --exe the
functions follow. The exit status is 1 if anything did not decode.

Examples:
  heapledger decode '~m#IF0BmUQugNCkgCnkhdAYpQa6wAAV'
  heapledger decode --exe app < device.log")]
pub(crate) struct DecodeArgs {
    /// Backtraces, with or without their first three characters [default: standard input]
    #[arg(value_name = "TEXT")]
    pub(crate) texts: Vec<OsString>,
    #[command(flatten)]
    pub(crate) width: WidthArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs<Sentences>,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
    #[command(flatten)]
    pub(crate) view: ViewArgs,
}

/// How wide values are.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct WidthArgs {
    /// How wide values of the device are, 32 or 64; values below 2^31 are the same either way
    #[arg(long, value_name = "N", default_value = "64", value_parser = width)]
    bits: Width,
}

impl WidthArgs {
    pub(crate) fn get(self) -> Width {
        self.bits
    }
}

fn width(text: &str) -> Result<Width, String> {
    match text {
        "32" => Ok(Width::W32),
        "64" => Ok(Width::W64),
        _ => Err("32 or 64".to_owned()),
    }
}

/// Prints them.
pub(crate) fn run(args: &DecodeArgs) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    unless_pipe_closed(decode(args).map(|whole| {
        if !whole {
            code = ExitCode::from(FAILURE);
        }
    }))?;
    Ok(code)
}

/// Whether all of them could be read, and there were some.
fn decode(args: &DecodeArgs) -> Result<bool> {
    let form = args.form.get();
    let mut out = args.view.output(form, Paging::Never);
    if *form == Form::Json {
        let source = if args.texts.is_empty() { "-" } else { "arguments" };
        decoded_header(source, &mut out)?;
    }
    let mut batch = Batch::new(args);
    if args.texts.is_empty() {
        let mut lines = LogLines::new(BufReader::new(io::stdin()));
        let mut scanner = TraceScanner::new(args.width.get(), LeadIn::Optional);
        each_trace(&mut lines, &mut scanner, &mut |found| batch.add(found, &mut out))?;
    } else {
        let mut reader = TraceReader::new(args.width.get());
        for (index, text) in args.texts.iter().enumerate() {
            let trace = reader.read_line(text.as_bytes());
            batch.add(TraceAt { line: index as u64 + 1, marked: true, trace }, &mut out)?;
        }
    }
    batch.flush(&mut out)?;
    batch.end();
    if *form == Form::Json {
        decoded_end(batch.shown, batch.unread, &mut out)?;
    }
    out.flush()?;
    if batch.shown == 0 && batch.unread == 0 {
        say("there is no backtrace in what was read");
    }
    Ok(batch.shown != 0 && batch.unread == 0)
}
