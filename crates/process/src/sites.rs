//! Call sites: a trie of (caller's node, code address), so that common outer frames are stored once.
//!
//! Nodes and code addresses lie in the ledger, dense and in the order of their ids. Beside them, in private memory, hash tables
//! that lead to ids: see [`segments`](crate::segments). Who only looks begins with the newest segment, which has a quarter of all places.
//!
//! The table of code addresses also holds what unwinding has learnt about them, for all threads.

#![forbid(unsafe_code)]

use crate::ledger::Ledger;
use crate::modules::Modules;
use crate::private::{Alone, Sixteen};
use crate::segments::{NEIGHBOURS, SEGMENTS, Segments};
use core::sync::atomic::{AtomicU64, Ordering};
use heapledger_format::section::{pc, site};
use heapledger_format::{CodeId, SectionKind, Site};
use heapledger_unwind::{Rule, Shape};

const NODE_PLACES: usize = 16;
/// Most bits of a node's id.
const ID_BITS_MAX: u32 = 26;

type Nodes = Segments<Sixteen, 4>;

/// How a node's place is divided in a segment: its id, and above it bits of the key's hash, so that few wrong nodes are looked at.
/// While a segment is being filled ids are small yet, which leaves more bits to the hash. What is left vacant in it is
/// not used by ids that are too large for it; two threads may then give one node two ids, which is harmless.
#[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
const ID_MASKS: [u32; SEGMENTS] = {
    let mut masks = [0; SEGMENTS];
    let mut segment = 0;
    while segment < SEGMENTS {
        let places = Nodes::windows_up_to(segment) * NODE_PLACES as u64;
        // Twice as many ids as there are places up to here.
        let bits = 64 - (2 * places).leading_zeros();
        masks[segment] = (1 << if bits < ID_BITS_MAX { bits } else { ID_BITS_MAX }) - 1;
        segment += 1;
    }
    masks
};

/// A stack, by the site of its innermost frame and by a hash of all of its frames. Where a node lies in the tables follows from the latter, so
/// that the processor loads the nodes of several new frames at once: which node the caller has, it would have to know first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StackPath {
    pub(crate) site: Site,
    pub(crate) hash: u32,
}

impl StackPath {
    /// No frames.
    pub(crate) const ROOT: StackPath = StackPath { site: Site::NONE, hash: 0 };

    /// The hash of the stack with one more frame; its upper half goes into the next one's.
    #[inline(always)]
    fn hash_with(self, code: CodeId) -> u64 {
        mix(u64::from(self.hash) | u64::from(code.0) << 32)
    }
}

const CODE_PLACES: usize = 8;

/// What is known of a code address: the address, its id, its rule. The upper half of the latter two is the generation plus 1 in
/// which they were entered.
type CodePlace = [AtomicU64; 3];

/// The tables.
pub struct Sites {
    nodes: Nodes,
    codes: Segments<[CodePlace; CODE_PLACES], 1>,
}

fn stamp(generation: u32, value: u32) -> u64 {
    u64::from(generation.wrapping_add(1)) << 32 | u64::from(value)
}

/// The value of a word, if it was entered in this generation.
fn read(word: &AtomicU64, generation: u32) -> Option<u32> {
    let value = word.load(Ordering::Acquire);
    (value >> 32 == u64::from(generation.wrapping_add(1))).then_some(value as u32)
}

#[inline(always)]
fn mix(key: u64) -> u64 {
    // Fibonacci hashing; the upper half is used.
    (key ^ key >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Sites {
    /// Empty tables.
    pub const fn new() -> Sites {
        Sites { nodes: Segments::new(), codes: Segments::new() }
    }

    /// Bytes of the hash tables that are present in memory. Asks the kernel.
    pub fn resident_bytes(&self) -> u64 {
        self.nodes.resident_bytes().wrapping_add(self.codes.resident_bytes())
    }

    /// Takes id 0 of both sections out of use.
    pub fn start(&self, ledger: &Ledger) -> bool {
        ledger.lease(SectionKind::Sites, 1) == Some(0) && ledger.lease(SectionKind::Pcs, 1) == Some(0)
    }

    /// Gives the memory of the tables back.
    pub(crate) fn unmap(&self, alone: &Alone) {
        self.nodes.unmap(alone);
        self.codes.unmap(alone);
    }

    #[inline(always)]
    fn node_word(ledger: &Ledger, id: u32) -> &AtomicU64 {
        const { assert!(site::BYTES == 8) };
        let [word] = ledger.section(SectionKind::Sites).element(u64::from(id));
        word
    }

    #[inline(always)]
    fn id_mask(segment: usize) -> u32 {
        ID_MASKS.get(segment).copied().unwrap_or(0)
    }

    /// The stack that a code address makes with its caller's; `None` if a table is full.
    #[inline(always)]
    pub(crate) fn inwards(&self, ledger: &Ledger, outer: StackPath, code: CodeId) -> Option<StackPath> {
        let hash = outer.hash_with(code);
        let (site, _) = self.find_or_make(ledger, (outer.site, code), hash)?;
        Some(StackPath { site, hash: (hash >> 32) as u32 })
    }

    /// Starts to load where a stack with these further frames is looked for. A hint: behind a frame whose id is not known yet (0) it is elsewhere.
    #[inline(always)]
    pub(crate) fn fetch_soon(&self, outer: StackPath, codes: impl Iterator<Item = CodeId>) {
        let count = self.nodes.count();
        let mut hash = outer.hash;
        for code in codes {
            let new = StackPath { site: Site::NONE, hash }.hash_with(code);
            hash = (new >> 32) as u32;
            for back in 1..=2 {
                if let Some(window) = self.nodes.known_window(count.wrapping_sub(back), new, 0) {
                    heapledger_linux::memory::fetch_soon((&raw const *window).cast());
                }
            }
        }
    }

    /// The site of what stands in place of a code address, below its caller's ([`Site::NONE`]: outermost), and whether it was not there
    /// before; `None` if a table is full. Not for code addresses: these are found by the whole [path](StackPath).
    #[inline(always)]
    pub(crate) fn scripted_site(&self, ledger: &Ledger, parent: Site, code: CodeId) -> Option<(Site, bool)> {
        self.find_or_make(ledger, (parent, code), StackPath { site: parent, hash: parent.0 }.hash_with(code))
    }

    #[inline(always)]
    fn find_or_make(&self, ledger: &Ledger, (parent, code): (Site, CodeId), hash: u64) -> Option<(Site, bool)> {
        let key = u64::from(parent.0) | u64::from(code.0) << 32;
        // How many windows of each segment were full: what is not in there now will never be.
        let mut full = [0u8; SEGMENTS];
        for segment in (0..self.nodes.count()).rev() {
            let id_mask = Self::id_mask(segment);
            let mut neighbour = 0;
            while neighbour < NEIGHBOURS {
                let window = self.nodes.known_window(segment, hash, neighbour)?;
                let is_full = Self::is_full(window);
                // A place that is being filled may be missed; then `new_site` finds it.
                let mut candidates = window.alike(hash as u32, !id_mask);
                while let Some(place) = window.next(&mut candidates) {
                    let id = place.load(Ordering::Acquire) & id_mask;
                    if Self::node_word(ledger, id).load(Ordering::Relaxed) == key {
                        return Some((Site(id), false));
                    }
                }
                // Places are taken in their order: if there is room, nothing was put elsewhere.
                if !is_full {
                    break;
                }
                neighbour = neighbour.wrapping_add(1);
            }
            if let Some(full) = full.get_mut(segment) {
                *full = neighbour as u8;
            }
        }
        self.new_site(ledger, key, hash, &full).map(|site| (site, true))
    }

    /// The stack without lines of a script, if it has some.
    pub(crate) fn native(ledger: &Ledger, site: Site) -> Site {
        let node = ledger.section(SectionKind::Sites).word(site.0 as usize);
        let code = ledger.section(SectionKind::Pcs).word((node >> 32) as usize);
        if matches!(pc::Scripted::of(code), Some(pc::Scripted::Stack(_))) { Site(node as u32) } else { site }
    }

    /// The code addresses of a stack as the ledger has them, innermost first.
    pub(crate) fn codes_of<'l>(&self, ledger: &'l Ledger, site: Site) -> impl Iterator<Item = u64> + 'l {
        let (sites, pcs) = (ledger.section(SectionKind::Sites), ledger.section(SectionKind::Pcs));
        let nodes = core::iter::successors(Some(site.0), move |node| Some(sites.word(*node as usize) as u32));
        nodes.take_while(|node| *node != 0).map(move |node| pcs.word((sites.word(node as usize) >> 32) as usize))
    }

    /// Whether no place of a window is vacant. To be asked before the places are looked at.
    #[inline(always)]
    fn is_full(window: &Sixteen) -> bool {
        window.words()[NODE_PLACES - 1].load(Ordering::Acquire) != 0
    }

    #[cold]
    #[inline(never)]
    fn new_site(&self, ledger: &Ledger, key: u64, hash: u64, full: &[u8; SEGMENTS]) -> Option<Site> {
        let mut own = None;
        for (segment, full) in full.iter().enumerate() {
            for neighbour in usize::from(*full)..NEIGHBOURS {
                let window = self.nodes.window(segment, hash, neighbour)?;
                match Self::insert_node(ledger, window, (key, hash), Self::id_mask(segment), &mut own) {
                    Inserted::Id(id) => return Some(Site(id)),
                    Inserted::NoRoomHere => {}
                    Inserted::NoRoom => return None,
                }
            }
        }
        None
    }

    fn insert_node(
        ledger: &Ledger,
        window: &Sixteen,
        (key, hash): (u64, u64),
        id_mask: u32,
        own: &mut Option<u32>,
    ) -> Inserted {
        let tag = hash as u32 & !id_mask;
        for place in window.words() {
            let mut seen = place.load(Ordering::Acquire);
            if seen == 0 {
                let fresh = match *own {
                    Some(id) => id,
                    None => match ledger.lease(SectionKind::Sites, 1).and_then(|id| u32::try_from(id).ok()) {
                        Some(id) if id >> ID_BITS_MAX == 0 => id,
                        _ => return Inserted::NoRoom,
                    },
                };
                *own = Some(fresh);
                if fresh & !id_mask != 0 {
                    return Inserted::NoRoomHere;
                }
                Self::node_word(ledger, fresh).store(key, Ordering::Release);
                match place.compare_exchange(0, tag | fresh, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return Inserted::Id(fresh),
                    Err(other) => seen = other,
                }
            }
            let id = seen & id_mask;
            if seen & !id_mask == tag && Self::node_word(ledger, id).load(Ordering::Acquire) == key {
                // A node made in vain stays behind as an unused child of the root.
                if let Some(unused) = own.filter(|own| *own != id) {
                    Self::node_word(ledger, unused).store(0, Ordering::Release);
                }
                return Inserted::Id(id);
            }
        }
        Inserted::NoRoomHere
    }

    /// What another thread has learnt about a code address in this generation: the rule, and the address's id.
    pub fn recall(&self, address: u64, generation: u32) -> Option<(Rule, CodeId)> {
        for segment in (0..self.codes.count()).rev() {
            'segment: for neighbour in 0..NEIGHBOURS {
                let window = self.codes.known_window(segment, mix(address), neighbour)?;
                for [known, id, rule] in window {
                    match known.load(Ordering::Acquire) {
                        0 => break 'segment,
                        seen if seen == address => {
                            let rule = read(rule, generation)?;
                            let id = read(id, generation).filter(|id| *id != 0)?;
                            return Some((Rule::from_bits(rule), CodeId(id)));
                        }
                        _ => {}
                    }
                }
            }
        }
        None
    }

    /// The id of a code address; with `rule`, that is kept beside it. While another thread is entering the address, a second id
    /// may be made, of which one is used: nobody waits. `None` if a table is full.
    pub fn code(
        &self,
        ledger: &Ledger,
        modules: &Modules,
        address: u64,
        generation: u32,
        rule: Option<Rule>,
    ) -> Option<CodeId> {
        let locate = || modules.locate(ledger, address);
        self.code_of(ledger, modules, address, generation, rule, locate)
    }

    /// The id of what stands in place of a code address.
    pub(crate) fn scripted(&self, ledger: &Ledger, modules: &Modules, what: pc::Scripted) -> Option<CodeId> {
        // No address has its highest bits.
        self.code_of(ledger, modules, what.word(), modules.generation(), None, || what.word())
    }

    /// An element of `pcs` is in the loop of an interpreter.
    pub(crate) fn mark_as_interpreting(ledger: &Ledger, id: CodeId) {
        Self::insert_mark(ledger, pc::Mark::Interprets, id);
    }

    fn code_of(
        &self,
        ledger: &Ledger,
        modules: &Modules,
        address: u64,
        generation: u32,
        rule: Option<Rule>,
        locate: impl Fn() -> u64,
    ) -> Option<CodeId> {
        let hash = mix(address);
        let windows = (0..SEGMENTS).flat_map(|segment| (0..NEIGHBOURS).map(move |neighbour| (segment, neighbour)));
        for (segment, neighbour) in windows {
            let window = self.codes.window(segment, hash, neighbour)?;
            for [known, id_of, rule_of] in window {
                let mut seen = known.load(Ordering::Acquire);
                if seen == 0 {
                    match known.compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire) {
                        Ok(_) => seen = address,
                        Err(other) => seen = other,
                    }
                }
                if seen == address {
                    let mut mark = None;
                    if let Some(rule) = rule {
                        let before = rule_of.swap(stamp(generation, rule.bits()), Ordering::AcqRel);
                        mark = mark_of(rule).filter(|_| before as u32 != rule.bits());
                    }
                    let id = match read(id_of, generation).filter(|id| *id != 0) {
                        Some(id) => CodeId(id),
                        None => Self::insert_code(ledger, modules, id_of, locate(), generation)?,
                    };
                    if let Some(mark) = mark {
                        Self::insert_mark(ledger, mark, id);
                    }
                    return Some(id);
                }
            }
        }
        None
    }

    /// The address is new, or code was unloaded since it was entered, or it is being entered.
    #[cold]
    fn insert_code(
        ledger: &Ledger,
        modules: &Modules,
        id_of: &AtomicU64,
        word: u64,
        generation: u32,
    ) -> Option<CodeId> {
        let before = id_of.load(Ordering::Acquire);
        let known = before as u32;
        let id = if known != 0 && Self::code_word(ledger, known).load(Ordering::Acquire) == word {
            known
        } else {
            let id = ledger.lease(SectionKind::Pcs, 1)? as u32;
            Self::code_word(ledger, id).store(word, Ordering::Release);
            if modules.python.interprets(word) {
                Self::insert_mark(ledger, pc::Mark::Interprets, CodeId(id));
            }
            id
        };
        let (is, after) = (stamp(generation, id), (Ordering::AcqRel, Ordering::Acquire));
        match id_of.compare_exchange(before, is, after.0, after.1) {
            Ok(_) => Some(CodeId(id)),
            // Another thread was faster: one address has one id. Ours stays behind unused.
            Err(_) => Some(read(id_of, generation).filter(|other| *other != 0).map_or(CodeId(id), CodeId)),
        }
    }

    /// Says something of a code address, for readers. Without room for that they miss it.
    #[cold]
    fn insert_mark(ledger: &Ledger, mark: pc::Mark, code: CodeId) {
        if let Some(own) = ledger.lease(SectionKind::Pcs, 1) {
            Self::code_word(ledger, own as u32).store(pc::mark(mark, code.0), Ordering::Release);
        }
    }

    fn code_word(ledger: &Ledger, id: u32) -> &AtomicU64 {
        const { assert!(pc::BYTES == 8) };
        let [word] = ledger.section(SectionKind::Pcs).element(u64::from(id));
        word
    }
}

/// What readers are told of code with such a rule.
fn mark_of(rule: Rule) -> Option<pc::Mark> {
    match rule.shape() {
        Shape::NoTable => Some(pc::Mark::NoTable),
        Shape::Signal { .. } => Some(pc::Mark::SignalFrame),
        _ => None,
    }
}

enum Inserted {
    Id(u32),
    /// The window is full: the next segment has another.
    NoRoomHere,
    /// The ledger is full.
    NoRoom,
}

impl Default for Sites {
    fn default() -> Self {
        Self::new()
    }
}
