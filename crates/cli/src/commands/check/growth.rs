//! How much more than the baseline is allowed: a percentage, or a size; and how many stacks are shown.

use heapledger_analysis::Growth;
use heapledger_launch::size::parse_size;

/// What a comparison allows if nothing is said.
pub(super) const USUAL: Growth = Growth::Percent(5.0);
/// `5%`, `0.5%`, `4M`.
pub(super) fn parse_growth(text: &str) -> Result<Growth, String> {
    match text.strip_suffix('%') {
        Some(number) => number
            .trim()
            .parse()
            .ok()
            .filter(|percent: &f64| percent.is_finite() && *percent >= 0.0)
            .map(Growth::Percent)
            .ok_or_else(|| {
                format!("'{text}' is not a percentage such as 5%: growth that is allowed is nothing or more")
            }),
        None => parse_size(text).map(Growth::Bytes),
    }
}

/// So many; 0 is all.
pub(super) fn all_or_some(text: &str) -> Result<usize, std::num::ParseIntError> {
    text.parse().map(|number| if number == 0 { usize::MAX } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_a_percentage_or_a_size() {
        assert_eq!(parse_growth("5%"), Ok(Growth::Percent(5.0)));
        assert_eq!(parse_growth("0.5 %"), Ok(Growth::Percent(0.5)));
        assert_eq!(parse_growth("4M"), Ok(Growth::Bytes(4 << 20)));
        for odd in ["", "%", "-1%", "inf%", "NaN%", "5%%", "x"] {
            assert!(parse_growth(odd).is_err(), "{odd}");
        }
    }
}
