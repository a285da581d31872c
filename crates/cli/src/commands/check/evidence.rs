//! What a ledger says to limits.

use std::path::Path;
use std::time::SystemTime;

use anyhow::Result;
use heapledger_analysis::query::Scope;
use heapledger_analysis::{Clock, Evidence, MatchingBlocks, Summary};
use heapledger_source::Ledger;
use heapledger_symbols::Symbolizer;

use super::CheckArgs;
use crate::commands::Progress;
use crate::commands::opening::{OpeningArgs, open_target};

/// Opens what is compared with.
pub(super) fn open_baseline(path: &Path) -> Result<(Ledger, Clock)> {
    let ledger = open_target(path.as_os_str(), &OpeningArgs::default())?;
    let clock = Clock::new(&ledger, SystemTime::now())?;
    Ok((ledger, clock))
}

/// The totals with all call sites, and the live blocks that are meant.
pub(super) fn of(
    args: &CheckArgs,
    ledger: &Ledger,
    clock: Clock,
    symbolizer: &mut Option<Symbolizer>,
) -> Result<Evidence> {
    let mut progress = Progress::new("reading");
    let summary = Summary::of(ledger, clock, usize::MAX, &mut |part| progress.show(part))?;
    let mut filter =
        args.filter.evaluator(ledger, clock, Scope::Blocks, args.naming.names_with(ledger, symbolizer.take())?)?;
    let mut held = None;
    if !filter.is_all() {
        let found = MatchingBlocks::of(ledger, &mut filter, &mut |part| progress.show(part))?;
        if found.blocks == 0 {
            args.filter.tell_unknown(ledger, filter.names())?;
        }
        held = Some(found);
    }
    *symbolizer = Some(filter.into_names().into_symbolizer());
    Ok(Evidence::of(ledger, summary, held, args.allow_losses)?)
}
