//! How the memory of a session of several processes grew: all of them together, and those that held most.

use std::io::{self, Write};

use heapledger_analysis::{CurveProcess, FamilyCurve, Seen};
use heapledger_source::FamilyMemory;
use serde::Serialize;

use super::sparks::sparks;
use super::svg::{self, ChartsPicture};
use super::text::{Chart, INDENT, MEMORY_ROWS, ROWS, labels};
use crate::form::fit::width;
use crate::form::json::{HeaderLine, end, line};
use crate::form::notes::{self, sentence};
use crate::form::units::{Figures, Paint, clean, counted, span};
use crate::{Cell, Column, Ending, Form, Report, ReportError, Table, TableForm, process_name};

/// Processes that have a line, or an area of a picture.
const SHOWN: usize = 6;
/// Columns of sparks of one process.
const SPARKS: usize = 40;
/// Classes of their areas in a picture; those of all others have the last.
const CLASSES: [&str; SHOWN + 1] = ["s0", "s1", "s2", "s3", "s4", "s5", "so"];

/// The memory of a session over time.
#[derive(Clone, Copy, Debug)]
pub struct FamilyTimelineReport<'a> {
    /// What the session is called.
    pub session: &'a str,
    /// What was started, without directories.
    pub program: &'a str,
    /// The moments.
    pub curve: &'a FamilyCurve<'a>,
    /// Whether figures of blocks are estimates.
    pub is_sampled: bool,
    /// How it is written.
    pub paint: Paint,
    /// What was not seen.
    pub seen: &'a Seen,
}

impl Report for FamilyTimelineReport<'_> {
    fn write(&mut self, form: &Form, out: &mut dyn Write) -> Result<(), ReportError> {
        match form {
            Form::Text => self.text(out)?,
            Form::Json => self.json(out)?,
            Form::Csv => self.csv(out)?,
            Form::Svg => self.svg(out)?,
            _ => return Err(ReportError::no_form(form)),
        }
        Ok(())
    }

    fn seen(&self) -> &Seen {
        self.seen
    }

    fn ending(&self) -> Ending {
        Ending { shown: self.curve.moments.len() as u64, ..Ending::default() }
    }
}

#[derive(Serialize)]
struct FamilyTimelineLine<'a> {
    r#type: &'static str,
    program: &'a str,
    start_unix_ns: u64,
    span_ns: u64,
    peak_bytes: Option<u64>,
    peak_time_ns: Option<u64>,
    most_memory_bytes: Option<u64>,
    memory: &'static str,
}

#[derive(Serialize)]
struct FamilyMomentLine {
    r#type: &'static str,
    time_ns: u64,
    live_bytes: u64,
    rss_bytes: u64,
    pss_bytes: Option<u64>,
    processes: u32,
    most: Vec<MomentShare>,
}

#[derive(Serialize)]
struct MomentShare {
    pid: u32,
    start_ticks: u64,
    live_bytes: u64,
}

impl FamilyTimelineReport<'_> {
    fn title(&self) -> String {
        format!("Heaps of {} and its processes over {}", clean(self.program), span(self.curve.span_ns))
    }

    /// What memory is called.
    fn memory_name(&self) -> &'static str {
        if self.curve.is_pss { "Pss" } else { "RSS" }
    }

    fn figures(&self) -> Figures {
        self.paint.figures(self.is_sampled)
    }

    fn most_memory(&self) -> Option<(u64, u64)> {
        let moments = self.curve.moments.iter();
        let most = moments.min_by_key(|moment| std::cmp::Reverse(self.curve.memory_bytes(moment)))?;
        Some((self.curve.memory_bytes(most), self.curve.at_ns(most))).filter(|(bytes, _)| *bytes != 0)
    }

    fn peak(&self) -> Option<(u64, u64)> {
        self.curve.peak().map(|peak| (peak.live_bytes, self.curve.at_ns(peak)))
    }

    /// What there is to see, in words.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let figures = self.figures();
        let mut facts = Vec::new();
        if let Some(((bytes, at), moment)) = self.peak().zip(self.curve.peak()) {
            let processes = counted(moment.processes.into(), "process", "processes");
            let last = self.curve.moments.last().map_or(0, |last| last.live_bytes);
            let most = figures.bytes(bytes);
            let last = figures.bytes(last);
            facts.push(("live", format!("{most} in {processes} at most, after {}; {last} at the last look", span(at))));
        }
        if let Some((bytes, at)) = self.most_memory() {
            let how = match self.curve.is_pss {
                true => "resident, by proportional shares: pages that processes share count once",
                false => "resident; pages that processes share count for each of them",
            };
            facts.push((
                self.memory_name(),
                format!("{} at most, after {}; {how}", figures.known().bytes(bytes), span(at)),
            ));
        }
        let looks = counted(self.curve.moments.len() as u64, "look", "looks");
        let words = "of run; what came and went between two of them is not seen, and processes that lived for less are not in it";
        facts.push(("seen", format!("by {looks} {words}")));
        facts
    }

    fn name_of(one: &CurveProcess) -> String {
        let name = process_name(std::slice::from_ref(&one.program));
        clean(&format!("{name} {}", one.pid)).into_owned()
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let (paint, figures, curve) = (self.paint, self.figures(), self.curve);
        let room = if paint.columns == 0 { usize::MAX } else { paint.columns };
        writeln!(out, "{}\n", paint.strong(paint.cut(&self.title(), room)))?;
        let peak = self.peak().map_or(0, |(bytes, _)| bytes);
        let memory = self.most_memory();
        let mut all = labels(ROWS, peak, figures);
        all.extend(memory.iter().flat_map(|(most, _)| labels(MEMORY_ROWS, *most, figures.known())));
        let chart = Chart::of(&all, paint);
        let columns = curve.columns(chart.columns, 0);
        if let Some(peak) = self.peak() {
            chart.mark_peak(out, peak, curve.span_ns, figures)?;
        }
        let live: Vec<u64> = columns.iter().map(|column| column.live_bytes).collect();
        chart.write(out, ROWS, (&live, peak), figures)?;
        if let Some((most, _)) = memory {
            let values: Vec<u64> = columns.iter().map(|column| column.memory_bytes).collect();
            writeln!(out, "{:1$}   {2}", "", chart.label_width, self.memory_name())?;
            chart.write(out, MEMORY_ROWS, (&values, most), figures.known())?;
        }
        chart.time(out, curve.span_ns)?;
        writeln!(out)?;
        self.processes(out)?;
        for (name, text) in self.facts() {
            writeln!(out, "  {name:<8}{}", paint.lines(&text, INDENT, INDENT))?;
        }
        notes::write(out, self.seen, paint)?;
        out.flush()
    }

    /// A line for each of those that held most: their own curve, on the scale of the highest of them.
    fn processes(&self, out: &mut dyn Write) -> io::Result<()> {
        let (curve, paint, figures) = (self.curve, self.paint, self.figures());
        let shown: Vec<&CurveProcess> = curve.processes.iter().take(SHOWN).collect();
        let Some(highest) = shown.first().map(|one| one.most_bytes) else { return Ok(()) };
        let columns = curve.columns(SPARKS, SHOWN);
        let names: Vec<String> = shown.iter().map(|one| Self::name_of(one)).collect();
        let longest = names.iter().map(|name| width(name)).max().unwrap_or(0).min(24);
        for (place, (one, name)) in shown.iter().zip(&names).enumerate() {
            let values: Vec<u64> = columns.iter().filter_map(|column| column.shares.get(place).copied()).collect();
            // Where it held nothing, or was not among those with the most, nothing stands.
            let signs = sparks(&values, highest, paint);
            let signs = signs.chars().zip(&values).map(|(sign, value)| if *value == 0 { ' ' } else { sign });
            let signs: String = signs.collect();
            let most = figures.bytes(one.most_bytes);
            let name = paint.cut(name, longest);
            let gap = " ".repeat(longest.saturating_sub(width(&name)));
            writeln!(out, "{}", paint.fitted(&format!("  {name}{gap}  {} {most} at most", signs)))?;
        }
        let more = curve.processes.len() - shown.len();
        if more != 0 {
            writeln!(out, "  {}", counted(more as u64, "more process", "more processes"))?;
        }
        writeln!(out)
    }

    fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let curve = self.curve;
        line(out, &HeaderLine::new("timeline", self.session, None))?;
        let peak = self.peak();
        line(
            out,
            &FamilyTimelineLine {
                r#type: "family_timeline",
                program: self.program,
                start_unix_ns: curve.began_unix_ns,
                span_ns: curve.span_ns,
                peak_bytes: peak.map(|(bytes, _)| bytes),
                peak_time_ns: peak.map(|(_, at)| at),
                most_memory_bytes: self.most_memory().map(|(bytes, _)| bytes),
                memory: if curve.is_pss { "pss" } else { "rss" },
            },
        )?;
        for moment in &curve.moments {
            line(out, &self.moment(moment))?;
        }
        end(out, self.ending(), self.seen)
    }

    fn moment(&self, moment: &FamilyMemory) -> FamilyMomentLine {
        let share = |(pid, start_ticks, live_bytes): &(u32, u64, u64)| MomentShare {
            pid: *pid,
            start_ticks: *start_ticks,
            live_bytes: *live_bytes,
        };
        FamilyMomentLine {
            r#type: "moment",
            time_ns: self.curve.at_ns(moment),
            live_bytes: moment.live_bytes,
            rss_bytes: moment.rss_bytes,
            pss_bytes: moment.pss_bytes,
            processes: moment.processes,
            most: moment.most.iter().map(share).collect(),
        }
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let columns = ["time_ns", "live_bytes", "rss_bytes", "pss_bytes", "processes"];
        let mut columns: Vec<Column> = columns.into_iter().map(Column::number).collect();
        columns.push(Column::text("most"));
        let mut table = Table::new(&mut *out, TableForm::Csv, columns)?;
        for moment in &self.curve.moments {
            let most: Vec<String> = moment.most.iter().map(|(pid, _, bytes)| format!("{pid}:{bytes}")).collect();
            table.row(&[
                Cell::Count(self.curve.at_ns(moment)),
                Cell::Bytes(moment.live_bytes),
                Cell::Bytes(moment.rss_bytes),
                Cell::maybe(moment.pss_bytes, Cell::Bytes),
                Cell::Count(moment.processes.into()),
                Cell::Text(most.join(" ")),
            ])?;
        }
        table.end()?;
        out.flush()
    }

    /// Areas of processes stand on each other, those that held most below.
    fn svg(&self, out: &mut dyn Write) -> io::Result<()> {
        let (curve, figures) = (self.curve, self.figures());
        let columns = curve.columns(svg::COLUMNS, SHOWN);
        let shown: Vec<&CurveProcess> = curve.processes.iter().take(SHOWN).collect();
        let mut live = vec![(CLASSES[SHOWN], columns.iter().map(|column| column.live_bytes).collect::<Vec<u64>>())];
        // Drawn from the top: each hides the lower part of the one before.
        for place in (0..shown.len()).rev() {
            let of = |shares: &[u64]| shares.iter().take(place + 1).copied().fold(0, u64::saturating_add);
            let class = CLASSES.get(place).copied().unwrap_or("so");
            live.push((class, columns.iter().map(|column| of(&column.shares).min(column.live_bytes)).collect()));
        }
        let mut lines: Vec<(Option<&str>, String)> = Vec::new();
        for (one, class) in shown.iter().zip(CLASSES) {
            lines.push((Some(class), format!("{}: {} at most", Self::name_of(one), figures.bytes(one.most_bytes))));
        }
        lines.push((Some(CLASSES[SHOWN]), "all others".to_owned()));
        lines.extend(self.facts().into_iter().map(|(name, text)| (None, format!("{name}: {text}"))));
        lines.extend(self.seen.notes.iter().map(|note| (None, sentence(note))));
        let memory = columns.iter().map(|column| column.memory_bytes).collect();
        let picture = ChartsPicture {
            title: &self.title(),
            live: &live,
            peak: self.peak(),
            memory: self.most_memory().map(|(most, _)| (self.memory_name(), memory, most)),
            span_ns: curve.span_ns,
            lines: &lines,
            figures,
        };
        picture.write(out)
    }
}
