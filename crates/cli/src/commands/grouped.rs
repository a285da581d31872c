//! Blocks or events, added up: what `dump` and `history` do alike.

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Evaluator, Scope};
use heapledger_analysis::{Groups, Holders, Seen};
use heapledger_report::{Form, GroupsReport};
use heapledger_source::{Ledger, SourceError};

use super::standard::{FilterArgs, GroupArgs};
use super::{LedgerArgs, LimitArgs, NamingArgs, Opened, Progress, SourceText, find_names, refresh};

/// Groups shown to a person who did not say how many.
const GROUPS: usize = 20;

/// The arguments that both have.
pub(super) struct Asked<'a> {
    pub(super) ledger: &'a LedgerArgs,
    pub(super) filter: &'a FilterArgs,
    pub(super) groups: &'a GroupArgs,
    pub(super) limit: &'a LimitArgs,
    pub(super) form: &'a Form,
    pub(super) naming: &'a NamingArgs,
}

/// Shows the groups that `add` gives, of at most so many.
pub(super) fn show(
    args: &Asked<'_>,
    opened: Opened,
    (by, scope): (&[Field], Scope),
    add: impl FnOnce(&Ledger, &mut Evaluator<'_>, &Holders, usize, &mut dyn FnMut(f32)) -> Result<Groups, SourceError>,
) -> Result<()> {
    let Opened { ledger, mut context, .. } = opened;
    by.iter().try_for_each(|by| by.check_in(&ledger, scope))?;
    let holders = args.filter.holders()?;
    let limit = args.groups.top.or(args.limit.limit).unwrap_or(if args.form.is_for_programs() { 0 } else { GROUPS });
    let mut filter = args.filter.evaluator(&ledger, context.clock, scope, args.naming.no_names(&ledger)?)?;
    let mut progress = Progress::new("reading");
    let groups = add(&ledger, &mut filter, &holders, limit, &mut |part| progress.show(part))?;
    drop(progress);
    refresh(&ledger, &mut context)?;
    let mut names = filter.into_names();
    if groups.total == 0 {
        args.filter.tell_unknown(&ledger, &mut names)?;
    }
    let mut stacks = Vec::new();
    if *args.form == Form::Json || by.contains(&Field::Stack) {
        find_names(&mut names, groups.groups.iter().map(|group| group.site), SourceText::Shown)?;
        stacks = groups.groups.iter().map(|group| names.stack(group.site)).collect::<Result<_, _>>()?;
    }
    let mut seen = Seen::of(&ledger, groups.in_flight)?;
    seen.notes.extend(names.notes());
    let mut report = GroupsReport { context: &context, groups: &groups, stacks: &stacks, seen: &seen };
    args.ledger.view.present(args.form, &mut report)
}
