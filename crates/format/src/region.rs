//! What a ledger in a region of memory, a chip's, has beside header and sections: words that are nobody's business but its recorder's, behind
//! the header, and the index from address to record, behind the last section. Readers need neither, but say how much they take.

use crate::record::Options;

/// Words behind the header: the vacant record to be taken next, and, where these are recorded, where the history goes on, how much of the
/// trie is in use, the clock when it was last read, the task that called last and its row.
pub const fn note_words(options: Options) -> usize {
    const NOTES: [(u32, usize); 4] =
        [(Options::HISTORY, 1), (Options::STACK, 1), (Options::TIME, 1), (Options::THREAD, 2)];
    let (mut words, mut at) = (1usize, 0usize);
    while at < NOTES.len() {
        #[expect(clippy::indexing_slicing, reason = "below the array's length")]
        let (option, needed) = NOTES[at];
        if options.0 & option != 0 {
            words = words.wrapping_add(needed);
        }
        at = at.wrapping_add(1);
    }
    words
}

/// Bytes of a cell of the index, which holds a record's place plus 1, of a ledger with room for so many.
pub const fn index_cell_bytes(records: u32) -> usize {
    match records {
        0..0xFF => 1,
        0xFF..0xFFFF => 2,
        _ => 4,
    }
}

/// Cells of the index: one for each record, and one for four, and one more, with which chains begin.
pub const fn index_cells(records: u32) -> u32 {
    records.saturating_add(records / 4).saturating_add(1)
}
