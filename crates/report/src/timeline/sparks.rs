//! Figures over time in a line: sparks.

use heapledger_analysis::HeapTimeline;

use crate::form::units::Paint;

/// Columns of sparks in the summary of `run`.
const SPARKS: usize = 40;
/// A run with fewer looks than these has no curve worth a line.
const LOOKS_MIN: u64 = 4;

/// The line of the summary of `run` with live bytes over time, and what memory the process had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSparks {
    live: Vec<u64>,
    most_memory_bytes: Option<u64>,
}

impl RunSparks {
    /// That of a run; `None` if it was too short for one, or nothing was noted.
    pub fn of(timeline: &HeapTimeline) -> Option<RunSparks> {
        let looks: u64 = timeline.points.iter().map(|point| u64::from(point.looks)).sum();
        let most_memory_bytes = timeline.most_memory().and_then(|most| most.own_memory_bytes());
        let live = timeline.columns(SPARKS).into_iter().map(|column| column.live_bytes).collect();
        (looks >= LOOKS_MIN).then_some(RunSparks { live, most_memory_bytes })
    }

    /// What stands in the line, behind `begin` columns.
    pub(crate) fn shown(&self, paint: Paint, begin: usize) -> String {
        let figures = paint.exact_figures();
        let most = self.live.iter().copied().max().unwrap_or(0);
        let memory = self.most_memory_bytes.map(|bytes| format!("; anon RSS up to {}", figures.bytes(bytes)));
        format!("{}{}", sparks(&narrowed(&self.live, paint, begin), most, paint), memory.unwrap_or_default())
    }
}

/// As many values as there is room for behind `begin` columns, and before a sign: each is the highest of those that it stands for.
pub(crate) fn narrowed(values: &[u64], paint: Paint, begin: usize) -> Vec<u64> {
    let room = paint.columns.saturating_sub(begin + 1).max(1);
    if paint.columns == 0 || values.len() <= room {
        return values.to_vec();
    }
    let part = |column: usize| values.get(column * values.len() / room..(column + 1) * values.len() / room);
    (0..room).filter_map(|column| part(column)?.iter().copied().max()).collect()
}

/// A sign for each value, as high as it is beside `most`.
pub(crate) fn sparks(values: &[u64], most: u64, paint: Paint) -> String {
    let levels = paint.signs().levels;
    let level = |value: u64| {
        let step = (value as f64 / most.max(1) as f64 * levels.len() as f64).ceil() as usize;
        step.clamp(1, levels.len()) - 1
    };
    values.iter().map(|value| levels.get(level(*value)).copied().unwrap_or(" ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_is_whole_and_little_is_seen() {
        assert_eq!(sparks(&[0, 1, 50, 51, 100], 100, Paint::default()), "▁▁▄▅█");
        assert_eq!(sparks(&[0, 100], 100, Paint { ascii: true, ..Paint::default() }), "_#");
        assert_eq!(sparks(&[0, 0], 0, Paint::default()), "▁▁");
        assert_eq!(RunSparks::of(&HeapTimeline::default()), None);
        let shown = RunSparks { live: vec![7, 1], most_memory_bytes: Some(4096) }.shown(Paint::default(), 15);
        assert_eq!(shown, "█▂; anon RSS up to 4.00 KiB");
        let values: Vec<u64> = (1..=40).collect();
        let narrow = |columns| narrowed(&values, Paint { columns, ..Paint::default() }, 15);
        assert_eq!((narrow(0), narrow(56)), (values.clone(), values.clone()));
        assert_eq!((narrow(26), narrow(3)), (vec![4, 8, 12, 16, 20, 24, 28, 32, 36, 40], vec![40]));
    }
}
