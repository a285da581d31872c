//! Snapshots of ledgers that are being written.

use std::collections::BTreeSet;
use std::path::Path;

use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::{FreedEntry, Kind, Site};
use heapledger_source::{Ledger, Meanwhile, Snapshot, SourceError, Taken};
use heapledger_testing::{Builder, Scratch, sample};

fn numbers(ledger: &Ledger) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    let mut records = ledger.records();
    while let Some(chunk) = records.next_chunk().expect("read") {
        numbers.extend(chunk.iter().map(|entry| entry.number));
    }
    numbers
}

fn take(builder: &Builder, scratch: &Path, program: Meanwhile) -> (Ledger, Ledger) {
    let (live, raw, out) = (scratch.join("live"), scratch.join("raw"), scratch.join("out"));
    builder.write(&live).expect("written");
    let live = Ledger::open(&live).expect("a ledger");
    let mut snapshot = Snapshot::copy(&live, &raw, 1_700_000_000_500_000_000, program).expect("copied");
    if program == Meanwhile::Held {
        snapshot.taken.held_ns = Some(77);
    }
    snapshot.finish(&out, &[("more", "x".to_owned())], &mut |_, _| ()).expect("finished");
    assert!(!raw.exists(), "the copy is gone");
    (live, Ledger::open(&out).expect("a snapshot"))
}

#[test]
fn a_snapshot_holds_what_the_ledger_held() {
    for (order, word) in [(ByteOrder::Little, WordSize::W64), (ByteOrder::Big, WordSize::W32)] {
        for program in [Meanwhile::Runs, Meanwhile::Held] {
            let scratch = Scratch::new(&format!("snapshot-{program:?}-{}", word.bytes()));
            let (live, taken) = take(&sample(order, word), scratch.path(), program);
            assert!(taken.is_finished() && !taken.damage().is_any(), "{:?}", taken.damage());
            assert_eq!(numbers(&taken), numbers(&live));
            assert_eq!(taken.header().id, live.header().id);
            assert_eq!(taken.tallies().expect("read"), live.tallies().expect("read"));
            assert_eq!(taken.threads().expect("read"), live.threads().expect("read"));
            assert_eq!(taken.modules().expect("read"), live.modules().expect("read"));
            assert_eq!(taken.storage().expect("read").ledger_bytes, live.storage().expect("read").ledger_bytes);
            for site in (0..6).map(Site) {
                assert_eq!(taken.stack(site).expect("read"), live.stack(site).expect("read"));
            }
            assert_eq!(taken.process().text("more").as_deref(), Some("x"));
            let before = (program == Meanwhile::Runs).then_some([60, 12]);
            let held_ns = (program == Meanwhile::Held).then_some(77);
            let moment = Taken { unix_ns: 1_700_000_000_500_000_000, held_ns, in_flight: 0, before };
            assert_eq!((taken.taken(), live.taken()), (Some(moment), None));
        }
    }
}

#[test]
fn a_block_that_was_freed_meanwhile_is_there_once() {
    let mut builder = Builder::new();
    builder.block(0x1000, 1).block(0x2000, 2).block(0x3000, 3);
    let mut second = None;
    let scratch = Scratch::new("snapshot-twice");
    builder.write(&scratch.join("first")).expect("written");
    let first = Ledger::open(scratch.join("first")).expect("a ledger");
    let mut records = first.records();
    while let Some(chunk) = records.next_chunk().expect("read") {
        second = second.or(chunk.iter().find(|entry| entry.number == 1).copied());
    }
    let block = second.expect("the second block");
    builder.freed(FreedEntry {
        block,
        number: 9,
        later: 0,
        by: Kind::FREE,
        site: Site::NONE,
        thread: None,
        time: None,
        core: None,
    });
    let (_, taken) = take(&builder, scratch.path(), Meanwhile::Runs);
    assert_eq!(numbers(&taken), BTreeSet::from([0, 1, 2]), "it was there when the copy began");
    let mut history = taken.freed();
    let mut frees = 0;
    while let Some(chunk) = history.next_chunk().expect("read") {
        frees += chunk.len();
    }
    assert_eq!(frees, 0, "the free came later");
}

#[test]
fn the_copy_of_a_held_program_says_whether_its_books_agree() {
    let scratch = Scratch::new("snapshot-books");
    let mut builder = Builder::new();
    builder.block(0x1000, 1).block(0x2000, 2);
    for (path, more, unsettled) in [("even", 0, Some(0)), ("odd", 3, Some(3))] {
        builder.tally(heapledger_format::TallyCounter::Allocations, more);
        builder.write(&scratch.join(path)).expect("written");
        let live = Ledger::open(scratch.join(path)).expect("a ledger");
        let copy = |program| Snapshot::copy(&live, &scratch.join("raw"), 1, program).expect("copied").unsettled;
        assert_eq!((copy(Meanwhile::Held), copy(Meanwhile::Runs)), (unsettled, None));
    }
}

#[test]
fn what_cannot_be_done_leaves_nothing() {
    let scratch = Scratch::new("snapshot-cannot");
    let (live, taken) = take(&sample(ByteOrder::Little, WordSize::W64), scratch.path(), Meanwhile::Held);
    let raw = scratch.join("raw");
    assert!(matches!(Snapshot::copy(&taken, &raw, 1, Meanwhile::Held), Err(SourceError::AlreadyFinished(_))));
    assert!(!raw.exists());
    let nowhere = scratch.join("no/such/file");
    assert!(matches!(Snapshot::copy(&live, &nowhere, 1, Meanwhile::Held), Err(SourceError::Write { .. })));
    let copy = Snapshot::copy(&live, &raw, 1, Meanwhile::Held).expect("copied");
    assert!(copy.finish(&nowhere, &[], &mut |_, _| ()).is_err());
    assert!(!raw.exists());
}
