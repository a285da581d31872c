//! Marks divide what came before from what came after, whatever threads are in the middle of.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use heapledger_format::mark::{Mark, MarkKind, reach};
use heapledger_format::record::Options;
use heapledger_format::{Entry, Kind, TallyCounter, ThreadRowPlus1, Ticks};
use heapledger_process::hooks::{self, ReallocEnd};
use heapledger_process::marks::{NewMark, NotTold, mark};
use heapledger_process::options::Request;
use heapledger_source::Ledger;

use crate::calls::{begin, new_block, registers};
use crate::linux::{RING, SHARED, open_own_ledger, run_child, start_as};
use crate::model::Subject as _;
use crate::switch::REFUSED;

fn set(name: &str, of_own_thread: bool) -> Result<u32, NotTold> {
    mark(&SHARED, &NewMark { kind: MarkKind::Mark, name: name.as_bytes(), about: 0, of_own_thread })
}

fn scope(kind: MarkKind, name: &str, about: u32) -> Result<u32, NotTold> {
    mark(&SHARED, &NewMark { kind, name: name.as_bytes(), about, of_own_thread: false })
}

fn marks() -> Vec<(String, Mark)> {
    let rows = open_own_ledger().read().marks().expect("marks");
    rows.into_iter().map(|row| (row.name, row.entry)).collect()
}

fn all(ledger: &Ledger) -> Vec<Entry> {
    let (mut records, mut all) = (ledger.records(), Vec::new());
    while let Some(chunk) = records.next_chunk().expect("records") {
        all.extend_from_slice(chunk);
    }
    all
}

/// The number and the time of the one live block of this size.
fn block_of(ledger: &Ledger, size: u64) -> (u64, Ticks) {
    let found: Vec<Entry> = all(ledger).into_iter().filter(|entry| entry.size == Some(size)).collect();
    assert_eq!(found.len(), 1, "blocks of {size} bytes");
    (found[0].number, found[0].time.unwrap_or(Ticks(0)))
}

fn counted(counter: TallyCounter) -> u64 {
    open_own_ledger().read().tallies().expect("tallies").get(counter)
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn divide() {
    if std::env::var_os(RING).is_none() {
        return;
    }
    let mut request = Request::of_environment();
    if std::env::var(RING).as_deref() == Ok("128") {
        request.options.0 &= !Options::TIME;
    }
    assert_eq!(set("too early", false), Err(NotTold::Off));
    start_as(&request);
    begin(0x1000, 1);
    let of_thread = set("of the thread", true).expect("there is room");
    begin(0x2000, 2);
    assert_eq!(set("first", false), Ok(of_thread + 1));
    begin(0x3000, 3);
    // In the middle of a `realloc`: what it gives begins when it returns.
    begin(0x4000, 4);
    let begun = hooks::realloc_begins(&SHARED, &registers(&0), 0x4000, ());
    set("first", false).expect("there is room");
    let new = Some(new_block(Kind::REALLOC, 0x5000, 5));
    let end = ReallocEnd { begun: &begun, by: Kind::REALLOC, new, frees: false, is_inner: false, refused: REFUSED };
    assert!(hooks::realloc_ends(&SHARED, &registers(&0), &end));
    let load = scope(MarkKind::ScopeBegins, "load", 0).expect("there is room");
    begin(0x6000, 6);
    scope(MarkKind::ScopeEnds, "", load).expect("there is room");
    for about in [0, load - 1, load + 1, load + 7, u32::MAX] {
        assert_eq!(scope(MarkKind::ScopeEnds, "", about), Err(NotTold::Unknown), "{about} is no scope");
    }
    begin(0x7000, 7);

    let (ledger, marks) = (open_own_ledger().read(), marks());
    let names: Vec<&str> = marks.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["of the thread", "first", "first", "load", "load"]);
    assert_eq!(marks[1].1.name_at, marks[2].1.name_at, "a name is stored once");
    assert_eq!(marks[4].1.about, load);
    for (index, (_, mark)) in marks.iter().enumerate() {
        assert_eq!(mark.reach, if index == 0 { reach::OWN_THREAD } else { reach::ALL_THREADS });
        assert_eq!(mark.thread, ThreadRowPlus1(1), "who set it");
    }
    let order = [1, 0, 2, 0, 3, 0, 5, 0, 6, 0, 7];
    let mut next = marks.iter();
    let mut numbers = Vec::new();
    for size in order {
        let mark = |entry: &(String, Mark)| (entry.1.number - 1, entry.1.time);
        numbers.push(if size == 0 { mark(next.next().expect("a mark")) } else { block_of(&ledger, size) });
    }
    assert!(numbers.is_sorted_by(|one, other| one.0 < other.0), "{numbers:?}");
    let has_time = request.options.has(Options::TIME);
    assert!(!has_time || numbers.is_sorted_by(|one, other| one.1 <= other.1), "{numbers:?}");
    // One thread leaves nothing of its leases but what the marks have taken: that is counted.
    let used = counted(TallyCounter::Allocations) + counted(TallyCounter::Frees) + marks.len() as u64;
    let unused = counted(TallyCounter::NumbersUnused);
    let last = numbers.last().expect("numbers").0;
    // The old block of the `realloc` and the new one have a number each.
    assert_eq!(used + unused, last + 1, "{used} used and {unused} not");
}

#[test]
fn a_mark_divides_blocks_also_around_a_realloc() {
    run_child("marks::divide", 64);
    run_child("marks::divide", 128);
}

const WORKERS: usize = 3;
/// A thread begins no more than so many, until enough marks are set.
const BLOCKS: usize = 200_000;
const MARKS: usize = 500;

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn threads() {
    if std::env::var_os(RING).is_none() {
        return;
    }
    let mut request = Request::of_environment();
    if std::env::var(RING).as_deref() == Ok("128") {
        request.options.0 &= !Options::TIME;
    }
    start_as(&request);
    let (last_mark, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let begun = [const { AtomicUsize::new(0) }; WORKERS];
    // Each block's size is the mark that its thread had seen when it began it.
    let works = |worker: usize| {
        for block in 0..BLOCKS {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let seen = last_mark.load(Ordering::Acquire);
            begin(((worker + 1) << 40) + block * 32, seen);
            begun[worker].store(block + 1, Ordering::Release);
        }
    };
    let seen = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || works(worker))).collect();
        // Another that only sets marks, too.
        let other = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = set("other", false);
                thread::yield_now();
            }
        });
        let mut seen: Vec<(u32, [usize; WORKERS])> = Vec::new();
        for _ in 0..MARKS {
            let before = std::array::from_fn(|worker| begun[worker].load(Ordering::Acquire));
            if let Ok(row) = set("now", false) {
                last_mark.store(row as usize, Ordering::Release);
                seen.push((row, before));
            }
            thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
        other.join().expect("it ends");
        for worker in workers {
            worker.join().expect("it ends");
        }
        seen
    });
    let ledger = open_own_ledger().read();
    let numbers: Vec<u64> = ledger.marks().expect("marks").iter().map(|mark| mark.entry.number - 1).collect();
    let mut by_block = vec![vec![u64::MAX; BLOCKS]; WORKERS];
    for entry in all(&ledger) {
        let (worker, block) = ((entry.address >> 40) as usize - 1, (entry.address & 0xFF_FFFF_FFFF) as usize / 32);
        by_block[worker][block] = entry.number;
        if let Some(mark) = entry.size.filter(|mark| *mark != 0) {
            let mark = numbers[mark as usize - 1];
            assert!(entry.number > mark, "block {} began after mark {mark}", entry.number);
        }
    }
    for (row, before) in seen {
        let mark = numbers[row as usize - 1];
        for (worker, count) in before.into_iter().enumerate() {
            if let Some(last) = count.checked_sub(1) {
                let number = by_block[worker][last];
                assert!(number < mark, "block {number} had begun before mark {mark}");
            }
        }
    }
}

#[test]
fn marks_divide_what_threads_do_meanwhile() {
    run_child("marks::threads", 64);
    run_child("marks::threads", 128);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn bounded() {
    if std::env::var_os(RING).is_none() {
        return;
    }
    start_as(&Request::of_environment());
    let long = "\u{e9}".repeat(5000);
    assert!(set(&long, false).is_ok() && set("", true).is_ok());
    let count = 100_000;
    let there = (0..count).filter(|number| set(&format!("mark {number}"), *number % 2 == 0).is_ok()).count();
    assert!((1000..count).contains(&there), "{there} marks");
    assert_eq!(counted(TallyCounter::MarksLost), (count - there) as u64);
    let marks = marks();
    assert_eq!(marks.len(), there + 2);
    assert!(long.starts_with(&marks[0].0) && marks[0].0.len() == 4094, "{} bytes", marks[0].0.len());
    assert_eq!(marks[1].0, "");
    begin(0x1000, 1);
    heapledger_process::start::stop(&SHARED, heapledger_process::start::Stops::Early);
    assert_eq!(set("too late", false), Err(NotTold::Off));
}

#[test]
fn marks_are_bounded_and_counted() {
    run_child("marks::bounded", 64);
}
