//! Figures as a person reads them.

use std::borrow::Cow;
use std::fmt::Display;

use anstyle::Style;
use heapledger_analysis::Sampled;

use crate::record::brief::brief;

pub(crate) use super::outside::clean;

/// Whether text is emphasized, and what it may be drawn with. Nothing is told by it that the words do not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paint {
    /// Whether escape sequences may be written.
    pub on: bool,
    /// Whether only ASCII may be written: see [`Paint::signs`].
    pub ascii: bool,
    /// Columns of the terminal, into which lines are made to fit; 0 if there is none, so that they are whole.
    pub columns: usize,
    /// Whether bytes are written exactly, without units: see [`Paint::figures`].
    pub exact_bytes: bool,
    /// Whether functions have their whole names, with what they are instantiated with and what they take: see
    /// [`Paint::function`].
    pub full_names: bool,
}

impl Paint {
    /// A function's name as a person reads it. There is no other way to write one: names that come from outside are made
    /// harmless here, and shortened unless they are wanted whole.
    pub fn function(self, name: &str) -> Cow<'_, str> {
        if self.full_names {
            return clean(name);
        }
        match brief(name) {
            Cow::Borrowed(name) => clean(name),
            Cow::Owned(name) => Cow::Owned(clean(&name).into_owned()),
        }
    }

    /// The text, emphasized if it may be.
    pub fn strong(self, text: impl Display) -> String {
        self.with(Style::new().bold(), text)
    }

    pub(crate) fn faint(self, text: impl Display) -> String {
        self.with(Style::new().dimmed(), text)
    }

    /// How figures are written. There is no other way to write bytes for a person than by these.
    pub fn figures(self, estimated: bool) -> Figures {
        Figures { estimated, exact_bytes: self.exact_bytes }
    }

    /// How estimates are written.
    pub fn estimated_figures(self) -> Figures {
        self.figures(true)
    }

    /// How figures are written that are no estimates.
    pub fn exact_figures(self) -> Figures {
        self.figures(false)
    }

    fn with(self, style: Style, text: impl Display) -> String {
        if self.on { format!("{style}{text}{style:#}") } else { text.to_string() }
    }
}

/// A number with its thousands apart: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number and what it counts: `1 block`, `2 blocks`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Bytes with a unit: `999 B`, `1.50 KiB`, `12.3 MiB`. Private: whether units are wanted is told by [`Figures`].
fn with_unit(number: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if number < 1024 {
        return plain_bytes(number);
    }
    let mut value = number as f64 / 1024.0;
    let mut unit = "KiB";
    for larger in &UNITS[1..] {
        if value < 1023.5 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    format!("{} {unit}", three_digits(value))
}

/// Bytes to the byte: `1,298,850 B`.
pub fn plain_bytes(number: u64) -> String {
    format!("{} B", count(number))
}

/// `1.24`, `12.4`, `124`.
fn three_digits(value: f64) -> String {
    let places = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.places$}")
}

/// By how many: `+512 blocks`, `-1 block`.
pub fn growth_counted(number: i64, one: &str, many: &str) -> String {
    format!("{}{}", sign(number), counted(number.unsigned_abs(), one, many))
}

pub(crate) fn sign(number: i64) -> &'static str {
    match number {
        1.. => "+",
        0 => "",
        _ => "-",
    }
}

/// A span of time in at most eight letters: `850 ns`, `12.1 ms`, `3.96 s`, `2m05s`, `3h12m`, `4d7h`.
pub fn span(ns: u64) -> String {
    let whole = ns / 1_000_000_000;
    let value = |unit: f64| three_digits(ns as f64 / unit);
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..999_500 => format!("{} µs", value(1e3)),
        999_500..999_500_000 => format!("{} ms", value(1e6)),
        999_500_000..59_950_000_000 => format!("{} s", value(1e9)),
        _ if whole < 60 => "1m00s".to_owned(),
        _ if whole < 3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        _ if whole < 86_400 => format!("{}h{:02}m", whole / 3600, whole / 60 % 60),
        _ => format!("{}d{}h", whole / 86_400, whole / 3600 % 24),
    }
}

/// A part of 1: `12.3%`, and never `0.0%` or `100.0%` for what is not.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        none if none <= 0.0 => "0%".to_owned(),
        little if little < 0.05 => "<0.1%".to_owned(),
        100.0 => "100%".to_owned(),
        nearly if (99.95..100.0).contains(&nearly) => ">99.9%".to_owned(),
        percent => format!("{percent:.1}%"),
    }
}

/// A point on the ledger's clock: seconds with as many places as a microsecond needs, `3.960 s`, `0.000123 s`.
pub(crate) fn clock(ns: u64) -> String {
    let (seconds, micros) = (ns / 1_000_000_000, ns / 1_000 % 1_000_000);
    if micros.is_multiple_of(1000) {
        format!("{seconds}.{:03} s", micros / 1000)
    } else {
        format!("{seconds}.{micros:06} s")
    }
}

/// A moment: `2026-11-20 23:24:25 UTC`.
pub fn moment(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years from March on, so that the leap day comes last; 400 years repeat (146,097 days).
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day_of_month:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// How blocks and their bytes are written: estimates are marked with `~` and never look exact. Made by
/// [`Paint::figures`], so that what a person asked for is not forgotten anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Whether they are estimates.
    pub estimated: bool,
    /// Whether bytes are written exactly, without units.
    pub exact_bytes: bool,
}

impl Figures {
    /// The same for what is known in a report of estimates.
    pub fn known(self) -> Figures {
        Figures { estimated: false, ..self }
    }

    pub(crate) fn mark(self, text: String) -> String {
        if self.estimated { format!("~{text}") } else { text }
    }

    /// `1,234,567` or `~1,234,567`.
    pub fn count(self, number: u64) -> String {
        self.mark(count(number))
    }

    /// `1 block`, `~2 blocks`.
    pub fn counted(self, number: u64, one: &str, many: &str) -> String {
        self.mark(counted(number, one, many))
    }

    /// `12.3 MiB` or `~12.3 MiB`; `12,897,485 B` if no units are wanted.
    pub fn bytes(self, number: u64) -> String {
        self.mark(if self.exact_bytes { plain_bytes(number) } else { with_unit(number) })
    }

    /// `1.24 MiB (1,298,850 B)` or `~1.24 MiB`; `1,298,850 B` if no units are wanted.
    pub fn bytes_exact(self, number: u64) -> String {
        let bytes = self.bytes(number);
        if self.estimated || self.exact_bytes || number < 1024 {
            bytes
        } else {
            format!("{bytes} ({})", plain_bytes(number))
        }
    }

    /// By how much something grew: `+12.3 MiB`, `-1 B`, `0 B`, `~+12.3 MiB`.
    pub fn growth(self, number: i64) -> String {
        self.mark(format!("{}{}", sign(number), self.known().bytes(number.unsigned_abs())))
    }

    /// The same, and exactly: `+1.24 MiB (+1,298,850 B)` or `~+1.24 MiB`.
    pub fn growth_exact(self, number: i64) -> String {
        let growth = self.growth(number);
        if self.estimated || self.exact_bytes || number.unsigned_abs() < 1024 {
            growth
        } else {
            format!("{growth} ({}{})", sign(number), plain_bytes(number.unsigned_abs()))
        }
    }

    /// A figure that may be off: `12.0 MiB ± 64.0 KiB`, or `at most 69.0 KiB` where the error is the greater.
    pub fn within(self, value: u64, error: u64) -> String {
        match error {
            0 => self.bytes(value),
            _ if error < value => format!("{} ± {}", self.bytes(value), self.known().bytes(error)),
            _ => format!("at most {}", self.bytes(value.saturating_add(error))),
        }
    }

    /// The same with the figure exactly: `12.0 MiB (12,582,912 B) ± 64.0 KiB`. What an estimate may be off is more than such an error.
    pub fn within_exact(self, value: u64, error: u64) -> String {
        match error {
            _ if self.estimated => self.bytes_exact(value),
            0 => self.bytes_exact(value),
            _ if error < value => format!("{} ± {}", self.bytes_exact(value), self.known().bytes(error)),
            _ => self.within(value, error),
        }
    }

    /// Where the estimates of a report come from, in one line; `what` they are of: `of live blocks`.
    pub fn sampled(self, sampled: Sampled, what: &str) -> String {
        let interval = self.known().bytes(sampled.interval_bytes);
        let samples = counted(sampled.samples, "sample", "samples");
        format!("one block in {interval}; figures marked ~ are estimates (Poisson, unbiased), {what} from {samples}")
    }

    /// The same with its standard error: `~1.24 MiB ± 4%`.
    pub fn bytes_with_error(self, number: u64, error: u64) -> String {
        let bytes = self.bytes_exact(number);
        if self.estimated && number != 0 {
            format!("{bytes} ± {}", percent(error as f64 / number as f64))
        } else {
            bytes
        }
    }

    /// What is said where nothing is to be seen.
    pub fn nothing(self) -> &'static str {
        if self.estimated { "no sample" } else { "nothing" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units_and_three_digits() {
        let figures = Figures::default();
        let (bytes, bytes_exact) = (|number| figures.bytes(number), |number| figures.bytes_exact(number));
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1), "1 B");
        assert_eq!(bytes(1023), "1,023 B");
        assert_eq!(bytes(1024), "1.00 KiB");
        assert_eq!(bytes_exact(1_298_850), "1.24 MiB (1,298,850 B)");
        assert_eq!(bytes(1024 * 1024 - 1), "1.00 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn shares_are_never_nothing_by_rounding() {
        let shares = [0.0, 0.0001, 0.123, 0.99999, 1.0, 1.5];
        assert_eq!(shares.map(percent), ["0%", "<0.1%", "12.3%", ">99.9%", "100%", "150.0%"]);
    }

    #[test]
    fn growth_has_a_sign() {
        let growth = |number| Figures::default().growth(number);
        assert_eq!([growth(1536), growth(0), growth(-1)], ["+1.50 KiB", "0 B", "-1 B"]);
        assert_eq!(Figures::default().growth_exact(-1536), "-1.50 KiB (-1,536 B)");
        assert_eq!(growth(i64::MIN), "-8.00 EiB");
        assert_eq!(growth_counted(-1234, "block", "blocks"), "-1,234 blocks");
    }

    #[test]
    fn estimates_are_marked() {
        let exact = Figures::default();
        let about = Figures { estimated: true, ..exact };
        assert_eq!((exact.count(1234), about.count(1234)), ("1,234".into(), "~1,234".into()));
        assert_eq!(about.counted(1, "block", "blocks"), "~1 block");
        assert_eq!(exact.bytes_exact(1_298_850), "1.24 MiB (1,298,850 B)");
        assert_eq!(about.bytes_exact(1_298_850), "~1.24 MiB");
        assert_eq!(about.bytes_with_error(1_298_850, 51_954), "~1.24 MiB ± 4.0%");
        assert_eq!(about.bytes_with_error(1_298_850, 519_540), "~1.24 MiB ± 40.0%");
        assert_eq!(about.bytes_with_error(1000, 0), "~1,000 B ± 0%");
        assert_eq!(about.bytes_with_error(0, 0), "~0 B");
        assert_eq!(exact.bytes_with_error(1000, 0), "1,000 B");
        assert_eq!(
            about.sampled(Sampled { interval_bytes: 512 << 10, samples: 1234 }, "of live blocks"),
            "one block in 512 KiB; figures marked ~ are estimates (Poisson, unbiased), of live blocks from 1,234 samples"
        );
    }

    #[test]
    fn no_unit_is_written_where_bytes_are_exact() {
        let figures = Paint { exact_bytes: true, ..Paint::default() }.exact_figures();
        assert_eq!(figures.bytes(1_298_850), "1,298,850 B");
        assert_eq!(figures.bytes_exact(1_298_850), "1,298,850 B");
        assert_eq!(figures.growth(-1_298_850), "-1,298,850 B");
        assert_eq!(figures.growth_exact(1_298_850), "+1,298,850 B");
        assert_eq!(figures.within(4096, 1024), "4,096 B ± 1,024 B");
        assert_eq!(figures.within(4096, 8192), "at most 12,288 B");
        let about = Figures { estimated: true, ..figures };
        assert_eq!(about.bytes_with_error(1_298_850, 51_954), "~1,298,850 B ± 4.0%");
        assert_eq!(about.growth(4096), "~+4,096 B");
        assert!(
            about.sampled(Sampled { interval_bytes: 512 << 10, samples: 7 }, "").starts_with("one block in 524,288 B;")
        );
    }

    #[test]
    fn times_are_short() {
        assert_eq!(span(0), "0 ns");
        assert_eq!(span(12_100_000), "12.1 ms");
        assert_eq!(span(3_960_000_000), "3.96 s");
        assert_eq!(span(125_000_000_000), "2m05s");
        assert_eq!(span(u64::MAX), "213503d23h");
        assert_eq!(clock(3_960_000_000), "3.960 s");
        assert_eq!(clock(123_000), "0.000123 s");
        assert_eq!(moment(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(moment(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(moment(1_795_217_065_000_000_000), "2026-11-20 23:24:25 UTC");
        moment(u64::MAX);
    }

    #[test]
    fn colour_is_only_written_when_asked_for() {
        assert_eq!(Paint::default().strong("x"), "x");
        assert_ne!(Paint { on: true, ..Paint::default() }.strong("x"), "x");
    }
}
