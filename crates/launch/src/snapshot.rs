//! Copies of a ledger that is being written: while its program goes on, or while it is held.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::id;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heapledger_source::{Ledger, Meanwhile, Snapshot};
use thiserror::Error;

use crate::LaunchError;
use crate::finish::plain;
use crate::freeze::{HeldProcess, HoldError, Trace};

/// How often a process is held anew if a call was in the middle of an entry after all.
const HOLDS: u32 = 4;
/// How often threads that sleep are left alone. If one of them woke each time, all are interrupted.
const QUIET_HOLDS: u32 = 3;
/// Between two holds for a call that is in the middle of an entry.
const PAUSE: Duration = Duration::from_millis(1);
/// For tests: `interrupt` interrupts all threads at once, also those that sleep.
const HOW: &str = "HEAPLEDGER_FREEZE";

/// Why no copy was made.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// It cannot be read or written.
    #[error(transparent)]
    Copy(#[from] LaunchError),
    /// The process cannot be held.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// The process is this one.
    #[error("a process cannot hold itself")]
    Itself,
}

/// Copies `live` to `raw` while its program goes on. What goes wrong is said of `wanted`.
///
/// # Errors
/// If it cannot be read or written.
pub fn copy(live: &Ledger, raw: &Path, wanted: &Path) -> Result<Snapshot, SnapshotError> {
    made(live, raw, wanted, Meanwhile::Runs)
}

/// Copies `live` to `raw` while its program stands: process `asked`, or the one that the ledger names.
///
/// # Errors
/// If it cannot be held, or the ledger cannot be read or written.
pub fn held_copy(live: &Ledger, raw: &Path, wanted: &Path, asked: Option<i32>) -> Result<Snapshot, SnapshotError> {
    let pid = asked.or_else(|| live.process().pid().and_then(|pid| pid.try_into().ok()));
    let Some(pid) = pid.filter(|_| live.is_running()) else {
        // It has ended: nobody writes any more.
        return made(live, raw, wanted, Meanwhile::Held);
    };
    if pid == id() as i32 {
        return Err(SnapshotError::Itself);
    }
    let mut longest = 0u64;
    let (mut tries, mut quiet) = (0, 0);
    let mut trace = Trace::Awake(BTreeSet::new());
    if std::env::var_os(HOW).is_some_and(|how| how == "interrupt") {
        trace = Trace::All;
    }
    loop {
        let held = HeldProcess::hold(pid, &trace)?;
        let mut snapshot = made(live, raw, wanted, Meanwhile::Held)?;
        let span = u64::try_from(held.span().as_nanos()).unwrap_or(u64::MAX);
        let woken = held.woken();
        drop(held);
        longest = longest.max(span);
        if !woken.is_empty() {
            quiet += 1;
            match &mut trace {
                Trace::Awake(but) if quiet < QUIET_HOLDS => but.extend(woken),
                _ => trace = Trace::All,
            }
            continue;
        }
        tries += 1;
        let unsettled = snapshot.unsettled.unwrap_or(0);
        if unsettled == 0 || tries == HOLDS {
            snapshot.taken.held_ns = Some(longest);
            // Entered in the totals and not in a record yet, or the other way round.
            snapshot.taken.in_flight = u64::try_from(unsettled).unwrap_or(0);
            return Ok(snapshot);
        }
        // A call was in the middle of an entry where it could not be told, in a signal handler for instance.
        drop(snapshot);
        sleep(PAUSE);
    }
}

fn made(live: &Ledger, raw: &Path, wanted: &Path, program: Meanwhile) -> Result<Snapshot, SnapshotError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    Snapshot::copy(live, raw, now, program).map_err(|error| plain(error, wanted).into())
}
