//! A process that runs, compared with itself.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use heapledger_analysis::diff::{Census, Diff};
use heapledger_report::{DiffSide, growth_counted, moment, span};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::{ChangeNames, Comparison, DiffArgs, grouped, moment_of, must_run, shown};
use crate::commands::Progress;
use heapledger_launch::startup;

/// How often we look whether the process is still there.
const LOOK: Duration = Duration::from_millis(100);
/// Stacks shown of an interval to a person who did not say how many.
pub(super) const STACKS: usize = 5;

/// Compares `target` with itself, again and again, and in the end with its beginning.
pub(super) fn run(args: &DiffArgs, target: &OsStr, interval: Duration) -> Result<()> {
    let opened = args.open(target)?;
    let (ledger, name) = (&opened.ledger, opened.context.ledger.as_str());
    must_run(ledger, name)?;
    args.naming.check(&[ledger])?;
    let mut filter = args.filter_for(&opened, &opened)?;
    let mut names = ChangeNames { names: [args.names(ledger)?, args.names(ledger)?] };
    let told = Told::listen()?;
    let mut progress = Progress::new("reading");
    let began = moment_of(ledger, SystemTime::now());
    filter.prepare_blocks(&mut |_| ())?;
    let first = Census::of(ledger, Some(&mut filter), true, &mut |part| progress.show(part))?;
    drop(progress);
    // With nothing in between there is no need for a second one.
    let steps = args.every.is_some();
    let count = args.count.filter(|_| steps).unwrap_or(if steps { u64::MAX } else { 1 });
    let mut last: Option<(Census, Option<u64>)> = None;
    // Its text goes through no pager: it comes bit by bit.
    let mut report: Option<Comparison> = None;
    let start = Instant::now();
    let mut done = 0;
    let mut due = start;
    while done < count {
        // Readings that take longer than an interval are not made up for.
        due = (due + interval).max(Instant::now());
        let whole = told.wait_until(due, || ledger.is_running());
        let is_last = !whole || done + 1 == count;
        if is_last && !steps {
            break;
        }
        let now = moment_of(ledger, SystemTime::now()).or_else(unix_now);
        let (earlier, since) = last.as_ref().map_or((&first, began), |(census, moment)| (census, *moment));
        let (diff, later) = Diff::since(earlier, ledger, Some(&mut filter), !is_last, &mut |_| ())?;
        let report = match &mut report {
            Some(report) => report,
            empty => empty.insert(Comparison::new(
                args,
                args.view.output(args.form.get(), false),
                &diff,
                [name, name],
                opened.context.paint,
                &filter,
            )?),
        };
        step(args, name, &diff, [since, now], &mut names, report)?;
        done += 1;
        last = Some((later, now));
        if !whole {
            break;
        }
    }
    drop(told);
    let (diff, _) = Diff::since(&first, ledger, Some(&mut filter), false, &mut |_| ())?;
    let ended = moment_of(ledger, SystemTime::now()).or_else(unix_now);
    let mut report = match report {
        Some(report) => report,
        None => Comparison::new(
            args,
            args.view.output(args.form.get(), false),
            &diff,
            [name, name],
            opened.context.paint,
            &filter,
        )?,
    };
    if let Comparison::Text(text) = &mut report
        && done > 0
    {
        text.line("In all:")?;
    }
    let sides = [DiffSide { ledger: name, unix_ns: began }, DiffSide { ledger: name, unix_ns: ended }];
    report.totals(&diff, sides)?;
    grouped(args, [ledger, ledger], &diff, &mut names, report)
}

pub(super) fn unix_now() -> Option<u64> {
    let now = SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(now.as_nanos()).ok()
}

/// What grew in one interval: a line, and a line for each stack.
fn step(
    args: &DiffArgs,
    ledger: &str,
    diff: &Diff,
    moments: [Option<u64>; 2],
    names: &mut ChangeNames<'_>,
    report: &mut Comparison,
) -> Result<()> {
    let lists = shown(diff, args.limit(STACKS));
    names.find(&lists, args.form.is_json())?;
    match report {
        Comparison::Json(json) => {
            let sides = moments.map(|unix_ns| DiffSide { ledger, unix_ns });
            json.totals(diff, sides, false)?;
            for change in lists.iter().flatten() {
                json.change(change, &names.stack(change)?)?;
            }
            json.flush()?;
        }
        Comparison::Text(text) => {
            let length = moments[0].zip(moments[1]).map_or(0, |(from, to)| to.saturating_sub(from));
            let when = moments[1].map(moment).unwrap_or_default();
            let mark = if diff.is_estimated() { "~" } else { "" };
            let count = |amount: Option<heapledger_analysis::Estimate>| {
                heapledger_report::count(amount.unwrap_or_default().blocks)
            };
            let (new, freed) = (count(diff.born), count(diff.freed));
            let (bytes, blocks) = (text.growth(diff), growth_counted(diff.blocks(), "block", "blocks"));
            let line =
                format!("{when}  {bytes}, {mark}{blocks} in {} ({mark}{new} new, {mark}{freed} freed)", span(length));
            text.line(&line)?;
            text.align(lists.iter().flatten().copied());
            for change in lists.iter().flatten() {
                text.change(change, &names.stack(change)?, args.frames.is_some())?;
            }
            text.line("")?;
        }
    }
    Ok(())
}

/// Hears when a person wants an end, and sleeps until then.
pub(super) struct Told {
    signals: SignalFd,
    set: SigSet,
}

impl Told {
    pub(super) fn listen() -> Result<Told> {
        let mut set = SigSet::empty();
        let wanted = [Signal::SIGINT, Signal::SIGTERM].into_iter();
        wanted.filter(|signal| !startup::was_ignored(*signal as i32)).for_each(|signal| set.add(signal));
        set.thread_block().context("cannot block signals")?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Told { signals: SignalFd::with_flags(&set, flags).context("cannot open a descriptor for signals")?, set })
    }

    /// Sleeps; false if it was told to end, or if `runs` has become false.
    pub(super) fn wait_until(&self, due: Instant, runs: impl Fn() -> bool) -> bool {
        loop {
            if matches!(self.signals.read_signal(), Ok(Some(_))) || !runs() {
                return false;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            // Whole milliseconds, and not none: that would be no sleep at all.
            let sleep = left.min(LOOK).max(Duration::from_millis(1));
            let mut descriptors = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            // Interrupted, or nothing in time: looked at again above.
            let _ = poll(&mut descriptors, PollTimeout::try_from(sleep).unwrap_or(PollTimeout::MAX));
        }
    }
}

impl Drop for Told {
    /// Who presses Ctrl-C once more does not want to wait for the last report either.
    fn drop(&mut self) {
        let _ = self.set.thread_unblock();
    }
}
