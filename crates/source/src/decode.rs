//! Fields of records at the speed of a table scan.
//!
//! [`RecordLayout::get`] searches its descriptors for every field; over tens of millions of records that
//! search is most of the work. Here the places are looked up once.

use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::layout::{Field, RecordLayout, mask};
use heapledger_format::record::{HISTORY_WORDS, Options, RECORD_WORDS, THREAD_OTHER, layout_64};
use heapledger_format::{Entry, FreedEntry, Kind};

/// Where one field lies: a word and a run of bits in it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FieldBits {
    word_at: usize,
    shift: u32,
    ones: u64,
}

/// Reads entries of one ledger. Gives the same as [`Entry::read`] and [`FreedEntry::read`].
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    codec: Codec,
    /// Bytes that every element must have.
    needed: usize,
    /// Whether the fields of a record lie where [`Entry::pack`] puts them, as far as they are recorded.
    standard: bool,
    /// The same of a history entry and [`FreedEntry::pack`], if all of them are recorded.
    standard_end: bool,
    number: Option<FieldBits>,
    address: Option<FieldBits>,
    size: Option<FieldBits>,
    excess: Option<FieldBits>,
    kind: Option<FieldBits>,
    site: Option<FieldBits>,
    thread: Option<FieldBits>,
    heap: Option<FieldBits>,
    time: Option<FieldBits>,
    label: Option<FieldBits>,
    freed_number: Option<FieldBits>,
    freed_by: Option<FieldBits>,
    freed_site: Option<FieldBits>,
    freed_thread: Option<FieldBits>,
    freed_time: Option<FieldBits>,
    freed_wide: Option<FieldBits>,
    freed_later: Option<FieldBits>,
    freed_label: Option<FieldBits>,
}

impl Decoder {
    /// For elements of `element_bytes`; fields that lie beyond count as not recorded.
    pub(crate) fn new(layout: &RecordLayout, codec: Codec, element_bytes: usize) -> Decoder {
        let mut decoder = Decoder::places(layout, codec, element_bytes);
        let whole = Decoder::places(&layout_64(Options::ALL), codec, element_bytes);
        decoder.standard = codec == Codec { order: ByteOrder::Little, word: WordSize::W64 }
            && element_bytes >= RECORD_WORDS * 8
            && decoder.has_part_of(&whole);
        decoder.standard_end = decoder.standard && element_bytes >= HISTORY_WORDS * 8 && decoder.end_places() == whole.end_places()
                // Earlier recorders do not have it.
                && (decoder.freed_later.is_none() || decoder.freed_later == whole.freed_later);
        decoder
    }

    fn places(layout: &RecordLayout, codec: Codec, element_bytes: usize) -> Decoder {
        let word_bytes = codec.word.bytes();
        let place = |field| {
            let descriptor = layout.find(field)?;
            let word_at = usize::from(descriptor.at_bit) / codec.word.bits() * word_bytes;
            (word_at + word_bytes <= element_bytes).then_some(FieldBits {
                word_at,
                shift: (usize::from(descriptor.at_bit) % codec.word.bits()) as u32,
                ones: mask(descriptor.width_bits),
            })
        };
        Decoder {
            codec,
            needed: element_bytes,
            standard: false,
            standard_end: false,
            number: place(Field::Number),
            address: place(Field::Address),
            size: place(Field::Size),
            excess: place(Field::Excess),
            kind: place(Field::Kind),
            site: place(Field::Site),
            thread: place(Field::Thread),
            heap: place(Field::Heap),
            time: place(Field::Time),
            label: place(Field::Label),
            freed_number: place(Field::FreedNumber),
            freed_by: place(Field::FreedBy),
            freed_site: place(Field::FreedSite),
            freed_thread: place(Field::FreedThread),
            freed_time: place(Field::FreedTime),
            freed_wide: place(Field::FreedWide),
            freed_later: place(Field::FreedLater),
            freed_label: place(Field::FreedLabel),
        }
    }

    /// Whether the fields of a record are some of those of `whole`, and those that are always there.
    fn has_part_of(&self, whole: &Decoder) -> bool {
        let always = [(self.number, whole.number), (self.address, whole.address), (self.size, whole.size)];
        let some = [
            (self.excess, whole.excess),
            (self.site, whole.site),
            (self.thread, whole.thread),
            (self.heap, whole.heap),
            (self.time, whole.time),
        ];
        self.kind == whole.kind
            && always.iter().all(|(own, place)| own == place)
            && some.iter().all(|(own, place)| own.is_none() || own == place)
    }

    fn end_places(&self) -> [Option<FieldBits>; 6] {
        [self.freed_number, self.freed_by, self.freed_site, self.freed_thread, self.freed_time, self.freed_wide]
    }

    #[inline]
    fn get(&self, bytes: &[u8], place: Option<FieldBits>) -> Option<u64> {
        let place = place?;
        let word = match (self.codec.word, self.codec.order) {
            (WordSize::W64, ByteOrder::Little) => u64::from_le_bytes(*bytes.get(place.word_at..)?.first_chunk()?),
            _ => self.codec.word(bytes, place.word_at),
        };
        Some(word >> place.shift & place.ones)
    }

    #[inline]
    fn unescaped(&self, bytes: &[u8], place: Option<FieldBits>) -> Option<u64> {
        let ones = place?.ones;
        self.get(bytes, place).filter(|value| *value != ones)
    }

    /// The commit word of a record; 0 while vacant or being written.
    #[inline]
    pub(crate) fn commit(&self, bytes: &[u8]) -> u64 {
        self.get(bytes, self.number).unwrap_or(0)
    }

    /// The commit word of a history entry; 0 while vacant or being written.
    #[inline]
    pub(crate) fn freed_commit(&self, bytes: &[u8]) -> u64 {
        self.get(bytes, self.freed_number).unwrap_or(0)
    }

    /// A record; `None` if vacant or being written.
    #[inline]
    pub(crate) fn entry(&self, bytes: &[u8]) -> Option<Entry> {
        let bytes = bytes.get(..self.needed)?;
        match bytes.first_chunk() {
            Some(record) if self.standard => self.standard_entry(record),
            _ => self.any_entry(bytes),
        }
    }

    #[inline]
    fn standard_entry(&self, record: &[u8; RECORD_WORDS * 8]) -> Option<Entry> {
        let (words, _) = record.as_chunks::<8>();
        let words: [u64; RECORD_WORDS] = std::array::from_fn(|word| u64::from_le_bytes(words[word]));
        let mut entry = Entry::unpack(&words)?;
        if self.excess.is_none() {
            entry.actual = None;
        }
        if self.site.is_none() {
            entry.site = 0;
        }
        entry.thread = entry.thread.filter(|row| self.thread.is_some() && *row != THREAD_OTHER);
        entry.heap = entry.heap.filter(|_| self.heap.is_some());
        entry.time = entry.time.filter(|_| self.time.is_some());
        Some(entry)
    }

    fn any_entry(&self, bytes: &[u8]) -> Option<Entry> {
        let number = self.get(bytes, self.number)?.checked_sub(1)?;
        let size = self.unescaped(bytes, self.size);
        let excess = self.unescaped(bytes, self.excess);
        Some(Entry {
            number,
            address: self.get(bytes, self.address).unwrap_or(0),
            size,
            actual: size.zip(excess).map(|(size, excess)| size.saturating_add(excess)),
            kind: Kind(self.get(bytes, self.kind).unwrap_or(0) as u8),
            site: self.get(bytes, self.site).unwrap_or(0) as u32,
            thread: self.unescaped(bytes, self.thread).map(|row| row as u32),
            heap: self.get(bytes, self.heap).map(|row| row as u8),
            time: self.get(bytes, self.time),
        })
    }

    /// The label that stands in a record; 0 if records have none.
    pub(crate) fn label(&self, bytes: &[u8]) -> u32 {
        self.get(bytes, self.label).unwrap_or(0) as u32
    }

    /// The label of the block of a history entry, 0 for none; `None`: it had one, of which nothing is known.
    pub(crate) fn freed_label(&self, bytes: &[u8]) -> Option<u32> {
        match self.freed_label {
            Some(_) => self.unescaped(bytes, self.freed_label).map(|label| label as u32),
            None => Some(self.label(bytes)),
        }
    }

    /// Whether a figure of this record is to be found in the `wide` section.
    #[inline]
    pub(crate) fn escaped(&self, entry: &Entry) -> bool {
        entry.size.is_none() && self.size.is_some() || entry.actual.is_none() && self.excess.is_some()
    }

    /// Whether actual sizes are recorded.
    pub(crate) fn records_actual(&self) -> bool {
        self.excess.is_some()
    }

    /// A history entry; `None` if vacant or being written.
    #[inline]
    pub(crate) fn freed(&self, bytes: &[u8]) -> Option<FreedEntry> {
        let bytes = bytes.get(..self.needed)?;
        match bytes.first_chunk() {
            Some(entry) if self.standard_end => self.standard_freed(entry),
            _ => self.any_freed(bytes),
        }
    }

    #[inline]
    fn standard_freed(&self, entry: &[u8; HISTORY_WORDS * 8]) -> Option<FreedEntry> {
        let (words, _) = entry.as_chunks::<8>();
        let [end, by, time, wide] = std::array::from_fn(|word| u64::from_le_bytes(words[RECORD_WORDS + word]));
        let number = (end & mask(48)).checked_sub(1)?;
        let block = self.with_wide(self.entry(entry)?, wide);
        Some(FreedEntry {
            block,
            number,
            later: if self.freed_later.is_some() { (by >> 38) as u32 } else { 0 },
            by: Kind::ended_by((by >> 32 & 63) as u8),
            site: by as u32,
            thread: Some((end >> 48) as u32).filter(|row| *row != THREAD_OTHER),
            time: Some(time & mask(44)),
        })
    }

    /// The block with the one figure for which a history entry has room.
    #[inline]
    fn with_wide(&self, mut block: Entry, wide: u64) -> Entry {
        if wide != 0 {
            if block.size.is_none() {
                block.size = Some(wide);
            } else if block.actual.is_none() && self.excess.is_some() {
                block.actual = Some(wide);
            }
        }
        block
    }

    fn any_freed(&self, bytes: &[u8]) -> Option<FreedEntry> {
        let number = self.get(bytes, self.freed_number)?.checked_sub(1)?;
        let block = self.with_wide(self.entry(bytes)?, self.get(bytes, self.freed_wide).unwrap_or(0));
        Some(FreedEntry {
            block,
            number,
            later: self.get(bytes, self.freed_later).unwrap_or(0) as u32,
            by: Kind::ended_by(self.get(bytes, self.freed_by).unwrap_or(0) as u8),
            site: self.get(bytes, self.freed_site).unwrap_or(0) as u32,
            thread: self.unescaped(bytes, self.freed_thread).map(|row| row as u32),
            time: self.get(bytes, self.freed_time),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_format_crate_on_any_bytes() {
        let mut seed = 1u64;
        let mut bytes = [0u8; 64];
        for round in 0..20_000u32 {
            for chunk in bytes.chunks_mut(8) {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let value = match seed >> 61 {
                    0 => 0,
                    1 => u64::MAX,
                    _ => seed ^ seed >> 29,
                };
                chunk.copy_from_slice(&value.to_le_bytes());
            }
            let order = if round % 2 == 0 { ByteOrder::Little } else { ByteOrder::Big };
            let codec = Codec { order, word: WordSize::W64 };
            let layout = layout_64(Options(round % 64));
            let decoder = Decoder::new(&layout, codec, 64);
            assert_eq!(decoder.entry(&bytes), Entry::read(&layout, codec, &bytes));
            assert_eq!(decoder.freed(&bytes), FreedEntry::read(&layout, codec, &bytes));
        }
    }
}
