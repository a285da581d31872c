//! Live blocks as a table, with the columns that somebody asks for.

use heapledger_analysis::fields::{Field, Unit};
use heapledger_analysis::query::Subject;
use heapledger_analysis::{GroupKey, Holders, NamedFrame, NamedStack};
use heapledger_format::{Kind, ThreadRow, Ticks};

use crate::record::frames::name_of;
use crate::{Cell, Column, Context, Paint};

/// The column of a table of blocks. What one stands for is an estimate if they are samples.
pub(crate) fn block_column(column: Field, sampled: bool) -> Column {
    let name = column.name();
    match column.unit() {
        Unit::Address | Unit::Kind | Unit::YesNo | Unit::Event => Column::word(name),
        Unit::Thread | Unit::Heap | Unit::Account => Column::text(name),
        Unit::Mark | Unit::Window | Unit::Label => Column::text(name),
        Unit::Function | Unit::File | Unit::Module | Unit::Stack => Column::text(name),
        Unit::Weight => Column::number(name).estimated(sampled),
        Unit::Time | Unit::Age | Unit::Span => Column::number(name).key(format!("{name}_ns")),
        Unit::Bytes | Unit::Number => Column::number(name),
    }
}

/// What stands at a column for a block or an event.
pub(crate) fn cell(
    column: Field,
    context: &Context,
    holders: &Holders,
    subject: &Subject<'_>,
    stack: &NamedStack,
) -> Cell {
    let holder = || holders.holder(stack);
    let text = |text: Option<String>| text.map_or(Cell::Nothing, Cell::Text);
    match column.unit() {
        Unit::Weight => Cell::Count(context.sampling.weight(subject.block())),
        Unit::Function => text(holder().map(|frame| name_of(frame, context.paint))),
        Unit::File => text(holder().and_then(place)),
        Unit::Module => text(holder().and_then(|frame| frame.module.as_deref().map(str::to_owned))),
        Unit::Stack => text(Some(folded(stack, context.paint)).filter(|folded| !folded.is_empty())),
        _ if column.is_told() => text(context.told.text_of(column, subject).map(std::borrow::Cow::into_owned)),
        _ => figure_cell(column, column.figure(subject), context),
    }
}

/// A figure in a cell.
fn figure_cell(field: Field, figure: Option<u64>, context: &Context) -> Cell {
    let ns = |ticks: u64| context.clock.ns(Ticks(ticks));
    let Some(figure) = figure else { return Cell::Nothing };
    let row = u32::try_from(figure).unwrap_or(u32::MAX);
    let word = |word: &str| Cell::Text(word.to_owned());
    match field.unit() {
        Unit::Address => Cell::Address(figure),
        Unit::Bytes => Cell::Bytes(figure),
        Unit::Weight => Cell::Count(figure),
        Unit::Time => ns(figure).map_or_else(|| Cell::Text(format!("{figure} ticks")), Cell::Clock),
        Unit::Age => Cell::maybe(context.clock.age_ns(Ticks(figure)), Cell::Span),
        Unit::Span => Cell::maybe(ns(figure), Cell::Span),
        Unit::Thread => {
            Cell::Named(row, context.threads.get(&ThreadRow(row)).map(|thread| thread.name.clone()).unwrap_or_default())
        }
        Unit::Heap => Cell::Named(row, context.heaps.get(&row).map(|heap| heap.name.clone()).unwrap_or_default()),
        Unit::Kind => Cell::Text(Kind(figure as u8).to_string()),
        Unit::YesNo => word(if figure != 0 { "yes" } else { "no" }),
        Unit::Event => word(if figure != 0 { "free" } else { "allocation" }),
        Unit::Account => Cell::Text(account(figure, context)),
        Unit::Number | Unit::Mark | Unit::Window | Unit::Label => Cell::Plain(figure),
        Unit::Function | Unit::File | Unit::Module | Unit::Stack => Cell::Plain(figure),
    }
}

/// `3 worker / brk heap`.
fn account(figure: u64, context: &Context) -> String {
    let (row, heap) = ((figure >> 32) as u32, figure as u32);
    let thread = match context.threads.get(&ThreadRow(row)) {
        _ if row == u32::MAX => "without a row".to_owned(),
        Some(thread) if !thread.name.is_empty() => format!("{row} {}", thread.name),
        _ => row.to_string(),
    };
    let heap = context.heaps.get(&heap).map_or_else(|| heap.to_string(), |heap| heap.name.clone());
    format!("{thread} / {heap}")
}

/// All functions of a stack in a line, innermost first.
pub(crate) fn folded(stack: &NamedStack, paint: Paint) -> String {
    stack.frames.iter().map(|frame| name_of(frame, paint)).collect::<Vec<_>>().join(" < ")
}

/// `parse.c:120`.
fn place(frame: &NamedFrame) -> Option<String> {
    let file = frame.file.as_deref()?;
    Some(frame.line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}")))
}

/// The column of a table of groups.
pub(crate) fn group_column(by: Field) -> Column {
    match by.unit() {
        Unit::Function => Column::text("function"),
        _ => block_column(by, false),
    }
}

/// Functions without names are one in each file: where a function begins is not known, and an address is that of a call.
pub(crate) fn without_symbols(module: &str) -> String {
    format!("{} (no symbols)", module.rsplit('/').next().unwrap_or(module))
}

/// What the blocks of a group have in common, in a cell.
pub(crate) fn group_cell(key: &GroupKey, context: &Context) -> Cell {
    let unnamed = |what: &str| Cell::Text(format!("({what})"));
    match key {
        GroupKey::Function { name: Some(name), .. } => Cell::Text(context.paint.function(name).into_owned()),
        GroupKey::Function { name: None, module: Some(module) } => Cell::Text(without_symbols(module)),
        GroupKey::Function { .. } => unnamed("unknown code"),
        GroupKey::File(file) => {
            file.as_ref().map_or_else(|| unnamed("no source file known"), |file| Cell::Text(file.to_string()))
        }
        GroupKey::Module(module) => {
            module.as_ref().map_or_else(|| unnamed("unknown code"), |module| Cell::Text(module.to_string()))
        }
        GroupKey::Stack(site) => Cell::Plain(u64::from(site.0)),
        GroupKey::Told(_, Some(text)) => Cell::Text(text.to_string()),
        GroupKey::Told(field, None) => Cell::Text(format!("(no {})", field.name())),
        GroupKey::Figure(field, None) if field.unit() == Unit::Thread => unnamed("a thread without a row"),
        GroupKey::Figure(field, figure) => figure_cell(*field, *figure, context),
    }
}
