//! The language of `expect:` lines. See `victims/README.md`.

use std::fmt;

use crate::ledger::{self, Blocks, Stats};
use crate::{Result, check};

/// Which blocks a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    Live,
    Allocations,
    Foreign,
}

/// A number, or a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Exactly(u64),
    AtLeast(u64),
}

impl Wanted {
    fn holds(self, number: u64) -> bool {
        match self {
            Wanted::Exactly(wanted) => number == wanted,
            Wanted::AtLeast(bound) => number >= bound,
        }
    }
}

/// A condition on a ledger.
#[derive(Clone, Debug)]
pub struct Expectation {
    text: String,
    /// Only for this `run:` line.
    pub run: Option<usize>,
    /// Only for this program image, from 1; otherwise for the last.
    pub image: Option<usize>,
    set: Set,
    function: Option<String>,
    kind: Option<String>,
    count: Option<Wanted>,
    bytes: Option<Wanted>,
    innermost: bool,
}

impl Expectation {
    /// Reads one line: what stands before and behind the colon.
    pub fn parse(key: &str, text: &str) -> Result<Expectation> {
        let odd = || format!("{key}: {text}?");
        let number = |prefix: &str| match key.strip_prefix(prefix) {
            Some(number) => number.trim().parse().map(Some).map_err(|_| odd()),
            None => Ok(None),
        };
        let mut words = text.split_ascii_whitespace();
        let mut expectation = Expectation {
            text: text.to_owned(),
            run: number("expect-run")?,
            image: number("expect-image")?,
            set: match words.next() {
                Some("live") => Set::Live,
                Some("allocs") => Set::Allocations,
                Some("foreign") => Set::Foreign,
                _ => return Err(odd()),
            },
            function: None,
            kind: None,
            count: None,
            bytes: None,
            innermost: false,
        };
        for word in words {
            let wanted = |bound: &str| bound.parse().map_err(|_| odd());
            if let Some(name) = word.strip_prefix("fn=") {
                expectation.function = Some(name.to_owned());
            } else if let Some(kind) = word.strip_prefix("kind=") {
                expectation.kind = Some(ledger::kind(kind));
            } else if let Some(count) = word.strip_prefix("count>=") {
                expectation.count = Some(Wanted::AtLeast(wanted(count)?));
            } else if let Some(count) = word.strip_prefix("count=") {
                expectation.count = Some(Wanted::Exactly(wanted(count)?));
            } else if let Some(bytes) = word.strip_prefix("bytes>=") {
                expectation.bytes = Some(Wanted::AtLeast(wanted(bytes)?));
            } else if let Some(bytes) = word.strip_prefix("bytes=") {
                expectation.bytes = Some(Wanted::Exactly(wanted(bytes)?));
            } else if word == "innermost" {
                expectation.innermost = true;
            } else {
                return Err(odd());
            }
        }
        Ok(expectation)
    }

    /// Whether it is about blocks that are freed, for which the whole history is needed.
    pub fn needs_history(&self) -> bool {
        self.set == Set::Allocations
    }

    /// Holds it against a ledger: its totals, and its blocks, live ones or all that ever were.
    pub fn check(&self, stats: &Stats, blocks: Option<&Blocks>) -> Result {
        let (count, bytes) = match self.set {
            Set::Foreign => (stats.number("unknown_frees"), 0),
            Set::Live | Set::Allocations => {
                let blocks = blocks.ok_or("no blocks")?;
                let chosen = blocks.blocks.iter().filter(|block| {
                    self.kind.as_ref().is_none_or(|kind| *kind == blocks.kinds[block.kind])
                        && self.function.as_ref().is_none_or(|name| blocks.is_from(block, name, self.innermost))
                });
                chosen.fold((0, 0), |(count, bytes), block| (count + 1, bytes + block.size))
            }
        };
        let holds = self.count.is_none_or(|wanted| wanted.holds(count));
        check!(
            holds && self.bytes.is_none_or(|wanted| wanted.holds(bytes)),
            "expect {self}: found {count}, {bytes} bytes"
        );
        Ok(())
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let read = |key, text| Expectation::parse(key, text);
        let one = read("expect", "live fn=leak kind=new[](nothrow) count=2 bytes>=26 innermost").expect("good");
        assert_eq!((one.run, one.image, one.set), (None, None, Set::Live));
        assert_eq!((one.count, one.bytes, one.innermost), (Some(Wanted::Exactly(2)), Some(Wanted::AtLeast(26)), true));
        assert_eq!(read("expect-run 2", "allocs count>=1").expect("good").run, Some(2));
        assert_eq!(read("expect-image 1", "foreign count=1").expect("good").image, Some(1));
        for odd in ["", "dead count=1", "live count=x", "live colour=red"] {
            assert!(read("expect", odd).is_err(), "{odd}");
        }
    }
}
