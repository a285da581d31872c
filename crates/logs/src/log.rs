//! A whole log: whatever is told of heaps in it, each as a ledger.

use std::io::{self, BufRead};

use heapledger_lws::Width;

use crate::esp::EspLog;
use crate::events::{self, EventBooks};
use crate::lines::LogLines;
use crate::lws::{LeadIn, LineWindow, TraceScanner};
pub use crate::made::LogLedger;
use crate::made::MadeLedgers;
use crate::sysview::{self, SysTrace};
use crate::trace_ledger::TraceLedger;

/// What a log can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Lines of libwebsockets.
    Lws,
    /// Texts of ESP-IDF.
    Esp,
    /// Streams of SystemView with ESP-IDF's heap events.
    SystemView,
    /// Events of devices with our crate.
    Events,
}

impl LogKind {
    /// All of them.
    pub const ALL: &'static [LogKind] = &[LogKind::Lws, LogKind::Esp, LogKind::SystemView, LogKind::Events];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            LogKind::Lws => "lws",
            LogKind::Esp => "esp-idf",
            LogKind::SystemView => "systemview",
            LogKind::Events => "events",
        }
    }
}

/// What a log can be told before it is read.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// It is that and nothing else.
    pub only: Option<LogKind>,
    /// How wide values are that do not say it themselves.
    pub width: Width,
}

/// Reads all of a log. Without anything in it that is told of a heap there are no ledgers.
///
/// # Errors
/// Those of the input, and of temporary files.
pub fn read_log<R: BufRead>(mut input: R, options: LogOptions) -> io::Result<Vec<LogLedger>> {
    let begin = input.fill_buf()?;
    let only = |kind, is_it: fn(&[u8]) -> bool| options.only.map_or_else(|| is_it(begin), |only| only == kind);
    if only(LogKind::SystemView, sysview::is_stream) {
        return read_streams([input]);
    }
    // Events may come as text as well.
    if options.only.is_none_or(|only| only == LogKind::Events) && events::is_stream(begin) {
        return events::read_stream(input);
    }
    let wants = |kind| options.only.is_none_or(|only| only == kind);
    let mut lines = LogLines::new(input);
    let mut window = LineWindow::default();
    let mut scanner = TraceScanner::new(options.width, LeadIn::Needed).restoring();
    let mut traces: Option<TraceLedger> = None;
    let mut esp = EspLog::default();
    let mut books = EventBooks::default();
    while window.advance(&mut lines)? {
        if wants(LogKind::Esp) {
            esp.line(&window.line)?;
        }
        if wants(LogKind::Events) {
            books.line(&window.line.bytes)?;
        }
        if wants(LogKind::Lws) && window.line.bytes.contains(&b'~') {
            scanner.line(&window.line, &window.behind);
            let mut any = false;
            while let Some(found) = scanner.next_found() {
                any = true;
                traces.get_or_insert_with(TraceLedger::new).add(&found)?;
            }
            if any && window.line.is_cut {
                traces.get_or_insert_with(TraceLedger::new).cut(window.line.number);
            }
        }
    }
    let mut made = MadeLedgers::default();
    if let Some(ledger) = traces.filter(|ledger| ledger.blocks() != 0) {
        let name = match ledger.blocks() {
            1 => "1 backtrace of libwebsockets".to_owned(),
            blocks => format!("{blocks} backtraces of libwebsockets"),
        };
        made.add(0, ledger.draft(), LogKind::Lws, name)?;
    }
    let mut made = made.end();
    made.extend(esp.end()?);
    if books.is_any() {
        made.extend(books.ledgers()?);
    }
    Ok(made)
}

/// Reads streams of SystemView, one of each core or all in one, as one ledger.
///
/// # Errors
/// Those of the inputs, and of temporary files.
pub fn read_streams<R: BufRead>(inputs: impl IntoIterator<Item = R>) -> io::Result<Vec<LogLedger>> {
    let mut trace = SysTrace::default();
    for input in inputs {
        trace.file(input)?;
    }
    Ok(trace.ledger()?.into_iter().collect())
}

/// Whether a file that begins so is a ledger, a program or a core dump, and no log whatever else is in it.
pub fn is_ledger_or_program(begin: &[u8]) -> bool {
    begin.starts_with(&heapledger_format::MAGIC) || begin.starts_with(b"\x7fELF")
}

/// Whether bytes that a file begins with are text, or the head of a stream that a ledger can be made of.
pub fn is_log(begin: &[u8]) -> bool {
    if is_ledger_or_program(begin) {
        return false;
    }
    !begin.is_empty() && !begin.contains(&0) || sysview::is_stream(begin) || events::is_stream(begin)
}
