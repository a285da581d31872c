//! Live blocks, added up by what they have in common.

use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use heapledger_source::format::{Entry, Kind};
use heapledger_source::{Ledger, SourceError};

use crate::query::{Evaluator, GroupBy, GroupOrder};
use crate::sampling::{Sampled, Sampling, Spread, Sum};
use crate::{Holders, NamedFrame, Names, NamingOptions};

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
    Stack(u32),
    /// The row of the thread; `None` for all without one.
    Thread(Option<u32>),
    /// Their size; `None` for all whose size was lost.
    Size(Option<u64>),
    /// The function of the malloc family.
    Kind(Kind),
    /// The row of the heap.
    Heap(Option<u8>),
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
    /// When the oldest was allocated, in ticks.
    pub oldest: Option<u64>,
    /// When the youngest was allocated, in ticks.
    pub youngest: Option<u64>,
    /// The call stack that holds most of them, or where stacks were not told apart, that of the largest.
    pub site: u32,
}

/// All groups, or the first of them.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// What was added up by.
    pub by: Vec<GroupBy>,
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
}

/// What is looked at of a record; the rest is 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Raw {
    /// Size and what tells 0 from unknown.
    size: Option<u64>,
    site: u32,
    /// Row and 1; 0 for those without.
    thread: u32,
    heap: u16,
    kind: u8,
}

/// Spreads keys that are small numbers, quickly.
#[derive(Default)]
struct Mixer(u64);

impl std::hash::Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
}

/// What is added up.
#[derive(Clone, Default)]
struct Total {
    sum: Sum,
    spread: Spread,
    largest: Option<u64>,
    oldest: Option<u64>,
    youngest: Option<u64>,
    /// The stack that holds most, and how many bytes.
    top: (u64, u32),
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

impl Total {
    #[inline]
    fn add(&mut self, entry: &Entry, weight: u64) {
        self.sum.add(entry, weight);
        self.spread.add(entry, weight);
        self.largest = self.largest.max(entry.size);
        self.oldest = least(self.oldest, entry.time);
        self.youngest = self.youngest.max(entry.time);
        self.top = self.top.max((entry.size.unwrap_or(0), entry.site));
    }

    fn join(&mut self, other: &Total) {
        self.sum.join(other.sum);
        self.spread.join(other.spread);
        self.largest = self.largest.max(other.largest);
        self.oldest = least(self.oldest, other.oldest);
        self.youngest = self.youngest.max(other.youngest);
        self.top = self.top.max(other.top);
    }
}

/// Sums of all blocks of which the same is looked at.
#[derive(Default)]
struct Parts {
    /// Whether nothing but the call site is looked at.
    by_site: bool,
    totals: Vec<(Raw, Total)>,
    places: HashMap<Raw, u32, BuildHasherDefault<Mixer>>,
    /// By call site, if nothing else is looked at: its place and 1.
    sites: Vec<u32>,
}

/// Call sites below this have a place in a table of their own.
const DENSE: usize = 1 << 24;

impl Parts {
    #[inline]
    fn of(&mut self, site: u32, raw: impl Fn() -> Raw) -> &mut Total {
        let place = match self.sites.get(site as usize) {
            Some(place) if *place != 0 => *place as usize - 1,
            _ => self.place(site, raw()),
        };
        &mut self.totals[place].1
    }

    fn place(&mut self, site: u32, raw: Raw) -> usize {
        let next = self.totals.len() as u32;
        let place = *self.places.entry(raw).or_insert(next);
        if place == next {
            self.totals.push((raw, Total::default()));
        }
        if self.by_site && (site as usize) < DENSE {
            if site as usize >= self.sites.len() {
                self.sites.resize((site as usize + 1).max(self.sites.len() * 2), 0);
            }
            self.sites[site as usize] = place + 1;
        }
        place as usize
    }
}

impl Groups {
    /// Adds up the live blocks that `filter` means, in one pass and with memory in proportion to the groups and to the
    /// call stacks; then names what is to be told apart by names. The first `limit` groups are kept; 0 is all.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        by: &[GroupBy],
        filter: &mut Evaluator<'_>,
        holders: &Holders,
        (order, limit): (&GroupOrder, usize),
        progress: &mut dyn FnMut(f32),
    ) -> Result<Groups, SourceError> {
        filter.prepare_blocks(progress)?;
        let has = |wanted| by.contains(&wanted);
        let named = by.iter().any(|by| by.needs_names());
        let (sites, threads) = (named || has(GroupBy::Stack), has(GroupBy::Thread));
        let (sizes, kinds, heaps) = (has(GroupBy::Size), has(GroupBy::Kind), has(GroupBy::Heap));
        let raw = |entry: &Entry| Raw {
            size: entry.size.filter(|_| sizes),
            site: if sites { entry.site } else { 0 },
            thread: entry.thread.filter(|_| threads).map_or(0, |row| row.saturating_add(1)),
            heap: entry.heap.filter(|_| heaps).map_or(0, |row| u16::from(row) + 1),
            kind: if kinds { entry.kind.0 } else { 0 },
        };
        let all_meant = filter.is_all();
        let sampling = Sampling::of(ledger);
        let by_site = sites && !(threads || sizes || kinds || heaps);
        let decided = &*filter;
        let scanned = ledger.scan_records(
            usize::MAX,
            &|| (Parts { by_site, ..Parts::default() }, Vec::new()),
            &|(parts, undecided), entries| {
                for entry in entries {
                    match decided.known(entry) {
                        Some(true) => parts.of(entry.site, || raw(entry)).add(entry, sampling.weight(entry)),
                        Some(false) => {}
                        None => undecided.push(*entry),
                    }
                }
            },
            progress,
        )?;
        let in_flight = scanned.in_flight;
        let mut parts = Parts { by_site, ..Parts::default() };
        for (part, undecided) in scanned.states {
            part.totals.into_iter().for_each(|(raw, total)| parts.of(raw.site, || raw).join(&total));
            for entry in undecided {
                if filter.block(&entry)? {
                    parts.of(entry.site, || raw(&entry)).add(&entry, sampling.weight(&entry));
                }
            }
        }
        let mut all = Total::default();
        let totals = parts.totals;
        totals.iter().for_each(|(_, total)| all.join(total));
        if named {
            let sites: BTreeSet<u32> = totals.iter().map(|(raw, _)| raw.site).collect();
            filter.names().resolve(sites, NamingOptions::default(), progress)?;
        }
        let mut holding = Holding { holders, known: HashMap::new() };
        let mut joined: HashMap<Vec<GroupKey>, Total> = HashMap::new();
        for (raw, total) in totals {
            let holder = if named { holding.frame(raw.site, filter.names())? } else { Arc::default() };
            let keys = by.iter().map(|by| key(*by, &raw, &holder)).collect();
            // The stack of the part that holds most is the stack to show.
            let part = Total { top: (total.sum.bytes, if sites { raw.site } else { total.top.1 }), ..total };
            joined.entry(keys).or_default().join(&part);
        }
        let count = joined.len() as u64;
        let mut groups: Vec<Group> = joined
            .into_iter()
            .map(|(keys, total)| Group {
                keys,
                samples: total.sum.samples,
                blocks: total.sum.blocks,
                bytes: total.sum.bytes,
                bytes_error: total.spread.bytes_error(),
                largest: total.largest,
                oldest: total.oldest,
                youngest: total.youngest,
                site: total.top.1,
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
            total_blocks: all.sum.blocks,
            total_bytes: all.sum.bytes,
            total_bytes_error: all.spread.bytes_error(),
            sampled: sampling.from(all.sum.samples),
            in_flight,
            filter: (!all_meant).then(|| filter.text().to_owned()),
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
    known: HashMap<u32, (Option<Arc<NamedFrame>>, Arc<NamedFrame>)>,
}

impl Holding<'_> {
    fn frame(&mut self, site: u32, names: &mut Names<'_>) -> Result<Arc<NamedFrame>, SourceError> {
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

fn key(by: GroupBy, raw: &Raw, holder: &NamedFrame) -> GroupKey {
    match by {
        GroupBy::Function => GroupKey::Function {
            name: holder.function.clone(),
            module: if holder.function.is_none() { holder.module.clone() } else { None },
        },
        GroupBy::File => GroupKey::File(holder.file.clone()),
        GroupBy::Module => GroupKey::Module(holder.module.clone()),
        GroupBy::Stack => GroupKey::Stack(raw.site),
        GroupBy::Thread => GroupKey::Thread(raw.thread.checked_sub(1)),
        GroupBy::Size => GroupKey::Size(raw.size),
        GroupBy::Kind => GroupKey::Kind(Kind(raw.kind)),
        GroupBy::Heap => GroupKey::Heap(raw.heap.checked_sub(1).map(|row| row as u8)),
    }
}
