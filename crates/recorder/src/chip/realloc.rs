//! The two halves of a `realloc`, and what came of it.

use super::memory::{Memory, ones};
use super::records::End;
use super::shape::{Fixed as _, Shape};
use super::{Caller, ChipLedger, InRealloc, NewBlock};
use crate::backend::Slot;
use crate::policy::Reallocated;
use heapledger_format::{Kind, TallyCounter};

impl<S: Shape, R: Memory<S::Word>> ChipLedger<S, R> {
    pub(super) fn detach(&mut self, address: S::Word) -> Option<InRealloc<S::Word>> {
        let slot = self.index_remove(address)?;
        Some(InRealloc { slot: slot.0, address, number: self.number_of_end(), time: self.time() })
    }

    pub(super) fn settle(
        &mut self,
        detached: Option<InRealloc<S::Word>>,
        by: Kind,
        outcome: Reallocated<NewBlock<S::Word>>,
        caller: &Caller<S::Word>,
    ) -> bool {
        let row = self.row_of(caller.running);
        let known = detached.and_then(|detached| Some((Self::slot(detached.slot)?, detached)));
        match (outcome, known) {
            (Reallocated::Gave(block), Some((slot, InRealloc { number, time, .. }))) => {
                let site = self.site_of(caller);
                self.retire(slot, &End { number, time, by, site, row });
                if block.address > ones::<S>(S::ADDRESS.width_bits) {
                    self.release_slot(slot);
                    return self.not_entered(TallyCounter::LostNoIndex, block.size);
                }
                self.void_slot(slot);
                self.enter(slot, &block, (number, time), (site, row));
                true
            }
            (Reallocated::Gave(block), None) => {
                self.count(TallyCounter::UnknownFrees);
                let site = self.site_of(caller);
                self.begin_apart(&block, (site, row))
            }
            (Reallocated::Freed, Some((slot, InRealloc { number, time, .. }))) => {
                let site = self.site_of_end(caller);
                self.close(slot, &End { number, time, by, site, row });
                false
            }
            (Reallocated::Freed, None) => {
                self.count(TallyCounter::UnknownFrees);
                false
            }
            (Reallocated::Failed, known) => {
                self.count(TallyCounter::FailedCalls);
                if let Some((slot, detached)) = known {
                    self.reattach(slot, &detached);
                }
                false
            }
        }
    }

    /// Nothing has changed.
    #[cold]
    fn reattach(&mut self, slot: Slot, detached: &InRealloc<S::Word>) {
        match self.index_insert(detached.address, slot) {
            None => self.count(TallyCounter::NumbersUnused),
            // Someone was given an address that was not free: the allocator's books are broken. Keep ours whole.
            Some(other) => self.displaced(other, detached.number, detached.time),
        }
    }
}
