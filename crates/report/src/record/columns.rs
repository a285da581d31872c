//! Live blocks as a table, with the columns that somebody asks for.

use heapledger_analysis::fields::{Field, Unit};
use heapledger_analysis::query::{GroupBy, Subject};
use heapledger_analysis::{GroupKey, Holders, NamedFrame, NamedStack};
use heapledger_format::Entry;

use crate::record::frames::short_name;
use crate::{Cell, Column, Context};

/// The column of a table of blocks. What one stands for is an estimate if they are samples.
pub(crate) fn block_column(column: Field, sampled: bool) -> Column {
    let name = column.name();
    match column.unit() {
        Unit::Address | Unit::Kind | Unit::YesNo | Unit::Event => Column::word(name),
        Unit::Thread | Unit::Heap | Unit::Function | Unit::File | Unit::Module | Unit::Stack => Column::text(name),
        Unit::Weight => Column::number(name).estimated(sampled),
        Unit::Time | Unit::Age | Unit::Span => Column::number(name).key(format!("{name}_ns")),
        Unit::Bytes | Unit::Number => Column::number(name),
    }
}

/// What stands at a column for a block.
pub(crate) fn block_cell(
    column: Field,
    context: &Context,
    holders: &Holders,
    block: &Entry,
    stack: &NamedStack,
) -> Cell {
    let figure = column.figure(&Subject::live(block));
    let ns = |ticks: u64| context.clock.ns(ticks);
    let holder = || holders.holder(stack);
    let text = |text: Option<String>| text.map_or(Cell::Nothing, Cell::Text);
    match column.unit() {
        Unit::Address => Cell::maybe(figure, Cell::Address),
        Unit::Bytes => Cell::maybe(figure, Cell::Bytes),
        Unit::Number => Cell::maybe(figure, Cell::Plain),
        Unit::Time => match figure.and_then(ns) {
            Some(ns) => Cell::Clock(ns),
            None => text(figure.map(|ticks| format!("{ticks} ticks"))),
        },
        Unit::Age => Cell::maybe(figure.and_then(|ticks| context.clock.age_ns(ticks)), Cell::Span),
        Unit::Span => Cell::maybe(figure.and_then(ns), Cell::Span),
        Unit::Thread => block.thread.map_or(Cell::Nothing, |row| thread_cell(context, row)),
        Unit::Kind => Cell::Text(block.kind.to_string()),
        Unit::Heap => block.heap.map_or(Cell::Nothing, |row| heap_cell(context, row)),
        Unit::Weight => Cell::Count(context.sampling.weight(block)),
        Unit::Function => text(holder().map(short_name)),
        Unit::File => text(holder().and_then(place)),
        Unit::Module => text(holder().and_then(|frame| frame.module.as_deref().map(str::to_owned))),
        Unit::Stack => text(Some(folded(stack)).filter(|folded| !folded.is_empty())),
        // Of events only, which know it.
        Unit::YesNo | Unit::Event => Cell::Nothing,
    }
}

/// All functions of a stack in a line, innermost first.
pub(crate) fn folded(stack: &NamedStack) -> String {
    stack.frames.iter().map(short_name).collect::<Vec<_>>().join(" < ")
}

/// `parse.c:120`.
fn place(frame: &NamedFrame) -> Option<String> {
    let file = frame.file.as_deref()?;
    Some(frame.line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}")))
}

/// `3 worker-3`.
fn thread_cell(context: &Context, row: u32) -> Cell {
    Cell::Named(row, context.threads.get(&row).map(|thread| thread.name.clone()).unwrap_or_default())
}

fn heap_cell(context: &Context, row: u8) -> Cell {
    let row = u32::from(row);
    Cell::Named(row, context.heaps.get(&row).map(|heap| heap.name.clone()).unwrap_or_default())
}

/// The column of a table of groups.
pub(crate) fn group_column(by: GroupBy) -> Column {
    match by {
        GroupBy::Size => Column::number("size"),
        GroupBy::Kind | GroupBy::Event => Column::word(by.name()),
        GroupBy::Function => Column::text("function"),
        _ => Column::text(by.name()),
    }
}

/// What the blocks of a group have in common, in a cell.
pub(crate) fn group_cell(key: &GroupKey, context: &Context) -> Cell {
    let unnamed = |what: &str| Cell::Text(format!("({what})"));
    match key {
        GroupKey::Function { name: Some(name), .. } => Cell::Text(name.to_string()),
        GroupKey::Function { name: None, module: Some(module) } => {
            Cell::Text(format!("{} (no symbols)", module.rsplit('/').next().unwrap_or(module)))
        }
        GroupKey::Function { .. } => unnamed("unknown code"),
        GroupKey::File(file) => {
            file.as_ref().map_or_else(|| unnamed("no source file known"), |file| Cell::Text(file.to_string()))
        }
        GroupKey::Module(module) => {
            module.as_ref().map_or_else(|| unnamed("unknown code"), |module| Cell::Text(module.to_string()))
        }
        GroupKey::Stack(site) => Cell::Plain(u64::from(*site)),
        GroupKey::Thread(row) => row.map_or_else(|| unnamed("a thread without a row"), |row| thread_cell(context, row)),
        GroupKey::Size(size) => Cell::maybe(*size, Cell::Bytes),
        GroupKey::Kind(kind) => Cell::Text(kind.to_string()),
        GroupKey::Heap(row) => row.map_or(Cell::Nothing, |row| heap_cell(context, row)),
        GroupKey::Event { free } => Cell::Text(if *free { "free" } else { "allocation" }.to_owned()),
    }
}
