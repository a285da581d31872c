//! Fields of records at the speed of a table scan.
//!
//! [`RecordLayout::get`] searches its descriptors for every field; over tens of millions of records that
//! search is most of the work. Here the places are looked up once.

use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::layout::{FIELD_PLACES, Field, Figures, RecordLayout, mask};
use heapledger_format::record::{HISTORY_WORDS, Options, RECORD_WORDS, labelled_layout_64};
use heapledger_format::{Entry, FreedEntry, LabelId};

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
    /// By the places of fields.
    fields: [Option<FieldBits>; FIELD_PLACES],
}

/// An element that a decoder reads.
struct Decoded<'d> {
    decoder: &'d Decoder,
    bytes: &'d [u8],
}

impl Figures for Decoded<'_> {
    #[inline]
    fn figure(&self, field: Field) -> Option<u64> {
        self.decoder.get(self.bytes, field)
    }

    #[inline]
    fn all_ones(&self, field: Field) -> Option<u64> {
        self.decoder.at(field).map(|place| place.ones)
    }
}

impl Decoder {
    /// For elements of `element_bytes`; fields that lie beyond count as not recorded.
    pub(crate) fn new(layout: &RecordLayout, codec: Codec, element_bytes: usize) -> Decoder {
        let mut decoder = Decoder::places(layout, codec, element_bytes);
        let whole = Decoder::places(&labelled_layout_64(Options::ALL), codec, element_bytes);
        decoder.standard = codec == Codec { order: ByteOrder::Little, word: WordSize::W64 }
            && element_bytes >= RECORD_WORDS * 8
            && decoder.has_part_of(&whole);
        decoder.standard_end = decoder.standard
            && element_bytes >= HISTORY_WORDS * 8
            && FreedEntry::FIELDS.iter().all(|field| {
                // Earlier recorders do not have it.
                let may_lack = matches!(field, Field::FreedLater | Field::FreedLabel);
                may_lack && !decoder.has(*field) || decoder.at(*field) == whole.at(*field)
            });
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
        let mut fields = [None; FIELD_PLACES];
        for field in Field::ALL {
            fields[field.place()] = place(*field);
        }
        Decoder { codec, needed: element_bytes, standard: false, standard_end: false, fields }
    }

    /// Whether the fields of a record are some of those of `whole`, and those that are always there.
    fn has_part_of(&self, whole: &Decoder) -> bool {
        const ALWAYS: [Field; 4] = [Field::Number, Field::Address, Field::Size, Field::Kind];
        Entry::FIELDS.iter().all(|field| {
            let may_lack = !ALWAYS.contains(field);
            may_lack && !self.has(*field) || self.at(*field) == whole.at(*field)
        })
    }

    /// Where a field lies, if it is recorded.
    #[inline]
    fn at(&self, field: Field) -> Option<FieldBits> {
        self.fields[field.place()]
    }

    #[inline]
    fn has(&self, field: Field) -> bool {
        self.fields[field.place()].is_some()
    }

    #[inline]
    fn get(&self, bytes: &[u8], field: Field) -> Option<u64> {
        let place = self.at(field)?;
        let word = match (self.codec.word, self.codec.order) {
            (WordSize::W64, ByteOrder::Little) => u64::from_le_bytes(*bytes.get(place.word_at..)?.first_chunk()?),
            _ => self.codec.word(bytes, place.word_at),
        };
        Some(word >> place.shift & place.ones)
    }

    /// Whether a field of one bit is recorded, and set.
    #[inline]
    pub(crate) fn flag(&self, bytes: &[u8], field: Field) -> bool {
        self.get(bytes, field) == Some(1)
    }

    /// The commit word of a record; 0 while vacant or being written.
    #[inline]
    pub(crate) fn commit(&self, bytes: &[u8]) -> u64 {
        self.get(bytes, Field::Number).unwrap_or(0)
    }

    /// The commit word of a history entry; 0 while vacant or being written.
    #[inline]
    pub(crate) fn freed_commit(&self, bytes: &[u8]) -> u64 {
        self.get(bytes, Field::FreedNumber).unwrap_or(0)
    }

    /// A record; `None` if vacant or being written.
    #[inline]
    pub(crate) fn entry(&self, bytes: &[u8]) -> Option<Entry> {
        let bytes = bytes.get(..self.needed)?;
        match bytes.first_chunk() {
            Some(record) if self.standard => self.standard_entry(record),
            _ => Entry::of(&Decoded { decoder: self, bytes }),
        }
    }

    #[inline]
    fn standard_entry(&self, record: &[u8; RECORD_WORDS * 8]) -> Option<Entry> {
        let (words, _) = record.as_chunks::<8>();
        let words: [u64; RECORD_WORDS] = std::array::from_fn(|word| u64::from_le_bytes(words[word]));
        Some(Entry::unpack(&words)?.only(|field| self.has(field)))
    }

    /// The same with the label that stands beside it, if labels do.
    #[inline]
    pub(crate) fn labelled(&self, bytes: &[u8], beside: Option<LabelId>) -> Option<Entry> {
        let entry = self.entry(bytes)?;
        Some(Entry { label: beside.unwrap_or(entry.label), ..entry })
    }

    /// Whether a figure of this record is to be found in the `wide` section.
    #[inline]
    pub(crate) fn escaped(&self, entry: &Entry) -> bool {
        entry.size.is_none() && self.has(Field::Size) || entry.actual.is_none() && self.has(Field::Excess)
    }

    /// Whether actual sizes are recorded.
    pub(crate) fn records_actual(&self) -> bool {
        self.has(Field::Excess)
    }

    /// A history entry; `None` if vacant or being written.
    #[inline]
    pub(crate) fn freed(&self, bytes: &[u8]) -> Option<FreedEntry> {
        let bytes = bytes.get(..self.needed)?;
        match bytes.first_chunk() {
            Some(entry) if self.standard_end => self.standard_freed(entry),
            _ => FreedEntry::of(&Decoded { decoder: self, bytes }, || self.entry(bytes)),
        }
    }

    #[inline]
    fn standard_freed(&self, entry: &[u8; HISTORY_WORDS * 8]) -> Option<FreedEntry> {
        let (words, _) = entry.as_chunks::<8>();
        let end = std::array::from_fn(|word| u64::from_le_bytes(words[RECORD_WORDS + word]));
        FreedEntry::unpack_end(end, |field| self.has(field), || self.entry(entry))
    }
}

#[cfg(test)]
mod tests {
    use heapledger_format::record::layout_64;

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
            let options = Options(round % 64);
            let layout = if round & 64 == 0 { layout_64(options) } else { labelled_layout_64(options) };
            let decoder = Decoder::new(&layout, codec, 64);
            assert_eq!(decoder.entry(&bytes), Entry::read(&layout, codec, &bytes));
            assert_eq!(decoder.freed(&bytes), FreedEntry::read(&layout, codec, &bytes));
        }
    }
}
