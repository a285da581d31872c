//! What threads free of another's account.

use crate::{check, race};
use heapledger_process::folding::{self, AccountWords, Amount, FreedWords};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

struct Shared {
    account: AccountWords,
    inbox: FreedWords,
    rows: [FreedWords; 2],
}

fn zeros<const WORDS: usize>() -> [AtomicU64; WORDS] {
    std::array::from_fn(|_| AtomicU64::new(0))
}

fn amount(blocks: u64) -> Amount {
    Amount { bytes: blocks * 100, blocks }
}

/// Two threads fold what they have freed while the owner allocates, frees and takes over: nothing is lost, nothing counts twice. Fails
/// if the inbox is emptied and not lessened by what was taken, and if a row is added to it by a load and a store.
#[test]
fn two_fold_while_the_owner_takes_over() {
    check(3, || {
        let shared = Arc::new(Shared { account: zeros(), inbox: zeros(), rows: [zeros(), zeros()] });
        folding::begins(&shared.account, amount(9));
        let frees = |index: usize, blocks: u64| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                folding::note(&shared.rows[index], amount(blocks));
                folding::push(&shared.rows[index], &shared.inbox);
            })
        };
        let others = [frees(0, 2), frees(1, 3)];
        let owner = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                folding::pull(&shared.account, &shared.inbox);
                folding::ends(&shared.account, amount(1));
            })
        };
        others.into_iter().chain([owner]).for_each(|thread| thread.join().expect("it ends"));
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let left = [&shared.inbox, &shared.rows[0], &shared.rows[1]];
        let left = left.iter().fold([0, 0], |[blocks, bytes], row| [blocks + word(&row[1]), bytes + word(&row[2])]);
        let [_, bytes, _, blocks, _, _, frees, by_others] = shared.account.each_ref().map(word);
        assert_eq!([blocks - left[0], bytes - left[1]], [3, 300], "what is held");
        assert_eq!((frees, by_others + left[0]), (1, 5), "what was freed");
        folding::pull(&shared.account, &shared.inbox);
        assert_eq!((word(&shared.account[1]), word(&shared.account[3])), (300, 3), "when all is folded");
    });
}

/// A reader that follows what was freed, from the row where it was noted to the inbox and to the account, never passes it over. Fails if
/// a row, or the inbox, is lessened before all can see where its amount has gone: relaxed. (The reader has a thread of its own: see
/// [`crate::race`].)
#[test]
fn what_is_on_its_way_is_seen() {
    for (in_row, in_account, expected) in [(1, 3, 7), (2, 1, 700)] {
        check(2, move || {
            let shared = Arc::new(Shared { account: zeros(), inbox: zeros(), rows: [zeros(), zeros()] });
            folding::begins(&shared.account, amount(9));
            folding::note(&shared.rows[0], amount(2));
            let does = |work: fn(&Shared)| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || work(&shared))
            };
            let pushes = does(|shared| folding::push(&shared.rows[0], &shared.inbox));
            let pulls = does(|shared| folding::pull(&shared.account, &shared.inbox));
            let reads = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let freed = [&shared.rows[0], &shared.inbox].map(|row| row[in_row].load(Ordering::Acquire));
                    let held = shared.account[in_account].load(Ordering::Relaxed) - freed[0] - freed[1];
                    assert!(held <= expected, "{held} are held, as if nobody had freed any");
                })
            };
            [pushes, pulls, reads].into_iter().for_each(|thread| thread.join().expect("it ends"));
        });
    }
}

/// A thread that has found no row adds to the inbox while another folds its own: both are in it. Fails if either adds by a load and a
/// store.
#[test]
fn two_add_to_an_inbox() {
    check(3, || {
        let shared = Arc::new(Shared { account: zeros(), inbox: zeros(), rows: [zeros(), zeros()] });
        folding::note(&shared.rows[0], amount(2));
        let [with_row, without] = [Arc::clone(&shared), Arc::clone(&shared)];
        race(
            move || folding::push(&with_row.rows[0], &with_row.inbox),
            move || folding::add_to_inbox(&without.inbox, amount(3)),
        );
        assert_eq!(shared.inbox.each_ref().map(|word| word.load(Ordering::Relaxed)), [0, 5, 500]);
    });
}

/// Two threads without a row make the account that they share. Fails if the slot is stored into.
#[test]
fn one_account_is_made() {
    check(3, || {
        let slots = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let make = |value: u64| {
            let slots = Arc::clone(&slots);
            thread::spawn(move || folding::put(&slots[..], 7, value).expect("room"))
        };
        let chosen = [make(1), make(2)].map(|thread| thread.join().expect("it ends"));
        assert_eq!(chosen[0], chosen[1]);
        assert_eq!(folding::find(&slots[..], 7), Some(chosen[0]));
    });
}

/// Two threads allocate and free on an account that they share: all of it is counted. Fails if any of its words is changed by a load and
/// a store, a peak as well.
#[test]
fn threads_share_an_account() {
    check(3, || {
        let account: Arc<AccountWords> = Arc::new(zeros());
        folding::begins_shared(&account, amount(9));
        let works = |blocks: u64| {
            let account = Arc::clone(&account);
            move || {
                folding::begins_shared(&account, amount(blocks));
                folding::ends_shared(&account, amount(blocks + 1), true);
            }
        };
        race(works(2), works(3));
        let [_, bytes, peak_bytes, blocks, peak_blocks, allocations, frees, by_others] =
            account.each_ref().map(|word| word.load(Ordering::Relaxed));
        assert_eq!([bytes, blocks], [700, 7], "what is held");
        assert_eq!([allocations, frees, by_others], [14, 7, 0], "what was counted");
        // One after the other, or both allocations before a free.
        assert!([11, 12, 14].contains(&peak_blocks), "at most {peak_blocks} blocks");
        assert!([1100, 1200, 1400].contains(&peak_bytes), "at most {peak_bytes} bytes");
    });
}
