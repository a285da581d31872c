//! Rows of made readings; with a ledger and its words they are looked at in `report`.

use std::sync::Arc;

use heapledger_format::ThreadRow;

use super::*;
use crate::watch::{Cell, FoundNames, FrameLabels, Sample, SiteName};

/// A reading of (site, thread, bytes), a block each; site n is in function n and file 9.
fn readings(cells: &[(u32, u32, u64)]) -> Readings {
    let mut readings = Readings::default();
    let held = |bytes| Amount { samples: 1, blocks: 1, bytes };
    let cell = |(site, thread, bytes): &(u32, u32, u64)| Cell {
        live: held(*bytes),
        ..Cell::none(CellKey { site: Site(*site), thread: Some(ThreadRow(*thread)), kind: Kind::MALLOC })
    };
    let cells = Arc::new(cells.iter().map(cell).collect());
    readings.add_sample(Arc::new(Sample { cells, ..Sample::default() }), "");
    let labels = ["one", "Two", "three"].map(Arc::from).to_vec();
    let site = |site| {
        let holder = FrameLabels { function: site, file: 9, module: 0 };
        (Site(site), SiteName { holder, innermost: FrameLabels { function: 3, ..holder }, line: site })
    };
    readings.names.add(FoundNames { labels, sites: vec![site(1), site(2)] });
    readings
}

fn shown(readings: &Readings, change: impl FnOnce(&mut View)) -> Vec<(RowId, u64)> {
    let mut view = View::new(Field::Function, Some(RowFigure::Bytes));
    change(&mut view);
    let label = |id| match id {
        RowId::Label(label) => readings.names.label(label).to_owned(),
        RowId::Site(site) => {
            readings.names.label(readings.names.site(site).map_or(UNNAMED, |name| name.line)).to_owned()
        }
        other => format!("{other:?}"),
    };
    readings.table(&view, &label).into_iter().map(|(id, row)| (id, row.live.bytes)).collect()
}

#[test]
fn the_table_is_as_the_view_wants_it() {
    let readings = readings(&[(1, 0, 10), (1, 1, 5), (2, 1, 12), (7, 1, 1)]);
    let label = RowId::Label;
    assert_eq!(shown(&readings, |_| ()), [(label(1), 15), (label(2), 12), (label(UNNAMED), 1)]);
    assert_eq!(shown(&readings, |view| view.reverse = true)[0], (label(UNNAMED), 1));
    assert_eq!(shown(&readings, |view| view.order = None)[2], (label(1), 15), "capitals and brackets come first");
    assert_eq!(shown(&readings, |view| view.filter = "TWO".to_owned()), [(label(2), 12)]);
    assert_eq!(shown(&readings, |view| view.wrappers = true), [(label(3), 27), (label(UNNAMED), 1)]);
    assert_eq!(shown(&readings, |view| view.by = Field::File), [(label(9), 27), (label(UNNAMED), 1)]);
    assert_eq!(shown(&readings, |view| view.by = Field::Stack)[2], (RowId::Site(Site(7)), 1));
    assert_eq!(shown(&readings, |view| view.by = Field::Kind), [(RowId::Kind(Kind::MALLOC), 28)]);
    let part = |view: &mut View| (view.by, view.within) = (Field::Thread, vec![(Field::Function, label(1))]);
    assert_eq!(
        shown(&readings, part),
        [(RowId::Thread(Some(ThreadRow(0))), 10), (RowId::Thread(Some(ThreadRow(1))), 5)]
    );
}

#[test]
fn rows_are_by_each_field_that_the_list_names() {
    let readings = readings(&[(1, 0, 10)]);
    for (by, (name, _)) in Field::watched() {
        assert_eq!(shown(&readings, |view| view.by = *by).len(), 1, "{name}");
        assert!(by.group_names().contains(name), "blocks are added up by {by} under other names");
    }
    assert_eq!(shown(&readings, |view| view.by = Field::Size), [], "no key tells it");
}

#[test]
fn each_site_is_asked_for_once_the_greatest_first() {
    let mut readings = readings(&[(1, 0, 10), (2, 1, 12), (1, 1, 5)]);
    assert_eq!(readings.sites_to_name(), [Site(1), Site(2)]);
    assert_eq!(readings.sites_to_name(), []);
}

#[test]
fn orders_have_names_of_their_own() {
    let orders = row_orders();
    for (index, (order, name, _)) in orders.iter().enumerate() {
        assert!(!name.is_empty());
        assert!(orders[..index].iter().all(|(other, known, _)| other != order && known != name), "{name}");
    }
}
