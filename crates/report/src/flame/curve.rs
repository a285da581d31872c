//! What stands above a flame graph in a page: live bytes over time, with buttons for the peak and the end.

use heapledger_analysis::HeapTimeline;

use super::FlameFacts;
use super::html::escaped;
use crate::form::units::{Figures, span};
use crate::timeline::{CurvePicture, CurvePlace};

/// Columns and height of the curve, in units of its own: it is drawn as wide as the page.
const COLUMNS: usize = 800;
const HEIGHT: f64 = 100.0;

/// Elements of the page; nothing, if nothing is known over time.
pub(super) fn curve(facts: &FlameFacts) -> String {
    let Some(timeline) = facts.curve.as_ref().filter(|timeline| timeline.is_known()) else { return String::new() };
    let figures = Figures { estimated: facts.estimated, exact_bytes: facts.exact_bytes };
    shown(timeline, figures).unwrap_or_default()
}

fn shown(timeline: &HeapTimeline, figures: Figures) -> Option<String> {
    let (peak, last) = timeline.peak().zip(timeline.points.last())?;
    let live: Vec<u64> = timeline.columns(COLUMNS).into_iter().map(|column| column.live_bytes).collect();
    let place = CurvePlace { x: 0.0, y: 0.0, width: COLUMNS as f64, height: HEIGHT };
    let path = CurvePicture { values: &live, most: peak.highest_bytes }.path(place);
    let whole = span(timeline.span_ns());
    let peak_ns = timeline.peak_ns().unwrap_or(peak.highest_ns);
    let at = (peak_ns as f64 / timeline.span_ns().max(1) as f64).min(1.0) * 100.0;
    let (bytes, end) = (figures.bytes(peak.highest_bytes), figures.bytes(last.live_bytes));
    let [bytes, end, when, whole] = [bytes, end, span(peak_ns), whole].map(|text| escaped(&text));
    Some(format!(
        "<figure id=\"curve\">\n<div><svg viewBox=\"0 0 {COLUMNS} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"Live bytes over time\"><path d=\"{path}\"/></svg><i style=\"left:{at:.2}%\"></i></div>\n\
         <figcaption><span>Live bytes over {whole}:</span> \
         <button type=\"button\" id=\"to-peak\" aria-pressed=\"false\">peak {bytes}, after {when}</button> \
         <button type=\"button\" id=\"to-end\" aria-pressed=\"false\">end {end}</button></figcaption>\n</figure>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapledger_analysis::TimelinePoint;

    fn point(begin_ns: u64, end_ns: u64, live_bytes: u64, highest_bytes: u64) -> TimelinePoint {
        TimelinePoint {
            begin_ns,
            end_ns,
            looks: 1,
            live_bytes,
            highest_bytes,
            highest_ns: end_ns,
            lowest_bytes: live_bytes,
            ..TimelinePoint::default()
        }
    }

    #[test]
    fn the_curve_says_when_the_peak_was_and_how_it_ended() {
        assert_eq!(curve(&FlameFacts::default()), "");
        assert_eq!(curve(&FlameFacts { curve: Some(HeapTimeline::default()), ..FlameFacts::default() }), "");
        let points = vec![point(0, 500_000_000, 10, 4096), point(500_000_000, 1_000_000_000, 2048, 2048)];
        let mut timeline = HeapTimeline::default();
        timeline.points = points;
        let facts = FlameFacts { curve: Some(timeline), ..FlameFacts::default() };
        let text = curve(&facts);
        assert!(text.contains("left:50.00%") && text.contains(">peak 4.00 KiB, after 500 ms<"), "{text}");
        assert!(text.contains(">end 2.00 KiB<") && text.contains("Live bytes over 1.00 s:"), "{text}");
        assert!(!curve(&FlameFacts { estimated: true, ..facts }).contains(">end 2.00 KiB<"), "an estimate is marked");
    }
}
