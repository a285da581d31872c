//! From a forked process's ledger to those of its parent and its parent's parents, within a session.

use std::collections::BTreeSet;

use heapledger_format::ThreadRow;
use heapledger_source::{Family, Fork, Ledger, Member, SourceError};

use super::{AncestorBlocks, ForkPlace, FreedBlock, FreedOfParent, freed_blocks};

/// Most generations that are followed: a forged session may say that there are as many as it has processes.
pub(super) const GENERATIONS_MAX: usize = 64;

impl ForkPlace {
    /// Where a ledger says that the fork lies which its process comes of.
    pub fn of(fork: &Fork) -> ForkPlace {
        let next = |number_plus_1: u64| number_plus_1.saturating_sub(1);
        ForkPlace { rows: fork.cuts().rows.iter().map(|cut| cut.map(|cut| next(cut.number_plus_1.0))).collect() }
    }
}

impl FreedOfParent {
    /// The frees of addresses that a process had not allocated, as its ledger has them; of one address, if there is one.
    ///
    /// # Errors
    /// If it can no longer be read.
    pub fn all_of(ledger: &Ledger, address: Option<u64>) -> Result<Vec<FreedOfParent>, SourceError> {
        let mut all = Vec::new();
        ledger.each_inherited(&mut |free| {
            if address.is_none_or(|address| address == free.address.0) {
                all.push(FreedOfParent {
                    address: free.address.0,
                    number: free.number_plus_1.0.saturating_sub(1),
                    by: free.kind(),
                    site: free.site,
                    thread: free.thread.0.checked_sub(1).map(ThreadRow),
                    time: Some(free.time),
                });
            }
            Ok(())
        })?;
        Ok(all)
    }
}

/// What a forked process freed that it had not allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inheritance {
    /// The frees, and whose blocks they were.
    pub frees: Vec<(FreedOfParent, FreedBlock)>,
    /// Its ancestors, nearest first, as indices of [`Family::members`].
    pub ancestors: Vec<usize>,
}

/// What a forked process freed of its ancestors' blocks, and whose blocks they were. An ancestor whose ledger is not in the session ends the line: what is not found before is not known.
///
/// # Errors
/// If a ledger can no longer be read.
pub fn inherited_frees(family: &Family, ledger: &Ledger, address: Option<u64>) -> Result<Inheritance, SourceError> {
    let frees = FreedOfParent::all_of(ledger, address)?;
    let wanted = frees.iter().map(|free| free.address).collect();
    let Ancestors { blocks, members, is_cut } = Ancestors::of(family, ledger, &wanted)?;
    let mut found = freed_blocks(&frees, &blocks);
    for block in found.iter_mut().filter(|block| is_cut && **block == FreedBlock::Nobodys) {
        *block = FreedBlock::Unknown;
    }
    Ok(Inheritance { frees: frees.into_iter().zip(found).collect(), ancestors: members })
}

/// What the ledgers of a forked process's ancestors say of some addresses, nearest first.
#[derive(Debug, Default)]
pub(super) struct Ancestors {
    pub(super) blocks: Vec<AncestorBlocks>,
    /// Which they are, as indices of [`Family::members`].
    pub(super) members: Vec<usize>,
    /// Whether there are more, whose ledgers are not in the session.
    pub(super) is_cut: bool,
}

impl Ancestors {
    /// Reads blocks at or around `wanted` addresses.
    ///
    /// # Errors
    /// If a ledger can no longer be read.
    pub(super) fn of(family: &Family, ledger: &Ledger, wanted: &BTreeSet<u64>) -> Result<Ancestors, SourceError> {
        let mut all = Ancestors::default();
        let mut next = ledger.fork()?;
        while let Some(fork) = next.filter(|_| all.members.len() < GENERATIONS_MAX) {
            let Some((index, parent)) = parent_of(family, &fork) else {
                all.is_cut = true;
                break;
            };
            let own = FreedOfParent::all_of(&parent, None)?;
            all.blocks.push(AncestorBlocks::of(&parent, ForkPlace::of(&fork), own, wanted)?);
            all.members.push(index);
            next = parent.fork()?;
        }
        Ok(all)
    }
}

/// The ledger with the id that a fork names: one of a process with the number that it names.
fn parent_of(family: &Family, fork: &Fork) -> Option<(usize, Ledger)> {
    let is_called = |member: &Member| fork.parent_pid.is_none_or(|pid| u64::from(member.process.pid) == pid);
    let called = family.members.iter().enumerate().filter(|(_, member)| is_called(member));
    called
        .filter_map(|(index, member)| Some((index, member.open().ok()??)))
        .find(|(_, ledger)| ledger.header().id == fork.parent_id)
}

#[cfg(test)]
mod tests {
    use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
    use heapledger_format::family::{ForkCut, InheritedFree};
    use heapledger_format::{Entry, Kind, SectionKind, Site, ThreadRowPlus1, Ticks, Word};
    use heapledger_source::{FamilyHead, FamilyWriter};
    use heapledger_testing::{Builder, Scratch};

    use super::*;

    /// A ledger of a process with blocks `(address, number)`, which was forked before the parent's number, and freed some of the parent's.
    fn ledger(scratch: &Scratch, pid: u32, blocks: &[(u64, u64)], fork: Option<(u32, u64)>, freed: &[(u64, u64)]) {
        let mut builder = Builder::new();
        builder
            .id([pid as u8; 16])
            .process("pid", &pid.to_string())
            .process("start_ticks", "1")
            .process("program", "worker");
        for (address, number) in blocks {
            let (address, number, thread) = (*address, *number, Some(ThreadRow(0)));
            builder.entry(Entry { address, number, thread, size: Some(8), kind: Kind::MALLOC, ..Entry::NONE });
        }
        if let Some((parent, number)) = fork {
            let codec = Codec { order: ByteOrder::NATIVE, word: WordSize::W64 };
            builder.codec(codec.order, codec.word);
            // Who forked the last of them has ended, so that its parent is init; the others are of before there was a key for it.
            match pid {
                12 => builder.process("ppid", "1").process("parent_pid", &parent.to_string()),
                _ => builder.process("ppid", &parent.to_string()),
            };
            builder.process("parent_id", &format!("{parent:02x}").repeat(16));
            let mut cut = vec![0; 16];
            assert!(ForkCut { time: Word(1), number_plus_1: Word(number + 1) }.write(codec, &mut cut));
            builder.section(SectionKind::Cut as u16, 16, cut);
            let mut frees = vec![0; 40 * freed.len()];
            for ((address, number), element) in freed.iter().zip(frees.chunks_exact_mut(40)) {
                let free = InheritedFree {
                    address: Word(*address),
                    time: Ticks(*number),
                    site: Site(0),
                    thread: ThreadRowPlus1(1),
                    by: u32::from(Kind::FREE.0),
                    reserved: 0,
                    number_plus_1: Word(number + 1),
                };
                assert!(free.write(codec, element));
            }
            builder.section(SectionKind::Inherited as u16, 40, frees);
        }
        builder.write(&scratch.join(format!("worker.{pid}.hl"))).unwrap();
    }

    #[test]
    fn a_grandchild_is_followed_up_to_who_allocated() {
        let scratch = Scratch::new("ancestors");
        FamilyWriter::create(scratch.path(), &FamilyHead::new("0", 0, 1, Vec::new(), "test")).unwrap();
        ledger(&scratch, 10, &[(0x1000, 1), (0x2000, 2), (0x3000, 9)], None, &[]);
        ledger(&scratch, 11, &[(0x4000, 3)], Some((10, 5)), &[(0x2000, 1)]);
        ledger(&scratch, 12, &[], Some((11, 4)), &[(0x1000, 0), (0x2000, 1), (0x3000, 2), (0x4000, 3)]);
        ledger(&scratch, 13, &[], Some((77, 4)), &[(0x1000, 0)]);
        let family = Family::open(scratch.path()).unwrap();
        let place = |pid: u32| family.members.iter().position(|member| member.process.pid == pid).unwrap();
        let open = |pid: u32| family.members[place(pid)].open().unwrap().unwrap();
        let Inheritance { frees: found, ancestors } = inherited_frees(&family, &open(12), None).unwrap();
        assert_eq!(ancestors, [place(11), place(10)]);
        let whose: Vec<Option<(usize, u64)>> = found
            .iter()
            .map(|(_, block)| match block {
                FreedBlock::Of(of) => Some((of.ancestor, of.block.number)),
                _ => None,
            })
            .collect();
        // The second had been freed by the parent, and the third was allocated after the first fork.
        assert_eq!(whose, [Some((1, 1)), None, None, Some((0, 3))]);
        assert_eq!((&found[1].1, &found[2].1), (&FreedBlock::Nobodys, &FreedBlock::Nobodys));
        assert_eq!(inherited_frees(&family, &open(12), Some(0x4000)).unwrap().frees.len(), 1);
        let Inheritance { frees: found, ancestors } = inherited_frees(&family, &open(13), None).unwrap();
        assert_eq!((&found[0].1, ancestors.len()), (&FreedBlock::Unknown, 0), "its parent's ledger is not there");
        assert_eq!(inherited_frees(&family, &open(10), None).unwrap(), Inheritance::default());
    }
}
