//! Allocators, clocks and systems that do what they should not.

use super::*;

/// Who is live, by address and size.
fn live<S: Shape>(ledger: &ChipLedger<S, Vec<S::Word>>) -> Vec<(u64, u64)> {
    let mut live: Vec<(u64, u64)> =
        entries(ledger).iter().map(|entry| (entry.address, entry.size.unwrap_or_default())).collect();
    live.sort_unstable();
    live
}

#[test]
fn blocks_that_are_misaligned_or_overlap_are_each_entered() {
    let mut ledger = full();
    let given = [(0x2000_0001, 3), (0x2000_0002, 100), (0x2000_0010, 100), (0x2000_0011, 0), (0xFFFF_FFFF, 8)];
    for (address, size) in given {
        assert!(ledger.allocated(&block(address, size), &caller(&[1])));
    }
    assert_eq!(live(&ledger), given);
    // One that is given again, while it is held: the earlier one has ended, unseen.
    assert!(ledger.allocated(&block(0x2000_0010, 7), &caller(&[2])));
    let (_, header) = read(&ledger);
    assert_eq!((header.tally(TallyCounter::Displaced), header.tally(TallyCounter::Frees)), (1, 1));
    assert_eq!(freed(&ledger)[0].by, Kind::UNSEEN);
    for (address, _) in given {
        assert!(ledger.freed(address as u32, Kind::FREE, &caller(&[3])));
        assert!(!ledger.freed(address as u32, Kind::FREE, &caller(&[3])), "twice");
    }
    assert_eq!((live(&ledger), read(&ledger).1.global(GlobalCounter::LiveBytes)), (vec![], 0));
    assert_eq!(read(&ledger).1.tally(TallyCounter::UnknownFrees), given.len() as u64);
}

/// Enters a block at each of these moments of the clock, and frees it at once; the times that the ledger has.
fn times(moments: &[u32]) -> Vec<u64> {
    NOW.set(moments[0]);
    let mut ledger = full();
    for moment in moments {
        NOW.set(*moment);
        assert!(ledger.allocated(&block(0x2000_0000, 8), &caller(&[1])));
        assert!(ledger.freed(0x2000_0000, Kind::FREE, &caller(&[1])));
    }
    freed(&ledger).iter().map(|entry| entry.time.map_or(0, |time| time.0)).collect()
}

#[test]
fn a_clock_that_stands_still_or_runs_backwards_never_sets_times_back() {
    assert_eq!(times(&[5, 5, 5]), [0, 0, 0]);
    // Nobody knows that it ran backwards: it may have gone round. Time stays where a word ends.
    let times = times(&[500, 600, 599, 700, 300]);
    assert_eq!(times[..2], [0, 100]);
    assert!(times.is_sorted() && times[2..].iter().all(|time| *time == u64::from(u32::MAX)), "{times:?}");
}

#[test]
fn a_handle_that_is_used_again_is_another_task() {
    let mut ledger = full();
    assert!(ledger.task_begins(0x100, 1, "first"));
    let by = Caller { running: Running::Task(0x100), ..caller(&[1]) };
    assert!(ledger.allocated(&block(0x2000_0000, 8), &by));
    // Nobody took leave of the first.
    assert!(ledger.task_begins(0x100, 2, "second"));
    assert!(ledger.allocated(&block(0x2000_0010, 8), &by));
    ledger.task_ends(0x100);
    // One that was never introduced.
    assert!(ledger.allocated(&block(0x2000_0020, 8), &by));
    let mut rows: Vec<(u64, Option<ThreadRow>)> =
        entries(&ledger).iter().map(|entry| (entry.address, entry.thread)).collect();
    rows.sort_unstable_by_key(|(address, _)| *address);
    let expected = [0, 1, 2].map(|row| (0x2000_0000 + u64::from(row) * 16, Some(ThreadRow(row))));
    assert_eq!(rows, expected);
}
