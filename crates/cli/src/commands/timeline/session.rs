//! The timeline of a session: all processes together.

use anyhow::{Result, bail};
use heapledger_analysis::{FamilyCurve, family_notes};
use heapledger_report::{FamilyTimelineReport, counted};
use heapledger_source::Family;

use super::{TimelineArgs, picture};
use crate::commands::sessions;

/// Shows how the heaps of `family` grew together.
pub(super) fn show(args: &TimelineArgs, family: &Family) -> Result<()> {
    let curve = FamilyCurve::of(family);
    if curve.moments.is_empty() {
        bail!(
            "{}: run looked at no moment at its processes together, which may have been too short; SESSION:PID shows one of them",
            family.directory().display()
        );
    }
    let first = family.members.iter().find_map(|member| member.open().ok()?);
    let program = family.head.command.first().map(|path| path.rsplit('/').next().unwrap_or(path));
    let mut report = FamilyTimelineReport {
        session: &args.ledger.ledger.to_string_lossy(),
        program: program.unwrap_or("unknown"),
        curve: &curve,
        is_sampled: first.is_some_and(|ledger| ledger.sample_interval() != 0),
        paint: args.ledger.paint(),
        seen: &sessions::seen(family_notes(family, &mut [])),
    };
    match &args.svg {
        Some(path) => {
            picture(path, &mut report, args.ledger.paint(), counted(curve.moments.len() as u64, "look", "looks"))
        }
        None => args.ledger.view.present(args.form.get(), &mut report),
    }
}
