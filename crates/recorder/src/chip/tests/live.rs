//! Live blocks told one after another are those of the records, oldest first, with their stacks and tasks.

use super::*;
use heapledger_format::record::Options;

/// A block that lives: address, size, stack, task.
type KnownBlock = (u64, u64, Vec<u64>, u64);

/// Blocks come and go, some in the slots of others.
fn lived<S: Shape>() -> (ChipLedger<S, Vec<S::Word>>, Vec<KnownBlock>) {
    let word = |value: u64| S::Word::cut(value);
    let mut ledger = new::<S>();
    ledger.task_begins(word(0x70), 1, "one");
    ledger.task_begins(word(0x80), 2, "two");
    let mut known = Vec::new();
    for block_number in 0..40u64 {
        NOW.set(block_number as u32 * 10);
        let address = 0x2000_0000 + block_number * 64;
        let frames: Vec<u64> = (0..block_number % 4).map(|frame| 0x800 + block_number % 5 * 64 + frame * 8).collect();
        let words: Vec<S::Word> = frames.iter().map(|frame| word(*frame)).collect();
        let task = [0x70, 0x80][block_number as usize % 2];
        let by = Caller { running: Running::Task(word(task)), ..caller(&words) };
        assert!(ledger.allocated(&block(address, 10 + block_number), &by));
        known.push((address, 10 + block_number, frames, task));
        if known.len() > 15 {
            let (gone, ..) = known.remove(block_number as usize * 7 % 15);
            assert!(ledger.freed(word(gone), Kind::FREE, &by));
        }
    }
    (ledger, known)
}

fn told_as_they_live<S: Shape>() {
    let config = S::CONFIG;
    let (has_stacks, has_tasks, has_time) = (config.sites != 0, config.tasks != 0, config.clock.is_some());
    let (ledger, known) = lived::<S>();
    let (mut frames, mut after, mut told) = ([S::Word::ZERO; 8], None, 0);
    while let Some(live) = ledger.live_after(after, &mut frames) {
        assert!(after.is_none_or(|after| live.number > after), "later ones have larger numbers");
        let (address, size, stack, task) = &known[told];
        assert_eq!((live.address.widen(), live.size.widen(), live.kind), (*address, *size, Kind::MALLOC));
        let stored: Vec<u64> = frames[..live.depth].iter().map(|frame| frame.widen()).collect();
        assert_eq!(stored, if has_stacks { stack.clone() } else { Vec::new() });
        assert_eq!(live.task.map(|(_, handle)| handle.widen()), has_tasks.then_some(*task));
        assert_eq!(live.time.widen() != 0, has_time, "{live:?}");
        (after, told) = (Some(live.number), told + 1);
    }
    assert_eq!((told, entries(&ledger).len()), (known.len(), known.len()));
    // By any of its bytes, and by no other one.
    for (address, size, ..) in &known {
        let around =
            |at: u64| ledger.live_around(S::Word::cut(at)).map(|(first, bytes)| (first.widen(), bytes.widen()));
        assert_eq!((around(*address), around(address + size - 1)), (Some((*address, *size)), Some((*address, *size))));
        assert_eq!((around(address - 1), around(address + size)), (None, None));
    }
    // Of a stack the innermost frames, where there is less room.
    let mut one = [S::Word::ZERO; 1];
    let first = ledger.live_after(None, &mut one).expect("a block lives");
    assert!(first.depth <= 1);
    assert_eq!(new::<S>().live_after(None, &mut frames), None);
}

#[test]
fn of_every_shape() {
    const ALL: u32 = 63;
    const STACK: u32 = Options::STACK;
    told_as_they_live::<Switched<ALL, false, u32>>();
    told_as_they_live::<Switched<ALL, true, u32>>();
    told_as_they_live::<Switched<ALL, false, u64>>();
    told_as_they_live::<Switched<ALL, true, u64>>();
    told_as_they_live::<Switched<STACK, false, u32>>();
    told_as_they_live::<Switched<0, false, u32>>();
}
