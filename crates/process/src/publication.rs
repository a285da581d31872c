//! How a record or a history entry becomes visible to readers that no one waits for.
//!
//! The commit word is the element's unique number plus 1. The writer stores 0 there before it changes
//! anything else, and the number after all else. A reader loads the commit word, copies, and loads it
//! again: if both are the same number, the copy is the element of that number.
#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering, fence};

/// Takes an element out of readers' sight, before any word of it is changed. Whoever changes a word
/// then, calls [`before_changing`] first.
#[inline(always)]
pub fn retract(commit: &AtomicU64) {
    commit.store(0, Ordering::Release);
}

/// What is stored from here on is not seen under the number that an element had before it was retracted,
/// even if another thread retracted it and handed it on: a reader that sees one of the new words sees the
/// 0, too. On x86-64 this is no instruction.
#[inline(always)]
pub fn before_changing() {
    fence(Ordering::Release);
}

/// Writes a retracted element and lets readers see it. `commit` is the index of the commit word.
#[inline(always)]
pub fn publish<const WORDS: usize>(element: &[AtomicU64; WORDS], commit: usize, values: &[u64; WORDS]) {
    before_changing();
    for (index, value) in values.iter().enumerate() {
        if let Some(word) = element.get(index).filter(|_| index != commit) {
            word.store(*value, Ordering::Relaxed);
        }
    }
    if let (Some(word), Some(value)) = (element.get(commit), values.get(commit)) {
        word.store(*value, Ordering::Release);
    }
}
