//! The heap over time, drawn with letters.

/// Steps of a letter's height.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The same for terminals that know ASCII only.
const PLAIN: [char; 3] = ['.', ':', '|'];

/// The least span that fills the height, as a part of the highest value: what moves less looks as if it moved less.
const LEAST_SPAN: u64 = 20;

/// Lowest and highest value of a chart of these columns.
pub(super) fn bounds(columns: &[Option<u64>]) -> Option<(u64, u64)> {
    let low = columns.iter().flatten().min()?;
    let high = columns.iter().flatten().max()?;
    Some((*low, *high))
}

/// The lines of a chart so many lines high, the uppermost first.
pub(super) fn chart(columns: &[Option<u64>], height: usize, ascii: bool) -> Vec<String> {
    let letters: &[char] = if ascii { &PLAIN } else { &BLOCKS };
    let Some((low, high)) = bounds(columns) else { return vec![String::new(); height] };
    let span = (high - low).max(high / LEAST_SPAN).max(1);
    let low = high.saturating_sub(span);
    let steps = (height * letters.len()) as u128;
    // From 1 step for the lowest value to all of them for the highest.
    let filled = |value: u64| {
        let part = u128::from(value.saturating_sub(low)) * (steps.saturating_sub(1)) / u128::from(span);
        1 + part.min(steps.saturating_sub(1)) as usize
    };
    let line = |from_top: usize| {
        let below = (height - 1 - from_top) * letters.len();
        let letter = |value: &Option<u64>| match value.map(filled) {
            Some(filled) if filled > below => letters[(filled - below).min(letters.len()) - 1],
            _ => ' ',
        };
        columns.iter().map(letter).collect::<String>()
    };
    (0..height).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_and_high_fill_the_height() {
        let columns = [None, Some(0), Some(50), Some(100)];
        assert_eq!(chart(&columns, 1, false), [" ▁▄█"]);
        assert_eq!(chart(&columns, 2, false), ["   █", " ▁██"]);
        assert_eq!(chart(&columns, 1, true), [" .:|"]);
        assert_eq!(chart(&columns, 0, true), [""; 0]);
    }

    #[test]
    fn what_hardly_moves_looks_like_that() {
        assert_eq!(chart(&[Some(1000), Some(1001)], 1, false), ["▇█"]);
        assert_eq!(chart(&[Some(7); 3], 1, false), ["███"]);
        assert_eq!(chart(&[Some(0); 3], 1, false), ["▁▁▁"]);
        assert_eq!(chart(&[Some(u64::MAX), Some(0)], 1, false), ["█▁"]);
        assert_eq!(chart(&[None; 2], 2, false), ["", ""]);
    }
}
