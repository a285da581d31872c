//! Call sites: a trie of (caller's node, return address) that is its own hash table.
//!
//! A node lies where the hash of its contents says, or where the next hashes say that are made of that one, and its id is that
//! place: beside the 8 bytes of a node nothing is needed to find it again. Nodes are never removed.
//! A place that was not taken yet is zeros.
//!
//! The last places are a table by themselves, for innermost frames: of a stack that finds no room among the others, these are kept.

use super::ChipLedger;
use super::memory::{Memory, Table, ordered};
use super::shape::{Fixed, Shape};
use super::word::Word;
use heapledger_format::bytes::ByteOrder;
use heapledger_format::section::pc;
use heapledger_format::{Site, TallyCounter};

/// Places that are looked at for all frames of a stack, beside the first one of each, before it is given up and the table is full: enough to fill
/// nine tenths of it, and few enough that there is a longest time for which interrupts are off.
const LOOKS_MAX: u32 = 96;
/// The same once the table is full. What was entered early lies in its first places; of what was entered last, some is not found any more.
const LOOKS_FULL: u32 = 7;
/// Places that are looked at for an innermost frame by itself.
const LOOKS_APART: u32 = 4;
/// And for a code address, where these have a table.
const LOOKS_CODES: u32 = 48;

const GOLDEN: u32 = 0x9E37_79B1;

#[inline(always)]
fn hash(code: u32, parent: u32) -> u32 {
    parent.wrapping_mul(GOLDEN).wrapping_add(code).wrapping_mul(GOLDEN)
}

/// What says where to look next.
#[inline(always)]
fn next(hash: u32) -> u32 {
    hash.wrapping_add(1).wrapping_mul(GOLDEN)
}

/// The place that a hash says, of so many.
#[inline(always)]
fn place(hash: u32, places: u32) -> u32 {
    (u64::from(hash).wrapping_mul(u64::from(places)) >> 32) as u32
}

impl<S: Shape, R: Memory<S::Word>> ChipLedger<S, R> {
    /// Element 0 of the codes is unused.
    const CODES: u32 = S::CODES.count.saturating_sub(1);

    #[inline(always)]
    fn nodes() -> Table {
        let words = S::SITE_BYTES.wrapping_shr(S::WORD_BYTES.trailing_zeros());
        Table { at: S::room().sites_at as usize, words, count: S::room().sites }
    }

    /// The same from node 1 on: node 0 stands for no stack.
    #[inline(always)]
    fn places() -> Table {
        let Table { at, words, count } = Self::nodes();
        Table { at: at.wrapping_add(words), words, count: count.wrapping_sub(1) }
    }

    /// The call site of a stack, innermost frame first; of one without room, that of its innermost frame.
    #[inline(always)]
    pub(super) fn site(&mut self, frames: &[S::Word]) -> Site {
        if !S::HAS_STACKS {
            return Site::NONE;
        }
        let depth = usize::from(S::CONFIG.depth);
        let kept = match frames.get(..depth) {
            Some(kept) if frames.len() > depth => {
                self.count(TallyCounter::StacksCut);
                kept
            }
            _ => frames,
        };
        self.node_of(kept)
    }

    /// The node of the innermost of these frames, if there is room for all of them; else that of the innermost alone.
    #[inline(never)]
    fn node_of(&mut self, frames: &[S::Word]) -> Site {
        let is_full = self.word(S::NOTES.sites_full) != S::Word::ZERO;
        let (mut node, mut looks) = (0u32, if is_full { LOOKS_FULL } else { LOOKS_MAX });
        for address in frames.iter().rev() {
            node = match self.code(*address) {
                Some(code) => self.child(node, code, &mut looks),
                None => 0,
            };
            if node == 0 {
                return self.innermost(frames);
            }
        }
        Site(node)
    }

    /// There is no room for all of a stack: its innermost frame is kept.
    #[cold]
    #[inline(always)]
    fn innermost(&mut self, frames: &[S::Word]) -> Site {
        let code = frames.first().and_then(|address| self.code(*address));
        let site = code.map_or(Site::NONE, |code| self.apart(code));
        // (Of one frame it is the whole stack.)
        if frames.len() != 1 || site == Site::NONE {
            self.count(TallyCounter::SitesFull);
            S::sites_full();
        }
        site
    }

    /// The node of an innermost frame among the places that others do not take: as few are looked at as for entering it, so that it is always found again.
    #[inline(always)]
    fn apart(&mut self, code: u32) -> Site {
        let before = S::room().places;
        let apart = S::room().sites.wrapping_sub(1).wrapping_sub(before);
        let mut hash = hash(code, 0);
        for _ in 0..LOOKS_APART {
            let id = place(hash, apart).wrapping_add(before).wrapping_add(1);
            if id >= S::room().sites {
                break;
            }
            let (_, found) = self.node(id);
            if found == 0 {
                self.set_node(id, 0, code);
            }
            if found == 0 || found == code {
                return Site(id);
            }
            hash = next(hash);
        }
        Site::NONE
    }

    /// A node's parent and code; both 0: nobody has taken the place.
    #[inline(always)]
    pub(super) fn node(&self, node: u32) -> (u32, u32) {
        self.node_in(Self::nodes(), node)
    }

    /// That of a table.
    #[inline(always)]
    fn node_in(&self, nodes: Table, nth: u32) -> (u32, u32) {
        match self.region.element(nodes, nth) {
            [parent, code] => (ordered::<S>(*parent).widen() as u32, ordered::<S>(*code).widen() as u32),
            // Both in one word.
            [word] => {
                let word = ordered::<S>(*word).widen();
                let halves = (word as u32, (word >> 32) as u32);
                if matches!(S::ORDER, ByteOrder::Little) { halves } else { (halves.1, halves.0) }
            }
            _ => (0, 0),
        }
    }

    #[inline(always)]
    fn set_node(&mut self, node: u32, parent: u32, code: u32) {
        let (parent, code) = (u64::from(parent), u64::from(code));
        match self.region.element_mut(Self::nodes(), node) {
            [first, second] => {
                *first = ordered::<S>(S::Word::cut(parent));
                *second = ordered::<S>(S::Word::cut(code));
            }
            [word] => {
                let little = matches!(S::ORDER, ByteOrder::Little);
                *word = ordered::<S>(S::Word::cut(if little { code << 32 | parent } else { parent << 32 | code }));
            }
            _ => {}
        }
    }

    /// The node of a frame below its caller's; a new one, if there is room; else 0. So many more places than its first one may be looked at.
    #[inline(always)]
    fn child(&mut self, parent: u32, code: u32, looks: &mut u32) -> u32 {
        let mut hash = hash(code, parent);
        loop {
            let place = place(hash, S::room().places);
            let id = place.wrapping_add(1);
            let found = self.node_in(Self::places(), place);
            if found.1 == code {
                if found.0 == parent {
                    return id;
                }
            } else if found.1 == 0 {
                // (No code is 0.)
                self.set_node(id, parent, code);
                return id;
            }
            let Some(left) = looks.checked_sub(1) else {
                self.set_word(S::NOTES.sites_full, S::Word::cut(1));
                return 0;
            };
            *looks = left;
            hash = next(hash);
        }
    }

    /// What a node says for a code address: the address itself, or, where it has no room for one, the place of the address in a
    /// table that is its own hash table, too. `None` for 0, which is nobody's.
    #[inline(always)]
    fn code(&mut self, address: S::Word) -> Option<u32> {
        let address = address.widen();
        if !S::HAS_CODES {
            return if address == 0 { None } else { Some(address as u32) };
        }
        self.wide_code(address)
    }

    #[inline(never)]
    fn wide_code(&mut self, address: u64) -> Option<u32> {
        if address == 0 || address >> pc::OFFSET_BITS != 0 {
            return None;
        }
        let mut hash = hash(address as u32, (address >> 32) as u32);
        for _ in 0..LOOKS_CODES {
            let id = place(hash, Self::CODES).wrapping_add(1);
            let at = S::CODES.at.wrapping_add(id as usize);
            match self.word(at).widen() {
                0 => self.set_word(at, S::Word::cut(address)),
                found if found == address => {}
                _ => {
                    hash = next(hash);
                    continue;
                }
            }
            return Some(id);
        }
        None
    }
}
