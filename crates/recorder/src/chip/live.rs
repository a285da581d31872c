//! Live blocks, one after another, oldest first: to be told to somebody while the ledger goes on.

use super::ChipLedger;
use super::memory::{Memory, figure, ones};
use super::shape::{Fixed, Shape};
use super::word::Word;
use heapledger_format::{Kind, ThreadRow};

/// A block that lives, as its record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveBlock<W = u32> {
    /// Its number: later ones have larger ones.
    pub number: W,
    /// The function that returned it.
    pub kind: Kind,
    /// Where it lies.
    pub address: W,
    /// Bytes asked for, as far as a record has room.
    pub size: W,
    /// When, in ticks of the ledger; 0 where time is not recorded.
    pub time: W,
    /// The task, as the ledger numbers it, and its handle.
    pub task: Option<(u32, W)>,
    /// How many frames were stored.
    pub depth: usize,
}

impl<S: Shape, R: Memory<S::Word>> ChipLedger<S, R> {
    /// The oldest live block whose number is larger than `after`; of all, if there is none. Return addresses go to `frames`, innermost first, as
    /// many as there is room for. It takes one look at each record: whoever wants all blocks asks again and again, and need not
    /// have the ledger alone between.
    pub fn live_after(&self, after: Option<S::Word>, frames: &mut [S::Word]) -> Option<LiveBlock<S::Word>> {
        // A record has its number and 1.
        let least = after.map_or(S::Word::cut(1), |number| number.plus(S::Word::cut(2)));
        let used = self.word(S::RECORDS_USED).widen() as usize;
        let all = self.words(S::RECORDS_AT, used.wrapping_mul(S::RECORD_WORDS));
        let mut oldest: Option<(&[S::Word], S::Word)> = None;
        for record in all.chunks_exact(S::RECORD_WORDS.max(1)) {
            let number = figure::<S>(record, S::NUMBER);
            if number >= least && number != S::Word::ZERO && oldest.is_none_or(|(_, found)| number < found) {
                oldest = Some((record, number));
            }
        }
        let (record, number) = oldest?;
        let row = figure::<S>(record, S::THREAD);
        let has_task = S::HAS_TASKS && row != ones::<S>(S::THREAD.width_bits);
        Some(LiveBlock {
            number: number.minus(S::Word::cut(1)),
            kind: Kind(figure::<S>(record, S::KIND).widen() as u8),
            address: figure::<S>(record, S::ADDRESS),
            size: figure::<S>(record, S::SIZE),
            time: figure::<S>(record, S::TIME),
            task: has_task.then(|| self.task_of(row.widen() as u32)),
            depth: self.frames_of(figure::<S>(record, S::SITE).widen() as u32, frames),
        })
    }

    /// The live block that has a byte at an address: where it begins, and how many bytes it has. It takes one look at each record.
    pub fn live_around(&self, address: S::Word) -> Option<(S::Word, S::Word)> {
        let used = self.word(S::RECORDS_USED).widen() as usize;
        let all = self.words(S::RECORDS_AT, used.wrapping_mul(S::RECORD_WORDS));
        all.chunks_exact(S::RECORD_WORDS.max(1)).find_map(|record| {
            let (first, bytes) = (figure::<S>(record, S::ADDRESS), figure::<S>(record, S::SIZE));
            let is_it = figure::<S>(record, S::NUMBER) != S::Word::ZERO && address.minus(first) < bytes;
            is_it.then_some((first, bytes))
        })
    }

    /// A task's row, and its handle.
    fn task_of(&self, row: u32) -> (u32, S::Word) {
        (row, self.handle_of(ThreadRow(row)))
    }

    /// The return addresses of a call site; how many.
    fn frames_of(&self, site: u32, frames: &mut [S::Word]) -> usize {
        let (mut node, mut depth) = (site, 0usize);
        for place in frames {
            if !S::HAS_STACKS || node == 0 {
                break;
            }
            let (parent, code) = self.node(node);
            *place = if S::HAS_CODES {
                self.word(S::CODES.at.wrapping_add(code as usize))
            } else {
                S::Word::cut(u64::from(code))
            };
            (node, depth) = (parent, depth.wrapping_add(1));
        }
        depth
    }
}
