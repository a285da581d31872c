//! Stacks laid over each other by what a format tells of a frame: one that knows no addresses has one stack where the ledger
//! has several.

use std::collections::HashMap;

use heapledger_analysis::tree::Amounts;

use crate::profile::{PlaceLine, Profile, TextId};

/// A tree of frames. Node 0 is the root; parents come before their children.
#[derive(Clone, Debug)]
pub(crate) struct Merged<K> {
    /// By node: its parent.
    pub(crate) parents: Vec<u32>,
    /// By node: what the format tells of its frame.
    pub(crate) frames: Vec<K>,
    /// By node: what stacks that end there hold, by side.
    pub(crate) own: Vec<[Amounts; 2]>,
}

/// One frame of a stack, or the thread that it is of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MergedFrame {
    /// Index into the places, and one of its functions.
    Line(u32, PlaceLine),
    /// What a thread is called.
    Thread(TextId),
}

impl<K: Copy + Eq + std::hash::Hash + Default> Merged<K> {
    /// The stacks of `profile`; `frame` says what is told of a frame. Threads, where they are told apart, are outermost.
    pub(crate) fn new(profile: &Profile, mut frame: impl FnMut(MergedFrame) -> K) -> Merged<K> {
        let mut merged = Merged { parents: vec![0], frames: vec![K::default()], own: vec![Default::default()] };
        let mut below: HashMap<(u32, K), u32> = HashMap::new();
        // By node of the profile and thread: the node here.
        let mut known: HashMap<(u32, TextId), u32> = HashMap::new();
        let mut path: Vec<u32> = Vec::new();
        for stack in &profile.stacks {
            let mut at = stack.node;
            path.clear();
            let mut node = loop {
                if let Some(node) = known.get(&(at, stack.thread)) {
                    break *node;
                }
                if at == 0 {
                    let told = profile.about.by_thread.then(|| frame(MergedFrame::Thread(stack.thread)));
                    let root = told.map_or(0, |told| merged.child(&mut below, 0, told));
                    known.insert((0, stack.thread), root);
                    break root;
                }
                path.push(at);
                at = profile.nodes[at as usize].parent;
            };
            for at in path.iter().rev() {
                let place = profile.nodes[*at as usize].place;
                for line in profile.places[place as usize].lines.iter().rev() {
                    node = merged.child(&mut below, node, frame(MergedFrame::Line(place, *line)));
                }
                known.insert((*at, stack.thread), node);
            }
            for (own, part) in merged.own[node as usize].iter_mut().zip(stack.own) {
                *own += part;
            }
        }
        merged
    }

    fn child(&mut self, below: &mut HashMap<(u32, K), u32>, parent: u32, frame: K) -> u32 {
        let next = self.parents.len() as u32;
        let node = *below.entry((parent, frame)).or_insert(next);
        if node == next {
            self.parents.push(parent);
            self.frames.push(frame);
            self.own.push(Default::default());
        }
        node
    }

    /// The frames of a node, innermost first.
    pub(crate) fn path(&self, node: usize) -> impl Iterator<Item = K> {
        let mut at = node;
        std::iter::from_fn(move || {
            let frame = *self.frames.get(at).filter(|_| at != 0)?;
            at = self.parents[at] as usize;
            Some(frame)
        })
    }

    /// Nodes at which stacks end that hold anything, or held anything in the older ledger.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (usize, &[Amounts; 2])> {
        self.own.iter().enumerate().filter(|(_, own)| own.iter().any(|own| !own.is_zero()))
    }
}
