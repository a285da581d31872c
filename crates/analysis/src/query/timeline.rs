//! Which mark came last, and which windows were open, for each number of an event.

use std::collections::{BTreeMap, BTreeSet};

use heapledger_format::ThreadRow;
use heapledger_source::{Ledger, SourceError};

use super::moments::{self, Span};

/// Spans of numbers with the names that hold in them, for all threads and for each of which more is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// The names of each value.
    values: Vec<Vec<String>>,
    /// In order, none within another, each with its value.
    spans: Vec<(Span, u32)>,
    threads: BTreeMap<ThreadRow, Vec<(Span, u32)>>,
}

impl Timeline {
    /// The last mark before an event.
    pub(crate) fn of_marks(ledger: &Ledger) -> Result<Timeline, SourceError> {
        let marks = moments::in_order(ledger)?;
        let spans = |thread: Option<ThreadRow>| moments::behind_marks(&marks, thread);
        let values = marks.iter().map(|mark| vec![mark.name.clone()]).collect();
        let own = moments::own_threads(&marks).into_iter().map(|thread| (thread, spans(Some(thread)))).collect();
        Ok(Timeline { values, spans: spans(None), threads: own })
    }

    /// The windows that were open.
    pub(crate) fn of_windows(ledger: &Ledger) -> Result<Timeline, SourceError> {
        let open = moments::windows_open(ledger)?;
        let mut timeline = Timeline::default();
        let own: BTreeSet<ThreadRow> = open.iter().filter_map(|window| window.thread).collect();
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
    pub(crate) fn value(&self, number: u64, thread: Option<ThreadRow>) -> Option<u32> {
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

#[cfg(test)]
mod tests {
    use heapledger_format::mark::MarkKind;
    use heapledger_testing::{Builder, Scratch};

    use super::super::moments::Moments;
    use super::super::plan::TextTest;
    use super::*;
    use crate::fields::Field;

    const NAMES: [&str; 3] = ["a", "b", "c"];
    const KINDS: [MarkKind; 8] = [
        MarkKind::Mark,
        MarkKind::Mark,
        MarkKind::ScopeBegins,
        MarkKind::ScopeEnds,
        MarkKind::WindowStarts,
        MarkKind::WindowPauses,
        MarkKind::WindowResumes,
        MarkKind::WindowStops,
    ];

    /// Columns find what holds for a number, conditions the numbers for which it holds: both must say the same.
    #[test]
    fn what_is_shown_is_what_is_chosen() {
        let scratch = Scratch::new("timeline");
        let mut seed = 7u64;
        let mut any = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let mut held = [0, 0];
        for round in 0..40 {
            let (mut marks, mut number) = (Vec::new(), 0);
            for _ in 0..any(30) {
                number += 1 + any(6) as u64;
                let kind = KINDS[any(KINDS.len())];
                let of_window = kind as u16 >= MarkKind::WindowStarts as u16;
                let own = Some(any(2) as u32).filter(|_| !of_window && any(3) == 0);
                marks.push((number, kind, NAMES[any(3)], own, if of_window { 1 + any(3) as u32 } else { 0 }));
            }
            let path = scratch.join(format!("{round}"));
            Builder::new().told(&["a", "b", "a"], &marks).write(&path).expect("written");
            let ledger = Ledger::open(&path).expect("a ledger");
            let fields = [
                (Field::Mark, Timeline::of_marks(&ledger).expect("read")),
                (Field::Window, Timeline::of_windows(&ledger).expect("read")),
            ];
            for (held, (field, timeline)) in held.iter_mut().zip(&fields) {
                for name in NAMES {
                    let test = TextTest::OneOf([name.to_owned()].into());
                    let chosen = Moments::new(*field, &test, &ledger).expect("read");
                    let threads = [None, Some(0), Some(1), Some(2)].map(|row| row.map(ThreadRow));
                    for (number, thread) in (0..number + 5).flat_map(|number| threads.map(|thread| (number, thread))) {
                        let shown = timeline.value(number, thread).map_or(&[][..], |value| timeline.names(value));
                        let is_shown = shown.iter().any(|shown| shown == name);
                        assert_eq!(
                            is_shown,
                            chosen.has(number, thread),
                            "{field} {name} {number} {thread:?}: {marks:?}"
                        );
                        *held += usize::from(is_shown);
                    }
                }
            }
        }
        assert!(held.iter().all(|held| *held > 1000), "{held:?}");
    }
}
