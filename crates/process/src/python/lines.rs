//! Rows of the section `lines`: each place in a program's source has one.
#![forbid(unsafe_code)]

use crate::ledger::{CODEC, Ledger};
use crate::private::{Alone, Table};
use crate::texts::TextAt;
use core::sync::atomic::{AtomicU32, Ordering};
use heapledger_format::SectionKind;
use heapledger_format::section::line;

/// Rows that are found again. Beyond that a place may have two.
const PLACES: usize = 1 << 17;
/// Places that are looked at for one.
const PROBES: usize = 32;
const WORDS: usize = line::BYTES / 8;

/// Which rows there are: in each place 0, or a row plus 1.
pub(super) struct Lines {
    places: Table<[AtomicU32; PLACES]>,
}

impl Lines {
    pub(super) const fn new() -> Lines {
        Lines { places: Table::new() }
    }

    pub(super) fn unmap(&self, alone: &Alone) {
        self.places.unmap(alone);
    }

    /// The row of a line (0: not known) of a function in a file. `None`: there is no room.
    pub(super) fn row(&self, ledger: &Ledger, file: TextAt, function: TextAt, line: u32) -> Option<u32> {
        let row = words_of(file, function, line);
        let [first, second] = row;
        let hash = (first ^ second.rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let places = self.places.get_or_map()?;
        let mut own = None;
        for probe in 0..PROBES {
            let place = places.get((hash as usize).wrapping_add(probe) % PLACES)?;
            let mut seen = place.load(Ordering::Acquire);
            if seen == 0 {
                let fresh = match own {
                    Some(fresh) => fresh,
                    None => *own.insert(enter(ledger, row)?),
                };
                match place.compare_exchange(0, fresh.wrapping_add(1), Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return Some(fresh),
                    Err(other) => seen = other,
                }
            }
            let there = seen.wrapping_sub(1);
            let mut found = [0; WORDS];
            ledger.section(SectionKind::Lines).copy_words((there as usize).wrapping_mul(WORDS), &mut found);
            if found == row {
                return Some(there);
            }
        }
        own.or_else(|| enter(ledger, row))
    }
}

fn enter(ledger: &Ledger, row: [u64; WORDS]) -> Option<u32> {
    let index = u32::try_from(ledger.lease(SectionKind::Lines, 1)?).ok()?;
    let places: &[_; WORDS] = ledger.section(SectionKind::Lines).element(u64::from(index));
    for (place, word) in places.iter().zip(row) {
        // Nobody refers to it before its number is known.
        place.store(word, Ordering::Release);
    }
    Some(index)
}

fn words_of(file: TextAt, function: TextAt, number: u32) -> [u64; WORDS] {
    let mut bytes = [0; line::BYTES];
    for (at, width, value) in [
        (line::FILE_AT, 4, u64::from(file.at)),
        (line::FUNCTION_AT, 4, function.at.into()),
        (line::FILE_BYTES, 2, file.bytes.into()),
        (line::FUNCTION_BYTES, 2, function.bytes.into()),
        (line::LINE, 4, number.into()),
    ] {
        CODEC.put(&mut bytes, at, width, value);
    }
    let (words, _) = bytes.as_chunks::<8>();
    let mut row = [0; WORDS];
    row.iter_mut().zip(words).for_each(|(word, bytes)| *word = u64::from_ne_bytes(*bytes));
    row
}
