//! Blocks or events as a table, or added up.

use anyhow::Result;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::GroupField;

use super::{Usage, listed};
use crate::commands::proposed::proposed;

/// What blocks are added up by.
pub(crate) fn groups() -> Vec<&'static str> {
    Field::block_groups().collect()
}

/// Blocks as a table, or added up.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Grouping and columns")]
pub(crate) struct GroupArgs {
    #[arg(help = format!(
        "Add blocks up by one or several of {}. fn, file and module are those of the function that holds a block; --sort takes \
         {} then",
        listed(Field::block_groups()),
        listed(GroupField::names())
    ))]
    #[arg(short, long, value_name = "LIST", value_parser = proposed(groups), hide_possible_values = true)]
    pub(crate) group_by: Option<String>,
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
    /// Whether neither was asked for.
    pub(crate) fn is_plain(&self) -> bool {
        self.group_by.is_none() && self.columns.is_none()
    }

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
