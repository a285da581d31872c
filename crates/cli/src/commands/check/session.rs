//! A session, checked: each of its processes, and all together.

use anyhow::{Result, bail};
use heapledger_analysis::{FamilyNote, Figure, Finding, Limits, MemberTotals, Suppressions};
use heapledger_report::{CheckedPart, FamilyCheck};
use heapledger_source::{Family, ProcessKey};

use super::one::{BeforeIt, CheckedLedger};
use super::shares::explain;
use super::sum::{CheckedMember, sum};
use super::{CheckArgs, Inconclusive, base, written};
use crate::commands::sessions::{self, ProcessLabels, TopLevel};
use crate::commands::standard::Usage;

/// What limits of a session are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CheckedOf {
    /// Each process
    Each,
    /// All processes together
    Sum,
    /// Both
    Both,
}

/// What all processes together are called among them.
const TOGETHER: &str = "all processes together";

/// Checks `family`.
pub(super) fn checked(
    args: &CheckArgs,
    (limits, suppressions): (&Limits, &Suppressions),
    family: &Family,
    code: &mut u8,
) -> Result<()> {
    if args.baseline.is_some() {
        return Err(Usage::new("--baseline compares two ledgers: SESSION:PID").into());
    }
    let mut labels = ProcessLabels::new(TopLevel::Process);
    let mut before_it = BeforeIt::default();
    let mut parts: Vec<CheckedMember> = Vec::new();
    let notes = sessions::each_ledger(family, &args.naming, &mut |member, ledger| {
        let (name, path) = (labels.next(member), ledger.path().to_owned());
        before_it.went_on = sessions::went_on(member);
        let opened = args.ledger.opened(&[path.as_os_str()], ledger)?;
        let mut one = CheckedLedger::of(args, (limits, suppressions), &opened, None, &mut before_it)?;
        one.slim();
        let totals =
            MemberTotals { peak: one.summary.peak, running: one.summary.identity.running, ..MemberTotals::default() };
        let clock = one.summary.clock;
        let totals = MemberTotals { span_ns: clock.span_ns(), start_unix_ns: clock.start_unix_ns(), ..totals };
        let path = path.to_string_lossy().into_owned();
        let (key, went_on) = (member.process.key(), before_it.went_on);
        parts.push(CheckedMember { key, name, path, totals, went_on, one });
        Ok(Vec::new())
    })?;
    let Some(first) = parts.first() else {
        bail!("{} has no ledger that could be checked", family.directory().display());
    };
    // Of copies nothing is missing.
    let is_complete = notes.iter().all(|note| matches!(note, FamilyNote::CopiesLeftOut(_)));
    let mut sum = (args.of != CheckedOf::Each).then(|| CheckedMember {
        key: ProcessKey::default(),
        name: TOGETHER.to_owned(),
        path: family.directory().to_string_lossy().into_owned(),
        totals: MemberTotals::default(),
        went_on: false,
        one: sum(family, first, &parts, args.allow_losses || is_complete),
    });
    if let Some(sum) = &mut sum {
        explain(args, (limits, suppressions), family, &mut sum.one.findings, &parts)?;
    }
    let of_live = |finding: &Finding| finding.figure.is_of_live_blocks() || finding.figure == Figure::Leaked;
    let went_on = parts.iter().filter(|part| part.went_on && part.one.findings.iter().any(of_live)).count();
    if args.of == CheckedOf::Sum {
        parts.clear();
    }
    parts.extend(sum);
    let seen = sessions::seen(notes);
    let (base, name) = (base(), args.ledger.ledger.to_string_lossy());
    let made =
        parts.iter().map(|part| CheckedPart { name: &part.name, report: part.one.report(args, &part.path, &base) });
    let mut report = FamilyCheck {
        session: &name,
        parts: made.collect(),
        has_sum: args.of != CheckedOf::Each,
        went_on,
        seen: &seen,
        allow_losses: args.allow_losses,
        lenient: args.inconclusive == Inconclusive::Pass,
        paint: args.ledger.paint(),
    };
    *code = report.code();
    written::write(args, &mut report, |report, paint| report.set_paint(paint))
}
