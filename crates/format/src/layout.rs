//! Where in an element which field lies.
//!
//! An element is a row of words of the ledger's word size. A field lies within one word; its place
//! is counted in bits from the least significant bit of word 0, so it does not depend on byte order.
//! A field that is not described is not recorded.

use crate::bytes::{Codec, WordSize};

macro_rules! fields {
    ($($(#[$doc:meta])* $id:ident = $number:literal;)*) => {
        /// A field of a record or of a history entry.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Field { $($(#[$doc])* $id = $number),* }
        impl Field {
            /// All fields that this version knows.
            pub const ALL: &'static [Field] = &[$(Field::$id),*];
            /// The field of this number.
            pub const fn from_number(number: u8) -> Option<Field> {
                match number { $($number => Some(Field::$id),)* _ => None }
            }
        }
    };
}

fields! {
    /// The commit word: sequence number of the allocation plus 1, 0 while vacant or being written.
    Number = 1;
    /// What the allocation function returned.
    Address = 2;
    /// Bytes asked for. All ones: see the `wide` section.
    Size = 3;
    /// Actual bytes minus bytes asked for. All ones: see the `wide` section.
    Excess = 4;
    /// The allocation function, see [`crate::Kind`].
    Kind = 5;
    /// Call site: an id in the `sites` section, 0 if none.
    Site = 6;
    /// Row in the `threads` section. All ones: a thread without a row.
    Thread = 7;
    /// Row in the `heaps` section.
    Heap = 8;
    /// Ticks since the ledger began. All ones: at least that much.
    Time = 9;
    /// Label of the block, a row of `labels`, where records have room for it. Else see the section `label_column`.
    Label = 10;
    /// Reserved: how many blocks this sampled one stands for.
    Weight = 11;
    /// Not written: which mark a block came after is told by its number.
    Mark = 12;
    /// The processor's core that the allocation ran on.
    Core = 13;
    /// The counter of that core, as it was read: it wraps, and cores have counters of their own.
    Cycles = 14;
    /// History: commit word, sequence number of the free plus 1.
    FreedNumber = 64;
    /// History: the function that freed.
    FreedBy = 65;
    /// History: call site of the free.
    FreedSite = 66;
    /// History: thread that freed.
    FreedThread = 67;
    /// History: when it was freed, in ticks.
    FreedTime = 68;
    /// History: what the `wide` section said of the block: the size if `Size` is all ones, else the actual size.
    FreedWide = 69;
    /// History: by how much the number of the block that a `realloc` gave is higher than that of the free, mostly 0.
    FreedLater = 70;
    /// History: label of the block, where field `Label` is not recorded. All ones: it had one, whose number is too high.
    FreedLabel = 71;
    /// History: the core that freed.
    FreedCore = 72;
    /// History: the counter of that core.
    FreedCycles = 73;
    /// History: 1 if the free was the very next event of the thread that had allocated.
    FreedNext = 74;
    /// History: 1 if the entry is in the section `sums` already.
    FreedSummed = 75;
}

impl Field {
    /// A number below [`FIELD_PLACES`] of its own, for tables by field.
    pub const fn place(self) -> usize {
        let number = self as usize;
        number & 31 | number >> 1 & 32
    }
}

/// Fields of records have numbers below 32, those of history entries from 64 to 95.
pub const FIELD_PLACES: usize = 64;

/// Where the figures of an element come from: a layout, or places that were looked up before.
pub trait Figures {
    /// A field as it lies there; `None` if it is not recorded.
    fn figure(&self, field: Field) -> Option<u64>;
    /// The highest value that it can hold.
    fn all_ones(&self, field: Field) -> Option<u64>;
    /// A field that is not all ones.
    #[inline]
    fn unescaped(&self, field: Field) -> Option<u64> {
        self.figure(field).filter(|value| self.all_ones(field) != Some(*value))
    }
}

/// An element and what says where its fields lie.
struct Element<'e> {
    layout: &'e RecordLayout,
    codec: Codec,
    bytes: &'e [u8],
}

impl Figures for Element<'_> {
    fn figure(&self, field: Field) -> Option<u64> {
        self.layout.get(self.codec, self.bytes, field)
    }

    fn all_ones(&self, field: Field) -> Option<u64> {
        self.layout.all_ones(field)
    }
}

/// First number of the fields that only a history entry has.
pub const FIRST_HISTORY_FIELD: u8 = 64;

/// The place of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Number of the field; unknown ones are kept and ignored.
    pub field: u8,
    /// Width in bits, 1 to 64.
    pub width_bits: u8,
    /// Place of the lowest bit, counted from bit 0 of word 0.
    pub at_bit: u16,
}

/// Bytes of a descriptor in the header.
pub const DESCRIPTOR_BYTES: usize = 4;
/// Most descriptors that a header may have.
pub const MAX_DESCRIPTORS: usize = 40;

/// The fields of a ledger's records and history entries.
#[derive(Clone, Copy, Debug)]
pub struct RecordLayout {
    descriptors: [Descriptor; MAX_DESCRIPTORS],
    count: usize,
    word: WordSize,
}

const VACANT: Descriptor = Descriptor { field: 0, width_bits: 0, at_bit: 0 };

impl RecordLayout {
    /// A layout without fields.
    pub const fn empty(word: WordSize) -> Self {
        RecordLayout { descriptors: [VACANT; MAX_DESCRIPTORS], count: 0, word }
    }

    /// Adds a field. `None` if it crosses a word, has no width, or there is no room.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "compared with the end above; a constant function has no `get_mut`")]
    pub const fn with(mut self, field: u8, width_bits: u8, at_bit: u16) -> Option<Self> {
        let word_bits = self.word.bits();
        let in_word = self.in_word(at_bit);
        if self.count >= MAX_DESCRIPTORS || width_bits == 0 || in_word.saturating_add(width_bits as usize) > word_bits {
            return None;
        }
        self.descriptors[self.count] = Descriptor { field, width_bits, at_bit };
        self.count = self.count.saturating_add(1);
        Some(self)
    }

    /// The descriptors, in the order of the header.
    pub fn descriptors(&self) -> &[Descriptor] {
        self.descriptors.get(..self.count).unwrap_or(&[])
    }

    /// Where `field` lies, if it is recorded.
    pub fn find(&self, field: Field) -> Option<Descriptor> {
        self.descriptors().iter().copied().find(|d| d.field == field as u8)
    }

    /// Whether `field` is recorded.
    pub fn has(&self, field: Field) -> bool {
        self.find(field).is_some()
    }

    /// The highest value that `field` can hold; it is the escape of the fields that have one.
    pub fn all_ones(&self, field: Field) -> Option<u64> {
        self.find(field).map(|d| mask(d.width_bits))
    }

    /// The value of `field` in the element `bytes`, or `None` if it is not recorded there.
    pub fn get(&self, codec: Codec, bytes: &[u8], field: Field) -> Option<u64> {
        let d = self.find(field)?;
        let (word_at, shift) = self.place(d);
        (word_at.saturating_add(self.word.bytes()) <= bytes.len())
            .then(|| codec.word(bytes, word_at) >> shift & mask(d.width_bits))
    }

    /// The figures of the element `bytes`.
    pub fn figures<'e>(&'e self, codec: Codec, bytes: &'e [u8]) -> impl Figures + 'e {
        Element { layout: self, codec, bytes }
    }

    /// Writes `field`, saturating at all ones. Returns false if it is not part of the layout, or the element too short.
    pub fn put(&self, codec: Codec, bytes: &mut [u8], field: Field, value: u64) -> bool {
        let Some(d) = self.find(field) else { return false };
        let (word_at, shift) = self.place(d);
        let limit = mask(d.width_bits);
        let old = codec.word(bytes, word_at);
        let new = old & !(limit << shift) | value.min(limit) << shift;
        codec.put(bytes, word_at, self.word.bytes(), new)
    }

    /// Which bit of its word that is; a word has a power of two of them.
    const fn in_word(&self, at_bit: u16) -> usize {
        at_bit as usize & self.word.bits().wrapping_sub(1)
    }

    fn place(&self, d: Descriptor) -> (usize, u32) {
        let word = usize::from(d.at_bit) >> self.word.bits().trailing_zeros();
        (word.saturating_mul(self.word.bytes()), self.in_word(d.at_bit) as u32)
    }
}

/// The lowest `width_bits` bits.
#[inline(always)]
pub const fn mask(width_bits: u8) -> u64 {
    match u64::MAX.checked_shl(width_bits as u32) {
        Some(above) => !above,
        None => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::ByteOrder;

    #[test]
    fn a_field_reads_back_in_every_order_and_word_size() {
        for word in [WordSize::W32, WordSize::W64] {
            for order in [ByteOrder::Little, ByteOrder::Big] {
                let codec = Codec { order, word };
                let layout = RecordLayout::empty(word).with(3, 20, 32).and_then(|l| l.with(5, 6, 52)).expect("fits");
                let mut element = [0u8; 16];
                assert!(layout.put(codec, &mut element, Field::Size, 0xF_FFFE));
                assert!(layout.put(codec, &mut element, Field::Kind, 63));
                assert_eq!(layout.get(codec, &element, Field::Size), Some(0xF_FFFE));
                assert_eq!(layout.get(codec, &element, Field::Kind), Some(63));
                assert!(layout.put(codec, &mut element, Field::Size, u64::MAX), "saturates");
                assert_eq!(layout.get(codec, &element, Field::Size), Some(0xF_FFFF));
                assert_eq!(layout.get(codec, &element, Field::Kind), Some(63), "neighbours stay");
                assert_eq!(layout.get(codec, &element, Field::Time), None);
                assert_eq!(layout.get(codec, &element[..4], Field::Size), None, "a short element is absent");
            }
        }
    }

    #[test]
    fn every_field_has_a_place_of_its_own() {
        let mut taken = [false; FIELD_PLACES];
        for field in Field::ALL {
            let number = *field as u8;
            assert!(number < 32 || (64..96).contains(&number), "{field:?} has no place in tables by field");
            assert!(!std::mem::replace(&mut taken[field.place()], true), "{field:?}");
        }
    }

    #[test]
    fn a_field_may_not_cross_a_word() {
        assert!(RecordLayout::empty(WordSize::W32).with(3, 20, 16).is_none());
        assert!(RecordLayout::empty(WordSize::W64).with(3, 20, 16).is_some());
        assert!(RecordLayout::empty(WordSize::W64).with(3, 0, 16).is_none());
    }
}
