//! One ledger, checked: all that a report on it is made of.

use anyhow::{Result, bail};
use heapledger_analysis::{
    Clock, Excused, Figure, Finding, Leaked, Limits, Note, Seen, Summary, Suppressions, Verdict, check,
};
use heapledger_report::{CheckReport, ErrorBrief, Paint};
use heapledger_source::Ledger;
use heapledger_symbols::Symbolizer;

use super::leaked::leaked;
use super::naming::Naming;
use super::{CheckArgs, Inconclusive, errors, evidence};
use crate::commands::Opened;

/// What is known of a session when the next of its ledgers is checked.
#[derive(Default)]
pub(super) struct BeforeIt {
    /// It has opened modules already.
    pub(super) symbolizer: Option<Symbolizer>,
    /// The process became another program: what was not freed went with its memory.
    pub(super) went_on: bool,
    /// Figures whose stacks are asked for although they hold: all processes together have too much of it.
    pub(super) explained: Vec<Figure>,
}

/// What was found of one ledger.
pub(super) struct CheckedLedger {
    pub(super) summary: Summary,
    pub(super) findings: Vec<Finding>,
    pub(super) leaked: Option<Leaked>,
    pub(super) errors: Vec<ErrorBrief>,
    pub(super) excused: Vec<Excused>,
    pub(super) seen: Seen,
    pub(super) paint: Paint,
}

impl CheckedLedger {
    /// Holds a ledger against the limits.
    pub(super) fn of(
        args: &CheckArgs,
        (limits, suppressions): (&Limits, &Suppressions),
        opened: &Opened,
        baseline: Option<&(Ledger, Clock)>,
        before_it: &mut BeforeIt,
    ) -> Result<CheckedLedger> {
        let BeforeIt { symbolizer, went_on, explained } = before_it;
        let ledger = &opened.ledger;
        if limits.leaked.is_some() && ledger.is_running() {
            let name = ledger.process().program().unwrap_or_else(|| "the program".to_owned());
            bail!(
                "{name} is running: what it leaks is known when it has ended; --max-live has a limit for what it holds now"
            );
        }
        let mut evidence = evidence::of(args, ledger, opened.context.clock, symbolizer)?;
        let mut before = baseline.map(|(ledger, clock)| evidence::of(args, ledger, *clock, &mut None)).transpose()?;
        let sites = evidence.sites().to_vec();
        let mut naming = Naming { names: None, args: &args.naming, ledger, sites: &sites, symbolizer };
        let leaked = match limits.leaked {
            Some(_) if *went_on => Some(Leaked::default()),
            Some(_) => Some(leaked(args, suppressions, &evidence, &mut naming)?),
            None => None,
        };
        let (errors, excused) = errors::found(limits, &mut evidence, &mut naming, &opened.context, suppressions)?;
        // Conditions and suppressions go by names: where these are damaged, fewer blocks may have been counted.
        evidence.renew_damage(ledger);
        if let (Some(before), Some((old, _))) = (&mut before, baseline) {
            before.renew_damage(old);
        }
        let mut findings = check(&evidence, limits, leaked.as_ref(), before.as_ref());
        if !args.filter.parse()?.is_all() {
            findings.retain(|finding| finding.figure != Figure::PeakGrowth);
        }
        if *went_on {
            findings = findings.into_iter().map(Finding::after_exec).collect();
        }
        let open = |finding: &&mut Finding| finding.verdict != Verdict::Holds || explained.contains(&finding.figure);
        let old = baseline.map(|(ledger, _)| ledger).zip(before.as_ref());
        for finding in findings.iter_mut().filter(open) {
            finding.responsible = naming.responsible(args, finding, leaked.as_ref(), old)?;
        }
        let mut seen = evidence.summary.seen.clone();
        seen.notes.extend(naming.notes());
        let notes = before.iter().flat_map(|before| &before.summary.seen.notes);
        seen.notes.extend(notes.filter(|note| matches!(note, Note::FoundBy(_))).cloned());
        let (summary, paint) = (evidence.summary, opened.context.paint);
        Ok(CheckedLedger { summary, findings, leaked, errors, excused, seen, paint })
    }

    /// Leaves out what no report on a check shows: there may be thousands of them.
    pub(super) fn slim(&mut self) {
        let summary = &mut self.summary;
        (summary.sites.top, summary.threads, summary.heaps) = (Vec::new(), Vec::new(), Vec::new());
        (summary.kinds, summary.accounts, summary.counters) = (Vec::new(), Vec::new(), Vec::new());
    }

    /// The report on it; `base` is where source files are named from.
    pub(super) fn report<'a>(&'a self, args: &CheckArgs, ledger: &'a str, base: &'a str) -> CheckReport<'a> {
        CheckReport {
            ledger,
            summary: &self.summary,
            findings: &self.findings,
            leaked: self.leaked.as_ref(),
            errors: &self.errors,
            excused: &self.excused,
            top: args.top,
            lenient: args.inconclusive == Inconclusive::Pass,
            seen: &self.seen,
            base,
            paint: self.paint,
        }
    }
}
