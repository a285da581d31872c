//! The stacks of the ledgers that are exported.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::time::SystemTime;

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::Scope;
use heapledger_analysis::tree::{Measure, Side, SiteSums, Threads};
use heapledger_analysis::{Clock, Note, Seen, sizes_by_site};
use heapledger_export::{LedgerSums, Profile, ProfileAbout};
use heapledger_format::ThreadRow;
use heapledger_report::{Figures, history_gap, thread_name};
use heapledger_source::{Ledger, Thread};

use super::ExportArgs;
use crate::commands::{Progress, SourceText, find_names};
use crate::terminal::Color;

/// Kinds of blocks, by call site and size, that are told apart: some hundred megabytes.
const SIZES_MAX: usize = 2 << 20;

/// What was read.
pub(super) struct ExportRead {
    pub(super) profile: Profile,
    pub(super) seen: Seen,
}

/// Reads one ledger, or two to compare, the newer one first.
pub(super) fn read(args: &ExportArgs, shown: &[&OsStr], ledgers: &[Ledger]) -> Result<ExportRead> {
    args.naming.check(&ledgers.iter().collect::<Vec<_>>())?;
    // Functions are left out that somebody named, and no others.
    let holders = args.filter.shown(true)?;
    let (mut profile, mut seen) = (Profile::new(ProfileAbout::default()), Seen::default());
    for ((ledger, name), side) in ledgers.iter().zip(shown).zip([Side::New, Side::Old]) {
        let first = if args.threads { Field::Thread } else { Field::Stack };
        first.check_in(ledger, Scope::Events)?;
        let mut progress = Progress::new("reading");
        let clock = Clock::new(ledger, SystemTime::now())?;
        let mut filter = args.filter.evaluator(ledger, clock, Scope::Events, args.naming.no_names(ledger)?)?;
        let apart = if args.threads { Threads::Apart } else { Threads::Together };
        args.figure.at.of_one_process()?;
        let sums = SiteSums::of(ledger, apart, Some(&mut filter), &mut |part| progress.show(part))?;
        args.figure.check(&sums)?;
        let sizes = match args.format.needs_sizes && args.figure.measure()? == Measure::LiveBytes {
            true => sizes_by_site(ledger, Some(&mut filter), SIZES_MAX, &mut |part| progress.show(part))?,
            false => None,
        };
        drop(progress);
        let mut names = filter.into_names();
        if ledgers.len() == 1 && sums.sites.is_empty() {
            args.filter.tell_unknown(ledger, &mut names)?;
        }
        find_names(&mut names, sums.sites.iter().map(|sum| sum.site), SourceText::NotShown)?;
        let threads: HashMap<ThreadRow, Thread> =
            ledger.threads()?.into_iter().map(|thread| (thread.row, thread)).collect();
        let thread = |row: Option<ThreadRow>| thread_name(row, row.and_then(|row| threads.get(&row)));
        let shown = Path::new(name).to_string_lossy();
        let of = LedgerSums { shown: &shown, ledger, clock, sums: &sums };
        if side == Side::New {
            profile.about = ProfileAbout::of(&of)?;
            profile.about.measure = args.figure.measure()?;
        }
        let nodes = profile.read(side, &of, &mut names, &holders, &thread)?;
        profile.sizes = sizes.and_then(|sizes| profile.sized(&sizes, &nodes));
        profile.about.notes.extend(remarks(&sums, figures_of(args)));
        let mut notes = Seen::of(ledger, sums.in_flight)?.notes;
        notes.extend(names.notes());
        notes.retain(|note: &Note| !seen.notes.contains(note));
        seen.notes.extend(notes);
    }
    Ok(ExportRead { profile, seen })
}

/// How figures are said that are no estimates.
pub(super) fn figures_of(args: &ExportArgs) -> Figures {
    Color::Never.paint(args.bytes).exact_figures()
}

/// What the figures leave out, or may be off by.
pub(super) fn remarks(sums: &SiteSums, figures: Figures) -> Vec<String> {
    let error = sums.peak_error.filter(|error| *error != 0 && sums.is_whole);
    let error = error.map(|error| format!("what lived at the peak may be off by {}", figures.bytes(error)));
    history_gap(sums).into_iter().chain(error).collect()
}
