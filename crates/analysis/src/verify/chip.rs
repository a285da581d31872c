//! The same of a chip, in an image of its memory: by the code with which the chip itself looks.

use std::cell::Cell;

use heapledger_format::FreedEntry;
use heapledger_format::errors::ErrorKind;
use heapledger_format::guard::Kept;
use heapledger_guard::Damage;
use heapledger_guard::small::{Bad, SmallBlock, SmallDamage, SmallHeap, bit_words};
use heapledger_source::{ChipGuard, ChipHeap, Ledger, ProgramMemory, SourceError};

use super::cached::Cached;
use super::{Certain, DAMAGED_MAX, Verified, told};

/// A heap that says that it is larger is damaged: addresses have 32 bits.
const HEAP_BYTES_MAX: u64 = 1 << 30;

/// Bits of a heap, read at once; `None` if they are not in the image.
fn bits(memory: &ProgramMemory, address: u64, words: usize) -> Option<Vec<Cell<u32>>> {
    let mut bytes = vec![0u8; words * 4];
    let is_there = memory.read(address, &mut bytes) == bytes.len();
    is_there.then(|| {
        bytes.chunks_exact(4).map(|word| Cell::new(u32::from_le_bytes(word.try_into().unwrap_or_default()))).collect()
    })
}

/// Damage of a block, or of freed memory, where that is known to be one that was freed.
struct Look<'l> {
    memory: Cached<'l>,
    freed: Vec<FreedEntry>,
    certain: Vec<Certain>,
}

impl Look<'_> {
    /// A block that is damaged, or lies where another one does.
    fn bad(&mut self, address: u32, bad: Bad, limit: u32) {
        let certain = |block: Option<&SmallBlock>, damage: Damage| Certain {
            block: address.into(),
            size: block.map(|block| block.size.into()),
            damage,
            kept: [None, None],
            range: block.map_or((u64::from(address).saturating_sub(8), address.into()), |block| {
                (block.given().into(), block.given().saturating_add(block.bytes()).min(limit).into())
            }),
            kind: None,
        };
        match bad {
            Bad::Overlaps(other) => {
                let start = address.saturating_sub(8);
                let at_start = SmallDamage { region: heapledger_guard::Region::Header, address: start, bytes: 0 };
                let damage = at_start.told(&self.memory, None, address);
                let range = (start.into(), other.into());
                let kind = Some(ErrorKind::CorruptMetadata);
                self.certain.push(Certain { kind, range, ..certain(None, damage) });
            }
            Bad::Damaged(checked) => {
                for damage in [checked.below, checked.above].into_iter().flatten() {
                    let damage = damage.told(&self.memory, checked.block.as_ref(), address);
                    self.certain.push(certain(checked.block.as_ref(), damage));
                }
            }
        }
    }

    /// Freed memory that was written to: whose it was last, the history says, as far as it reaches.
    fn in_freed(&mut self, damage: &SmallDamage) {
        let at = u64::from(damage.address);
        let last = self
            .freed
            .iter()
            .filter(|freed| {
                let start = freed.block.address.saturating_sub(8);
                at >= start && at - start < freed.block.size.unwrap_or(0).saturating_add(8 + 4 + 7)
            })
            .max_by_key(|freed| freed.number);
        let kept = last.map_or([None, None], |freed| {
            let given = Kept {
                site: freed.block.site,
                thread: freed.block.thread.unwrap_or(heapledger_format::ThreadRow::OTHER),
                kind: freed.block.kind,
                time: freed.block.time.unwrap_or_default(),
                forks: 0,
            };
            let thread = freed.thread.unwrap_or(heapledger_format::ThreadRow::OTHER);
            let time = freed.time.unwrap_or_default();
            let taken = Kept { site: freed.site, thread, kind: freed.by, time, forks: 0 };
            [Some(given), Some(taken)]
        });
        let block = last.map_or(at, |freed| freed.block.address);
        let told = damage.told(&self.memory, None, block as u32);
        self.certain.push(Certain {
            block,
            size: last.and_then(|freed| freed.block.size),
            damage: told,
            kept,
            range: (at & !15, (at + u64::from(damage.bytes) + 15) & !15),
            kind: None,
        });
    }
}

/// Looks at all guarded blocks of a chip, and at freed memory that is filled, as its memory was saved.
///
/// # Errors
/// If the ledger or the image can no longer be read.
pub fn verify_chip(ledger: &Ledger, memory: &ProgramMemory, guard: &ChipGuard) -> Result<Verified, SourceError> {
    let mut verified = Verified::default();
    let mut freed = Vec::new();
    let mut history = ledger.freed();
    while let Some(chunk) = history.next_chunk()? {
        freed.extend_from_slice(chunk);
    }
    let mut look = Look { memory: Cached::short(memory), freed, certain: Vec::new() };
    for heap in &guard.heaps {
        one_heap(memory, heap, &mut look, &mut verified);
    }
    verified.errors = told(ledger, memory, &look.certain)?;
    Ok(verified)
}

fn one_heap(memory: &ProgramMemory, heap: &ChipHeap, look: &mut Look<'_>, verified: &mut Verified) {
    // As the chip has it: from a multiple of eight on.
    let first = heap.first.next_multiple_of(8);
    let bytes = heap.bytes.saturating_sub(first - heap.first) & !7;
    let fits = bytes <= HEAP_BYTES_MAX && first.checked_add(bytes).is_some_and(|end| end <= 1 << 32);
    let words = bit_words(usize::try_from(heap.bytes).unwrap_or(0));
    let begins = if fits { bits(memory, heap.begins, words) } else { None };
    let filled = match heap.filled {
        0 => Some(Vec::new()),
        at if fits => bits(memory, at, words),
        _ => None,
    };
    let (Some(begins), Some(filled)) = (begins, filled) else {
        verified.unread += 1;
        return;
    };
    let heap = SmallHeap { first: first as u32, bytes: bytes as u32, begins: &begins, filled: &filled };
    let mut at = heap.first;
    while let Ok(address) = heap.next_block(at, usize::MAX) {
        at = address.wrapping_add(8);
        if !heap.has(address) {
            break;
        }
        match heap.examine(&look.memory, address) {
            Ok(_) => verified.live += 1,
            Err(None) => verified.unread += 1,
            Err(Some(bad)) => {
                (verified.live, verified.damaged) = (verified.live + 1, verified.damaged + 1);
                if look.certain.len() < DAMAGED_MAX {
                    look.bad(address, bad, heap.limit());
                }
            }
        }
        if at == 0 || !heap.has(at) {
            break;
        }
    }
    let mut at = heap.first;
    while heap.has(at) {
        let left = heap.limit().wrapping_sub(at);
        let Some(damage) = heap.damage_in_filled(&look.memory, at, left) else { break };
        verified.damaged += 1;
        if look.certain.len() < DAMAGED_MAX {
            look.in_freed(&damage);
        }
        at = SmallHeap::behind(&damage);
    }
    verified.unread += u64::from(look.memory.has_missed());
}
