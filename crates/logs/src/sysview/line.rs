//! A stream that comes piece by piece: events are taken as soon as they are whole.

use std::io;

use super::stream::{NoEvent, SysHeading, SysStream, heading};
use super::{StreamState, SysTrace};
use crate::log::LogLedger;

/// Most bytes of what stands before a stream.
const HEADING_BYTES_MAX: usize = 64 << 10;
/// Zeros that streams synchronize by.
const SYNC_BYTES: usize = 10;

/// A stream of one core, or one in which each event says its core.
#[derive(Default)]
pub struct SysLine {
    trace: SysTrace,
    state: StreamState,
    /// Known as soon as what stands before the stream is over.
    heading: Option<SysHeading>,
    /// What is there of an event, or of the heading.
    pending: Vec<u8>,
    at_byte: u64,
    is_broken: bool,
}

impl SysLine {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// If there is no room for more than memory holds.
    pub fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_broken {
            return Ok(());
        }
        self.pending.extend_from_slice(bytes);
        if self.heading.is_none() && !self.begins(false) {
            return Ok(());
        }
        self.events()
    }

    /// Whether the stream itself has begun: it is read from there on. At the end of all it has, whatever is there.
    fn begins(&mut self, at_end: bool) -> bool {
        let mut rest = self.pending.as_slice();
        let Ok(found) = heading(&mut rest) else { return false };
        let is_whole = rest.len() >= SYNC_BYTES && rest.first() != Some(&b';');
        if !is_whole && !at_end && self.pending.len() < HEADING_BYTES_MAX {
            return false;
        }
        let zeros = rest.iter().take(SYNC_BYTES).take_while(|byte| **byte == 0).count();
        let begun = self.pending.len() - rest.len() + zeros;
        self.pending.drain(..begun);
        self.at_byte = zeros as u64;
        self.trace.streams = 1;
        // Whoever streams does not know where another core's stream would begin.
        self.heading = Some(SysHeading { offsets: Vec::new(), ..found });
        true
    }

    fn events(&mut self) -> io::Result<()> {
        let Some(heading) = &self.heading else { return Ok(()) };
        let mut done = 0;
        let pending = std::mem::take(&mut self.pending);
        loop {
            let rest = pending.get(done..).unwrap_or(&[]);
            let at_byte = self.at_byte;
            let mut stream = SysStream::new(rest, heading, 0, at_byte);
            match stream.next_event() {
                Ok((core, event, ticks)) => {
                    let (_, at) = stream.into_rest();
                    done += (at - at_byte) as usize;
                    self.at_byte = at;
                    self.trace.next(core, event, ticks, &mut self.state)?;
                }
                Err(NoEvent::Broken(broken)) => {
                    self.trace.broken(broken);
                    self.is_broken = true;
                    return Ok(());
                }
                Err(NoEvent::End { .. } | NoEvent::Failed(_)) => break,
            }
        }
        self.pending = pending;
        self.pending.drain(..done);
        Ok(())
    }

    /// Nothing more comes.
    ///
    /// # Errors
    /// As of [`take`](SysLine::take).
    pub fn end(&mut self) -> io::Result<()> {
        if self.heading.is_none() && self.begins(true) {
            self.events()?;
        }
        if !std::mem::take(&mut self.pending).is_empty() {
            self.trace.cut();
        }
        Ok(())
    }

    /// Whether there were events of a heap.
    pub fn is_any(&self) -> bool {
        self.trace.is_any()
    }

    /// The ledger of what is known now, if there is anything.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn ledger(&self) -> io::Result<Option<LogLedger>> {
        self.trace.ledger()
    }
}
