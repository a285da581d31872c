//! Looks at a made ledger that is watched.

use heapledger_analysis::fields::Field;
use heapledger_analysis::watch::{Motion, Readings, RowFigure, RowId, View};
use heapledger_format::{Kind, ThreadRow};

use super::testing::{Made, view};
use super::*;

fn rows(readings: &Readings, view: &View) -> Vec<(RowId, LookRow)> {
    readings.table(view, &|id| row_label(readings, id))
}

fn look_at(made: &Made, by: Field, rows: usize) -> Look {
    Look::of(&made.readings, by, rows, false)
}

fn labels(readings: &Readings, view: &View) -> Vec<(String, u64)> {
    rows(readings, view).into_iter().map(|(_, row)| (row.label, row.live.bytes)).collect()
}

fn made() -> Made {
    let mut made = Made::new();
    made.block(0, 0, 100).block(1, 1, 50).block(2, 0, 400).block(2, 0, 1).look(false);
    made
}

#[test]
fn rows_are_by_what_is_asked_for() {
    let made = made();
    let by = |by| labels(&made.readings, &View { by, ..view() });
    let row = |label: &str, bytes| (label.to_owned(), bytes);
    assert_eq!(by(Field::Function), [row("program (no symbols)", 401), row("library.so (no symbols)", 150)]);
    assert_eq!(
        by(Field::Stack),
        [
            row("program+0x40", 401),
            row("library.so+0x10 < program+0x20", 100),
            row("library.so+0x10 < program+0x30", 50)
        ]
    );
    assert_eq!(by(Field::Thread), [row("4711 main (thread 0)", 501), row("4712 worker (thread 1)", 50)]);
    assert_eq!(by(Field::Module), [row("/nonexistent/program", 401), row("/nonexistent/library.so", 150)]);
    assert_eq!(by(Field::File)[1], row("(library.so, no lines known)", 150));
    assert_eq!(by(Field::Kind), [row("malloc", 551)]);
}

#[test]
fn order_filter_and_part() {
    let made = made();
    let shown = |change: &dyn Fn(&mut View)| {
        let mut view = view();
        change(&mut view);
        labels(&made.readings, &view).into_iter().map(|(label, _)| label).collect::<Vec<_>>()
    };
    assert_eq!(shown(&|view| view.order = None), ["library.so (no symbols)", "program (no symbols)"]);
    assert_eq!(shown(&|view| view.reverse = true), ["library.so (no symbols)", "program (no symbols)"]);
    assert_eq!(shown(&|view| view.filter = "LIBRARY".to_owned()), ["library.so (no symbols)"]);
    assert_eq!(shown(&|view| view.filter = "zzz".to_owned()), [""; 0]);
    let thread = (Field::Thread, RowId::Thread(Some(ThreadRow(1))));
    assert_eq!(shown(&|view| view.within = vec![thread]), ["library.so (no symbols)"]);
    assert_eq!(
        shown(&|view| view.order = Some(RowFigure::Oldest)),
        ["library.so (no symbols)", "program (no symbols)"]
    );
}

#[test]
fn allocated_since_the_start_is_known_of_whole_threads_and_kinds() {
    let made = made();
    let table = rows(&made.readings, &View { by: Field::Thread, order: Some(RowFigure::Allocated), ..view() });
    assert_eq!((table[0].1.allocated_blocks, table[0].1.allocated_bytes), (Some(10), Some(1000)));
    let kinds = rows(&made.readings, &View { by: Field::Kind, ..view() });
    assert_eq!((kinds[0].1.allocated_blocks, kinds[0].1.allocated_bytes), (Some(4), None));
    let part = View { by: Field::Thread, within: vec![(Field::Kind, RowId::Kind(Kind::MALLOC))], ..view() };
    assert_eq!(rows(&made.readings, &part)[0].1.allocated_blocks, None, "of a part nobody knows");
}

#[test]
fn a_mark_leaves_only_what_is_new() {
    let mut made = made();
    made.look(true).block(1, 0, 9).look(false);
    let table = rows(&made.readings, &view());
    assert_eq!(table.len(), 1);
    let row = &table[0].1;
    assert_eq!(
        (row.label.as_str(), row.young.bytes, row.live.bytes, row.growth_bytes),
        ("library.so (no symbols)", 9, 159, 9)
    );
    let look = look_at(&made, Field::Function, 1);
    assert_eq!((look.mark_age_ns, look.young.bytes, look.young.blocks), (Some(1_000_000_000), 9, 1));
}

#[test]
fn what_was_read_of_other_blocks_is_nothing_to_compare_with() {
    let mut made = made();
    made.block(0, 0, 30).look(false);
    assert_eq!(rows(&made.readings, &view())[1].1.growth_bytes, 30);
    let sample = made.readings.samples.last().cloned().expect("read");
    made.readings.add_sample(sample, "size >= 1");
    let row = &rows(&made.readings, &view())[1].1;
    assert_eq!((row.growth_bytes, row.bytes_per_second), (0, None));
    let look = look_at(&made, Field::Function, 2);
    assert_eq!((look.condition.as_str(), look.chosen.bytes), ("size >= 1", 581));
}

#[test]
fn rates_need_two_looks() {
    let mut made = made();
    assert_eq!(look_at(&made, Field::Function, 2).bytes_per_second, None);
    assert_eq!(rows(&made.readings, &view())[0].1.bytes_per_second, None);
    made.block(2, 0, 1000).look(false);
    let look = look_at(&made, Field::Function, 2);
    assert_eq!(
        (look.bytes_per_second, look.allocations_per_second, look.frees_per_second),
        (Some(1000.0), Some(1.0), Some(0.0))
    );
    assert_eq!(rows(&made.readings, &view())[0].1.bytes_per_second, Some(1000.0));
    for _ in 0..20 {
        made.look(false);
    }
    assert_eq!(look_at(&made, Field::Function, 2).bytes_per_second, Some(0.0), "what was long ago is over");
}

#[test]
fn what_is_not_seen_is_said() {
    let mut made = made();
    made.program.lost(3);
    made.look(false);
    assert_eq!(
        look_at(&made, Field::Kind, 0).losses,
        [
            "3 blocks were not entered: there was no room for another record. More room: run --ledger-dir DIR on a disk with \
          room, or --max-ledger SIZE."
        ]
    );
}

#[test]
fn columns_fit_their_width() {
    for by in Field::watched().iter().map(|(by, _)| *by) {
        for (part, motion) in
            [(false, Motion::Still), (false, Motion::Running), (true, Motion::Over), (true, Motion::Running)]
        {
            for width in 20..200 {
                for exact_bytes in [false, true] {
                    let figures = Figures { estimated: false, exact_bytes };
                    let columns = look_columns(by, part, motion, width, figures);
                    let used: usize = columns.iter().map(|column| column.width(figures) + 1).sum();
                    assert!(used + 10 <= width || width < 40 && columns.len() == 1, "{by:?} {width}: {columns:?}");
                }
            }
        }
    }
    assert_eq!(
        look_columns(Field::Function, false, Motion::Still, 80, Figures::default()),
        [LookColumn(RowFigure::Bytes), LookColumn(RowFigure::Blocks), LookColumn(RowFigure::Oldest)]
    );
    assert!(
        look_columns(Field::Thread, false, Motion::Running, 80, Figures::default())
            .contains(&LookColumn(RowFigure::Allocated))
    );
}
