//! Accounts as words that threads share without a lock: the pure protocol, which knows no ledger.
//!
//! The words of an account are its owner's: the thread that allocated the blocks. Others never store into them, so the owner needs no
//! locked instruction. What a thread frees of others' it notes in rows of its own, one for each account; now and then it adds
//! these to the account's *inbox*, which is such a row that all add to, and the owner takes from there what it finds. So what an
//! account holds is its own words less all rows that name it, the inbox among them, at every moment; but for one row, which counts
//! twice for two instructions while it moves.
#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering};

/// The words of an account: whose, bytes, most bytes, blocks, most blocks, allocations, frees, frees by others.
pub type AccountWords = [AtomicU64; 8];
/// The words of a row of frees: of which account, blocks, bytes.
pub type FreedWords = [AtomicU64; 3];

/// Bytes and blocks that come or go, neither below 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Bytes asked for.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
}

/// Adds to a word that only this thread stores into; what it is now.
#[inline(always)]
fn add(word: &AtomicU64, amount: u64) -> u64 {
    let sum = word.load(Ordering::Relaxed).wrapping_add(amount);
    word.store(sum, Ordering::Relaxed);
    sum
}

#[inline(always)]
fn raise(word: &AtomicU64, to: u64) {
    if to > word.load(Ordering::Relaxed) {
        word.store(to, Ordering::Relaxed);
    }
}

/// The owner has allocated.
#[inline(always)]
pub fn begins(account: &AccountWords, amount: Amount) {
    let [_, bytes, peak_bytes, blocks, peak_blocks, allocations, ..] = account;
    raise(peak_bytes, add(bytes, amount.bytes));
    raise(peak_blocks, add(blocks, amount.blocks));
    add(allocations, amount.blocks);
}

/// The owner has freed.
#[inline(always)]
pub fn ends(account: &AccountWords, amount: Amount) {
    let [_, bytes, _, blocks, _, _, frees, _] = account;
    add(bytes, amount.bytes.wrapping_neg());
    add(blocks, amount.blocks.wrapping_neg());
    add(frees, amount.blocks);
}

/// A thread has allocated on an account that it shares with others.
pub fn begins_shared(account: &AccountWords, amount: Amount) {
    let [_, bytes, peak_bytes, blocks, peak_blocks, allocations, ..] = account;
    let after = |word: &AtomicU64, amount: u64| word.fetch_add(amount, Ordering::Relaxed).wrapping_add(amount);
    peak_bytes.fetch_max(after(bytes, amount.bytes), Ordering::Relaxed);
    peak_blocks.fetch_max(after(blocks, amount.blocks), Ordering::Relaxed);
    allocations.fetch_add(amount.blocks, Ordering::Relaxed);
}

/// A thread has freed of such an account, `by_owner`: one of those who share it.
pub fn ends_shared(account: &AccountWords, amount: Amount, by_owner: bool) {
    let [_, bytes, _, blocks, _, _, frees, by_others] = account;
    bytes.fetch_sub(amount.bytes, Ordering::Relaxed);
    blocks.fetch_sub(amount.blocks, Ordering::Relaxed);
    let counted = if by_owner { frees } else { by_others };
    counted.fetch_add(amount.blocks, Ordering::Relaxed);
}

/// A thread notes in a row of its own what it has freed of another's account.
#[inline(always)]
pub fn note(row: &FreedWords, amount: Amount) {
    let [_, blocks, bytes] = row;
    add(blocks, amount.blocks);
    add(bytes, amount.bytes);
}

/// Adds to an account's inbox.
pub fn add_to_inbox(inbox: &FreedWords, amount: Amount) {
    let [_, blocks, bytes] = inbox;
    blocks.fetch_add(amount.blocks, Ordering::Relaxed);
    bytes.fetch_add(amount.bytes, Ordering::Relaxed);
}

/// A thread empties a row of its own into an account's inbox. A word at a time: what is killed in between has one twice.
pub fn push(row: &FreedWords, inbox: &FreedWords) {
    for (from, into) in row.iter().zip(inbox).skip(1) {
        let amount = from.load(Ordering::Relaxed);
        if amount != 0 {
            into.fetch_add(amount, Ordering::Release);
            from.store(0, Ordering::Release);
        }
    }
}

/// The owner takes over what its account's inbox says. Others may add to that meanwhile: it is lessened by what was taken, and not
/// emptied. (No model finds what would go wrong if the loads here, or the addition above, were relaxed; their order costs nothing.)
pub fn pull(account: &AccountWords, inbox: &FreedWords) {
    let ([_, bytes, _, blocks, .., by_others], [_, freed_blocks, freed_bytes]) = (account, inbox);
    let gone = freed_blocks.load(Ordering::Acquire);
    if gone != 0 {
        add(blocks, gone.wrapping_neg());
        add(by_others, gone);
        freed_blocks.fetch_sub(gone, Ordering::Release);
    }
    let gone = freed_bytes.load(Ordering::Acquire);
    if gone != 0 {
        add(bytes, gone.wrapping_neg());
        freed_bytes.fetch_sub(gone, Ordering::Release);
    }
}

/// Bits of what is found by a key.
pub const VALUE_BITS: u32 = 39;
const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;

/// Where a key is, or would be put: a slot, and what is in it. `None`: it is not there, and nothing has room.
fn look_up(slots: &[AtomicU64], key: u32) -> Option<(&AtomicU64, u64)> {
    let mask = slots.len().checked_sub(1)?;
    let first = (key.wrapping_mul(0x9E37_79B9) >> 7) as usize;
    (0..slots.len()).find_map(|step| {
        let slot = slots.get(first.wrapping_add(step) & mask)?;
        let word = slot.load(Ordering::Acquire);
        (word == 0 || word >> VALUE_BITS == u64::from(key)).then_some((slot, word))
    })
}

/// What was put under a key, which is not 0 and has 25 bits at most. The number of slots is a power of two.
pub fn find(slots: &[AtomicU64], key: u32) -> Option<u64> {
    look_up(slots, key).map(|(_, word)| word & VALUE_MASK).filter(|value| *value != 0)
}

/// Puts a value that is not 0 under a key. Who comes first has chosen: returns what is there afterwards.
pub fn put(slots: &[AtomicU64], key: u32, value: u64) -> Option<u64> {
    loop {
        let (slot, word) = look_up(slots, key)?;
        if word != 0 {
            return Some(word & VALUE_MASK);
        }
        let mine = u64::from(key) << VALUE_BITS | value & VALUE_MASK;
        if slot.compare_exchange(0, mine, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return Some(value);
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart_and_a_full_table_says_so() {
        let slots = [const { AtomicU64::new(0) }; 8];
        for key in 1..=8u32 {
            assert_eq!(find(&slots, key), None);
            assert_eq!(put(&slots, key << 8, u64::from(key) + 100), Some(u64::from(key) + 100));
            assert_eq!(put(&slots, key << 8, 7), Some(u64::from(key) + 100), "it was there before");
        }
        assert_eq!((put(&slots, 3, 1), find(&slots, 3)), (None, None));
        assert!((1..=8u32).all(|key| find(&slots, key << 8) == Some(u64::from(key) + 100)));
        assert_eq!((put(&[], 3, 1), find(&[], 3)), (None, None));
    }

    #[test]
    fn an_account_is_its_words_less_all_rows() {
        let account = [const { AtomicU64::new(0) }; 8];
        let [row, inbox] = [const { [const { AtomicU64::new(0) }; 3] }; 2];
        let amount = |blocks, bytes| Amount { bytes, blocks };
        begins(&account, amount(1, 100));
        begins(&account, amount(2, 60));
        ends(&account, amount(1, 100));
        note(&row, amount(1, 30));
        let words = || account.each_ref().map(|word| word.load(Ordering::Relaxed));
        assert_eq!(words(), [0, 60, 160, 2, 3, 3, 1, 0]);
        push(&row, &inbox);
        push(&row, &inbox);
        pull(&account, &inbox);
        pull(&account, &inbox);
        assert_eq!(words(), [0, 30, 160, 1, 3, 3, 1, 1]);
        assert!([row, inbox].iter().flatten().all(|word| word.load(Ordering::Relaxed) == 0));
        begins_shared(&account, amount(1, 200));
        ends_shared(&account, amount(1, 200), false);
        ends_shared(&account, amount(1, 30), true);
        assert_eq!(words(), [0, 0, 230, 0, 3, 4, 2, 2]);
    }
}
