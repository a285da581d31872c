//! From cells to the rows of a table.

use std::collections::HashMap;
use std::hash::Hash;

use heapledger_format::Ticks;

use super::{Cell, CellKey, Sample, per_second};
use crate::Amount;

/// What one group holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<G> {
    /// The group.
    pub group: G,
    /// Its live blocks.
    pub live: Amount,
    /// Those of them that came after the mark.
    pub young: Amount,
    /// By how many bytes it grew in a second; `None` as long as there is nothing to compare with.
    pub bytes_per_second: Option<f64>,
    /// By how many blocks it grew in a second.
    pub blocks_per_second: Option<f64>,
    /// By how many bytes it grew since the base.
    pub growth_bytes: i64,
    /// By how many blocks it grew since the base.
    pub growth_blocks: i64,
    /// When the oldest of its blocks was allocated; of the young ones if there are any.
    pub oldest: Option<Ticks>,
    /// When the newest was.
    pub newest: Option<Ticks>,
    /// Cells that it has now.
    pub cells: u64,
}

/// The blocks of `now` in groups, in no particular order. A group that lost its last block is still there, with growth
/// below 0. `before` is what rates are reckoned from, `base` what growth is. Cells for which `group` answers `None` are
/// left out.
pub fn rows<G: Copy + Eq + Hash>(
    now: &Sample,
    before: Option<&Sample>,
    base: Option<&Sample>,
    mut group: impl FnMut(&CellKey) -> Option<G>,
) -> Vec<Row<G>> {
    struct Sums {
        now: Cell,
        before: Amount,
        base: Amount,
        cells: u64,
    }
    let fresh =
        |cell: &Cell| Sums { now: Cell::none(cell.key), before: Amount::default(), base: Amount::default(), cells: 0 };
    let mut groups: HashMap<G, Sums> = HashMap::new();
    for cell in now.cells.iter() {
        let Some(group) = group(&cell.key) else { continue };
        let sums = groups.entry(group).or_insert_with(|| fresh(cell));
        sums.now.join(cell);
        sums.cells += 1;
    }
    for (sample, is_base) in [(before, false), (base, true)] {
        for cell in sample.map_or(&[][..], |sample| sample.cells.as_slice()) {
            let Some(group) = group(&cell.key) else { continue };
            let sums = groups.entry(group).or_insert_with(|| fresh(cell));
            if is_base { sums.base.join(cell.live) } else { sums.before.join(cell.live) }
        }
    }
    let span = before.map(|before| now.at_ns.saturating_sub(before.at_ns));
    let base_is_there = base.is_some();
    let difference = |now: u64, base: u64| {
        if base_is_there {
            (i128::from(now) - i128::from(base)).clamp(i64::MIN.into(), i64::MAX.into()) as i64
        } else {
            0
        }
    };
    let row = |(group, sums): (G, Sums)| Row {
        group,
        live: sums.now.live,
        young: sums.now.young,
        bytes_per_second: span.and_then(|span| per_second(sums.now.live.bytes, sums.before.bytes, span)),
        blocks_per_second: span.and_then(|span| per_second(sums.now.live.blocks, sums.before.blocks, span)),
        growth_bytes: difference(sums.now.live.bytes, sums.base.bytes),
        growth_blocks: difference(sums.now.live.blocks, sums.base.blocks),
        oldest: sums.now.oldest,
        newest: sums.now.newest,
        cells: sums.cells,
    };
    groups.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapledger_format::{Kind, Site, ThreadRow};
    use std::sync::Arc;

    fn held(blocks: u64, bytes: u64) -> Amount {
        Amount { samples: blocks, blocks, bytes }
    }

    fn cell(site: Site, thread: u32, live: Amount, young: Amount, ages: [u64; 2]) -> Cell {
        let key = CellKey { site, thread: Some(ThreadRow(thread)), kind: Kind::MALLOC };
        Cell { key, live, young, oldest: Some(Ticks(ages[0])), newest: Some(Ticks(ages[1])) }
    }

    fn sample(at_ns: u64, cells: Vec<Cell>) -> Sample {
        Sample { at_ns, cells: Arc::new(cells), ..Sample::default() }
    }

    fn by_site(mut rows: Vec<Row<Site>>) -> Vec<Row<Site>> {
        rows.sort_by_key(|row| row.group);
        rows
    }

    #[test]
    fn growth_is_against_base_and_rates_against_before() {
        let none = Amount::default();
        let base =
            sample(0, vec![cell(Site(1), 0, held(1, 10), none, [5, 5]), cell(Site(3), 0, held(4, 40), none, [1, 1])]);
        let before = sample(8_000_000_000, vec![cell(Site(1), 0, held(2, 100), none, [5, 6])]);
        let now = sample(
            10_000_000_000,
            vec![
                cell(Site(1), 0, held(4, 300), none, [5, 9]),
                cell(Site(1), 1, held(1, 20), none, [2, 7]),
                cell(Site(2), 1, held(1, 8), none, [8, 8]),
            ],
        );
        let rows = by_site(rows(&now, Some(&before), Some(&base), |key| Some(key.site)));
        assert_eq!(rows.len(), 3);
        assert_eq!((rows[0].live, rows[0].cells), (held(5, 320), 2));
        assert_eq!((rows[0].bytes_per_second, rows[0].blocks_per_second), (Some(110.0), Some(1.5)));
        assert_eq!((rows[0].growth_bytes, rows[0].growth_blocks), (310, 4));
        assert_eq!((rows[0].oldest, rows[0].newest), (Some(Ticks(2)), Some(Ticks(9))));
        assert_eq!((rows[1].growth_bytes, rows[1].bytes_per_second), (8, Some(4.0)));
        assert_eq!((rows[2].live, rows[2].growth_bytes, rows[2].growth_blocks), (held(0, 0), -40, -4));
    }

    #[test]
    fn the_first_reading_has_no_rates_and_no_growth() {
        let now = sample(7, vec![cell(Site(1), 0, held(4, 300), Amount::default(), [5, 9])]);
        let rows = rows(&now, None, None, |key| key.thread);
        assert_eq!((rows[0].group, rows[0].bytes_per_second, rows[0].growth_bytes), (ThreadRow(0), None, 0));
    }

    #[test]
    fn ages_are_those_of_the_young_where_there_are_any() {
        let now = sample(
            7,
            vec![
                cell(Site(1), 0, held(4, 300), Amount::default(), [5, 9]),
                cell(Site(1), 1, held(4, 300), held(1, 1), [70, 71]),
                cell(Site(1), 2, held(4, 300), Amount::default(), [1, 90]),
                cell(Site(1), 3, held(4, 300), held(2, 1), [60, 65]),
            ],
        );
        let rows = rows(&now, None, None, |_| Some(()));
        assert_eq!((rows[0].oldest, rows[0].newest, rows[0].young.blocks), (Some(Ticks(60)), Some(Ticks(71)), 3));
    }

    #[test]
    fn a_group_may_leave_cells_out() {
        let now = sample(
            7,
            vec![
                cell(Site(1), 0, held(1, 1), Amount::default(), [0, 0]),
                cell(Site(2), 0, held(1, 1), Amount::default(), [0, 0]),
            ],
        );
        assert_eq!(rows(&now, None, None, |key| (key.site == Site(2)).then_some(())).len(), 1);
    }
}
