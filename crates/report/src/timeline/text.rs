//! Figures over time for a terminal: live bytes as a chart, memory of the process below it, on one axis of time.

use std::io::{self, Write};

use heapledger_analysis::{HeapTimeline, SeenBy, TimelinePoint};

use super::TimelineReport;
use crate::form::fit::width;
use crate::form::notes;
use crate::form::units::{Figures, Paint, clean, count, counted, span};

/// Rows of the chart of live bytes; a multiple of [`LABELLED`].
pub(super) const ROWS: usize = 12;
/// And of that of the memory.
pub(super) const MEMORY_ROWS: usize = 6;
/// Every so many rows there is a figure.
const LABELLED: usize = 3;
/// Columns where there is no terminal.
const COLUMNS: usize = 80;
/// Fewest and most columns of a chart.
const CHART: [usize; 2] = [20, 400];
/// Columns before what a line says.
pub(super) const INDENT: usize = 10;
/// Between two figures on the axis of time.
const TIME_GAP: usize = 16;
/// Coarser intervals are told.
const COARSE_NS: u64 = 100_000_000;
/// Who looked only for a shorter part of the time is not told, in parts of the whole.
const SHORT: u64 = 50;

/// Writes the chart, and in words what there is to see.
pub(super) fn write(report: &TimelineReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let TimelineReport { timeline, sampled, paint, seen, .. } = *report;
    let figures = paint.figures(sampled.is_some());
    let title = format!("Heap of {} over {}", clean(report.program()), span(timeline.span_ns()));
    writeln!(
        out,
        "{}\n",
        paint.strong(paint.cut(&title, if paint.columns == 0 { usize::MAX } else { paint.columns }))
    )?;
    let peak = timeline.peak().map_or(0, |peak| peak.highest_bytes);
    let most = timeline.most_memory().filter(|_| timeline.has_memory_over_time());
    let most = most.and_then(TimelinePoint::own_memory_bytes);
    let labels = labels(ROWS, peak, figures).into_iter();
    let labels: Vec<String> =
        labels.chain(most.map_or_else(Vec::new, |most| self::labels(MEMORY_ROWS, most, figures.known()))).collect();
    let chart = Chart::of(&labels, paint);
    let seen_columns = timeline.columns(chart.columns);
    if let Some(peak) = timeline.peak() {
        let peak_ns = timeline.peak_ns().unwrap_or(peak.highest_ns);
        chart.mark_peak(out, (peak.highest_bytes, peak_ns), timeline.span_ns(), figures)?;
    }
    let live: Vec<u64> = seen_columns.iter().map(|column| column.live_bytes).collect();
    chart.write(out, ROWS, (&live, peak), figures)?;
    if let Some(most) = most {
        let memory: Vec<u64> = seen_columns.iter().map(|column| column.own_memory_bytes.unwrap_or(0)).collect();
        writeln!(out, "{:1$}   RSS", "", chart.label_width)?;
        chart.write(out, MEMORY_ROWS, (&memory, most), figures.known())?;
    }
    chart.time(out, timeline.span_ns())?;
    writeln!(out)?;
    for (name, text) in facts(timeline, figures) {
        writeln!(out, "  {name:<8}{}", paint.lines(&text, INDENT, INDENT))?;
    }
    notes::write(out, seen, paint)?;
    out.flush()
}

/// Figures at every third row, from the top.
pub(super) fn labels(rows: usize, most: u64, figures: Figures) -> Vec<String> {
    let steps = (rows / LABELLED) as u64;
    let at = |step: u64| u64::try_from(u128::from(most) * u128::from(step) / u128::from(steps.max(1))).unwrap_or(most);
    (0..=steps).rev().map(|step| figures.bytes(at(step))).collect()
}

pub(super) struct Chart {
    pub(super) paint: Paint,
    pub(super) label_width: usize,
    pub(super) columns: usize,
}

impl Chart {
    /// One with room for these labels, as wide as there is room.
    pub(super) fn of(labels: &[String], paint: Paint) -> Chart {
        let label_width = labels.iter().map(|label| width(label)).max().unwrap_or(0).max(8);
        let columns = if paint.columns == 0 { COLUMNS } else { paint.columns };
        let columns = columns.saturating_sub(label_width + 4).clamp(CHART[0], CHART[1]);
        Chart { paint, label_width, columns }
    }

    /// Rows of columns of which the highest is `most`, and the line below.
    pub(super) fn write(
        &self,
        out: &mut dyn Write,
        rows: usize,
        (values, most): (&[u64], u64),
        figures: Figures,
    ) -> io::Result<()> {
        let signs = self.paint.signs();
        let labels = labels(rows, most, figures);
        let steps = signs.levels.len();
        let heights = values.iter().map(|value| {
            let part = *value as f64 / most.max(1) as f64;
            let height = (part * (rows * steps) as f64).round() as usize;
            // What is there is seen.
            height.max(usize::from(*value != 0)).min(rows * steps)
        });
        let heights: Vec<usize> = heights.collect();
        for row in (0..rows).rev() {
            let (above, is_labelled) = (row + 1, (row + 1) % LABELLED == 0);
            let label = labels.get((rows - above) / LABELLED).filter(|_| is_labelled).map_or("", String::as_str);
            let line: String = heights
                .iter()
                .map(|height| match height.saturating_sub(row * steps).min(steps) {
                    0 => " ",
                    step => signs.levels.get(step - 1).copied().unwrap_or(" "),
                })
                .collect();
            self.row(out, label, signs.vertical, line.trim_end())?;
        }
        let floor = signs.horizontal.repeat(self.columns);
        self.row(out, &figures.bytes(0), signs.last, &floor)
    }

    fn row(&self, out: &mut dyn Write, label: &str, edge: &str, line: &str) -> io::Result<()> {
        let gap = " ".repeat(self.label_width.saturating_sub(width(label)));
        writeln!(out, "  {gap}{label} {edge}{line}")
    }

    /// Points at the column of the peak, with words on the side where there is room; above it where there is none.
    pub(super) fn mark_peak(
        &self,
        out: &mut dyn Write,
        (bytes, peak_ns): (u64, u64),
        whole_ns: u64,
        figures: Figures,
    ) -> io::Result<()> {
        let part = peak_ns as f64 / whole_ns.max(1) as f64;
        let at = ((part * self.columns as f64) as usize).min(self.columns.saturating_sub(1));
        let words = format!("peak {}, after {}", figures.bytes(bytes), span(peak_ns));
        let words = self.paint.printed(&words).into_owned();
        let sign = if self.paint.ascii { "v" } else { "▼" };
        let begin = self.label_width + 4;
        let line = match at.checked_sub(width(&words) + 1) {
            Some(room) => format!("{}{words} {sign}", " ".repeat(room)),
            None if at + 2 + width(&words) <= self.columns => format!("{}{sign} {words}", " ".repeat(at)),
            None => {
                writeln!(
                    out,
                    "{}{words}",
                    " ".repeat((begin + self.columns).saturating_sub(width(&words)).min(begin))
                )?;
                format!("{}{sign}", " ".repeat(at))
            }
        };
        writeln!(out, "{}{line}", " ".repeat(begin))
    }

    /// Times below a chart, where they are.
    pub(super) fn time(&self, out: &mut dyn Write, whole: u64) -> io::Result<()> {
        let steps = (self.columns / TIME_GAP).clamp(1, 8);
        let mut line = String::new();
        for step in 0..=steps {
            let ns = u64::try_from(u128::from(whole) * step as u128 / steps as u128).unwrap_or(whole);
            let words = self.paint.printed(&if step == 0 { "0 s".to_owned() } else { span(ns) }).into_owned();
            let at = self.columns * step / steps;
            // The last ends where the chart does.
            let at = if step == steps { self.columns.saturating_sub(width(&words)) } else { at };
            if at > width(&line) || step == 0 {
                line.push_str(&" ".repeat(at.saturating_sub(width(&line))));
                line.push_str(&words);
            }
        }
        writeln!(out, "{}{line}", " ".repeat(self.label_width + 4))
    }
}

/// What there is to see, in words.
pub(super) fn facts(timeline: &HeapTimeline, figures: Figures) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let Some((peak, last)) = timeline.peak().zip(timeline.points.last()) else { return facts };
    let blocks = |blocks: Option<u64>, about: &str| {
        blocks.map_or_else(String::new, |blocks| format!(" in {about}{}", figures.counted(blocks, "block", "blocks")))
    };
    let error = if figures.estimated { 0 } else { timeline.peak_error_bytes };
    let most = figures.within(peak.highest_bytes, error);
    // As in `stats`: what is inexact and no estimate is said in a word.
    let about = if error == 0 { "" } else { "about " };
    // Where it may be off by more than it is, it is told as an upper bound already.
    let at_most = if error < peak.highest_bytes || error == 0 { " at most" } else { "" };
    facts.push((
        "live",
        format!(
            "{most}{}{at_most}, after {}; {}{} in the end",
            blocks(timeline.peak_blocks(), about),
            span(timeline.peak_ns().unwrap_or(peak.highest_ns)),
            figures.bytes(last.live_bytes),
            blocks(last.live_blocks, "")
        ),
    ));
    if let Some(totals) = last.allocations.zip(last.frees).zip(last.bytes_allocated) {
        let ((allocations, frees), bytes) = totals;
        let allocations = figures.counted(allocations, "block", "blocks");
        facts.push((
            "calls",
            format!("{allocations} allocated, {} in all; {} freed", figures.bytes(bytes), figures.count(frees)),
        ));
    }
    let known = figures.known();
    if let Some((most, bytes)) = timeline.most_memory().and_then(|most| Some((most, most.own_memory_bytes()?))) {
        let swapped = timeline.points.iter().filter_map(|point| point.swapped_bytes).max().unwrap_or(0);
        let swapped =
            if swapped == 0 { String::new() } else { format!("; up to {} swapped out", known.bytes(swapped)) };
        let when = match timeline.has_memory_over_time() {
            true => format!("at most when somebody looked, after {}", span(most.end_ns)),
            false => "now".to_owned(),
        };
        let bytes = known.bytes(bytes);
        let what = "anonymous memory of the process (RssAnon), without the recorder's";
        facts.push(("RSS", format!("{bytes} {when}{swapped}; {what}")));
    }
    let faults = timeline.points.iter().rev().find_map(|point| point.minor_faults.zip(point.major_faults));
    if let Some((minor, major)) = faults {
        let read = if major == 0 { "none".to_owned() } else { count(major) };
        let all = counted(minor.saturating_add(major), "page fault", "page faults");
        facts.push(("faults", format!("{all}, {read} of them read from a disk")));
    }
    let mut text = seen(timeline);
    let error = timeline.live_error_bytes();
    if error != 0 && !figures.estimated {
        let error = figures.known().bytes(error);
        text.push_str(&format!(
            "; of more than 64 threads it notes what they had told of: live bytes are off by {error} at most"
        ));
    }
    facts.push(("seen", text));
    facts
}

/// Who looked when, and what may not be there for that.
fn seen(timeline: &HeapTimeline) -> String {
    let whole = timeline.span_ns();
    let parts = timeline.parts();
    let is_told =
        |seen_by, begin: u64, end: u64| seen_by == SeenBy::Recorder && end.saturating_sub(begin) > whole / SHORT;
    let by_run = parts.iter().any(|part| part.seen_by == SeenBy::Run);
    let alone: Vec<String> = parts
        .iter()
        .filter(|part| is_told(part.seen_by, part.begin_ns, part.end_ns))
        .map(|part| format!("from {} to {}", span(part.begin_ns), span(part.end_ns)))
        .collect();
    let mut text = match (by_run, alone.is_empty()) {
        (true, true) => "by run, from outside".to_owned(),
        (true, false) => format!(
            "by run, from outside; {} by the recorder alone, when something was allocated or freed: no RSS",
            alone.join(" and ")
        ),
        (false, _) => "by the recorder alone, when something was allocated or freed: no RSS over time".to_owned(),
    };
    let coarsest = timeline.coarsest_ns();
    if coarsest > COARSE_NS {
        text.push_str(&format!(
            "; in intervals of up to {}: the peak is there, and what else came and went in one if it was met",
            span(coarsest)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(values: &[u64], most: u64, paint: Paint) -> String {
        let chart = Chart { paint, label_width: 8, columns: values.len() };
        let mut out = Vec::new();
        chart.write(&mut out, 3, (values, most), Figures::default()).expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn the_highest_column_reaches_the_top_and_little_is_seen() {
        let wanted = "  \
   2.40 KiB │  █
            │ ▄█
            │▁██
       0 B └───
";
        let wanted: String = wanted.lines().map(|line| format!("{}\n", line.trim_start())).collect();
        let text: String = shown(&[1, 1228, 2457], 2457, Paint::default())
            .lines()
            .map(|line| format!("{}\n", line.trim_start()))
            .collect();
        assert_eq!(text, wanted);
        let ascii = shown(&[0, 1228, 2457], 2457, Paint { ascii: true, ..Paint::default() });
        assert!(ascii.is_ascii() && ascii.contains("|  #\n") && ascii.contains("`---\n"), "{ascii}");
        assert!(shown(&[0, 0], 0, Paint::default()).contains("│\n"), "nothing is no column");
    }

    #[test]
    fn a_peak_that_is_not_exact_says_so_once() {
        let point = TimelinePoint {
            begin_ns: 0,
            end_ns: 9_000,
            looks: 1,
            live_bytes: 300,
            live_blocks: Some(5),
            highest_bytes: 500,
            highest_blocks: Some(6),
            highest_ns: 4_000,
            ..TimelinePoint::default()
        };
        let told = |error, live_error_bytes| {
            let mut timeline = HeapTimeline::new(vec![TimelinePoint { live_error_bytes, ..point }]);
            timeline.peak_error_bytes = error;
            facts(&timeline, Figures::default()).into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\n")
        };
        let end = "after 4.00 µs; 300 B in 5 blocks in the end";
        assert!(told(0, 0).starts_with(&format!("500 B in 6 blocks at most, {end}")), "{}", told(0, 0));
        assert!(told(40, 0).starts_with(&format!("500 B ± 40 B in about 6 blocks at most, {end}")), "{}", told(40, 0));
        assert!(told(500, 0).starts_with(&format!("at most 1,000 B in about 6 blocks, {end}")), "{}", told(500, 0));
        assert!(told(0, 65_536).ends_with("live bytes are off by 64.0 KiB at most") && !told(0, 0).contains("off by"));
    }

    #[test]
    fn the_words_of_the_peak_are_no_wider_than_the_chart() {
        let shown = |columns, at| {
            let chart = Chart { paint: Paint::default(), label_width: 8, columns };
            let mut out = Vec::new();
            chart.mark_peak(&mut out, (6_396_313, at), 100_000_000, Figures::default()).expect("written");
            String::from_utf8(out).expect("text").replace(&" ".repeat(12), "<")
        };
        assert_eq!(shown(40, 10_000_000), "<    ▼ peak 6.10 MiB, after 10.0 ms\n");
        assert_eq!(shown(40, 90_000_000), "<       peak 6.10 MiB, after 90.0 ms ▼\n");
        assert_eq!(shown(28, 50_000_000), "<peak 6.10 MiB, after 50.0 ms\n<<  ▼\n");
        assert_eq!(shown(20, 50_000_000), "    peak 6.10 MiB, after 50.0 ms\n<          ▼\n");
    }

    #[test]
    fn times_stand_where_they_are_and_fit() {
        for columns in [20, 66, 120, 400] {
            let chart = Chart { paint: Paint::default(), label_width: 8, columns };
            let mut out = Vec::new();
            chart.time(&mut out, 1_240_000_000).expect("written");
            let line = String::from_utf8(out).expect("text");
            assert!(line.starts_with("            0 s") && line.ends_with("1.24 s\n"), "{line}");
            assert_eq!(width(line.trim_end()), 12 + columns);
        }
    }
}
