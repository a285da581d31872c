//! The columns of figures: which there is room for, and how each is written.

use heapledger_analysis::fields::Field;
use heapledger_analysis::watch::{LookRow, Motion, RowFigure};

use super::{short_count, whole};
use crate::form::units::{Figures, count, sign, span};

/// A column of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LookColumn(pub RowFigure);

impl LookColumn {
    /// Its heading. `marked`: only what came after a mark is shown.
    pub fn title(self, marked: bool) -> &'static str {
        match self.0 {
            RowFigure::Bytes if marked => "NEW",
            RowFigure::Bytes => "LIVE",
            RowFigure::Blocks => "BLOCKS",
            RowFigure::Rate => "GROWTH/s",
            RowFigure::Growth => "GROWN",
            RowFigure::Allocated => "ALLOCS",
            RowFigure::Oldest => "OLDEST",
        }
    }

    /// Letters that it takes.
    pub fn width(self, figures: Figures) -> usize {
        match self.0 {
            // As many as a gigabyte needs, with its marks.
            RowFigure::Bytes | RowFigure::Growth if figures.exact_bytes => 14,
            RowFigure::Rate if figures.exact_bytes => 12,
            // `1023 KiB`, with a tilde if it is an estimate.
            RowFigure::Bytes => 8 + usize::from(figures.estimated),
            RowFigure::Blocks | RowFigure::Allocated => 10,
            RowFigure::Rate | RowFigure::Growth => 10,
            RowFigure::Oldest => 7,
        }
    }

    /// The figure of a row.
    pub fn cell(self, row: &LookRow, marked: bool, figures: Figures) -> String {
        let held = if marked { row.young } else { row.live };
        let about = if figures.estimated { "~" } else { "" };
        match self.0 {
            RowFigure::Bytes => format!("{about}{}", figures.short(held.bytes)),
            RowFigure::Blocks => format!("{about}{}", short_count(held.blocks)),
            RowFigure::Rate => row.bytes_per_second.map_or_else(|| "-".to_owned(), |rate| figures.short_rate(rate)),
            RowFigure::Growth => figures.short_signed(row.growth_bytes),
            RowFigure::Allocated => {
                row.allocated_blocks.map_or_else(|| "-".to_owned(), |blocks| format!("{about}{}", short_count(blocks)))
            }
            RowFigure::Oldest => row.oldest_ns.map_or_else(|| "-".to_owned(), span),
        }
    }
}

/// Letters that exact bytes leave for names.
const LABEL: usize = 24;

/// The columns of figures that there is room for, and that say anything.
pub fn look_columns(by: Field, part: bool, motion: Motion, width: usize, figures: Figures) -> Vec<LookColumn> {
    let moving = motion == Motion::Running;
    let counted = matches!(by, Field::Thread | Field::Kind) && !part;
    let mut columns = vec![RowFigure::Bytes];
    if width >= 40 {
        columns.push(RowFigure::Blocks);
    }
    if moving && width >= 50 {
        columns.push(RowFigure::Rate);
    }
    // Stacks have long names.
    let stacks = by == Field::Stack;
    if motion != Motion::Still && width >= if stacks { 100 } else { 64 } {
        columns.push(RowFigure::Growth);
    }
    if counted && width >= 74 {
        columns.push(RowFigure::Allocated);
    }
    if width >= if moving && (counted || by == Field::Function) { 100 } else { 74 } {
        columns.push(RowFigure::Oldest);
    }
    // Exact bytes take more room: the last columns give it, so that names keep some.
    let room = |columns: &[RowFigure]| {
        columns.iter().map(|column| LookColumn(*column).width(figures) + 1).sum::<usize>() + LABEL
    };
    while figures.exact_bytes && columns.len() > 1 && room(&columns) > width {
        columns.pop();
    }
    columns.into_iter().map(LookColumn).collect()
}

impl Figures {
    /// Bytes for a column, without a mark: `999 B`, `1.22 KiB`; `12,897,485` if no units are wanted.
    pub fn short(self, number: u64) -> String {
        if self.exact_bytes { count(number) } else { self.known().bytes(number) }
    }

    /// The same with its sign; 0 has none.
    pub fn short_signed(self, number: i64) -> String {
        format!("{}{}", sign(number), self.short(number.unsigned_abs()))
    }

    /// A rate with its sign, whole bytes.
    pub fn short_rate(self, rate: f64) -> String {
        self.short_signed(whole(rate))
    }

    /// `+1.20 MiB/s`, never marked.
    pub fn rate(self, rate: f64) -> String {
        format!("{}/s", self.known().growth(whole(rate)))
    }
}
