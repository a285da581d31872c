//! `heapledger errors`: what was found or refused while a program ran.

use anyhow::Result;
use heapledger_analysis::Seen;
use heapledger_format::Site;
use heapledger_report::ErrorsReport;

use super::form::Tables;
use super::{FormArgs, LedgerArgs, NamingArgs, SourceText, unless_pipe_closed};

/// Arguments of `errors`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A program with the heapledger library enters what it finds, with the stacks of
allocation, free and access: calls that gave no block, blocks given back with
another size or alignment. The same error found again is one entry, counted.

Examples:
  heapledger errors 4711                    of a process that is being recorded
  heapledger errors heapledger.jq.4711.hl
  heapledger errors --json heapledger.jq.4711.hl |
    jq 'select(.type == \"error\") | .kind'")]
pub(crate) struct ErrorsArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    /// Show at most N, 0 for all
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) form: FormArgs<Tables>,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
}

/// Shows what was found or refused.
pub(crate) fn run(args: &ErrorsArgs) -> Result<()> {
    unless_pipe_closed(show(args))
}

fn show(args: &ErrorsArgs) -> Result<()> {
    let opened = args.ledger.open()?;
    let (ledger, context) = (&opened.ledger, &opened.context);
    args.naming.check(&[ledger])?;
    let form = args.form.get();
    let mut errors = ledger.errors()?;
    let left_out = if args.limit == 0 { 0 } else { errors.len().saturating_sub(args.limit) };
    errors.truncate(errors.len() - left_out);
    let of_stacks = errors.iter().flat_map(|error| error.entry.stacks.map(|stack| stack.site));
    let of_neighbours = errors.iter().flat_map(|error| error.entry.neighbours.map(|neighbour| neighbour.site));
    let sites = of_stacks.chain(of_neighbours).filter(|site| *site != Site::NONE);
    let mut names = args.naming.name(ledger, sites, SourceText::Shown)?;
    let (labels, seen) = (&ledger.labels()?, Seen::of(ledger, 0)?);
    let left_out = left_out as u64;
    let mut report = ErrorsReport { context, errors: &errors, left_out, labels, names: &mut names, seen };
    args.ledger.view.present(form, &mut report)
}
