//! Accounts of threads that free what others allocated: together they say what the records say, and each what those of its thread say.

use std::collections::BTreeMap;

use heapledger_format::account::Account;
use heapledger_format::{TallyCounter, ThreadRowPlus1};
use heapledger_source::Ledger;

/// Compares accounts with the records, one by one, and with the counters; none are there where none are kept. Nobody is inside a call.
pub(crate) fn expect_agreement(ledger: &Ledger, what: &str) -> Vec<Account> {
    let accounts = ledger.accounts().expect("accounts");
    let tallies = ledger.tallies().expect("tallies");
    if accounts.is_empty() {
        return accounts;
    }
    let mut held = BTreeMap::new();
    let mut records = ledger.records();
    while let Some(entries) = records.next_chunk().expect("records") {
        for entry in entries {
            let whose = entry.thread.map_or(ThreadRowPlus1::WITHOUT_ROW, ThreadRowPlus1::from);
            let (blocks, bytes) = held.entry((whose, u32::from(entry.heap.unwrap_or(0)))).or_insert((0, 0));
            (*blocks, *bytes) = (*blocks + 1, *bytes + entry.size.expect("a size"));
        }
    }
    for account in &accounts {
        let expected = held.remove(&(account.thread, account.heap)).unwrap_or_default();
        assert_eq!((account.blocks.0, account.bytes.0), expected, "{what}: {account:?}");
        assert!(account.peak_bytes >= account.bytes && account.peak_blocks >= account.blocks, "{what}: {account:?}");
        let left = account.allocations.0 - account.frees.0 - account.frees_by_others.0;
        assert_eq!(left, account.blocks.0, "{what}: {account:?}");
    }
    if tallies.get(TallyCounter::AccountsLost) == 0 {
        assert!(held.is_empty(), "{what}: on nobody's account: {held:?}");
        let sum = |figure: fn(&Account) -> u64| accounts.iter().map(figure).sum::<u64>();
        assert_eq!(sum(|account| account.allocations.0), tallies.get(TallyCounter::Allocations), "{what}");
        let frees = sum(|account| account.frees.0 + account.frees_by_others.0);
        assert_eq!(frees, tallies.get(TallyCounter::Frees), "{what}");
    }
    accounts
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod threads {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use heapledger_format::{Kind, Site, TallyCounter};
    use heapledger_recorder::backend::{Begun, Ended};
    use heapledger_recorder::policy::{self, Reallocated};

    use super::expect_agreement;
    use crate::linux::{RING, access, open_own_ledger, run_child_within, start_recording};
    use crate::model::Subject as _;
    use crate::sequence::Random;

    /// Blocks that whoever comes may free, and where the next one lies.
    struct Heaps {
        count: u64,
        live: Mutex<Vec<u64>>,
        blocks: AtomicU64,
    }

    impl Heaps {
        fn block(&self, random: &mut Random) -> Begun {
            let address = 0x7f00_0000_0000 + self.blocks.fetch_add(1, Ordering::Relaxed) * 32;
            let (size, heap) = (random.below(2000), random.below(self.count) as u8);
            Begun { kind: Kind::MALLOC, address, size, actual: Some(size + 8), site: Site::NONE, heap, alignment: 0 }
        }

        fn take(&self, random: &mut Random) -> Option<u64> {
            let mut live = self.live.lock().expect("live");
            let index = random.below(live.len().max(1) as u64) as usize;
            (index < live.len()).then(|| live.swap_remove(index))
        }

        fn put(&self, address: u64) {
            self.live.lock().expect("live").push(address);
        }

        /// A thread allocates, and frees and resizes whosever blocks it finds.
        fn work(&self, seed: u64, steps: u64) {
            let random = &mut Random(seed);
            for _ in 0..steps {
                match (random.below(8), self.take(random)) {
                    (0..=3, known) => {
                        known.into_iter().for_each(|address| self.put(address));
                        let block = self.block(random);
                        if policy::begin(&mut access(), &block) {
                            self.put(block.address);
                        }
                    }
                    (4..=6, Some(address)) => {
                        assert!(policy::end(&mut access(), address, &Ended { by: Kind::FREE, site: Site::NONE }));
                    }
                    (_, Some(address)) => {
                        let detached = policy::detach(&mut access(), address);
                        assert!(detached.is_some());
                        let block = self.block(random);
                        let outcome = Reallocated::Gave(block);
                        if policy::settle(&mut access(), detached, Kind::REALLOC, &outcome, |_| Site::NONE) {
                            self.put(block.address);
                        }
                    }
                    (_, None) => {}
                }
            }
        }
    }

    /// Threads come and go, some of which never see each other.
    fn rounds(rounds: u64, threads: u64, steps: u64, heaps: u64) {
        let heaps = Heaps { count: heaps, live: Mutex::default(), blocks: AtomicU64::new(0) };
        let mut own = open_own_ledger();
        for round in 0..rounds {
            thread::scope(|scope| {
                for index in 0..threads {
                    let heaps = &heaps;
                    scope.spawn(move || heaps.work(1 + round * threads + index, steps));
                }
            });
            heaps.work(1 << 40 | round, 20);
            expect_agreement(&own.read(), &format!("round {round}"));
        }
    }

    fn lost() -> u64 {
        open_own_ledger().read().tallies().expect("tallies").get(TallyCounter::AccountsLost)
    }

    #[test]
    #[ignore = "run by the test below, in a process of its own"]
    fn come_and_go() {
        if std::env::var_os(RING).is_some() {
            start_recording();
            rounds(25, 20, 300, 6);
            assert_eq!(lost(), 0);
            let accounts = open_own_ledger().read().accounts().expect("accounts");
            assert!(accounts.iter().any(|account| account.heap == 5), "heaps beyond those that a thread has at hand");
            assert!(accounts.iter().filter(|account| account.frees_by_others.0 > 0).count() > 1000);
        }
    }

    #[test]
    fn accounts_agree_with_the_records_however_threads_come_and_go() {
        run_child_within("accounts::threads::come_and_go", 64, 64 << 20);
    }

    /// A ledger as small as this one has room for 512 threads, and not for all their accounts in six heaps.
    const SMALL: u64 = 512 << 10;

    #[test]
    #[ignore = "run by the test below, in a process of its own"]
    fn too_many() {
        if std::env::var_os(RING).is_some() {
            start_recording();
            rounds(50, 12, 30, 6);
            let ledger = open_own_ledger().read();
            assert!(ledger.tallies().expect("tallies").get(TallyCounter::ThreadsUnnamed) > 50);
            let accounts = expect_agreement(&ledger, "too many");
            assert!(lost() > 0 && accounts.len() > 100, "{} accounts, {} lost", accounts.len(), lost());
        }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_the_rest_is_right() {
        run_child_within("accounts::threads::too_many", 64, SMALL);
    }

    /// With one heap for all there is room for the account of all threads without a row.
    #[test]
    #[ignore = "run by the test below, in a process of its own"]
    fn without_rows() {
        if std::env::var_os(RING).is_some() {
            start_recording();
            rounds(50, 12, 30, 1);
            let accounts = expect_agreement(&open_own_ledger().read(), "threads without a row");
            let others =
                accounts.iter().find(|account| account.thread == heapledger_format::ThreadRowPlus1::WITHOUT_ROW);
            let others = others.expect("their account");
            assert!(others.allocations.0 > 500 && others.frees.0 > 0, "{others:?}");
            assert_eq!(lost(), 0);
        }
    }

    #[test]
    fn threads_without_a_row_have_one_account() {
        run_child_within("accounts::threads::without_rows", 64, SMALL);
    }
}
