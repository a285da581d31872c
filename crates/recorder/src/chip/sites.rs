//! Call sites: a trie of (caller's node, return address) that is its own hash table.
//!
//! A node lies where the hash of its contents says, or in one of the next places, and its id is that
//! place: beside the 8 bytes of a node nothing is needed to find it again. Nodes are never removed.
//! A place that was not taken yet names itself as its parent, which no node can: readers see that
//! nothing leads there, and every place can be filled.

use super::ChipLedger;
use heapledger_format::section::site;
use heapledger_format::{Site, TallyCounter};

/// Places that are looked at before a node is given up: long enough to fill a small table to the last place,
/// short enough that a full one costs little each time.
const PROBES_MAX: u32 = 64;

impl ChipLedger<'_> {
    pub(super) fn vacate_sites(&mut self) {
        for node in 1..self.plan.sites.count {
            self.put(self.plan.sites.element(node) + site::PARENT, 4, u64::from(node));
        }
    }

    /// The call site of a stack, innermost frame first; none if there is no room for it.
    pub(super) fn site(&mut self, frames: &[u32]) -> Site {
        if self.plan.sites.count == 0 || frames.is_empty() {
            return Site::NONE;
        }
        let depth = usize::from(self.plan.depth);
        if frames.len() > depth {
            self.add_tally(TallyCounter::StacksCut, 1);
        }
        let mut node = 0;
        for code in frames.iter().take(depth).rev() {
            match self.child(node, *code) {
                Some(child) => node = child,
                None => {
                    self.add_tally(TallyCounter::SitesFull, 1);
                    return Site::NONE;
                }
            }
        }
        Site(node)
    }

    fn child(&mut self, parent: u32, code: u32) -> Option<u32> {
        let sites = self.plan.sites;
        let hash = (code ^ parent.rotate_left(16)).wrapping_mul(0x9E37_79B1);
        // Node 0 stands for no stack.
        let places = sites.count.wrapping_sub(1);
        let mut place = (u64::from(hash).wrapping_mul(u64::from(places)) >> 32) as u32;
        for _ in 0..PROBES_MAX.min(places) {
            let node = place.wrapping_add(1);
            let at = sites.element(node);
            let found = self.get(at + site::PARENT, 4) as u32;
            if found == node {
                self.put(at.wrapping_add(site::CODE), 4, u64::from(code));
                self.put(at + site::PARENT, 4, u64::from(parent));
                return Some(node);
            }
            if found == parent && self.get(at.wrapping_add(site::CODE), 4) as u32 == code {
                return Some(node);
            }
            place = if node == places { 0 } else { node };
        }
        None
    }
}
