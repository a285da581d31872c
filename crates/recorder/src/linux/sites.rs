//! Call sites: a trie of (caller's node, code address), so that common outer frames are stored once.
//!
//! Nodes and code addresses lie in the ledger, dense and in the order of their ids. Beside them,
//! in private memory, hash tables that lead to ids; they grow by whole segments, so that nothing is
//! ever moved and readers need no lock. A key is entered in a window of places (one cache line) of the
//! first segment that has room there. All threads look at the same places in the same order before they
//! enter a key, so two that enter the same key meet at the same place; and from there on, nothing is taken out. Who only
//! looks begins with the newest segment, which has half of all places.
//!
//! The table of code addresses also holds what unwinding has learnt about them, for all threads.

use super::ledger::Ledger;
use super::modules::Modules;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use heapledger_format::SectionKind;
use heapledger_format::section::{pc, site};
use heapledger_linux::syscall;
use heapledger_unwind::Rule;

/// Windows of a segment in which a key may be: its own, and some beside it, which take what finds no room. So segments are filled to
/// two thirds and more before another one is needed.
const NEIGHBOURS: usize = 4;
/// Most segments of a table; each has twice as many places as the one before.
const SEGMENTS: usize = 17;

/// Segments of a table whose windows are of `WINDOW_BYTES`; the first one has `1 << FIRST_BITS` windows.
struct Segments<const WINDOW_BYTES: usize, const FIRST_BITS: u32> {
    bases: [AtomicUsize; SEGMENTS],
    count: AtomicUsize,
}

impl<const WINDOW_BYTES: usize, const FIRST_BITS: u32> Segments<WINDOW_BYTES, FIRST_BITS> {
    const fn new() -> Self {
        Segments { bases: [const { AtomicUsize::new(0) }; SEGMENTS], count: AtomicUsize::new(0) }
    }

    #[inline(always)]
    fn at(base: usize, segment: usize, hash: u64, neighbour: usize) -> usize {
        let windows = 1usize << (FIRST_BITS as usize + segment);
        base + (((hash >> 32) as usize ^ neighbour) & (windows - 1)) * WINDOW_BYTES
    }

    /// How many segments there are.
    #[inline(always)]
    fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// A window of a hash in a segment that is known to be there.
    #[inline(always)]
    fn known_window(&self, segment: usize, hash: u64, neighbour: usize) -> Option<usize> {
        Some(Self::at(self.bases.get(segment)?.load(Ordering::Relaxed), segment, hash, neighbour))
    }

    /// A window of a hash in a segment, which is mapped if it was not.
    fn window(&self, segment: usize, hash: u64, neighbour: usize, private_bytes: &AtomicU64) -> Option<usize> {
        let place = self.bases.get(segment)?;
        let bytes = WINDOW_BYTES << (FIRST_BITS as usize + segment);
        let mut base = place.load(Ordering::Acquire);
        if base == 0 {
            let fresh = syscall::map_anonymous(bytes).ok()? as usize;
            match place.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    private_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                    self.count.fetch_max(segment + 1, Ordering::AcqRel);
                    base = fresh;
                }
                Err(other) => {
                    // SAFETY: nobody else has seen the fresh memory.
                    unsafe { syscall::unmap(fresh as *mut u8, bytes) };
                    base = other;
                }
            }
        }
        Some(Self::at(base, segment, hash, neighbour))
    }
}

const NODE_PLACES: usize = 16;
/// A node's place: its id, and above it some bits of the key's hash, so that few wrong nodes are looked at.
const ID_BITS: u32 = 26;
const ID_MASK: u32 = (1 << ID_BITS) - 1;

const CODE_PLACES: usize = 8;
const CODE_WORDS: usize = 3;

/// The tables.
pub struct Sites {
    nodes: Segments<{ NODE_PLACES * 4 }, 8>,
    codes: Segments<{ CODE_PLACES * CODE_WORDS * 8 }, 6>,
    /// Bytes of the hash tables.
    pub private_bytes: AtomicU64,
}

/// What is known of a code address. The upper half of both values is the generation plus 1 in which they were entered.
struct Code {
    address: &'static AtomicU64,
    id: &'static AtomicU64,
    rule: &'static AtomicU64,
}

impl Code {
    #[inline(always)]
    fn in_window(window: usize, index: usize) -> Code {
        let at = window + index * CODE_WORDS * 8;
        // SAFETY: a window of `CODE_PLACES` places of three words, inside a mapped segment that stays.
        let word = |offset: usize| unsafe { &*((at + offset) as *const AtomicU64) };
        Code { address: word(0), id: word(8), rule: word(16) }
    }

    fn stamp(generation: u32, value: u32) -> u64 {
        u64::from(generation.wrapping_add(1)) << 32 | u64::from(value)
    }

    /// The value of a word, if it was entered in this generation.
    fn read(word: &AtomicU64, generation: u32) -> Option<u32> {
        let value = word.load(Ordering::Acquire);
        (value >> 32 == u64::from(generation.wrapping_add(1))).then_some(value as u32)
    }
}

/// The windows of a key in the order in which they are filled.
fn in_order() -> impl Iterator<Item = (usize, usize)> {
    (0..SEGMENTS).flat_map(|segment| (0..NEIGHBOURS).map(move |neighbour| (segment, neighbour)))
}

#[inline(always)]
fn mix(key: u64) -> u64 {
    // Fibonacci hashing; the upper half is used.
    (key ^ key >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Sites {
    /// Empty tables.
    pub const fn new() -> Sites {
        Sites { nodes: Segments::new(), codes: Segments::new(), private_bytes: AtomicU64::new(0) }
    }

    /// Takes id 0 of both sections out of use.
    pub fn start(&self, ledger: &Ledger) -> bool {
        ledger.lease(SectionKind::Sites, 1) == Some(0) && ledger.lease(SectionKind::Pcs, 1) == Some(0)
    }

    #[inline(always)]
    fn node_word(ledger: &Ledger, id: u32) -> &AtomicU64 {
        // SAFETY: ids come from leases of the section, so the element is backed; it is one aligned word.
        unsafe { &*ledger.section(SectionKind::Sites).at_stride::<{ site::BYTES }>(u64::from(id)).cast::<AtomicU64>() }
    }

    #[inline(always)]
    fn node_place(window: usize, index: usize) -> &'static AtomicU32 {
        // SAFETY: a window of `NODE_PLACES` places inside a mapped segment that stays.
        unsafe { &*((window + index * 4) as *const AtomicU32) }
    }

    #[inline(always)]
    fn tag(hash: u64) -> u32 {
        // Not 0, which vacant places have.
        (hash as u32 & !ID_MASK).max(1 << ID_BITS)
    }

    /// The node of a code address below its caller's node (0: outermost); `None` if a table is full.
    #[inline(always)]
    pub fn node(&self, ledger: &Ledger, parent: u32, code: u32) -> Option<u32> {
        let key = u64::from(parent) | u64::from(code) << 32;
        let hash = mix(key);
        let tag = Self::tag(hash);
        let mut segment = self.nodes.count();
        while segment > 0 {
            segment -= 1;
            let mut neighbour = 0;
            loop {
                let window = self.nodes.known_window(segment, hash, neighbour)?;
                let mut candidates = places_with_tag(window, tag);
                while candidates != 0 {
                    let place = Self::node_place(window, candidates.trailing_zeros() as usize);
                    let id = place.load(Ordering::Acquire) & ID_MASK;
                    if Self::node_word(ledger, id).load(Ordering::Relaxed) == key {
                        return Some(id);
                    }
                    candidates &= candidates - 1;
                }
                // Places are taken in their order: if there is room, nothing was put elsewhere.
                neighbour += 1;
                if neighbour == NEIGHBOURS || Self::node_place(window, NODE_PLACES - 1).load(Ordering::Relaxed) == 0 {
                    break;
                }
            }
        }
        self.new_node(ledger, key, hash)
    }

    #[cold]
    #[inline(never)]
    fn new_node(&self, ledger: &Ledger, key: u64, hash: u64) -> Option<u32> {
        let mut own = None;
        for (segment, neighbour) in in_order() {
            let window = self.nodes.window(segment, hash, neighbour, &self.private_bytes)?;
            match Self::enter_node(ledger, window, key, hash, &mut own) {
                Entered::Id(id) => return Some(id),
                Entered::NoRoomHere => {}
                Entered::NoRoom => return None,
            }
        }
        None
    }

    fn enter_node(ledger: &Ledger, window: usize, key: u64, hash: u64, own: &mut Option<u32>) -> Entered {
        let tag = Self::tag(hash);
        for index in 0..NODE_PLACES {
            let place = Self::node_place(window, index);
            let mut seen = place.load(Ordering::Acquire);
            if seen == 0 {
                let fresh = match *own {
                    Some(id) => id,
                    None => match ledger.lease(SectionKind::Sites, 1).and_then(|id| u32::try_from(id).ok()) {
                        Some(id) if id <= ID_MASK => id,
                        _ => return Entered::NoRoom,
                    },
                };
                *own = Some(fresh);
                Self::node_word(ledger, fresh).store(key, Ordering::Release);
                match place.compare_exchange(0, tag | fresh, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return Entered::Id(fresh),
                    Err(other) => seen = other,
                }
            }
            let id = seen & ID_MASK;
            if seen & !ID_MASK == tag && Self::node_word(ledger, id).load(Ordering::Acquire) == key {
                // A node made in vain stays behind as an unused child of the root.
                if let Some(unused) = own.filter(|own| *own != id) {
                    Self::node_word(ledger, unused).store(0, Ordering::Release);
                }
                return Entered::Id(id);
            }
        }
        Entered::NoRoomHere
    }

    /// What another thread has learnt about a code address in this generation: the rule, and the address's id.
    pub fn recall(&self, address: u64, generation: u32) -> Option<(Rule, u32)> {
        let segments = (0..self.codes.count()).rev();
        for (segment, neighbour) in segments.flat_map(|segment| (0..NEIGHBOURS).map(move |n| (segment, n))) {
            let window = self.codes.known_window(segment, mix(address), neighbour)?;
            for code in (0..CODE_PLACES).map(|index| Code::in_window(window, index)) {
                match code.address.load(Ordering::Acquire) {
                    0 => break,
                    seen if seen == address => {
                        let rule = Code::read(code.rule, generation)?;
                        let id = Code::read(code.id, generation).filter(|id| *id != 0)?;
                        return Some((Rule::from_bits(rule), id));
                    }
                    _ => {}
                }
            }
        }
        None
    }

    /// The id of a code address; with `rule`, that is kept beside it. While another thread is entering the address, a second id
    /// is made: two ids of one address are harmless, waiting is not. `None` if a table is full.
    pub fn code(
        &self,
        ledger: &Ledger,
        modules: &Modules,
        address: u64,
        generation: u32,
        rule: Option<Rule>,
    ) -> Option<u32> {
        let hash = mix(address);
        for (segment, neighbour) in in_order() {
            let window = self.codes.window(segment, hash, neighbour, &self.private_bytes)?;
            for code in (0..CODE_PLACES).map(|index| Code::in_window(window, index)) {
                let mut seen = code.address.load(Ordering::Acquire);
                if seen == 0 {
                    match code.address.compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire) {
                        Ok(_) => seen = address,
                        Err(other) => seen = other,
                    }
                }
                if seen == address {
                    if let Some(rule) = rule {
                        code.rule.store(Code::stamp(generation, rule.bits()), Ordering::Release);
                    }
                    if let Some(id) = Code::read(code.id, generation).filter(|id| *id != 0) {
                        return Some(id);
                    }
                    return Self::enter_code(ledger, modules, &code, address, generation);
                }
            }
        }
        None
    }

    /// The address is new, or code was unloaded since it was entered, or it is being entered.
    #[cold]
    fn enter_code(ledger: &Ledger, modules: &Modules, code: &Code, address: u64, generation: u32) -> Option<u32> {
        let word = modules.locate(ledger, address);
        let known = code.id.load(Ordering::Acquire) as u32;
        let id = if known != 0 && Self::code_word(ledger, known).load(Ordering::Acquire) == word {
            known
        } else {
            let id = ledger.lease(SectionKind::Pcs, 1)? as u32;
            Self::code_word(ledger, id).store(word, Ordering::Release);
            id
        };
        code.id.store(Code::stamp(generation, id), Ordering::Release);
        Some(id)
    }

    fn code_word(ledger: &Ledger, id: u32) -> &AtomicU64 {
        const { assert!(pc::BYTES == 8) };
        // SAFETY: ids come from leases of the section, so the element is backed; it is one aligned word.
        unsafe { &*ledger.section(SectionKind::Pcs).at(u64::from(id)).cast::<AtomicU64>() }
    }
}

/// Which places of a window have this tag, a bit each: all sixteen at once, because a loop over them would be mispredicted
/// nearly every time. A place that is being filled may be missed; then [`Sites::new_node`] finds it.
#[inline(always)]
fn places_with_tag(window: usize, tag: u32) -> u32 {
    let mask: u32;
    // SAFETY: reads the 64 bytes of a window, which lie on one cache line of a mapped segment. In assembly, because other
    // threads may store there meanwhile: every place is a word that is loaded whole.
    unsafe {
        core::arch::asm!(
            "movd {tags}, {tag:e}",
            "pshufd {tags}, {tags}, 0",
            "movd {high}, {high_bits:e}",
            "pshufd {high}, {high}, 0",
            "movdqa {a}, [{window}]",
            "movdqa {b}, [{window} + 16]",
            "movdqa {c}, [{window} + 32]",
            "movdqa {d}, [{window} + 48]",
            "pand {a}, {high}",
            "pand {b}, {high}",
            "pand {c}, {high}",
            "pand {d}, {high}",
            "pcmpeqd {a}, {tags}",
            "pcmpeqd {b}, {tags}",
            "pcmpeqd {c}, {tags}",
            "pcmpeqd {d}, {tags}",
            "packssdw {a}, {b}",
            "packssdw {c}, {d}",
            "packsswb {a}, {c}",
            "pmovmskb {mask:e}, {a}",
            window = in(reg) window,
            tag = in(reg) tag,
            high_bits = in(reg) !ID_MASK,
            mask = lateout(reg) mask,
            tags = out(xmm_reg) _,
            high = out(xmm_reg) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack, preserves_flags, readonly, pure),
        );
    }
    mask
}

enum Entered {
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
