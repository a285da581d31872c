//! Which moment a report is of, when what was opened is a core dump or an image of memory.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heapledger_format::GlobalCounter;
use heapledger_format::header::flag;
use heapledger_format::session::process as key;
use heapledger_source::{FoundIn, Ledger, SourceError};

/// Which moment a report is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The moment of the core dump: the ledger lies in it.
    OfImage,
    /// Now: the program runs on.
    Now,
    /// The end of the program, for which the core dump was written: the same signal.
    Crash,
    /// The end of the program; nothing was entered after the time stamp of the core dump's file.
    End,
    /// The end of the program, so long after the core dump was written.
    Later(Duration),
    /// That of a snapshot or a copy, so long before the core dump was written: there is no ledger of the end.
    SnapshotBefore(Duration),
    /// That of a snapshot or a copy, so long after the core dump was written: there is no ledger of the end.
    SnapshotAfter(Duration),
    /// That of a copy, which does not say when it was made.
    Copied,
}

/// A ledger that was found through something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundBy {
    /// What was opened.
    pub image: String,
    /// Whether that is a core dump.
    pub is_core: bool,
    /// What was read; the same as `image` if the ledger lies in it.
    pub read: String,
    /// Where in it the ledger begins, if it lies in it.
    pub address: Option<u64>,
    /// Whether that is an address; else it is a place in the file.
    pub has_addresses: bool,
    /// The moment.
    pub moment: Moment,
    /// Whether the core dump ends early.
    pub cut: bool,
    /// Whether bytes of it were changed on the way, as its checksum says.
    pub altered: bool,
}

impl FoundBy {
    /// What there is to say of `ledger`; `None` if it was opened by its own name.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(ledger: &Ledger) -> Result<Option<FoundBy>, SourceError> {
        let Some(found) = ledger.found() else { return Ok(None) };
        let (read, address, moment) = match &found.source {
            FoundIn::Itself { address } => (&found.image, Some(*address), Moment::OfImage),
            FoundIn::LiveFile(path) if ledger.is_running() => (path, None, Moment::Now),
            FoundIn::FinishedFile(path) if ledger.header().flags & (flag::SNAPSHOT | flag::COPY) != 0 => {
                (path, None, of_snapshot(ledger, found.written))
            }
            FoundIn::LiveFile(path) | FoundIn::FinishedFile(path) => {
                let ended_by = ledger.process().number(key::SIGNAL);
                let same = found.signal.is_some() && found.signal.map(u64::from) == ended_by;
                let moment = match went_on(ledger, found.written)? {
                    _ if same => Moment::Crash,
                    Some(later) => Moment::Later(later),
                    None => Moment::End,
                };
                (path, None, moment)
            }
        };
        Ok(Some(FoundBy {
            image: found.image.display().to_string(),
            is_core: found.is_core,
            read: read.display().to_string(),
            address,
            has_addresses: found.has_addresses,
            moment,
            cut: found.cut,
            altered: found.altered,
        }))
    }
}

/// When a snapshot was taken or a copy made, as seen from `written`.
fn of_snapshot(ledger: &Ledger, written: Option<SystemTime>) -> Moment {
    let taken = ledger.moment_unix_ns().and_then(|at| UNIX_EPOCH.checked_add(Duration::from_nanos(at)));
    match taken.zip(written).map(|(taken, written)| taken.duration_since(written)) {
        Some(Ok(after)) => Moment::SnapshotAfter(after),
        Some(Err(before)) => Moment::SnapshotBefore(before.duration()),
        None => Moment::Copied,
    }
}

/// How long the program went on recording after `written`.
fn went_on(ledger: &Ledger, written: Option<SystemTime>) -> Result<Option<Duration>, SourceError> {
    let header = ledger.current_header()?;
    let ticks = header.global(GlobalCounter::LastTime);
    let wall = ledger.process().number(key::WALL_NS).unwrap_or(0);
    let last = ticks.saturating_mul(u64::from(header.tick_ns)).max(wall);
    let last = UNIX_EPOCH.checked_add(Duration::from_nanos(header.start_unix_ns.saturating_add(last)));
    let known = header.start_unix_ns != 0 && header.tick_ns != 0;
    Ok(last.zip(written).filter(|_| known).and_then(|(last, written)| last.duration_since(written).ok()))
}
