//! Whose blocks the errors of a forked process are about, with the stacks of its parents' ledgers.

use std::collections::BTreeMap;

use anyhow::Result;
use heapledger_analysis::{Blamed, BlamedBlock, EarlierFree, NamedStack, Names, blamed_blocks};
use heapledger_format::Site;
use heapledger_report::{ErrorOrigin, OriginBlock, OriginFree, OriginProcess};
use heapledger_source::{Family, FoundError, Ledger, Member};

use crate::commands::{NamingArgs, SourceText, find_names};

/// The session that the ledger of a forked process lies in, if it does.
pub(super) fn session_of(ledger: &Ledger) -> Result<Option<Family>> {
    let directory = ledger.path().parent().filter(|directory| ledger.is_of_fork() && Family::is_at(directory));
    Ok(directory.map(Family::open).transpose()?)
}

/// Where the blocks of `errors` come from, in their order; nothing if `ledger` is of no forked process. `names` are its own.
pub(super) fn origins(
    family: &Family,
    ledger: &Ledger,
    errors: &[FoundError],
    naming: &NamingArgs,
    names: &mut Names<'_>,
) -> Result<Vec<Option<ErrorOrigin>>> {
    if !ledger.is_of_fork() {
        return Ok(Vec::new());
    }
    let blamed = blamed_blocks(family, ledger, errors)?;
    let mut stacks = StacksOf::default();
    for (member, site) in blamed.iter().flatten().flat_map(sites) {
        stacks.wanted.entry(member).or_default().insert(site, NamedStack::default());
    }
    stacks.name(family, naming, names)?;
    let origin = |blamed: &Blamed| match blamed {
        Blamed::Of(of) => ErrorOrigin::Of(Box::new(stacks.block(family, of))),
        Blamed::Unknown => ErrorOrigin::Unknown,
        Blamed::Nobodys => ErrorOrigin::Nobodys,
    };
    Ok(blamed.iter().map(|blamed| blamed.as_ref().map(origin)).collect())
}

/// The call sites of a block; of the process's own ledger where there is no member.
fn sites(blamed: &Blamed) -> Vec<(Option<usize>, Site)> {
    let Blamed::Of(of) = blamed else { return Vec::new() };
    let freed = of.freed.map(|freed| (freed.member, freed.site));
    std::iter::once((Some(of.member), of.block.site)).chain(freed).collect()
}

/// Stacks of several ledgers, by member of the session.
#[derive(Default)]
struct StacksOf {
    wanted: BTreeMap<Option<usize>, BTreeMap<Site, NamedStack>>,
}

impl StacksOf {
    /// Finds them, one ledger after the other.
    fn name(&mut self, family: &Family, naming: &NamingArgs, own: &mut Names<'_>) -> Result<()> {
        for (member, stacks) in &mut self.wanted {
            let Some(member) = member else {
                fill(stacks, own)?;
                continue;
            };
            // It could be opened when the block was found; if it can no longer, the block has no stack.
            let ledger = family.members.get(*member).and_then(|member| member.open().ok()?);
            if let Some(ledger) = ledger {
                fill(stacks, &mut naming.names_with(&ledger, None)?)?;
            }
        }
        Ok(())
    }

    fn get(&self, member: Option<usize>, site: Site) -> NamedStack {
        self.wanted.get(&member).and_then(|stacks| stacks.get(&site)).cloned().unwrap_or_default()
    }

    fn block(&self, family: &Family, of: &BlamedBlock) -> OriginBlock {
        let BlamedBlock { member, block, freed, is_certain, is_kept } = of;
        OriginBlock {
            process: process(family.members.get(*member)),
            number: (!is_kept).then_some(block.number),
            address: block.address,
            size: block.size,
            kind: block.kind,
            allocated: self.get(Some(*member), block.site),
            freed: freed.map(|freed| self.free(family, freed, *is_kept)),
            is_certain: *is_certain,
        }
    }

    fn free(&self, family: &Family, freed: EarlierFree, is_kept: bool) -> OriginFree {
        let EarlierFree { member, number, by, site, .. } = freed;
        let process = member.map(|member| process(family.members.get(member)));
        let by = (!is_kept).then_some((by, number));
        OriginFree { process, by, stack: self.get(member, site) }
    }
}

fn fill(stacks: &mut BTreeMap<Site, NamedStack>, names: &mut Names<'_>) -> Result<()> {
    find_names(names, stacks.keys().copied(), SourceText::Shown)?;
    for (site, stack) in stacks {
        *stack = names.stack(*site)?;
    }
    Ok(())
}

fn process(member: Option<&Member>) -> OriginProcess {
    let Some(member) = member else { return OriginProcess::default() };
    let ledger = member.path().map(|path| path.display().to_string()).unwrap_or_default();
    OriginProcess { program: member.process.program.clone(), pid: member.process.pid, ledger }
}
