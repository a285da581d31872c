//! Tables: aligned text for people, CSV for spreadsheets, JSON lines for programs.
//!
//! Rows are written one by one. For text, as many of the first rows are held back as are needed to see how wide columns
//! are; so a table of any length needs little memory.

use std::io::{self, Write};

use serde::Serialize;
use serde::ser::SerializeMap;

use crate::form::fit::{fitted, width};
use crate::form::json::{Hex, line};
use crate::form::units::{Paint, clean, clock, percent, sign, span};
use crate::{Form, ReportError};

/// Rows that tell how wide columns are.
const MEASURED: usize = 1000;
/// Letters that a column is not cut below.
const NARROWEST: usize = 16;
/// With so few characters a column at the edge is still worth its place.
const SEEN: usize = 6;
/// Between two columns.
const GAP: &str = "  ";

/// How a table looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStyle {
    /// Letters in a line; 0: as many as there are.
    pub width: usize,
    /// Whether text is emphasized, and whether bytes have units.
    pub paint: Paint,
}

/// In which form a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableForm {
    /// Aligned, for people.
    Text(TableStyle),
    /// As RFC 4180 has it, with plain numbers: bytes, nanoseconds.
    Csv,
    /// One object a row, with this `type`.
    Json(&'static str),
}

impl TableForm {
    /// The form of a table in a report of that form; `line` is the type of its lines in JSON.
    ///
    /// # Errors
    /// If a table has no such form.
    pub fn of(form: &Form, line: &'static str, paint: Paint) -> Result<TableForm, ReportError> {
        match form {
            Form::Text => Ok(TableForm::Text(TableStyle { width: paint.columns, paint })),
            Form::Csv => Ok(TableForm::Csv),
            Form::Json => Ok(TableForm::Json(line)),
            _ => Err(ReportError::no_form(form)),
        }
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// What it is called in text, where it stands in capitals.
    pub name: String,
    /// What it is called in CSV and JSON.
    pub key: String,
    /// Whether it is aligned to the right.
    pub right: bool,
    /// Whether it may be cut to fit into a line.
    pub shrinks: bool,
    /// Whether its figures are estimates.
    pub estimated: bool,
}

impl Column {
    /// A column of numbers.
    pub fn number(name: impl Into<String>) -> Column {
        Column { right: true, ..Column::word(name) }
    }

    /// A column of short words.
    pub fn word(name: impl Into<String>) -> Column {
        let name = name.into();
        Column { key: name.clone(), name, right: false, shrinks: false, estimated: false }
    }

    /// A column of text that may be cut.
    pub fn text(name: impl Into<String>) -> Column {
        Column { shrinks: true, ..Column::word(name) }
    }

    /// Has another name in CSV and JSON, where the unit belongs to the name: `age_ns`.
    pub fn key(self, key: impl Into<String>) -> Column {
        Column { key: key.into(), ..self }
    }

    /// Marks its figures as estimates.
    pub fn estimated(self, estimated: bool) -> Column {
        Column { estimated, ..self }
    }
}

/// What stands in a row at a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Not known.
    Nothing,
    /// A name.
    Text(String),
    /// A row of a table of the ledger, and its name: a thread, a heap.
    Named(u32, String),
    /// A number.
    Count(u64),
    /// A number that names something: without marks between its digits.
    Plain(u64),
    /// Bytes.
    Bytes(u64),
    /// By how many bytes something grew.
    Growth(i64),
    /// By how many it grew.
    GrowthCount(i64),
    /// A part of 1.
    Share(f64),
    /// A span of time in nanoseconds.
    Span(u64),
    /// A point on the ledger's clock in nanoseconds.
    Clock(u64),
    /// An address.
    Address(u64),
}

impl Cell {
    /// A number, if it is known.
    pub fn maybe(number: Option<u64>, cell: fn(u64) -> Cell) -> Cell {
        number.map_or(Cell::Nothing, cell)
    }

    fn shown(&self, style: &TableStyle, column: &Column) -> String {
        let figures = style.paint.figures(column.estimated);
        match self {
            Cell::Nothing => "-".to_owned(),
            Cell::Text(text) => style.paint.printed(&clean(text)).into_owned(),
            Cell::Named(row, name) if name.is_empty() => row.to_string(),
            Cell::Named(row, name) => format!("{row} {}", style.paint.printed(&clean(name))),
            Cell::Count(number) => figures.count(*number),
            Cell::Plain(number) => number.to_string(),
            Cell::Bytes(number) if figures.exact_bytes => figures.count(*number),
            Cell::Bytes(number) => figures.bytes(*number),
            Cell::Growth(number) | Cell::GrowthCount(number) => {
                let amount = number.unsigned_abs();
                let cell = if matches!(self, Cell::Growth(_)) { Cell::Bytes(amount) } else { Cell::Count(amount) };
                let shown = cell.shown(style, &column.clone().estimated(false));
                format!("{}{}{shown}", if column.estimated { "~" } else { "" }, sign(*number))
            }
            Cell::Share(share) => percent(*share),
            Cell::Span(ns) => span(*ns),
            Cell::Clock(ns) => clock(*ns),
            Cell::Address(address) => format!("{address:#010x}"),
        }
    }

    fn csv(&self) -> String {
        match self {
            Cell::Nothing => String::new(),
            Cell::Named(row, name) if name.is_empty() => row.to_string(),
            Cell::Named(row, name) => Cell::Text(format!("{row} {name}")).csv(),
            Cell::Text(text) => {
                let text = clean(text);
                if text.contains([',', '"', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ') {
                    format!("\"{}\"", text.replace('"', "\"\""))
                } else {
                    text.into_owned()
                }
            }
            Cell::Count(number)
            | Cell::Plain(number)
            | Cell::Bytes(number)
            | Cell::Span(number)
            | Cell::Clock(number) => number.to_string(),
            Cell::Growth(number) | Cell::GrowthCount(number) => number.to_string(),
            Cell::Share(share) => format!("{share:.6}"),
            Cell::Address(address) => format!("{address:#x}"),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Nothing => serializer.serialize_none(),
            Cell::Text(text) => serializer.serialize_str(text),
            Cell::Named(row, name) => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("row", row)?;
                map.serialize_entry("name", name)?;
                map.end()
            }
            Cell::Count(number)
            | Cell::Plain(number)
            | Cell::Bytes(number)
            | Cell::Span(number)
            | Cell::Clock(number) => serializer.serialize_u64(*number),
            Cell::Growth(number) | Cell::GrowthCount(number) => serializer.serialize_i64(*number),
            Cell::Share(share) => serializer.serialize_f64((share * 1e6).round() / 1e6),
            Cell::Address(address) => Hex(*address).serialize(serializer),
        }
    }
}

/// Writes a table row by row.
pub struct Table<W> {
    out: W,
    form: TableForm,
    columns: Vec<Column>,
    held: Vec<Vec<String>>,
    widths: Vec<usize>,
    measured: bool,
    /// Columns that are written: the first ones, as far as they fit.
    shown: usize,
}

impl<W: Write> Table<W> {
    /// A table to `out`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut out: W, form: TableForm, columns: Vec<Column>) -> io::Result<Table<W>> {
        if form == TableForm::Csv {
            let names: Vec<String> = columns.iter().map(|column| Cell::Text(column.key.clone()).csv()).collect();
            write!(out, "{}\r\n", names.join(","))?;
        }
        Ok(Table::continued(out, form, columns))
    }

    /// More rows of a table that `out` has the beginning of.
    pub fn continued(out: W, form: TableForm, columns: Vec<Column>) -> Table<W> {
        let shown = columns.len();
        Table { out, form, columns, held: Vec::new(), widths: Vec::new(), measured: false, shown }
    }

    /// Writes one row, with a cell for each column.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn row(&mut self, cells: &[Cell]) -> io::Result<()> {
        match self.form {
            TableForm::Csv => {
                let cells: Vec<String> = cells.iter().map(Cell::csv).collect();
                write!(self.out, "{}\r\n", cells.join(","))
            }
            TableForm::Json(name) => line(&mut self.out, &Row { name, columns: &self.columns, cells }),
            TableForm::Text(style) => {
                let row: Vec<String> =
                    cells.iter().zip(&self.columns).map(|(cell, column)| cell.shown(&style, column)).collect();
                if self.measured {
                    return self.aligned(&row);
                }
                self.held.push(row);
                if self.held.len() == MEASURED { self.measure(style) } else { Ok(()) }
            }
        }
    }

    /// Hands on what was written; text may hold rows back.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes what was held back, says which columns had no room, and gives the writer.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(mut self) -> io::Result<W> {
        if let TableForm::Text(style) = self.form
            && !self.measured
            && !self.held.is_empty()
        {
            self.measure(style)?;
        }
        let without: Vec<&str> = self.columns.iter().skip(self.shown).map(|column| column.name.as_str()).collect();
        if !without.is_empty() {
            let note = format!("(no room for {}: a wider terminal or a pipe shows all)", without.join(", "));
            writeln!(self.out, "{}", self.paint().lines(&note, 0, 2))?;
        }
        Ok(self.out)
    }

    /// Finds out how wide columns are, and writes what was held back.
    fn measure(&mut self, style: TableStyle) -> io::Result<()> {
        self.measured = true;
        let held = std::mem::take(&mut self.held);
        let titles: Vec<String> =
            self.columns.iter().map(|column| style.paint.printed(&column.name.to_uppercase()).into_owned()).collect();
        self.widths = titles.iter().map(|title| width(title)).collect();
        for row in &held {
            for (widest, text) in self.widths.iter_mut().zip(row) {
                *widest = (*widest).max(width(text));
            }
        }
        // The last ones go if nothing of them would be seen where the others are at their narrowest, and figures if they would
        // not be seen whole: the beginning of one is another one.
        while style.width != 0 && self.shown > 1 && self.last_begins_at() + self.last_needs() > style.width {
            self.shown -= 1;
        }
        self.widths.truncate(self.shown);
        // The widest columns give first.
        while style.width != 0 && self.line_width() > style.width {
            let excess = self.line_width() - style.width;
            let shrinks = |(index, width): &(usize, &mut usize)| self.columns[*index].shrinks && **width > NARROWEST;
            let mut able: Vec<(usize, &mut usize)> = self.widths.iter_mut().enumerate().filter(shrinks).collect();
            able.sort_by_key(|(_, width)| std::cmp::Reverse(**width));
            let second = able.get(1).map_or(NARROWEST, |(_, width)| **width);
            let Some((_, widest)) = able.first_mut() else { break };
            **widest -= (**widest - second.max(NARROWEST)).clamp(1, excess);
        }
        let title = self.line(&titles);
        writeln!(self.out, "{}", style.paint.strong(fitted(&title, style.paint)))?;
        held.iter().try_for_each(|row| self.aligned(row))
    }

    fn paint(&self) -> Paint {
        if let TableForm::Text(style) = self.form { style.paint } else { Paint::default() }
    }

    fn line_width(&self) -> usize {
        self.widths.iter().sum::<usize>() + GAP.len() * self.widths.len().saturating_sub(1)
    }

    /// What the last column needs at least.
    fn last_needs(&self) -> usize {
        let last = self.shown.saturating_sub(1);
        match (self.columns.get(last), self.widths.get(last)) {
            (Some(column), Some(width)) if !column.shrinks => *width,
            _ => SEEN,
        }
    }

    /// Where the last column begins if all before it that can give has given.
    fn last_begins_at(&self) -> usize {
        let narrowest =
            |(width, column): (&usize, &Column)| if column.shrinks { NARROWEST.min(*width) } else { *width };
        let before = self.widths.iter().zip(&self.columns).take(self.shown.saturating_sub(1));
        before.map(|column| narrowest(column) + GAP.len()).sum()
    }

    fn aligned(&mut self, row: &[String]) -> io::Result<()> {
        let line = fitted(&self.line(row), self.paint());
        writeln!(self.out, "{line}")
    }

    fn line(&self, row: &[String]) -> String {
        let mut line = String::new();
        for (index, (text, column)) in row.iter().zip(&self.columns).take(self.widths.len()).enumerate() {
            if index > 0 {
                line.push_str(GAP);
            }
            let width = self.widths[index];
            let text = if column.shrinks { self.paint().cut_middle(text, width) } else { text.clone() };
            let pad = width.saturating_sub(self::width(&text));
            if column.right {
                line.extend(std::iter::repeat_n(' ', pad));
            }
            line.push_str(&text);
            if !column.right {
                line.extend(std::iter::repeat_n(' ', pad));
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// A row as an object.
struct Row<'r> {
    name: &'static str,
    columns: &'r [Column],
    cells: &'r [Cell],
}

impl Serialize for Row<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.name)?;
        for (column, cell) in self.columns.iter().zip(self.cells) {
            map.serialize_entry(&column.key, cell)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(form: TableForm, columns: Vec<Column>, rows: &[Vec<Cell>]) -> String {
        let mut table = Table::new(Vec::new(), form, columns).expect("written");
        rows.iter().for_each(|row| table.row(row).expect("written"));
        String::from_utf8(table.end().expect("written")).expect("text")
    }

    fn columns() -> Vec<Column> {
        vec![Column::number("bytes"), Column::number("blocks").estimated(true), Column::text("function")]
    }

    fn rows() -> Vec<Vec<Cell>> {
        let name = "a_very_long_name_of_a_function_that_does_not_fit(int, char const*)";
        vec![
            vec![Cell::Bytes(1_298_850), Cell::Count(1234), Cell::Text("main".to_owned())],
            vec![Cell::Bytes(13), Cell::Count(1), Cell::Text(name.to_owned())],
            vec![Cell::Nothing, Cell::Nothing, Cell::Text("a,\"b\"\x1b".to_owned())],
        ]
    }

    #[test]
    fn text_is_aligned_and_fits() {
        let style = TableStyle { width: 50, ..TableStyle::default() };
        assert_eq!(
            written(TableForm::Text(style), columns(), &rows()),
            "   BYTES  BLOCKS  FUNCTION\n\
             1.24 MiB  ~1,234  main\n    \
             13 B      ~1  a_very_long_name_of_a…ar const*)\n       \
             -       -  a,\"b\"\\u{1b}\n"
        );
        let paint = Paint { exact_bytes: true, ..Paint::default() };
        let exact = TableStyle { paint, ..TableStyle::default() };
        let text = written(TableForm::Text(exact), columns(), &rows());
        assert!(text.contains("1,298,850") && text.contains("does_not_fit(int, char const*)"), "{text}");
        assert_eq!(written(TableForm::Text(exact), columns(), &[]), "");
    }

    #[test]
    fn columns_without_room_are_named() {
        let style = TableStyle { width: 22, ..TableStyle::default() };
        assert_eq!(
            written(TableForm::Text(style), columns(), &rows()[..1]),
            "   BYTES  BLOCKS\n1.24 MiB  ~1,234\n(no room for function: a wider terminal or a pipe shows all)\n"
        );
        // The beginning of a figure would be another one.
        for width in 15..17 {
            let style = TableStyle { width, ..TableStyle::default() };
            let text = written(TableForm::Text(style), columns(), &rows()[..1]);
            let shown = if width == 15 {
                "   BYTES\n1.24 MiB\n(no room for blocks, function: "
            } else {
                "   BYTES  BLOCKS\n1.24"
            };
            assert!(text.starts_with(shown), "{width}: {text}");
        }
        let wider = TableStyle { width: 26, ..TableStyle::default() };
        assert!(written(TableForm::Text(wider), columns(), &rows()[..1]).ends_with("  main\n"));
    }

    #[test]
    fn rows_behind_the_measured_ones_are_written_too() {
        let rows: Vec<Vec<Cell>> =
            (0..3000).map(|number| vec![Cell::Count(number), Cell::Nothing, Cell::Text(String::new())]).collect();
        let text = written(TableForm::Text(TableStyle::default()), columns(), &rows);
        assert_eq!(text.lines().count(), 3001);
        assert!(text.ends_with("2,999       -\n"), "{}", &text[text.len() - 40..]);
    }

    #[test]
    fn csv_and_json_are_exact() {
        assert_eq!(written(TableForm::Csv, columns(), &rows()[..1]), "bytes,blocks,function\r\n1298850,1234,main\r\n");
        assert!(written(TableForm::Csv, columns(), &rows()).ends_with("\r\n,,\"a,\"\"b\"\"\\u{1b}\"\r\n"));
        let json = written(TableForm::Json("row"), columns(), &rows());
        assert_eq!(json.lines().next(), Some(r#"{"type":"row","bytes":1298850,"blocks":1234,"function":"main"}"#));
        assert_eq!(
            json.lines().nth(2),
            Some(r#"{"type":"row","bytes":null,"blocks":null,"function":"a,\"b\"\u001b"}"#)
        );
    }
}
