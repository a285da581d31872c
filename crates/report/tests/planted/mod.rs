//! Trees made by hand.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::HashMap;

use heapledger_analysis::tree::{Amounts, CallTree, Level, LevelKind, SiteSums, TreeNode};
use heapledger_analysis::{Identity, RunMarks};

/// Bytes of a block.
const BLOCK: u64 = 100;

/// A tree in the making.
#[derive(Debug)]
pub(crate) struct Planted {
    tree: CallTree,
    below: HashMap<(u32, String), u32>,
    lines: HashMap<u32, Vec<u32>>,
}

impl Default for Planted {
    fn default() -> Self {
        let tree = CallTree {
            levels: vec![Level::default()],
            files: Vec::new(),
            nodes: vec![TreeNode::default()],
            processes: None,
            by_thread: false,
            inverted: false,
        };
        Planted { tree, below: HashMap::new(), lines: HashMap::new() }
    }
}

impl Planted {
    /// Adds bytes to a stack of `function:file:line`, outermost first, in blocks of 100 bytes.
    pub(crate) fn stack(&mut self, stack: &str, live_bytes: u64, freed_bytes: u64) -> &mut Self {
        self.both(stack, [[live_bytes, freed_bytes], [0, 0]])
    }

    /// The same for functions of any name, without places.
    pub(crate) fn child_stack(&mut self, stack: &[&str], live_bytes: u64, freed_bytes: u64) {
        let at = stack.iter().fold(0, |at, name| self.child(at, name, None));
        let live_blocks = live_bytes / BLOCK;
        self.tree.nodes[at as usize].own[0] +=
            Amounts { live_bytes, live_blocks, freed_bytes, freed_blocks: freed_bytes / BLOCK, ..Amounts::default() };
    }

    /// The same for two ledgers, the newer one first.
    pub(crate) fn both(&mut self, stack: &str, bytes: [[u64; 2]; 2]) -> &mut Self {
        let mut at = 0;
        for frame in stack.split(';') {
            // `::` is part of a name.
            let parts: Vec<&str> = if frame.contains("::") { vec![frame] } else { frame.splitn(3, ':').collect() };
            at = self.child(at, parts[0], parts.get(1).zip(parts.get(2)));
        }
        for (own, [live_bytes, freed_bytes]) in self.tree.nodes[at as usize].own.iter_mut().zip(bytes) {
            *own += Amounts {
                live_bytes,
                live_blocks: live_bytes / BLOCK,
                freed_bytes,
                freed_blocks: freed_bytes / BLOCK,
                ..Amounts::default()
            };
        }
        self
    }

    fn child(&mut self, parent: u32, name: &str, place: Option<(&&str, &&str)>) -> u32 {
        let tree = &mut self.tree;
        let level = tree.levels.iter().position(|level| &*level.name == name).unwrap_or_else(|| {
            tree.levels.push(Level { kind: LevelKind::Function, name: name.into(), module: Some("/bin/srv".into()) });
            tree.levels.len() - 1
        });
        let depth = tree.nodes[parent as usize].depth + 1;
        let next = tree.nodes.len() as u32;
        let id = *self.below.entry((parent, name.to_owned())).or_insert(next);
        if id == next {
            tree.nodes.push(TreeNode { parent, level: level as u32, depth, ..TreeNode::default() });
        }
        if let Some((file, line)) = place {
            let path = format!("/src/{file}");
            let file = tree.files.iter().position(|known| **known == *path).unwrap_or_else(|| {
                tree.files.push(path.into());
                tree.files.len() - 1
            });
            let line = line.parse().expect("a line");
            let lines = self.lines.entry(id).or_default();
            lines.push(line);
            let node = &mut tree.nodes[id as usize];
            // The first one is what most goes through here.
            node.file = Some(file as u32);
            node.line = lines.first().copied();
            node.several_lines = lines.iter().any(|other| *other != lines[0]);
        }
        id
    }

    /// The tree.
    pub(crate) fn tree(&self) -> CallTree {
        // Nothing is pruned; pruning adds up.
        let mut tree = self.tree.clone();
        for node in &mut tree.nodes {
            node.total = node.own;
        }
        for index in (1..tree.nodes.len()).rev() {
            let (parent, total) = (tree.nodes[index].parent as usize, tree.nodes[index].total);
            for (sum, part) in tree.nodes[parent].total.iter_mut().zip(total) {
                *sum += part;
            }
        }
        tree
    }
}

/// What would have been added up for it.
pub(crate) fn sums(tree: &CallTree) -> SiteSums {
    SiteSums { total: tree.root().total[0], frees_recorded: true, ..SiteSums::default() }
}

/// A program.
pub(crate) fn identity() -> Identity {
    Identity {
        taken: None,
        program: Some("srv".to_owned()),
        args: vec!["srv".to_owned(), "--all".to_owned()],
        pid: Some(4711),
        exe: None,
        cwd: None,
        image: 0,
        running: false,
        copied: false,
        copied_unix_ns: None,
        exit: Some(0),
        signal: None,
        replaced: false,
        wall_ns: Some(5_000_000_000),
        finished: true,
        recording: true,
        full: false,
        run: RunMarks::default(),
    }
}
