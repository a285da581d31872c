//! Which mark came last, and which windows were open, for each number of an event.

use std::collections::{BTreeMap, BTreeSet};

use heapledger_source::{Ledger, SourceError};

use super::moments::{self, Span};

/// Spans of numbers with the names that hold in them, for all threads and for each of which more is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// The names of each value.
    values: Vec<Vec<String>>,
    /// In order, none within another, each with its value.
    spans: Vec<(Span, u32)>,
    threads: BTreeMap<u32, Vec<(Span, u32)>>,
}

impl Timeline {
    /// The last mark before an event.
    pub(crate) fn of_marks(ledger: &Ledger) -> Result<Timeline, SourceError> {
        let marks = moments::in_order(ledger)?;
        let spans = |thread: Option<u32>| moments::behind_marks(&marks, thread);
        let values = marks.iter().map(|mark| vec![mark.name.clone()]).collect();
        let own = moments::own_threads(&marks).into_iter().map(|thread| (thread, spans(Some(thread)))).collect();
        Ok(Timeline { values, spans: spans(None), threads: own })
    }

    /// The windows that were open.
    pub(crate) fn of_windows(ledger: &Ledger) -> Result<Timeline, SourceError> {
        let open = moments::windows_open(ledger)?;
        let mut timeline = Timeline::default();
        let own: BTreeSet<u32> = open.iter().filter_map(|window| window.thread).collect();
        for thread in own.into_iter().map(Some).chain([None]) {
            let all = open.iter().filter(|window| window.thread.is_none() || window.thread == thread);
            let all: Vec<(Span, &str)> =
                all.flat_map(|window| window.spans.iter().map(|span| (*span, window.name.as_str()))).collect();
            let spans = timeline.overlaid(&all);
            match thread {
                Some(thread) => drop(timeline.threads.insert(thread, spans)),
                None => timeline.spans = spans,
            }
        }
        Ok(timeline)
    }

    /// Spans that may overlap as such that do not.
    fn overlaid(&mut self, all: &[(Span, &str)]) -> Vec<(Span, u32)> {
        let edges: BTreeSet<u64> = all.iter().flat_map(|((from, to), _)| [*from, *to]).collect();
        let edges: Vec<u64> = edges.into_iter().collect();
        let mut spans = Vec::new();
        for (from, to) in edges.iter().zip(edges.iter().skip(1)) {
            let holds = |span: &Span| span.0 <= *from && *from < span.1;
            let names: BTreeSet<&str> = all.iter().filter(|(span, _)| holds(span)).map(|(_, name)| *name).collect();
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            if !names.is_empty() {
                let known = self.values.iter().position(|value| *value == names);
                let value = known.unwrap_or_else(|| {
                    self.values.push(names);
                    self.values.len() - 1
                });
                spans.push(((*from, *to), value as u32));
            }
        }
        spans
    }

    /// Whether the program set no mark, or opened no window.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// What holds for an event of this number and thread: a number for [`Timeline::names`].
    #[inline]
    pub(crate) fn value(&self, number: u64, thread: Option<u32>) -> Option<u32> {
        let own = thread.filter(|_| !self.threads.is_empty()).and_then(|thread| self.threads.get(&thread));
        let spans = own.unwrap_or(&self.spans);
        let after = spans.partition_point(|((from, _), _)| *from <= number);
        let ((_, to), value) = spans.get(after.checked_sub(1)?)?;
        (number < *to).then_some(*value)
    }

    /// The names of a value.
    pub(crate) fn names(&self, value: u32) -> &[String] {
        self.values.get(value as usize).map_or(&[], Vec::as_slice)
    }
}
