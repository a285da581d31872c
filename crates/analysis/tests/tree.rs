//! Call trees of made ledgers: every sum holds, either way up.

use std::path::PathBuf;

use heapledger_analysis::query::{Evaluator, Filter};
use heapledger_analysis::tree::{
    Amounts, CallTree, Measure, ProcessLevel, SameFunction, Side, SiteSums, Threads, TreeBuilder, TreeNode,
};
use heapledger_analysis::{Clock, Holders, Names, Summary};
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::{Entry, FreedEntry, Kind, Site, ThreadRow, Ticks};
use heapledger_source::Ledger;
use heapledger_symbols::{Options, SourceReader, Symbolizer};
use heapledger_testing::{Builder, sample};

/// A ledger in a file of its own.
struct Made(PathBuf, Ledger);

impl Made {
    fn new(test: &str, builder: &Builder) -> Made {
        let path = std::env::temp_dir().join(format!("heapledger-tree-{test}-{}", std::process::id()));
        builder.write(&path).expect("written");
        let ledger = Ledger::open(&path).expect("a ledger");
        Made(path, ledger)
    }

    fn sums(&self, threads: Threads) -> SiteSums {
        SiteSums::of(&self.1, threads, None, &mut |_| {}).expect("readable")
    }

    fn add(&self, builder: &mut TreeBuilder<'_>, side: Side, threads: Threads) {
        let symbolizer = Symbolizer::new(Options::default());
        let mut names = Names::new(&self.1, symbolizer, SourceReader::new(None)).expect("readable");
        let thread = |row: Option<ThreadRow>| format!("thread {:?}", row.map(|row| row.0));
        builder.add(side, &self.1, &self.sums(threads), &mut names, &thread).expect("readable");
    }

    fn tree(&self, threads: Threads, holders: &Holders) -> CallTree {
        let mut builder = TreeBuilder::new(SameFunction::InModule, holders);
        self.add(&mut builder, Side::New, threads);
        builder.finish()
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Every node is its own part and its children, and stands behind its parent.
fn check_sums(tree: &CallTree) {
    let mut sums: Vec<[Amounts; 2]> = tree.nodes.iter().map(|node| node.own).collect();
    for (index, node) in tree.nodes.iter().enumerate().skip(1) {
        assert!((node.parent as usize) < index);
        assert_eq!(node.depth, tree.nodes[node.parent as usize].depth + 1);
        for (sum, part) in sums[node.parent as usize].iter_mut().zip(node.total) {
            *sum += part;
        }
    }
    for (node, sum) in tree.nodes.iter().zip(sums) {
        assert_eq!(node.total, sum);
    }
}

/// `outer;inner own-live-bytes own-freed-bytes`, in order.
fn lines(tree: &CallTree) -> Vec<String> {
    let path = |node: &TreeNode| {
        let mut node = *node;
        let mut names = Vec::new();
        while node.depth > 0 {
            names.push(tree.level(&node).name.to_string());
            node = tree.nodes[node.parent as usize];
        }
        names.reverse();
        names.join(";")
    };
    let with_own = tree.nodes.iter().filter(|node| !node.own[0].is_zero());
    let mut lines: Vec<String> =
        with_own.map(|node| format!("{} {} {}", path(node), node.own[0].live_bytes, node.own[0].freed_bytes)).collect();
    lines.sort();
    lines
}

fn block(number: u64, site: Site, size: u64) -> Entry {
    Entry {
        number,
        address: 0x1000 + number * 4096,
        size: Some(size),
        actual: Some(size),
        kind: Kind::MALLOC,
        site,
        thread: Some(ThreadRow(number as u32 % 2)),
        heap: None,
        time: Some(Ticks(number)),
        ..Entry::NONE
    }
}

fn freed(block: Entry) -> FreedEntry {
    FreedEntry {
        number: block.number + 100,
        later: 0,
        by: Kind::FREE,
        site: Site::NONE,
        thread: Some(ThreadRow(0)),
        time: block.time,
        block,
        core: None,
    }
}

/// Three stacks: main > parse > alloc, main > alloc, main > parse; and blocks without a stack.
fn three() -> Builder {
    let mut builder = Builder::new();
    let module = builder.module("/nonexistent/x", &[], 0, 0, 0x10_0000);
    let [main, parse, alloc] = [0x100, 0x200, 0x300].map(|offset| (Some(module), offset));
    let deep = builder.stack(&[alloc, parse, main]);
    let flat = builder.stack(&[alloc, main]);
    let short = builder.stack(&[parse, main]);
    builder.thread(1, 1, 1, "a", [0; 3]).thread(1, 2, 2, "b", [0; 3]);
    builder.entry(block(0, deep, 1000)).entry(block(1, deep, 200)).entry(block(2, flat, 30)).entry(block(
        3,
        Site::NONE,
        4,
    ));
    builder.freed(freed(block(4, deep, 5000))).freed(freed(block(5, short, 600)));
    builder
}

#[test]
fn stacks_lie_over_each_other() {
    let made = Made::new("stacks", &three());
    let tree = made.tree(Threads::Together, &Holders::innermost());
    check_sums(&tree);
    let expected = [
        "code without a stack 4 0",
        "x+0x100;x+0x200 0 600",
        "x+0x100;x+0x200;x+0x300 1200 5000",
        "x+0x100;x+0x300 30 0",
    ];
    assert_eq!(lines(&tree), expected);
    let root = tree.root();
    assert_eq!(root.value(Measure::LiveBytes), 1234);
    assert_eq!(root.value(Measure::LiveBlocks), 4);
    assert_eq!(root.value(Measure::FreedBytes), 5600);
    assert_eq!(root.value(Measure::AllocatedBytes), 6834);
    assert_eq!(root.value(Measure::AllocatedBlocks), 6);
    let children = tree.children(|node| std::cmp::Reverse(node.value(Measure::LiveBytes)));
    let names: Vec<&str> = children.of(0).iter().map(|id| &*tree.level(&tree.nodes[*id as usize]).name).collect();
    assert_eq!(names, ["x+0x100", "code without a stack"]);
}

#[test]
fn upside_down_the_allocating_function_is_on_top() {
    let made = Made::new("inverted", &three());
    let tree = made.tree(Threads::Together, &Holders::innermost()).inverted(|_| false);
    check_sums(&tree);
    assert_eq!(
        lines(&tree),
        [
            "code without a stack 4 0",
            "x+0x200;x+0x100 0 600",
            "x+0x300;x+0x100 30 0",
            "x+0x300;x+0x200;x+0x100 1200 5000"
        ]
    );
    let cut =
        made.tree(Threads::Together, &Holders::innermost()).inverted(|node| node.value(Measure::LiveBytes) < 1000);
    check_sums(&cut);
    assert_eq!(cut.root().total, tree.root().total);
    assert!(cut.nodes.len() < tree.nodes.len());
}

#[test]
fn threads_are_the_first_level() {
    let made = Made::new("threads", &three());
    let tree = made.tree(Threads::Apart, &Holders::innermost());
    for tree in [tree.inverted(|_| false), tree] {
        check_sums(&tree);
        let tops: Vec<(&str, u64)> = tree
            .nodes
            .iter()
            .filter(|node| node.depth == 1)
            .map(|node| (&*tree.level(node).name, node.value(Measure::LiveBytes)))
            .collect();
        assert_eq!(tops, [("thread Some(0)", 1030), ("thread Some(1)", 204)]);
        assert_eq!(tree.root().value(Measure::FreedBytes), 5600);
    }
}

#[test]
fn what_a_hidden_function_holds_is_its_callers() {
    let made = Made::new("hide", &three());
    let hidden = |pattern: &str| {
        let mut holders = Holders::innermost();
        holders.hide(pattern).expect("a pattern");
        let tree = made.tree(Threads::Together, &holders);
        check_sums(&tree);
        lines(&tree)
    };
    assert_eq!(hidden("0x300"), ["code without a stack 4 0", "x+0x100 30 0", "x+0x100;x+0x200 1200 5600"]);
    assert_eq!(hidden("^x[+]"), ["code without a stack 4 0", "hidden functions 1230 5600"]);
}

#[test]
fn what_is_pruned_is_its_callers() {
    let made = Made::new("pruned", &three());
    let whole = made.tree(Threads::Together, &Holders::innermost());
    let tree = whole.pruned(|node| node.value(Measure::LiveBytes) >= 1000);
    check_sums(&tree);
    assert_eq!(tree.root().total, whole.root().total);
    assert_eq!(lines(&tree), [" 4 0", "x+0x100 30 0", "x+0x100;x+0x200 0 600", "x+0x100;x+0x200;x+0x300 1200 5000"]);
}

#[test]
fn two_ledgers_lie_over_each_other_by_name() {
    let old = Made::new("old", &three());
    let mut builder = three();
    builder.entry(block(9, Site(3), 7));
    let new = Made::new("new", &builder);
    let all = Holders::innermost();
    let mut both = TreeBuilder::new(SameFunction::ByName, &all);
    new.add(&mut both, Side::New, Threads::Together);
    old.add(&mut both, Side::Old, Threads::Together);
    let tree = both.finish();
    check_sums(&tree);
    check_sums(&tree.inverted(|_| false));
    assert_eq!(tree.nodes.len(), new.tree(Threads::Together, &Holders::innermost()).nodes.len());
    let [total_new, total_old] = tree.root().total;
    assert_eq!((total_new.live_bytes, total_old.live_bytes), (1241, 1234));
    assert!(tree.levels.iter().all(|level| level.module.is_none()));
}

#[test]
fn the_tree_and_the_totals_agree() {
    let made = Made::new("totals", &sample(ByteOrder::Little, WordSize::W64));
    let clock = Clock::new(&made.1, std::time::SystemTime::UNIX_EPOCH).expect("a clock");
    let summary = Summary::of(&made.1, clock, 0, &mut |_| {}).expect("readable");
    for threads in [Threads::Together, Threads::Apart] {
        let sums = made.sums(threads);
        let root = made.tree(threads, &Holders::innermost()).root().total[0];
        assert_eq!(root, sums.total);
        assert_eq!((root.live_bytes, root.live_blocks), (summary.live_bytes, summary.live_blocks));
        assert_eq!(root.get(Measure::AllocatedBytes), summary.bytes_allocated);
        assert_eq!((root.freed_bytes, root.freed_blocks), (summary.bytes_freed, summary.frees));
        assert_eq!(sums.frees_missing, 0);
    }
    let mut builder = sample(ByteOrder::Little, WordSize::W64);
    builder.tally(heapledger_format::TallyCounter::Frees, 9);
    assert_eq!(Made::new("missing", &builder).sums(Threads::Together).frees_missing, 9);
}

#[test]
fn a_filter_decides_for_live_and_freed_blocks() {
    let made = Made::new("filter", &three());
    let of = |text: &str| {
        let names =
            Names::new(&made.1, Symbolizer::new(Options::default()), SourceReader::new(None)).expect("readable");
        let clock = Clock::new(&made.1, std::time::SystemTime::UNIX_EPOCH).expect("a clock");
        let filter = Filter::parse(text).expect("a filter");
        let mut filter = Evaluator::new(&made.1, &filter, clock, names, Holders::default()).expect("readable");
        SiteSums::of(&made.1, Threads::Together, Some(&mut filter), &mut |_| {}).expect("readable")
    };
    let sums = of("size == 30");
    assert_eq!((sums.total.live_bytes, sums.total.freed_blocks, sums.sites.len()), (30, 0, 1));
    let sums = of("size > 500");
    assert_eq!((sums.total.live_bytes, sums.total.freed_bytes), (1000, 5600));
}

#[test]
fn no_damage_upsets_a_tree() {
    let path = std::env::temp_dir().join(format!("heapledger-tree-damage-{}", std::process::id()));
    let bytes = sample(ByteOrder::Little, WordSize::W64).bytes();
    let holders = Holders::innermost();
    let (mut grown, mut deepest) = (0, 0);
    for at in (0..bytes.len()).filter(|at| *at < 700 || at % 19 == 0) {
        let mut forged = bytes.clone();
        forged[at] ^= [0x01, 0x80, 0xff][at % 3];
        std::fs::write(&path, &forged).expect("written");
        let Ok(ledger) = Ledger::open(&path) else { continue };
        let Ok(sums) = SiteSums::of(&ledger, [Threads::Apart, Threads::Together][at % 2], None, &mut |_| {}) else {
            continue;
        };
        let mut names =
            Names::new(&ledger, Symbolizer::new(Options::default()), SourceReader::new(None)).expect("readable");
        let mut builder = TreeBuilder::new(SameFunction::InModule, &holders);
        builder.add(Side::New, &ledger, &sums, &mut names, &|row| format!("{row:?}")).expect("readable");
        let tree = builder.finish();
        check_sums(&tree);
        check_sums(&tree.inverted(|_| false));
        assert_eq!(tree.root().total[0], sums.total);
        grown += 1;
        deepest = deepest.max(tree.nodes.iter().map(|node| node.depth).max().unwrap_or(0));
    }
    let _ = std::fs::remove_file(&path);
    assert!(grown > 300, "{grown} trees");
    // A trie that leads in a circle is followed so far.
    assert!(deepest <= 4097, "{deepest} levels");
}

/// Two processes and their threads stay on top, either way up, and what stands below one is what it is by itself.
#[test]
fn processes_stand_above_their_threads_and_functions() {
    let made = [ByteOrder::Little, ByteOrder::Big]
        .map(|order| Made::new(&format!("top-{order:?}"), &sample(order, WordSize::W64)));
    let holders = Holders::of_tree();
    for threads in [Threads::Together, Threads::Apart] {
        let mut builder = TreeBuilder::new(SameFunction::InModule, &holders);
        for (ledger, name) in made.iter().zip(["a 1", "b 2"]) {
            builder.below_process(ProcessLevel::Process, name);
            ledger.add(&mut builder, Side::New, threads);
        }
        let tree = builder.finish();
        let apart = usize::from(threads == Threads::Apart);
        assert_eq!((tree.processes, tree.top_levels()), (Some(ProcessLevel::Process), 1 + apart));
        for (tree, alone) in [
            (tree.clone(), made[0].tree(threads, &holders)),
            (tree.inverted(|_| false), made[0].tree(threads, &holders).inverted(|_| false)),
        ] {
            check_sums(&tree);
            let of_process: Vec<String> = lines(&tree);
            for name in ["a 1;", "b 2;"] {
                let below: Vec<&str> = of_process.iter().filter_map(|line| line.strip_prefix(name)).collect();
                assert_eq!(below, lines(&alone), "{threads:?} inverted {}", tree.inverted);
            }
            assert_eq!(tree.nodes.iter().filter(|node| node.depth == 1).count(), 2);
        }
    }
}

#[test]
fn totals_of_ledgers_add_up_and_what_went_by_exec_is_freed() {
    let made = Made::new("join", &sample(ByteOrder::Little, WordSize::W64));
    let (one, mut gone) = (made.sums(Threads::Together), made.sums(Threads::Together));
    gone.end_all();
    assert_eq!(gone.total.live_bytes, 0);
    assert_eq!(gone.total.get(Measure::AllocatedBytes), one.total.get(Measure::AllocatedBytes));
    assert!(gone.sites.iter().all(|sum| sum.amounts.live_blocks == 0));
    let mut all = one.clone();
    all.join_totals(&gone);
    assert_eq!(all.total.live_bytes, one.total.live_bytes);
    assert_eq!(all.frees, 2 * one.frees);
    assert!(all.sites.is_empty(), "sites of two ledgers are numbered apart");
}
