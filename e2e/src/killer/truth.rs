//! What the victim says that it has allocated, held against what a ledger says.

use std::collections::HashMap;
use std::path::Path;

use heapledger_source::Ledger;

use crate::{Result, check};

/// Threads of the victim, and slots of each: as in `victims/kill_truth.c`.
const SLOTS: usize = 3 * 600;
/// State, address, size, next size.
const SLOT_BYTES: usize = 4 * 8;
/// Bytes of the file.
pub(super) const FILE_BYTES: u64 = (SLOTS * SLOT_BYTES) as u64;
/// Every size of the victim's own blocks is odd and at least this.
const SIZE_MIN: u64 = 1001;

/// What a thread of the victim was at with one of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Empty,
    /// A call was begun: the block is there or is not.
    Allocating(u64),
    /// Address and size.
    Live(u64, u64),
    Freeing(u64, u64),
    /// Address and size, and the size that it will have, wherever it will be.
    Moving(u64, u64, u64),
}

/// All slots, as the victim left them.
pub(super) struct Truth(Vec<Slot>);

impl Truth {
    /// Reads the file.
    pub(super) fn read(path: &Path) -> Result<Truth> {
        let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
        Ok(Truth(bytes.chunks_exact(SLOT_BYTES).map(slot).collect::<Result<_>>()?))
    }

    /// Blocks that are certainly there.
    pub(super) fn live(&self) -> usize {
        self.0.iter().filter(|slot| matches!(slot, Slot::Live(..))).count()
    }

    /// Says where a ledger differs: every block whose call was completed is in it, and none whose free was. What was in
    /// the middle of a call may be either.
    pub(super) fn compare(&self, path: &Path) -> Result {
        let blocks = blocks(path)?;
        let mut left: HashMap<(u64, u64), u64> = HashMap::new();
        for block in &blocks {
            *left.entry(*block).or_default() += 1;
        }
        let mut take = |block: (u64, u64)| match left.get_mut(&block) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        };
        let is_missing = |slot: &&Slot| matches!(slot, Slot::Live(address, size) if !take((*address, *size)));
        let missing: Vec<&Slot> = self.0.iter().filter(is_missing).collect();
        check!(
            missing.is_empty(),
            "{} of {} live blocks are missing, such as {:?}",
            missing.len(),
            self.live(),
            missing[0]
        );
        let mut doubtful = Vec::new();
        for slot in &self.0 {
            match slot {
                Slot::Freeing(address, size) => _ = take((*address, *size)),
                Slot::Moving(address, size, next) if !take((*address, *size)) => doubtful.push(*next),
                Slot::Allocating(size) => doubtful.push(*size),
                _ => {}
            }
        }
        for ((address, size), count) in left {
            for _ in 0..count {
                let place = doubtful.iter().position(|doubtful| *doubtful == size);
                let place =
                    place.ok_or_else(|| format!("a block of {size} bytes at {address:#x} was freed, and is there"))?;
                doubtful.swap_remove(place);
            }
        }
        Ok(())
    }
}

fn slot(bytes: &[u8]) -> Result<Slot> {
    let word = |index: usize| {
        let bytes = bytes.get(index * 8..index * 8 + 8).and_then(|bytes| bytes.try_into().ok());
        u64::from_le_bytes(bytes.unwrap_or_default())
    };
    let (address, size) = (word(1), word(2));
    match word(0) {
        0 => Ok(Slot::Empty),
        1 => Ok(Slot::Allocating(size)),
        2 => Ok(Slot::Live(address, size)),
        3 => Ok(Slot::Freeing(address, size)),
        4 => Ok(Slot::Moving(address, size, word(3))),
        other => Err(format!("the victim's own file is damaged: state {other}")),
    }
}

/// Addresses and sizes of the victim's own blocks in a finished ledger.
fn blocks(path: &Path) -> Result<Vec<(u64, u64)>> {
    let problem = |error: heapledger_source::SourceError| error.to_string();
    let ledger = Ledger::open(path).map_err(problem)?;
    check!(ledger.is_finished(), "{} is not finished", path.display());
    let mut records = ledger.records();
    let mut blocks = Vec::new();
    while let Some(chunk) = records.next_chunk().map_err(problem)? {
        let own = chunk.iter().filter_map(|entry| Some((entry.address, entry.size?)));
        blocks.extend(own.filter(|(_, size)| *size >= SIZE_MIN && size % 2 == 1));
    }
    check!(!ledger.damage().is_any(), "{} is damaged: {:?}", path.display(), ledger.damage());
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapledger_testing::Builder;

    fn file(slots: &[[u64; 4]]) -> Truth {
        let bytes: Vec<u8> = slots.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        Truth(bytes.chunks_exact(SLOT_BYTES).map(|bytes| slot(bytes).expect("a state")).collect())
    }

    #[test]
    fn what_differs_is_found() {
        let scratch = crate::scratch::Scratch::new();
        let ledger = |blocks: &[(u64, u64)]| {
            let [raw, done] = ["raw", "done"].map(|name| scratch.path(name));
            let mut builder = Builder::new();
            blocks.iter().for_each(|(address, size)| _ = builder.block(*address, *size));
            builder.write(&raw).expect("written");
            heapledger_source::finish(&Ledger::open(&raw).expect("open"), &done, &[], &mut |_, _| ())
                .expect("finished");
            done
        };
        let truth =
            file(&[[2, 0x1000, 1001, 0], [1, 0, 1003, 0], [3, 0x3000, 1005, 0], [4, 0x4000, 1007, 1009], [0; 4]]);
        assert_eq!(truth.live(), 1);
        for good in [
            &[(0x1000, 1001)][..],
            &[(0x1000, 1001), (0x2000, 1003), (0x3000, 1005), (0x4000, 1007), (0x10, 24)],
            &[(0x1000, 1001), (0x5000, 1009)],
        ] {
            assert_eq!(truth.compare(&ledger(good)), Ok(()), "{good:?}");
        }
        for bad in [
            &[][..],
            &[(0x1000, 1003)],
            &[(0x1000, 1001), (0x6000, 1011)],
            &[(0x1000, 1001), (0x4000, 1007), (0x5000, 1009)],
            &[(0x1000, 1001), (0x2000, 1003), (0x3000, 1003)],
        ] {
            assert!(truth.compare(&ledger(bad)).is_err(), "{bad:?}");
        }
    }
}
