//! What a forked process did with its parent's blocks at an address: beside the lives that are its own.

use anyhow::Result;
use heapledger_analysis::{FreedBlock, FreedOfParent, Inheritance, inherited_frees};
use heapledger_report::{Paint, clean};
use heapledger_source::{Family, Ledger};

use crate::say;

/// Says whose blocks at `address` the process freed that it had not allocated, if its ledger lies in a session.
pub(super) fn tell(ledger: &Ledger, address: u64) -> Result<()> {
    let directory = ledger.path().parent().filter(|directory| Family::is_at(directory));
    let Some(directory) = directory.filter(|_| ledger.is_of_fork()) else { return Ok(()) };
    let family = Family::open(directory)?;
    let Inheritance { frees, ancestors } = inherited_frees(&family, ledger, Some(address))?;
    for (free, block) in &frees {
        say(&clean(&sentence(&family, &ancestors, free, block)));
    }
    Ok(())
}

fn sentence(family: &Family, ancestors: &[usize], free: &FreedOfParent, block: &FreedBlock) -> String {
    let freed = format!("{:#010x} was freed here by {}, number {}", free.address, free.by, free.number);
    let whose = match block {
        FreedBlock::Of(of) => {
            let member = ancestors.get(of.ancestor).and_then(|index| family.members.get(*index));
            let (name, pid) =
                member.map_or(("a parent", 0), |member| (member.process.program.as_str(), member.process.pid));
            let size = of.block.size.map(|bytes| format!(" of {}", Paint::default().exact_figures().bytes(bytes)));
            format!(
                "a block{} that was inherited from {name} {pid}, there number {}: `heapledger history --addr {:#x} {}:{pid}` shows who \
                 allocated it",
                size.unwrap_or_default(),
                of.block.number,
                free.address,
                family.directory().display()
            )
        }
        FreedBlock::Again { .. } => "once more, after a block that was inherited there".to_owned(),
        FreedBlock::Unknown => {
            "and whose block that was is not known: the parents' ledgers do not tell it all".to_owned()
        }
        FreedBlock::Nobodys => "and no parent had a block there at the fork".to_owned(),
    };
    format!("{freed}, {whose}")
}
