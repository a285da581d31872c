//! Whose blocks the errors of a forked process are about: where its own ledger has no such block, a parent's may.
//!
//! To the process itself a block that it inherited, one that had been freed before the fork, and what never was a block look alike: it has
//! no records of its parent's. The parent's ledger tells them apart.

use std::collections::BTreeSet;

use heapledger_format::errors::{ErrorEntry, ErrorKind, FoundAt, StackTag};
use heapledger_format::{Entry, FreedEntry, Kind, LabelId, Site, TallyCounter, ThreadRow, Ticks};
use heapledger_source::{Family, FoundError, Ledger, SourceError};

use super::FreedOfParent;
use super::ancestors::Ancestors;
use super::inherited::{Around, NotKnown, is_around, is_in};

/// An ancestor's block that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlamedBlock {
    /// Whose, as an index of [`Family::members`].
    pub member: usize,
    /// The block, as that one's ledger has it.
    pub block: Entry,
    /// Who had freed it before the error; `None`: nobody, as far as the ledgers tell.
    pub freed: Option<EarlierFree>,
    /// Whether no other block can be meant: else the process may have had one of its own there, or an ancestor a later one, of
    /// which no ledger tells.
    pub is_certain: bool,
    /// No ledger tells of it any more, but what its process had kept beside it: numbers and the function that freed it are not known.
    pub is_kept: bool,
}

/// How an inherited block had been freed before an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierFree {
    /// By which ancestor, before the fork, as an index of [`Family::members`]; `None`: by the process itself.
    pub member: Option<usize>,
    /// Its number among the events of that process.
    pub number: u64,
    /// The function.
    pub by: Kind,
    /// The call's stack, in the ledger of that process.
    pub site: Site,
    /// The thread of that process.
    pub thread: Option<ThreadRow>,
    /// When, on that ledger's clock.
    pub time: Option<Ticks>,
}

/// Whose block an error of a forked process is about that has no block of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blamed {
    /// An ancestor's.
    Of(Box<BlamedBlock>),
    /// The ledgers do not tell.
    Unknown,
    /// No ancestor ever had a block there, as far back as it forked: the address came from elsewhere.
    Nobodys,
}

/// Whose blocks `errors` of `ledger` are about, in their order; `None` for those that are about a block of the process's own, or about
/// none, and for all of a process that was not forked.
///
/// # Errors
/// If a ledger can no longer be read.
pub fn blamed_blocks(
    family: &Family,
    ledger: &Ledger,
    errors: &[FoundError],
) -> Result<Vec<Option<Blamed>>, SourceError> {
    let mut probes: Vec<Option<Probe>> = errors.iter().map(|error| Probe::of(&error.entry)).collect();
    if !ledger.is_of_fork() || probes.iter().all(Option::is_none) {
        return Ok(vec![None; errors.len()]);
    }
    let wanted: BTreeSet<u64> = probes.iter().flatten().map(|probe| probe.address).collect();
    let is_complete = leave_own(ledger, &wanted, &mut probes)?;
    let (ancestors, own) = (Ancestors::of(family, ledger, &wanted)?, FreedOfParent::all_of(ledger, None)?);
    let blamed = |(probe, error): (&Option<Probe>, &FoundError)| {
        let blamed = probe.as_ref()?.blamed(&ancestors, &own, is_complete);
        let kept = if matches!(blamed, Blamed::Of(_)) { None } else { kept(&ancestors, error) };
        Some(kept.unwrap_or(blamed))
    };
    Ok(probes.iter().zip(errors).map(blamed).collect())
}

/// What an ancestor had kept beside a block that it freed, which the error has as it was written.
fn kept(ancestors: &Ancestors, error: &FoundError) -> Option<Blamed> {
    let of = |tag: StackTag| {
        let stack = error.of_ancestors.iter().find(|stack| stack.tag == tag as u16)?;
        let member = ancestors.members.get(usize::from(stack.ancestor).checked_sub(1)?)?;
        Some((*member, stack))
    };
    let ((member, given), freed) = (of(StackTag::Allocation)?, of(StackTag::Free));
    let entry = &error.entry;
    let block = Entry {
        number: 0,
        actual: None,
        heap: None,
        label: LabelId::UNKNOWN,
        core: None,
        cycles: None,
        address: entry.block,
        size: Some(entry.block_bytes),
        kind: Kind(entry.given_by),
        site: given.site,
        thread: given.thread.row(),
        time: Some(given.time),
    };
    let freed = freed.map(|(member, free)| EarlierFree {
        member: Some(member),
        number: 0,
        by: Kind::NONE,
        site: free.site,
        thread: free.thread.row(),
        time: Some(free.time),
    });
    Some(Blamed::Of(Box::new(BlamedBlock { member, block, freed, is_certain: true, is_kept: true })))
}

/// What is looked for.
struct Probe {
    address: u64,
    /// When the error was found.
    time: Ticks,
    /// Whether it was found by the call that freed the block.
    is_at_end: bool,
}

impl Probe {
    /// `None` if the error is about no block, or says itself who allocated it.
    fn of(error: &ErrorEntry) -> Option<Probe> {
        let says = |tag| error.stacks.iter().any(|stack| stack.tag == tag as u16 && stack.site != Site::NONE);
        if ErrorKind::is_failed_call(error.kind) || says(StackTag::Allocation) {
            return None;
        }
        let address = if error.block != 0 { error.block } else { error.address };
        let is_damage =
            [ErrorKind::BufferOverflow, ErrorKind::BufferUnderflow].iter().any(|kind| error.kind == *kind as u16);
        let is_at_end = is_damage && error.found_at == FoundAt::Free as u8;
        (address != 0).then_some(Probe { address, time: error.first_time, is_at_end })
    }

    fn blamed(&self, ancestors: &Ancestors, own: &[FreedOfParent], mut is_certain: bool) -> Blamed {
        let mut is_known = !ancestors.is_cut;
        for (generation, (blocks, member)) in ancestors.blocks.iter().zip(&ancestors.members).enumerate() {
            let (block, freed) = match blocks.around(self.address) {
                Around::There(block, _) => {
                    let nearer = ancestors.blocks.iter().zip(&ancestors.members).take(generation);
                    let mut freed = None;
                    for (blocks, member) in nearer {
                        match blocks.freed_before_fork(block.address) {
                            Ok(Some(free)) => freed = freed.or(Some(EarlierFree::of(Some(*member), free))),
                            Ok(None) => {}
                            Err(NotKnown) => is_certain = false,
                        }
                    }
                    (block, freed.or_else(|| self.freed_here(block, own)))
                }
                Around::Ended(block, end) => {
                    is_certain &= !blocks.is_incomplete();
                    (block, Some(EarlierFree::of_end(*member, end)))
                }
                Around::Perhaps => return Blamed::Unknown,
                Around::None => {
                    is_known &= !blocks.is_incomplete();
                    is_certain &= !blocks.is_incomplete();
                    continue;
                }
            };
            return Blamed::Of(Box::new(BlamedBlock {
                member: *member,
                block: *block,
                freed,
                is_certain,
                is_kept: false,
            }));
        }
        if is_known && is_certain { Blamed::Nobodys } else { Blamed::Unknown }
    }

    /// How the process itself had freed its copy, if that was before the error.
    fn freed_here(&self, block: &Entry, own: &[FreedOfParent]) -> Option<EarlierFree> {
        let frees = own.iter().filter(|free| free.address == block.address && !self.is_at_end);
        let first = frees.min_by_key(|free| (free.time, free.number))?;
        // The call that is the error may itself have been noted.
        first.time.is_none_or(|time| time < self.time).then(|| EarlierFree::of(None, first))
    }
}

impl EarlierFree {
    fn of(member: Option<usize>, free: &FreedOfParent) -> EarlierFree {
        let FreedOfParent { number, by, site, thread, time, .. } = *free;
        EarlierFree { member, number, by, site, thread, time }
    }

    fn of_end(member: usize, end: &FreedEntry) -> EarlierFree {
        let FreedEntry { number, by, site, thread, time, .. } = *end;
        EarlierFree { member: Some(member), number, by, site, thread, time }
    }
}

/// Takes out of `probes` those for which the process had a block of its own before the error; whether its ledger tells of all that it had.
fn leave_own(ledger: &Ledger, wanted: &BTreeSet<u64>, probes: &mut [Option<Probe>]) -> Result<bool, SourceError> {
    let mut frees = 0u64;
    let mut leave = |block: &Entry| {
        if !is_around(block, wanted) {
            return;
        }
        for probe in probes.iter_mut() {
            let is_own =
                |probe: &Probe| is_in(block, probe.address) && block.time.is_none_or(|time| time <= probe.time);
            if probe.as_ref().is_some_and(is_own) {
                *probe = None;
            }
        }
    };
    let mut history = ledger.freed();
    while let Some(chunk) = history.next_chunk()? {
        frees += chunk.len() as u64;
        chunk.iter().for_each(|freed| leave(&freed.block));
    }
    let mut records = ledger.records();
    while let Some(chunk) = records.next_chunk()? {
        chunk.iter().for_each(&mut leave);
    }
    Ok(ledger.tallies()?.get(TallyCounter::Frees) <= frees && ledger.sample_interval() == 0)
}

#[cfg(test)]
mod tests {
    use heapledger_format::errors::ErrorStack;
    use heapledger_source::{FamilyHead, FamilyWriter};
    use heapledger_testing::{Builder, Scratch, freed_at};

    use super::super::made::{block, forked, named};
    use super::*;

    fn error(block: u64, address: u64, time: u64) -> FoundError {
        let kind = ErrorKind::BadFree as u16;
        let entry = ErrorEntry { kind, block, address, first_time: Ticks(time), ..ErrorEntry::default() };
        FoundError { row: 0, entry, function: String::new(), around: Vec::new(), of_ancestors: Vec::new() }
    }

    /// A parent that forked before its number 10, its child, and its grandchild, which came before the child's number 10.
    fn session(scratch: &Scratch, child: &mut Builder, grandchild: &mut Builder) -> Family {
        FamilyWriter::create(scratch.path(), &FamilyHead::new("0", 0, 1, Vec::new(), "test")).unwrap();
        let mut parent = named(10);
        for (address, number) in [(0x1000, 1), (0x2000, 2), (0x3000, 12)] {
            parent.entry(block(address, number, 64));
        }
        parent.freed(freed_at(block(0x4000, 3, 64), 8)).freed(freed_at(block(0x4000, 5, 16), 7));
        parent.freed(freed_at(block(0x5000, 4, 64), 15));
        parent.write(&scratch.join("worker.10.hl")).unwrap();
        forked(child, 10, 10, &[(0x2000, 5)]);
        child.write(&scratch.join("worker.11.hl")).unwrap();
        forked(grandchild, 11, 10, &[(0x1000, 3)]);
        grandchild.write(&scratch.join("worker.12.hl")).unwrap();
        Family::open(scratch.path()).unwrap()
    }

    /// Whose block, its number there, who had freed it before, and whether that is certain.
    type Told = Result<(u32, u64, Option<(Option<u32>, u64)>, bool), Option<Blamed>>;

    fn told(family: &Family, pid: u32, errors: &[FoundError]) -> Vec<Told> {
        let member = family.members.iter().find(|member| member.process.pid == pid).unwrap();
        let pid_of = |member: usize| family.members[member].process.pid;
        let found = blamed_blocks(family, &member.open().unwrap().unwrap(), errors).unwrap();
        let told = |blamed: Option<Blamed>| match blamed {
            Some(Blamed::Of(of)) => {
                let freed = of.freed.map(|freed| (freed.member.map(pid_of), freed.number));
                Ok((pid_of(of.member), of.block.number, freed, of.is_certain))
            }
            other => Err(other),
        };
        found.into_iter().map(told).collect()
    }

    #[test]
    fn what_a_child_cannot_tell_apart_the_ledgers_do() {
        let scratch = Scratch::new("blamed");
        let (mut child, mut grandchild) = (named(11), named(12));
        child.entry(block(0x6000, 2, 32));
        let family = session(&scratch, &mut child, &mut grandchild);
        let all = [
            (error(0x1000, 0x1010, 4), Ok((10, 1, None, true))),
            // Inside of it, and no block is named.
            (error(0, 0x1020, 4), Ok((10, 1, None, true))),
            // At the time of its own free, or before, nobody had freed it.
            (error(0x2000, 0, 5), Ok((10, 2, None, true))),
            (error(0x2000, 0, 6), Ok((10, 2, Some((None, 5)), true))),
            // The parent's, of later.
            (error(0x3000, 0, 6), Err(Some(Blamed::Nobodys))),
            // Freed before the fork: the last of two.
            (error(0x4000, 0, 6), Ok((10, 3, Some((Some(10), 8)), true))),
            // By the parent, after the fork: the child's copy was whole.
            (error(0x5000, 0, 6), Ok((10, 4, None, true))),
            // Its own, once it had it.
            (error(0x6000, 0, 2), Err(None)),
            (error(0x6000, 0, 1), Err(Some(Blamed::Nobodys))),
            (error(0, 0, 6), Err(None)),
        ];
        let errors: Vec<FoundError> = all.iter().map(|(error, _)| error.clone()).collect();
        for ((error, expected), found) in all.iter().zip(told(&family, 11, &errors)) {
            assert_eq!(found, *expected, "{:#x} {:#x}", error.entry.block, error.entry.address);
        }
        // The parent knows its own blocks.
        assert_eq!(told(&family, 10, &errors[..1]), [Err(None)]);
        let known = |of: u64| error(of, 0, 9);
        let grand = told(&family, 12, &[known(0x1000), known(0x2000), known(0x6000)]);
        // Its own free, its parent's free before it was forked, its parent's own block.
        let expected =
            [Ok((10, 1, Some((None, 3)), true)), Ok((10, 2, Some((Some(11), 5)), true)), Ok((11, 2, None, true))];
        assert_eq!(grand, expected);
        // Where the error says who allocated, nothing is looked for; and a call that gave nothing is about no block.
        let mut said = known(0x1000);
        said.entry.stacks[0] = ErrorStack { tag: StackTag::Allocation as u16, site: Site(3), ..ErrorStack::default() };
        let refused = FoundError {
            entry: ErrorEntry { kind: ErrorKind::OutOfMemory as u16, ..known(0x1000).entry },
            ..known(0x1000)
        };
        assert_eq!(told(&family, 12, &[said, refused]), [Err(None), Err(None)]);
    }

    #[test]
    fn what_no_ledger_tells_any_more_is_said() {
        let scratch = Scratch::new("blamed-incomplete");
        let (mut child, mut grandchild) = (named(11), named(12));
        child.tally(TallyCounter::Frees, 3);
        grandchild.process("x", "y");
        let family = session(&scratch, &mut child, &mut grandchild);
        let found = told(&family, 11, &[error(0x1000, 0, 9), error(0x7000, 0, 9)]);
        assert_eq!(found, [Ok((10, 1, None, false)), Err(Some(Blamed::Unknown))]);
        // The grandchild's own ledger tells all; its parent's does not.
        let found = told(&family, 12, &[error(0x5000, 0, 9), error(0x7000, 0, 9)]);
        assert_eq!(found, [Ok((10, 4, None, false)), Err(Some(Blamed::Unknown))]);
        std::fs::remove_file(scratch.join("worker.10.hl")).unwrap();
        let family = Family::open(scratch.path()).unwrap();
        assert_eq!(told(&family, 12, &[error(0x1000, 0, 9)]), [Err(Some(Blamed::Unknown))]);
    }
}
