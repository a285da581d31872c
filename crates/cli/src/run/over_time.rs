//! How the heap grew, for the summary of `run`.

use heapledger_analysis::{Clock, HeapTimeline};
use heapledger_report::RunSparks;
use heapledger_source::Ledger;

/// A line of sparks; none, if nothing was noted, or the run was too short for a curve. Nothing else is lost with it.
pub(super) fn sparks(ledger: &Ledger, clock: &Clock) -> Option<RunSparks> {
    RunSparks::of(&HeapTimeline::of(ledger, clock).ok()?)
}
