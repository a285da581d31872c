//! One look at a ledger by a viewer that looks again and again: its figures, its rows, and both in words.

use std::io::Write;

use heapledger_analysis::fields::Field;
use heapledger_analysis::watch::{LookRow, Motion, Readings, TotalsRates};
use heapledger_analysis::{Amount, Identity, Sampled, Seen};

use crate::form::units::{Figures, clean, count, counted};
use crate::{Form, Paint, Report, ReportError, Stepwise, sentence};

mod columns;
mod csv;
mod json;
mod namer;
mod text;

pub use columns::{LookColumn, look_columns};
pub use namer::{Namer, row_label};

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
    /// What readings say of a ledger whose table has so many rows, by this field. Bytes are written exactly, without
    /// units, or with them.
    pub fn of(readings: &Readings, by: Field, rows_total: usize, exact_bytes: bool) -> Look {
        let group = by.watched_name();
        let Some(totals) = &readings.totals else { return Look { group, ..Look::default() } };
        let identity = &totals.identity;
        // What has ended does not change any more.
        let running = readings.motion() == Motion::Running;
        let rates = if running { readings.rates() } else { TotalsRates::default() };
        let sample = readings.samples.last();
        let marked = readings.mark.as_ref();
        // What is new is of the last reading of all records, which may be older than the totals.
        let read_at_ns = sample.map_or(totals.at_ns, |sample| sample.at_ns);
        let mut losses: Vec<String> = readings.missing_blocks().map(sentence).collect();
        let folded = sample.map_or(0, |sample| sample.folded);
        if folded != 0 {
            let blocks = counted(folded, "block is", "blocks are");
            losses.push(format!("{blocks} shown without a stack: there are too many call sites."));
        }
        Look {
            program: identity.program.clone().unwrap_or_else(|| "unknown program".to_owned()),
            pid: identity.pid,
            state: match () {
                () if readings.ending.is_some() => LookState::Ended,
                () if identity.finished => LookState::Finished,
                () if identity.running => LookState::Running,
                () => LookState::Ended,
            },
            ending: readings.ending.clone().unwrap_or_else(|| ending_words(identity)),
            uptime_ns: identity.wall_ns.or_else(|| totals.clock.span_ns()),
            figures: Figures { estimated: totals.sampling.is_on(), exact_bytes },
            live_bytes: totals.live_bytes,
            live_blocks: totals.live_blocks,
            peak_bytes: totals.peak_bytes,
            allocations: totals.allocations,
            frees: totals.frees,
            bytes_per_second: rates.bytes_per_second,
            allocations_per_second: rates.allocations_per_second,
            frees_per_second: rates.frees_per_second,
            mark_age_ns: marked.map(|mark| read_at_ns.saturating_sub(mark.sample().at_ns)),
            young: marked.and(sample).map(|sample| sample.young).unwrap_or_default(),
            condition: readings.condition.clone(),
            chosen: sample.map(|sample| sample.live).unwrap_or_default(),
            group,
            rows_total,
            read_ns: sample.map_or(0, |sample| sample.took_ns),
            losses,
        }
    }

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

/// How a program ended, as far as its ledger says.
pub fn ending_words(identity: &Identity) -> String {
    match (identity.exit, identity.signal) {
        _ if identity.replaced => "went on as another program".to_owned(),
        _ if identity.is_midway() => "as it was when this was copied".to_owned(),
        (Some(status), _) => format!("ended with status {status}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => String::new(),
    }
}

/// A look with its rows. There may be many in one output.
pub struct LookReport<'a> {
    /// What the ledger is called.
    pub ledger: &'a str,
    /// How blocks were chosen, if not all are in it.
    pub sampled: Option<Sampled>,
    /// The figures.
    pub look: &'a Look,
    /// The rows that are shown.
    pub rows: &'a [LookRow],
    /// The columns of text.
    pub columns: &'a [LookColumn],
    /// How text is emphasized, and how wide it may be.
    pub paint: Paint,
    /// Elements that were being written when they were read, in this look and those before it.
    pub in_flight: u64,
    /// What was not seen; asked for at the end only.
    pub seen: Seen,
}

impl Report for LookReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        self.step(form, 1, out)?;
        self.end(form, 1, out)
    }

    fn seen(&self) -> &Seen {
        &self.seen
    }
}

impl Stepwise for LookReport<'_> {
    fn step(&mut self, form: &Form, number: u64, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => {
                if number > 1 {
                    writeln!(out)?;
                }
                text::write(self, out)?;
            }
            Form::Json => {
                if number == 1 {
                    json::header(self, out)?;
                }
                json::look(self, out)?;
            }
            Form::Csv => csv::look(self, number, out)?,
            _ => return Err(ReportError::no_form(form)),
        }
        Ok(())
    }

    fn end(&mut self, form: &Form, steps: u64, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text | Form::Csv => Ok(()),
            Form::Json => Ok(json::last(self, steps, out)?),
            _ => Err(ReportError::no_form(form)),
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod watched_tests;
