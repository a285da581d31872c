//! A finished ledger has its history in the order of frees, in whatever order the ring had it.

use heapledger_format::{Entry, FreedEntry, Kind, Site, ThreadRow, Ticks};
use heapledger_source::{Ledger, finish};
use heapledger_testing::{Builder, Scratch, freed_at};

fn freed(number: u64) -> FreedEntry {
    let block = Entry {
        number: 1_000_000 + number,
        address: 0x1000 + number,
        size: Some(8),
        actual: Some(24),
        kind: Kind::MALLOC,
        site: Site::NONE,
        thread: Some(ThreadRow(0)),
        heap: Some(0),
        time: Some(Ticks(number)),
        ..Entry::NONE
    };
    freed_at(block, number)
}

/// What `ring` holds after it was finished.
fn finished(name: &str, ring: &[u64]) -> Vec<FreedEntry> {
    let place = Scratch::new(&format!("order-{name}"));
    let mut builder = Builder::new();
    for number in ring {
        builder.freed(freed(*number));
    }
    let [live, done] = ["live.hlive", "done.hl"].map(|file| place.join(file));
    builder.write(&live).expect("written");
    let written = finish(&Ledger::open(&live).expect("a ledger"), &done, &[], &mut |_, _| {}).expect("finished");
    assert_eq!((written.history, written.in_flight), (ring.len() as u64, 0), "{name}");
    let ledger = Ledger::open(&done).expect("a ledger");
    let mut history = ledger.freed();
    let mut entries = Vec::new();
    while let Some(chunk) = history.next_chunk().expect("readable") {
        entries.extend_from_slice(chunk);
    }
    entries
}

#[test]
fn any_ring_is_put_in_order() {
    const ALL: u64 = 40_000;
    let in_order: Vec<u64> = (0..ALL).collect();
    let reverse: Vec<u64> = (0..ALL).rev().collect();
    // As two busy threads and one that frees seldom leave it, 64 entries at a time.
    let mut threads: Vec<Vec<u64>> = vec![vec![]; 3];
    let mut ring = Vec::new();
    for number in 0..ALL {
        let thread = if number % 1500 == 7 { 2 } else { number as usize / 5 % 2 };
        threads[thread].push(number);
        if threads[thread].len() == 64 {
            ring.append(&mut threads[thread]);
        }
    }
    ring.extend(threads.concat());
    // One that went round, in the middle of a group.
    let round = [&ring[27_001..], &ring[..27_001]].concat();
    // No order at all.
    let scattered: Vec<u64> = (0..1 << 16).map(|index| index * 40_503 % (1 << 16)).collect();
    for (name, ring) in [
        ("in-order", &in_order[..]),
        ("reverse", &reverse),
        ("threads", &ring),
        ("round", &round),
        ("scattered", &scattered),
        ("one", &[5]),
        ("none", &[]),
    ] {
        let mut wanted = ring.to_vec();
        wanted.sort_unstable();
        let wanted: Vec<FreedEntry> = wanted.into_iter().map(freed).collect();
        assert!(finished(name, ring) == wanted, "{name}");
    }
}
