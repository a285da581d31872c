//! Numbers that threads have leased, and marks between them.

use crate::{check, race};
use heapledger_process::lease::{Step, pass, take};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};

/// The clock does not move on: only a mark ends a lease.
const NOW: u64 = 1;
const LEASE: u64 = 2;

struct Shared {
    counter: AtomicU64,
    step: Step,
    /// What the program tells from one thread to the other: the number of the mark that was set, or of the event that has ended,
    /// plus 1.
    marked: AtomicU64,
    ended: AtomicU64,
}

impl Shared {
    fn new() -> Arc<Shared> {
        let word = || AtomicU64::new(0);
        Arc::new(Shared { counter: word(), step: Step::new(), marked: word(), ended: word() })
    }

    /// As `marks::mark` does.
    fn mark(&self, passed: u64, must: bool) -> u64 {
        let mut seen = self.counter.load(Ordering::Acquire);
        let number = loop {
            match pass(&self.counter, seen, passed, must) {
                Ok(number) => break number,
                Err(now) => seen = now,
            }
        };
        self.step.end();
        number
    }
}

/// What a thread has leased.
#[derive(Default)]
struct Own {
    next: u64,
    end: u64,
}

impl Own {
    /// As `Access::number_from` and `new_lease` do.
    fn number(&mut self, shared: &Shared, must: bool) -> u64 {
        if !shared.step.is(NOW) || self.next == self.end {
            let mut seen = shared.counter.load(Ordering::Acquire);
            self.next = loop {
                match take((&shared.counter, seen), LEASE, (&shared.step, NOW), must) {
                    Ok(first) => break first,
                    Err(now) => seen = now,
                }
            };
            self.end = self.next + LEASE;
        }
        self.next += 1;
        self.next - 1
    }
}

/// When the thread's lease begins.
#[derive(Clone, Copy, PartialEq)]
enum Leased {
    /// While the mark is set.
    Meanwhile,
    /// Before.
    Before,
}

fn a_mark_divides(must: bool, leased: Leased) {
    check(3, move || {
        let shared = Shared::new();
        let (thread, marker) = (Arc::clone(&shared), Arc::clone(&shared));
        let works = move || {
            let mut own = Own::default();
            let first = own.number(&thread, must);
            if leased == Leased::Before {
                thread.ended.store(first + 1, Ordering::Release);
            }
            if let Some(mark) = thread.marked.load(Ordering::Acquire).checked_sub(1) {
                let next = own.number(&thread, must);
                assert!(next > mark, "an event with number {next} began after mark {mark}");
            }
        };
        let marks = move || {
            let before = marker.ended.load(Ordering::Acquire).checked_sub(1);
            let mark = marker.mark(0, must);
            marker.marked.store(mark + 1, Ordering::Release);
            if let Some(before) = before {
                assert!(before < mark, "an event with number {before} had ended before mark {mark}");
            }
        };
        race(works, marks);
    });
}

/// Fails if `take` writes the step after the exchange, if `pass` or `take` exchange relaxed, and if the step is ended before numbers are
/// passed over.
#[test]
fn what_begins_after_a_mark_has_a_higher_number() {
    a_mark_divides(false, Leased::Meanwhile);
    a_mark_divides(false, Leased::Before);
}

/// The same where somebody else was faster too often, and what was seen is not looked at any more.
#[test]
fn what_begins_after_a_mark_has_a_higher_number_whoever_was_faster() {
    a_mark_divides(true, Leased::Meanwhile);
    a_mark_divides(true, Leased::Before);
}

/// Two marks and a thread: fails as the first.
#[test]
fn marks_of_two_threads_divide_both() {
    check(3, || {
        let shared = Shared::new();
        let (thread, marker) = (Arc::clone(&shared), Arc::clone(&shared));
        let own = {
            let shared = Arc::clone(&shared);
            move || shared.mark(0, false)
        };
        let works = move || {
            let mut books = Own::default();
            books.number(&thread, false);
            let mark = own();
            let next = books.number(&thread, false);
            assert!(next > mark, "an event with number {next} began after its thread's mark {mark}");
            if let Some(mark) = thread.marked.load(Ordering::Acquire).checked_sub(1) {
                let next = books.number(&thread, false);
                assert!(next > mark, "an event with number {next} began after mark {mark}");
            }
        };
        let marks = move || {
            let mark = marker.mark(3, false);
            marker.marked.store(mark + 1, Ordering::Release);
        };
        race(works, marks);
    });
}
