//! How much forked processes freed of the blocks that they inherited. It is in no other figure: the parent has its copies still, and they
//! live as long as it has not freed them itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use heapledger_source::{Family, Ledger, Member, SourceError};

use super::ancestors::GENERATIONS_MAX;
use super::inherited::KnownBlocks;
use super::{AncestorBlocks, FamilySummary, ForkPlace, FreedBlock, FreedOfParent, freed_blocks};

/// What a process freed that it had not allocated, with what the ledgers of its ancestors say of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InheritedTotals {
    /// Frees of addresses that it had not allocated.
    pub frees: u64,
    /// Those of them that were of an ancestor's block.
    pub blocks: u64,
    /// Bytes asked for in these blocks.
    pub bytes: u64,
    /// Frees of which the ledgers do not tell whose block it was. What is left is of blocks that had been freed before, or never were any.
    pub unknown: u64,
}

impl InheritedTotals {
    /// Frees of blocks that had been freed before, or never were any.
    pub fn of_nothing(&self) -> u64 {
        self.frees.saturating_sub(self.blocks).saturating_sub(self.unknown)
    }

    /// Adds those of another process.
    pub fn add(&mut self, other: &InheritedTotals) {
        self.frees = self.frees.saturating_add(other.frees);
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    fn of(frees: &[FreedOfParent], found: &[FreedBlock], is_cut: bool) -> InheritedTotals {
        let mut totals = InheritedTotals { frees: frees.len() as u64, ..InheritedTotals::default() };
        for block in found {
            match block {
                FreedBlock::Of(of) => {
                    totals.blocks += 1;
                    totals.bytes = totals.bytes.saturating_add(of.block.size.unwrap_or(0));
                }
                FreedBlock::Unknown => totals.unknown += 1,
                FreedBlock::Nobodys if is_cut => totals.unknown += 1,
                FreedBlock::Nobodys | FreedBlock::Again { .. } => {}
            }
        }
        totals
    }
}

impl FamilySummary {
    /// Adds what forked processes freed of blocks that they inherited. The ledger of each ancestor is read once more; memory is in proportion
    /// to these frees.
    pub fn add_inherited(&mut self, family: &Family, progress: &mut dyn FnMut(f32)) {
        let all = inherited_totals(family, progress);
        for (process, one) in self.processes.iter_mut().zip(&self.tree.processes) {
            for totals in one.images.iter().filter_map(|image| all.get(*image)?.as_ref()) {
                process.inherited.add(totals);
            }
            self.totals.inherited.add(&process.inherited);
        }
        self.inherited = all;
    }
}

/// Those of each program of a process; `None` where it was not forked, or its ledger does not say it: that is so of samples.
fn inherited_totals(family: &Family, progress: &mut dyn FnMut(f32)) -> Vec<Option<InheritedTotals>> {
    let mut lines = Lines::default();
    for (index, member) in family.members.iter().enumerate() {
        lines.add(index, member);
    }
    let wanted = lines.wanted();
    let mut known: HashMap<usize, OfAncestor> = HashMap::new();
    for (done, (index, addresses)) in wanted.iter().enumerate() {
        let ledger = family.members.get(*index).and_then(|member| member.open().ok()?);
        if let Some(known_of) = ledger.and_then(|ledger| OfAncestor::of(&ledger, addresses).ok()) {
            known.insert(*index, known_of);
        }
        progress((done + 1) as f32 / wanted.len() as f32);
    }
    let totals = |index: usize| {
        let frees = lines.frees.get(&index)?;
        Some(lines.totals(family, index, frees, &known))
    };
    (0..family.members.len()).map(totals).collect()
}

/// What is read of an ancestor once, for all who come of it.
struct OfAncestor {
    blocks: Arc<KnownBlocks>,
    inherited: Arc<[FreedOfParent]>,
}

impl OfAncestor {
    fn of(ledger: &Ledger, wanted: &BTreeSet<u64>) -> Result<OfAncestor, SourceError> {
        let mut own = FreedOfParent::all_of(ledger, None)?;
        own.retain(|free| wanted.contains(&free.address));
        own.sort_by_key(|free| free.address);
        Ok(OfAncestor { blocks: Arc::new(KnownBlocks::of(ledger, wanted)?), inherited: own.into() })
    }
}

/// Who was forked from whom, and who freed what.
#[derive(Default)]
struct Lines {
    by_id: HashMap<[u8; 16], Vec<(usize, u32)>>,
    /// The ledger's id and the number of each one's parent.
    parents: HashMap<usize, ([u8; 16], Option<u64>)>,
    frees: HashMap<usize, Vec<FreedOfParent>>,
}

impl Lines {
    fn add(&mut self, index: usize, member: &Member) {
        let Ok(Some(ledger)) = member.open() else { return };
        self.by_id.entry(ledger.header().id).or_default().push((index, member.process.pid));
        let Ok(Some(fork)) = ledger.fork() else { return };
        self.parents.insert(index, (fork.parent_id, fork.parent_pid));
        if ledger.sample_interval() == 0
            && let Ok(frees) = FreedOfParent::all_of(&ledger, None)
        {
            self.frees.insert(index, frees);
        }
    }

    /// The ancestors of a process, nearest first; whether there are more, whose ledgers are not in the session.
    fn ancestors(&self, index: usize) -> (Vec<usize>, bool) {
        let mut found = Vec::new();
        let mut at = index;
        while let Some((id, ppid)) = self.parents.get(&at).filter(|_| found.len() < GENERATIONS_MAX) {
            let is_it = |(_, pid): &&(usize, u32)| ppid.is_none_or(|ppid| u64::from(*pid) == ppid);
            let Some((parent, _)) = self.by_id.get(id).and_then(|all| all.iter().find(is_it)) else {
                return (found, true);
            };
            found.push(*parent);
            at = *parent;
        }
        (found, false)
    }

    /// The addresses that are looked for in each ancestor's ledger.
    fn wanted(&self) -> BTreeMap<usize, BTreeSet<u64>> {
        let mut wanted: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        for (index, frees) in self.frees.iter().filter(|(_, frees)| !frees.is_empty()) {
            for ancestor in self.ancestors(*index).0 {
                wanted.entry(ancestor).or_default().extend(frees.iter().map(|free| free.address));
            }
        }
        wanted
    }

    fn totals(
        &self,
        family: &Family,
        index: usize,
        frees: &[FreedOfParent],
        known: &HashMap<usize, OfAncestor>,
    ) -> InheritedTotals {
        if frees.is_empty() {
            return InheritedTotals::default();
        }
        let (ancestors, mut is_cut) = self.ancestors(index);
        let mut blocks = Vec::with_capacity(ancestors.len());
        let mut at = index;
        for ancestor in ancestors {
            let fork = family.members.get(at).and_then(|member| member.open().ok()??.fork().ok()?);
            let (Some(fork), Some(known)) = (fork, known.get(&ancestor)) else {
                is_cut = true;
                break;
            };
            blocks.push(AncestorBlocks::sharing(ForkPlace::of(&fork), &known.blocks, &known.inherited));
            at = ancestor;
        }
        InheritedTotals::of(frees, &freed_blocks(frees, &blocks), is_cut)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use heapledger_format::TallyCounter;
    use heapledger_source::{FamilyHead, FamilyWriter};
    use heapledger_testing::{Builder, Scratch, freed_at};

    use super::super::made::{block, forked, named};
    use super::*;

    fn summary(scratch: &Scratch) -> (FamilySummary, Family) {
        let family = Family::open(scratch.path()).unwrap();
        let mut summary = FamilySummary::of(&family, SystemTime::UNIX_EPOCH, &mut |_| ());
        summary.add_inherited(&family, &mut |_| ());
        (summary, family)
    }

    fn of(scratch: &Scratch, pid: u32) -> Option<InheritedTotals> {
        let (summary, family) = summary(scratch);
        let member = family.members.iter().position(|member| member.process.pid == pid).unwrap();
        let process = summary.tree.processes.iter().position(|one| one.pid == pid).unwrap();
        assert_eq!(summary.processes[process].inherited, summary.inherited[member].unwrap_or_default());
        summary.inherited[member]
    }

    fn write(scratch: &Scratch, pid: u32, builder: &Builder) {
        builder.write(&scratch.join(format!("worker.{pid}.hl"))).unwrap();
    }

    /// A parent with blocks of 64, 32 and 16 bytes, of which it freed the last after number 10; a child of before that number; and its child.
    fn session(scratch: &Scratch) {
        FamilyWriter::create(scratch.path(), &FamilyHead::new("0", 0, 1, Vec::new(), "test")).unwrap();
        let mut parent = named(10);
        parent.entry(block(0x1000, 1, 64)).entry(block(0x2000, 2, 32)).freed(freed_at(block(0x3000, 3, 16), 12));
        write(scratch, 10, &parent);
        let mut child = named(11);
        child.entry(block(0x5000, 2, 8));
        // All three, one of them twice, and one that never was.
        forked(&mut child, 10, 10, &[(0x1000, 3), (0x2000, 4), (0x3000, 5), (0x1000, 6), (0x9000, 7)]);
        write(scratch, 11, &child);
        let mut grandchild = named(12);
        forked(&mut grandchild, 11, 4, &[(0x1000, 1), (0x2000, 2), (0x5000, 3)]);
        write(scratch, 12, &grandchild);
    }

    #[test]
    fn what_was_freed_of_ancestors_is_summed_and_subtracted_nowhere() {
        let scratch = Scratch::new("handed-down");
        session(&scratch);
        assert_eq!(of(&scratch, 10), None, "it was not forked");
        let child = InheritedTotals { frees: 5, blocks: 3, bytes: 112, unknown: 0 };
        assert_eq!((of(&scratch, 11), child.of_nothing()), (Some(child), 2));
        // The first was its parent's to free, which it had done before this one came; the last is its parent's own.
        assert_eq!(of(&scratch, 12), Some(InheritedTotals { frees: 3, blocks: 2, bytes: 40, unknown: 0 }));
        let (summary, _) = summary(&scratch);
        assert_eq!(summary.totals.inherited, InheritedTotals { frees: 8, blocks: 5, bytes: 152, unknown: 0 });
        assert_eq!((summary.totals.live_blocks, summary.totals.live_bytes), (3, 104), "each process has its copies");
    }

    #[test]
    fn what_the_ledgers_do_not_tell_is_no_sum() {
        let scratch = Scratch::new("handed-down-unknown");
        session(&scratch);
        // One more free than its history holds: what is not among its blocks may have been one.
        let mut parent = named(10);
        parent.entry(block(0x1000, 1, 64)).tally(TallyCounter::Frees, 1);
        write(&scratch, 10, &parent);
        let child = InheritedTotals { frees: 5, blocks: 1, bytes: 64, unknown: 3 };
        assert_eq!((of(&scratch, 11), child.of_nothing()), (Some(child), 1));
        std::fs::remove_file(scratch.join("worker.10.hl")).unwrap();
        assert_eq!(of(&scratch, 11), Some(InheritedTotals { frees: 5, unknown: 5, ..InheritedTotals::default() }));
        let own = InheritedTotals { frees: 3, blocks: 1, bytes: 8, unknown: 2 };
        assert_eq!(of(&scratch, 12), Some(own), "what is its parent's own is known");
    }
}
