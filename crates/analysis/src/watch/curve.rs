//! The heap over the last minutes.

use std::collections::VecDeque;

/// Points kept: an hour of seconds.
const POINTS_MAX: usize = 3600;

/// Live bytes by time, for as many columns as there is room for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// (when, bytes), in order of time.
    points: VecDeque<(u64, u64)>,
}

impl Curve {
    /// Adds a point. One that is not later than the last takes its place.
    pub fn push(&mut self, at_ns: u64, bytes: u64) {
        if self.points.back().is_some_and(|(last, _)| *last >= at_ns) {
            self.points.pop_back();
        }
        self.points.push_back((at_ns, bytes));
        if self.points.len() > POINTS_MAX {
            self.points.pop_front();
        }
    }

    /// The last `span_ns` up to the newest point, in `width` columns: the highest value of each, and what was there
    /// last where nothing was measured. `None` before the first point.
    pub fn columns(&self, width: usize, span_ns: u64) -> Vec<Option<u64>> {
        let Some((end, _)) = self.points.back().copied() else { return vec![None; width] };
        // Counted from the right, where the newest point is. Columns begin at fixed times: as time goes on they move as a
        // whole, and do not shimmer.
        let each = (span_ns / (width as u64).max(1)).max(1);
        let column = |at: u64| width.checked_sub(1 + (end / each - at / each) as usize);
        // Of each the highest and the last value.
        let mut columns: Vec<Option<(u64, u64)>> = vec![None; width];
        let mut before = None;
        for (at, bytes) in &self.points {
            match column(*at).and_then(|column| columns.get_mut(column)) {
                Some(place) => *place = Some((place.map_or(*bytes, |(highest, _)| highest.max(*bytes)), *bytes)),
                None => before = Some(*bytes),
            }
        }
        let fill = |place: Option<(u64, u64)>| {
            let highest = place.map(|(highest, _)| highest).or(before);
            before = place.map(|(_, last)| last).or(before);
            highest
        };
        columns.into_iter().map(fill).collect()
    }

    /// How long there have been points.
    pub fn span_ns(&self) -> u64 {
        match (self.points.front(), self.points.back()) {
            (Some((first, _)), Some((last, _))) => last - first,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_hold_the_highest_of_their_time() {
        let mut curve = Curve::default();
        assert_eq!(curve.columns(3, 10), [None; 3]);
        for (at, bytes) in [(100, 5), (101, 9), (102, 7), (110, 3)] {
            curve.push(at, bytes);
        }
        assert_eq!(curve.span_ns(), 10);
        assert_eq!(curve.columns(5, 10), [Some(7), Some(7), Some(7), Some(7), Some(3)]);
        assert_eq!(curve.columns(4, 20), [None, Some(9), Some(7), Some(3)]);
        assert_eq!(curve.columns(6, 60), [None, None, None, None, Some(9), Some(3)], "the newest is at the right end");
        assert_eq!(curve.columns(2, 2), [Some(7), Some(3)], "what was before the window goes on");
        assert_eq!(curve.columns(0, 10), []);
        assert_eq!(curve.columns(1, 0), [Some(3)]);
    }

    #[test]
    fn old_points_go() {
        let mut curve = Curve::default();
        for at in 0..2 * POINTS_MAX as u64 {
            curve.push(at, at);
        }
        assert_eq!(curve.points.len(), POINTS_MAX);
        curve.push(0, 1);
        assert_eq!(curve.points.len(), POINTS_MAX, "a clock that goes back does not add up");
    }
}
