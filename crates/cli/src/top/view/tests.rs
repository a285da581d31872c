//! Looks at a made ledger that is watched.

use super::super::testing::{Made, view};
use super::*;

fn labels(data: &Data, view: &View) -> Vec<(String, u64)> {
    data.table(view).into_iter().map(|(_, row)| (row.label, row.live.bytes)).collect()
}

fn made() -> Made {
    let mut made = Made::new();
    made.block(0, 0, 100).block(1, 1, 50).block(2, 0, 400).block(2, 0, 1).look(false);
    made
}

#[test]
fn rows_are_by_what_is_asked_for() {
    let made = made();
    let by = |group| labels(&made.data, &View { group, ..view() });
    let row = |label: &str, bytes| (label.to_owned(), bytes);
    assert_eq!(by(Group::Function), [row("program+0x40", 401), row("library.so+0x10", 150)]);
    assert_eq!(
        by(Group::Stack),
        [
            row("program+0x40", 401),
            row("library.so+0x10 < program+0x20", 100),
            row("library.so+0x10 < program+0x30", 50)
        ]
    );
    assert_eq!(by(Group::Thread), [row("4711 main (thread 0)", 501), row("4712 worker (thread 1)", 50)]);
    assert_eq!(by(Group::Module), [row("/nonexistent/program", 401), row("/nonexistent/library.so", 150)]);
    assert_eq!(by(Group::File)[1], row("(library.so, no lines known)", 150));
    assert_eq!(by(Group::Kind), [row("malloc", 551)]);
}

#[test]
fn order_filter_and_part() {
    let made = made();
    let shown = |change: &dyn Fn(&mut View)| {
        let mut view = view();
        change(&mut view);
        labels(&made.data, &view).into_iter().map(|(label, _)| label).collect::<Vec<_>>()
    };
    assert_eq!(shown(&|view| view.sort = Sort::Name), ["library.so+0x10", "program+0x40"]);
    assert_eq!(shown(&|view| view.reverse = true), ["library.so+0x10", "program+0x40"]);
    assert_eq!(shown(&|view| view.filter = "LIBRARY".to_owned()), ["library.so+0x10"]);
    assert_eq!(shown(&|view| view.filter = "zzz".to_owned()), [""; 0]);
    let thread = (Group::Thread, RowId::Thread(Some(1)));
    assert_eq!(shown(&|view| view.within = vec![thread]), ["library.so+0x10"]);
    assert_eq!(shown(&|view| view.sort = Sort::Oldest), ["library.so+0x10", "program+0x40"]);
}

#[test]
fn allocated_since_the_start_is_known_of_whole_threads_and_kinds() {
    let made = made();
    let table = made.data.table(&View { group: Group::Thread, sort: Sort::Allocated, ..view() });
    assert_eq!((table[0].1.allocated_blocks, table[0].1.allocated_bytes), (Some(10), Some(1000)));
    let kinds = made.data.table(&View { group: Group::Kind, ..view() });
    assert_eq!((kinds[0].1.allocated_blocks, kinds[0].1.allocated_bytes), (Some(4), None));
    let part = View { group: Group::Thread, within: vec![(Group::Kind, RowId::Kind(Kind::MALLOC))], ..view() };
    assert_eq!(made.data.table(&part)[0].1.allocated_blocks, None, "of a part nobody knows");
}

#[test]
fn a_mark_leaves_only_what_is_new() {
    let mut made = made();
    made.look(true).block(1, 0, 9).look(false);
    let table = made.data.table(&view());
    assert_eq!(table.len(), 1);
    let row = &table[0].1;
    assert_eq!((row.label.as_str(), row.young.bytes, row.live.bytes, row.growth_bytes), ("library.so+0x10", 9, 159, 9));
    let look = made.data.look(Group::Function, 1);
    assert_eq!((look.mark_age_ns, look.young.bytes, look.young.blocks), (Some(1_000_000_000), 9, 1));
}

#[test]
fn what_was_read_of_other_blocks_is_nothing_to_compare_with() {
    let mut made = made();
    made.block(0, 0, 30).look(false);
    assert_eq!(made.data.table(&view())[1].1.growth_bytes, 30);
    let sample = made.data.readings.samples.last().cloned().expect("read");
    made.data.readings.add_sample(sample, "size >= 1");
    let row = &made.data.table(&view())[1].1;
    assert_eq!((row.growth_bytes, row.bytes_per_second), (0, None));
    let look = made.data.look(Group::Function, 2);
    assert_eq!((look.condition.as_str(), look.chosen.bytes), ("size >= 1", 581));
}

#[test]
fn rates_need_two_looks() {
    let mut made = made();
    assert_eq!(made.data.look(Group::Function, 2).bytes_per_second, None);
    assert_eq!(made.data.table(&view())[0].1.bytes_per_second, None);
    made.block(2, 0, 1000).look(false);
    let look = made.data.look(Group::Function, 2);
    assert_eq!(
        (look.bytes_per_second, look.allocations_per_second, look.frees_per_second),
        (Some(1000.0), Some(1.0), Some(0.0))
    );
    assert_eq!(made.data.table(&view())[0].1.bytes_per_second, Some(1000.0));
    for _ in 0..20 {
        made.look(false);
    }
    assert_eq!(made.data.look(Group::Function, 2).bytes_per_second, Some(0.0), "what was long ago is over");
}

#[test]
fn what_is_not_seen_is_said() {
    let mut made = made();
    made.lost(3).look(false);
    assert_eq!(
        made.data.look(Group::Kind, 0).losses,
        [
            "3 blocks were not entered: there was no room for another record. More room: run --ledger-dir DIR on a disk with \
          room, or --max-ledger SIZE."
        ]
    );
}

#[test]
fn columns_fit_their_width() {
    for group in Group::ALL {
        for (part, motion) in
            [(false, Motion::Still), (false, Motion::Running), (true, Motion::Over), (true, Motion::Running)]
        {
            for width in 20..200 {
                for exact_bytes in [false, true] {
                    let figures = Figures { estimated: false, exact_bytes };
                    let columns = columns(group, part, motion, width, figures);
                    let used: usize = columns.iter().map(|column| column.width(figures) + 1).sum();
                    assert!(used + 10 <= width || width < 40 && columns.len() == 1, "{group:?} {width}: {columns:?}");
                }
            }
        }
    }
    assert_eq!(
        columns(Group::Function, false, Motion::Still, 80, Figures::default()),
        [LookColumn::Live, LookColumn::Blocks, LookColumn::Oldest]
    );
    assert!(columns(Group::Thread, false, Motion::Running, 80, Figures::default()).contains(&LookColumn::Allocated));
}

#[test]
fn sorts_and_columns_are_the_same_thing() {
    use clap::ValueEnum;
    for sort in Sort::value_variants() {
        assert_eq!(Sort::by(sort.column()), *sort);
    }
}
