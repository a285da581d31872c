//! What comes over a line, piece by piece, whatever it is: events of devices with our crate, or a stream of SystemView.

use std::io;

use crate::events::EventLine;
use crate::log::{LogKind, LogLedger};
use crate::sysview::{self, SysLine};

/// So much of the beginning is looked at.
const BEGIN_BYTES: usize = 64 << 10;
/// Zeros that a stream of SystemView begins with, and the number of its first event behind them.
const SYNC_BYTES: usize = 11;

/// A line that is being received from.
#[derive(Default)]
pub struct LiveLine {
    line: Receiving,
}

enum Receiving {
    /// Nobody has said what it is, and it cannot be seen yet.
    Undecided(Vec<u8>),
    Events(Box<EventLine>),
    SystemView(Box<SysLine>),
}

impl Default for Receiving {
    fn default() -> Receiving {
        Receiving::Undecided(Vec::new())
    }
}

impl LiveLine {
    /// One on which that comes, or whatever it looks like.
    pub fn new(kind: Option<LogKind>) -> LiveLine {
        let line = match kind {
            Some(LogKind::SystemView) => Receiving::SystemView(Box::default()),
            Some(_) => Receiving::Events(Box::default()),
            None => Receiving::default(),
        };
        LiveLine { line }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.line {
            Receiving::Events(line) => line.take(bytes),
            Receiving::SystemView(line) => line.take(bytes),
            Receiving::Undecided(begin) => {
                begin.extend_from_slice(bytes);
                if may_become_a_stream(begin) { Ok(()) } else { self.decide() }
            }
        }
    }

    fn decide(&mut self) -> io::Result<()> {
        let Receiving::Undecided(begin) = &mut self.line else { return Ok(()) };
        let begin = std::mem::take(begin);
        self.line = if sysview::is_stream(&begin) {
            Receiving::SystemView(Box::default())
        } else {
            Receiving::Events(Box::default())
        };
        self.take(&begin)
    }

    /// Nothing more comes.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub fn end(&mut self) -> io::Result<()> {
        self.decide()?;
        match &mut self.line {
            Receiving::Events(line) => line.end(),
            Receiving::SystemView(line) => line.end(),
            Receiving::Undecided(_) => Ok(()),
        }
    }

    /// Whether anything came that tells of a heap.
    pub fn is_any(&self) -> bool {
        match &self.line {
            Receiving::Events(line) => line.books().is_any(),
            Receiving::SystemView(line) => line.is_any(),
            Receiving::Undecided(_) => false,
        }
    }

    /// The ledgers of what is known now, in order; the line goes on.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn ledgers(&mut self) -> io::Result<Vec<LogLedger>> {
        match &mut self.line {
            Receiving::Events(line) => line.books().ledgers(),
            Receiving::SystemView(line) => Ok(line.ledger()?.into_iter().collect()),
            Receiving::Undecided(_) => Ok(Vec::new()),
        }
    }
}

/// Whether it could still be the beginning of a stream of SystemView, so that more is to be waited for.
fn may_become_a_stream(begin: &[u8]) -> bool {
    if sysview::is_stream(begin) {
        return false;
    }
    match begin.first() {
        Some(b';') => begin.len() < BEGIN_BYTES,
        _ => begin.len() < SYNC_BYTES && begin.iter().all(|byte| *byte == 0),
    }
}
