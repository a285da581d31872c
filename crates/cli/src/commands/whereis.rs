//! `heapledger whereis`: which block an address belongs to, and what it was before.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use heapledger_analysis::Seen;
use heapledger_analysis::whereis::{ADDRESSES_MAX, KnownAddresses};
use heapledger_report::WhereisReport;

use super::form::Tables;
use super::standard::{ExecutableArgs, Usage};
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
    /// Show at most N earlier lives of an address, the most recent ones, 0 for all
    #[arg(short, long, visible_alias = "top", value_name = "N", default_value_t = LIVES)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) form: FormArgs<Tables>,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    /// Addresses: 0x… or decimal. The ledger may stand before them, if the program's executable stands before it: functions and lines are
    /// read from that, as with --exe
    #[arg(value_name = "ADDRESS", required = true, value_parser = asked, help_heading = None::<&str>)]
    pub(crate) asked: Vec<AskedPlace>,
}

/// What is asked for: an address, or, if it is none, a file.
#[derive(Clone, Debug)]
pub(crate) enum AskedPlace {
    Address(u64),
    Ledger(OsString),
}

fn asked(text: &str) -> Result<AskedPlace, String> {
    let is_file = |_: &String| Path::new(text).is_file();
    match heapledger_analysis::query::address(text) {
        Err(problem) if is_file(&problem) => Ok(AskedPlace::Ledger(text.into())),
        other => other.map(AskedPlace::Address),
    }
}

impl WhereisArgs {
    /// The addresses; an executable before the ledger goes to where names are from.
    fn addresses(&mut self) -> Result<Vec<u64>> {
        if let Some(AskedPlace::Ledger(ledger)) = self.asked.first() {
            ExecutableArgs::before(ledger).put_apart(&mut self.ledger.ledger, &mut self.naming)?;
            self.asked.remove(0);
        }
        let address = |asked: &AskedPlace| match asked {
            AskedPlace::Address(address) => Ok(*address),
            AskedPlace::Ledger(file) => Err(Usage::new(format!("{} is no address", Path::new(file).display()))),
        };
        if self.asked.is_empty() {
            return Err(Usage::new("which address? They look like 0x7f1200000010").into());
        }
        Ok(self.asked.iter().map(address).collect::<Result<_, _>>()?)
    }
}

/// Says where addresses belong.
pub(crate) fn run(mut args: WhereisArgs) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    let addresses = args.addresses();
    let result = addresses.and_then(|addresses| show(&args, &addresses)).map(|in_blocks| {
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
fn show(args: &WhereisArgs, addresses: &[u64]) -> Result<bool> {
    if addresses.len() > ADDRESSES_MAX {
        return Err(Usage::new(format!("at most {ADDRESSES_MAX} addresses at a time")).into());
    }
    let mut opened = args.ledger.open()?;
    needs_addresses(&opened.ledger)?;
    args.naming.check(&[&opened.ledger])?;
    let mut progress = Progress::new("reading");
    let places = KnownAddresses::of(&opened.ledger, addresses, args.limit, &mut |part| progress.show(part))?;
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
