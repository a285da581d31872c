//! Labels: what the program says of what a thread does, and which block has which.
//!
//! A label is a pair of key and value around which others are in force; the same pairs have the same number. The number of the
//! one in force lies in the thread's state. Which label a block has stands beside its record, in a column of the ledger with a number for
//! each slot. It is written while the record's commit word is 0, also where it is 0: a slot may have been another block's.
//!
//! The column has no storage, and nobody looks at it, before the first label is made. From then on whoever leases slots sees to it
//! that the column has storage for them, so who enters a block need not look. Two sides meet there: who makes the first label says that
//! the column is *wanted*, and then gives it storage for all slots that are leased; who leases slots looks after that whether it is
//! wanted. One of the two sees the other.
#![forbid(unsafe_code)]

use crate::access::count_apart;
use crate::family;
use crate::ledger::Ledger;
use crate::marks::{NotTold, own_state};
use crate::private::{Alone, Table};
use crate::publication;
use crate::shared::Shared;
use crate::state::ThreadState;
use crate::texts::{self, TextAt};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use heapledger_format::{LabelId, SectionKind, TallyCounter};
use heapledger_linux::token::Token;
use heapledger_recorder::backend::Slot;

/// Words of a label; the second is its commit word.
const LABEL_WORDS: usize = 2;
const COMMIT: usize = 1;
/// Labels that are found again. Beyond that one can be entered twice.
const PLACES: usize = 1 << 18;
const PROBES: usize = 16;

/// What is kept of labels beside the ledger.
pub struct Labels {
    /// In each place a label's number, or 0.
    places: Table<[AtomicU32; PLACES]>,
    /// Whether labels of blocks are written: the column has storage for all slots that are in use.
    is_used: AtomicBool,
    is_wanted: AtomicBool,
    wanting: Token,
}

impl Labels {
    /// None.
    pub const fn new() -> Labels {
        Labels {
            places: Table::new(),
            is_used: AtomicBool::new(false),
            is_wanted: AtomicBool::new(false),
            wanting: Token::new(),
        }
    }

    /// Whether labels of blocks are written.
    #[inline(always)]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Gives the memory beside the ledger back.
    pub(crate) fn unmap(&self, alone: &Alone) {
        self.places.unmap(alone);
    }

    /// Whether slots below this one can be used: not without storage for their labels, if these are wanted.
    pub(crate) fn covers(&self, ledger: &Ledger, end: u64) -> bool {
        fence(Ordering::SeqCst);
        !self.is_wanted.load(Ordering::Relaxed) || ledger.ensure(SectionKind::LabelColumn, end)
    }

    /// From now on labels of blocks are written. False if there is no room for them.
    fn begin(&self, ledger: &Ledger) -> bool {
        if self.is_used.load(Ordering::Acquire) {
            return true;
        }
        let Some(_wanting) = self.wanting.take() else { return false };
        self.is_wanted.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let covers = ledger.ensure(SectionKind::LabelColumn, ledger.section(SectionKind::Records).used());
        if covers {
            self.is_used.store(true, Ordering::Release);
        } else if !self.is_used() {
            // Blocks matter more.
            self.is_wanted.store(false, Ordering::Relaxed);
        }
        covers
    }
}

impl Default for Labels {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    /// The label of the block in a slot.
    #[inline(always)]
    pub(crate) fn label_of(&self, slot: Slot) -> &AtomicU32 {
        self.ledger().section(SectionKind::LabelColumn).number(u64::from(slot.0))
    }

    /// The block that is about to be entered in a vacant slot has this label.
    #[inline(always)]
    pub(crate) fn put_label(&self, slot: Slot, label: LabelId) {
        publication::before_changing();
        self.label_of(slot).store(label.0, Ordering::Relaxed);
    }
}

/// The number of a label around which `parent` is in force.
///
/// # Errors
/// If it finds no room, which is counted, nothing is recorded, there is no such parent, or the key is empty.
pub fn label(shared: &'static Shared, parent: LabelId, key: &[u8], value: &[u8]) -> Result<LabelId, NotTold> {
    if !family::follows(shared) {
        return Err(NotTold::Off);
    }
    let ledger = shared.ledger();
    if key.is_empty() {
        return Err(NotTold::Invalid);
    }
    if u64::from(parent.0) >= ledger.section(SectionKind::Labels).used().max(1) {
        return Err(NotTold::Unknown);
    }
    enter(shared, parent, key, value).ok_or_else(|| {
        count_apart(shared, TallyCounter::LabelsLost);
        NotTold::NoRoom
    })
}

fn enter(shared: &Shared, parent: LabelId, key: &[u8], value: &[u8]) -> Option<LabelId> {
    let ledger = shared.ledger();
    let (key, value) = (shared.texts.enter(ledger, key)?, shared.texts.enter(ledger, value)?);
    let words = words_of(parent, key, value);
    let hash = texts::hash(words.map(u64::to_ne_bytes).as_flattened());
    let places = shared.labels.places.get_or_map()?;
    let mut made = None;
    for probe in 0..PROBES {
        let Some(place) = places.get((hash as usize).wrapping_add(probe) % PLACES) else { break };
        let mut there = place.load(Ordering::Acquire);
        if there == 0 {
            let label = match made {
                Some(label) => label,
                None => *made.insert(make(shared, &words)?),
            };
            match place.compare_exchange(0, label.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(label),
                Err(other) => there = other,
            }
        }
        let known: &[AtomicU64; LABEL_WORDS] = ledger.section(SectionKind::Labels).element(u64::from(there));
        if known.iter().zip(words).all(|(known, own)| known.load(Ordering::Acquire) == own) {
            return Some(LabelId(there));
        }
    }
    made.or_else(|| make(shared, &words))
}

/// Enters a label that is not there.
fn make(shared: &Shared, words: &[u64; LABEL_WORDS]) -> Option<LabelId> {
    let ledger = shared.ledger();
    if !shared.labels.begin(ledger) {
        return None;
    }
    // Label 0 is no label.
    let row = ledger.lease(SectionKind::Labels, 1).filter(|row| *row != 0);
    let row = row.or_else(|| ledger.lease(SectionKind::Labels, 1))?;
    publication::publish::<LABEL_WORDS>(ledger.section(SectionKind::Labels).element(row), COMMIT, words);
    u32::try_from(row).ok().map(LabelId)
}

/// An element of `labels`.
fn words_of(parent: LabelId, key: TextAt, value: TextAt) -> [u64; LABEL_WORDS] {
    [
        u64::from(parent.0) | u64::from(key.at) << 32,
        u64::from(value.at) | u64::from(key.bytes) << 32 | u64::from(value.bytes) << 48,
    ]
}

/// What the calling thread begins has this label from now on. Returns the one that was in force.
///
/// # Errors
/// If nothing is recorded, or there is no such label.
pub fn put_in_force(shared: &'static Shared, label: LabelId) -> Result<LabelId, NotTold> {
    if !family::follows(shared) {
        return Err(NotTold::Off);
    }
    if label != LabelId::NONE && u64::from(label.0) >= shared.ledger().section(SectionKind::Labels).used() {
        return Err(NotTold::Unknown);
    }
    let state = ThreadState::of_this_thread().or_else(|| own_state(shared)).ok_or(NotTold::NoRoom)?;
    // Only this thread writes: a handler that comes in between leaves what it found.
    let before = state.label();
    state.label.store(label.0, Ordering::Relaxed);
    Ok(before)
}

/// The label in force in the calling thread.
pub fn in_force() -> LabelId {
    ThreadState::of_this_thread().map_or(LabelId::NONE, ThreadState::label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::CODEC;
    use heapledger_format::WordSize;
    use heapledger_format::label::Label;

    #[test]
    fn a_label_lies_as_the_format_says() {
        let (key, value) = (TextAt { at: 5, bytes: 6 }, TextAt { at: 7, bytes: 8 });
        let words = words_of(LabelId(3), key, value);
        let bytes = words.map(u64::to_ne_bytes);
        let expected = Label { parent: 3, key_at: 5, value_at: 7, key_bytes: 6, value_bytes: 8 };
        assert_eq!(Label::read(CODEC, bytes.as_flattened()), Some(expected));
        assert_eq!(Label::bytes(WordSize::W64), LABEL_WORDS * 8);
        assert_eq!(Label::commit_at(WordSize::W64) / 8, COMMIT);
    }
}
