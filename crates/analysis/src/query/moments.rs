//! Marks and windows of a program: what came after which is decided by numbers.
//!
//! A mark divides events by their numbers, those of all threads or those of the thread that set it. So what a condition on
//! marks or windows means is a list of spans of numbers: one for threads of which nothing is said, and one for each thread
//! that set marks of its own.

use std::collections::{BTreeMap, BTreeSet};

use heapledger_format::ThreadRow;
use heapledger_format::mark::{Mark, MarkKind, reach};
use heapledger_source::{Ledger, NamedRow, SourceError};

use super::plan::TextTest;
use crate::fields::{Field, Unit};

/// Numbers from one to another, which is the first behind them.
pub(super) type Span = (u64, u64);

/// The numbers that a condition on marks or windows means.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Moments {
    /// In order; none touches another.
    spans: Vec<Span>,
    /// Of threads of which more is known: by row.
    threads: BTreeMap<ThreadRow, Vec<Span>>,
}

/// Whether it names a moment by itself: those of windows say when these were open.
fn is_moment(mark: &Mark) -> bool {
    let of = |kind: MarkKind| mark.kind == kind as u16;
    of(MarkKind::Mark) || of(MarkKind::ScopeBegins) || of(MarkKind::ScopeEnds)
}

/// Whether a mark divides the events of the thread that set it, and of others nothing is said.
fn of_one_thread(mark: &Mark) -> bool {
    mark.reach == reach::OWN_THREAD
}

/// What marks or windows of a ledger are called.
pub(crate) fn names(field: Field, ledger: &Ledger) -> Result<Vec<(u32, String)>, SourceError> {
    Ok(match field.unit() {
        Unit::Window => ledger.windows()?.into_iter().map(|window| (window.row, window.name)).collect(),
        _ => {
            let moments = ledger.marks()?.into_iter().filter(|mark| is_moment(&mark.entry));
            moments.map(|mark| (mark.row, mark.name)).collect()
        }
    })
}

/// The marks that name moments, in order.
pub(super) fn in_order(ledger: &Ledger) -> Result<Vec<NamedRow<Mark>>, SourceError> {
    let mut marks = ledger.marks()?;
    marks.retain(|mark| is_moment(&mark.entry));
    marks.sort_by_key(|mark| mark.entry.number);
    Ok(marks)
}

/// The threads that set marks of their own.
pub(super) fn own_threads(marks: &[NamedRow<Mark>]) -> BTreeSet<ThreadRow> {
    let own = marks.iter().filter(|mark| of_one_thread(&mark.entry));
    own.filter_map(|mark| mark.entry.thread.row()).collect()
}

/// The numbers of a thread's events that come behind each mark, up to the next: with where the mark is in `marks`, which are
/// in order.
pub(super) fn behind_marks(marks: &[NamedRow<Mark>], thread: Option<ThreadRow>) -> Vec<(Span, u32)> {
    let reaching = marks.iter().zip(0u32..);
    let reaches = |mark: &Mark| !of_one_thread(mark) || thread.is_some() && mark.thread.row() == thread;
    let reaching: Vec<_> = reaching.filter(|(mark, _)| reaches(&mark.entry)).collect();
    let ends = reaching.iter().skip(1).map(|(mark, _)| before(&mark.entry)).chain([u64::MAX]);
    reaching.iter().zip(ends).map(|((mark, at), end)| ((after(&mark.entry), end), *at)).collect()
}

/// A window, and when it was open.
pub(super) struct WindowOpen {
    pub(super) name: String,
    /// The one thread that it is of.
    pub(super) thread: Option<ThreadRow>,
    pub(super) spans: Vec<Span>,
}

/// The windows of a ledger.
pub(super) fn windows_open(ledger: &Ledger) -> Result<Vec<WindowOpen>, SourceError> {
    let windows = ledger.windows()?;
    let mut marks = ledger.marks()?;
    marks.sort_by_key(|mark| mark.entry.number);
    let open = windows.into_iter().map(|window| WindowOpen {
        name: window.name,
        thread: window.entry.thread.row(),
        spans: spans_of(window.row, &marks),
    });
    Ok(open.collect())
}

/// When the window of this row was open, by `marks`, which are in order.
fn spans_of(row: u32, marks: &[NamedRow<Mark>]) -> Vec<Span> {
    open(marks.iter().filter(|mark| mark.entry.about == row + 1).map(|mark| &mark.entry))
}

impl Moments {
    /// What a condition on this field means, of which `test` says what names it accepts.
    pub(crate) fn new(field: Field, test: &TextTest, ledger: &Ledger) -> Result<Moments, SourceError> {
        if field == Field::Window {
            let windows = windows_open(ledger)?.into_iter().filter(|window| test.holds(&window.name));
            return Ok(Moments::of_windows(windows));
        }
        Ok(Moments::of_marks(field, &in_order(ledger)?, &|name| test.holds(name)))
    }

    /// Those of marks, which are in order.
    fn of_marks(field: Field, marks: &[NamedRow<Mark>], accepts: &dyn Fn(&str) -> bool) -> Moments {
        let spans = |thread: Option<ThreadRow>| -> Vec<Span> {
            let behind = behind_marks(marks, thread).into_iter();
            let accepted = |at: u32| marks.get(at as usize).is_some_and(|mark| accepts(&mark.name));
            let mut spans: Vec<Span> = behind.filter(|(_, at)| accepted(*at)).map(|(span, _)| span).collect();
            if field == Field::Since {
                // Of several that are called so, the last.
                spans = spans.last().map(|(from, _)| (*from, u64::MAX)).into_iter().collect();
            }
            merged(spans)
        };
        let threads = own_threads(marks).into_iter().map(|thread| (thread, spans(Some(thread)))).collect();
        Moments { spans: spans(None), threads }
    }

    /// Those of windows.
    fn of_windows(windows: impl Iterator<Item = WindowOpen>) -> Moments {
        let mut moments = Moments::default();
        for window in windows {
            match window.thread {
                Some(thread) => moments.threads.entry(thread).or_default().extend(window.spans),
                None => moments.spans.extend(window.spans),
            }
        }
        for spans in moments.threads.values_mut() {
            spans.extend(&moments.spans);
            *spans = merged(std::mem::take(spans));
        }
        moments.spans = merged(moments.spans);
        moments
    }

    /// Whether an event of this number and thread is meant.
    #[inline]
    pub(crate) fn has(&self, number: u64, thread: Option<ThreadRow>) -> bool {
        let spans = thread.and_then(|thread| self.threads.get(&thread)).unwrap_or(&self.spans);
        let after = spans.partition_point(|(from, _)| *from <= number);
        after.checked_sub(1).and_then(|at| spans.get(at)).is_some_and(|(_, to)| number < *to)
    }
}

/// The first number of an event that came after it: it has one of its own.
fn after(mark: &Mark) -> u64 {
    mark.number
}

/// The first number that no event before it has.
fn before(mark: &Mark) -> u64 {
    mark.number.saturating_sub(1)
}

/// When a window was open, by its marks in order: since it was started for the last time, as its figures are.
fn open<'m>(marks: impl Iterator<Item = &'m Mark>) -> Vec<Span> {
    let (mut spans, mut since) = (Vec::new(), None);
    for mark in marks {
        match MarkKind::from_number(mark.kind) {
            Some(MarkKind::WindowStarts) => {
                spans.clear();
                since = Some(after(mark));
            }
            Some(MarkKind::WindowResumes) => since = since.or(Some(after(mark))),
            Some(MarkKind::WindowPauses | MarkKind::WindowStops) => {
                spans.extend(since.take().map(|from| (from, before(mark))));
            }
            _ => {}
        }
    }
    spans.extend(since.map(|from| (from, u64::MAX)));
    spans
}

/// The same numbers, in order, none twice.
fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::new();
    for (from, to) in spans {
        match merged.last_mut() {
            Some((_, end)) if from <= *end => *end = (*end).max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapledger_format::ThreadRowPlus1;

    fn mark(number: u64, name: &str, kind: MarkKind, own: Option<ThreadRow>, about: u32) -> NamedRow<Mark> {
        let (reach, thread) =
            own.map_or((reach::ALL_THREADS, ThreadRowPlus1(1)), |row| (reach::OWN_THREAD, row.into()));
        let entry = Mark { number: number + 1, kind: kind as u16, reach, thread, about, ..Mark::default() };
        NamedRow { row: number as u32, name: name.to_owned(), entry }
    }

    fn named(number: u64, name: &str, own: Option<ThreadRow>) -> NamedRow<Mark> {
        mark(number, name, MarkKind::Mark, own, 0)
    }

    #[test]
    fn marks_divide_the_events_of_those_threads_that_they_reach() {
        let seventh = Some(ThreadRow(7));
        let marks = [
            named(10, "a", None),
            named(20, "b", None),
            named(30, "a", seventh),
            named(40, "a", None),
            named(50, "b", seventh),
        ];
        let of = |field, name: &'static str| Moments::of_marks(field, &marks, &move |other| other == name);
        assert_eq!(of(Field::Mark, "a").spans, [(11, 20), (41, u64::MAX)]);
        assert_eq!(
            of(Field::Mark, "a").threads[&ThreadRow(7)],
            [(11, 20), (31, 40), (41, 50)],
            "one mark follows the other"
        );
        assert_eq!(of(Field::Since, "a").spans, [(41, u64::MAX)], "the last that is called so");
        let since = of(Field::Since, "b");
        assert_eq!(
            (since.spans.as_slice(), since.threads[&ThreadRow(7)].as_slice()),
            (&[(21, u64::MAX)][..], &[(51, u64::MAX)][..])
        );
        for (number, thread, is_since) in [
            (20, None, false),
            (21, None, true),
            (21, Some(ThreadRow(1)), true),
            (49, seventh, false),
            (51, seventh, true),
        ] {
            assert_eq!(since.has(number, thread), is_since, "{number} {thread:?}");
        }
        assert_eq!(of(Field::Mark, "c").spans, []);
    }

    #[test]
    fn a_mark_of_one_thread_without_a_row_divides_no_events() {
        let mut own = named(10, "a", Some(ThreadRow(0)));
        own.entry.thread = ThreadRowPlus1::NONE;
        let marks = [own, named(20, "b", None)];
        assert_eq!(own_threads(&marks), BTreeSet::new());
        for thread in [None, Some(ThreadRow(0)), Some(ThreadRow(u32::MAX - 1))] {
            assert_eq!(behind_marks(&marks, thread), [((21, u64::MAX), 1)], "{thread:?}");
            for field in [Field::Mark, Field::Since] {
                assert!(!Moments::of_marks(field, &marks, &|name| name == "a").has(15, thread), "{field:?} {thread:?}");
            }
        }
    }

    #[test]
    fn a_window_is_open_from_its_last_start_but_for_its_pauses() {
        use MarkKind::{WindowPauses, WindowResumes, WindowStarts, WindowStops};
        let of = |number, kind, row: u32| mark(number, "", kind, None, row + 1);
        let marks = [
            of(1, WindowStarts, 0),
            of(2, WindowStops, 0),
            of(10, WindowStarts, 0),
            of(15, WindowStarts, 1),
            of(20, WindowPauses, 0),
            of(30, WindowResumes, 0),
            of(40, WindowStops, 0),
        ];
        let of_windows = |rows: &[(u32, Option<ThreadRow>)]| {
            Moments::of_windows(rows.iter().map(|(row, thread)| WindowOpen {
                name: String::new(),
                thread: *thread,
                spans: spans_of(*row, &marks),
            }))
        };
        assert_eq!(of_windows(&[(0, None)]).spans, [(11, 20), (31, 40)]);
        assert_eq!(of_windows(&[(1, None)]).spans, [(16, u64::MAX)], "nobody has stopped it");
        assert_eq!(of_windows(&[(0, None), (1, None)]).spans, [(11, u64::MAX)]);
        let third = Some(ThreadRow(3));
        let own = of_windows(&[(0, third)]);
        assert!(own.has(12, third) && !own.has(25, third) && !own.has(12, Some(ThreadRow(4))) && !own.has(12, None));
    }
}
