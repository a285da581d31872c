//! `heapledger dump`: what is allocated, with the stacks that allocated it.

use std::ffi::OsStr;
use std::io::Write;

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{GroupBy, GroupOrder, Scope};
use heapledger_analysis::source::Ledger;
use heapledger_analysis::{Groups, NamedStack, Names, Seen, Selection, Sort};
use heapledger_report::ecos::{RecordsText, Shape};
use heapledger_report::{
    CONVERSIONS, Cell, Context, DumpJson, DumpText, Ending, Table, TableForm, block_cell, block_column, dump_begin,
    dump_end, dump_json_header, json_end,
};

use super::grouped::{self, Asked};
use super::shape::tell_ending;
use super::standard::{ExecutableArgs, FilterArgs, GroupArgs, SortArgs, TableArgs, Usage};
use super::{
    FramesArgs, LedgerArgs, LimitArgs, NamingArgs, Opened, Progress, ShapeArgs, find_names, refresh, shown_stack,
    unless_pipe_closed,
};

/// Arguments of `dump`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "heapledger dump [OPTIONS] [EXECUTABLE] <FILE|PID>")]
#[command(after_help = format!("\
Conversions of --format:
{CONVERSIONS}

Examples:
  heapledger dump heapledger.jq.4711.hl
  heapledger dump --sort size --limit 10 4711
  heapledger dump --where 'size >= 4K and fn ~ \"parse\" and age > 10s' 4711
  heapledger dump -Fthread=4 -Fsize_min=1024 -SNs heapledger.jq.4711.hl
  heapledger dump --group-by fn --top 10 4711                who holds what
  heapledger dump --group-by stack --where 'age > 1m' 4711   with call stacks
  heapledger dump --columns addr,size,thread,fn --sort size 4711
  heapledger dump -f '%p : %a %n bytes by %f1' heapledger.jq.4711.hl
  heapledger dump --json 4711 | jq -r 'select(.type == \"block\") | .size'"))]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) executable: ExecutableArgs,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) sort: SortArgs,
    #[command(flatten)]
    pub(crate) groups: GroupArgs,
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    #[command(flatten)]
    pub(crate) frames: FramesArgs,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
}

/// Shows the live blocks of a ledger.
pub(crate) fn run(mut args: DumpArgs) -> Result<()> {
    let ledger = args.executable.ledger(&args.ledger.ledger, &mut args.naming)?.to_owned();
    unless_pipe_closed(show(&args, &ledger))
}

fn show(args: &DumpArgs, ledger: &OsStr) -> Result<()> {
    // Mistakes are told before anything is read.
    args.filter.parse()?;
    let (by, columns) = (args.groups.by()?, args.groups.columns()?);
    let order = by.is_some().then(|| args.sort.groups()).transpose()?;
    if by.is_none() {
        args.sort.parse()?;
    }
    if args.shape.is_for_programs() && (by.is_some() || columns.is_some() || args.table.csv) {
        return Err(Usage::new("--format and --style are for single blocks, not for tables").into());
    }
    let opened = args.ledger.open_target(ledger)?;
    args.naming.check(&[&opened.ledger])?;
    args.frames.explain(&opened.ledger);
    let shape = args.shape.get(&opened.ledger)?;
    match (by, order, columns) {
        (Some(by), Some(order), _) => show_groups(args, opened, &by, &order),
        (_, _, Some(columns)) => show_table(args, opened, columns),
        _ if args.table.csv => {
            let columns = Field::usual_columns(&opened.ledger);
            show_table(args, opened, columns)
        }
        _ => show_blocks(args, opened, shape.as_ref()),
    }
}

/// The blocks to show, and the names found on the way.
fn select<'l>(args: &DumpArgs, ledger: &'l Ledger, context: &Context) -> Result<(Selection, Names<'l>)> {
    let mut keys = args.sort.get(ledger)?;
    if args.groups.top.is_some() && !args.sort.is_given() {
        keys = Sort::Size.into();
    }
    let for_programs = args.ledger.json || args.table.csv || args.shape.is_for_programs();
    let limit = args.groups.top.unwrap_or_else(|| args.limit.get(for_programs));
    let mut filter = args.filter.evaluator(ledger, context.clock, Scope::Blocks, args.naming.no_names(ledger)?)?;
    let mut progress = Progress::new("reading");
    let selection = Selection::matching(ledger, Some(&mut filter), &keys, limit, &mut |part| progress.show(part))?;
    let mut names = filter.into_names();
    names.pass_over(args.frames.passing());
    if selection.total == 0 {
        args.filter.tell_unknown(ledger, &mut names)?;
    }
    Ok((selection, names))
}

fn ending(selection: &Selection) -> Ending {
    let shown = selection.blocks.len() as u64;
    Ending { shown, left_out: selection.left_out(), in_flight: selection.in_flight }
}

fn show_blocks(args: &DumpArgs, opened: Opened, shape: Option<&Shape>) -> Result<()> {
    let Opened { ledger, mut context, threads_recorded, out } = opened;
    let (selection, mut names) = select(args, &ledger, &context)?;
    refresh(&ledger, &mut context)?;
    let named = shape.is_none_or(Shape::needs_names);
    let source_text = shape.is_none_or(Shape::needs_source_text);
    find_names(&mut names, selection.blocks.sites().filter(|_| named), source_text)?;
    let mut seen = Seen::of(&ledger, selection.in_flight)?;
    if args.ledger.json {
        let mut report = DumpJson::new(out, &context, &selection)?;
        for block in &selection.blocks {
            report.block(&block, &names.stack(block.site)?)?;
        }
        seen.notes.extend(names.notes());
        report.end(ending(&selection), &seen)?;
    } else if let Some(shape) = shape {
        let mut report = RecordsText::new(out.shaped(shape), &context, shape);
        for block in &selection.blocks {
            report.block(&block, &shown_stack(shape, &mut names, block.site)?)?;
        }
        report.end()?;
        seen.notes.extend(names.notes());
        tell_ending(ending(&selection), &seen);
    } else {
        let mut report = DumpText::new(out, &context, threads_recorded, &selection)?;
        for block in &selection.blocks {
            report.block(&block, &names.stack(block.site)?)?;
        }
        seen.notes.extend(names.notes());
        report.end(ending(&selection), &selection, &seen)?;
    }
    Ok(())
}

/// Blocks as a table.
fn show_table(args: &DumpArgs, opened: Opened, columns: Vec<Field>) -> Result<()> {
    let Opened { ledger, mut context, mut out, .. } = opened;
    columns.iter().try_for_each(|column| column.check(&ledger))?;
    let (selection, mut names) = select(args, &ledger, &context)?;
    refresh(&ledger, &mut context)?;
    let named = columns.iter().any(|column| column.needs_names());
    if named {
        find_names(&mut names, selection.blocks.sites(), false)?;
    }
    let mut seen = Seen::of(&ledger, selection.in_flight)?;
    let holders = args.filter.holders()?;
    let form = TableArgs::form(args.ledger.json, args.table.csv, "row", &context);
    match form {
        TableForm::Json(_) => dump_json_header(&mut out, &context, &selection)?,
        TableForm::Text(_) => dump_begin(&mut out, &context, &selection)?,
        TableForm::Csv => {}
    }
    let sampled = selection.sampled.is_some();
    let mut table = Table::new(out, form, columns.iter().map(|column| block_column(*column, sampled)).collect())?;
    for block in &selection.blocks {
        let stack = if named { names.stack(block.site)? } else { NamedStack::default() };
        let cells: Vec<Cell> =
            columns.iter().map(|column| block_cell(*column, &context, &holders, &block, &stack)).collect();
        table.row(&cells)?;
    }
    let mut out = table.end()?;
    seen.notes.extend(names.notes());
    let ending = ending(&selection);
    match form {
        TableForm::Json(_) => json_end(&mut out, ending, &seen)?,
        TableForm::Csv => {
            out.flush()?;
            tell_ending(ending, &seen);
        }
        TableForm::Text(_) => {
            if !selection.blocks.is_empty() {
                writeln!(out)?;
            }
            dump_end(out, &context, ending, &selection, &seen)?;
        }
    }
    Ok(())
}

/// Blocks, added up.
fn show_groups(args: &DumpArgs, opened: Opened, by: &[GroupBy], order: &GroupOrder) -> Result<()> {
    let DumpArgs { ledger, filter, groups, limit, table, naming, .. } = args;
    let asked = Asked { ledger, filter, groups, limit, table, naming };
    grouped::show(&asked, opened, (by, Scope::Blocks), |ledger, filter, holders, limit, progress| {
        Groups::of(ledger, by, filter, holders, (order, limit), progress)
    })
}
