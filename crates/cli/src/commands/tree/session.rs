//! The tree of a session: processes, or programs, with the call trees of all their ledgers below.

use std::collections::HashMap;
use std::time::SystemTime;

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Scope, TreeOrder};
use heapledger_analysis::tree::{SameFunction, Side, SiteSums, Threads, TreeBuilder};
use heapledger_analysis::{Clock, FamilyNote, Note, Seen};
use heapledger_format::ThreadRow;
use heapledger_report::thread_name;
use heapledger_source::{Family, Ledger, Member, Thread};
use heapledger_symbols::Symbolizer;

use super::{Grown, ShapeArgs, TreeArgs};
use crate::commands::sessions::{self, NamesNotes, ProcessLabels, SessionPeak};
use crate::commands::{SourceText, find_names};

/// Shows the tree of `family`.
pub(super) fn show(args: &TreeArgs, order: Option<&TreeOrder>, family: &Family) -> Result<()> {
    let grown = args.shape.grow_session(family, args.shape.wrappers)?;
    let name = args.ledger.ledger.to_string_lossy();
    super::present(args, grown, order, (&name, &sessions::identity(family)))
}

/// What goes from one ledger to the next.
#[derive(Default)]
struct Growing {
    symbolizer: Option<Symbolizer>,
    names: NamesNotes,
    sums: Option<SiteSums>,
    peak: Option<SessionPeak>,
}

impl ShapeArgs {
    /// The tree of a session, callers first.
    pub(in crate::commands) fn grow_session(&self, family: &Family, wrappers: bool) -> Result<Grown> {
        let measure = self.figure.measure()?;
        let holders = self.filter.shown(wrappers)?;
        let mut builder = TreeBuilder::new(SameFunction::InModule, &holders);
        let mut labels = ProcessLabels::new(self.group_by);
        let mut growing = Growing { peak: self.figure.at.session_peak(family)?, ..Growing::default() };
        let mut notes = sessions::each_ledger(family, &self.naming, &mut |member, ledger| {
            builder.below_process(self.group_by.level(), &labels.next(member));
            self.add_member(&mut builder, member, &ledger, &mut growing)
        })?;
        notes.extend(measure.is_of_peak().then_some(FamilyNote::OwnPeaks));
        notes.extend(growing.peak.as_ref().map(SessionPeak::note));
        let mut seen = sessions::seen(notes);
        seen.join(growing.names.seen.notes);
        Ok(Grown { tree: builder.finish(), sums: vec![growing.sums.unwrap_or_default()], seen })
    }

    /// Adds one ledger; what was not seen of it.
    fn add_member(
        &self,
        builder: &mut TreeBuilder<'_>,
        member: &Member,
        ledger: &Ledger,
        growing: &mut Growing,
    ) -> Result<Vec<Note>> {
        let first = if self.threads { Field::Thread } else { Field::Stack };
        first.check_in(ledger, Scope::Events)?;
        let clock = Clock::new(ledger, SystemTime::now())?;
        let names = self.naming.names_with(ledger, growing.symbolizer.take())?;
        let mut filter = self.filter.evaluator(ledger, clock, Scope::Events, names)?;
        let apart = if self.threads { Threads::Apart } else { Threads::Together };
        let sums = sessions::added_up(growing.peak.as_mut(), member, ledger, apart, &mut filter)?;
        let mut names = filter.into_names();
        let shown = self.figure.check(&sums);
        if shown.is_ok() {
            find_names(&mut names, sums.sites.iter().map(|sum| sum.site), SourceText::NotShown)?;
            let threads: HashMap<ThreadRow, Thread> =
                ledger.threads()?.into_iter().map(|thread| (thread.row, thread)).collect();
            let thread = |row: Option<ThreadRow>| thread_name(row, row.and_then(|row| threads.get(&row)));
            builder.add(Side::New, ledger, &sums, &mut names, &thread)?;
            growing.names.add(&mut names);
        }
        growing.symbolizer = Some(names.into_symbolizer());
        shown?;
        let notes = Seen::of(ledger, sums.in_flight)?.notes;
        match &mut growing.sums {
            Some(all) => all.join_totals(&sums),
            None => growing.sums = Some(sums),
        }
        Ok(notes)
    }
}
