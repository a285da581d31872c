//! Names of stacks of one ledger, as far as a check needs them.

use anyhow::Result;
use heapledger_analysis::{Names, NamingOptions, Note, SiteTotals};
use heapledger_format::Site;
use heapledger_source::Ledger;
use heapledger_symbols::Symbolizer;

use crate::commands::{NamingArgs, SourceText, find_names};

/// Names of stacks, as far as they are needed: debug information is gone through once a call.
pub(super) struct Naming<'a, 's> {
    /// What has found names in other ledgers, or will.
    pub(super) symbolizer: &'s mut Option<Symbolizer>,
    pub(super) names: Option<Names<'a>>,
    pub(super) args: &'a NamingArgs,
    pub(super) ledger: &'a Ledger,
    pub(super) sites: &'a [SiteTotals],
}

impl Drop for Naming<'_, '_> {
    fn drop(&mut self) {
        if let Some(names) = self.names.take() {
            *self.symbolizer = Some(names.into_symbolizer());
        }
    }
}

impl<'a> Naming<'a, '_> {
    /// What stood in the way of names.
    pub(super) fn notes(&mut self) -> Vec<Note> {
        self.names.as_mut().map(|names| names.notes()).unwrap_or_default()
    }

    /// Names of all stacks that hold blocks.
    pub(super) fn all(&mut self) -> Result<&mut Names<'a>> {
        let sites = self.sites;
        self.named(sites.iter().map(|totals| totals.site))
    }

    pub(super) fn named(&mut self, wanted: impl Iterator<Item = Site>) -> Result<&mut Names<'a>> {
        let names = match self.names.take() {
            Some(mut names) => {
                names.resolve(wanted, NamingOptions::default(), &mut |_| {})?;
                names
            }
            None => {
                let mut names = self.args.names_with(self.ledger, self.symbolizer.take())?;
                find_names(&mut names, wanted, SourceText::NotShown)?;
                names
            }
        };
        Ok(self.names.insert(names))
    }
}
