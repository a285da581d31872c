//! What became of the blocks between two ledgers.
//!
//! Within one run a block is known by its number, so an address that is used again fools nobody: a block is in both
//! ledgers, or only in the first (it was freed), or only in the second (it is new). Stacks are known by their number in
//! the trie, which only grows.
//!
//! Across runs there is nothing but the stacks, by the names of their functions: see [`StackKeys`]. What is added up by
//! stack can be compared then, and no more.
//!
//! Memory is in proportion to the call sites; within one run 8 bytes for each block of the earlier ledger come to that,
//! 12 while they are sorted.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use heapledger_format::session::process as key;
use heapledger_format::{Entry, SectionKind, Site, TallyCounter};
use heapledger_source::{Ledger, SourceError};

use crate::fold::{self, Act, Fold, Folded};
use crate::query::Evaluator;
use crate::sampling::{Sampled, Sampling};
use crate::{Estimate, amount};

mod blocks;
mod groups;
mod keys;
mod numbers;
mod peak;

pub use blocks::OnlyHere;
pub use groups::GroupChange;
pub use keys::{StackKey, StackKeys, plain_name};
pub use numbers::NumberSet;
use numbers::Search;

/// Call sites that a running program may add while it is read.
const SITES_MORE: usize = 1 << 20;

/// Whether two ledgers are of one run of one program.
pub fn one_run(a: &Ledger, b: &Ledger) -> bool {
    let [a, b] = [a, b].map(|ledger| ledger.header());
    // A chip may have nothing to make an id of.
    a.id == b.id && a.id != [0; 16] && (a.start_unix_ns, a.tick_ns) == (b.start_unix_ns, b.tick_ns)
}

/// The moment that a ledger tells of, in nanoseconds since 1970: now, if its program runs.
pub fn moment_unix_ns(ledger: &Ledger, now: SystemTime) -> Option<u64> {
    if let Some(moment) = ledger.moment_unix_ns() {
        return Some(moment);
    }
    if ledger.is_running() {
        return Some(u64::try_from(now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()).unwrap_or(u64::MAX));
    }
    // When it ended, as far as that is known.
    let start = Some(ledger.header().start_unix_ns).filter(|start| *start != 0)?;
    let wall = ledger.process().number(key::WALL_NS);
    wall.and_then(|wall| start.checked_add(wall))
}

/// Blocks of a ledger, added up by call site.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// How blocks were chosen.
    pub sampling: Sampling,
    /// All blocks.
    pub all: Estimate,
    /// Blocks entered until then, whether they count or not: more of them, later.
    pub allocations: u64,
    /// Records that were being written.
    pub in_flight: u64,
    sites: Vec<Estimate>,
    numbers: NumberSet,
}

/// Amounts in all and by call site.
#[derive(Clone, Debug, Default)]
struct BySite {
    all: Estimate,
    sites: Vec<Estimate>,
}

impl BySite {
    fn add(&mut self, site: usize, entry: &Entry, weight: u64) {
        self.all.add(entry, weight);
        amount::at(&mut self.sites, site).add(entry, weight);
    }

    fn join(&mut self, other: BySite) {
        self.all.join(&other.all);
        amount::join_all(&mut self.sites, other.sites, Estimate::join);
    }
}

/// A census as it is taken.
struct Taking<'n> {
    found: BySite,
    /// Those blocks that an earlier census had already.
    kept: BySite,
    numbers: Option<NumberSet>,
    search: Option<Search<'n>>,
    /// A site beyond the table is not believed: it would cost memory without bound.
    sites_end: usize,
}

impl Fold<Entry> for Taking<'_> {
    #[inline]
    fn add(&mut self, entry: &Entry, _: Act, weight: u64) {
        // Blocks without a stack, and with one that is nowhere, are together.
        let site = Some(entry.site.index()).filter(|site| *site < self.sites_end).unwrap_or(0);
        self.found.add(site, entry, weight);
        if let Some(numbers) = &mut self.numbers {
            numbers.push(entry.number);
        }
        if self.search.as_mut().is_some_and(|search| search.has(entry.number)) {
            self.kept.add(site, entry, weight);
        }
    }

    fn join(&mut self, other: Self) {
        self.found.join(other.found);
        self.kept.join(other.kept);
        if let Some((own, other)) = self.numbers.as_mut().zip(other.numbers) {
            own.join(other);
        }
    }
}

/// What a census keeps of the blocks that it adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Their sums.
    Sums,
    /// And their numbers: a later census of the same run is compared by number.
    Numbers,
}

impl Census {
    /// Adds up the blocks of `ledger` that `filter` means, all without one. A filter that is
    /// [prepared](Evaluator::prepare_blocks) decides faster. What is kept decides by what a later census can be
    /// compared.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        filter: Option<&mut Evaluator<'_>>,
        keep: Keep,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Census, SourceError> {
        Ok(Self::take(ledger, filter, keep, None, progress)?.0)
    }

    fn take(
        ledger: &Ledger,
        filter: Option<&mut Evaluator<'_>>,
        keep: Keep,
        earlier: Option<&NumberSet>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<(Census, BySite), SourceError> {
        let allocations = ledger.tallies()?.get(TallyCounter::Allocations);
        let known = usize::try_from(ledger.count(SectionKind::Sites)?).unwrap_or(usize::MAX);
        let sites_end = if ledger.is_finished() { known } else { known.saturating_add(SITES_MORE) };
        // Two sums for each site, where blocks are compared.
        let sums = if earlier.is_some() { 2 } else { 1 };
        let workers = fold::workers(ledger, known, sums * size_of::<Estimate>())?;
        let fresh = || Taking {
            found: BySite::default(),
            kept: BySite::default(),
            numbers: (keep == Keep::Numbers).then(NumberSet::default),
            search: earlier.map(NumberSet::search),
            sites_end,
        };
        let Folded { sum, in_flight } = fold::fold(ledger, filter, workers, &fresh, progress)?;
        let mut numbers = sum.numbers.unwrap_or_default();
        numbers.settle();
        let census = Census {
            sampling: Sampling::of(ledger),
            all: sum.found.all,
            allocations,
            in_flight: in_flight + ledger.taken().map_or(0, |taken| taken.in_flight),
            sites: sum.found.sites,
            numbers,
        };
        Ok((census, sum.kept))
    }

    /// What estimates come from; `None` if every block was entered.
    pub fn sampled(&self) -> Option<Sampled> {
        self.sampling.from(self.all.samples)
    }

    /// Sites that hold blocks.
    pub fn sites(&self) -> impl Iterator<Item = Site> + '_ {
        (0u32..).map(Site).zip(&self.sites).filter(|(_, amount)| amount.samples != 0).map(|(site, _)| site)
    }

    /// The numbers of its blocks, if they were kept.
    pub fn numbers(&self) -> &NumberSet {
        &self.numbers
    }

    fn site(&self, site: usize) -> Estimate {
        self.sites.get(site).copied().unwrap_or_default()
    }
}

/// What became of the blocks of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeKind {
    /// There were none before.
    New,
    /// There are more bytes, or as many in more blocks.
    Grown,
    /// There are fewer bytes, or as many in fewer blocks.
    Shrunk,
    /// There are none any more.
    Gone,
}

impl ChangeKind {
    /// Whether there is more than before.
    pub fn is_up(self) -> bool {
        matches!(self, ChangeKind::New | ChangeKind::Grown)
    }
}

/// What became of the blocks of one stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// In one word.
    pub kind: ChangeKind,
    /// The stack in the first ledger and in the second. Across runs, that which holds most of all that have the same
    /// functions. Within one run both are the same.
    pub sites: [Option<Site>; 2],
    /// How many stacks have the same functions.
    pub stacks: u64,
    /// Blocks in the first ledger.
    pub before: Estimate,
    /// Blocks in the second.
    pub after: Estimate,
    /// Of these, blocks that are not in the first: within one run.
    pub born: Option<Estimate>,
    /// Blocks of the first that are not in the second: within one run.
    pub freed: Option<Estimate>,
}

impl Change {
    /// By how many bytes it grew.
    pub fn bytes(&self) -> i64 {
        difference(self.after.bytes, self.before.bytes)
    }

    /// By how many blocks it grew.
    pub fn blocks(&self) -> i64 {
        difference(self.after.blocks, self.before.blocks)
    }

    /// The standard error of [`Change::bytes`]; 0 if exact. What is in both ledgers of a run does not add to it.
    pub fn bytes_error(&self) -> u64 {
        self.born.unwrap_or(self.after).error_with(&self.freed.unwrap_or(self.before))
    }

    /// Whether the growth is no more than what chance makes of a sample: less than twice its standard error.
    pub fn is_within_error(&self) -> bool {
        is_within(self.bytes(), self.bytes_error())
    }

    fn kind(before: &Estimate, after: &Estimate) -> Option<ChangeKind> {
        let grown = (after.bytes, after.blocks).cmp(&(before.bytes, before.blocks));
        match grown {
            _ if before.samples == 0 => Some(ChangeKind::New),
            _ if after.samples == 0 => Some(ChangeKind::Gone),
            std::cmp::Ordering::Greater => Some(ChangeKind::Grown),
            std::cmp::Ordering::Less => Some(ChangeKind::Shrunk),
            std::cmp::Ordering::Equal => None,
        }
    }

    /// The call site that shows its functions, and which ledger knows it: the second one (1), or the first (0) if it is
    /// gone from there.
    pub fn named_by(&self) -> (usize, Site) {
        match self.sites {
            [_, Some(site)] => (1, site),
            [site, None] => (0, site.unwrap_or_default()),
        }
    }

    /// Most growth first.
    fn order(&self) -> impl Ord + use<> {
        let [a, b] = self.sites.map(|site| site.unwrap_or(Site(u32::MAX)));
        (std::cmp::Reverse((self.bytes(), self.blocks())), b, a)
    }
}

fn difference(after: u64, before: u64) -> i64 {
    i64::try_from(i128::from(after) - i128::from(before)).unwrap_or(if after > before { i64::MAX } else { i64::MIN })
}

fn is_within(growth: i64, error: u64) -> bool {
    error != 0 && growth.unsigned_abs() < error.saturating_mul(2)
}

/// Two ledgers compared, stack by stack.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// Blocks of the first and of the second.
    pub all: [Estimate; 2],
    /// Blocks of the second that are not in the first: within one run.
    pub born: Option<Estimate>,
    /// Blocks of the first that are not in the second: within one run.
    pub freed: Option<Estimate>,
    /// Whether the first is the later one.
    pub reversed: bool,
    /// What estimates of the one and of the other come from.
    pub sampled: [Option<Sampled>; 2],
    /// Records of both that were being written.
    pub in_flight: u64,
    /// Stacks that changed, most growth first.
    pub changes: Vec<Change>,
    /// Stacks that hold as much as before, though perhaps in other blocks.
    pub unchanged: u64,
}

impl Diff {
    /// Compares `ledger` with what was there earlier in the same run; `earlier` has the numbers. The census of `ledger`
    /// comes with it, with its numbers if these are wanted for a next time.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn since(
        earlier: &Census,
        ledger: &Ledger,
        filter: Option<&mut Evaluator<'_>>,
        keep: Keep,
        progress: &mut dyn FnMut(f32),
    ) -> Result<(Diff, Census), SourceError> {
        let (later, kept) = Census::take(ledger, filter, keep, Some(&earlier.numbers), progress)?;
        let mut diff = Diff::totals(earlier, &later);
        diff.born = Some(later.all.less(&kept.all));
        diff.freed = Some(earlier.all.less(&kept.all));
        diff.reversed = earlier.allocations > later.allocations;
        for site in 0..earlier.sites.len().max(later.sites.len()) {
            let (before, after) = (earlier.site(site), later.site(site));
            let kept = kept.sites.get(site).copied().unwrap_or_default();
            let both = Some(Site(site as u32));
            diff.add(Change {
                kind: ChangeKind::New,
                sites: [both.filter(|_| before.samples != 0), both.filter(|_| after.samples != 0)],
                stacks: 1,
                before,
                after,
                born: Some(after.less(&kept)),
                freed: Some(before.less(&kept)),
            });
        }
        diff.changes.sort_by_key(Change::order);
        Ok((diff, later))
    }

    /// Compares two censuses by the functions of their stacks. `key` is asked for the stack of a site of the first (0)
    /// or of the second (1).
    ///
    /// # Errors
    /// Those of `key`.
    pub fn across<E>(
        a: &Census,
        b: &Census,
        key: &mut dyn FnMut(usize, Site) -> Result<StackKey, E>,
    ) -> Result<Diff, E> {
        #[derive(Default)]
        struct Both {
            amounts: [Estimate; 2],
            /// That which holds most, and how much.
            best: [Option<(u64, Site)>; 2],
            stacks: [u64; 2],
        }
        let mut diff = Diff::totals(a, b);
        let mut found: HashMap<StackKey, Both> = HashMap::new();
        for (side, census) in [a, b].into_iter().enumerate() {
            for site in census.sites() {
                let amount = census.site(site.index());
                let both = found.entry(key(side, site)?).or_default();
                both.amounts[side].join(&amount);
                both.stacks[side] += 1;
                let rank = Some((amount.bytes, site));
                if both.best[side].is_none_or(|best| best.0 < amount.bytes) {
                    both.best[side] = rank;
                }
            }
        }
        for both in found.into_values() {
            let [before, after] = both.amounts;
            diff.add(Change {
                kind: ChangeKind::New,
                sites: both.best.map(|best| best.map(|(_, site)| site)),
                stacks: both.stacks.into_iter().max().unwrap_or(1),
                before,
                after,
                born: None,
                freed: None,
            });
        }
        diff.changes.sort_by_key(Change::order);
        Ok(diff)
    }

    fn totals(a: &Census, b: &Census) -> Diff {
        Diff {
            all: [a.all, b.all],
            sampled: [a.sampled(), b.sampled()],
            in_flight: a.in_flight + b.in_flight,
            ..Diff::default()
        }
    }

    fn add(&mut self, change: Change) {
        if change.before.samples == 0 && change.after.samples == 0 {
            return;
        }
        match Change::kind(&change.before, &change.after) {
            Some(kind) => self.changes.push(Change { kind, ..change }),
            None => self.unchanged += 1,
        }
    }

    /// By how many bytes all grew.
    pub fn bytes(&self) -> i64 {
        difference(self.all[1].bytes, self.all[0].bytes)
    }

    /// By how many blocks all grew.
    pub fn blocks(&self) -> i64 {
        difference(self.all[1].blocks, self.all[0].blocks)
    }

    /// The standard error of [`Diff::bytes`]; 0 if exact.
    pub fn bytes_error(&self) -> u64 {
        self.born.unwrap_or(self.all[1]).error_with(&self.freed.unwrap_or(self.all[0]))
    }

    /// Whether any of it is an estimate.
    pub fn is_estimated(&self) -> bool {
        self.sampled.iter().any(Option::is_some)
    }

    /// Stacks that grew or are new: how many, and by how many bytes in all.
    pub fn growth(&self) -> (u64, i64) {
        self.sum(ChangeKind::is_up)
    }

    /// Stacks that shrank or are gone: how many, and by how many bytes in all (not above 0).
    pub fn shrinkage(&self) -> (u64, i64) {
        self.sum(|kind| !kind.is_up())
    }

    /// The stacks to show of those that grew, and of those that shrank, so many of each (0: all): most change first.
    pub fn largest(&self, limit: usize) -> [Vec<&Change>; 2] {
        let limit = if limit == 0 { usize::MAX } else { limit };
        let grown = self.changes.iter().filter(|change| change.kind.is_up()).take(limit).collect();
        let shrunk = self.changes.iter().rev().filter(|change| !change.kind.is_up()).take(limit).collect();
        [grown, shrunk]
    }

    fn sum(&self, counts: fn(ChangeKind) -> bool) -> (u64, i64) {
        let changes = self.changes.iter().filter(|change| counts(change.kind));
        changes.fold((0, 0), |(count, bytes), change| (count + 1, bytes.saturating_add(change.bytes())))
    }
}
