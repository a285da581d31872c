//! What a ledger takes up: in the program that wrote it, and in its file.

use heapledger_format::header::{HEADER_BYTES_MAX, Header, flag};
use heapledger_format::region;
use heapledger_format::session::process as key;
use heapledger_format::{GlobalCounter, SectionKind};

use crate::SourceError;
use crate::ledger::{Ledger, Store};

/// The key of the `process` section under which a finished ledger keeps what the live one's sections took: pieces
/// hold the elements only, not the room that there was for more.
pub(crate) const SECTIONS_KEY: &str = key::SECTIONS;

/// What a ledger takes up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Bytes of the file, holes not counted.
    pub file_bytes: u64,
    /// Bytes that the ledger had storage for while its program ran.
    pub ledger_bytes: u64,
    /// Memory beside the ledger that the recorder mapped in the program; `None` if that ended before it was measured.
    pub private_bytes: Option<u64>,
}

/// What one section took up in the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionStorage {
    /// Elements that were handed out: never less than what was in use at a time.
    pub used: u64,
    /// Bytes that there was storage for.
    pub bytes: u64,
}

/// `KIND:USED:BACKED` of each section, with commas between.
pub(crate) fn sections_text(header: &Header) -> String {
    let rows = header.sections().iter().map(|row| format!("{}:{}:{}", row.kind, row.used, row.backed));
    rows.collect::<Vec<_>>().join(",")
}

/// Elements used and backed of a section, from that text.
fn parse_sections(text: &str, kind: SectionKind) -> Option<(u64, u64)> {
    text.split(',').find_map(|row| {
        let mut numbers = row.split(':').map(|number| number.parse::<u64>().ok());
        let [Some(number), used, backed] = [numbers.next()?, numbers.next()?, numbers.next()?] else { return None };
        (number == kind as u64).then_some(())?;
        used.zip(backed)
    })
}

/// Kinds and elements used of all sections, from that text.
pub(crate) fn parse_rows(text: &str) -> impl Iterator<Item = (u16, u64)> {
    text.split(',').filter_map(|row| {
        let mut numbers = row.split(':');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    })
}

/// Bytes of a ledger in a region of memory, a chip's, whose sections have so many.
fn region_bytes(header: &Header, sections: impl Iterator<Item = u64>) -> u64 {
    let word = header.codec.word.bytes() as u64;
    let records = header.section(SectionKind::Records).map_or(0, |row| u32::try_from(row.capacity).unwrap_or(u32::MAX));
    // Earlier recorders had a section for it.
    let has_row = header.section(SectionKind::Index).is_some();
    let index = u64::from(region::index_cells(records)).saturating_mul(region::index_cell_bytes(records) as u64);
    let notes = (region::note_words(header.options) as u64).saturating_mul(word);
    let beside = [header.bytes() as u64, notes, if has_row { 0 } else { index }];
    let whole_words = |bytes: u64| bytes.checked_next_multiple_of(word).unwrap_or(bytes);
    sections.chain(beside).map(whole_words).fold(0, u64::saturating_add)
}

impl Ledger {
    /// What the ledger takes up.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn storage(&self) -> Result<Storage, SourceError> {
        let header = self.current_header()?;
        let in_region =
            header.flags & (flag::PUBLISHED_SINGLY | flag::FINISHED) == 0 && self.process().get(key::LOG).is_none();
        let backed = || {
            let bytes = header.sections().iter().map(|row| row.backed.saturating_mul(u64::from(row.element_bytes)));
            if in_region {
                region_bytes(&header, bytes)
            } else {
                bytes.fold(HEADER_BYTES_MAX as u64, u64::saturating_add)
            }
        };
        let (file_bytes, ledger_bytes) = match &self.store {
            // In the memory of a process there is no telling what has storage.
            Store::Live(live) if live.file.is_in_parts() && self.found().is_none() => (backed(), backed()),
            Store::Live(_) => (self.file().stored_bytes()?, backed()),
            Store::Finished(_) => {
                (self.file().metadata()?.len(), self.process().number(key::LEDGER_BYTES).unwrap_or_else(backed))
            }
        };
        let private_bytes = header.global(GlobalCounter::PrivateBytes);
        // A forked child is not measured when it begins.
        let is_measured = private_bytes != 0 || self.process().get(key::PARENT_ID).is_none();
        Ok(Storage { file_bytes, ledger_bytes, private_bytes: is_measured.then_some(private_bytes) })
    }

    /// What a section took up in the program; `None` if there is no such section, or if the ledger was finished by
    /// a version that did not write it down.
    ///
    /// # Errors
    /// If a live ledger can no longer be read.
    pub fn section_storage(&self, kind: SectionKind) -> Result<Option<SectionStorage>, SourceError> {
        let header = self.current_header()?;
        let Some(row) = header.section(kind) else { return Ok(None) };
        let figures = match &self.store {
            Store::Live(_) => Some((row.used, row.backed)),
            Store::Finished(_) => {
                self.process().text(SECTIONS_KEY).as_deref().and_then(|text| parse_sections(text, kind))
            }
        };
        Ok(figures
            .map(|(used, backed)| SectionStorage { used, bytes: backed.saturating_mul(u64::from(row.element_bytes)) }))
    }

    /// Bytes that a section takes in a finished ledger's file, packed; `None` in a live one.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn packed_bytes(&self, kind: impl Into<u16>) -> Result<Option<u64>, SourceError> {
        match &self.store {
            Store::Live(_) => Ok(None),
            Store::Finished(pieces) => pieces.packed_bytes(kind).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_found_in_their_text() {
        let text = "1:64:128,3:7:512,300:1:1,x:1:1,4:5,5:-1:9,6:1:18446744073709551615";
        assert_eq!(parse_sections(text, SectionKind::Records), Some((64, 128)));
        assert_eq!(parse_sections(text, SectionKind::Sites), Some((7, 512)));
        assert_eq!(parse_sections(text, SectionKind::Heaps), Some((1, u64::MAX)));
        for kind in [SectionKind::Pcs, SectionKind::Threads, SectionKind::History] {
            assert_eq!(parse_sections(text, kind), None, "{kind:?}");
        }
        assert_eq!(parse_sections("", SectionKind::Records), None);
    }
}
