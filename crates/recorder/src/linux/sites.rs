//! Call sites: a trie of (caller's node, code address), so that common outer frames are stored once.
//!
//! Nodes and code addresses lie in the ledger, dense and in the order of their ids. Beside them,
//! in private memory, hash tables that lead to ids; they grow by whole segments, so that nothing is
//! ever moved and readers need no lock. A key is looked for in a window of neighbouring places of
//! each segment in turn. All threads look at the same places in the same order, so two that enter
//! the same key meet at the same place.

use super::ledger::Ledger;
use super::modules::Modules;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use heapledger_format::SectionKind;
use heapledger_format::section::pc;
use heapledger_linux::syscall;

/// Places of the first segment; each further one has four times as many.
const FIRST_PLACES: usize = 1 << 13;
const SEGMENTS: usize = 9;
const WINDOW: usize = 8;

/// Segments of a table whose places are `PLACE_BYTES` long.
struct Segments<const PLACE_BYTES: usize> {
    bases: [AtomicUsize; SEGMENTS],
}

impl<const PLACE_BYTES: usize> Segments<PLACE_BYTES> {
    const fn new() -> Self {
        Segments { bases: [const { AtomicUsize::new(0) }; SEGMENTS] }
    }

    /// The window of a hash in a segment, which is mapped if it was not.
    fn window(&self, segment: usize, hash: u64, private_bytes: &AtomicU64) -> Option<usize> {
        let place = self.bases.get(segment)?;
        let places = FIRST_PLACES << (segment * 2);
        let mut base = place.load(Ordering::Acquire);
        if base == 0 {
            let fresh = syscall::map_anonymous(places * PLACE_BYTES).ok()? as usize;
            match place.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    private_bytes.fetch_add((places * PLACE_BYTES) as u64, Ordering::Relaxed);
                    base = fresh;
                }
                Err(other) => {
                    // SAFETY: nobody else has seen the fresh memory.
                    unsafe { syscall::unmap(fresh as *mut u8, places * PLACE_BYTES) };
                    base = other;
                }
            }
        }
        let first = (hash >> 32) as usize & (places - 1) & !(WINDOW - 1);
        Some(base + first * PLACE_BYTES)
    }
}

/// The tables.
pub struct Sites {
    nodes: Segments<8>,
    pcs: Segments<16>,
    /// Bytes of the hash tables.
    pub private_bytes: AtomicU64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Id(u32),
    Full,
}

fn mix(key: u64) -> u64 {
    // Fibonacci hashing; the upper half is used.
    (key ^ key >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Sites {
    /// Empty tables.
    pub const fn new() -> Sites {
        Sites { nodes: Segments::new(), pcs: Segments::new(), private_bytes: AtomicU64::new(0) }
    }

    /// Takes id 0 of both sections out of use.
    pub fn start(&self, ledger: &Ledger) -> bool {
        ledger.lease(SectionKind::Sites, 1) == Some(0) && ledger.lease(SectionKind::Pcs, 1) == Some(0)
    }

    /// The node of a code address below its caller's node (0: outermost); `None` if a table is full.
    pub fn node(&self, ledger: &Ledger, modules: &Modules, parent: u32, address: u64) -> Option<u32> {
        let code = self.pc(ledger, modules, address, modules.generation())?;
        self.child(ledger, parent, code)
    }

    fn node_word(ledger: &Ledger, id: u32) -> &AtomicU64 {
        // SAFETY: ids come from leases of the section, so the element is backed; it is one aligned word.
        unsafe { &*ledger.section(SectionKind::Sites).at(u64::from(id)).cast::<AtomicU64>() }
    }

    fn child(&self, ledger: &Ledger, parent: u32, code: u32) -> Option<u32> {
        let key = u64::from(parent) | u64::from(code) << 32;
        let hash = mix(key);
        let mut own = None;
        for segment in 0..SEGMENTS {
            let window = self.nodes.window(segment, hash, &self.private_bytes)?;
            match Self::child_in(ledger, window, key, hash, &mut own) {
                Found::Id(id) => return Some(id),
                Found::Full
                    if ledger.section(SectionKind::Sites).used() == ledger.section(SectionKind::Sites).capacity() =>
                {
                    return None;
                }
                Found::Full => {}
            }
        }
        None
    }

    /// A place holds the id and, above it, 32 bits of the key's hash, so that only the right node is looked at.
    fn child_in(ledger: &Ledger, window: usize, key: u64, hash: u64, own: &mut Option<u32>) -> Found {
        let tag = hash << 32;
        for index in 0..WINDOW {
            // SAFETY: a window of `WINDOW` places inside a mapped segment.
            let place = unsafe { &*((window + index * 8) as *const AtomicU64) };
            let mut seen = place.load(Ordering::Acquire);
            if seen == 0 {
                let fresh = match *own {
                    Some(id) => id,
                    None => match ledger.lease(SectionKind::Sites, 1) {
                        Some(id) => id as u32,
                        None => return Found::Full,
                    },
                };
                *own = Some(fresh);
                Self::node_word(ledger, fresh).store(key, Ordering::Release);
                match place.compare_exchange(0, tag | u64::from(fresh), Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return Found::Id(fresh),
                    Err(other) => seen = other,
                }
            }
            let id = seen as u32;
            if seen ^ tag == u64::from(id) && Self::node_word(ledger, id).load(Ordering::Acquire) == key {
                // A node made in vain stays behind as an unused child of the root.
                if let Some(unused) = own.filter(|own| *own != id) {
                    Self::node_word(ledger, unused).store(0, Ordering::Release);
                }
                return Found::Id(id);
            }
        }
        Found::Full
    }

    /// The id of a code address. While another thread is entering it, a second id is made: two ids
    /// of one address are harmless, waiting is not.
    fn pc(&self, ledger: &Ledger, modules: &Modules, address: u64, generation: u32) -> Option<u32> {
        let hash = mix(address);
        for segment in 0..SEGMENTS {
            let window = self.pcs.window(segment, hash, &self.private_bytes)?;
            for index in 0..WINDOW {
                let at = window + index * 16;
                // SAFETY: a window of `WINDOW` places of two words inside a mapped segment.
                let (key, value) = unsafe { (&*(at as *const AtomicU64), &*((at + 8) as *const AtomicU64)) };
                let mut seen = key.load(Ordering::Acquire);
                if seen == 0 {
                    match key.compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire) {
                        Ok(_) => {
                            let id = Self::new_pc(ledger, modules, address);
                            // 0 stays there if the table is full: nobody finds the address any more.
                            value.store(
                                id.map_or(0, |id| u64::from(generation) << 32 | u64::from(id)),
                                Ordering::Release,
                            );
                            return id;
                        }
                        Err(other) => seen = other,
                    }
                }
                if seen == address {
                    let known = value.load(Ordering::Acquire);
                    if known >> 32 == u64::from(generation) && known as u32 != 0 {
                        return Some(known as u32);
                    }
                    return Self::again(ledger, modules, address, generation, value, known as u32);
                }
            }
        }
        None
    }

    /// Code was unloaded since the address was entered, or it is being entered.
    #[cold]
    fn again(
        ledger: &Ledger,
        modules: &Modules,
        address: u64,
        generation: u32,
        value: &AtomicU64,
        id: u32,
    ) -> Option<u32> {
        let word = modules.locate(ledger, address);
        let id = if id != 0 && Self::pc_word(ledger, id).load(Ordering::Acquire) == word {
            id
        } else {
            Self::enter_pc(ledger, word)?
        };
        value.store(u64::from(generation) << 32 | u64::from(id), Ordering::Release);
        Some(id)
    }

    fn new_pc(ledger: &Ledger, modules: &Modules, address: u64) -> Option<u32> {
        Self::enter_pc(ledger, modules.locate(ledger, address))
    }

    fn enter_pc(ledger: &Ledger, word: u64) -> Option<u32> {
        let id = ledger.lease(SectionKind::Pcs, 1)? as u32;
        Self::pc_word(ledger, id).store(word, Ordering::Release);
        Some(id)
    }

    fn pc_word(ledger: &Ledger, id: u32) -> &AtomicU64 {
        const { assert!(pc::BYTES == 8) };
        // SAFETY: ids come from leases of the section, so the element is backed; it is one aligned word.
        unsafe { &*ledger.section(SectionKind::Pcs).at(u64::from(id)).cast::<AtomicU64>() }
    }
}

impl Default for Sites {
    fn default() -> Self {
        Self::new()
    }
}
