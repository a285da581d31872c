//! Call sites: a trie of (caller's node, return address) that is its own hash table.
//!
//! A node lies where the hash of its contents says, or in one of some places behind it, and its id is that
//! place: beside the 8 bytes of a node nothing is needed to find it again. Nodes are never removed.
//! A place that was not taken yet is zeros.
//!
//! The last sixteenth of the places is for innermost frames alone: of a stack that finds no room, these are kept.

use super::ChipLedger;
use super::memory::{Memory, Table, ordered};
use super::shape::{Fixed, Shape};
use super::word::Word;
use heapledger_format::bytes::ByteOrder;
use heapledger_format::section::pc;
use heapledger_format::{Site, TallyCounter};

/// Places that are looked at before a node is given up: long enough to fill a table to nine tenths,
/// short enough that it costs little.
const PROBES_MAX: u32 = 48;
/// The same once the table is full. What was entered early lies in its first places; of what was entered last, some is not found any more.
const PROBES_FULL: u32 = 6;

/// The largest prime number that is not above another one: in a table of so many places a search comes to each of them, whatever the
/// distance of its steps.
pub(super) const fn prime(most: u32) -> u32 {
    let mut candidate = most;
    while candidate > 3 {
        let mut divisor = 2u32;
        while let (Some(1..), true) = (candidate.checked_rem(divisor), divisor.wrapping_mul(divisor) <= candidate) {
            divisor = divisor.wrapping_add(1);
        }
        if divisor.wrapping_mul(divisor) > candidate {
            return candidate;
        }
        candidate = candidate.wrapping_sub(1);
    }
    candidate
}

/// A search in a table of so many places: where it is, and how far the next place is from there.
#[derive(Clone, Copy)]
struct Search {
    place: u32,
    distance: u32,
}

#[inline(always)]
fn hash(code: u32, parent: u32) -> u32 {
    const GOLDEN: u32 = 0x9E37_79B1;
    parent.wrapping_mul(GOLDEN).wrapping_add(code).wrapping_mul(GOLDEN)
}

/// The place that a hash says, of so many.
#[inline(always)]
fn place(hash: u32, places: u32) -> u32 {
    (u64::from(hash).wrapping_mul(u64::from(places)) >> 32) as u32
}

impl Search {
    #[inline(always)]
    fn new(hash: u32, places: u32, are_many: bool) -> Search {
        let distance = (hash >> 8 & 31).wrapping_add(1);
        Search { place: place(hash, places), distance: if are_many || places > 32 { distance } else { 1 } }
    }

    #[inline(always)]
    fn go_on(&mut self, places: u32) {
        let next = self.place.wrapping_add(self.distance);
        self.place = if next >= places { next.wrapping_sub(places) } else { next };
    }
}

impl<S: Shape, R: Memory<S::Word>> ChipLedger<S, R> {
    /// Element 0 of the codes is unused.
    const CODES: u32 = prime(S::CODES.count.saturating_sub(1));

    #[inline(always)]
    fn nodes() -> Table {
        let words = S::SITE_BYTES.wrapping_shr(S::WORD_BYTES.trailing_zeros());
        Table { at: S::room().sites_at as usize, words, count: S::room().sites }
    }

    /// Nodes in use from which on only innermost frames get new ones.
    #[inline(always)]
    fn common() -> u32 {
        let places = S::room().places;
        places.wrapping_sub((places / 16).max(1))
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
        self.node_of(kept, Self::common())
    }

    /// The node of the innermost of these frames, if there is room for all of them with so many nodes in use; else that of the innermost alone.
    #[inline(never)]
    fn node_of(&mut self, frames: &[S::Word], room: u32) -> Site {
        let mut node = 0u32;
        for address in frames.iter().rev() {
            node = self.child(node, *address, room);
            if node == 0 {
                return self.innermost(frames, room);
            }
        }
        Site(node)
    }

    /// There is no room for all of a stack: its innermost frame is kept.
    #[cold]
    #[inline(never)]
    fn innermost(&mut self, frames: &[S::Word], room: u32) -> Site {
        let places = S::room().places;
        if room == places {
            return Site::NONE;
        }
        self.count(TallyCounter::SitesFull);
        S::sites_full();
        self.node_of(frames.get(..1).unwrap_or(&[]), places)
    }

    /// A node's parent and code; both 0: nobody has taken the place.
    #[inline(always)]
    pub(super) fn node(&self, node: u32) -> (u32, u32) {
        match self.region.element(Self::nodes(), node) {
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

    /// The node of a frame below its caller's; a new one, as long as fewer than so many are in use; else 0.
    #[inline(always)]
    fn child(&mut self, parent: u32, address: S::Word, room: u32) -> u32 {
        let Some(code) = self.code(address) else { return 0 };
        let places = S::room().places;
        let mut search = Search::new(hash(code, parent), places, S::ROOM.is_some());
        let mut id = search.place.wrapping_add(1);
        let mut found = self.node(id);
        if found == (parent, code) {
            return id;
        }
        // Mostly it lies where its hash says. Here it does not.
        let used = self.word(S::NOTES.sites_used);
        let has_room = (used.widen() as u32) < room;
        let mut probes = if has_room { PROBES_MAX } else { PROBES_FULL };
        loop {
            // (No code is 0.)
            if found.1 == 0 {
                if !has_room {
                    return 0;
                }
                self.set_node(id, parent, code);
                self.set_word(S::NOTES.sites_used, used.plus(S::Word::cut(1)));
                return id;
            }
            probes = probes.wrapping_sub(1);
            search.go_on(places);
            id = search.place.wrapping_add(1);
            // (There is each of them, as long as nobody has written over the numbers.)
            if probes == 0 || id >= S::room().sites {
                return 0;
            }
            found = self.node(id);
            if found == (parent, code) {
                return id;
            }
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
        let places = Self::CODES;
        let mut search = Search::new(hash(address as u32, (address >> 32) as u32), places, false);
        for _ in 0..PROBES_MAX {
            let id = search.place.wrapping_add(1);
            let at = S::CODES.at.wrapping_add(id as usize);
            match self.word(at).widen() {
                0 => self.set_word(at, S::Word::cut(address)),
                found if found == address => {}
                _ => {
                    search.go_on(places);
                    continue;
                }
            }
            return Some(id);
        }
        None
    }
}
