//! Live blocks by call site and size.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use heapledger_format::{Entry, Site};
use heapledger_source::{Ledger, SourceError};

use crate::fold::{self, Act, Fold, fold};
use crate::groups::Mixer;
use crate::query::Evaluator;

/// Blocks of one size that are of one call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeSum {
    /// The site: a whole stack. 0: no stack.
    pub site: Site,
    /// Bytes asked for by each.
    pub size: u64,
    /// How many live. In a sampled ledger: for how many they stand.
    pub blocks: u64,
}

type SizeMap = HashMap<(Site, u64), u64, BuildHasherDefault<Mixer>>;

/// Sums as they grow.
struct Sizes {
    sums: SizeMap,
    most: usize,
    /// There are more than that.
    are_too_many: bool,
}

impl Sizes {
    fn put(&mut self, key: (Site, u64), blocks: u64) {
        if self.are_too_many {
            return;
        }
        let sum = self.sums.entry(key).or_default();
        *sum = sum.saturating_add(blocks);
        if self.sums.len() > self.most {
            self.are_too_many = true;
            self.sums = SizeMap::default();
        }
    }
}

impl Fold<Entry> for Sizes {
    fn add(&mut self, block: &Entry, _: Act, weight: u64) {
        self.put((block.site, block.size.unwrap_or(0)), weight);
    }

    fn join(&mut self, other: Self) {
        if other.are_too_many {
            (self.are_too_many, self.sums) = (true, SizeMap::default());
        }
        other.sums.into_iter().for_each(|(key, blocks)| self.put(key, blocks));
    }
}

/// The live blocks of `ledger`, or those that `filter` means, by call site and size, in that order; `None` if there are more than
/// `most` kinds of them. A program that runs may have gone on since other sums were made.
///
/// # Errors
/// If the ledger can no longer be read.
pub fn sizes_by_site(
    ledger: &Ledger,
    mut filter: Option<&mut Evaluator<'_>>,
    most: usize,
    progress: &mut dyn FnMut(f32),
) -> Result<Option<Vec<SizeSum>>, SourceError> {
    if let Some(filter) = filter.as_deref_mut().filter(|filter| !filter.is_all()) {
        filter.prepare_blocks(progress)?;
    }
    let workers = fold::workers(ledger, most, size_of::<((Site, u64), u64)>())?;
    let fresh = || Sizes { sums: SizeMap::default(), most, are_too_many: false };
    let Sizes { sums, are_too_many, .. } = fold::<Entry, _>(ledger, filter, workers, &fresh, progress)?.sum;
    let mut all: Vec<SizeSum> = sums.into_iter().map(|((site, size), blocks)| SizeSum { site, size, blocks }).collect();
    all.sort_unstable();
    Ok((!are_too_many).then_some(all))
}
