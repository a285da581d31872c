//! What is looked up for each frame of each stack: maps by a hash of few instructions, and bytes of elements.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use heapledger_format::Header;

/// A map whose keys are a few numbers. The usual hash takes longer than all else that is done with these. Each map has a key of its own, so
/// that nobody can forge a ledger in which all of them come to lie in one place.
pub type QuickMap<K, V> = HashMap<K, V, QuickHash>;

/// The hash of a [`QuickMap`].
#[derive(Clone, Copy, Debug)]
pub struct QuickHash([u64; 2]);

impl Default for QuickHash {
    fn default() -> QuickHash {
        let random = RandomState::new();
        QuickHash([random.hash_one(0), random.hash_one(1) | 1])
    }
}

impl BuildHasher for QuickHash {
    type Hasher = QuickHasher;

    #[inline]
    fn build_hasher(&self) -> QuickHasher {
        let QuickHash([state, factor]) = *self;
        QuickHasher { state, factor }
    }
}

/// See [`QuickHash`].
#[derive(Clone, Copy, Debug)]
pub struct QuickHasher {
    state: u64,
    factor: u64,
}

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            self.write_u64(u64::from_le_bytes(word));
        }
        self.write_u64(bytes.len() as u64);
    }

    /// Both halves of a product depend on all bits of both factors.
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.factor);
        self.state = product as u64 ^ (product >> 64) as u64 ^ self.factor.rotate_left(32);
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        let mut last = *self;
        last.write_u64(0);
        last.state
    }
}

/// Kinds of sections whose elements are known without a search; all that there are yet are among them.
const KINDS: usize = 64;

/// Bytes of the elements of each section, as the header told.
#[derive(Clone, Debug)]
pub(crate) struct ElementSizes([u16; KINDS]);

impl ElementSizes {
    pub(crate) fn of(header: &Header) -> ElementSizes {
        let mut sizes = [0; KINDS];
        // The first of a kind is the one that counts.
        for row in header.sections().iter().rev() {
            if let Some(size) = sizes.get_mut(usize::from(row.kind)) {
                *size = row.element_bytes;
            }
        }
        ElementSizes(sizes)
    }

    /// 0 if there is no such section.
    #[inline]
    pub(crate) fn of_kind(&self, kind: u16, header: &Header) -> usize {
        let known = self.0.get(usize::from(kind)).copied();
        usize::from(known.unwrap_or_else(|| header.section(kind).map_or(0, |section| section.element_bytes)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_that_follow_one_another_come_to_lie_apart() {
        let hash = QuickHash::default();
        for step in [1, 8, 4096, 1 << 32, 1 << 53] {
            // As a table of 2,048 places takes them: by the lower bits.
            let places: HashSet<u64> = (0..1024u64).map(|key| hash.hash_one(key.wrapping_mul(step)) % 2048).collect();
            assert!(places.len() > 700, "{} places for steps of {step}", places.len());
            let tags: HashSet<u64> = (0..1024u64).map(|key| hash.hash_one(key.wrapping_mul(step)) >> 57).collect();
            assert!(tags.len() > 100, "{} tags for steps of {step}", tags.len());
        }
        let texts: HashSet<u64> = (0..1000).map(|number: u64| hash.hash_one(format!("text {number}"))).collect();
        assert_eq!(texts.len(), 1000);
    }

    #[test]
    fn each_map_has_a_key_of_its_own() {
        assert_ne!(QuickHash::default().hash_one(1u32), QuickHash::default().hash_one(1u32));
    }
}
