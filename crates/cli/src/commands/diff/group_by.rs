//! Sums of two ledgers by something else than the call stack.

use std::time::SystemTime;

use anyhow::{Context, Result};
use heapledger_analysis::diff::{GroupChange, moment_unix_ns};
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{GroupOrder, Scope};
use heapledger_analysis::{Groups, Seen};
use heapledger_report::{DiffGroups, DiffSide, group_label};

use super::{DiffArgs, Usage, tell_unknown};
use crate::commands::{Opened, Progress, refresh};

/// Groups of each list that are shown to a person who did not say how many.
pub(super) const GROUPS: usize = 20;

/// What sums are made by, if not by call stack.
pub(super) fn by(args: &DiffArgs) -> Result<Option<Vec<Field>>> {
    let Some(text) = &args.group_by else {
        if args.form.is_csv() {
            return Err(Usage::new("--csv is for tables: add --group-by").into());
        }
        return Ok(None);
    };
    let by = Field::parse_groups(text).map_err(|error| Usage::in_value("--group-by", &error))?;
    match by.as_slice() {
        [Field::Stack] if !args.form.is_csv() => Ok(None),
        by if by.contains(&Field::Stack) => {
            Err(Usage::new("--group-by: stacks are compared alone, and not as a table").into())
        }
        _ => Ok(Some(by)),
    }
}

/// Compares two ledgers.
pub(super) fn compare(args: &DiffArgs, opened: &[Opened; 2], one_run: bool, by: &[Field]) -> Result<()> {
    let mut seen = Seen::default();
    let mut both = Vec::new();
    let (mut moments, mut unknown) = ([None; 2], [Vec::new(), Vec::new()]);
    let mut progress = Progress::new("reading");
    for (side, here) in opened.iter().enumerate() {
        by.iter()
            .try_for_each(|by| by.check_in(&here.ledger, Scope::Blocks))
            .with_context(|| here.context.ledger.clone())?;
        moments[side] = moment_unix_ns(&here.ledger, SystemTime::now());
        // What is so many seconds old is the same block in both, if it is one.
        let at = if one_run { &opened[1] } else { here };
        let mut filter = args.filter_for(here, at)?;
        let order = (&GroupOrder::default(), 0);
        let mut show = |part: f32| progress.show((side as f32 + part) / 2.0);
        both.push(Groups::of(&here.ledger, by, &mut filter, &args.filter.holders()?, order, &mut show)?);
        if both.iter().all(|groups| groups.total == 0) {
            unknown[side] = args.filter.unknown(&here.ledger, filter.names())?;
        }
        seen.join(Seen::of(&here.ledger, 0)?.notes);
        seen.join(filter.into_names().notes());
    }
    drop(progress);
    let [a, b] = both.as_slice() else { return Ok(()) };
    tell_unknown(&unknown);
    let mut contexts = opened.each_ref().map(|opened| opened.context.clone());
    for (context, here) in contexts.iter_mut().zip(opened) {
        refresh(&here.ledger, context)?;
    }
    let changes = GroupChange::of(a, b, &|side, key| group_label(key, &contexts[side.min(1)], one_run));
    let shown = &GroupChange::largest(&changes, args.limit(GROUPS));
    let sides = [0, 1].map(|side: usize| DiffSide {
        ledger: &opened[side].context.ledger,
        unix_ns: moments[side],
        peak_error: None,
    });
    let groups = [a, b];
    let (all, paint, seen) = (changes.len() as u64, contexts[1].paint, &seen);
    args.view.present(args.form.get(), &mut DiffGroups { groups, sides, one_run, by, shown, all, seen, paint })
}
