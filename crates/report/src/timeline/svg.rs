//! Figures over time as a picture: readable in any viewer, without a script.

use std::io::{self, Write};

use heapledger_analysis::TimelinePoint;

use super::text::facts;
use super::{CurvePicture, CurvePlace, TimelineReport};
use crate::flame::escaped;
use crate::form::notes::sentence;
use crate::form::units::{Figures, clean, span};

/// Width of the picture.
const WIDTH: f64 = 1200.0;
/// Left of the charts, where figures stand, and right of them.
const LEFT: f64 = 96.0;
const RIGHT: f64 = 24.0;
/// Heights of the charts of live bytes and of memory.
const HEIGHTS: [f64; 2] = [260.0, 110.0];
/// Upper edge of the first.
const TOP: f64 = 64.0;
/// Between the two.
const GAP: f64 = 36.0;
/// Height of a line of text.
const LINE: f64 = 18.0;
/// Figures on the axis of time.
const TIMES: u64 = 8;
/// Width of a letter, about.
const LETTER: f64 = 7.0;

const STYLE: &str = "\
text{font:12px system-ui,\"DejaVu Sans\",sans-serif;fill:#59636e}text.h{font-size:17px;font-weight:bold;fill:#1b1f24}
text.p{fill:#1b1f24;font-weight:bold}text.e{text-anchor:end}text.m{text-anchor:middle}
.live{fill:#4a90d9}.rss{fill:#9aa4af}.s0{fill:#2f6db5}.s1{fill:#d98b3f}.s2{fill:#5aa469}.s3{fill:#a35fb0}.s4{fill:#c4566b}
.s5{fill:#4aa3a8}.so{fill:#b9c3cd}.grid{stroke:#d1d9e0;stroke-width:1}.peak{fill:#b3261e}
@media (prefers-color-scheme: dark){.back{fill:#14171b}text{fill:#9aa4af}text.h,text.p{fill:#e6e9ec}
.live{fill:#3d78b5}.rss{fill:#5c6672}.so{fill:#4b545e}.grid{stroke:#363c44}.peak{fill:#ff8a80}}";

/// A chart of live bytes with its peak, one of memory below it, and lines of text, on one axis of time.
pub(super) struct ChartsPicture<'p> {
    pub(super) title: &'p str,
    /// Areas, the later ones in front: their class and their values.
    pub(super) live: &'p [(&'p str, Vec<u64>)],
    /// The highest of live bytes, and when that was.
    pub(super) peak: Option<(u64, u64)>,
    /// What the memory is called, its values, and the highest.
    pub(super) memory: Option<(&'p str, Vec<u64>, u64)>,
    pub(super) span_ns: u64,
    /// Lines below, each with the class of a square before it, if it has one.
    pub(super) lines: &'p [(Option<&'p str>, String)],
    pub(super) figures: Figures,
}

/// Columns of a picture.
pub(super) const COLUMNS: usize = (WIDTH - LEFT - RIGHT) as usize;

/// Writes the picture.
pub(super) fn write(report: &TimelineReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let TimelineReport { timeline, sampled, paint, seen, .. } = *report;
    let figures = paint.figures(sampled.is_some());
    let columns = timeline.columns(COLUMNS);
    let most = timeline.most_memory().filter(|_| timeline.has_memory_over_time());
    let most = most.and_then(TimelinePoint::own_memory_bytes);
    let memory = columns.iter().map(|column| column.own_memory_bytes.unwrap_or(0));
    let mut lines: Vec<(Option<&str>, String)> =
        facts(timeline, figures).into_iter().map(|(name, text)| (None, format!("{name}: {text}"))).collect();
    lines.extend(seen.notes.iter().map(|note| (None, sentence(note))));
    let peak = timeline.peak();
    let picture = ChartsPicture {
        title: &format!("Heap of {} over {}", clean(report.program()), span(timeline.span_ns())),
        live: &[("live", columns.iter().map(|column| column.live_bytes).collect())],
        peak: peak.map(|peak| (peak.highest_bytes, timeline.peak_ns().unwrap_or(peak.highest_ns))),
        memory: most.map(|most| ("RSS", memory.collect(), most)),
        span_ns: timeline.span_ns(),
        lines: &lines,
        figures,
    };
    picture.write(out)
}

impl ChartsPicture<'_> {
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let figures = self.figures;
        let width = WIDTH - LEFT - RIGHT;
        let charts = if self.memory.is_some() { HEIGHTS[0] + GAP + HEIGHTS[1] } else { HEIGHTS[0] };
        let height = TOP + charts + 44.0 + self.lines.len() as f64 * LINE;
        let title = escaped(self.title);
        writeln!(
            out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" \
             height=\"{height:.0}\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\">\n<title>{title}</title>\n<style>{STYLE}</style>"
        )?;
        writeln!(out, "<rect class=\"back\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>")?;
        writeln!(out, "<text class=\"h\" x=\"16\" y=\"28\">{title}</text>")?;
        let place = CurvePlace { x: LEFT, y: TOP, width, height: HEIGHTS[0] };
        let most = self.peak.map_or(0, |(bytes, _)| bytes);
        grid(out, place, most, figures)?;
        for (class, values) in self.live {
            writeln!(out, "<path class=\"{class}\" d=\"{}\"/>", CurvePicture { values, most }.path(place))?;
        }
        if let Some((bytes, at)) = self.peak {
            let x = LEFT + width * (at as f64 / self.span_ns.max(1) as f64).min(1.0);
            let words = format!("peak {}, after {}", figures.bytes(bytes), span(at));
            let is_left = x + words.chars().count() as f64 * LETTER + 16.0 > WIDTH;
            let (class, at) = if is_left { ("p e", x - 8.0) } else { ("p", x + 8.0) };
            writeln!(out, "<path class=\"peak\" d=\"M{x:.1} {TOP}l-5 -9h10Z\"/>")?;
            writeln!(out, "<text class=\"{class}\" x=\"{at:.1}\" y=\"{:.0}\">{}</text>", TOP - 9.0, escaped(&words))?;
        }
        if let Some((name, values, most)) = &self.memory {
            let place = CurvePlace { y: TOP + HEIGHTS[0] + GAP, height: HEIGHTS[1], ..place };
            writeln!(out, "<text x=\"{LEFT}\" y=\"{:.0}\">{}</text>", place.y - 8.0, escaped(name))?;
            grid(out, place, *most, figures.known())?;
            writeln!(out, "<path class=\"rss\" d=\"{}\"/>", CurvePicture { values, most: *most }.path(place))?;
        }
        self.times_and_lines(out, TOP + charts)
    }

    fn times_and_lines(&self, out: &mut dyn Write, floor: f64) -> io::Result<()> {
        for step in 0..=TIMES {
            let ns = u64::try_from(u128::from(self.span_ns) * u128::from(step) / u128::from(TIMES)).unwrap_or(0);
            let x = LEFT + (WIDTH - LEFT - RIGHT) * step as f64 / TIMES as f64;
            let class = if step == TIMES { "e" } else { "m" };
            let words = if step == 0 { "0 s".to_owned() } else { span(ns) };
            writeln!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{:.0}\">{}</text>", floor + 18.0, escaped(&words))?;
        }
        for (index, (square, line)) in self.lines.iter().enumerate() {
            let y = floor + 44.0 + index as f64 * LINE;
            let x = if square.is_some() { 34 } else { 16 };
            if let Some(class) = square {
                writeln!(out, "<rect class=\"{class}\" x=\"16\" y=\"{:.0}\" width=\"12\" height=\"12\"/>", y - 10.0)?;
            }
            writeln!(out, "<text x=\"{x}\" y=\"{y:.0}\">{}</text>", escaped(line))?;
        }
        writeln!(out, "</svg>")?;
        out.flush()
    }
}

/// Lines at quarters of the highest, with figures.
fn grid(out: &mut dyn Write, place: CurvePlace, most: u64, figures: Figures) -> io::Result<()> {
    let CurvePlace { x, y, width, height } = place;
    let steps = if height > 200.0 { 4 } else { 2 };
    for step in 0..=steps {
        let at = y + height * (1.0 - f64::from(step) / f64::from(steps));
        let bytes = (most as f64 * f64::from(step) / f64::from(steps)) as u64;
        let bytes = if step == steps { most } else { bytes };
        writeln!(out, "<path class=\"grid\" d=\"M{x} {at:.1}h{width}\"/>")?;
        let words = escaped(&figures.bytes(bytes));
        writeln!(out, "<text class=\"e\" x=\"{:.0}\" y=\"{:.1}\">{words}</text>", x - 8.0, at + 4.0)?;
    }
    Ok(())
}
