//! A process that runs, compared with itself by something else than the call stack.

use anyhow::Result;
use heapledger_analysis::diff::GroupChange;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Evaluator, GroupOrder, Scope};
use heapledger_analysis::{Groups, Seen};
use heapledger_report::{Context, DiffGroups, DiffSide, group_label};

use super::{Followed, INTERVAL_STACKS, now_unix_ns};
use crate::commands::diff::DiffArgs;
use crate::commands::diff::group_by::GROUPS;
use crate::commands::present::Steps;
use crate::commands::{Opened, Progress, refresh};

/// What lived at a moment, group by group.
struct GroupsRead {
    groups: Groups,
    unix_ns: Option<u64>,
}

/// A process whose groups are compared.
pub(in crate::commands::diff) struct GroupsFollowed<'a> {
    args: &'a DiffArgs,
    opened: &'a Opened,
    context: Context,
    by: &'a [Field],
    filter: Evaluator<'a>,
    first: GroupsRead,
    last: Option<GroupsRead>,
}

impl<'a> GroupsFollowed<'a> {
    /// Begins with what lives now.
    pub(in crate::commands::diff) fn begin(
        args: &'a DiffArgs,
        opened: &'a Opened,
        by: &'a [Field],
    ) -> Result<GroupsFollowed<'a>> {
        by.iter().try_for_each(|by| by.check_in(&opened.ledger, Scope::Blocks))?;
        let mut filter = args.filter_for(opened, opened)?;
        let mut progress = Progress::new("reading");
        let first = read(args, opened, by, &mut filter, &mut |part| progress.show(part))?;
        Ok(GroupsFollowed { args, opened, context: opened.context.clone(), by, filter, first, last: None })
    }

    /// Hands out the comparison of two readings.
    fn report(
        &self,
        [before, after]: [&GroupsRead; 2],
        limit: usize,
        seen: &Seen,
        show: impl FnOnce(&mut DiffGroups<'_>) -> Result<()>,
    ) -> Result<()> {
        let changes = GroupChange::of(&before.groups, &after.groups, &|_, key| group_label(key, &self.context, true));
        let side = |reading: &GroupsRead| DiffSide {
            ledger: &self.context.ledger,
            unix_ns: reading.unix_ns,
            peak_error: None,
        };
        show(&mut DiffGroups {
            groups: [&before.groups, &after.groups],
            sides: [side(before), side(after)],
            one_run: true,
            by: self.by,
            shown: &GroupChange::largest(&changes, self.args.limit(limit)),
            all: changes.len() as u64,
            seen,
            paint: self.context.paint,
        })
    }
}

impl Followed for GroupsFollowed<'_> {
    fn step(&mut self, _: bool, out: &mut Steps<'_>) -> Result<()> {
        let now = read(self.args, self.opened, self.by, &mut self.filter, &mut |_| ())?;
        refresh(&self.opened.ledger, &mut self.context)?;
        let earlier = self.last.as_ref().unwrap_or(&self.first);
        self.report([earlier, &now], INTERVAL_STACKS, &Seen::default(), |report| out.step(report))?;
        self.last = Some(now);
        Ok(())
    }

    fn end(mut self, out: Steps<'_>) -> Result<()> {
        let end = match self.last.take() {
            Some(last) => last,
            None => read(self.args, self.opened, self.by, &mut self.filter, &mut |_| ())?,
        };
        refresh(&self.opened.ledger, &mut self.context)?;
        let mut seen = Seen::of(&self.opened.ledger, 0)?;
        seen.join(self.filter.names().notes());
        self.report([&self.first, &end], GROUPS, &seen, |report| out.end(report))
    }
}

fn read(
    args: &DiffArgs,
    opened: &Opened,
    by: &[Field],
    filter: &mut Evaluator<'_>,
    progress: &mut dyn FnMut(f32),
) -> Result<GroupsRead> {
    let unix_ns = now_unix_ns(&opened.ledger);
    let order = (&GroupOrder::default(), 0);
    let groups = Groups::of(&opened.ledger, by, filter, &args.filter.holders()?, order, progress)?;
    Ok(GroupsRead { groups, unix_ns })
}
