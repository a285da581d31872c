//! Named stacks, laid over each other.

use std::collections::HashMap;
use std::sync::Arc;

use heapledger_format::{CodeId, ThreadRow};
use heapledger_source::{Ledger, SourceError};

use super::{Amounts, CallTree, GUESSED, Interner, Level, LevelKind, ProcessLevel, Side, SiteSums, TreeNode};
use crate::{Holders, NamedFrame, Names};

/// A place of a frame: node, file and line.
type FramePlace = (u32, Option<u32>, Option<u32>);

/// One code address as called from one node: the nodes of its functions, and what went through it.
#[derive(Debug)]
struct Step {
    /// The innermost node.
    to: u32,
    /// Which of `places` are its own.
    places: std::ops::Range<usize>,
    weight: u64,
}

/// Which functions are one in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameFunction {
    /// Those of one name in one module.
    InModule,
    /// Those of one name: so stacks of several runs and builds can be laid over each other.
    ByName,
}

/// Puts a tree together.
#[derive(Debug)]
pub struct TreeBuilder<'a> {
    same: SameFunction,
    holders: &'a Holders,
    levels: Interner<Level>,
    files: Interner<Arc<str>>,
    nodes: Vec<TreeNode>,
    below: HashMap<(u32, u32), u32>,
    /// Of nodes: whether a frame of theirs was a function of its own.
    real: Vec<bool>,
    places: Vec<FramePlace>,
    weights: HashMap<FramePlace, u64>,
    by_thread: bool,
    /// What the next ledgers are below.
    process: Option<Level>,
    processes: Option<ProcessLevel>,
}

impl<'a> TreeBuilder<'a> {
    /// An empty tree. Functions that cannot hold blocks, by `holders`, are left out; what they would hold counts for their callers.
    /// Of a stack that would be left out as a whole, the innermost function holds, if no pattern hides it.
    pub fn new(same: SameFunction, holders: &'a Holders) -> TreeBuilder<'a> {
        let mut levels = Interner::default();
        let level = levels.id(&Level::default());
        TreeBuilder {
            same,
            holders,
            levels,
            files: Interner::default(),
            nodes: vec![TreeNode { level, ..TreeNode::default() }],
            below: HashMap::new(),
            real: vec![true],
            places: Vec::new(),
            weights: HashMap::new(),
            by_thread: false,
            process: None,
            processes: None,
        }
    }

    /// What is added from now on stands below a process, or a program, of this name.
    pub fn below_process(&mut self, level: ProcessLevel, name: &str) {
        self.processes = Some(level);
        self.process = Some(Level { kind: LevelKind::Process, name: name.into(), module: None });
    }

    /// Adds what `sums` found in `ledger`, whose stacks `names` knows the names of. `thread` says what the thread of
    /// a row is called; it is asked only if threads are told apart.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn add(
        &mut self,
        side: Side,
        ledger: &Ledger,
        sums: &SiteSums,
        names: &mut Names<'_>,
        thread: &dyn Fn(Option<ThreadRow>) -> String,
    ) -> Result<(), SourceError> {
        self.by_thread |= sums.by_thread;
        let mut known: HashMap<(u32, CodeId), usize> = HashMap::new();
        let mut steps: Vec<Step> = Vec::new();
        let process = self.process.take();
        let top = process.as_ref().map_or(0, |level| self.real_child(0, level));
        self.process = process;
        for sum in &sums.sites {
            let mut node = top;
            if sums.by_thread {
                let level = Level { kind: LevelKind::Thread, name: thread(sum.thread).into(), module: None };
                node = self.real_child(node, &level);
            }
            let first = node;
            let stack = ledger.stack(sum.site)?;
            for id in stack.codes.iter().rev() {
                let step = match known.get(&(node, *id)) {
                    Some(step) => *step,
                    None => {
                        let frames = names.frames(*id)?;
                        let guesses = node != first && ledger.code_marks(*id)?.guesses_caller;
                        steps.push(self.step(node, &frames, guesses));
                        known.insert((node, *id), steps.len() - 1);
                        steps.len() - 1
                    }
                };
                steps[step].weight = steps[step].weight.saturating_add(sum.amounts.weight());
                node = steps[step].to;
            }
            if node == first {
                let innermost = stack.codes.first().map(|id| names.frames(*id)).transpose()?;
                let shown = innermost.and_then(|frames| {
                    let levels = frames.iter().map(|frame| self.level(frame));
                    levels.into_iter().find(|level| !self.holders.hides(&level.name))
                });
                // If all are left out, the innermost one holds; but for those that the reader wants to see nowhere.
                let level = shown.unwrap_or_else(|| {
                    let name = if stack.codes.is_empty() { "code without a stack" } else { "hidden functions" };
                    Level { kind: LevelKind::NoStack, name: name.into(), module: None }
                });
                node = self.real_child(node, &level);
            }
            self.nodes[node as usize].own[side as usize] += sum.amounts;
        }
        for step in steps {
            for place in self.places.get(step.places).unwrap_or(&[]) {
                let weight = self.weights.entry(*place).or_default();
                *weight = weight.saturating_add(step.weight);
            }
        }
        self.places.clear();
        Ok(())
    }

    /// The nodes of one address below `node`: what was inlined there is below what it was inlined into.
    fn step(&mut self, node: u32, frames: &[NamedFrame], guesses_caller: bool) -> Step {
        let mut to = node;
        let start = self.places.len();
        let mut outer: Option<Level> = None;
        for frame in frames.iter().rev() {
            let mut level = self.level(frame);
            if !self.holders.holds(frame) || !self.holders.holds_name(&level.name) {
                continue;
            }
            if guesses_caller && !frame.inlined {
                level.name = format!("{}{GUESSED}", level.name).into();
            }
            // Compilers put the greater part of a function into the small rest of it: that is one function, and the
            // line is that of the part.
            if outer.as_ref() == Some(&level) {
                if self.places.len() > start && frame.file.is_some() {
                    self.places.pop();
                }
            } else {
                to = if frame.inlined { self.child(to, &level) } else { self.real_child(to, &level) };
            }
            outer = Some(level);
            let file = frame.file.as_ref().map(|file| self.files.id(file));
            if file.is_some() {
                self.places.push((to, file, frame.line));
            }
        }
        Step { to, places: start..self.places.len(), weight: 0 }
    }

    fn level(&self, frame: &NamedFrame) -> Level {
        let short = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        match (&frame.function, &frame.module) {
            (Some(function), module) => Level {
                kind: LevelKind::Function,
                name: Arc::clone(function),
                module: module.clone().filter(|_| self.same == SameFunction::InModule),
            },
            (None, Some(module)) => Level {
                kind: LevelKind::Address,
                name: format!("{}+{:#x}", short(module), frame.offset.unwrap_or(0)).into(),
                module: Some(Arc::clone(module)).filter(|_| self.same == SameFunction::InModule),
            },
            (None, None) => {
                let name = frame.address.map_or_else(|| "unknown code".to_owned(), |address| format!("{address:#x}"));
                Level { kind: LevelKind::Address, name: name.into(), module: None }
            }
        }
    }

    /// What is no inlined function, in some stack at least.
    fn real_child(&mut self, parent: u32, level: &Level) -> u32 {
        let node = self.child(parent, level);
        self.real[node as usize] = true;
        node
    }

    fn child(&mut self, parent: u32, level: &Level) -> u32 {
        let level = self.levels.id(level);
        let next = self.nodes.len() as u32;
        let node = *self.below.entry((parent, level)).or_insert(next);
        if node == next {
            let depth = self.nodes[parent as usize].depth + 1;
            self.nodes.push(TreeNode { parent, level, depth, ..TreeNode::default() });
            self.real.push(false);
        }
        node
    }

    /// The tree.
    pub fn finish(self) -> CallTree {
        let mut nodes = self.nodes;
        let mut places: Vec<(FramePlace, u64)> = self.weights.into_iter().collect();
        places.sort_unstable();
        // Of each node the place with the greatest weight, the first of several.
        for of_node in places.chunk_by(|one, other| one.0.0 == other.0.0) {
            let heaviest = of_node.iter().rev().max_by_key(|(_, weight)| *weight);
            if let Some(((node, file, line), _)) = heaviest {
                let node = &mut nodes[*node as usize];
                (node.file, node.line, node.several_lines) = (*file, *line, of_node.len() > 1);
            }
        }
        for (node, real) in nodes.iter_mut().zip(&self.real) {
            node.inlined = !real;
        }
        let (levels, files) = (self.levels.all, self.files.all);
        let (processes, by_thread) = (self.processes, self.by_thread);
        let mut tree = CallTree { levels, files, nodes, processes, by_thread, inverted: false };
        tree.sum();
        tree
    }
}

impl CallTree {
    /// The tree without the nodes that `keep` refuses and all below them; what these hold is their caller's own.
    #[must_use]
    pub fn pruned(&self, keep: impl Fn(&TreeNode) -> bool) -> CallTree {
        let mut place: Vec<u32> = Vec::with_capacity(self.nodes.len());
        let mut nodes: Vec<TreeNode> = Vec::new();
        let mut whole: Vec<bool> = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let parent = node.parent as usize;
            let kept = index == 0 || whole[parent] && keep(node);
            whole.push(kept);
            if kept {
                let parent = place.get(parent).copied().unwrap_or(0);
                place.push(nodes.len() as u32);
                nodes.push(TreeNode { parent, ..*node });
            } else {
                let heir = place[parent];
                place.push(heir);
                for (own, part) in nodes[heir as usize].own.iter_mut().zip(node.own) {
                    *own += part;
                }
            }
        }
        CallTree { nodes, ..self.clone_without_nodes() }
    }

    pub(super) fn clone_without_nodes(&self) -> CallTree {
        let (levels, files) = (self.levels.clone(), self.files.clone());
        let CallTree { processes, by_thread, inverted, .. } = *self;
        CallTree { levels, files, nodes: Vec::new(), processes, by_thread, inverted }
    }
}

/// Amounts of both ledgers.
pub(super) type Both = [Amounts; 2];
