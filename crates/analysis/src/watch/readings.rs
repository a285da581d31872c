//! All that was read of one ledger, as far as the newest reading is compared with it.

use std::hash::Hash;
use std::sync::Arc;

use super::{CellKey, Curve, Mark, NameTable, RATE_WINDOW_NS, Row, Sample, Samples, Totals, per_second, rows};

/// What was read of a ledger that is watched.
#[derive(Debug, Default)]
pub struct Readings {
    /// The newest totals.
    pub totals: Option<Box<Totals>>,
    /// Totals some seconds ago, for rates.
    before: Vec<Counted>,
    /// The last readings of all records.
    pub samples: Samples,
    /// The first sample: what growth is reckoned from without a mark.
    first: Option<Arc<Sample>>,
    /// The mark, if one is set.
    pub mark: Option<Mark>,
    /// Which blocks were looked at when it was set.
    mark_condition: String,
    /// The heap over the last minutes.
    pub curve: Curve,
    /// The condition for blocks, as a text; empty if there is none.
    pub condition: String,
    /// What its call sites are called, as far as that is found.
    pub names: NameTable,
    /// How its program ended, in words, once somebody said that it has.
    pub ending: Option<String>,
}

/// Whether a ledger changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// Its program runs.
    Running,
    /// It does not any more; how it changed while somebody looked is known.
    Over,
    /// Nobody saw it change.
    Still,
}

/// By how much totals grew in a second; nothing as long as there is nothing to compare with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TotalsRates {
    /// Bytes that live.
    pub bytes_per_second: Option<f64>,
    /// Blocks allocated.
    pub allocations_per_second: Option<f64>,
    /// Blocks freed.
    pub frees_per_second: Option<f64>,
}

/// The totals that rates are reckoned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    at_ns: u64,
    live_bytes: u64,
    allocations: u64,
    frees: u64,
}

impl Counted {
    fn of(totals: &Totals) -> Counted {
        Counted {
            at_ns: totals.at_ns,
            live_bytes: totals.live_bytes,
            allocations: totals.allocations,
            frees: totals.frees,
        }
    }
}

impl Readings {
    /// Takes new totals in.
    pub fn add_totals(&mut self, totals: Box<Totals>) {
        self.curve.push(totals.at_ns, totals.live_bytes);
        self.count(Counted::of(&totals));
        self.totals = Some(totals);
    }

    fn count(&mut self, now: Counted) {
        self.before.push(now);
        // The youngest that is old enough stays, and all after it.
        let old = |counted: &Counted| now.at_ns.saturating_sub(counted.at_ns) >= RATE_WINDOW_NS;
        let needless = self.before.iter().take_while(|counted| old(counted)).count().saturating_sub(1);
        self.before.drain(..needless);
    }

    /// Takes a new reading in, of the blocks that `condition` means.
    pub fn add_sample(&mut self, sample: Arc<Sample>, condition: &str) {
        if self.condition != condition {
            // What was read of other blocks is nothing to compare with.
            (self.samples, self.first) = (Samples::default(), None);
            self.condition = condition.to_owned();
        }
        self.first.get_or_insert_with(|| Arc::clone(&sample));
        self.samples.push(sample);
    }

    /// Takes the mark over. If it is a new one, it was set when these blocks were looked at.
    pub fn set_mark(&mut self, mark: Option<Mark>, condition: &str) {
        let same = match (&mark, &self.mark) {
            (Some(new), Some(old)) => Arc::ptr_eq(new.sample(), old.sample()),
            _ => false,
        };
        if !same {
            self.mark_condition = condition.to_owned();
        }
        self.mark = mark;
    }

    /// Whether anything changes.
    pub fn motion(&self) -> Motion {
        match self.ending.is_some() || self.totals.as_ref().is_some_and(|totals| !totals.identity.running) {
            false => Motion::Running,
            true if self.before.len() > 1 => Motion::Over,
            true => Motion::Still,
        }
    }

    /// How fast totals change, over the last seconds.
    pub fn rates(&self) -> TotalsRates {
        let (Some(before), Some(now)) = (self.before.first(), self.before.last()) else {
            return TotalsRates::default();
        };
        let span_ns = now.at_ns.saturating_sub(before.at_ns);
        TotalsRates {
            bytes_per_second: per_second(now.live_bytes, before.live_bytes, span_ns),
            allocations_per_second: per_second(now.allocations, before.allocations, span_ns),
            frees_per_second: per_second(now.frees, before.frees, span_ns),
        }
    }

    /// The blocks of the newest reading in groups, in no particular order: those groups that hold anything or lost
    /// something, and with a mark those that hold anything new. Growth is since the mark, or since the first reading if
    /// there is none or other blocks were looked at when it was set. Cells for which `group` answers `None` are left out.
    pub fn rows<G: Copy + Eq + Hash>(&self, group: impl FnMut(&CellKey) -> Option<G>) -> Vec<Row<G>> {
        let Some(now) = self.samples.last() else { return Vec::new() };
        let base = match &self.mark {
            Some(mark) if self.mark_condition == self.condition => Some(mark.sample()),
            _ => self.first.as_ref(),
        };
        let mut rows = rows(now, self.samples.before().map(Arc::as_ref), base.map(Arc::as_ref), group);
        rows.retain(|row| {
            let nothing = row.live.samples == 0 && row.growth_bytes == 0 && row.growth_blocks == 0;
            !nothing && (self.mark.is_none() || row.young.samples != 0)
        });
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Amount;
    use crate::watch::Cell;
    use heapledger_format::{Kind, Site};

    fn held(blocks: u64, bytes: u64) -> Amount {
        Amount { samples: blocks, blocks, bytes }
    }

    /// A reading at this second: (site, live bytes, young bytes), a block each where there are bytes.
    fn sample(second: u64, cells: &[(u32, u64, u64)]) -> Arc<Sample> {
        let amount = |bytes: u64| held(u64::from(bytes != 0), bytes);
        let cell = |(site, live, young): &(u32, u64, u64)| Cell {
            live: amount(*live),
            young: amount(*young),
            ..Cell::none(CellKey { site: Site(*site), thread: None, kind: Kind::MALLOC })
        };
        let cells = Arc::new(cells.iter().map(cell).collect());
        Arc::new(Sample { at_ns: second * 1_000_000_000, cells, ..Sample::default() })
    }

    /// (site, live bytes, growth in bytes) of each row, by site.
    fn shown(readings: &Readings) -> Vec<(u32, u64, i64)> {
        let mut rows: Vec<(u32, u64, i64)> = readings
            .rows(|key| Some(key.site))
            .into_iter()
            .map(|row| (row.group.0, row.live.bytes, row.growth_bytes))
            .collect();
        rows.sort_unstable();
        rows
    }

    #[test]
    fn growth_is_since_the_first_reading_or_since_the_mark() {
        let mut readings = Readings::default();
        assert_eq!(shown(&readings), []);
        readings.add_sample(sample(0, &[(1, 10, 0), (2, 5, 0)]), "");
        readings.add_sample(sample(1, &[(1, 30, 0)]), "");
        assert_eq!(shown(&readings), [(1, 30, 20), (2, 0, -5)], "what lost its last block is still there");
        readings.set_mark(Some(Mark::at(sample(1, &[(1, 30, 0)]))), "");
        assert_eq!(shown(&readings), [], "nothing is new yet");
        readings.add_sample(sample(2, &[(1, 37, 7), (3, 4, 0)]), "");
        assert_eq!(shown(&readings), [(1, 37, 7)], "only what holds anything new");
        readings.set_mark(None, "");
        assert_eq!(shown(&readings), [(1, 37, 27), (2, 0, -5), (3, 4, 4)]);
    }

    #[test]
    fn what_was_read_of_other_blocks_is_nothing_to_compare_with() {
        let mut readings = Readings::default();
        readings.add_sample(sample(0, &[(1, 10, 0)]), "");
        let mark = Mark::at(sample(0, &[(1, 10, 0)]));
        readings.set_mark(Some(mark.clone()), "");
        readings.add_sample(sample(1, &[(1, 90, 80)]), "size >= 1");
        readings.set_mark(Some(mark.clone()), "size >= 1");
        assert_eq!(shown(&readings), [(1, 90, 0)], "the mark was set when others were looked at");
        assert!(readings.samples.before().is_none());
        readings.add_sample(sample(2, &[(1, 95, 85)]), "");
        readings.set_mark(Some(mark), "");
        assert_eq!(shown(&readings), [(1, 95, 85)], "the same mark, and its own blocks again");
    }

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let mut readings = Readings::default();
        assert_eq!(readings.rates(), TotalsRates::default());
        let at = |second: u64, live_bytes, allocations| Counted {
            at_ns: second * 1_000_000_000,
            live_bytes,
            allocations,
            frees: second,
        };
        readings.count(at(0, 3000, 0));
        assert_eq!(readings.rates(), TotalsRates::default(), "one reading has no rate");
        readings.count(at(2, 1000, 8));
        let some = |bytes, allocations| TotalsRates {
            bytes_per_second: Some(bytes),
            allocations_per_second: Some(allocations),
            frees_per_second: Some(1.0),
        };
        assert_eq!(readings.rates(), some(-1000.0, 4.0));
        for second in 3..30 {
            readings.count(at(second, 1000, 8));
        }
        assert_eq!(readings.rates(), some(0.0, 0.0), "what was long ago is over");
        assert_eq!(readings.before.len(), 6, "five seconds and their beginning");
    }

    #[test]
    fn what_nobody_saw_change_is_still() {
        let mut readings = Readings::default();
        assert_eq!(readings.motion(), Motion::Running);
        readings.ending = Some(String::new());
        assert_eq!(readings.motion(), Motion::Still);
        for at_ns in [0, 1] {
            readings.count(Counted { at_ns, live_bytes: 0, allocations: 0, frees: 0 });
        }
        assert_eq!(readings.motion(), Motion::Over);
        readings.ending = None;
        assert_eq!(readings.motion(), Motion::Running);
    }
}
