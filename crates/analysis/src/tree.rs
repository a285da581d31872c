//! The call tree: what every function holds, with all that it calls.
//!
//! Made in two steps. [`SiteSums`] adds the blocks of a ledger up by call site, so memory is in proportion to the
//! sites; [`TreeBuilder`] lays the named stacks of these sites over each other. Two ledgers laid over each other are a
//! comparison.
//!
//! What the figures are:
//! * *live*: the blocks that live;
//! * *freed*: the freed blocks, at the place that **allocated** them: all of them if the recorder has summed them by call site and all are
//!   asked for together ([`SiteSums::is_whole`]), else those that the history still holds;
//! * *allocated*: both together. [`SiteSums::frees_missing`] says how many freed blocks are in no figure;
//! * *peak*: the blocks that lived when most bytes did; *temporary*: those that were freed at once. Both come from the recorder's sums.

use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::Arc;

mod build;
mod invert;
mod sums;

pub use build::{SameFunction, TreeBuilder};
pub use sums::{SiteSum, SiteSums, Threads};

/// One of the figures of a place in the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Bytes of blocks that live.
    #[default]
    LiveBytes,
    /// Blocks that live.
    LiveBlocks,
    /// Bytes of blocks that live or are in the history.
    AllocatedBytes,
    /// Blocks that live or are in the history.
    AllocatedBlocks,
    /// Bytes of freed blocks in the history.
    FreedBytes,
    /// Freed blocks in the history.
    FreedBlocks,
    /// Bytes of blocks that lived at the peak.
    PeakBytes,
    /// Blocks that lived at the peak.
    PeakBlocks,
    /// Bytes of blocks that were freed by the very next event of the thread that had allocated them.
    TemporaryBytes,
    /// Such blocks.
    TemporaryBlocks,
}

impl Measure {
    /// All of them.
    pub const ALL: [Measure; 10] = [
        Measure::LiveBytes,
        Measure::LiveBlocks,
        Measure::AllocatedBytes,
        Measure::AllocatedBlocks,
        Measure::FreedBytes,
        Measure::FreedBlocks,
        Measure::PeakBytes,
        Measure::PeakBlocks,
        Measure::TemporaryBytes,
        Measure::TemporaryBlocks,
    ];

    /// Whether it counts bytes.
    pub fn is_bytes(self) -> bool {
        matches!(
            self,
            Measure::LiveBytes
                | Measure::AllocatedBytes
                | Measure::FreedBytes
                | Measure::PeakBytes
                | Measure::TemporaryBytes
        )
    }

    /// Whether it tells of freed blocks: of the whole run, or as far as the history still holds them, see [`SiteSums::is_whole`].
    pub fn needs_history(self) -> bool {
        !matches!(self, Measure::LiveBytes | Measure::LiveBlocks)
    }

    /// Whether only sums over the whole run tell of it.
    pub fn needs_sums(self) -> bool {
        self.is_of_peak() || matches!(self, Measure::TemporaryBytes | Measure::TemporaryBlocks)
    }

    /// Whether it is of what lived at the peak.
    pub fn is_of_peak(self) -> bool {
        matches!(self, Measure::PeakBytes | Measure::PeakBlocks)
    }

    /// The same in blocks if it counts bytes, and in bytes if it counts blocks.
    #[must_use]
    pub fn other(self) -> Measure {
        match self {
            Measure::LiveBytes => Measure::LiveBlocks,
            Measure::LiveBlocks => Measure::LiveBytes,
            Measure::AllocatedBytes => Measure::AllocatedBlocks,
            Measure::AllocatedBlocks => Measure::AllocatedBytes,
            Measure::FreedBytes => Measure::FreedBlocks,
            Measure::FreedBlocks => Measure::FreedBytes,
            Measure::PeakBytes => Measure::PeakBlocks,
            Measure::PeakBlocks => Measure::PeakBytes,
            Measure::TemporaryBytes => Measure::TemporaryBlocks,
            Measure::TemporaryBlocks => Measure::TemporaryBytes,
        }
    }
}

/// What a place in the tree holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Bytes of blocks that live.
    pub live_bytes: u64,
    /// Blocks that live.
    pub live_blocks: u64,
    /// Bytes of freed blocks in the history.
    pub freed_bytes: u64,
    /// Freed blocks in the history.
    pub freed_blocks: u64,
    /// Bytes of blocks that lived at the peak.
    pub peak_bytes: u64,
    /// Blocks that lived at the peak.
    pub peak_blocks: u64,
    /// Bytes of those freed blocks that were freed by the very next event of the thread that had allocated them.
    pub temporary_bytes: u64,
    /// Such blocks.
    pub temporary_blocks: u64,
    /// For how many events all blocks together have lived, until they were freed or the ledger ends; 0, unless
    /// [`SiteSums::lifetimes`] are known.
    pub lived_events: u64,
}

impl Amounts {
    /// One of the figures.
    pub fn get(&self, measure: Measure) -> u64 {
        match measure {
            Measure::LiveBytes => self.live_bytes,
            Measure::LiveBlocks => self.live_blocks,
            Measure::AllocatedBytes => self.live_bytes.saturating_add(self.freed_bytes),
            Measure::AllocatedBlocks => self.live_blocks.saturating_add(self.freed_blocks),
            Measure::FreedBytes => self.freed_bytes,
            Measure::FreedBlocks => self.freed_blocks,
            Measure::PeakBytes => self.peak_bytes,
            Measure::PeakBlocks => self.peak_blocks,
            Measure::TemporaryBytes => self.temporary_bytes,
            Measure::TemporaryBlocks => self.temporary_blocks,
        }
    }

    /// Whether there is nothing.
    pub fn is_zero(&self) -> bool {
        *self == Amounts::default()
    }

    /// How much this counts where the greatest part is looked for: live and freed, and blocks of no bytes too.
    fn weight(&self) -> u64 {
        self.get(Measure::AllocatedBytes).saturating_add(self.get(Measure::AllocatedBlocks))
    }
}

impl AddAssign for Amounts {
    fn add_assign(&mut self, other: Amounts) {
        self.live_bytes = self.live_bytes.saturating_add(other.live_bytes);
        self.live_blocks = self.live_blocks.saturating_add(other.live_blocks);
        self.freed_bytes = self.freed_bytes.saturating_add(other.freed_bytes);
        self.freed_blocks = self.freed_blocks.saturating_add(other.freed_blocks);
        self.peak_bytes = self.peak_bytes.saturating_add(other.peak_bytes);
        self.peak_blocks = self.peak_blocks.saturating_add(other.peak_blocks);
        self.temporary_bytes = self.temporary_bytes.saturating_add(other.temporary_bytes);
        self.temporary_blocks = self.temporary_blocks.saturating_add(other.temporary_blocks);
        self.lived_events = self.lived_events.saturating_add(other.lived_events);
    }
}

/// Which ledger of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The ledger, or the newer one of two.
    New = 0,
    /// The older one.
    Old = 1,
}

/// What a level of the tree stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LevelKind {
    /// A function whose name is known.
    #[default]
    Function,
    /// Code without a name: an address in a module.
    Address,
    /// A thread.
    Thread,
    /// A process of a session, or a program of which there were several.
    Process,
    /// Blocks whose stack was not recorded, or all of whose functions are hidden.
    NoStack,
}

/// A function, or what stands in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Level {
    /// What it is.
    pub kind: LevelKind,
    /// What it is called.
    pub name: Arc<str>,
    /// The module's path; `None` in a comparison, where the two need not be the same.
    pub module: Option<Arc<str>>,
}

/// What the name of a level ends in whose callers were guessed.
const GUESSED: &str = " (callers guessed)";

impl Level {
    /// Its name without a word on its callers.
    pub fn plain_name(&self) -> &str {
        self.name.strip_suffix(GUESSED).unwrap_or(&self.name)
    }

    /// Whether its callers were found along frame pointers: they are not sure, and some may be missing.
    pub fn guesses_callers(&self) -> bool {
        self.name.ends_with(GUESSED)
    }
}

/// A place in the tree: a function as called by its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeNode {
    /// The node above; the root is its own.
    pub parent: u32,
    /// Index into [`CallTree::levels`].
    pub level: u32,
    /// How many nodes are above, the root not counted: 1 for those below the root.
    pub depth: u32,
    /// Index into [`CallTree::files`].
    pub file: Option<u32>,
    /// The line in it that most is allocated through; `None` if not known.
    pub line: Option<u32>,
    /// Whether there are other lines too.
    pub several_lines: bool,
    /// Whether the compiler put this function into its caller.
    pub inlined: bool,
    /// What stacks that end here hold, by [`Side`].
    pub own: [Amounts; 2],
    /// That and what is below, by [`Side`].
    pub total: [Amounts; 2],
}

impl TreeNode {
    /// The figure of one ledger, or of the newer one.
    pub fn value(&self, measure: Measure) -> u64 {
        self.total[0].get(measure)
    }
}

/// What the first levels of the tree of a session are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessLevel {
    /// A process each.
    Process,
    /// A program each, with all processes that ran it.
    Program,
}

impl ProcessLevel {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ProcessLevel::Process => "process",
            ProcessLevel::Program => "program",
        }
    }
}

/// A tree of calls. The root is node 0 and stands for everything; parents come before their children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTree {
    /// The functions that occur.
    pub levels: Vec<Level>,
    /// The source files that occur.
    pub files: Vec<Arc<str>>,
    /// The nodes.
    pub nodes: Vec<TreeNode>,
    /// What the first levels are, if they are processes or programs.
    pub processes: Option<ProcessLevel>,
    /// Whether the first levels, or those below processes, are threads.
    pub by_thread: bool,
    /// Whether callers are below what they call.
    pub inverted: bool,
}

impl CallTree {
    /// The root.
    pub fn root(&self) -> TreeNode {
        self.nodes.first().copied().unwrap_or_default()
    }

    /// The function of a node.
    pub fn level(&self, node: &TreeNode) -> &Level {
        &self.levels[node.level as usize]
    }

    /// The file of a node, as the compiler wrote it down.
    pub fn file(&self, node: &TreeNode) -> Option<&Arc<str>> {
        self.files.get(node.file? as usize)
    }

    /// The children of every node, in the order of `rank`, least first.
    pub fn children<K: Ord>(&self, rank: impl Fn(&TreeNode) -> K) -> Children {
        let mut starts = vec![0u32; self.nodes.len() + 1];
        let below = || self.nodes.iter().enumerate().skip(1);
        for (_, node) in below() {
            starts[node.parent as usize + 1] += 1;
        }
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut next = starts.clone();
        let mut ids = vec![0u32; self.nodes.len().saturating_sub(1)];
        for (index, node) in below() {
            let at = &mut next[node.parent as usize];
            ids[*at as usize] = index as u32;
            *at += 1;
        }
        let children = Children { starts, ids };
        Children { ids: self.ranked(&children, rank), ..children }
    }

    fn ranked<K: Ord>(&self, children: &Children, rank: impl Fn(&TreeNode) -> K) -> Vec<u32> {
        let mut ids = children.ids.clone();
        for pair in children.starts.windows(2) {
            if let Some(part) = ids.get_mut(pair[0] as usize..pair[1] as usize) {
                part.sort_by_cached_key(|id| rank(&self.nodes[*id as usize]));
            }
        }
        ids
    }

    /// Whether a node stands above all functions: the root, a process, a thread of the root or of a process.
    pub fn is_top(&self, node: &TreeNode) -> bool {
        matches!(self.level(node).kind, LevelKind::Process | LevelKind::Thread) || node.depth == 0
    }

    /// How many levels stand above all functions, the root not counted.
    pub fn top_levels(&self) -> usize {
        usize::from(self.processes.is_some()) + usize::from(self.by_thread)
    }

    /// Adds `own` up into `total`.
    fn sum(&mut self) {
        for node in &mut self.nodes {
            node.total = node.own;
        }
        for index in (1..self.nodes.len()).rev() {
            let (parent, total) = (self.nodes[index].parent as usize, self.nodes[index].total);
            for (sum, part) in self.nodes[parent].total.iter_mut().zip(total) {
                *sum += part;
            }
        }
    }
}

/// Who is below whom.
#[derive(Clone, Debug)]
pub struct Children {
    starts: Vec<u32>,
    ids: Vec<u32>,
}

impl Children {
    /// The nodes below `node`.
    pub fn of(&self, node: u32) -> &[u32] {
        let end = self.starts.get(node as usize + 1).zip(self.starts.get(node as usize));
        end.and_then(|(end, start)| self.ids.get(*start as usize..*end as usize)).unwrap_or(&[])
    }
}

/// Numbers for things that occur often.
#[derive(Debug)]
struct Interner<T> {
    all: Vec<T>,
    known: HashMap<T, u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Interner { all: Vec::new(), known: HashMap::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Interner<T> {
    fn id(&mut self, thing: &T) -> u32 {
        if let Some(id) = self.known.get(thing) {
            return *id;
        }
        let id = self.all.len() as u32;
        self.all.push(thing.clone());
        self.known.insert(thing.clone(), id);
        id
    }
}
