//! Standard options: which blocks or events, in which order. The same for every command that has them.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Evaluator, Filter, GroupField, GroupOrder, Scope, SortKeys, SyntaxError, Unknown};
use heapledger_analysis::{Clock, Holders, Names};
use heapledger_report::clean;
use heapledger_source::Ledger;

use thiserror::Error;

use super::ledgers::is_elf;
use super::proposed::proposed;
use super::{NamingArgs, Progress};

/// What was typed cannot be understood. The exit code says so.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Usage(String);

impl Usage {
    /// An error in the value of `option`.
    pub(crate) fn in_value(option: &str, error: &SyntaxError) -> Usage {
        Usage(format!("{option}: {error}"))
    }

    /// Anything else that was typed wrongly.
    pub(crate) fn new(text: impl Into<String>) -> Usage {
        Usage(text.into())
    }
}

/// Which blocks or events are meant.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Which ones")]
pub(crate) struct FilterArgs {
    /// Only those of which this holds, such as 'size >= 4K and thread == "worker-3" and fn ~ "parse" and age > 10s';
    /// several must all hold. docs/queries.md has the whole language
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<String>,
    /// The same in short: thread=ROW as `stats` lists threads, or thread=NAME; size_, seqno_, time_, ptr_ with min=N or
    /// max=N; several must all hold
    #[arg(short = 'F', value_name = "KEY=VALUE")]
    filters: Vec<String>,
    #[command(flatten)]
    holders: HolderArgs,
}

/// Which functions hold blocks.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Which ones")]
pub(crate) struct HolderArgs {
    /// Skip functions matching REGEX when attributing blocks; repeatable. Functions whose name says that they allocate
    /// (xmalloc), and the standard libraries of C++ and Rust, are skipped anyway
    #[arg(long, value_name = "REGEX")]
    hide: Vec<String>,
    /// Skip none but those of --hide
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
        // Each by itself is checked by its reader.
        all.check_size().map_err(|error| Usage::new(format!("--where and -F together: {error}")))?;
        self.holders.get()?;
        Ok(all)
    }

    /// Which functions stay where all functions are shown: those of --hide go, and if `conventional`, those that are
    /// looked through anyway.
    pub(crate) fn shown(&self, conventional: bool) -> Result<Holders> {
        let mut holders = if conventional { Holders::default() } else { Holders::innermost() };
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

/// Keys of blocks, and of groups.
fn sort_keys() -> Vec<&'static str> {
    Field::sort_keys()
        .chain(GroupField::names().filter(|name| Field::sort_keys().all(|other| other != *name)))
        .collect()
}

/// What blocks are added up by.
pub(crate) fn groups() -> Vec<&'static str> {
    Field::groups(false).collect()
}

/// Names in a line.
pub(crate) fn listed(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// What `--sort` takes.
pub(crate) fn sort_help() -> String {
    format!("What comes first, such as size:desc,number; keys are {}", listed(Field::sort_keys()))
}

/// In which order blocks are shown.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "In which order")]
pub(crate) struct SortArgs {
    #[arg(help = format!("{} [default: addr]", sort_help()))]
    #[arg(short, long, value_name = "KEYS", value_parser = proposed(sort_keys), hide_possible_values = true)]
    sort: Option<String>,
    #[arg(help = format!("The same in letters, capitals for the reverse: {}", Field::letters(false)))]
    #[arg(short = 'S', value_name = "LETTERS", conflicts_with = "sort")]
    letters: Option<String>,
    /// Reverse the order
    #[arg(short, long)]
    reverse: bool,
}

impl SortArgs {
    /// What was typed, if an order was.
    pub(crate) fn parse(&self) -> Result<Option<SortKeys>> {
        let keys = match (&self.sort, &self.letters) {
            (Some(text), _) => Some(SortKeys::parse(text).map_err(|error| Usage::in_value("--sort", &error))?),
            (None, Some(text)) => Some(SortKeys::classic(text).map_err(|error| Usage::in_value("-S", &error))?),
            (None, None) => None,
        };
        Ok(keys)
    }

    /// What was typed, as an order of groups.
    pub(crate) fn groups(&self) -> Result<GroupOrder> {
        if self.letters.is_some() {
            return Err(
                Usage::new("-S orders blocks; for groups write --sort bytes, blocks, largest, oldest or name").into()
            );
        }
        let order = self.sort.as_deref().map(GroupOrder::parse).transpose();
        let order = order.map_err(|error| Usage::in_value("--sort", &error))?.unwrap_or_default();
        Ok(if self.reverse { order.reversed() } else { order })
    }

    /// Whether it is the other way round.
    pub(crate) fn is_reversed(&self) -> bool {
        self.reverse
    }

    /// Whether an order was asked for.
    pub(crate) fn is_given(&self) -> bool {
        self.sort.is_some() || self.letters.is_some()
    }

    /// The order of this ledger's blocks. Refused if the ledger does not record what is asked for.
    pub(crate) fn get(&self, ledger: &Ledger) -> Result<SortKeys> {
        let keys = self.parse()?.unwrap_or_default();
        keys.check(ledger)?;
        Ok(if self.reverse { keys.reversed() } else { keys })
    }
}

/// Blocks as a table, or added up.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "How it looks")]
pub(crate) struct GroupArgs {
    #[arg(help = format!(
        "Add blocks up by one or several of {}. fn, file and module are those of the function that holds a block; --sort takes \
         {} then",
        listed(Field::groups(false)),
        listed(GroupField::names())
    ))]
    #[arg(short, long, value_name = "LIST", value_parser = proposed(groups), hide_possible_values = true)]
    group_by: Option<String>,
    /// Show the N largest, 0 for all: groups as --limit does, blocks in the order of their size unless --sort or -S is
    /// given
    #[arg(long, value_name = "N", conflicts_with = "limit")]
    pub(crate) top: Option<usize>,
    #[arg(help = format!("Show blocks as a table with these columns: {}", listed(Field::columns())))]
    #[arg(long, value_name = "LIST", conflicts_with = "group_by")]
    #[arg(value_parser = proposed(|| Field::columns().collect()), hide_possible_values = true)]
    columns: Option<String>,
}

impl GroupArgs {
    /// What blocks are added up by, if they are.
    pub(crate) fn by(&self) -> Result<Option<Vec<Field>>> {
        let by = self.group_by.as_deref().map(Field::parse_groups).transpose();
        Ok(by.map_err(|error| Usage::in_value("--group-by", &error))?)
    }

    /// The list of columns that was typed.
    pub(crate) fn list(&self) -> Option<&str> {
        self.columns.as_deref()
    }

    /// The columns of blocks that were asked for.
    pub(crate) fn columns(&self) -> Result<Option<Vec<Field>>> {
        let columns = self.columns.as_deref().map(Field::parse_columns).transpose();
        Ok(columns.map_err(|error| Usage::in_value("--columns", &error))?)
    }
}

/// An executable before the ledger, as `--exe`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ExecutableArgs {
    /// The ledger, if the program's executable stands before it: functions and lines are read from that, as with --exe
    #[arg(value_name = "LEDGER")]
    second: Option<OsString>,
}

impl ExecutableArgs {
    /// The ledger, of which `first` is the first argument; an executable before it goes to `naming`.
    pub(crate) fn ledger<'s>(&'s self, first: &'s OsStr, naming: &mut NamingArgs) -> Result<&'s OsStr> {
        let Some(second) = &self.second else { return Ok(first) };
        let shown = Path::new(first).display();
        match is_elf(Path::new(first)) {
            Ok(true) => {
                naming.exe.insert(0, first.into());
                Ok(second)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Usage::new(format!("{shown} does not exist; before the ledger, an executable may stand")).into())
            }
            _ => Err(Usage::new(format!("{shown} is no executable; this command shows one ledger")).into()),
        }
    }
}
