//! How the heap of a program that has ended grew.

use std::path::Path;
use std::time::SystemTime;

use heapledger_analysis::{Clock, HeapTimeline};
use heapledger_report::RunSparks;
use heapledger_source::Ledger;

/// A line of sparks; none, if nothing was noted, or the run was too short for a curve. Nothing else is lost with it. It is the finished
/// ledger that is asked, which may be the one that is `read`: in the unfinished one is what the recorder noted, and not what `run` saw from
/// outside.
pub(super) fn sparks(read: &Ledger, finished: &Path) -> Option<RunSparks> {
    let opened = if read.is_finished() { None } else { Some(Ledger::open(finished).ok()?) };
    let ledger = opened.as_ref().unwrap_or(read);
    let clock = Clock::new(ledger, SystemTime::now()).ok()?;
    RunSparks::of(&HeapTimeline::of(ledger, &clock).ok()?)
}
