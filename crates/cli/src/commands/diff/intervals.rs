//! A process that runs, compared with itself by something else than the call stack.

use std::ffi::OsStr;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use heapledger_analysis::diff::GroupChange;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Evaluator, GroupOrder, Scope};
use heapledger_analysis::{Groups, Seen};
use heapledger_report::{
    Context, DiffGroups, DiffGroupsCsv, DiffSide, Form, diff_groups_end, diff_groups_header, diff_groups_interval,
    group_label,
};

use super::groups::{GROUPS, shown};
use super::watch::{STACKS, Told, unix_now};
use super::{DiffArgs, add_notes, moment_of, must_run};
use crate::commands::form::{tell_notes, unwritten};
use crate::commands::{Opened, Progress, refresh};
use crate::terminal::Output;

/// What lived at a moment.
struct IntervalReading {
    groups: Groups,
    unix_ns: Option<u64>,
}

/// Two readings, and what all comparisons of a process with itself have in common.
struct Readings<'a> {
    args: &'a DiffArgs,
    by: &'a [Field],
    context: &'a Context,
}

impl Readings<'_> {
    /// Hands out the comparison of two readings.
    fn show<T>(
        &self,
        [before, after]: [&IntervalReading; 2],
        limit: usize,
        seen: &Seen,
        write: impl FnOnce(&mut DiffGroups<'_>) -> Result<T>,
    ) -> Result<T> {
        let changes = GroupChange::of(&before.groups, &after.groups, &|_, key| group_label(key, self.context, true));
        let side = |reading: &IntervalReading| DiffSide { ledger: &self.context.ledger, unix_ns: reading.unix_ns };
        let mut report = DiffGroups {
            groups: [&before.groups, &after.groups],
            sides: [side(before), side(after)],
            one_run: true,
            by: self.by,
            shown: &shown(&changes, self.args.limit(limit)),
            all: changes.len() as u64,
            seen,
            paint: self.context.paint,
        };
        write(&mut report)
    }
}

/// Where intervals go.
enum Intervals {
    Csv(DiffGroupsCsv<Output>),
    Other(Output),
}

/// Compares `target` with itself, again and again, and in the end with its beginning.
pub(super) fn run(args: &DiffArgs, target: &OsStr, interval: Duration, by: &[Field]) -> Result<()> {
    let opened = args.open(target)?;
    must_run(&opened.ledger, &opened.context.ledger)?;
    args.naming.check(&[&opened.ledger])?;
    by.iter().try_for_each(|by| by.check_in(&opened.ledger, Scope::Blocks))?;
    let mut filter = args.filter_for(&opened, &opened)?;
    let mut context = opened.context.clone();
    let told = Told::listen()?;
    let mut progress = Progress::new("reading");
    let first = read(args, &opened, by, &mut filter, &mut |part| progress.show(part))?;
    drop(progress);
    // With nothing in between there is no need for a second one.
    let steps = args.every.is_some();
    let count = args.count.filter(|_| steps).unwrap_or(if steps { u64::MAX } else { 1 });
    let form = args.form.get();
    let mut out: Option<Intervals> = None;
    let mut last: Option<IntervalReading> = None;
    let (mut due, mut done) = (Instant::now(), 0);
    while done < count {
        // Readings that take longer than an interval are not made up for.
        due = (due + interval).max(Instant::now());
        let whole = told.wait_until(due, || opened.ledger.is_running());
        if !steps {
            break;
        }
        let now = read(args, &opened, by, &mut filter, &mut |_| ())?;
        refresh(&opened.ledger, &mut context)?;
        let comparison = Readings { args, by, context: &context };
        let earlier = last.as_ref().unwrap_or(&first);
        comparison.show([earlier, &now], STACKS, &Seen::default(), |report| step(args, form, &mut out, report))?;
        done += 1;
        last = Some(now);
        if !whole {
            break;
        }
    }
    drop(told);
    let end = match last {
        Some(last) => last,
        None => read(args, &opened, by, &mut filter, &mut |_| ())?,
    };
    refresh(&opened.ledger, &mut context)?;
    let mut seen = Seen::of(&opened.ledger, 0)?;
    add_notes(&mut seen, filter.into_names().notes());
    let comparison = Readings { args, by, context: &context };
    match out {
        // The intervals are the table: one more row for all of them would count twice in any sum.
        Some(Intervals::Csv(_)) => tell_notes(&seen),
        Some(Intervals::Other(mut out)) => comparison.show([&first, &end], GROUPS, &seen, |report| {
            if *form == Form::Text {
                writeln!(out, "In all:")?;
            }
            diff_groups_end(&mut out, form, report).map_err(unwritten)
        })?,
        None => comparison.show([&first, &end], GROUPS, &seen, |report| args.view.present(form, report))?,
    }
    Ok(())
}

fn read(
    args: &DiffArgs,
    opened: &Opened,
    by: &[Field],
    filter: &mut Evaluator<'_>,
    progress: &mut dyn FnMut(f32),
) -> Result<IntervalReading> {
    let unix_ns = moment_of(&opened.ledger, SystemTime::now()).or_else(unix_now);
    let order = (&GroupOrder::default(), 0);
    let groups = Groups::of(&opened.ledger, by, filter, &args.filter.holders()?, order, progress)?;
    Ok(IntervalReading { groups, unix_ns })
}

/// Writes an interval. The first one opens the output: its text goes through no pager, it comes bit by bit.
fn step(args: &DiffArgs, form: &Form, out: &mut Option<Intervals>, report: &DiffGroups<'_>) -> Result<()> {
    let out = match out {
        Some(out) => out,
        empty => {
            let mut new = args.view.output(form, false);
            if *form == Form::Json {
                diff_groups_header(&mut new, report)?;
            }
            empty.insert(match form {
                Form::Csv => Intervals::Csv(DiffGroupsCsv::new(new, report)?),
                _ => Intervals::Other(new),
            })
        }
    };
    match out {
        Intervals::Csv(csv) => Ok(csv.interval(report)?),
        Intervals::Other(out) => diff_groups_interval(out, form, report).map_err(unwritten),
    }
}
