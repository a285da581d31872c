//! Which blocks or events are meant.

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Evaluator, Filter, Scope, Unknown};
use heapledger_analysis::{Clock, Holders, Names};
use heapledger_report::clean;
use heapledger_source::Ledger;

use super::Usage;
use crate::commands::Progress;

/// Which blocks or events are meant.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// Show only what matches CONDITION, such as 'size >= 4K and thread == "worker-3" and fn ~ "parse" and age > 10s';
    /// may be given several times: all must match. docs/queries.md describes the whole language
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<String>,
    /// Short form of --where: thread=ROW as `stats` lists threads, or thread=NAME; size_, seqno_, time_, ptr_ with min=N or
    /// max=N; may be given several times: all must match
    #[arg(short = 'F', value_name = "KEY=VALUE")]
    filters: Vec<String>,
    /// Show only what came after the program's mark MARK; where several have the name, after the last of them
    #[arg(long, value_name = "MARK")]
    since: Option<String>,
    /// Show only what came while the program's window NAME was open
    #[arg(long, value_name = "NAME")]
    window: Option<String>,
    #[command(flatten)]
    holders: HolderArgs,
}

/// Which functions hold blocks.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct HolderArgs {
    /// Skip functions matching REGEX when attributing blocks; repeatable. Functions whose name says that they allocate
    /// (xmalloc), and the standard libraries of C++ and Rust, are skipped anyway
    #[arg(long, value_name = "REGEX")]
    hide: Vec<String>,
    /// Skip only the functions of --hide
    #[arg(long)]
    no_hide: bool,
}

impl HolderArgs {
    /// What was asked for.
    pub(crate) fn get(&self) -> Result<Holders> {
        let mut holders = if self.no_hide { Holders::innermost() } else { Holders::default() };
        for pattern in &self.hide {
            holders.hide(pattern).map_err(|error| Usage::in_value("--hide", &error))?;
        }
        Ok(holders)
    }
}

impl FilterArgs {
    /// What was typed, before a ledger is opened: so that a mistake is told at once.
    pub(crate) fn parse(&self) -> Result<Filter> {
        let mut all = Filter::all();
        for text in &self.filters {
            all = all.and(Filter::classic(text).map_err(|error| Usage::in_value("-F", &error))?);
        }
        for text in &self.conditions {
            all = all.and(Filter::parse(text).map_err(|error| Usage::in_value("--where", &error))?);
        }
        for (field, name) in [(Field::Since, &self.since), (Field::Window, &self.window)] {
            all = name.iter().fold(all, |all, name| all.and(Filter::named(field, name)));
        }
        // Each by itself is checked by its reader.
        all.check_size().map_err(|error| Usage::new(format!("--where and -F together: {error}")))?;
        self.holders.get()?;
        Ok(all)
    }

    /// Which functions stay where all functions are shown: those of --hide go, and if `conventional`, those that are
    /// looked through anyway.
    pub(crate) fn shown(&self, wrappers: bool) -> Result<Holders> {
        let mut holders = if wrappers { Holders::innermost() } else { Holders::of_tree() };
        for pattern in &self.holders.hide {
            holders.hide(pattern).map_err(|error| Usage::in_value("--hide", &error))?;
        }
        Ok(holders)
    }

    /// Which functions hold blocks.
    pub(crate) fn holders(&self) -> Result<Holders> {
        self.holders.get()
    }

    /// Which blocks or events of this ledger are meant. Refused if the ledger does not record what is asked for.
    pub(crate) fn get(&self, ledger: &Ledger, scope: Scope) -> Result<Filter> {
        let filter = self.parse()?;
        filter.check(ledger, scope)?;
        Ok(filter)
    }

    /// Where nothing was found: says on stderr which names that were asked for do not occur at all.
    pub(crate) fn tell_unknown(&self, ledger: &Ledger, names: &mut Names<'_>) -> Result<()> {
        for unknown in self.unknown(ledger, names)? {
            crate::say(&clean(&unknown.to_string()));
        }
        Ok(())
    }

    /// Names that were asked for and do not occur in this ledger.
    pub(crate) fn unknown(&self, ledger: &Ledger, names: &mut Names<'_>) -> Result<Vec<Unknown>> {
        let filter = self.parse()?;
        if filter.is_all() {
            return Ok(Vec::new());
        }
        let mut progress = Progress::new("finding names");
        Ok(filter.unknown(ledger, names, &mut |part| progress.show(part))?)
    }

    /// What decides for the blocks or events of this ledger. `names` will hold all names that were needed for that.
    pub(crate) fn evaluator<'a>(
        &self,
        ledger: &'a Ledger,
        clock: Clock,
        scope: Scope,
        names: Names<'a>,
    ) -> Result<Evaluator<'a>> {
        let filter = self.get(ledger, scope)?;
        Ok(Evaluator::new(ledger, &filter, clock, names, self.holders()?)?)
    }
}
