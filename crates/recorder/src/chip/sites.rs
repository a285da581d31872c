//! Call sites: a trie of (caller's node, return address) that is its own hash table.
//!
//! A node lies where the hash of its contents says, or in one of the next places, and its id is that
//! place: beside the 8 bytes of a node nothing is needed to find it again. Nodes are never removed.
//! A place that was not taken yet names itself as its parent, which no node can: readers see that
//! nothing leads there, and every place can be filled.

use super::ChipLedger;
use super::shape::{Fixed, Shape};
use super::word::Word;
use core::borrow::BorrowMut;
use heapledger_format::section::{pc, site};
use heapledger_format::{Site, TallyCounter};

/// Places that are looked at before a node is given up: long enough to fill a small table to the last place,
/// short enough that a full one costs little each time.
const PROBES_MAX: u32 = 64;

/// Where a search in a table of so many places begins.
#[inline]
fn home(hashed: u32, places: u32) -> u32 {
    (u64::from(hashed.wrapping_mul(0x9E37_79B1)).wrapping_mul(u64::from(places)) >> 32) as u32
}

impl<S: Shape, R: BorrowMut<[S::Word]>> ChipLedger<S, R> {
    pub(super) fn vacate_sites(&mut self) {
        for node in 1..self.places.sites.count {
            self.put(self.node_at(node).wrapping_add(site::PARENT), 4, u64::from(node));
        }
    }

    /// The call site of a stack, innermost frame first; none if there is no room for it.
    pub(super) fn site(&mut self, frames: &[S::Word]) -> Site {
        if !S::HAS_STACKS || frames.is_empty() {
            return Site::NONE;
        }
        let depth = usize::from(self.depth);
        if frames.len() > depth {
            self.add_tally(TallyCounter::StacksCut, 1);
        }
        let mut node = 0;
        for address in frames.iter().take(depth).rev() {
            match self.code(*address).and_then(|code| self.child(node, code)) {
                Some(child) => node = child,
                None => {
                    self.add_tally(TallyCounter::SitesFull, 1);
                    return Site::NONE;
                }
            }
        }
        Site(node)
    }

    /// Where a node lies, in bytes.
    fn node_at(&self, node: u32) -> usize {
        let first = self.places.sites.at.wrapping_mul(S::WORD_BYTES);
        first.wrapping_add((node as usize).wrapping_mul(site::BYTES))
    }

    fn child(&mut self, parent: u32, code: u32) -> Option<u32> {
        // Node 0 stands for no stack.
        let places = self.places.sites.count.wrapping_sub(1);
        let mut place = home(code ^ parent.rotate_left(16), places);
        for _ in 0..PROBES_MAX.min(places) {
            let node = place.wrapping_add(1);
            let at = self.node_at(node);
            let found = self.get(at.wrapping_add(site::PARENT), 4).widen() as u32;
            if found == node {
                self.put(at.wrapping_add(site::CODE), 4, u64::from(code));
                self.put(at.wrapping_add(site::PARENT), 4, u64::from(parent));
                return Some(node);
            }
            if found == parent && self.get(at.wrapping_add(site::CODE), 4).widen() as u32 == code {
                return Some(node);
            }
            place = if node == places { 0 } else { node };
        }
        None
    }

    /// What a node says for a code address: the address itself, or, where it has no room for one, the place of the address in a
    /// table that is its own hash table, too.
    fn code(&mut self, address: S::Word) -> Option<u32> {
        let address = address.widen();
        if !S::HAS_CODES {
            return Some(address as u32);
        }
        if address == 0 || address >> pc::OFFSET_BITS != 0 {
            return None;
        }
        let codes = self.places.codes;
        // Element 0 is unused.
        let places = codes.count.wrapping_sub(1);
        let mut place = home((address ^ address >> 32) as u32, places);
        for _ in 0..PROBES_MAX.min(places) {
            let id = place.wrapping_add(1);
            let at = codes.element(id, 1);
            match self.word(at).widen() {
                0 => self.set_word(at, S::Word::cut(address)),
                found if found == address => {}
                _ => {
                    place = if id == places { 0 } else { id };
                    continue;
                }
            }
            return Some(id);
        }
        None
    }
}
