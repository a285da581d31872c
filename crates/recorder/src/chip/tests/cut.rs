//! A reset that comes between any two stores: what is found afterwards is a ledger, or says that it is none.

use super::*;
use crate::chip::memory::Memory;
use core::cell::RefCell;

std::thread_local! {
    /// The memory before each store of an update.
    static CUTS: RefCell<Vec<Vec<u32>>> = const { RefCell::new(Vec::new()) };
}

/// Memory whose contents are kept each time before somebody may store into it.
struct Watched(Vec<u32>);

impl Memory<u32> for Watched {
    fn words(&self) -> &[u32] {
        &self.0
    }
    fn words_mut(&mut self) -> &mut [u32] {
        CUTS.with_borrow_mut(|cuts| cuts.push(self.0.clone()));
        &mut self.0
    }
}

type Cut = ChipLedger<Everything, Vec<u32>>;

/// What a reader makes of each moment: it may know the block that is under way or not, and nothing but that differs.
fn look_at_all(before: &[Entry], after: &[Entry]) -> usize {
    let cuts = CUTS.take();
    for words in &cuts {
        let ledger: Cut = ChipLedger::lent(words.clone()).expect("room");
        assert!(ledger.is_whole(), "no ledger any more");
        for entry in entries(&ledger) {
            assert!(before.contains(&entry) || after.contains(&entry), "{entry:?} is in neither");
            assert!(stack(&ledger, entry.site).len() <= 2);
        }
        let kept = before.iter().filter(|entry| after.contains(entry));
        for entry in kept {
            assert!(entries(&ledger).contains(entry), "{entry:?} is gone");
        }
        // And it goes on from there, without harm.
        let mut next: Cut = ChipLedger::open(words.clone()).expect("room");
        let has_room = next.allocated(&block(0x9000, 1), &caller(&[1]));
        assert_eq!(next.freed(0x9000, Kind::FREE, &caller(&[])), has_room);
    }
    cuts.len()
}

#[test]
fn a_cut_at_each_store_leaves_a_ledger() {
    let mut ledger: ChipLedger<Everything, Watched> =
        ChipLedger::new(Watched(vec![0; Everything::CONFIG.words::<u32>()])).expect("room");
    let mut looked_at = 0;
    let mut random = 7u32;
    for step in 0..120u32 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let address = 0x2000_0000 + (random >> 16) % 24 * 8;
        let frames = [0x100 + (random >> 8) % 40, 0x50];
        let by = Caller { running: Running::Task(0x100 * (1 + random % 2)), ..caller(&frames) };
        let as_it_is = |ledger: &ChipLedger<Everything, Watched>| {
            let words = ledger.region().to_vec();
            entries(&Cut::lent(words).expect("room"))
        };
        let before = as_it_is(&ledger);
        CUTS.take();
        match random >> 28 {
            0..7 => {
                ledger.allocated(&block(address.into(), step.into()), &by);
            }
            7..13 => {
                ledger.freed(address, Kind::FREE, &by);
            }
            _ => {
                let detached = ledger.realloc_begins(address);
                // A second moment: the block is not to be found by its address, and still there.
                assert_eq!(as_it_is(&ledger), before);
                let new = Reallocated::Gave(block(u64::from(address) + 8, step.into()));
                ledger.realloc_ends(detached, Kind::REALLOC, new, &by);
            }
        }
        looked_at += look_at_all(&before, &as_it_is(&ledger));
    }
    assert!(looked_at > 1000, "{looked_at}");
}

#[test]
fn what_is_damaged_is_no_ledger() {
    let mut ledger = full();
    ledger.allocated(&block(0x100, 10), &caller(&[1]));
    let header_words = ledger.region()[13] as usize % 0x1_0000 / 4;
    let whole = |change: &dyn Fn(&mut Vec<u32>)| {
        let mut words = ledger.region().to_vec();
        change(&mut words);
        Cut::lent(words).is_some_and(|ledger| ledger.is_whole())
    };
    assert!(whole(&|_| ()));
    // Of the header, only counters, state and busy mark may change, and how many elements are in use.
    let counters = 16..16 + (ledger.region()[14] as usize >> 8) % 0x100;
    let mut noticed = 0;
    for at in 0..header_words {
        let is_whole = whole(&|words| words[at] ^= 1 << 30);
        assert_eq!(is_whole, counters.contains(&at), "word {at}");
        noticed += usize::from(!is_whole);
    }
    assert!(noticed > 60);
    assert!(!whole(&|words| words.fill(0)) && !whole(&|words| words.fill(0xA5A5_A5A5)));
}
