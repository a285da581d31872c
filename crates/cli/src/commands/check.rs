//! `heapledger check`: whether a program kept its limits, for CI.

use std::process::ExitCode;

use anyhow::Result;
use heapledger_source::Ledger;

use super::unless_pipe_closed;

mod args;
mod errors;
mod evidence;
mod grown;
mod growth;
mod leaked;
mod naming;
mod one;
mod responsible;
mod session;
mod shares;
mod sum;
mod written;

pub(crate) use args::{CheckArgs, Inconclusive};
use evidence::open_baseline;
use one::{BeforeIt, CheckedLedger};
pub(crate) use session::CheckedOf;

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
    if let Some(family) = args.ledger.session()? {
        return session::checked(args, (&limits, &suppressions), &family, code);
    }
    let opened = args.ledger.open()?;
    let baseline = args.baseline.as_deref().map(open_baseline).transpose()?;
    let both: Vec<&Ledger> = [&opened.ledger].into_iter().chain(baseline.as_ref().map(|(ledger, _)| ledger)).collect();
    args.naming.check(&both)?;
    let one = CheckedLedger::of(args, (&limits, &suppressions), &opened, baseline.as_ref(), &mut BeforeIt::default())?;
    let base = base();
    let mut report = one.report(args, &opened.context.ledger, &base);
    *code = report.code();
    written::write(args, &mut report, |report, paint| report.paint = paint)
}

/// The directory from which source files are named.
fn base() -> String {
    std::env::current_dir().map(|path| format!("{}/", path.display())).unwrap_or_default()
}
