//! Sums of records of which the same is looked at, before anything is named.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use heapledger_format::Entry;

use crate::Estimate;
use crate::query::GroupBy;

/// What is looked at of a record; the rest is 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Raw {
    /// Size and what tells 0 from unknown.
    pub(super) size: Option<u64>,
    pub(super) site: u32,
    /// Row and 1; 0 for those without.
    pub(super) thread: u32,
    pub(super) heap: u16,
    pub(super) kind: u8,
    /// Whether it is a free.
    pub(super) free: bool,
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
pub(super) struct Total {
    pub(super) amount: Estimate,
    pub(super) largest: Option<u64>,
    pub(super) oldest: Option<u64>,
    pub(super) youngest: Option<u64>,
    /// The stack that holds most, and how many bytes.
    pub(super) top: (u64, u32),
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

impl Total {
    #[inline]
    pub(super) fn add(&mut self, entry: &Entry, weight: u64) {
        self.amount.add(entry, weight);
        self.largest = self.largest.max(entry.size);
        self.oldest = least(self.oldest, entry.time);
        self.youngest = self.youngest.max(entry.time);
        self.top = self.top.max((entry.size.unwrap_or(0), entry.site));
    }

    pub(super) fn join(&mut self, other: &Total) {
        self.amount.join(&other.amount);
        self.largest = self.largest.max(other.largest);
        self.oldest = least(self.oldest, other.oldest);
        self.youngest = self.youngest.max(other.youngest);
        self.top = self.top.max(other.top);
    }
}

/// What is looked at of a record.
#[derive(Clone, Copy, Default)]
pub(super) struct Looked {
    /// Call stacks are told apart.
    pub(super) sites: bool,
    threads: bool,
    sizes: bool,
    kinds: bool,
    heaps: bool,
    events: bool,
}

impl Looked {
    pub(super) fn of(by: &[GroupBy]) -> Looked {
        let has = |wanted| by.contains(&wanted);
        Looked {
            sites: by.iter().any(|by| by.needs_names()) || has(GroupBy::Stack),
            threads: has(GroupBy::Thread),
            sizes: has(GroupBy::Size),
            kinds: has(GroupBy::Kind),
            heaps: has(GroupBy::Heap),
            events: has(GroupBy::Event),
        }
    }

    /// Whether nothing but the call site is looked at.
    fn only_sites(self) -> bool {
        self.sites && !(self.threads || self.sizes || self.kinds || self.heaps || self.events)
    }

    fn raw(self, entry: &Entry, free: bool) -> Raw {
        Raw {
            size: entry.size.filter(|_| self.sizes),
            site: if self.sites { entry.site } else { 0 },
            thread: entry.thread.filter(|_| self.threads).map_or(0, |row| row.saturating_add(1)),
            heap: entry.heap.filter(|_| self.heaps).map_or(0, |row| u16::from(row) + 1),
            kind: if self.kinds { entry.kind.0 } else { 0 },
            free: free && self.events,
        }
    }
}

/// Sums of all blocks of which the same is looked at.
pub(super) struct Parts {
    wanted: Looked,
    pub(super) totals: Vec<(Raw, Total)>,
    places: HashMap<Raw, u32, BuildHasherDefault<Mixer>>,
    /// By call site, if nothing else is looked at: its place and 1.
    sites: Vec<u32>,
}

/// Call sites below this have a place in a table of their own.
const DENSE: usize = 1 << 24;

impl Parts {
    pub(super) fn new(wanted: Looked) -> Parts {
        Parts { wanted, totals: Vec::new(), places: HashMap::default(), sites: Vec::new() }
    }

    /// Adds a block, or one that was freed.
    #[inline]
    pub(super) fn put(&mut self, entry: &Entry, free: bool, weight: u64) {
        let wanted = self.wanted;
        self.of(entry.site, || wanted.raw(entry, free)).add(entry, weight);
    }

    /// Adds what another has added up.
    pub(super) fn take(&mut self, other: Parts) {
        other.totals.into_iter().for_each(|(raw, total)| self.of(raw.site, || raw).join(&total));
    }

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
        if self.wanted.only_sites() && (site as usize) < DENSE {
            if site as usize >= self.sites.len() {
                self.sites.resize((site as usize + 1).max(self.sites.len() * 2), 0);
            }
            self.sites[site as usize] = place + 1;
        }
        place as usize
    }
}
