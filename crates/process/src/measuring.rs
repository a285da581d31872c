//! What a block comes to: for how many it stands, on whose account it is, and what that is for a heap of the program's own.
#![forbid(unsafe_code)]

use crate::access::Access;
use crate::folding::Amount;
use crate::shared::Shared;
use core::sync::atomic::Ordering;
use heapledger_format::Entry;
use heapledger_format::record::ADDRESS_MAX;
use heapledger_recorder::backend::{Backend as _, Begun, Measure, Number, Slot};

/// A block of so many bytes may be a stack, and may be given back to the system when it is freed.
const UNMAPPED_BYTES_MIN: u64 = 16 << 10;
const NUMBER_MASK: u64 = heapledger_format::layout::mask(48);

/// For how many blocks a sample stands: see [`SampleRule`](heapledger_format::sample::SampleRule).
#[cold]
#[inline(never)]
fn weight(shared: &Shared, bytes: u64, number: Number) -> u64 {
    shared.settings().sample_rule().weight(bytes, number.0)
}

impl Access<'_> {
    /// For how many blocks a new one stands, which is put on the account of its thread.
    #[inline(always)]
    pub(crate) fn weight_on_account(&mut self, block: &Begun, number: Number) -> u64 {
        if self.shared.settings().is_plain {
            return 1;
        }
        if self.is_usual || self.shared.settings().sample == 0 {
            self.put_on_account(block.heap, Amount { bytes: block.size, blocks: 1 });
            return 1;
        }
        let weight = weight(self.shared, block.size, number);
        if self.shared.accounts.is_on() {
            self.put_on_account(block.heap, Amount { bytes: block.size.wrapping_mul(weight), blocks: weight });
        }
        weight
    }

    /// What a block comes to that ends, and is taken off its account.
    #[inline(always)]
    pub(crate) fn measure_off_account(&mut self, slot: Slot) -> Option<Measure> {
        let number = (self.shared.record(slot)[0].load(Ordering::Acquire) & NUMBER_MASK).checked_sub(1)?;
        let bytes = Entry::packed_size(self.shared.record(slot)[2].load(Ordering::Relaxed));
        match bytes {
            Some(bytes) => {
                if bytes >= UNMAPPED_BYTES_MIN {
                    self.shared.memory_changes.fetch_add(1, Ordering::Relaxed);
                }
                if self.shared.settings().is_plain {
                    return Some(Measure { bytes, weight: 1 });
                }
                if self.is_usual || self.shared.settings().sample == 0 {
                    self.take_off_account(slot, Amount { bytes, blocks: 1 });
                    return Some(Measure { bytes, weight: 1 });
                }
                let weight = weight(self.shared, bytes, Number(number));
                self.ends_on_account(slot, bytes, weight);
                Some(Measure { bytes, weight })
            }
            None => self.aside(|access| {
                let measure = access.measure_wide(slot)?;
                access.ends_on_account(slot, measure.bytes, measure.weight);
                Some(measure)
            }),
        }
    }

    #[inline(always)]
    fn ends_on_account(&mut self, slot: Slot, bytes: u64, weight: u64) {
        if self.shared.accounts.is_on() {
            self.take_off_account(slot, Amount { bytes: bytes.wrapping_mul(weight), blocks: weight });
        }
    }
}

/// A block of an allocator inside of the program is in the ledger.
#[inline(never)]
pub(crate) fn enters_heap(shared: &Shared, block: &Begun, weight: u64) {
    shared.heap_books.enters(block.heap.into(), block.address, block.size, weight);
}

/// It is in it no more: what its record says still stands there.
#[inline(never)]
pub(crate) fn leaves_heap(shared: &Shared, slot: Slot, Measure { bytes, weight }: Measure) {
    let [_, word, ..] = shared.record(slot);
    let word = word.load(Ordering::Relaxed);
    shared.heap_books.leaves((word >> 56) as u32, word & ADDRESS_MAX, bytes, weight);
}
