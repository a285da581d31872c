//! A process that runs, compared with itself: again and again, and in the end with its beginning.

use std::ffi::OsStr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use heapledger_analysis::diff::moment_unix_ns;
use heapledger_source::Ledger;

use super::DiffArgs;
use crate::commands::Opened;
use crate::commands::present::Steps;
use crate::terminal::Told;

mod groups;
mod stacks;

pub(super) use groups::GroupsFollowed;
pub(super) use stacks::StacksFollowed;

/// Stacks or groups shown of an interval to a person who did not say how many.
const INTERVAL_STACKS: usize = 5;

/// What is compared again and again.
pub(super) trait Followed {
    /// Reads it again, and shows what grew since the last time. `is_last`: no other such step follows.
    fn step(&mut self, is_last: bool, out: &mut Steps<'_>) -> Result<()>;

    /// Shows what grew since the beginning.
    fn end(self, out: Steps<'_>) -> Result<()>;
}

/// Opens a process that is to be compared with itself. What nobody writes any more is refused.
pub(super) fn open(args: &DiffArgs, target: &OsStr) -> Result<Opened> {
    let opened = args.open(target)?;
    if !opened.ledger.is_running() {
        bail!("{} has ended: there is nothing to wait for", opened.context.ledger);
    }
    args.naming.check(&[&opened.ledger])?;
    Ok(opened)
}

/// Compares it so often with itself as it was when `begin` read it.
pub(super) fn follow<F: Followed>(
    args: &DiffArgs,
    ledger: &Ledger,
    interval: Duration,
    begin: impl FnOnce() -> Result<F>,
) -> Result<()> {
    let told = Told::listen()?;
    let mut followed = begin()?;
    let mut out = Steps::new(args.form.get(), &args.view);
    // With nothing in between there is no need for a second one.
    let count = if args.every.is_some() { args.count.unwrap_or(u64::MAX) } else { 1 };
    let (mut due, mut done) = (Instant::now(), 0);
    while done < count {
        // Readings that take longer than an interval are not made up for.
        due = (due + interval).max(Instant::now());
        let whole = told.wait_until(due, || ledger.is_running());
        if args.every.is_none() {
            break;
        }
        followed.step(!whole || done + 1 == count, &mut out)?;
        done += 1;
        if !whole {
            break;
        }
    }
    drop(told);
    followed.end(out)
}

/// The moment that a ledger tells of; now, if it does not tell.
fn now_unix_ns(ledger: &Ledger) -> Option<u64> {
    let now = SystemTime::now();
    let since_1970 = || u64::try_from(now.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok();
    moment_unix_ns(ledger, now).or_else(since_1970)
}
