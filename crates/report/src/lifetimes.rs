//! For how long freed blocks have lived, in a table of groups and in JSON.

use heapledger_analysis::Group;
use heapledger_format::sums::{LIVED_EVENTS, LIVED_NS};
use heapledger_source::LivedSum;
use serde::Serialize;

use crate::{Cell, Column};

/// What lies below the headings.
pub(crate) const EXPLAINED: &str = "MEAN: events from a block's allocation to its free. Then percent of the freed blocks: \
                                    by events (<10, 10+ …), and by time from 10 ms up.";

/// Classes, as headings have them.
const CLASSES: [&str; LIVED_EVENTS.len() + 1 + LIVED_NS.len()] =
    ["<10", "10+", "100+", "1k+", "10k+", "100k+", "10ms+", "1s+", "100s+"];

/// Names of classes where they are counted, with the least lifetime in them.
fn keys() -> impl Iterator<Item = String> {
    let events = std::iter::once(0).chain(LIVED_EVENTS).map(|events| format!("lived_events_{events}"));
    events.chain(LIVED_NS.into_iter().map(|ns| format!("lived_ns_{ns}")))
}

/// Blocks by class, as in [`CLASSES`].
fn classes(lived: &LivedSum) -> impl Iterator<Item = u64> {
    // Those that lived for less than can be told are the others.
    lived.by_events.into_iter().chain(lived.by_time.into_iter().skip(1))
}

/// Their columns, and before them that of freed blocks.
pub(crate) fn columns() -> Vec<Column> {
    let mut columns = vec![Column::number("freed").key("blocks"), Column::number("mean").key("lived_events_mean")];
    columns.extend(CLASSES.iter().zip(keys()).map(|(name, key)| Column::number(*name).key(key)));
    columns
}

/// What stands there. `counted`: numbers of blocks, for programs, and not what part of all they are.
pub(crate) fn cells(group: &Group, counted: bool) -> Vec<Cell> {
    let mut cells = vec![Cell::Count(group.blocks)];
    let Some(lived) = &group.lived else {
        cells.resize(2 + CLASSES.len(), Cell::Nothing);
        return cells;
    };
    cells.push(Cell::maybe(mean(group, lived), Cell::Count));
    cells.extend(classes(lived).map(|blocks| match (counted, blocks) {
        (true, _) => Cell::Count(blocks),
        (false, 0) => Cell::Nothing,
        (false, _) => Cell::Text(whole_percent(blocks, group.blocks)),
    }));
    cells
}

fn mean(group: &Group, lived: &LivedSum) -> Option<u64> {
    lived.events.checked_div(group.blocks)
}

/// In few letters: what is neither nothing nor all does not look so.
fn whole_percent(part: u64, whole: u64) -> String {
    let percent = 100.0 * part as f64 / whole.max(1) as f64;
    match percent {
        _ if percent < 1.0 => "<1".to_owned(),
        _ if part < whole && percent > 99.0 => ">99".to_owned(),
        _ => format!("{percent:.0}"),
    }
}

/// The same in JSON.
#[derive(Serialize)]
pub(crate) struct LivedJson {
    events: u64,
    mean_events: Option<u64>,
    blocks_by_events: Vec<u64>,
    blocks_by_time: Vec<u64>,
}

/// For how long the blocks of a group have lived, if that is known.
pub(crate) fn json(group: &Group) -> Option<LivedJson> {
    group.lived.as_ref().map(|lived| LivedJson {
        events: lived.events,
        mean_events: mean(group, lived),
        blocks_by_events: lived.by_events.to_vec(),
        blocks_by_time: lived.by_time.to_vec(),
    })
}

/// The least lifetimes of the classes, for the header of JSON.
#[derive(Serialize)]
pub(crate) struct ClassesJson {
    lived_from_events: Vec<u64>,
    lived_from_ns: Vec<u64>,
}

/// See [`ClassesJson`].
pub(crate) fn classes_json() -> ClassesJson {
    let from = |bounds: &[u64]| std::iter::once(0).chain(bounds.iter().copied()).collect();
    ClassesJson { lived_from_events: from(&LIVED_EVENTS), lived_from_ns: from(&LIVED_NS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_and_nearly_all_look_so() {
        let shown = [(1, 1000), (10, 1000), (994, 1000), (999, 1000), (1000, 1000)];
        let shown = shown.map(|(part, whole)| whole_percent(part, whole));
        assert_eq!(shown, ["<1", "1", ">99", ">99", "100"]);
    }

    #[test]
    fn each_class_has_a_name() {
        let keys: Vec<String> = keys().collect();
        assert_eq!(keys.len(), CLASSES.len());
        assert_eq!((keys[0].as_str(), keys[5].as_str()), ("lived_events_0", "lived_events_100000"));
        assert_eq!(keys[6], "lived_ns_10000000");
    }
}
