//! How a tree is made: arguments of all commands that show one.

use std::collections::HashMap;
use std::time::SystemTime;

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::Scope;
use heapledger_analysis::tree::{CallTree, SameFunction, Side, SiteSums, Threads, TreeBuilder};
use heapledger_analysis::{Clock, Note, Seen};
use heapledger_format::ThreadRow;
use heapledger_report::thread_name;
use heapledger_source::{Ledger, Thread};

use crate::commands::figure::FigureArgs;
use crate::commands::sessions::TopLevel;
use crate::commands::standard::FilterArgs;
use crate::commands::{NamingArgs, Progress, SourceText, find_names};

/// How a tree is made, by all commands that show one.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("hide", |arg| arg.help(
        "Leave out functions matching REGEX: what they hold counts for their callers; repeatable. `holder` in --where \
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
    #[command(flatten)]
    pub(crate) figure: FigureArgs,
    /// Make the allocating threads the first level
    #[arg(long)]
    pub(crate) threads: bool,
    /// Of a session, what the first level is: each process, or each program, with all processes that ran it
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = TopLevel::Process)]
    pub(crate) group_by: TopLevel,
    /// Show what else is left out: functions that are wrappers by name (xmalloc), the standard libraries of C++ and Rust, what comes
    /// before main, and those by which Python calls functions
    #[arg(long)]
    pub(crate) wrappers: bool,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
}

/// A tree, and what it was made from.
pub(in crate::commands) struct Grown {
    pub(in crate::commands) tree: CallTree,
    /// The ledger, or the newer one of two; then the older one.
    pub(in crate::commands) sums: Vec<SiteSums>,
    pub(in crate::commands) seen: Seen,
}

impl ShapeArgs {
    /// The tree of one ledger, or of two laid over each other, the newer one first. Callers first, whatever is asked
    /// for. `wrappers`: with what is left out else, whether or not that is asked for.
    pub(in crate::commands) fn grow(&self, ledgers: &[&Ledger], wrappers: bool) -> Result<Grown> {
        self.naming.check(ledgers)?;
        self.figure.single()?;
        self.figure.at.of_one_process()?;
        let holders = self.filter.shown(wrappers)?;
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
            let apart = if self.threads { Threads::Apart } else { Threads::Together };
            let sums = SiteSums::of(ledger, apart, Some(&mut filter), &mut |part| progress.show(part))?;
            drop(progress);
            self.figure.check(&sums)?;
            let mut names = filter.into_names();
            if ledgers.len() == 1 && sums.sites.is_empty() {
                self.filter.tell_unknown(ledger, &mut names)?;
            }
            find_names(&mut names, sums.sites.iter().map(|sum| sum.site), SourceText::NotShown)?;
            let threads: HashMap<ThreadRow, Thread> =
                ledger.threads()?.into_iter().map(|thread| (thread.row, thread)).collect();
            let thread = |row: Option<ThreadRow>| thread_name(row, row.and_then(|row| threads.get(&row)));
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
