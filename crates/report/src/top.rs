//! One look at a ledger by a viewer that looks again and again: its figures, its rows, and both as text and JSON.

use std::io::{self, Write};

use heapledger_analysis::Amount;
use heapledger_analysis::{Sampled, Seen};
use serde::Serialize;

use crate::form::fit::Fit;
use crate::form::json::{HeaderLine, end, line};
use crate::form::units::{Figures, clean, count, sign, span};
use crate::{Ending, Paint};

mod csv;

pub use csv::LooksCsv;

/// What became of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LookState {
    /// It runs.
    #[default]
    Running,
    /// It has ended; the ledger is as it was then.
    Ended,
    /// The ledger was finished before anybody looked.
    Finished,
}

/// The figures above the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// The program.
    pub program: String,
    /// Its process id.
    pub pid: Option<u32>,
    /// What became of it.
    pub state: LookState,
    /// How it ended, in words: `ended with status 0`.
    pub ending: String,
    /// How long was recorded, in nanoseconds.
    pub uptime_ns: Option<u64>,
    /// Whether figures are estimates.
    pub figures: Figures,
    /// Bytes that live.
    pub live_bytes: u64,
    /// Blocks that live.
    pub live_blocks: u64,
    /// The highest that live bytes were.
    pub peak_bytes: u64,
    /// Blocks allocated since the start.
    pub allocations: u64,
    /// Of them, freed.
    pub frees: u64,
    /// By how many bytes the heap grew in a second.
    pub bytes_per_second: Option<f64>,
    /// Allocations in a second.
    pub allocations_per_second: Option<f64>,
    /// Frees in a second.
    pub frees_per_second: Option<f64>,
    /// How long ago the mark was set, in nanoseconds; `None` without a mark.
    pub mark_age_ns: Option<u64>,
    /// What came after the mark and lives.
    pub young: Amount,
    /// Which blocks are looked at; empty: all.
    pub condition: String,
    /// What these hold.
    pub chosen: Amount,
    /// What rows are: `function`.
    pub group: &'static str,
    /// Rows that there are.
    pub rows_total: usize,
    /// How long it took to read all records, in nanoseconds.
    pub read_ns: u64,
    /// What was lost, in sentences.
    pub losses: Vec<String>,
}

/// A row of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LookRow {
    /// Its name.
    pub label: String,
    /// Its live blocks.
    pub live: Amount,
    /// Those of them that came after the mark.
    pub young: Amount,
    /// By how many bytes it grew in a second.
    pub bytes_per_second: Option<f64>,
    /// By how many blocks it grew in a second.
    pub blocks_per_second: Option<f64>,
    /// By how many bytes it grew since the mark, or since the first look.
    pub growth_bytes: i64,
    /// By how many blocks.
    pub growth_blocks: i64,
    /// Blocks allocated since the start; known of threads and allocation functions.
    pub allocated_blocks: Option<u64>,
    /// Bytes allocated since the start; known of threads.
    pub allocated_bytes: Option<u64>,
    /// How old its oldest block is, in nanoseconds.
    pub oldest_ns: Option<u64>,
}

/// A column of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookColumn {
    /// Bytes that live; with a mark, of those that came after it.
    Live,
    /// Blocks, likewise.
    Blocks,
    /// Growth in bytes a second.
    Rate,
    /// Growth in bytes since the mark or the first look.
    Growth,
    /// Blocks allocated since the start.
    Allocated,
    /// Age of the oldest block.
    Oldest,
}

impl LookColumn {
    /// Its heading. `marked`: only what came after a mark is shown.
    pub fn title(self, marked: bool) -> &'static str {
        match self {
            LookColumn::Live if marked => "NEW",
            LookColumn::Live => "LIVE",
            LookColumn::Blocks => "BLOCKS",
            LookColumn::Rate => "GROWTH/s",
            LookColumn::Growth => "GROWN",
            LookColumn::Allocated => "ALLOCS",
            LookColumn::Oldest => "OLDEST",
        }
    }

    /// Letters that it takes.
    pub fn width(self, figures: Figures) -> usize {
        match self {
            // As many as a gigabyte needs, with its marks.
            LookColumn::Live | LookColumn::Growth if figures.exact_bytes => 14,
            LookColumn::Rate if figures.exact_bytes => 12,
            // `1023 KiB`, with a tilde if it is an estimate.
            LookColumn::Live => 8 + usize::from(figures.estimated),
            LookColumn::Blocks | LookColumn::Allocated => 10,
            LookColumn::Rate | LookColumn::Growth => 10,
            LookColumn::Oldest => 7,
        }
    }

    /// The figure of a row.
    pub fn cell(self, row: &LookRow, marked: bool, figures: Figures) -> String {
        let held = if marked { row.young } else { row.live };
        let about = if figures.estimated { "~" } else { "" };
        match self {
            LookColumn::Live => format!("{about}{}", figures.short(held.bytes)),
            LookColumn::Blocks => format!("{about}{}", short_count(held.blocks)),
            LookColumn::Rate => row.bytes_per_second.map_or_else(|| "-".to_owned(), |rate| figures.short_rate(rate)),
            LookColumn::Growth => figures.short_signed(row.growth_bytes),
            LookColumn::Allocated => {
                row.allocated_blocks.map_or_else(|| "-".to_owned(), |blocks| format!("{about}{}", short_count(blocks)))
            }
            LookColumn::Oldest => row.oldest_ns.map_or_else(|| "-".to_owned(), span),
        }
    }
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

/// A rate in whole bytes.
fn whole(rate: f64) -> i64 {
    rate.round().clamp(i64::MIN as f64, i64::MAX as f64) as i64
}

/// A count: exact up to ten million, `12.3 M` above.
fn short_count(number: u64) -> String {
    match number {
        0..10_000_000 => count(number),
        10_000_000..1_000_000_000 => format!("{:.1} M", number as f64 / 1e6),
        _ => format!("{:.1} G", number as f64 / 1e9),
    }
}

impl Look {
    /// `redis-server, pid 4711`.
    pub fn name(&self) -> String {
        match self.pid {
            Some(pid) => format!("{}, pid {pid}", clean(&self.program)),
            None => clean(&self.program).into_owned(),
        }
    }

    /// `running`, `ended with status 0`.
    pub fn state_words(&self) -> &str {
        match self.state {
            LookState::Running => "running",
            LookState::Ended if self.ending.is_empty() => "ended",
            LookState::Finished if self.ending.is_empty() => "finished ledger",
            LookState::Ended | LookState::Finished => &self.ending,
        }
    }

    /// `12.3 MiB in 1,234 blocks`.
    pub fn live_words(&self) -> String {
        let blocks = self.figures.counted(self.live_blocks, "block", "blocks");
        format!("{} in {blocks}", self.figures.bytes(self.live_bytes))
    }

    /// `12.3 MiB in 1,234 blocks` of those that are looked at.
    pub fn chosen_words(&self) -> String {
        let blocks = self.figures.counted(self.chosen.blocks, "block", "blocks");
        format!("{} in {blocks}", self.figures.bytes(self.chosen.bytes))
    }

    /// `12.3 MiB in 1,234 blocks` of what came after the mark.
    pub fn young_words(&self) -> String {
        let blocks = self.figures.counted(self.young.blocks, "block", "blocks");
        format!("{} in {blocks}", self.figures.bytes(self.young.bytes))
    }
}

/// Writes a look as plain text: figures, table, what was not seen.
///
/// # Errors
/// If `out` cannot be written to.
pub fn look_text(
    out: &mut dyn Write,
    look: &Look,
    columns: &[LookColumn],
    rows: &[LookRow],
    width: usize,
    paint: Paint,
) -> io::Result<()> {
    let mut out = Fit::new(out, paint);
    let out = &mut out;
    let up = look.uptime_ns.map_or_else(String::new, |up| format!(", after {}", span(up)));
    writeln!(out, "{}: {}{up}", paint.strong(look.name()), look.state_words())?;
    let growth =
        look.bytes_per_second.map_or_else(String::new, |value| format!(", growth {}", look.figures.rate(value)));
    let live = format!("live {}, peak {}{growth}", look.live_words(), look.figures.bytes(look.peak_bytes));
    writeln!(out, "{}", paint.lines(&live, 0, 2))?;
    if let (Some(allocations), Some(frees)) = (look.allocations_per_second, look.frees_per_second) {
        let each = |rate: f64| look.figures.count(rate.round().max(0.0) as u64);
        writeln!(out, "{} allocations/s, {} frees/s", each(allocations), each(frees))?;
    }
    if let Some(age) = look.mark_age_ns {
        writeln!(out, "since the mark {} ago: {} new and alive", span(age), look.young_words())?;
    }
    if !look.condition.is_empty() {
        writeln!(out, "where {}: {}", clean(&look.condition), look.chosen_words())?;
    }
    for loss in &look.losses {
        writeln!(out, "{}", paint.lines(&format!("not seen: {}", clean(loss)), 0, 2))?;
    }
    let marked = look.mark_age_ns.is_some();
    let mut heading = String::new();
    for column in columns {
        heading += &format!("{:>1$} ", column.title(marked), column.width(look.figures));
    }
    writeln!(out, "{}", paint.strong(format!("{heading} {}", look.group.to_uppercase())))?;
    let room = if width == 0 { usize::MAX } else { width.saturating_sub(heading.chars().count() + 1).max(20) };
    for row in rows {
        for column in columns {
            write!(out, "{:>1$} ", column.cell(row, marked, look.figures), column.width(look.figures))?;
        }
        writeln!(out, " {}", paint.cut(&clean(&row.label), room))?;
    }
    let left = look.rows_total.saturating_sub(rows.len());
    if left > 0 {
        writeln!(out, "{:>1$} and {left} more", "", heading.chars().count())?;
    }
    out.flush()
}

#[derive(Serialize)]
struct RowJson<'a> {
    label: &'a str,
    live_bytes: u64,
    live_blocks: u64,
    young_bytes: Option<u64>,
    young_blocks: Option<u64>,
    bytes_per_second: Option<f64>,
    blocks_per_second: Option<f64>,
    growth_bytes: i64,
    growth_blocks: i64,
    allocated_blocks: Option<u64>,
    allocated_bytes: Option<u64>,
    oldest_age_ns: Option<u64>,
}

#[derive(Serialize)]
struct LookJson<'a> {
    r#type: &'static str,
    time_ns: Option<u64>,
    program: &'a str,
    pid: Option<u32>,
    state: &'static str,
    live_bytes: u64,
    live_blocks: u64,
    peak_bytes: u64,
    allocations: u64,
    frees: u64,
    bytes_per_second: Option<f64>,
    allocations_per_second: Option<f64>,
    frees_per_second: Option<f64>,
    mark_age_ns: Option<u64>,
    read_ns: u64,
    r#where: Option<&'a str>,
    chosen_bytes: u64,
    chosen_blocks: u64,
    group: &'static str,
    rows_total: usize,
    rows: Vec<RowJson<'a>>,
}

/// To a thousandth.
fn rounded(rate: Option<f64>) -> Option<f64> {
    rate.map(|rate| (rate * 1000.0).round() / 1000.0)
}

/// Looks as JSON lines.
#[derive(Debug)]
pub struct LooksJson<W> {
    out: W,
    shown: u64,
}

impl<W: Write> LooksJson<W> {
    /// Writes the first line.
    ///
    /// # Errors
    /// If `out` cannot be written to.
    pub fn new(mut out: W, ledger: &str, sampled: Option<Sampled>) -> io::Result<LooksJson<W>> {
        line(&mut out, &HeaderLine::new("top", ledger, sampled))?;
        Ok(LooksJson { out, shown: 0 })
    }

    /// Writes a look in a line, at once.
    ///
    /// # Errors
    /// If `out` cannot be written to.
    pub fn look(&mut self, look: &Look, rows: &[LookRow]) -> io::Result<()> {
        let marked = look.mark_age_ns.is_some();
        let row = |row: &'_ LookRow| -> (u64, u64) { (row.young.bytes, row.young.blocks) };
        let rows = rows.iter().map(|each| RowJson {
            label: &each.label,
            live_bytes: each.live.bytes,
            live_blocks: each.live.blocks,
            young_bytes: marked.then_some(row(each).0),
            young_blocks: marked.then_some(row(each).1),
            bytes_per_second: rounded(each.bytes_per_second),
            blocks_per_second: rounded(each.blocks_per_second),
            growth_bytes: each.growth_bytes,
            growth_blocks: each.growth_blocks,
            allocated_blocks: each.allocated_blocks,
            allocated_bytes: each.allocated_bytes,
            oldest_age_ns: each.oldest_ns,
        });
        let state = match look.state {
            LookState::Running => "running",
            LookState::Ended => "ended",
            LookState::Finished => "finished",
        };
        self.shown += 1;
        let look = LookJson {
            r#type: "look",
            time_ns: look.uptime_ns,
            program: &look.program,
            pid: look.pid,
            state,
            live_bytes: look.live_bytes,
            live_blocks: look.live_blocks,
            peak_bytes: look.peak_bytes,
            allocations: look.allocations,
            frees: look.frees,
            bytes_per_second: rounded(look.bytes_per_second),
            allocations_per_second: rounded(look.allocations_per_second),
            frees_per_second: rounded(look.frees_per_second),
            mark_age_ns: look.mark_age_ns,
            read_ns: look.read_ns,
            r#where: Some(look.condition.as_str()).filter(|text| !text.is_empty()),
            chosen_bytes: look.chosen.bytes,
            chosen_blocks: look.chosen.blocks,
            group: look.group,
            rows_total: look.rows_total,
            rows: rows.collect(),
        };
        line(&mut self.out, &look)?;
        self.out.flush()
    }

    /// Writes the last line.
    ///
    /// # Errors
    /// If `out` cannot be written to.
    pub fn end(mut self, in_flight: u64, seen: &Seen) -> io::Result<()> {
        end(&mut self.out, Ending { shown: self.shown, left_out: 0, in_flight }, seen)
    }
}

#[cfg(test)]
mod tests;
