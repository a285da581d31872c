//! Call sites: how many distinct stacks there are, how deep, which hold most, and what the table takes.

use heapledger_format::{FreedEntry, GlobalCounter, SectionKind, Site};
use heapledger_source::{Ledger, SourceError};

use crate::Amount;
use crate::counts::Counts;
use crate::fold::{Act, Fold, fold};

/// Most frames of a stack.
const DEPTH_MAX: u16 = 4096;
/// Most nodes that are looked at: 2 GiB of them. A forged ledger may number its nodes as it likes, and each costs
/// some bits.
const NODES_MAX: usize = 1 << 28;
/// Most nodes whose depth is reckoned, at two bytes each.
const DEPTHS_MAX: usize = 1 << 26;
/// How often the trie is gone through for nodes that lie before their callers.
const PASSES: usize = 8;

/// What one call site holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteTotals {
    /// The site: a whole stack.
    pub site: Site,
    /// Records of it.
    pub samples: u64,
    /// Blocks that live.
    pub blocks: u64,
    /// Bytes asked for.
    pub bytes: u64,
}

impl SiteTotals {
    /// Without the site.
    pub(crate) fn amount(&self) -> Amount {
        Amount { samples: self.samples, blocks: self.blocks, bytes: self.bytes }
    }
}

/// Call sites in all.
///
/// A *distinct stack* is a node of the trie where a live block was allocated, or a freed one of the history
/// allocated or freed, or that is nobody's caller. What that misses are stacks of forgotten blocks that are the
/// beginning of another stack: hardly any, because the innermost frame of a stack returns from the allocation
/// function and that of its continuation from another call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sites {
    /// Distinct stacks that hold live blocks.
    pub live: u64,
    /// Distinct stacks that were seen at all.
    pub distinct: u64,
    /// Nodes of the trie.
    pub nodes: u64,
    /// Code addresses.
    pub codes: u64,
    /// Frames of a distinct stack on the average; `None` if there is none whose frames can be counted.
    pub mean_frames: Option<f64>,
    /// Bytes that nodes and code addresses take in the ledger.
    pub bytes: u64,
    /// Bytes that the ledger had storage for, for them; `None` if not known.
    pub storage_bytes: Option<u64>,
    /// Bytes of the hash tables beside the ledger; `None` if not known.
    pub private_bytes: Option<u64>,
    /// Bytes that they take in the file of a finished ledger, packed.
    pub packed_bytes: Option<u64>,
    /// Those that hold most bytes, most first.
    pub top: Vec<SiteTotals>,
    /// They are those that held most when most bytes lived.
    pub at_peak: bool,
}

impl Sites {
    fn per_stack(&self, bytes: Option<u64>) -> Option<f64> {
        (self.distinct != 0).then_some(bytes? as f64 / self.distinct as f64)
    }

    /// Bytes in the ledger for each distinct stack.
    pub fn bytes_per_stack_ledger(&self) -> Option<f64> {
        self.per_stack(Some(self.bytes))
    }

    /// Bytes of memory for each distinct stack: storage in the ledger, index and table of code addresses.
    pub fn bytes_per_stack_memory(&self) -> Option<f64> {
        self.per_stack(self.private_bytes.map(|private| self.storage_bytes.unwrap_or(self.bytes) + private))
    }

    /// Bytes in the file of a finished ledger for each distinct stack.
    pub fn bytes_per_stack_file(&self) -> Option<f64> {
        self.per_stack(self.packed_bytes)
    }

    /// The call sites of `ledger`, whose records are in `counts`, and how many entries the history has.
    pub(crate) fn of(ledger: &Ledger, counts: &Counts, top: usize) -> Result<(Sites, u64), SourceError> {
        let count = usize::try_from(ledger.count(SectionKind::Sites)?).map_or(NODES_MAX, |count| count.min(NODES_MAX));
        let fresh = || StackEnds { count, ends: NodeSet::default(), entries: 0 };
        let StackEnds { mut ends, entries: history_entries, .. } =
            fold(ledger, None, usize::MAX, &fresh, &mut |_| {})?.sum;
        let used = |(_, sum): &(Site, &Amount)| sum.samples != 0;
        let live = || (0u32..=u32::MAX).map(Site).zip(&counts.sites).skip(1).filter(used);
        live().filter(|(site, _)| site.index() < NODES_MAX).for_each(|(site, _)| ends.set(site.index()));
        let trie = Trie::of(ledger, count)?;
        let (mut distinct, mut known, mut frames) = (0u64, 0u64, 0u64);
        for node in 1..trie.there.end().max(ends.end()) {
            if ends.get(node) || trie.is_end(node) {
                distinct += 1;
                if let Some(depth) = trie.depth(node) {
                    known += 1;
                    frames += u64::from(depth);
                }
            }
        }
        let mut sites: Vec<SiteTotals> = live()
            .map(|(site, sum)| SiteTotals { site, samples: sum.samples, blocks: sum.blocks, bytes: sum.bytes })
            .collect();
        let total = sites.len() as u64;
        let order = |totals: &SiteTotals| (!totals.bytes, !totals.blocks, totals.site);
        if top < sites.len() {
            if top > 0 {
                sites.select_nth_unstable_by_key(top - 1, order);
            }
            sites.truncate(top);
        }
        sites.sort_unstable_by_key(order);
        let mut found = Sites {
            live: total,
            distinct,
            nodes: trie.nodes,
            codes: ledger.count(SectionKind::Pcs)?.saturating_sub(1),
            mean_frames: (known != 0).then(|| frames as f64 / known as f64),
            top: sites,
            ..Sites::default()
        };
        found.measure(ledger)?;
        Ok((found, history_entries))
    }

    /// What the tables take.
    fn measure(&mut self, ledger: &Ledger) -> Result<(), SourceError> {
        let add = |sum: Option<u64>, part: Option<u64>| Some(sum?.saturating_add(part?));
        (self.storage_bytes, self.packed_bytes) = (Some(0), Some(0));
        for kind in [SectionKind::Sites, SectionKind::Pcs] {
            let Some(row) = ledger.header().section(kind) else { continue };
            let bytes = ledger.count(kind)?.saturating_mul(u64::from(row.element_bytes));
            self.bytes = self.bytes.saturating_add(bytes);
            let storage = ledger.section_storage(kind)?;
            self.storage_bytes = add(self.storage_bytes, storage.map(|storage| storage.bytes));
            self.packed_bytes = add(self.packed_bytes, ledger.packed_bytes(kind)?);
        }
        self.private_bytes = Some(ledger.global(GlobalCounter::SitesPrivateBytes)?).filter(|bytes| *bytes != 0);
        Ok(())
    }
}

/// The nodes at which stacks of the history end.
struct StackEnds {
    /// Nodes from here on are not believed.
    count: usize,
    ends: NodeSet,
    entries: u64,
}

impl Fold<FreedEntry> for StackEnds {
    fn add(&mut self, freed: &FreedEntry, _: Act, _: u64) {
        self.entries += 1;
        for site in [freed.block.site, freed.site] {
            if site != Site::NONE && site.index() < self.count {
                self.ends.set(site.index());
            }
        }
    }

    fn join(&mut self, other: Self) {
        self.ends.join(other.ends);
        self.entries += other.entries;
    }
}

/// What is to be known of the trie's nodes.
#[derive(Default)]
struct Trie {
    nodes: u64,
    there: NodeSet,
    callers: NodeSet,
    /// By node; 0: not known.
    depths: Vec<u16>,
}

impl Trie {
    fn of(ledger: &Ledger, count: usize) -> Result<Trie, SourceError> {
        let mut trie = Trie::default();
        ledger.for_each_site(&mut |node, parent| {
            trie.nodes += 1;
            if node.index() < NODES_MAX {
                trie.there.set(node.index());
            }
            if parent != Site::NONE && parent.index() < count {
                trie.callers.set(parent.index());
            }
        })?;
        // A caller is nearly always entered before what it calls, so one pass is enough. Threads that take numbers of
        // nodes in advance can turn that round; a damaged trie can lead in a circle, which gets no depth.
        for _ in 0..PASSES {
            let (mut found, mut left) = (0u64, 0u64);
            ledger.for_each_site(&mut |node, parent| {
                if trie.depth(node.index()).is_some() {
                    return;
                }
                let above = if parent == Site::NONE { Some(0) } else { trie.depth(parent.index()) };
                match above.filter(|depth| *depth < DEPTH_MAX && node.index() < DEPTHS_MAX) {
                    Some(depth) => {
                        found += 1;
                        trie.set_depth(node.index(), depth + 1);
                    }
                    None => left += 1,
                }
            })?;
            if found == 0 || left == 0 {
                break;
            }
        }
        Ok(trie)
    }

    fn is_end(&self, node: usize) -> bool {
        self.there.get(node) && !self.callers.get(node)
    }

    fn depth(&self, node: usize) -> Option<u16> {
        self.depths.get(node).copied().filter(|depth| *depth != 0)
    }

    fn set_depth(&mut self, node: usize, depth: u16) {
        if node >= self.depths.len() {
            self.depths.resize((node + 1).max(self.depths.len() * 2), 0);
        }
        self.depths[node] = depth;
    }
}

/// One bit a node.
#[derive(Default)]
struct NodeSet(Vec<u64>);

impl NodeSet {
    fn set(&mut self, index: usize) {
        if index / 64 >= self.0.len() {
            self.0.resize((index / 64 + 1).max(self.0.len() * 2), 0);
        }
        self.0[index / 64] |= 1 << (index % 64);
    }

    fn join(&mut self, mut other: NodeSet) {
        if other.0.len() > self.0.len() {
            std::mem::swap(self, &mut other);
        }
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own |= other);
    }

    fn get(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// No bit from here on is set.
    fn end(&self) -> usize {
        self.0.len() * 64
    }
}
