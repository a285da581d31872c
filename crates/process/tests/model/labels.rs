//! Which block has which label, live, freed and written out.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use heapledger_format::{Kind, LabelId, SectionKind, TallyCounter};
use heapledger_process::hooks;
use heapledger_process::labels::{self as told, in_force, label};
use heapledger_process::marks::NotTold;
use heapledger_process::options::Request;
use heapledger_process::{finish, start};
use heapledger_source::Ledger;

use crate::calls::{begin, end, reallocate, registers};
use crate::linux::{RING, SHARED, open_own_ledger, run_child, start_as};
use crate::model::Subject as _;

const NONE: LabelId = LabelId::NONE;

fn make(parent: LabelId, key: &str, value: &str) -> Result<LabelId, NotTold> {
    label(&SHARED, parent, key.as_bytes(), value.as_bytes())
}

fn put_in_force(label: LabelId) -> Result<LabelId, NotTold> {
    told::put_in_force(&SHARED, label)
}

/// The labels of live blocks and of freed ones, by size.
fn labels(ledger: &Ledger) -> [BTreeMap<u64, String>; 2] {
    let labels = ledger.labels().expect("labels");
    let (mut live, mut ended) = (BTreeMap::new(), BTreeMap::new());
    let mut records = ledger.records();
    while let Some(chunk) = records.next_chunk().expect("records") {
        live.extend(chunk.iter().filter_map(|entry| Some((entry.size?, labels.text(entry.label)))));
    }
    let mut freed = ledger.freed();
    while let Some(chunk) = freed.next_chunk().expect("history") {
        ended.extend(chunk.iter().filter_map(|entry| Some((entry.block.size?, labels.text(entry.block.label)))));
    }
    [live, ended]
}

fn expect(ledger: &Ledger, what: &str, live: &[(u64, &str)], ended: &[(u64, &str)]) {
    let [found_live, found_ended] = labels(ledger);
    for (found, expected) in [(found_live, live), (found_ended, ended)] {
        let expected: BTreeMap<u64, String> = expected.iter().map(|(size, text)| (*size, (*text).into())).collect();
        assert_eq!(found, expected, "{what}");
    }
}

fn directory() -> String {
    let value = std::env::var("HEAPLEDGER").expect("a directory");
    value.split(',').find_map(|item| item.strip_prefix("dir=")).expect("a directory").into()
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn follow() {
    if std::env::var_os(RING).is_none() {
        return;
    }
    assert_eq!(make(NONE, "key", "value"), Err(NotTold::Off));
    start_as(&Request::of_environment());
    begin(0x1000, 1);
    begin(0x2000, 2);
    let column = SHARED.ledger().section(SectionKind::LabelColumn);
    assert_eq!((column.used(), in_force()), (0, NONE), "labels have storage before there are any");
    let route = make(NONE, "route", "/x").expect("there is room");
    let step = make(route, "step", "parse").expect("there is room");
    assert_eq!(make(NONE, "route", "/x"), Ok(route), "the same again");
    assert!(make(route, "route", "/x").expect("there is room") != route);
    assert_eq!((make(LabelId(99), "a", "b"), make(NONE, "", "b")), (Err(NotTold::Unknown), Err(NotTold::Invalid)));
    assert_eq!(put_in_force(LabelId(99)), Err(NotTold::Unknown));
    assert_eq!(put_in_force(route), Ok(NONE));
    begin(0x3000, 3);
    assert_eq!(put_in_force(step), Ok(route));
    begin(0x4000, 4);
    thread::spawn(|| {
        assert_eq!(in_force(), NONE, "a label is its thread's");
        begin(0x5000, 5);
    })
    .join()
    .expect("it ends");
    end(0x3000);
    end(0x1000);
    // A slot that is used again.
    assert_eq!(put_in_force(NONE), Ok(step));
    end(0x4000);
    begin(0x6000, 6);
    begin(0x7000, 7);
    assert_eq!(put_in_force(route), Ok(NONE));
    reallocate(0x2000, 0x8000, 8);
    reallocate(0x8000, 0x8000, 9);
    let live: &[(u64, &str)] = &[(5, ""), (6, ""), (7, ""), (9, "route=/x")];
    let ended: &[(u64, &str)] = &[(1, ""), (2, ""), (3, "route=/x"), (4, "step=parse route=/x"), (8, "route=/x")];
    expect(&open_own_ledger().read(), "live", live, ended);

    start::stop(&SHARED, start::Stops::Early);
    let copy = format!("{}/copy.hl", directory());
    finish::finish(&SHARED, &CString::new(copy.clone()).expect("a path")).expect("there is room");
    let copy = Ledger::open(&copy).expect("a ledger");
    expect(&copy, "the program's own copy", live, ended);
    for (name, ledger) in [("of the copy", &copy), ("of the live ledger", &open_own_ledger().read())] {
        let path = format!("{}/{}.hl", directory(), name.len());
        heapledger_source::finish(ledger, path.as_ref(), &[], &mut |_, _| {}).expect("there is room");
        expect(&Ledger::open(&path).expect("a ledger"), name, live, ended);
    }
}

#[test]
fn blocks_have_the_label_of_their_thread() {
    run_child("labels::follow", 64);
}

const BLOCKS: usize = 30_000;

/// Two threads begin and end blocks with labels of their own from before the first label is made, and recording toggles; a block's
/// size says which label it has.
#[test]
#[ignore = "run by the test below, in a process of its own"]
fn threads() {
    if std::env::var_os(RING).is_none() {
        return;
    }
    start_as(&Request::of_environment());
    let is_over = AtomicBool::new(false);
    let works = |worker: usize| {
        let mut own: Vec<LabelId> = Vec::new();
        let address = |block: usize| ((worker + 1) << 40) + block * 32;
        for block in 0..BLOCKS {
            if block % 1000 == 500 {
                own.push(make(NONE, "label", &(own.len() + 1).to_string()).expect("there is room"));
            }
            let choice = if own.is_empty() { 0 } else { block % (own.len() + 1) };
            put_in_force(choice.checked_sub(1).map_or(NONE, |index| own[index])).expect("it is there");
            begin(address(block), 100 + choice);
            if block % 3 != 0 {
                hooks::block_ends(
                    &SHARED,
                    hooks::ready(&SHARED).or_else(|| hooks::ready_while_paused(&SHARED)),
                    &registers(&0),
                    address(block),
                    Kind::FREE,
                    (),
                );
            }
        }
    };
    let check = || {
        let ledger = open_own_ledger().read();
        for found in labels(&ledger) {
            for (size, text) in found {
                let expected = if size == 100 { String::new() } else { format!("label={}", size - 100) };
                assert_eq!(text, expected, "{size}");
            }
        }
    };
    /// Also if somebody panics: else the one who toggles goes on for ever.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    thread::scope(|scope| {
        let ends = Ends(&is_over);
        let workers: Vec<_> = (0..2).map(|worker| scope.spawn(move || works(worker))).collect();
        let toggles = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                SHARED.switch.pause();
                thread::yield_now();
                SHARED.switch.resume();
                thread::yield_now();
            }
        });
        for _ in 0..5 {
            check();
        }
        for worker in workers {
            worker.join().expect("it ends");
        }
        drop(ends);
        toggles.join().expect("it ends");
    });
    check();
}

#[test]
fn a_reader_sees_no_label_of_another_block() {
    run_child("labels::threads", 4096);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn bounded() {
    if std::env::var_os(RING).is_none() {
        return;
    }
    start_as(&Request::of_environment());
    const COUNT: usize = 1_000_000;
    let first = make(NONE, "request", "0").expect("there is room");
    // What is no text, what is too long, what is empty.
    let odd = |key: &[u8], value: &[u8]| label(&SHARED, NONE, key, value).expect("there is room");
    let long = [b'x'; 10_000];
    let odd = [odd(b"\xFF\xC3", b"\x80\0\xE2\x82"), odd(&long, &long), odd(b"empty", b"")];
    for (size, own) in (20..).zip(odd) {
        put_in_force(own).expect("it is there");
        begin(0x1_0000 * size, size);
    }
    let there: usize = thread::scope(|scope| {
        let worker = |own: usize| {
            let is_there = move |number: &usize| make(NONE, "request", &number.to_string()).is_ok();
            move || (0..COUNT).skip(own).step_by(2).filter(is_there).count()
        };
        let workers = [0, 1].map(|own| scope.spawn(worker(own)));
        workers.into_iter().map(|worker| worker.join().expect("it ends")).sum()
    });
    assert!((10_000..COUNT).contains(&there), "{there} labels");
    let ledger = open_own_ledger().read();
    assert_eq!(ledger.tallies().expect("tallies").get(TallyCounter::LabelsLost), (COUNT - there) as u64);
    let known = ledger.labels().expect("labels");
    assert!(known.count() >= there);
    assert_eq!(known.text(odd[0]), "\u{FFFD}\u{FFFD}=\u{FFFD}\0\u{FFFD}");
    assert_eq!(known.text(odd[1]).len(), 2 * 4095 + 1);
    assert_eq!(known.text(odd[2]), "empty=");
    assert_eq!(labels(&ledger)[0].len(), 3, "blocks have them");
    assert_eq!(make(NONE, "request", "0"), Ok(first), "it is still known");
    // There is room for modules all the same. Each of two threads may have found room for a text, and then both entered theirs.
    const TEXT_BYTES_MAX: u64 = 16;
    let strings = SHARED.ledger().section(SectionKind::Strings);
    let (used, room) = (strings.used(), strings.capacity() / 2);
    assert!(used <= room + TEXT_BYTES_MAX, "{used} bytes of {room}");
}

#[test]
fn labels_are_bounded_and_counted() {
    run_child("labels::bounded", 64);
}
