//! The stacks of a session: each process stands where a thread would, which all formats have a place for.

use std::time::SystemTime;

use anyhow::Result;
use heapledger_analysis::query::Scope;
use heapledger_analysis::tree::{Side, SiteSums, Threads};
use heapledger_analysis::{Clock, FamilyNote, Holders, Note, Seen};
use heapledger_export::{KnownFigures, LedgerSums, Profile, ProfileAbout};
use heapledger_source::{Family, Ledger, Member};
use heapledger_symbols::Symbolizer;

use super::ExportArgs;
use super::read::{ExportRead, figures_of, remarks};
use crate::commands::sessions::{self, NamesNotes, ProcessLabels, SessionPeak};
use crate::commands::standard::Usage;
use crate::commands::{SourceText, find_names};

/// What goes from one ledger to the next.
struct SessionStacks<'a> {
    args: &'a ExportArgs,
    holders: Holders,
    profile: Profile,
    known: Option<KnownFigures>,
    sums: Option<SiteSums>,
    symbolizer: Option<Symbolizer>,
    names: NamesNotes,
    peak: Option<SessionPeak>,
}

/// Reads all ledgers of `family`, one after the other.
pub(super) fn read(args: &ExportArgs, family: &Family) -> Result<ExportRead> {
    if args.threads || args.diff.is_some() {
        let what = if args.threads { "--threads" } else { "--diff" };
        return Err(Usage::new(format!(
            "{what} is of one process: SESSION:PID; of a session processes are told apart"
        ))
        .into());
    }
    let measure = args.figure.measure()?;
    let about = ProfileAbout {
        ledgers: vec![args.ledger.to_string_lossy().into_owned()],
        program: sessions::identity(family).program,
        args: family.head.command.clone(),
        start_unix_ns: Some(family.head.started_unix_ns).filter(|began| *began != 0),
        span_ns: family.ended.as_ref().map(|ended| ended.unix_ns.saturating_sub(family.head.started_unix_ns)),
        measure,
        by_thread: true,
        ..ProfileAbout::default()
    };
    let holders = args.filter.shown(true)?;
    let mut reading = SessionStacks {
        args,
        holders,
        profile: Profile::new(about),
        known: None,
        sums: None,
        symbolizer: None,
        names: NamesNotes::default(),
        peak: args.figure.at.session_peak(family)?,
    };
    let mut labels = ProcessLabels::new(args.group_by);
    let mut notes = sessions::each_ledger(family, &args.naming, &mut |member, ledger| {
        reading.add(member, &ledger, &labels.next(member))
    })?;
    notes.extend(measure.is_of_peak().then_some(FamilyNote::OwnPeaks));
    notes.extend(reading.peak.as_ref().map(SessionPeak::note));
    let SessionStacks { mut profile, known, sums, names, .. } = reading;
    profile.about.known = known.unwrap_or_default();
    profile.about.notes.extend(sums.iter().flat_map(|sums| remarks(sums, figures_of(args))));
    profile.about.notes.push("what is called a thread in the file is a process of the session".to_owned());
    let mut seen = sessions::seen(notes);
    seen.join(names.seen.notes);
    Ok(ExportRead { profile, seen })
}

impl SessionStacks<'_> {
    fn add(&mut self, member: &Member, ledger: &Ledger, label: &str) -> Result<Vec<Note>> {
        let args = self.args;
        let clock = Clock::new(ledger, SystemTime::now())?;
        let names = args.naming.names_with(ledger, self.symbolizer.take())?;
        let mut filter = args.filter.evaluator(ledger, clock, Scope::Events, names)?;
        let mut sums = sessions::added_up(self.peak.as_mut(), member, ledger, Threads::Together, &mut filter)?;
        let mut names = filter.into_names();
        let shown = args.figure.check(&sums);
        if shown.is_ok() {
            find_names(&mut names, sums.sites.iter().map(|sum| sum.site), SourceText::NotShown)?;
            let known = KnownFigures::of(&sums);
            self.known = Some(self.known.map_or(known, |before| before.and(known)));
            // Whatever the thread, its process is told.
            sums.by_thread = true;
            let of = LedgerSums { shown: label, ledger, clock, sums: &sums };
            self.profile.read(Side::New, &of, &mut names, &self.holders, &|_| label.to_owned())?;
            self.profile.about.sample_interval = self.profile.about.sample_interval.max(ledger.sample_interval());
            self.names.add(&mut names);
        }
        self.symbolizer = Some(names.into_symbolizer());
        shown?;
        let notes = Seen::of(ledger, sums.in_flight)?.notes;
        match &mut self.sums {
            Some(all) => all.join_totals(&sums),
            None => self.sums = Some(sums),
        }
        Ok(notes)
    }
}
