//! `heapledger tree`: the call tree of the heap.

use anyhow::Result;
use heapledger_analysis::Identity;
use heapledger_analysis::query::TreeOrder;
use heapledger_report::TreeReport;

use super::form::Tables;
use super::proposed::proposed;
use super::standard::{ExecutableArgs, Usage};
use super::{FormArgs, LedgerArgs, unless_pipe_closed};

mod least;
mod session;
mod shape;

use least::{Least, parse_least};
pub(super) use shape::Grown;
pub(crate) use shape::ShapeArgs;

/// Arguments of `tree`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "heapledger tree [OPTIONS] [EXECUTABLE] <FILE|PID>")]
#[command(after_help = "\
Chains of functions that call only one other are one line. What holds less than
--min is summed up. Allocated and freed figures are of the whole run; with a
filter or --threads, and in ledgers without such sums, they are of the live
blocks and of those frees that the ledger still holds (see --history of
`heapledger run`). A freed block counts where it was allocated. Functions of
--hide are not shown; what they hold counts for their callers. In a terminal
lines are cut to its width; in files and pipes they are whole.

Examples:
  heapledger tree heapledger.jq.4711.hl
  heapledger tree --inverted --wrappers --hide '^my_alloc' --min 5% 4711
  heapledger tree --where 'age > 10s and size >= 4K' 4711
  heapledger tree --at peak heapledger.jq.4711.hl
  heapledger tree --by allocated --threads --depth 3 heapledger.jq.4711.hl
  heapledger tree --csv --sort name --depth 5 heapledger.jq.4711.hl > tree.csv
  heapledger tree --json 4711 | jq 'select(.function == \"main\").live_bytes'")]
pub(crate) struct TreeArgs {
    /// Sum up nodes that hold less than this: a share such as 0.5%, or an amount such as 64K [default: 1%; 0 in any format but text]
    #[arg(short, long, value_name = "LEAST", value_parser = parse_least)]
    pub(crate) min: Option<Least>,
    /// Show at most N levels, 0 for all; a chain on one line counts as one
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub(crate) depth: usize,
    /// Show only the N largest functions below each function, 0 for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) children: usize,
    /// Show at most N lines, 0 for all; N functions in any format but text
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub(crate) limit: usize,
    /// Order of the functions below each function, such as blocks:desc,name; keys are bytes, blocks, allocated,
    /// allocated-blocks, freed, freed-blocks, peak, peak-blocks, temporary, temporary-bytes, name [default: most of --by]
    #[arg(short, long, value_name = "KEYS")]
    #[arg(value_parser = proposed(|| TreeOrder::names().collect()), hide_possible_values = true)]
    pub(crate) sort: Option<String>,
    #[command(flatten)]
    pub(crate) form: FormArgs<Tables>,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) executable: ExecutableArgs,
}

/// Shows the call tree of a ledger.
pub(crate) fn run(mut args: TreeArgs) -> Result<()> {
    args.executable.put_apart(&mut args.ledger.ledger, &mut args.shape.naming)?;
    unless_pipe_closed(show(&args))
}

fn show(args: &TreeArgs) -> Result<()> {
    args.shape.filter.parse()?;
    let order = args.sort.as_deref().map(TreeOrder::parse).transpose();
    let order = order.map_err(|error| Usage::in_value("--sort", &error))?;
    if let Some(family) = args.ledger.session()? {
        return session::show(args, order.as_ref(), &family);
    }
    let opened = args.ledger.open()?;
    let grown = args.shape.grow(&[&opened.ledger], args.shape.wrappers)?;
    present(args, grown, order.as_ref(), (&opened.context.ledger, &Identity::of(&opened.ledger)))
}

fn present(
    args: &TreeArgs,
    grown: Grown,
    order: Option<&TreeOrder>,
    (name, identity): (&str, &Identity),
) -> Result<()> {
    let form = args.form.get();
    let for_programs = form.is_for_programs();
    let measure = args.shape.figure.measure()?;
    let default = Least::Share(if for_programs { 0.0 } else { 0.01 });
    // Nothing is shown that does not hold anything, but for programs that want all.
    let least = args.min.unwrap_or(default).of(grown.tree.root().value(measure)).max(u64::from(!for_programs));
    let tree = if args.shape.inverted { grown.tree.inverted(|node| node.value(measure) < least) } else { grown.tree };
    let mut report = TreeReport {
        ledger: name,
        identity,
        sums: &grown.sums[0],
        tree: &tree,
        measure,
        least,
        depth: args.depth,
        children: args.children,
        limit: args.limit,
        order,
        paint: args.ledger.paint(),
        wrappers: args.shape.wrappers,
        seen: &grown.seen,
        left_out: 0,
    };
    args.ledger.view.present(form, &mut report)
}
