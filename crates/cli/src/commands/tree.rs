//! `heapledger tree`: the call tree of the heap.

use std::collections::HashMap;
use std::time::SystemTime;

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Scope, TreeOrder};
use heapledger_analysis::tree::{CallTree, Measure, SameFunction, Side, SiteSums, Threads, TreeBuilder};
use heapledger_analysis::{Clock, Identity, Note, Seen};
use heapledger_report::{TreeReport, thread_name};
use heapledger_source::{Ledger, Thread};

use super::form::Tables;
use super::proposed::proposed;
use super::standard::{FilterArgs, Usage};
use super::{FormArgs, LedgerArgs, NamingArgs, Progress, find_names, unless_pipe_closed};
use heapledger_launch::size::parse_size;

/// Arguments of `tree`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Chains of functions that call only one other are one line. What holds less than
--min is summed up. Allocated and freed figures are of the live blocks and of
those frees that the ledger still holds (see --history of `heapledger run`); a
freed block counts where it was allocated. Functions of --hide are not shown;
what they hold counts for their callers. In a terminal lines are cut to its
width; in files and pipes they are whole.

Examples:
  heapledger tree heapledger.jq.4711.hl
  heapledger tree --inverted --no-wrappers --hide '^my_alloc' --min 5% 4711
  heapledger tree --where 'age > 10s and size >= 4K' 4711
  heapledger tree --by allocated --threads --depth 3 heapledger.jq.4711.hl
  heapledger tree --csv --sort name --depth 5 heapledger.jq.4711.hl > tree.csv
  heapledger tree --json 4711 | jq 'select(.function == \"main\").live_bytes'")]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    /// Sum up what holds less: a share such as 0.5%, or an amount such as 64K [default: 1%; 0 in any format but text]
    #[arg(short, long, value_name = "LEAST", value_parser = parse_least)]
    pub(crate) min: Option<Least>,
    /// Show at most so many levels, 0 for all; a chain on one line is one
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub(crate) depth: usize,
    /// Show only the N largest functions below each, 0 for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) children: usize,
    /// Show at most so many lines, 0 for all; functions in any format but text
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub(crate) limit: usize,
    /// What comes first of the functions below each, such as blocks:desc,name; keys are bytes, blocks, allocated,
    /// allocated-blocks, freed, freed-blocks, name [default: most of --by]
    #[arg(short, long, value_name = "KEYS")]
    #[arg(value_parser = proposed(|| TreeOrder::names().collect()), hide_possible_values = true)]
    pub(crate) sort: Option<String>,
    #[command(flatten)]
    pub(crate) form: FormArgs<Tables>,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
}

/// How a tree is made, by all commands that show one.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("hide", |arg| arg.help(
        "Leave out functions with such names: what they hold counts for their callers; repeatable. `holder` in --where \
         looks through them too"
    )),
    mut_arg("no_hide", |arg| arg.help("`holder` in --where looks through no functions but those of --hide"))
)]
pub(crate) struct ShapeArgs {
    /// Callers first: from main down to the functions that allocated (this is the default)
    #[arg(long, conflicts_with = "inverted")]
    pub(crate) callers: bool,
    /// Allocating functions first, with their callers below
    #[arg(short, long)]
    pub(crate) inverted: bool,
    /// What counts
    #[arg(short, long, value_enum, value_name = "FIGURE", default_value_t = By::Bytes)]
    pub(crate) by: By,
    /// Threads that allocated as the first level
    #[arg(long)]
    pub(crate) threads: bool,
    /// Leave out functions that are wrappers by name (xmalloc), and the standard libraries of C++ and Rust
    #[arg(long)]
    pub(crate) no_wrappers: bool,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
}

/// What a tree counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum By {
    /// Bytes of live blocks
    Bytes,
    /// Live blocks
    Blocks,
    /// Bytes of live blocks and of freed ones in the history
    Allocated,
    /// The same in blocks
    AllocatedBlocks,
    /// Bytes of freed blocks in the history
    Freed,
    /// The same in blocks
    FreedBlocks,
}

impl By {
    pub(crate) fn measure(self) -> Measure {
        match self {
            By::Bytes => Measure::LiveBytes,
            By::Blocks => Measure::LiveBlocks,
            By::Allocated => Measure::AllocatedBytes,
            By::AllocatedBlocks => Measure::AllocatedBlocks,
            By::Freed => Measure::FreedBytes,
            By::FreedBlocks => Measure::FreedBlocks,
        }
    }
}

/// From where on something is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Least {
    /// A part of the whole, from 0 to 1.
    Share(f64),
    /// So many bytes or blocks.
    Amount(u64),
}

impl Least {
    /// So many bytes or blocks of `whole`.
    pub(crate) fn of(self, whole: u64) -> u64 {
        match self {
            Least::Share(part) => (whole as f64 * part).ceil() as u64,
            Least::Amount(amount) => amount,
        }
    }
}

/// `1%`, `0.5 %`, `64K`, `1000`.
pub(crate) fn parse_least(text: &str) -> Result<Least, String> {
    let Some(percent) = text.trim().strip_suffix('%') else {
        let problem = |_| format!("'{text}' is neither a share such as 0.5% nor an amount such as 64K");
        return parse_size(text).map(Least::Amount).map_err(problem);
    };
    match percent.trim().parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Least::Share(percent / 100.0)),
        _ => Err(format!("'{text}' is no share from 0% to 100%")),
    }
}

/// A tree, and what it was made from.
pub(super) struct Grown {
    pub(super) tree: CallTree,
    /// The ledger, or the newer one of two; then the older one.
    pub(super) sums: Vec<SiteSums>,
    pub(super) seen: Seen,
}

impl ShapeArgs {
    /// The tree of one ledger, or of two laid over each other, the newer one first. Callers first, whatever is asked
    /// for.
    pub(super) fn grow(&self, ledgers: &[&Ledger]) -> Result<Grown> {
        self.naming.check(ledgers)?;
        let holders = self.filter.shown(self.no_wrappers)?;
        let same = if ledgers.len() > 1 { SameFunction::ByName } else { SameFunction::InModule };
        let mut builder = TreeBuilder::new(same, &holders);
        let mut all = Vec::new();
        let mut seen = Seen::default();
        for (ledger, side) in ledgers.iter().zip([Side::New, Side::Old]) {
            let first = if self.threads { Field::Thread } else { Field::Stack };
            first.check_in(ledger, Scope::Events)?;
            let mut progress = Progress::new("reading");
            let clock = Clock::new(ledger, SystemTime::now())?;
            let mut filter = self.filter.evaluator(ledger, clock, Scope::Events, self.naming.no_names(ledger)?)?;
            let threads = if self.threads { Threads::Apart } else { Threads::Together };
            let sums = SiteSums::of(ledger, threads, Some(&mut filter), &mut |part| progress.show(part))?;
            drop(progress);
            let mut names = filter.into_names();
            if ledgers.len() == 1 && sums.sites.is_empty() {
                self.filter.tell_unknown(ledger, &mut names)?;
            }
            find_names(&mut names, sums.sites.iter().map(|sum| sum.site), false)?;
            let threads: HashMap<u32, Thread> =
                ledger.threads()?.into_iter().map(|thread| (thread.row, thread)).collect();
            let thread = |row: Option<u32>| thread_name(row, row.and_then(|row| threads.get(&row)));
            builder.add(side, ledger, &sums, &mut names, &thread)?;
            let mut notes = Seen::of(ledger, sums.in_flight)?.notes;
            notes.extend(names.notes());
            notes.retain(|note: &Note| !seen.notes.contains(note));
            seen.notes.extend(notes);
            all.push(sums);
        }
        Ok(Grown { tree: builder.finish(), sums: all, seen })
    }
}

/// Shows the call tree of a ledger.
pub(crate) fn run(args: &TreeArgs) -> Result<()> {
    unless_pipe_closed(show(args))
}

fn show(args: &TreeArgs) -> Result<()> {
    args.shape.filter.parse()?;
    let order = args.sort.as_deref().map(TreeOrder::parse).transpose();
    let order = order.map_err(|error| Usage::in_value("--sort", &error))?;
    let form = args.form.get();
    let for_programs = form.is_for_programs();
    let opened = args.ledger.open()?;
    let grown = args.shape.grow(&[&opened.ledger])?;
    let measure = args.shape.by.measure();
    let default = Least::Share(if for_programs { 0.0 } else { 0.01 });
    // Nothing is shown that does not hold anything, but for programs that want all.
    let least = args.min.unwrap_or(default).of(grown.tree.root().value(measure)).max(u64::from(!for_programs));
    let tree = if args.shape.inverted { grown.tree.inverted(|node| node.value(measure) < least) } else { grown.tree };
    let identity = Identity::of(&opened.ledger);
    let mut report = TreeReport {
        ledger: &opened.context.ledger,
        identity: &identity,
        sums: &grown.sums[0],
        tree: &tree,
        measure,
        least,
        depth: args.depth,
        children: args.children,
        limit: args.limit,
        order: order.as_ref(),
        paint: opened.context.paint,
        seen: &grown.seen,
        left_out: 0,
    };
    args.ledger.view.present(form, &mut report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read() {
        for (text, whole, least) in [("1%", 1000, 10), ("0.5 %", 1000, 5), ("64K", 1, 65536), ("7", 100, 7)] {
            assert_eq!(parse_least(text).map(|least| least.of(whole)), Ok(least), "{text}");
        }
        for text in ["", "%", "-1%", "101%", "x", "NaN%", "1%%"] {
            assert!(parse_least(text).is_err(), "{text}");
        }
    }
}
