//! `heapledger whereis`: which block an address belongs to, and what it was before.

use std::process::ExitCode;

use anyhow::Result;
use heapledger_analysis::Seen;
use heapledger_analysis::whereis::{ADDRESSES_MAX, KnownAddresses};
use heapledger_report::WhereisReport;

use super::form::Tables;
use super::standard::Usage;
use super::{FormArgs, LedgerArgs, NamingArgs, Progress, SourceText, needs_addresses, refresh, unless_pipe_closed};
use crate::args;

/// Earlier lives shown unless told otherwise.
const LIVES: usize = 5;
/// Exit code: an address is in no live block.
const NOT_IN_A_BLOCK: u8 = 1;

/// Arguments of `whereis`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The history holds the most recent frees: see --history of `heapledger run`.

Exit status: 0 all addresses are in live blocks, 1 one is not, 2 it is unknown.

Examples:
  heapledger whereis 4711 0x55d0c0f5a0
  heapledger whereis core.4711 0x55d0c0f5a0 0x7f12a4000b20
  heapledger whereis --json heapledger.jq.4711.hl 0x55d0c0f5a0 |
    jq -r 'select(.type == \"place\").found'")]
pub(crate) struct WhereisArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    /// Addresses: 0x… or decimal
    #[arg(value_name = "ADDRESS", required = true, value_parser = heapledger_analysis::query::address)]
    pub(crate) addresses: Vec<u64>,
    /// Show at most N earlier lives of an address, the most recent ones, 0 for all
    #[arg(short, long, visible_alias = "top", value_name = "N", default_value_t = LIVES)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) form: FormArgs<Tables>,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
}

/// Says where addresses belong.
pub(crate) fn run(args: &WhereisArgs) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    let result = show(args).map(|in_blocks| {
        if !in_blocks {
            code = ExitCode::from(NOT_IN_A_BLOCK);
        }
    });
    match unless_pipe_closed(result) {
        Ok(()) => Ok(code),
        Err(problem) => {
            crate::say_problem(&problem);
            Ok(ExitCode::from(args::USAGE))
        }
    }
}

/// Whether all of them are in live blocks.
fn show(args: &WhereisArgs) -> Result<bool> {
    if args.addresses.len() > ADDRESSES_MAX {
        return Err(Usage::new(format!("at most {ADDRESSES_MAX} addresses at a time")).into());
    }
    let mut opened = args.ledger.open()?;
    needs_addresses(&opened.ledger)?;
    args.naming.check(&[&opened.ledger])?;
    let mut progress = Progress::new("reading");
    let places = KnownAddresses::of(&opened.ledger, &args.addresses, args.limit, &mut |part| progress.show(part))?;
    drop(progress);
    refresh(&opened.ledger, &mut opened.context)?;
    let (ledger, context) = (&opened.ledger, &opened.context);
    let mut names = args.naming.name(ledger, places.sites().into_iter(), SourceText::Shown)?;
    let seen = Seen::of(ledger, places.in_flight)?;
    let threads_recorded = opened.threads_recorded;
    let mut report = WhereisReport { context, threads_recorded, places: &places, names: &mut names, seen };
    args.ledger.view.present(args.form.get(), &mut report)?;
    Ok(places.all_in_blocks())
}
