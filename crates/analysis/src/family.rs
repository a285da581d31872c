//! What a session of several processes comes to: each of its ledgers is opened, added up and closed, one after the other,
//! so that memory is in proportion to the number of processes.

use std::time::SystemTime;

use heapledger_source::{Family, FamilyMemory, Ledger, Member, MemberEnd, MemberLedger, ProcessTree, SourceError};

use crate::{Clock, Note, Peak, Sampled, Summary, is_wrong};

mod alike;
mod ancestors;
mod blamed;
mod curve;
mod handed_down;
mod held;
mod inherited;
mod look;
mod losses;
#[cfg(test)]
mod made;
mod programs;

pub use alike::{AlikeProcesses, alike};
pub use ancestors::{Inheritance, inherited_frees};
pub use blamed::{Blamed, BlamedBlock, EarlierFree, blamed_blocks};
pub use curve::{CurveColumn, CurveProcess, FamilyCurve};
pub use handed_down::InheritedTotals;
pub use held::{FamilyGroup, FamilyGroups};
pub use inherited::{AncestorBlocks, BlockOfAncestor, ForkPlace, FreedBlock, FreedOfParent, freed_blocks};
pub use look::{FamilyLook, FamilyLooks, ProcessLook};
pub use losses::{FamilyNote, family_notes, joined};
pub use programs::{ProgramChange, ProgramTotals, programs_changed};

/// What one program of a process came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberTotals {
    /// Blocks entered, and those of them that were freed.
    pub allocations: u64,
    /// Frees of them.
    pub frees: u64,
    /// Bytes asked for in all.
    pub bytes_allocated: u64,
    /// Blocks that live, or lived at its end.
    pub live_blocks: u64,
    /// Bytes asked for in them.
    pub live_bytes: u64,
    /// The highest that live bytes were.
    pub peak: Peak,
    /// What it did wrong with its blocks.
    pub errors: u64,
    /// Calls that gave no block.
    pub failed_calls: u64,
    /// What estimates come from; `None`: all is exact.
    pub sampled: Option<Sampled>,
    /// How long it was recorded, in nanoseconds.
    pub span_ns: Option<u64>,
    /// When its ledger began, in nanoseconds since 1970.
    pub start_unix_ns: Option<u64>,
    /// Whether it runs now.
    pub running: bool,
    /// What was not seen of it.
    pub notes: Vec<Note>,
}

impl MemberTotals {
    /// Those of one ledger.
    ///
    /// # Errors
    /// If it can no longer be read.
    pub fn of(ledger: &Ledger, now: SystemTime) -> Result<MemberTotals, SourceError> {
        let clock = Clock::new(ledger, now)?;
        let summary = Summary::of(ledger, clock, 0, &mut |_| ())?;
        Ok(MemberTotals {
            allocations: summary.allocations,
            frees: summary.frees,
            bytes_allocated: summary.bytes_allocated,
            live_blocks: summary.live_blocks,
            live_bytes: summary.live_bytes,
            peak: summary.peak,
            errors: ledger.errors()?.iter().filter(|error| is_wrong(&error.entry)).count() as u64,
            failed_calls: summary.failed_calls,
            sampled: summary.sampled,
            span_ns: clock.span_ns(),
            start_unix_ns: clock.start_unix_ns(),
            running: summary.identity.running,
            notes: summary.seen.notes,
        })
    }
}

/// What is known of one program of a process.
#[derive(Clone, Debug, PartialEq)]
pub enum MemberRead {
    /// What its ledger comes to.
    Totals(MemberTotals),
    /// It has none, and why, if that is known.
    Without(Option<String>),
    /// It could not be read: a sentence.
    Failed(String),
}

impl MemberRead {
    /// Opens the ledger of `member`, adds it up, and closes it.
    pub fn of(member: &Member, now: SystemTime) -> MemberRead {
        match member.open() {
            Ok(Some(ledger)) => match MemberTotals::of(&ledger, now) {
                Ok(totals) => MemberRead::Totals(totals),
                Err(reason) => MemberRead::Failed(reason.to_string()),
            },
            Ok(None) => MemberRead::Without(match &member.ledger {
                MemberLedger::Unrecorded(why) => Some(why.clone()),
                MemberLedger::Missing(name) => Some(format!("its ledger {name} is gone")),
                _ => None,
            }),
            Err(reason) => MemberRead::Failed(reason.to_string()),
        }
    }

    /// Its figures, if it has any.
    pub fn totals(&self) -> Option<&MemberTotals> {
        if let MemberRead::Totals(totals) = self { Some(totals) } else { None }
    }
}

/// One process: what its programs came to, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessTotals {
    /// What its programs are called: those that allocated or ran to the end, at most a few, the last one last.
    pub programs: Vec<String>,
    /// When it began, in nanoseconds since 1970; 0 if nobody knows.
    pub began_unix_ns: u64,
    /// For how long it is known to have been there.
    pub lasted_ns: Option<u64>,
    /// Whether it may have been there for longer: nobody saw its end.
    pub lasted_at_least: bool,
    /// The highest that live bytes of one of its programs were.
    pub peak_bytes: u64,
    /// Blocks that lived when its last program ended, or live now.
    pub live_blocks: u64,
    /// Bytes asked for in them.
    pub live_bytes: u64,
    /// Blocks entered.
    pub allocations: u64,
    /// Bytes asked for in them.
    pub bytes_allocated: u64,
    /// What was done wrong with blocks.
    pub errors: u64,
    /// How its last program ended; `None`: it runs, or nobody saw its end.
    pub end: Option<MemberEnd>,
    /// Whether it runs now.
    pub running: bool,
    /// How many of its programs have figures, and how many have none but should.
    pub recorded: u32,
    /// Programs that should have figures and have none.
    pub unrecorded: u32,
    /// Whether figures are estimates.
    pub sampled: bool,
    /// What it freed that it had not allocated itself, where that was looked for: in no other figure.
    pub inherited: InheritedTotals,
}

/// Sums over a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyTotals {
    /// Processes that are known.
    pub processes: u64,
    /// Those of them with a ledger at least.
    pub recorded: u64,
    /// Those that have none and should: they could not record, or their ledger is gone or damaged.
    pub unrecorded: u64,
    /// Those that run now.
    pub running: u64,
    /// Blocks entered.
    pub allocations: u64,
    /// Of them, freed.
    pub frees: u64,
    /// Bytes asked for.
    pub bytes_allocated: u64,
    /// Blocks that lived at the ends of their processes, or live now.
    pub live_blocks: u64,
    /// Bytes asked for in them.
    pub live_bytes: u64,
    /// The highest peak of one process.
    pub peak_of_one_bytes: u64,
    /// The peaks of those processes, added up, that were there at the same time, where that is most: no more bytes were ever
    /// live at once.
    pub together_at_most_bytes: u64,
    /// What was done wrong with blocks.
    pub errors: u64,
    /// Calls that gave no block.
    pub failed_calls: u64,
    /// Whether figures are estimates, of some processes at least.
    pub sampled: bool,
    /// What forked processes freed that they had not allocated themselves, where that was looked for: in no other figure.
    pub inherited: InheritedTotals,
}

/// A session, added up.
#[derive(Clone, Debug, Default)]
pub struct FamilySummary {
    /// Who began whom.
    pub tree: ProcessTree,
    /// What its programs came to, as [`Family::members`].
    pub members: Vec<Option<MemberTotals>>,
    /// What they freed of blocks that they had inherited, as [`Family::members`]; empty if that was not looked for. `None`: the program was not
    /// forked, or blocks were sampled.
    pub inherited: Vec<Option<InheritedTotals>>,
    /// What its processes came to, as [`ProcessTree::processes`].
    pub processes: Vec<ProcessTotals>,
    /// All of them.
    pub totals: FamilyTotals,
    /// When the first of them began, in nanoseconds since 1970; 0 if nobody knows.
    pub began_unix_ns: u64,
    /// What was not seen.
    pub notes: Vec<FamilyNote>,
}

impl FamilySummary {
    /// Goes through all ledgers of `family`. `progress` hears how far it is, from 0 to 1.
    pub fn of(family: &Family, now: SystemTime, progress: &mut dyn FnMut(f32)) -> FamilySummary {
        let mut read = Vec::with_capacity(family.members.len());
        for (index, member) in family.members.iter().enumerate() {
            read.push(MemberRead::of(member, now));
            progress((index + 1) as f32 / family.members.len() as f32);
        }
        FamilySummary::from_read(family, read)
    }

    /// The same of ledgers that were read already, as [`Family::members`].
    pub fn from_read(family: &Family, mut read: Vec<MemberRead>) -> FamilySummary {
        let tree = family.tree();
        let notes = family_notes(family, &mut read);
        let processes: Vec<ProcessTotals> =
            tree.processes.iter().map(|one| process_totals(family, &read, &one.images)).collect();
        let mut totals = FamilyTotals { processes: processes.len() as u64, ..FamilyTotals::default() };
        for one in &processes {
            totals.recorded += u64::from(one.recorded != 0);
            totals.unrecorded += u64::from(one.unrecorded != 0);
            totals.running += u64::from(one.running);
            totals.allocations = totals.allocations.saturating_add(one.allocations);
            totals.bytes_allocated = totals.bytes_allocated.saturating_add(one.bytes_allocated);
            totals.live_blocks = totals.live_blocks.saturating_add(one.live_blocks);
            totals.live_bytes = totals.live_bytes.saturating_add(one.live_bytes);
            totals.peak_of_one_bytes = totals.peak_of_one_bytes.max(one.peak_bytes);
            totals.errors = totals.errors.saturating_add(one.errors);
            totals.sampled |= one.sampled;
        }
        totals.together_at_most_bytes = together_at_most(&processes);
        for one in read.iter().filter_map(MemberRead::totals) {
            totals.frees = totals.frees.saturating_add(one.frees);
            totals.failed_calls = totals.failed_calls.saturating_add(one.failed_calls);
        }
        let began = processes.iter().map(|one| one.began_unix_ns).chain([family.head.started_unix_ns]);
        let began_unix_ns = began.filter(|began| *began != 0).min().unwrap_or(0);
        let members = read
            .into_iter()
            .map(|read| if let MemberRead::Totals(totals) = read { Some(totals) } else { None })
            .collect();
        FamilySummary { tree, members, inherited: Vec::new(), processes, totals, began_unix_ns, notes }
    }

    /// Which processes made a moment, with their bytes, as indices of [`ProcessTree::processes`]; those that are not in the
    /// session are left out.
    pub fn makers(&self, moment: &FamilyMemory) -> Vec<(usize, u64)> {
        let place = |pid: u32, start_ticks: u64| {
            self.tree.processes.iter().position(|one| one.pid == pid && one.start_ticks == start_ticks)
        };
        let most = moment.most.iter();
        most.filter_map(|(pid, start_ticks, bytes)| Some((place(*pid, *start_ticks)?, *bytes))).collect()
    }
}

/// The highest that the peaks of all come to that were there at once.
fn together_at_most(processes: &[ProcessTotals]) -> u64 {
    let mut changes: Vec<(u64, bool, u64)> = Vec::with_capacity(processes.len() * 2);
    for one in processes.iter().filter(|one| one.peak_bytes != 0) {
        changes.push((one.began_unix_ns, false, one.peak_bytes));
        // Of whom no end is known may be there as long as anybody.
        if let Some(lasted) = one.lasted_ns.filter(|_| !one.running && !one.lasted_at_least) {
            changes.push((one.began_unix_ns.saturating_add(lasted), true, one.peak_bytes));
        }
    }
    // At one moment, beginnings before ends: they may have met.
    changes.sort_unstable();
    let (mut now, mut most) = (0u64, 0u64);
    for (_, is_end, bytes) in changes {
        now = if is_end { now.saturating_sub(bytes) } else { now.saturating_add(bytes) };
        most = most.max(now);
    }
    most
}

/// Names of programs of one process that are shown.
const PROGRAMS_SHOWN: usize = 3;

fn process_totals(family: &Family, read: &[MemberRead], images: &[usize]) -> ProcessTotals {
    let mut one = ProcessTotals::default();
    let (mut ended, mut spanned) = (None, None);
    let count = images.len();
    for (place, index) in images.iter().enumerate() {
        let (Some(member), Some(read)) = (family.members.get(*index), read.get(*index)) else { continue };
        let process = &member.process;
        if place == 0 {
            one.began_unix_ns = process.began_unix_ns;
        }
        if (read.totals().is_some() || place + 1 == count) && one.programs.last() != Some(&process.program) {
            one.programs.push(process.program.clone());
        }
        ended = process.ended_unix_ns;
        one.end = process.end;
        match read {
            MemberRead::Totals(totals) => {
                one.recorded += 1;
                one.peak_bytes = one.peak_bytes.max(totals.peak.bytes);
                // What an earlier program held went with its memory.
                (one.live_blocks, one.live_bytes) = (totals.live_blocks, totals.live_bytes);
                one.allocations = one.allocations.saturating_add(totals.allocations);
                one.bytes_allocated = one.bytes_allocated.saturating_add(totals.bytes_allocated);
                one.errors = one.errors.saturating_add(totals.errors);
                one.sampled |= totals.sampled.is_some();
                one.running = totals.running;
                spanned = totals.start_unix_ns.zip(totals.span_ns).map(|(start, span)| start.saturating_add(span));
            }
            MemberRead::Without(None) => one.running = false,
            MemberRead::Without(Some(_)) | MemberRead::Failed(_) => one.unrecorded += 1,
        }
    }
    if one.programs.len() > PROGRAMS_SHOWN {
        one.programs.drain(..one.programs.len() - PROGRAMS_SHOWN);
    }
    let until = ended.or(spanned).filter(|until| one.began_unix_ns != 0 && *until >= one.began_unix_ns);
    one.lasted_ns = until.map(|until| until - one.began_unix_ns);
    one.lasted_at_least = one.lasted_ns.is_some() && ended.is_none() && !one.running;
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(began_unix_ns: u64, lasted_ns: Option<u64>, peak_bytes: u64) -> ProcessTotals {
        ProcessTotals { began_unix_ns, lasted_ns, peak_bytes, ..ProcessTotals::default() }
    }

    #[test]
    fn only_processes_of_one_time_add_up() {
        let mut all = vec![process(10, Some(10), 5), process(20, Some(10), 7), process(31, Some(5), 11)];
        assert_eq!(together_at_most(&all), 12, "the second begins as the first ends");
        all.push(process(0, None, 100));
        assert_eq!(together_at_most(&all), 112, "one without an end is there all the time");
        all.push(ProcessTotals { lasted_at_least: true, ..process(0, Some(1), 1000) });
        assert_eq!(together_at_most(&all), 1112, "and one whose end nobody saw may be");
        assert_eq!(together_at_most(&[process(1, Some(1), u64::MAX), process(1, Some(9), u64::MAX)]), u64::MAX);
        assert_eq!(together_at_most(&[]), 0);
    }
}
