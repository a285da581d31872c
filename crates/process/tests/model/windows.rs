//! Windows see what was allocated between their marks.

use std::thread;

use heapledger_format::mark::{MarkKind, WindowMode, WindowState};
use heapledger_format::{TallyCounter, ThreadRowPlus1};
use heapledger_process::marks::NotTold;
use heapledger_process::options::Request;
use heapledger_process::windows::{NewWindow, change, figures, start};

use crate::calls::{begin, end};
use crate::linux::{RING, SHARED, open_own_ledger, run_child, start_as};
use crate::model::Subject as _;

fn open(name: &str, of_own_thread: bool) -> Result<u32, NotTold> {
    start(&SHARED, &NewWindow { name: name.as_bytes(), mode: WindowMode::Leaks, of_own_thread, whole_frees: false })
}

/// Blocks and bytes allocated, frees, live blocks and bytes.
fn seen(window: u32) -> [u64; 5] {
    let figures = figures(&SHARED, window).expect("there is one");
    assert_eq!(figures.bytes_freed, figures.bytes_allocated - figures.live_bytes);
    assert!(figures.peak_bytes >= figures.live_bytes && figures.peak_bytes <= figures.bytes_allocated);
    [figures.allocations, figures.bytes_allocated, figures.frees, figures.live_blocks, figures.live_bytes]
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn see() {
    if std::env::var_os(RING).is_none() {
        return;
    }
    assert_eq!(open("too early", false), Err(NotTold::Off));
    start_as(&Request::of_environment());
    begin(0x1000, 1);
    let all = open("all", false).expect("there is room");
    let own = open("own", true).expect("there is room");
    begin(0x2000, 10);
    begin(0x3000, 5 << 30);
    thread::spawn(|| {
        begin(0x4000, 100);
        end(0x2000);
    })
    .join()
    .expect("it ends");
    assert_eq!(seen(all), [3, 110 + (5 << 30), 1, 2, 100 + (5 << 30)], "a huge block is in it as it is");
    assert_eq!(seen(own), [2, 10 + (5 << 30), 0, 1, 5 << 30]);
    assert_eq!(change(&SHARED, all, MarkKind::WindowPauses), Ok(all));
    assert_eq!(change(&SHARED, all, MarkKind::WindowPauses), Err(NotTold::Unknown), "it is paused");
    begin(0x5000, 1000);
    end(0x3000);
    end(0x1000);
    assert_eq!(seen(all), [3, 110 + (5 << 30), 3, 1, 100]);
    assert_eq!(change(&SHARED, all, MarkKind::WindowResumes), Ok(all));
    assert_eq!(change(&SHARED, all, MarkKind::WindowResumes), Err(NotTold::Unknown), "it is open");
    begin(0x6000, 10_000);
    assert_eq!(change(&SHARED, all, MarkKind::WindowStops), Ok(all));
    let last = [4, 10_110 + (5 << 30), 3, 2, 10_100];
    assert_eq!(seen(all), last);
    begin(0x7000, 100_000);
    end(0x6000);
    assert_eq!(seen(all), last, "it is over");
    for kind in [MarkKind::WindowPauses, MarkKind::WindowResumes, MarkKind::WindowStops, MarkKind::Mark] {
        assert_eq!(change(&SHARED, all, kind), Err(NotTold::Unknown), "it is over");
    }
    // Another thread's.
    let refused = thread::spawn(move || change(&SHARED, own, MarkKind::WindowStops)).join().expect("it ends");
    assert_eq!(refused, Err(NotTold::Unknown));
    for other in [0, own + 1, 256, 257, u32::MAX] {
        assert_eq!(change(&SHARED, other, MarkKind::WindowStops), Err(NotTold::Unknown));
        assert_eq!(figures(&SHARED, other), Err(NotTold::Unknown));
    }

    let ledger = open_own_ledger().read();
    let windows = ledger.windows().expect("windows");
    let states: Vec<_> = windows.iter().map(|window| (window.name.as_str(), window.entry.state)).collect();
    assert_eq!(states, [("all", WindowState::Stopped as u32), ("own", WindowState::Started as u32)]);
    let entry = windows[0].entry;
    assert_eq!([entry.allocations, entry.bytes_allocated, entry.frees, entry.live_blocks, entry.live_bytes], last);
    assert_eq!(
        (entry.thread, windows[1].entry.thread, entry.starts, entry.capacity),
        (ThreadRowPlus1(0), ThreadRowPlus1(1), 1, 0)
    );
    let marks = ledger.marks().expect("marks");
    let of_all: Vec<_> =
        marks.iter().filter(|mark| mark.entry.about == all).map(|mark| (mark.name.as_str(), mark.entry.kind)).collect();
    assert_eq!(of_all, [4, 5, 6, 7].map(|kind| ("all", kind)));
}

#[test]
fn a_window_sees_what_was_allocated_in_it() {
    run_child("windows::see", 64);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn bounded() {
    if std::env::var_os(RING).is_none() {
        return;
    }
    start_as(&Request::of_environment());
    let window = open("often", false).expect("there is room");
    let resumed = (0..100).filter(|_| {
        change(&SHARED, window, MarkKind::WindowPauses).is_ok()
            && change(&SHARED, window, MarkKind::WindowResumes).is_ok()
    });
    assert_eq!(resumed.count(), 31);
    let opened = (0..300).filter(|_| open("another", false).is_ok()).count();
    assert_eq!(opened, 255);
    let lost = open_own_ledger().read().tallies().expect("tallies").get(TallyCounter::WindowsLost);
    // Each time that it is not resumed it stays paused.
    assert_eq!(lost, 300 - 255 + 1);
    begin(0x1000, 1);
    heapledger_process::start::stop(&SHARED, heapledger_process::start::Stops::Early);
    assert_eq!((open("late", false), figures(&SHARED, window)), (Err(NotTold::Off), Err(NotTold::Off)));
}

#[test]
fn windows_are_bounded_and_counted() {
    run_child("windows::bounded", 64);
}
