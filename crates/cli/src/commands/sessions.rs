//! What commands on a session of several processes have in common: its ledgers are opened one after the other, and what was found of a
//! module's names serves all processes that have loaded it.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Result;
use heapledger_analysis::query::Evaluator;
use heapledger_analysis::tree::{SiteSums, Threads};
use heapledger_analysis::{FamilyNote, Identity, MemberRead, MemberTotals, Names, Note, Seen, family_notes};
use heapledger_source::{Family, Ledger, Member, MemberEnd};

use super::standard::Usage;
use super::{NamingArgs, Progress};

mod labels;
mod peak;

pub(crate) use labels::{ProcessLabels, TopLevel};
pub(crate) use peak::{FigureAt, SessionPeak};

/// Has `add` take each ledger of `family`, which says what was not seen of it. What was not seen of all.
///
/// # Errors
/// If something was typed wrongly. A ledger that cannot be read is one that was not seen.
pub(crate) fn each_ledger(
    family: &Family,
    naming: &NamingArgs,
    add: &mut dyn FnMut(&Member, Ledger) -> Result<Vec<Note>>,
) -> Result<Vec<FamilyNote>> {
    let mut progress = Progress::new("reading");
    let mut read = Vec::with_capacity(family.members.len());
    let mut fits = false;
    for (index, member) in family.members.iter().enumerate() {
        progress.show(index as f32 / family.members.len() as f32);
        let Ok(Some(ledger)) = member.open() else {
            read.push(MemberRead::of(member, SystemTime::now()));
            continue;
        };
        fits = fits || naming.fits(&ledger);
        read.push(match add(member, ledger) {
            Ok(notes) => MemberRead::Totals(MemberTotals { notes, ..MemberTotals::default() }),
            // What was typed is wrong for all of them.
            Err(error) if error.is::<Usage>() => return Err(error),
            Err(error) => MemberRead::Failed(format!("{error:#}")),
        });
    }
    if !fits && read.iter().any(|read| read.totals().is_some()) {
        return Err(Usage::new("--exe: no process of the session has loaded such a file").into());
    }
    Ok(family_notes(family, &mut read))
}

/// The notes of a session as those of any report.
pub(crate) fn seen(notes: Vec<FamilyNote>) -> Seen {
    Seen { notes: notes.into_iter().map(|note| Note::Family(Box::new(note))).collect() }
}

/// What stands for the program of a session.
pub(crate) fn identity(family: &Family) -> Identity {
    let program = family.head.command.first().map(|path| path.rsplit('/').next().unwrap_or(path).to_owned());
    let program = program.unwrap_or_else(|| "unknown".to_owned());
    Identity {
        program: Some(format!("{program} and its processes")),
        args: family.head.command.clone(),
        running: family.is_running(),
        ..Identity::default()
    }
}

/// Whether what lived at the end of this program went with its memory, because the process went on as another one.
pub(crate) fn went_on(member: &Member) -> bool {
    member.process.end == Some(MemberEnd::Exec)
}

/// What is to be shown of one process: what lives, or what lived when the session had most.
///
/// # Errors
/// If its ledger can no longer be read.
pub(crate) fn added_up(
    peak: Option<&mut SessionPeak>,
    member: &Member,
    ledger: &Ledger,
    threads: Threads,
    filter: &mut Evaluator<'_>,
) -> Result<SiteSums> {
    if let Some(peak) = peak {
        return peak.add_up(member, ledger, threads, filter);
    }
    let mut sums = SiteSums::of(ledger, threads, Some(filter), &mut |_| ())?;
    if went_on(member) {
        sums.end_all();
    }
    Ok(sums)
}

/// What stood in the way of names, of all ledgers.
#[derive(Default)]
pub(crate) struct NamesNotes {
    pub(crate) seen: Seen,
    modules: HashSet<(PathBuf, Vec<u8>)>,
}

impl NamesNotes {
    /// That of the next ledger. What can be done about a module is looked for once, however many processes have loaded it.
    pub(crate) fn add(&mut self, names: &mut Names<'_>) {
        let before = self.modules.len();
        self.modules.extend(names.asked().map(|(path, build_id)| (path.to_owned(), build_id.to_owned())));
        if self.modules.len() != before {
            self.seen.join(names.notes());
        }
    }
}
