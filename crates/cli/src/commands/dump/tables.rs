//! Blocks as a table, or added up.

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{GroupOrder, Scope};
use heapledger_analysis::{Groups, Seen};
use heapledger_report::BlockTable;

use super::{DumpArgs, select};
use crate::commands::grouped::{self, Asked};
use crate::commands::{Opened, SourceText, find_names, refresh};

/// Blocks as a table.
pub(super) fn table(args: &DumpArgs, opened: Opened, columns: &[Field]) -> Result<()> {
    let Opened { ledger, mut context, .. } = opened;
    columns.iter().try_for_each(|column| column.check(&ledger))?;
    let (selection, mut names) = select(args, &ledger, &context)?;
    refresh(&ledger, &mut context)?;
    if columns.iter().any(|column| column.needs_names()) {
        find_names(&mut names, selection.blocks.sites(), SourceText::NotShown)?;
    }
    let (seen, holders) = (Seen::of(&ledger, selection.in_flight)?, args.filter.holders()?);
    let (context, selection) = (&context, &selection);
    let mut report = BlockTable { context, columns, holders: &holders, selection, names: &mut names, seen };
    args.ledger.view.present(args.form.get(), &mut report)
}

/// Blocks, added up.
pub(super) fn groups(args: &DumpArgs, opened: Opened, by: &[Field], order: &GroupOrder) -> Result<()> {
    let DumpArgs { ledger, filter, groups, limit, form, naming, .. } = args;
    let asked = Asked { ledger, filter, groups, limit, form: form.get(), naming };
    grouped::show(&asked, opened, (by, Scope::Blocks), |ledger, filter, holders, limit, progress| {
        Groups::of(ledger, by, filter, holders, (order, limit), progress)
    })
}
