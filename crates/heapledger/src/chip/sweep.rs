//! Checks on demand: whether all is whole around guarded blocks and in freed memory.
#![forbid(unsafe_code)]

use super::guard::By;
use super::{Books, Frame, GuardedHeap, Kind, Placed};
use heapledger_format::errors::FoundAt;
use heapledger_guard::small::{SMALL_SLICE_BYTES, SmallHeap};

/// Words of bits that are looked at at once for the next block: two kilobytes of a heap.
const WORDS_AT_ONCE: usize = 8;

/// How far a check has come that is made in steps. Others may allocate and free between two of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    heap: usize,
    /// Bytes of the heap that are behind.
    past: u32,
    is_in_freed: bool,
}

/// What a step has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// A block or some freed memory was looked at; it is damaged, or not.
    More(bool),
    /// There is nothing more.
    End,
}

impl Sweep {
    /// From the beginning.
    pub const fn new() -> Sweep {
        Sweep { heap: 0, past: 0, is_in_freed: false }
    }

    const fn of_heap(heap: usize) -> Sweep {
        Sweep { heap, past: 0, is_in_freed: false }
    }
}

const BY: By = By { kind: Kind(0), from: Frame::NONE, at: FoundAt::Sweep };

impl<B: Placed> Books<B> {
    /// Looks at the next guarded block, or at the next few hundred bytes of freed memory that is filled, alone for as long as one takes. What is damaged
    /// is entered as an error. Whoever has no time calls it now and then.
    pub fn check_step(self, sweep: &mut Sweep) -> Swept {
        let Some(guarded) = B::guarded().get(sweep.heap) else { return Swept::End };
        let heap = guarded.heap();
        let at = heap.first.wrapping_add(sweep.past);
        if sweep.past >= heap.bytes {
            *sweep = if sweep.is_in_freed || !B::fills_freed() {
                Sweep::of_heap(sweep.heap.saturating_add(1))
            } else {
                Sweep { past: 0, is_in_freed: true, ..*sweep }
            };
            return Swept::More(false);
        }
        let (behind, is_damaged) =
            if sweep.is_in_freed { self.freed_step(guarded, at) } else { self.block_step(guarded, at) };
        sweep.past = behind.wrapping_sub(heap.first);
        Swept::More(is_damaged)
    }

    /// Looks at the next block, and says how far it came.
    fn block_step(self, guarded: &'static GuardedHeap, at: u32) -> (u32, bool) {
        let (heap, memory) = (guarded.heap(), guarded.memory());
        let (behind, bad) = B::alone(|| match heap.next_block(at, WORDS_AT_ONCE) {
            Err(behind) => (behind, None),
            Ok(block) => {
                let bad = heap.examine(&memory, block).err().map(|bad| (block, bad));
                (block.wrapping_add(8), bad)
            }
        });
        if let Some((block, Some(bad))) = bad {
            self.tell_bad(guarded, block, bad, BY);
        }
        (behind, matches!(bad, Some((_, Some(_)))))
    }

    /// The same of freed memory.
    fn freed_step(self, guarded: &'static GuardedHeap, at: u32) -> (u32, bool) {
        let (heap, memory) = (guarded.heap(), guarded.memory());
        let bytes = heap.limit().wrapping_sub(at).min(SMALL_SLICE_BYTES);
        match B::alone(|| heap.damage_in_filled(&memory, at, bytes)) {
            Some(damage) => {
                self.tell_freed(guarded, &damage, BY);
                (SmallHeap::behind(&damage), true)
            }
            None => (at.wrapping_add(bytes), false),
        }
    }

    /// Looks at all guarded blocks and all filled memory: how many are damaged. Others go on meanwhile, if they run.
    pub fn check_integrity(self) -> u32 {
        self.check_all(Sweep::new(), usize::MAX)
    }

    /// The same of one heap, by its place in [`Board::guarded`](super::Board::guarded).
    pub fn check_heap(self, heap: usize) -> u32 {
        self.check_all(Sweep::of_heap(heap), heap)
    }

    fn check_all(self, mut sweep: Sweep, last: usize) -> u32 {
        let mut damaged = 0u32;
        while sweep.heap <= last
            && let Swept::More(is_damaged) = self.check_step(&mut sweep)
        {
            damaged = damaged.saturating_add(is_damaged.into());
        }
        damaged
    }

    /// Looks at one block: whether it is damaged. `None` if no guarded block begins there.
    pub fn check_block(self, block: usize) -> Option<bool> {
        let guarded = Self::guarded_heap(block)?;
        let (heap, memory) = (guarded.heap(), guarded.memory());
        let bad = B::alone(|| heap.begins(block as u32).then(|| heap.examine(&memory, block as u32).err()))?;
        if let Some(Some(bad)) = bad {
            self.tell_bad(guarded, block as u32, bad, BY);
        }
        Some(bad.is_some())
    }
}
