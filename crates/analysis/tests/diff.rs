//! Comparisons of made ledgers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use heapledger_analysis::diff::{
    Census, Change, ChangeKind, Diff, GroupChange, Keep, OnlyHere, StackKey, StackKeys, one_run,
};
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Evaluator, Filter, SortKeys};
use heapledger_analysis::{Clock, Group, GroupKey, Groups, Holders, NamedFrame, NamedStack, Names};
use heapledger_format::sample::SampleRule;
use heapledger_format::{Entry, Kind, Site};
use heapledger_source::Ledger;
use heapledger_symbols::{Options, SourceReader, Symbolizer};
use heapledger_testing::Builder;

struct Made(PathBuf, Ledger);

impl Made {
    fn new(test: &str, builder: &Builder) -> Made {
        let path = std::env::temp_dir().join(format!("heapledger-diff-{test}-{}", std::process::id()));
        builder.write(&path).expect("written");
        let ledger = Ledger::open(&path).expect("a ledger");
        Made(path, ledger)
    }

    fn census(&self) -> Census {
        Census::of(&self.1, None, Keep::Numbers, &mut |_| ()).expect("read")
    }

    fn filter(&self, text: &str) -> Evaluator<'_> {
        let filter = Filter::parse(text).expect("a filter");
        let clock = Clock::new(&self.1, SystemTime::UNIX_EPOCH).expect("a clock");
        let names = Names::new(&self.1, Symbolizer::new(Options::default()), SourceReader::new(None)).expect("read");
        Evaluator::new(&self.1, &filter, clock, names, Holders::default()).expect("read")
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn block(number: u64, address: u64, size: u64, site: Site) -> Entry {
    let size = Some(size);
    Entry {
        number,
        address,
        size,
        actual: size,
        kind: Kind::MALLOC,
        site,
        thread: None,
        heap: None,
        time: None,
        ..Entry::NONE
    }
}

/// A ledger with three stacks and these blocks.
fn ledger(test: &str, blocks: &[Entry], interval: u64) -> Made {
    let mut builder = Builder::new();
    for frame in 1..=3 {
        builder.stack(&[(None, frame * 16), (None, 0x1000)]);
    }
    if interval != 0 {
        builder.sampled(interval);
    }
    for block in blocks {
        builder.entry(*block);
    }
    Made::new(test, &builder)
}

fn since(a: &Made, b: &Made) -> Diff {
    Diff::since(&a.census(), &b.1, None, Keep::Sums, &mut |_| ()).expect("read").0
}

fn by_site(diff: &Diff) -> BTreeMap<Site, &Change> {
    diff.changes.iter().map(|change| (change.sites[1].or(change.sites[0]).expect("a site"), change)).collect()
}

/// Sites of `ledger` are 2, 3 and 4: the outer frame is 1.
const SITES: [Site; 3] = [Site(2), Site(3), Site(4)];

#[test]
fn an_address_that_is_used_again_is_another_block() {
    let [one, two, three] = SITES;
    let a = ledger("again-a", &[block(1, 0x10, 100, one), block(2, 0x20, 50, two), block(3, 0x30, 7, three)], 0);
    // The first was freed, its address was used again for the same size from the same place.
    let b = ledger(
        "again-b",
        &[block(9, 0x10, 100, one), block(2, 0x20, 50, two), block(8, 0x40, 60, two), block(7, 0x50, 1, Site::NONE)],
        0,
    );
    assert!(one_run(&a.1, &b.1));
    let diff = since(&a, &b);
    let amount = |amount: Option<_>| amount.map(|amount: heapledger_analysis::Estimate| (amount.blocks, amount.bytes));
    assert_eq!((amount(diff.born), amount(diff.freed)), (Some((3, 161)), Some((2, 107))));
    assert_eq!((diff.bytes(), diff.blocks(), diff.unchanged, diff.reversed), (54, 1, 1, false));
    assert_eq!((diff.growth(), diff.shrinkage()), ((2, 61), (1, -7)));
    let kinds: Vec<(ChangeKind, i64)> = diff.changes.iter().map(|change| (change.kind, change.bytes())).collect();
    assert_eq!(kinds, [(ChangeKind::Grown, 60), (ChangeKind::New, 1), (ChangeKind::Gone, -7)], "most growth first");
    let grown = by_site(&diff)[&two];
    assert_eq!((amount(grown.born), amount(grown.freed), grown.bytes_error()), (Some((1, 60)), Some((0, 0)), 0));
    // One by one.
    let keys = SortKeys::parse("size,number").expect("an order");
    let only = |here: &Made, other: &Made, limit| {
        let numbers = other.census();
        OnlyHere::of(&here.1, numbers.numbers(), None, (&keys, limit), &mut |_| ()).expect("read")
    };
    let numbers = |only: &OnlyHere| only.blocks.iter().map(|block| block.number).collect::<Vec<_>>();
    assert_eq!(numbers(&only(&b, &a, 0)), [9, 8, 7]);
    assert_eq!((numbers(&only(&b, &a, 2)), only(&b, &a, 2).left_out()), (vec![9, 8], 1));
    assert_eq!(numbers(&only(&a, &b, 0)), [1, 3]);
    assert!(since(&b, &a).reversed, "it is noticed");
    // Nothing became of nothing.
    let same = since(&b, &b);
    assert_eq!((same.changes.len(), same.unchanged, same.bytes()), (0, 3, 0));
}

#[test]
fn what_does_not_count_is_left_out() {
    let [one, two, _] = SITES;
    let a = ledger("filter-a", &[block(1, 0x10, 100, one)], 0);
    let b = ledger("filter-b", &[block(1, 0x10, 100, one), block(2, 0x20, 5, two), block(3, 0x30, 500, two)], 0);
    let [mut filter_a, mut filter_b] = [&a, &b].map(|made| made.filter("size >= 100"));
    let census = Census::of(&a.1, Some(&mut filter_a), Keep::Numbers, &mut |_| ()).expect("read");
    let diff = Diff::since(&census, &b.1, Some(&mut filter_b), Keep::Sums, &mut |_| ()).expect("read").0;
    assert_eq!((diff.all.map(|all| all.bytes), diff.bytes(), diff.changes.len()), ([100, 600], 500, 1));
}

#[test]
fn samples_are_weighed_and_their_error_is_told() {
    let [one, two, _] = SITES;
    let interval = 1 << 20;
    let old: Vec<Entry> = (0..200).map(|number| block(number, 0x1000 + number * 64, 4096, one)).collect();
    let mut new = old.clone();
    new.push(block(1000, 0x10, 4096, two));
    new.push(block(1001, 0x20, 64 << 20, one));
    let (a, b) = (ledger("sampled-a", &old, interval), ledger("sampled-b", &new, interval));
    let diff = since(&a, &b);
    let weight = SampleRule { interval, seed: 0 }.weight(4096, 1000);
    assert!(weight > 100, "{weight}");
    let changes = by_site(&diff);
    let (small, large) = (changes[&two], changes[&one]);
    assert_eq!((small.blocks(), small.bytes()), (weight as i64, 4096 * weight as i64));
    assert!(small.is_within_error(), "one sample may be chance: {} ± {}", small.bytes(), small.bytes_error());
    // The 200 blocks that both have add nothing to the error of the growth; a block this large is always sampled.
    assert_eq!((large.bytes(), large.bytes_error(), large.is_within_error()), (64 << 20, 0, false));
    assert!(diff.is_estimated() && diff.all[1].bytes_error() > diff.bytes_error());
    assert_eq!(diff.bytes_error(), small.bytes_error());
    // Compared as of two runs, both add to it.
    let keys = |_: usize, site: Site| Ok::<StackKey, ()>(key_of(&[&site.0.to_string()]));
    let apart = Diff::across(&a.census(), &b.census(), &mut { keys }).expect("keys");
    assert_eq!(apart.bytes(), diff.bytes());
    assert!(apart.bytes_error() > a.census().all.bytes_error(), "{}", apart.bytes_error());
}

/// The key of a stack of these functions; the same functions have the same key for the numbers 0 to 9 only.
fn key_of(functions: &[&str]) -> StackKey {
    let mut keys = StackKeys::default();
    // Words are numbered as they come: all that a test uses come first, in one order.
    let frame = |name: String| NamedFrame { function: Some(name.into()), ..NamedFrame::default() };
    keys.key(&NamedStack { frames: (0..10).map(|name| frame(name.to_string())).collect(), damaged: false });
    keys.key(&NamedStack { frames: functions.iter().map(|name| frame((*name).to_owned())).collect(), damaged: false })
}

#[test]
fn runs_are_compared_by_functions() {
    let [one, two, three] = SITES;
    let mut other = Builder::new();
    other.id(*b"another run ....");
    for frame in 1..=3 {
        other.stack(&[(None, frame * 32), (None, 0x9000)]);
    }
    for (number, (size, site)) in [(10, one), (20, two), (30, three), (1, Site::NONE)].into_iter().enumerate() {
        other.entry(block(number as u64, 0x100 * number as u64, size, site));
    }
    let a = ledger("across-a", &[block(1, 1, 5, one), block(2, 2, 20, two), block(3, 3, 99, three)], 0);
    let b = Made::new("across-b", &other);
    assert!(!one_run(&a.1, &b.1));
    // What is stack one here are stacks one and two there; stack three here is nowhere there.
    let mut key = |side: usize, site: Site| {
        Ok::<StackKey, ()>(match (side, site) {
            (0, site) if site == one => key_of(&["1", "0"]),
            (1, site) if site == one => key_of(&["1.constprop.0", "0"]),
            (1, site) if site == two => key_of(&["1.part.3", "1", "0"]),
            (0, site) if site == two => key_of(&["2", "0"]),
            (1, site) if site == three => key_of(&["2", "0.cold"]),
            (0, _) => key_of(&["3"]),
            _ => key_of(&[]),
        })
    };
    let diff = Diff::across(&a.census(), &b.census(), &mut key).expect("keys");
    let found: Vec<_> =
        diff.changes.iter().map(|change| (change.kind, change.bytes(), change.sites, change.stacks)).collect();
    assert_eq!(
        found,
        [
            (ChangeKind::Grown, 25, [Some(one), Some(two)], 2),
            (ChangeKind::Grown, 10, [Some(two), Some(three)], 1),
            (ChangeKind::New, 1, [None, Some(Site::NONE)], 1),
            (ChangeKind::Gone, -99, [Some(three), None], 1),
        ]
    );
    assert_eq!((diff.born, diff.freed, diff.bytes()), (None, None, -63));
}

#[test]
fn stacks_that_are_nowhere_cost_nothing() {
    let a = ledger("forged-a", &[block(1, 0x10, 1, Site(5))], 0);
    let b = ledger("forged-b", &[block(1, 0x10, 1, Site(5)), block(2, 0x20, 1, Site((1 << 26) - 1))], 0);
    let census = b.census();
    assert!(census.sites().all(|site| site.0 < 10), "the second table has no such stack");
    assert_eq!(census.all.blocks, 2);
    assert_eq!(since(&a, &b).blocks(), 1);
}

#[test]
fn groups_are_compared_by_what_they_are_called() {
    let group = |kind: Kind, blocks, bytes, bytes_error| Group {
        keys: vec![GroupKey::Figure(Field::Kind, Some(u64::from(kind.0)))],
        samples: blocks,
        blocks,
        bytes,
        bytes_error,
        largest: None,
        oldest: None,
        youngest: None,
        site: Site::NONE,
        lived: None,
    };
    let groups = |groups: Vec<Group>| Groups { groups, ..Groups::default() };
    let a = groups(vec![group(Kind::MALLOC, 3, 30, 0), group(Kind::CALLOC, 1, 7, 0), group(Kind::NEW, 2, 9, 3)]);
    let b = groups(vec![group(Kind::MALLOC, 3, 30, 0), group(Kind::NEW, 2, 12, 4), group(Kind::REALLOC, 1, 500, 0)]);
    let changes = GroupChange::of(&a, &b, &|_, key| format!("{key:?}"));
    let found: Vec<_> = changes.iter().map(|change| (change.kind, change.bytes(), change.blocks())).collect();
    assert_eq!(found, [(ChangeKind::New, 500, 1), (ChangeKind::Grown, 3, 0), (ChangeKind::Gone, -7, -1)]);
    assert_eq!((changes[1].bytes_error, changes[1].is_within_error()), (5, true));
    assert!(!changes[0].is_within_error(), "it is exact");
    // Two keys of one name are one group.
    let one = GroupChange::of(&a, &b, &|_, _| "all".to_owned());
    assert_eq!((one.len(), one[0].bytes(), one[0].before, one[0].after), (1, 496, [6, 46], [6, 542]));
}
