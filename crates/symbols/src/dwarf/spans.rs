//! Address ranges that can be searched although they overlap.

/// Ranges looked at for one address. More overlap only in forged files.
const STEPS_MAX: usize = 1024;

/// A range that belongs to something with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) owner: u32,
}

/// Spans sorted by where they begin.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    spans: Vec<Span>,
    /// The farthest end of each span and all before it: where a walk backwards may stop.
    ends: Vec<u64>,
}

impl Spans {
    pub(crate) fn new(mut spans: Vec<Span>) -> Self {
        spans.sort_unstable();
        let mut farthest = 0;
        let ends = spans
            .iter()
            .map(|span| {
                farthest = span.end.max(farthest);
                farthest
            })
            .collect();
        Spans { spans, ends }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter()
    }

    /// The spans that hold `address`, the one that begins last first.
    pub(crate) fn around(&self, address: u64) -> impl Iterator<Item = Span> + '_ {
        let after = self.spans.partition_point(|span| span.begin <= address);
        let before = self.spans[..after].iter().zip(&self.ends[..after]).rev().take(STEPS_MAX);
        before.take_while(move |(_, end)| **end > address).map(|(span, _)| *span).filter(move |span| span.end > address)
    }
}
