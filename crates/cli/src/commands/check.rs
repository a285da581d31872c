//! `heapledger check`: whether a program kept its limits, for CI.

use std::process::ExitCode;

use anyhow::{Result, bail};
use heapledger_analysis::{Figure, Finding, Note, Verdict, check};
use heapledger_report::CheckReport;
use heapledger_source::Ledger;

use super::unless_pipe_closed;

mod args;
mod errors;
mod evidence;
mod grown;
mod growth;
mod leaked;
mod responsible;
mod written;

pub(crate) use args::{CheckArgs, Inconclusive};
use evidence::open_baseline;
use leaked::leaked;
use responsible::Naming;

/// Exit code when there is nothing to be checked: wrong usage, no ledger.
const UNUSABLE: u8 = 2;

/// Checks a ledger.
pub(crate) fn run(mut args: CheckArgs) -> Result<ExitCode> {
    let mut code = UNUSABLE;
    let apart = args.executable.put_apart(&mut args.ledger.ledger, &mut args.naming);
    match unless_pipe_closed(apart.and_then(|()| checked(&args, &mut code))) {
        Ok(()) => Ok(ExitCode::from(code)),
        Err(problem) => {
            crate::say_problem(&problem);
            Ok(ExitCode::from(UNUSABLE))
        }
    }
}

fn checked(args: &CheckArgs, code: &mut u8) -> Result<()> {
    let limits = args.limits()?;
    let suppressions = args.suppress.get()?;
    let opened = args.ledger.open()?;
    let ledger = &opened.ledger;
    if limits.leaked.is_some() && ledger.is_running() {
        let name = ledger.process().program().unwrap_or_else(|| "the program".to_owned());
        bail!(
            "{name} is running: what it leaks is known when it has ended; --max-live has a limit for what it holds now"
        );
    }
    let baseline = args.baseline.as_deref().map(open_baseline).transpose()?;
    let both: Vec<&Ledger> = [ledger].into_iter().chain(baseline.as_ref().map(|(ledger, _)| ledger)).collect();
    args.naming.check(&both)?;
    let mut evidence = evidence::of(args, ledger, opened.context.clock)?;
    let mut before = baseline.as_ref().map(|(ledger, clock)| evidence::of(args, ledger, *clock)).transpose()?;
    let sites = evidence.sites().to_vec();
    let mut naming = Naming { names: None, args: &args.naming, ledger, sites: &sites };
    let leaked = match limits.leaked {
        Some(_) => Some(leaked(args, &suppressions, &evidence, &mut naming)?),
        None => None,
    };
    let (errors, excused) = errors::found(&limits, &mut evidence, &mut naming, &opened.context, &suppressions)?;
    // Conditions and suppressions go by names: where these are damaged, fewer blocks may have been counted.
    evidence.renew_damage(ledger);
    if let (Some(before), Some((old, _))) = (&mut before, &baseline) {
        before.renew_damage(old);
    }
    let mut findings = check(&evidence, &limits, leaked.as_ref(), before.as_ref());
    if !args.filter.parse()?.is_all() {
        findings.retain(|finding| finding.figure != Figure::PeakGrowth);
    }
    let open = |finding: &&mut Finding| finding.verdict != Verdict::Holds;
    let old = baseline.as_ref().map(|(ledger, _)| ledger).zip(before.as_ref());
    for finding in findings.iter_mut().filter(open) {
        finding.responsible = naming.responsible(args, finding, leaked.as_ref(), old)?;
    }
    let mut seen = evidence.summary.seen.clone();
    seen.notes.extend(naming.names.iter_mut().flat_map(|names| names.notes()));
    let notes = before.iter().flat_map(|before| &before.summary.seen.notes);
    seen.notes.extend(notes.filter(|note| matches!(note, Note::FoundBy(_))).cloned());
    let base = std::env::current_dir().map(|path| format!("{}/", path.display())).unwrap_or_default();
    let mut report = CheckReport {
        ledger: &opened.context.ledger,
        summary: &evidence.summary,
        findings: &findings,
        leaked: leaked.as_ref(),
        errors: &errors,
        excused: &excused,
        top: args.top,
        lenient: args.inconclusive == Inconclusive::Pass,
        seen: &seen,
        base: &base,
        paint: opened.context.paint,
    };
    *code = report.code();
    written::write(args, &mut report)
}
