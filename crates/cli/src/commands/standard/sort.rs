//! In which order they come.

use anyhow::Result;
use heapledger_analysis::Sort;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{GroupField, GroupOrder, SortKeys};
use heapledger_format::record::Options;
use heapledger_source::Ledger;

use super::{Usage, listed};
use crate::commands::proposed::proposed;

/// Keys of blocks, and of groups.
fn sort_keys() -> Vec<&'static str> {
    Field::sort_keys()
        .chain(GroupField::names().filter(|name| Field::sort_keys().all(|other| other != *name)))
        .collect()
}

/// What `--sort` takes.
pub(crate) fn sort_help() -> String {
    format!("Sort by these keys, such as size:desc,number; keys are {}", listed(Field::sort_keys()))
}

/// In which order blocks are shown.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Order")]
pub(crate) struct SortArgs {
    #[arg(help = format!("{} [default: addr; number where addresses are not known]", sort_help()))]
    #[arg(short, long, value_name = "KEYS", value_parser = proposed(sort_keys), hide_possible_values = true)]
    sort: Option<String>,
    #[arg(help = format!("Short form of --sort in letters, capitals for the reverse: {}", Field::letters()))]
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

    /// The largest first, as `--top` has them unless an order was asked for; or the smallest.
    pub(crate) fn by_size(&self) -> SortKeys {
        let keys = SortKeys::from(Sort::Size);
        if self.reverse { keys.reversed() } else { keys }
    }

    /// Whether an order was asked for.
    pub(crate) fn is_given(&self) -> bool {
        self.sort.is_some() || self.letters.is_some()
    }

    /// The order of this ledger's blocks. Refused if the ledger does not record what is asked for.
    pub(crate) fn get(&self, ledger: &Ledger) -> Result<SortKeys> {
        let has_addresses = ledger.header().options.has(Options::ADDRESS);
        let usual = || if has_addresses { SortKeys::default() } else { Sort::Number.into() };
        let keys = self.parse()?.unwrap_or_else(usual);
        keys.check(ledger)?;
        let keys = keys.in_ledger(ledger)?;
        Ok(if self.reverse { keys.reversed() } else { keys })
    }
}
