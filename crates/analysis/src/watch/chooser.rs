//! Readings of those blocks that a condition means.

use std::time::SystemTime;

use heapledger_source::{Ledger, SourceError};

use super::{Mark, Reader, Sample};
use crate::query::{Evaluator, Filter, Scope, Unknown};
use crate::{Clock, Holders, Names};

/// Has the blocks read that a condition means.
pub struct Chooser<'a> {
    ledger: &'a Ledger,
    filter: Filter,
    holders: Holders,
    /// Names found so far. Gone if the ledger could not be read.
    names: Option<Names<'a>>,
}

impl<'a> Chooser<'a> {
    /// The blocks of `filter`, found with what finds names.
    pub fn new(ledger: &'a Ledger, filter: Filter, holders: Holders, names: Names<'a>) -> Chooser<'a> {
        Chooser { ledger, filter, holders, names: Some(names) }
    }

    /// The condition; empty if all blocks are meant.
    pub fn text(&self) -> String {
        if self.filter.is_all() { String::new() } else { self.filter.to_string() }
    }

    /// Whether all blocks are meant.
    pub fn is_all(&self) -> bool {
        self.filter.is_all()
    }

    /// Means others from now on.
    ///
    /// # Errors
    /// If this ledger cannot tell which: then why.
    pub fn choose(&mut self, filter: Filter) -> Result<(), String> {
        filter.check(self.ledger, Scope::Blocks).map_err(|problem| problem.to_string())?;
        self.filter = filter;
        Ok(())
    }

    /// What is asked for by a name or a row that this ledger does not have at all: to be said where nothing was found.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn unknown(&mut self) -> Result<Vec<Unknown>, SourceError> {
        match &mut self.names {
            Some(names) if !self.filter.is_all() => self.filter.unknown(self.ledger, names, &mut |_| {}),
            _ => Ok(Vec::new()),
        }
    }

    /// Reads the blocks that are meant `now`.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn sample(&mut self, reader: &Reader<'_>, mark: Option<&Mark>, now: SystemTime) -> Result<Sample, SourceError> {
        let names = match self.names.take() {
            Some(names) if !self.filter.is_all() => names,
            other => {
                self.names = other;
                return reader.sample(mark, None);
            }
        };
        // Ages go on: what decides is made anew each time. Names stay.
        let clock = Clock::new(self.ledger, now)?;
        let mut evaluator = Evaluator::new(self.ledger, &self.filter, clock, names, self.holders.clone())?;
        evaluator.prepare_blocks(&mut |_| {})?;
        let sample = reader.sample(mark, Some(&mut evaluator))?;
        self.names = Some(evaluator.into_names());
        Ok(sample)
    }
}
