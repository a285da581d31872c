//! The tree upside down: from the function that allocated to those that called it.

use std::collections::HashMap;

use super::build::Both;
use super::{CallTree, TreeNode};

/// What of one stack is still to be laid: it ends at node `at` of the tree that is turned round.
#[derive(Clone, Copy)]
struct Rest {
    at: u32,
    own: Both,
}

impl CallTree {
    /// The tree upside down. Processes and threads stay on top. A node that `cut` agrees to gets nothing below it: what is below
    /// cannot be larger, and a tree upside down can have many more nodes.
    #[must_use]
    pub fn inverted(&self, cut: impl Fn(&TreeNode) -> bool) -> CallTree {
        let mut tree = CallTree { inverted: !self.inverted, ..self.clone_without_nodes() };
        tree.nodes.push(TreeNode { level: self.root().level, own: self.root().own, ..TreeNode::default() });
        // By the node that stacks hang from: the root, a process, or a thread.
        let mut tops = vec![0u32; self.nodes.len()];
        let mut hanging: HashMap<u32, Vec<Rest>> = HashMap::new();
        let mut placed = vec![(0u32, 0u32)];
        let mut place_of: HashMap<u32, u32> = HashMap::from([(0, 0)]);
        for (index, node) in self.nodes.iter().enumerate().skip(1) {
            if let Some(above) = place_of.get(&node.parent).copied().filter(|_| self.is_top(node)) {
                tops[index] = index as u32;
                let place = tree.nodes.len() as u32;
                placed.push((index as u32, place));
                place_of.insert(index as u32, place);
                tree.nodes.push(TreeNode { parent: above, ..*node });
                continue;
            }
            tops[index] = tops[node.parent as usize];
            if node.own.iter().any(|own| !own.is_zero()) {
                hanging.entry(tops[index]).or_default().push(Rest { at: index as u32, own: node.own });
            }
        }
        // Stacks that hang from a node of the new tree, to be grouped by their next function.
        let mut waiting: Vec<(u32, u32, Vec<Rest>)> = Vec::new();
        for (top, node) in placed.into_iter().rev() {
            if let Some(rests) = hanging.remove(&top) {
                waiting.push((top, node, rests));
            }
        }
        while let Some((top, parent, rests)) = waiting.pop() {
            let mut order: Vec<u32> = Vec::new();
            let mut groups: HashMap<u32, Vec<Rest>> = HashMap::new();
            for rest in rests {
                let level = self.nodes[rest.at as usize].level;
                let group = groups.entry(level).or_insert_with(|| {
                    order.push(level);
                    Vec::new()
                });
                group.push(rest);
            }
            for level in order {
                let group = groups.remove(&level).unwrap_or_default();
                let id = tree.nodes.len() as u32;
                let mut node = self.grouped(parent, tree.nodes[parent as usize].depth + 1, &group);
                let mut total = Both::default();
                let mut above = Vec::new();
                for rest in &group {
                    let parent = self.nodes[rest.at as usize].parent;
                    let ends = parent == top;
                    for ((total, own), part) in total.iter_mut().zip(&mut node.own).zip(rest.own) {
                        *total += part;
                        if ends {
                            *own += part;
                        }
                    }
                    if !ends {
                        above.push(Rest { at: parent, own: rest.own });
                    }
                }
                node.total = total;
                if cut(&node) {
                    node.own = total;
                } else if !above.is_empty() {
                    waiting.push((top, id, above));
                }
                tree.nodes.push(node);
            }
        }
        tree.sum();
        tree
    }

    /// A node for places of one function, with the line that most comes through.
    fn grouped(&self, parent: u32, depth: u32, group: &[Rest]) -> TreeNode {
        let mut places: HashMap<(Option<u32>, Option<u32>), u64> = HashMap::new();
        let (mut several, mut inlined) = (false, true);
        for rest in group {
            let node = &self.nodes[rest.at as usize];
            several |= node.several_lines;
            inlined &= node.inlined;
            *places.entry((node.file, node.line)).or_default() += rest.own[0].weight().max(rest.own[1].weight());
        }
        let level = group.first().map_or(0, |rest| self.nodes[rest.at as usize].level);
        let heaviest = places.iter().max_by_key(|(place, weight)| (**weight, std::cmp::Reverse(**place)));
        let (file, line) = heaviest.map_or((None, None), |(place, _)| *place);
        let several_lines = several || places.keys().filter(|(file, _)| file.is_some()).count() > 1;
        TreeNode { parent, level, depth, file, line, several_lines, inlined, ..TreeNode::default() }
    }
}
