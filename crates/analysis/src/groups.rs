//! Live blocks, added up by what they have in common.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use heapledger_format::{CodeId, Entry, Site, Ticks};
use heapledger_source::{Ledger, LivedSum, SourceError};

use self::parts::{Looked, Parts, Raw, Total};
use crate::events::Sink;
use crate::fields::{Field, Unit};
use crate::fold::{Act, Fold, fold};
use crate::query::{Evaluator, GroupOrder, Subject};
use crate::sampling::{Sampled, Sampling};
use crate::tree::Measure;
use crate::{Coverage, Event, Holders, NamedFrame, Names, NamingOptions, Told, Wanted};

mod parts;
mod summed;

pub(crate) use parts::Mixer;

/// What the blocks of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKey {
    /// The function that holds them. Functions without a name are one for each module.
    Function {
        /// The function.
        name: Option<Arc<str>>,
        /// Its module, if it has no name.
        module: Option<Arc<str>>,
    },
    /// The source file of the function that holds them; `None` if that is not known.
    File(Option<Arc<str>>),
    /// The module of the function that holds them; `None` if that is not known.
    Module(Option<Arc<str>>),
    /// Their call stack, by its number.
    Stack(Site),
    /// What the program told of them, in words; `None` for all of which it told nothing.
    Told(Field, Option<Arc<str>>),
    /// A figure; `None` for all of which it is not known.
    Figure(Field, Option<u64>),
}

/// Blocks that have something in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What, in the order in which it was asked for.
    pub keys: Vec<GroupKey>,
    /// Records.
    pub samples: u64,
    /// Blocks.
    pub blocks: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// The standard error of `bytes`; 0 if exact.
    pub bytes_error: u64,
    /// The size of the largest.
    pub largest: Option<u64>,
    /// When the oldest was allocated.
    pub oldest: Option<Ticks>,
    /// When the youngest was allocated.
    pub youngest: Option<Ticks>,
    /// The call stack that holds most of them, or where stacks were not told apart, that of the largest.
    pub site: Site,
    /// For how long they have lived, if that was asked for.
    pub lived: Option<Box<LivedSum>>,
}

/// All groups, or the first of them.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// What was added up by.
    pub by: Vec<Field>,
    /// The groups to show.
    pub groups: Vec<Group>,
    /// How many there are in all.
    pub total: u64,
    /// Blocks in all of them.
    pub total_blocks: u64,
    /// Bytes in all of them.
    pub total_bytes: u64,
    /// The standard error of `total_bytes`; 0 if exact.
    pub total_bytes_error: u64,
    /// What estimates come from; `None` if every block was entered.
    pub sampled: Option<Sampled>,
    /// Records that were being written.
    pub in_flight: u64,
    /// Which blocks are meant, in the language of filters; `None` if all are.
    pub filter: Option<String>,
    /// Records in all of them.
    pub samples: u64,
    /// What blocks and bytes are, if they are not live blocks and were added up by call site.
    pub measure: Option<Measure>,
    /// If that is of the peak: by how many bytes sums may be off, as of [`SiteSums`](crate::tree::SiteSums).
    pub peak_error: Option<u64>,
    /// The peak as [`Peak`](crate::Peak) has it, likewise.
    pub peak_highest: Option<u64>,
    /// Whether it was asked for how long they have lived.
    pub lifetimes: bool,
    /// Of events: what is missing. Then blocks are events, each with the bytes of its block.
    pub history: Option<Coverage>,
}

impl Fold<Entry> for Parts<'_> {
    #[inline]
    fn add(&mut self, block: &Entry, _: Act, weight: u64) {
        self.put(&Subject::live(block), block, weight);
    }

    fn join(&mut self, other: Self) {
        self.take(other);
    }
}

impl Fold<Event> for Parts<'_> {
    fn add(&mut self, event: &Event, _: Act, weight: u64) {
        self.put(&Subject::from(event), &event.as_entry(), weight);
    }

    fn join(&mut self, other: Self) {
        self.take(other);
    }
}

impl Sink for Parts<'_> {
    const KNOWS_THE_SAME: bool = false;
}

impl Groups {
    /// Adds up the live blocks that `filter` means, in one pass and with memory in proportion to the groups and to the
    /// call stacks; then names what is to be told apart by names. The first `limit` groups are kept; 0 is all.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        by: &[Field],
        filter: &mut Evaluator<'_>,
        holders: &Holders,
        order: (&GroupOrder, usize),
        progress: &mut dyn FnMut(f32),
    ) -> Result<Groups, SourceError> {
        filter.prepare_blocks(progress)?;
        let told = Told::for_fields(ledger, by.iter().copied())?;
        let wanted = Looked::of(by, &told);
        let folded = fold::<Entry, _>(ledger, Some(filter), usize::MAX, &|| Parts::new(wanted), progress)?;
        let mut groups = Groups::named((folded.sum, None), by, filter, holders, order, progress)?;
        let sampled = Sampling::of(ledger).from(groups.samples);
        (groups.sampled, groups.in_flight) = (sampled, folded.in_flight);
        Ok(groups)
    }

    /// Adds up the events of several ledgers of [one run](crate::in_order) that `filter` means: allocations and frees,
    /// which are told apart if [`Field::Event`] is asked for. Memory is as for blocks.
    ///
    /// # Errors
    /// If a ledger can no longer be read.
    pub fn of_events(
        ledgers: &[&Ledger],
        by: &[Field],
        filter: &mut Evaluator<'_>,
        holders: &Holders,
        order: (&GroupOrder, usize),
        progress: &mut dyn FnMut(f32),
    ) -> Result<Groups, SourceError> {
        let Some(last) = ledgers.last() else { return Ok(Groups::default()) };
        let told = Told::for_fields(last, by.iter().copied())?;
        let wanted = Looked::of(by, &told);
        let mut events = Wanted { keys: None, reverse: false, limit: 0, filter: Some(&mut *filter) };
        let (sums, found) = events.gather(ledgers, &|| Parts::new(wanted), progress)?;
        let mut groups = Groups::named((sums, None), by, filter, holders, order, progress)?;
        (groups.sampled, groups.in_flight) = (found.sampled, found.in_flight);
        groups.history = Some(found);
        Ok(groups)
    }

    /// Names what is told apart by names, and puts the groups in order. `lifetimes`: for how long what a call site allocated has lived.
    fn named(
        (parts, lifetimes): (Parts<'_>, Option<&HashMap<Site, LivedSum>>),
        by: &[Field],
        filter: &mut Evaluator<'_>,
        holders: &Holders,
        (order, limit): (&GroupOrder, usize),
        progress: &mut dyn FnMut(f32),
    ) -> Result<Groups, SourceError> {
        let named = by.iter().any(|by| by.needs_names());
        let Parts { wanted, totals, .. } = parts;
        let sites = wanted.sites;
        let mut all = Total::default();
        totals.iter().for_each(|(_, total)| all.join(total));
        if named {
            let sites: BTreeSet<Site> = totals.iter().map(|(raw, _)| raw.site).collect();
            filter.names().resolve(sites, NamingOptions::default(), progress)?;
        }
        let mut holding = Holding { holders, known: HashMap::new() };
        let mut joined: HashMap<Vec<GroupKey>, (Total, Option<Box<LivedSum>>)> = HashMap::new();
        for (raw, total) in totals {
            let holder = if named { holding.frame(raw.site, filter.names())? } else { Arc::default() };
            let keys = by.iter().map(|by| key(*by, &wanted, &raw, &holder)).collect();
            // The stack of the part that holds most is the stack to show.
            let part = Total { top: (total.amount.bytes, if sites { raw.site } else { total.top.1 }), ..total };
            let (sum, lived) = joined.entry(keys).or_default();
            sum.join(&part);
            if let Some(of_site) = lifetimes.and_then(|lifetimes| lifetimes.get(&raw.site)) {
                **lived.get_or_insert_default() += *of_site;
            }
        }
        let count = joined.len() as u64;
        let mut groups: Vec<Group> = joined
            .into_iter()
            .map(|(keys, (total, lived))| Group {
                keys,
                samples: total.amount.samples,
                blocks: total.amount.blocks,
                bytes: total.amount.bytes,
                bytes_error: total.amount.bytes_error(),
                largest: total.largest,
                oldest: total.oldest,
                youngest: total.youngest,
                site: total.top.1,
                lived,
            })
            .collect();
        if limit != 0 && limit < groups.len() {
            groups.select_nth_unstable_by(limit - 1, |one, other| order.compare(one, other));
            groups.truncate(limit);
        }
        groups.sort_unstable_by(|one, other| order.compare(one, other));
        Ok(Groups {
            by: by.to_vec(),
            groups,
            total: count,
            samples: all.amount.samples,
            total_blocks: all.amount.blocks,
            total_bytes: all.amount.bytes,
            total_bytes_error: all.amount.bytes_error(),
            filter: (!filter.is_all()).then(|| filter.text().to_owned()),
            lifetimes: lifetimes.is_some(),
            ..Groups::default()
        })
    }

    /// Groups that there are and that are not shown.
    pub fn left_out(&self) -> u64 {
        self.total.saturating_sub(self.groups.len() as u64)
    }
}

/// Who holds, by call site.
struct Holding<'h> {
    holders: &'h Holders,
    /// By code address: its innermost frame that holds, and its innermost frame.
    known: HashMap<CodeId, (Option<Arc<NamedFrame>>, Arc<NamedFrame>)>,
}

impl Holding<'_> {
    fn frame(&mut self, site: Site, names: &mut Names<'_>) -> Result<Arc<NamedFrame>, SourceError> {
        let mut innermost = None;
        for id in names.codes(site)? {
            let (holder, first) = match self.known.get(&id) {
                Some(known) => known.clone(),
                None => {
                    let frames = names.frames(id)?;
                    let holder = frames.iter().find(|frame| self.holders.holds(frame)).cloned().map(Arc::new);
                    let first = Arc::new(frames.into_iter().next().unwrap_or_default());
                    self.known.insert(id, (holder.clone(), Arc::clone(&first)));
                    (holder, first)
                }
            };
            if let Some(holder) = holder {
                return Ok(holder);
            }
            innermost.get_or_insert(first);
        }
        Ok(innermost.unwrap_or_default())
    }
}

/// What a part has in common, by one of what was added up by: a name, or a figure.
fn key(by: Field, wanted: &Looked<'_>, raw: &Raw, holder: &NamedFrame) -> GroupKey {
    match by.unit() {
        Unit::Function => GroupKey::Function {
            name: holder.function.clone(),
            module: if holder.function.is_none() { holder.module.clone() } else { None },
        },
        Unit::File => GroupKey::File(holder.file.clone()),
        Unit::Module => GroupKey::Module(holder.module.clone()),
        Unit::Stack => GroupKey::Stack(raw.site),
        _ if by.is_told() => {
            GroupKey::Told(by, wanted.figure(by, raw).and_then(|figure| wanted.told.text(by, figure)).map(Arc::from))
        }
        _ => GroupKey::Figure(by, wanted.figure(by, raw)),
    }
}
