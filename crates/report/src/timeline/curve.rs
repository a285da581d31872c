//! Figures over time as an outline, for pictures.

use std::fmt::Write as _;

/// Where something is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CurvePlace {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// Values at equal steps of time, of which the highest possible is `most`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurvePicture<'a> {
    pub(crate) values: &'a [u64],
    pub(crate) most: u64,
}

impl CurvePicture<'_> {
    /// The outline of the area below it, as an SVG path: steps, each as wide as its time.
    pub(crate) fn path(&self, place: CurvePlace) -> String {
        let CurvePlace { x, y, width, height } = place;
        let (floor, step) = (y + height, width / self.values.len().max(1) as f64);
        let mut path = format!("M{x:.1} {floor:.1}");
        let mut before = None;
        for (index, value) in self.values.iter().enumerate() {
            let top = floor - height * (*value as f64 / self.most.max(1) as f64).min(1.0);
            // A level that goes on needs no corner.
            if before != Some(*value) {
                let _ = write!(path, "H{:.1}V{top:.1}", x + step * index as f64);
            }
            before = Some(*value);
        }
        let _ = write!(path, "H{:.1}V{floor:.1}Z", x + width);
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_as_wide_as_their_time() {
        let place = CurvePlace { x: 10.0, y: 0.0, width: 100.0, height: 50.0 };
        let path = CurvePicture { values: &[0, 10, 10, 5], most: 10 }.path(place);
        assert_eq!(path, "M10.0 50.0H10.0V50.0H35.0V0.0H85.0V25.0H110.0V50.0Z");
        assert_eq!(CurvePicture { values: &[], most: 0 }.path(place), "M10.0 50.0H110.0V50.0Z");
    }
}
