//! Texts that the program gives: names of marks and windows, keys and values of labels. Each is stored once, as a rule.
//!
//! They share the ledger's strings with what readers cannot do without, paths of modules, and may take half of the room.
#![forbid(unsafe_code)]

use crate::ledger::Ledger;
use crate::private::{Alone, Table};
use core::sync::atomic::{AtomicU64, Ordering};
use heapledger_format::SectionKind;
use heapledger_format::label::TEXT_BYTES_MAX;

/// Texts that are found again. Beyond that one can be stored twice.
const PLACES: usize = 1 << 15;
/// Places that are looked at for one.
const PROBES: usize = 16;
const BYTES_BITS: u32 = 12;
const AT_BITS: u32 = 32;
const _: () = assert!(TEXT_BYTES_MAX < 1 << BYTES_BITS);

/// Where a text lies in the ledger's strings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextAt {
    /// Its first byte.
    pub at: u32,
    /// How many it has.
    pub bytes: u16,
}

/// Which texts are there: in each place 0, or where one lies with a part of its hash.
pub struct Texts {
    places: Table<[AtomicU64; PLACES]>,
}

/// Longer texts are cut, between two characters.
pub fn cut(text: &[u8]) -> &[u8] {
    let most = usize::from(TEXT_BYTES_MAX);
    if text.len() <= most {
        return text;
    }
    let is_start = |end: &usize| text.get(*end).is_some_and(|byte| byte & 0xC0 != 0x80);
    let end = (most.saturating_sub(3)..=most).rev().find(is_start).unwrap_or(most);
    text.get(..end).unwrap_or(&[])
}

/// FNV-1a.
pub(crate) fn hash(text: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let hash = text.iter().fold(0xCBF2_9CE4_8422_2325, step);
    // Its high bits are the good ones.
    hash ^ hash >> 29
}

fn word_of(place: TextAt, hash: u64) -> u64 {
    u64::from(place.at) | u64::from(place.bytes) << AT_BITS | hash >> (AT_BITS + BYTES_BITS) << (AT_BITS + BYTES_BITS)
}

fn place_of(word: u64) -> TextAt {
    TextAt { at: word as u32, bytes: (word >> AT_BITS) as u16 & ((1 << BYTES_BITS) - 1) }
}

impl Texts {
    /// None.
    pub const fn new() -> Texts {
        Texts { places: Table::new() }
    }

    /// Gives the memory beside the ledger back.
    pub(crate) fn unmap(&self, alone: &Alone) {
        self.places.unmap(alone);
    }

    /// Stores a text, [cut], if it is not there. `None`: there is no room.
    pub fn enter(&self, ledger: &Ledger, text: &[u8]) -> Option<TextAt> {
        let text = cut(text);
        if text.is_empty() {
            return Some(TextAt::default());
        }
        let hash = hash(text);
        let Some(places) = self.places.get_or_map() else { return store(ledger, text) };
        let mut stored = None;
        for probe in 0..PROBES {
            let index = (hash as usize).wrapping_add(probe) % PLACES;
            let Some(place) = places.get(index) else { break };
            let mut seen = place.load(Ordering::Acquire);
            if seen == 0 {
                let new = match stored {
                    Some(new) => new,
                    None => *stored.insert(store(ledger, text)?),
                };
                match place.compare_exchange(0, word_of(new, hash), Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return Some(new),
                    Err(other) => seen = other,
                }
            }
            let there = place_of(seen);
            if seen == word_of(there, hash) && holds(ledger, there, text) {
                return Some(there);
            }
        }
        stored.or_else(|| store(ledger, text))
    }
}

impl Default for Texts {
    fn default() -> Self {
        Self::new()
    }
}

fn store(ledger: &Ledger, text: &[u8]) -> Option<TextAt> {
    let strings = ledger.section(SectionKind::Strings);
    if strings.used().saturating_add(text.len() as u64) > strings.capacity() / 2 {
        return None;
    }
    let at = ledger.enter(SectionKind::Strings, text)?;
    Some(TextAt { at: u32::try_from(at).ok()?, bytes: text.len() as u16 })
}

/// Whether this text lies there.
fn holds(ledger: &Ledger, place: TextAt, text: &[u8]) -> bool {
    let strings = ledger.section(SectionKind::Strings);
    let byte = |at: usize| strings.word(at / 8).to_le_bytes().get(at % 8).copied();
    usize::from(place.bytes) == text.len() && (place.at as usize..).zip(text).all(|(at, own)| byte(at) == Some(*own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_two_characters() {
        let most = usize::from(TEXT_BYTES_MAX);
        for spare in 0..4 {
            let mut text = std::vec![b'x'; most - spare];
            text.extend("\u{1F600}\u{1F600}".as_bytes());
            let kept = cut(&text);
            assert!(core::str::from_utf8(kept).is_ok() && kept.len() + 4 > most && kept.len() <= most, "{spare}");
        }
        assert_eq!(cut(&[0xBF; 5000]).len(), most, "what is no text is cut all the same");
        assert_eq!(cut(b"short"), b"short");
    }

    #[test]
    fn a_word_tells_where_a_text_lies() {
        for place in [TextAt { at: 0, bytes: 1 }, TextAt { at: u32::MAX, bytes: TEXT_BYTES_MAX }] {
            for hash in [0, u64::MAX, hash(b"route"), hash(b"")] {
                assert_eq!(place_of(word_of(place, hash)), place);
                assert_ne!(word_of(place, hash), 0);
            }
        }
    }
}
