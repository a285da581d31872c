//! Lines of source by address.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use gimli::{ColumnType, DebugLineOffset, LineProgramHeader};

use super::meter::{Meter, Trouble};
use super::spans::{Span, Spans};
use super::{Dwarf, Slice, Unit};
use crate::elf::Image;
use crate::intern::Interner;

/// Rows kept of one unit.
const ROWS_MAX: usize = 8 << 20;
/// Longest path put together.
const PATH_MAX: usize = 16 * 1024;

/// The line table of one unit.
pub(crate) struct Lines<'a> {
    header: LineProgramHeader<Slice<'a>>,
    rows: Vec<Row>,
    sequences: Vec<Range<usize>>,
    spans: Spans,
    paths: HashMap<u64, Option<Arc<str>>>,
}

struct Row {
    address: u64,
    file: u32,
    line: u32,
    column: u32,
}

/// A place in the source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) file: Option<Arc<str>>,
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
}

impl<'a> Lines<'a> {
    /// Runs the line program at `offset`. A program that breaks off is used up to there.
    pub(crate) fn read(
        dwarf: &Dwarf<'a>,
        unit: &Unit<'a>,
        offset: DebugLineOffset,
        image: &Image,
        meter: &Meter,
    ) -> Result<Lines<'a>, Trouble> {
        let program = dwarf.debug_line.program(offset, unit.header.address_size(), unit.comp_dir, unit.name)?;
        let header = program.header().clone();
        meter.spend(header.file_names().len() as u64)?;
        let mut tally = meter.tally();
        let mut table: Vec<Row> = Vec::new();
        let (mut sequences, mut spans) = (Vec::new(), Vec::new());
        let mut start = 0;
        let mut rows = program.rows();
        while let Ok(Some((_, row))) = rows.next_row() {
            tally.step()?;
            if row.end_sequence() {
                let begin = table.get(start).map(|first| first.address);
                let end = row.address();
                match begin.filter(|begin| *begin < end && image.is_claim_of_code(*begin, end)) {
                    Some(begin) => {
                        let owner = sequences.len() as u32; // at most ROWS_MAX
                        spans.push(Span { begin, end, owner });
                        sequences.push(start..table.len());
                    }
                    None => table.truncate(start),
                }
                start = table.len();
                continue;
            }
            if table.len() >= ROWS_MAX {
                break;
            }
            let small = |number: u64| u32::try_from(number).unwrap_or(0);
            let row = Row {
                address: row.address(),
                file: u32::try_from(row.file_index()).unwrap_or(u32::MAX),
                line: row.line().map_or(0, |line| small(line.get())),
                column: match row.column() {
                    ColumnType::LeftEdge => 0,
                    ColumnType::Column(column) => small(column.get()),
                },
            };
            match table[start..].last_mut() {
                // Of several rows for one instruction the last one holds.
                Some(last) if last.address == row.address => *last = row,
                // Addresses in a sequence only grow; the search relies on it.
                Some(last) if last.address > row.address => {}
                _ => table.push(row),
            }
        }
        Ok(Lines { header, rows: table, sequences, spans: Spans::new(spans), paths: HashMap::new() })
    }

    /// The ranges that the table covers.
    pub(crate) fn extents(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.spans.iter().map(|span| (span.begin, span.end))
    }

    /// The place that the instruction at `address` comes from.
    pub(crate) fn find(
        &mut self,
        dwarf: &Dwarf<'a>,
        unit: &Unit<'a>,
        interner: &Interner,
        address: u64,
    ) -> Option<Line> {
        let span = self.spans.around(address).next()?;
        let rows = self.rows.get(self.sequences.get(span.owner as usize)?.clone())?;
        let after = rows.partition_point(|row| row.address <= address);
        let row = rows.get(after.checked_sub(1)?)?;
        let (file, line, column) = (row.file, row.line, row.column);
        Some(self.line(dwarf, unit, interner, Some(u64::from(file)), line, column))
    }

    /// A place given by its numbers. Zero stands for "unknown".
    pub(crate) fn line(
        &mut self,
        dwarf: &Dwarf<'a>,
        unit: &Unit<'a>,
        interner: &Interner,
        file: Option<u64>,
        line: u32,
        column: u32,
    ) -> Line {
        let file = file.and_then(|index| {
            let Lines { header, paths, .. } = self;
            paths
                .entry(index)
                .or_insert_with(|| path(dwarf, unit, header, index).map(|text| interner.path(text)))
                .clone()
        });
        Line { file, line: (line > 0).then_some(line), column: (line > 0 && column > 0).then_some(column) }
    }
}

/// The file's path: its directory may be relative to the one the compiler was called in.
fn path<'a>(dwarf: &Dwarf<'a>, unit: &Unit<'a>, header: &LineProgramHeader<Slice<'a>>, index: u64) -> Option<String> {
    let file = header.file(index)?;
    let mut path = unit.comp_dir.map(|slice| slice.to_string_lossy().into_owned()).unwrap_or_default();
    // Directory 0 is that very directory.
    if file.directory_index() != 0
        && let Some(directory) = file.directory(header)
    {
        append(&mut path, &dwarf.attr_string(unit, directory).ok()?.to_string_lossy());
    }
    append(&mut path, &dwarf.attr_string(unit, file.path_name()).ok()?.to_string_lossy());
    Some(crate::demangle::shorten(&path, PATH_MAX))
}

fn append(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(part);
}
