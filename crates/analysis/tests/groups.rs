//! Sums by what blocks have in common.

use std::path::PathBuf;
use std::time::SystemTime;

use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Evaluator, Filter, GroupOrder};
use heapledger_analysis::{Clock, GroupKey, Groups, Holders, Names, Selection, Sort};
use heapledger_format::{Entry, Kind, Site, ThreadRow, Ticks};
use heapledger_source::Ledger;
use heapledger_symbols::{self as symbols, SourceReader, Symbolizer};
use heapledger_testing::Builder;

struct Made(PathBuf, Ledger);

impl Made {
    fn new(test: &str, builder: &Builder) -> Made {
        let path = std::env::temp_dir().join(format!("heapledger-groups-{test}-{}", std::process::id()));
        builder.write(&path).expect("written");
        let ledger = Ledger::open(&path).expect("a ledger");
        Made(path, ledger)
    }

    fn groups(&self, by: &str, filter: &str, order: &str, limit: usize) -> Groups {
        let by = Field::parse_groups(by).unwrap_or_else(|error| panic!("{error}"));
        let order = GroupOrder::parse(order).unwrap_or_else(|error| panic!("{error}"));
        let filter = if filter.is_empty() { Filter::all() } else { Filter::parse(filter).expect("good") };
        let clock = Clock::new(&self.1, SystemTime::UNIX_EPOCH).expect("a clock");
        let names = Names::new(&self.1, Symbolizer::new(symbols::Options::default()), SourceReader::new(None));
        let holders = Holders::default();
        let mut evaluator =
            Evaluator::new(&self.1, &filter, clock, names.expect("readable"), holders.clone()).expect("readable");
        Groups::of(&self.1, &by, &mut evaluator, &holders, (&order, limit), &mut |_| {}).expect("readable")
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Blocks from three stacks of two modules, by two threads and one without a row.
fn builder() -> (Builder, [Site; 3]) {
    let mut builder = Builder::new();
    builder.heap("heap", 0, 1 << 40);
    builder.thread(1, 100, 0, "main", [0, 0, 0]).thread(1, 101, 0, "worker", [0, 0, 0]);
    let library = builder.module("/lib/a.so", b"", 0, 0x1000, 0x2000);
    let program = builder.module("/bin/b", b"", 0, 0x10000, 0x20000);
    let stacks = [
        builder.stack(&[(Some(library), 0x10), (Some(program), 0x20)]),
        builder.stack(&[(Some(library), 0x18), (Some(program), 0x20)]),
        builder.stack(&[(Some(program), 0x28)]),
    ];
    for number in 0..300u64 {
        builder.entry(Entry {
            number,
            address: 0x1000 + number * 0x100,
            size: Some(16 + number % 7 * 16),
            actual: Some(128),
            kind: if number % 2 == 0 { Kind::MALLOC } else { Kind::CALLOC },
            site: stacks[(number % 3) as usize],
            thread: [Some(ThreadRow(0)), Some(ThreadRow(1)), None][(number / 100) as usize],
            heap: Some(0),
            time: Some(Ticks(1000 + number)),
            ..Entry::NONE
        });
    }
    (builder, stacks)
}

#[test]
fn groups_add_up_to_all() {
    let (mut builder, _) = builder();
    for interval in [0, 64] {
        builder.sampled(interval);
        let made = Made::new(&format!("all{interval}"), &builder);
        let all = Selection::of(&made.1, Sort::Address, 0, &mut |_| {}).expect("readable");
        for (by, count) in [
            ("fn", 2),
            ("file", 1),
            ("module", 2),
            ("stack", 3),
            ("thread", 3),
            ("size", 7),
            ("kind", 2),
            ("heap", 1),
            ("thread,kind", 6),
            ("stack,size,kind,thread", 3 * 7 * 2 * 3),
            ("module,size", 14),
        ] {
            let groups = made.groups(by, "", "bytes", 0);
            assert_eq!((groups.total, groups.groups.len() as u64), (count, count), "{by}");
            assert_eq!((groups.total_blocks, groups.total_bytes), (all.total_blocks, all.total_bytes), "{by}");
            assert_eq!((groups.total_bytes_error, groups.sampled), (all.total_bytes_error, all.sampled), "{by}");
            let sum = groups
                .groups
                .iter()
                .fold((0, 0, 0), |sum, group| (sum.0 + group.samples, sum.1 + group.blocks, sum.2 + group.bytes));
            assert_eq!(sum, (300, all.total_blocks, all.total_bytes), "{by}");
            assert!(groups.groups.is_sorted_by_key(|group| std::cmp::Reverse(group.bytes)), "{by}");
            for limit in [1, 2, 5] {
                let some = made.groups(by, "", "bytes", limit);
                assert_eq!(some.groups[..], groups.groups[..limit.min(count as usize)], "{by}");
                assert_eq!((some.total, some.total_bytes), (count, all.total_bytes));
                assert_eq!(some.left_out(), count.saturating_sub(limit as u64));
            }
        }
        assert_eq!(all.sampled.is_some(), interval != 0);
        assert_eq!(all.total_blocks > 300, interval != 0, "the weights count");
    }
}

#[test]
fn a_group_knows_its_extremes_and_its_stack() {
    let (builder, stacks) = builder();
    let made = Made::new("extremes", &builder);
    let groups = made.groups("thread", "", "name", 0);
    let keys: Vec<&GroupKey> = groups.groups.iter().flat_map(|group| &group.keys).collect();
    assert_eq!(
        keys,
        [
            &GroupKey::Figure(Field::Thread, None),
            &GroupKey::Figure(Field::Thread, Some(0)),
            &GroupKey::Figure(Field::Thread, Some(1))
        ]
    );
    let worker = &groups.groups[2];
    assert_eq!(
        (worker.blocks, worker.largest, worker.oldest, worker.youngest),
        (100, Some(112), Some(Ticks(1100)), Some(Ticks(1199)))
    );
    let groups = made.groups("stack", "size == 16 and number < 4", "oldest", 0);
    assert_eq!(groups.filter.as_deref(), Some("size == 16 and number < 4"));
    assert_eq!(groups.groups.len(), 1);
    assert_eq!((groups.groups[0].site, groups.groups[0].blocks), (stacks[0], 1));
    let modules = made.groups("module", "", "blocks:asc", 0);
    let module = |index: usize| match &modules.groups[index].keys[..] {
        [GroupKey::Module(Some(path))] => path.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!((module(0), module(1)), ("/bin/b".to_owned(), "/lib/a.so".to_owned()));
    assert!([stacks[0], stacks[1]].contains(&modules.groups[1].site));
}

#[test]
fn what_to_add_up_by_is_understood_or_not() {
    assert_eq!(Field::parse_groups("fn, thread").expect("good"), [Field::Function, Field::Thread]);
    for (text, said) in [
        ("fm", "did you mean 'fn'"),
        ("fn,fn", "twice"),
        ("fn,", "missing"),
        ("label.", "did you mean 'label'"),
        ("label,label", "twice"),
        ("label.a,label.a", "twice"),
        ("colour", "expected fn, file, module, stack, thread, size, kind, heap"),
    ] {
        let error = Field::parse_groups(text).expect_err(text).to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
    assert!(GroupOrder::parse("bytes,name:desc").is_ok());
    assert!(GroupOrder::parse("bits").is_err());
}
