//! From where on something is shown: a share, or an amount.

use anyhow::Result;
use heapledger_launch::size::parse_size;

/// From where on something is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Least {
    /// A part of the whole, from 0 to 1.
    Share(f64),
    /// So many bytes or blocks.
    Amount(u64),
}

impl Least {
    /// So many bytes or blocks of `whole`.
    pub(crate) fn of(self, whole: u64) -> u64 {
        match self {
            Least::Share(part) => (whole as f64 * part).ceil() as u64,
            Least::Amount(amount) => amount,
        }
    }
}

/// `1%`, `0.5 %`, `64K`, `1000`.
pub(crate) fn parse_least(text: &str) -> Result<Least, String> {
    let Some(percent) = text.trim().strip_suffix('%') else {
        let problem = |_| format!("'{text}' is neither a share such as 0.5% nor an amount such as 64K");
        return parse_size(text).map(Least::Amount).map_err(problem);
    };
    match percent.trim().parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Least::Share(percent / 100.0)),
        _ => Err(format!("'{text}' is no share from 0% to 100%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read() {
        for (text, whole, least) in [("1%", 1000, 10), ("0.5 %", 1000, 5), ("64K", 1, 65536), ("7", 100, 7)] {
            assert_eq!(parse_least(text).map(|least| least.of(whole)), Ok(least), "{text}");
        }
        for text in ["", "%", "-1%", "101%", "x", "NaN%", "1%%"] {
            assert!(parse_least(text).is_err(), "{text}");
        }
    }
}
