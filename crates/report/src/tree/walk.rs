//! Which nodes of a tree are shown, and in which order: for programs, a node each.

use std::io;

use heapledger_analysis::tree::TreeNode;

use super::TreeReport;

/// What orders nodes beside each other, if nobody asked for anything else.
pub(super) fn rank(view: &TreeReport<'_>) -> impl Fn(&TreeNode) -> (u64, u64, u32) + use<> {
    let measure = view.measure;
    move |node| (!node.value(measure), !node.value(measure.other()), node.level)
}

/// Hands out the root, then each node behind the one that it belongs to. Returns how many are left out.
pub(super) fn walk(view: &TreeReport<'_>, show: &mut dyn FnMut(u32) -> io::Result<()>) -> io::Result<u64> {
    let TreeReport { tree, measure, .. } = *view;
    let children = tree.children(rank(view));
    let most = |limit: usize| if limit == 0 { usize::MAX } else { limit };
    let (mut waiting, mut shown) = (vec![0u32], 0usize);
    while let Some(id) = waiting.pop() {
        if shown == most(view.limit) {
            break;
        }
        show(id)?;
        shown += 1;
        let node = &tree.nodes[id as usize];
        if view.depth != 0 && node.depth as usize >= view.depth {
            continue;
        }
        let kept = children.of(id).iter().filter(|id| tree.nodes[**id as usize].value(measure) >= view.least);
        let mut kept: Vec<u32> = kept.take(most(view.children)).copied().collect();
        if let Some(order) = view.order {
            let key = |id: &u32| {
                let node = &tree.nodes[*id as usize];
                (&node.total[0], &*tree.level(node).name)
            };
            kept.sort_by(|one, other| order.compare(key(one), key(other)));
        }
        waiting.extend(kept.into_iter().rev());
    }
    Ok((tree.nodes.len() - shown) as u64)
}
