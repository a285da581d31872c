//! Two sessions of several processes, compared by program.

use std::path::Path;
use std::time::SystemTime;

use anyhow::Result;
use heapledger_analysis::{FamilySummary, programs_changed};
use heapledger_report::{FamilyDiff, family_seen};
use heapledger_source::Family;

use super::DiffArgs;
use crate::commands::Progress;
use crate::commands::figure::At;
use crate::commands::standard::Usage;

/// Programs that a person sees.
const PROGRAMS: usize = 20;

/// The two sessions that were named; `None` if neither is one.
///
/// # Errors
/// If one is and the other is not, or what is asked for is of ledgers.
pub(super) fn both(args: &DiffArgs) -> Result<Option<[Family; 2]>> {
    let is_session = |name: &std::ffi::OsString| !args.view.opening.members.is_any() && Family::is_at(Path::new(name));
    if !args.ledgers.iter().any(is_session) {
        return Ok(None);
    }
    let one = "one process of each: SESSION:PID";
    let [before, after] = args.ledgers.as_slice() else {
        return Err(Usage::new(format!("two sessions are compared, or {one}")).into());
    };
    if !(is_session(before) && is_session(after)) {
        return Err(Usage::new(format!("a session is compared with a session, or {one}")).into());
    }
    let of_ledgers = args.blocks
        || args.every.is_some()
        || args.after.is_some()
        || args.at != At::End
        || args.form.get().is_of_records()
        || !args.filter.parse()?.is_all();
    if of_ledgers || args.group_by.as_ref().is_some_and(|by| by != "program") {
        return Err(Usage::new(format!("sessions are compared by program, whole; to choose blocks, {one}")).into());
    }
    Ok(Some([Family::open(Path::new(before))?, Family::open(Path::new(after))?]))
}

/// Compares them.
pub(super) fn compare(args: &DiffArgs, families: &[Family; 2]) -> Result<()> {
    let mut progress = Progress::new("reading");
    let summaries =
        families.each_ref().map(|family| FamilySummary::of(family, SystemTime::now(), &mut |part| progress.show(part)));
    drop(progress);
    let [before, after] = &summaries;
    let mut seen = family_seen(before);
    seen.join(family_seen(after).notes);
    let names: Vec<String> = args.ledgers.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let mut report = FamilyDiff {
        sessions: [&names[0], &names[1]],
        changes: &programs_changed(before, after),
        limit: args.limit(PROGRAMS),
        estimated: before.totals.sampled || after.totals.sampled,
        seen: &seen,
        paint: args.view.paint(),
    };
    args.view.present(args.form.get(), &mut report)
}
