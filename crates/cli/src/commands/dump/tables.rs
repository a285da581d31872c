//! Blocks as a table, or added up.

use std::io::{self, IsTerminal};

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{GroupOrder, Scope};
use heapledger_analysis::tree::{Measure, SiteSums, Threads};
use heapledger_analysis::{Groups, Seen};
use heapledger_report::{BlockTable, Form};

use super::{DumpArgs, select};
use crate::commands::grouped::{self, Asked};
use crate::commands::not_said::{not_said, only_of_all};
use crate::commands::standard::Usage;
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

/// Blocks as a table of what is usually asked for.
pub(super) fn usual(args: &DumpArgs, opened: Opened) -> Result<()> {
    let columns = Field::usual_columns(&opened.ledger);
    table(args, opened, &columns)
}

/// Blocks, added up.
pub(super) fn groups(args: &DumpArgs, opened: Opened, by: &[Field], order: &GroupOrder) -> Result<()> {
    let DumpArgs { ledger, filter, groups, limit, form, naming, figure, .. } = args;
    let measure = figure.measure()?;
    figure.at.of_one_process()?;
    let is_of_sums = !matches!(measure, Measure::LiveBytes | Measure::LiveBlocks);
    let by_blocks = GroupOrder::by_blocks();
    let by_blocks = if args.sort.is_reversed() { by_blocks.reversed() } else { by_blocks };
    let order = if args.sort.is_given() || measure.is_bytes() { order } else { &by_blocks };
    let asked = Asked { ledger, filter, groups, limit, form: form.get(), naming };
    if is_of_sums {
        if !filter.parse()?.is_all() {
            return Err(only_of_all(measure).into());
        }
        if let Some(other) = by.iter().find(|field| !field.needs_names()) {
            let name = other.name();
            return Err(Usage::new(format!(
                "figures of the whole run and of the peak are known by fn, file, module or stack, not by {name}"
            ))
            .into());
        }
        let sums = SiteSums::of(&opened.ledger, Threads::Together, None, &mut |_| {})?;
        if !sums.is_whole {
            return Err(not_said(measure));
        }
        figure.check(&sums)?;
        return grouped::show(&asked, opened, (by, Scope::Blocks), |_, filter, holders, limit, progress| {
            Groups::of_sums((&sums, measure, figure.lifetimes()), by, filter, holders, (order, limit), progress)
        });
    }
    grouped::show(&asked, opened, (by, Scope::Blocks), |ledger, filter, holders, limit, progress| {
        Groups::of(ledger, by, filter, holders, (order, limit), progress)
    })
}

/// Whether functions are shown in place of blocks: a person who asks for nothing in particular wants to know who holds the memory, not
/// where each block lies.
pub(super) fn begins_with_groups(args: &DumpArgs) -> bool {
    let asks = args.blocks || args.limit.limit.is_some() || args.groups.top.is_some() || args.sort.is_given();
    !asks && *args.form.get() == Form::Text && io::stdout().is_terminal()
}

/// Blocks by function, and how each is seen by itself.
pub(super) fn groups_first(args: &DumpArgs, opened: Opened) -> Result<()> {
    groups(args, opened, &[Field::Function], &args.sort.groups()?)?;
    crate::say("that is who holds them; --blocks shows each block by itself, with its stack");
    Ok(())
}
