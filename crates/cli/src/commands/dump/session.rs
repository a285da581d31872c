//! Live blocks of a session, added up: one ledger after the other.

use std::time::SystemTime;

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::Scope;
use heapledger_analysis::{Clock, FamilyGroups, Groups, Seen};
use heapledger_report::FamilyGroupsReport;
use heapledger_source::Family;
use heapledger_symbols::Symbolizer;

use super::DumpArgs;
use crate::commands::sessions::{self, NamesNotes, ProcessLabels, TopLevel};
use crate::commands::standard::Usage;

/// Groups shown to a person who did not say how many.
const GROUPS: usize = 20;
/// What means the same in all processes.
const BY: [Field; 3] = [Field::Function, Field::File, Field::Module];

/// What blocks are added up by: the process or program, if that comes first, and the rest.
fn asked(args: &DumpArgs) -> Result<(Option<TopLevel>, Vec<Field>)> {
    let wrong = |what: &str| {
        let said = "of a session live blocks are added up: --group-by with process or program, fn, file or module";
        Usage::new(format!("{what}; {said}; for more, one process: SESSION:PID"))
    };
    let Some(list) = args.groups.group_by.as_deref() else {
        return Err(wrong("single blocks are of one process").into());
    };
    let is_of_the_end = args.figure.at.of_one_process().is_ok();
    if args.figure.measure()? != heapledger_analysis::tree::Measure::LiveBytes || !is_of_the_end {
        return Err(wrong("--by and --at are of one process here (`heapledger tree` has them of a session)").into());
    }
    let (first, rest) = list.split_once(',').unwrap_or((list, ""));
    let top = match first.trim() {
        "process" => Some(TopLevel::Process),
        "program" => Some(TopLevel::Program),
        _ => None,
    };
    let rest = if top.is_some() { rest } else { list };
    let by = if top.is_some() && rest.is_empty() { Ok(Vec::new()) } else { Field::parse_groups(rest) };
    let by = by.map_err(|error| Usage::in_value("--group-by", &error))?;
    match by.iter().find(|field| !BY.contains(field)) {
        Some(other) => Err(wrong(&format!("{} says something of one process alone", other.name())).into()),
        None => Ok((top, by)),
    }
}

/// The session that was named, if it is meant as a whole. What is asked for only of sessions is refused where there is none.
pub(super) fn meant(args: &DumpArgs) -> Result<Option<Family>> {
    args.filter.parse()?;
    let family = args.ledger.session()?;
    let first = args.groups.group_by.as_deref().and_then(|list| list.split(',').next()).unwrap_or("").trim();
    if family.is_none() && ["process", "program"].contains(&first) {
        return Err(Usage::new("--group-by process and program are for sessions of several processes").into());
    }
    Ok(family)
}

/// Shows the live blocks of `family`.
pub(super) fn show(args: &DumpArgs, family: &Family) -> Result<()> {
    let (top, by) = asked(args)?;
    let (order, holders) = (args.sort.groups()?, args.filter.holders()?);
    let mut labels = ProcessLabels::new(top.unwrap_or(TopLevel::Process));
    let mut symbolizer: Option<Symbolizer> = None;
    let (mut names_notes, mut all) = (NamesNotes::default(), FamilyGroups::default());
    let notes = sessions::each_ledger(family, &args.naming, &mut |member, ledger| {
        let label = labels.next(member);
        // What it held went with its memory.
        if sessions::went_on(member) {
            return Ok(Seen::of(&ledger, 0)?.notes);
        }
        by.iter().try_for_each(|by| by.check_in(&ledger, Scope::Blocks))?;
        let clock = Clock::new(&ledger, SystemTime::now())?;
        let names = args.naming.names_with(&ledger, symbolizer.take())?;
        let mut filter = args.filter.evaluator(&ledger, clock, Scope::Blocks, names)?;
        let groups = Groups::of(&ledger, &by, &mut filter, &holders, (&order, 0), &mut |_| ())?;
        let mut names = filter.into_names();
        names_notes.add(&mut names);
        symbolizer = Some(names.into_symbolizer());
        all.add(top.map(|_| label.as_str()), &groups);
        Ok(Seen::of(&ledger, groups.in_flight)?.notes)
    })?;
    let form = args.form.get();
    let limit = args.groups.top.or(args.limit.limit);
    all.finish(&order, limit.unwrap_or(if form.is_for_programs() { 0 } else { GROUPS }));
    let mut seen = sessions::seen(notes);
    seen.join(names_notes.seen.notes);
    let mut report = FamilyGroupsReport {
        session: &args.ledger.ledger.to_string_lossy(),
        top: top.map(|top| if top == TopLevel::Process { "process" } else { "program" }),
        by: &by,
        groups: &all,
        filter: args.filter.parse()?.expr().map(ToString::to_string),
        paint: args.ledger.paint(),
        seen: &seen,
    };
    args.ledger.view.present(form, &mut report)
}
