//! What was found or refused, as CSV: a row for each.

use std::io::Write;

use heapledger_format::Ticks;
use heapledger_format::errors::{FoundAt, FoundBy};

use super::token::token;
use super::{ErrorOrigin, ErrorsReport, called, direction, given_by, kind_name, known, stack_name, stacks};
use crate::record::frames::callers;
use crate::{Cell, Column, ReportError, Table, TableForm};

/// Writes a row for each error; a cell holds all its stacks, innermost function first.
pub(super) fn write(report: &mut ErrorsReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let mut columns = vec![Column::number("row")];
    columns.extend(["kind", "found_by", "found_at", "direction"].map(Column::word));
    columns.extend([Column::word("address"), Column::number("bytes"), Column::text("called")]);
    columns.extend([Column::word("block"), Column::number("block_bytes"), Column::text("given_by")]);
    columns.extend(["repeats", "first_ns", "last_ns"].map(Column::number));
    columns.extend(["stacks", "token", "inherited"].map(Column::text));
    let mut table = Table::new(&mut *out, TableForm::Csv, columns)?;
    let context = report.context;
    for (index, found) in report.errors.iter().enumerate() {
        let error = &found.entry;
        let text = |text: Option<String>| text.map_or(Cell::Nothing, Cell::Text);
        let word = |word: Option<&str>| text(word.map(str::to_owned));
        let address = |address: u64| if address == 0 { Cell::Nothing } else { Cell::Address(address) };
        let time = |time: Ticks| Cell::maybe(known(time).and_then(|ticks| context.clock.ns(ticks)), Cell::Span);
        let mut told = Vec::new();
        for stack in stacks(error) {
            told.push(format!("{}: {}", stack_name(stack), callers(&report.names.stack(stack.site)?, context.paint)));
        }
        table.row(&[
            Cell::Plain(found.row.into()),
            Cell::Text(kind_name(error)),
            word(FoundBy::from_number(error.found_by).map(FoundBy::name)),
            word(FoundAt::from_number(error.found_at).map(FoundAt::name)),
            word(direction(error).map(|direction| direction.name())),
            address(error.address),
            Cell::Bytes(error.bytes),
            text(called(found)),
            address(error.block),
            Cell::Bytes(error.block_bytes),
            text(given_by(error).map(|kind| kind.to_string())),
            Cell::Count(error.repeats),
            time(error.first_time),
            time(error.last_time),
            Cell::Text(told.join("; ")),
            Cell::Text(token(error, report.names)?),
            text(report.origin(index).map(ErrorOrigin::sentence)),
        ])?;
    }
    report.seen.notes.extend(report.names.notes());
    table.end()?;
    Ok(out.flush()?)
}
