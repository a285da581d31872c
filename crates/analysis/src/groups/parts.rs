//! Sums of records of which the same is looked at, before anything is named.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use heapledger_format::{Entry, Site, Ticks};

use crate::fields::{Field, GROUP_FIGURES, Unit};
use crate::query::Subject;
use crate::{Amount, Estimate, Told};

/// Stands for a figure that is not known.
const UNKNOWN: u64 = u64::MAX;

/// What is looked at of a record; the rest is 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Raw {
    /// In the order in which they were asked for, none twice.
    pub(super) figures: [u64; GROUP_FIGURES],
    pub(super) site: Site,
}

/// Spreads keys that are small numbers, quickly.
#[derive(Default)]
pub(crate) struct Mixer(u64);

impl std::hash::Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        // An array of numbers comes as bytes.
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_ne_bytes(*word)));
        rest.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
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
    pub(super) oldest: Option<Ticks>,
    pub(super) youngest: Option<Ticks>,
    /// The stack that holds most, and how many bytes.
    pub(super) top: (u64, Site),
}

fn least(one: Option<Ticks>, other: Option<Ticks>) -> Option<Ticks> {
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

/// Whose figure is looked at for a field: what stands behind a key is known from the whole label.
fn figure_of(by: Field) -> Field {
    if by.unit() == Unit::Label { Field::Label } else { by }
}

/// What is looked at of a record.
#[derive(Clone, Copy)]
pub(super) struct Looked<'t> {
    /// Call stacks are told apart.
    pub(super) sites: bool,
    figures: [Option<Field>; GROUP_FIGURES],
    pub(super) told: &'t Told,
}

impl<'t> Looked<'t> {
    pub(super) fn of(by: &[Field], told: &'t Told) -> Looked<'t> {
        let mut looked = Looked { sites: by.iter().any(|by| by.needs_names()), figures: [None; GROUP_FIGURES], told };
        for field in by.iter().filter(|by| !by.needs_names()).map(|by| figure_of(*by)) {
            let place = looked.figures.iter_mut().find(|place| place.is_none_or(|known| known == field));
            place.into_iter().for_each(|place| *place = Some(field));
        }
        looked
    }

    /// The figure of a field; `None` if it is not known.
    pub(super) fn figure(self, by: Field, raw: &Raw) -> Option<u64> {
        let at = self.figures.iter().position(|field| *field == Some(figure_of(by)))?;
        raw.figures.get(at).copied().filter(|figure| *figure != UNKNOWN)
    }

    /// Whether nothing but the call site is looked at.
    fn only_sites(self) -> bool {
        self.sites && self.figures[0].is_none()
    }

    fn raw(self, subject: &Subject<'_>) -> Raw {
        let mut raw = Raw { site: if self.sites { subject.site() } else { Site::NONE }, ..Raw::default() };
        for (figure, field) in raw.figures.iter_mut().zip(self.figures.into_iter().flatten()) {
            *figure = self.told.figure(field, subject).unwrap_or(UNKNOWN);
        }
        raw
    }
}

/// Sums of all blocks of which the same is looked at.
pub(super) struct Parts<'t> {
    pub(super) wanted: Looked<'t>,
    pub(super) totals: Vec<(Raw, Total)>,
    places: HashMap<Raw, u32, BuildHasherDefault<Mixer>>,
    /// By call site, if nothing else is looked at: its place and 1.
    sites: Vec<u32>,
}

/// Call sites below this have a place in a table of their own.
const DENSE: usize = 1 << 24;

impl<'t> Parts<'t> {
    pub(super) fn new(wanted: Looked<'t>) -> Parts<'t> {
        Parts { wanted, totals: Vec::new(), places: HashMap::default(), sites: Vec::new() }
    }

    /// Adds a block or an event; `entry` is the block with what is the event's own.
    #[inline]
    pub(super) fn put(&mut self, subject: &Subject<'_>, entry: &Entry, weight: u64) {
        let wanted = self.wanted;
        self.of(entry.site, || wanted.raw(subject)).add(entry, weight);
    }

    /// Adds what was added up of a call site.
    pub(super) fn put_sum(&mut self, site: Site, amount: Amount) {
        let raw = Raw { site: if self.wanted.sites { site } else { Site::NONE }, ..Raw::default() };
        let total = self.of(site, || raw);
        total.amount.join(&Estimate::from(amount));
        total.top = total.top.max((amount.bytes, site));
    }

    /// Adds what another has added up.
    pub(super) fn take(&mut self, other: Parts<'_>) {
        other.totals.into_iter().for_each(|(raw, total)| self.of(raw.site, || raw).join(&total));
    }

    #[inline]
    fn of(&mut self, site: Site, raw: impl Fn() -> Raw) -> &mut Total {
        let place = match self.sites.get(site.index()) {
            Some(place) if *place != 0 => *place as usize - 1,
            _ => self.place(site, raw()),
        };
        &mut self.totals[place].1
    }

    fn place(&mut self, site: Site, raw: Raw) -> usize {
        let next = self.totals.len() as u32;
        let place = *self.places.entry(raw).or_insert(next);
        if place == next {
            self.totals.push((raw, Total::default()));
        }
        if self.wanted.only_sites() && site.index() < DENSE {
            if site.index() >= self.sites.len() {
                self.sites.resize((site.index() + 1).max(self.sites.len() * 2), 0);
            }
            self.sites[site.index()] = place + 1;
        }
        place as usize
    }
}
