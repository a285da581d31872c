//! Call trees as a person and as a program sees them.

mod planted;

use heapledger_analysis::Seen;
use heapledger_analysis::tree::{CallTree, Measure, SiteSums};
use heapledger_report::{Form, Paint, Report, TreeReport};
use planted::{Planted, identity};

/// A tree of a small server, in bytes; each block has 100.
fn server() -> Planted {
    let mut tree = Planted::default();
    tree.stack("_start;main:srv.c:90;serve:srv.c:40;parse:parse.c:7;xmalloc:xmalloc.c:3", 60_000, 0);
    tree.stack(
        "_start;main:srv.c:90;serve:srv.c:40;parse:parse.c:7;intern:parse.c:70;xmalloc:xmalloc.c:3",
        20_000,
        500,
    );
    tree.stack("_start;main:srv.c:90;serve:srv.c:41", 5_000, 0);
    tree.stack("_start;main:srv.c:80;setup", 3_000, 0);
    for small in ["log", "config", "signals", "locale"] {
        tree.stack(&format!("_start;main:srv.c:81;{small}"), 100, 40_000);
    }
    tree.stack("start_thread;worker:work.c:5;std::vector<int, std::allocator<int> >::push_back(int&&)", 11_600, 0);
    tree
}

fn text(tree: &CallTree, set: impl FnOnce(&mut TreeReport<'_>)) -> String {
    text_with(tree, &planted::sums(tree), set)
}

fn text_with(tree: &CallTree, sums: &SiteSums, set: impl FnOnce(&mut TreeReport<'_>)) -> String {
    let identity = identity();
    let mut view = TreeReport {
        ledger: "srv.hl",
        identity: &identity,
        sums,
        tree,
        measure: Measure::LiveBytes,
        least: 1000,
        depth: 0,
        children: 0,
        limit: 0,
        order: None,
        paint: Paint::default(),
        seen: &Seen::default(),
        wrappers: true,
        left_out: 0,
    };
    set(&mut view);
    let mut out = Vec::new();
    view.write(&Form::Text, &mut out).expect("written");
    String::from_utf8(out).expect("text")
}

#[test]
fn callers_first() {
    let expected = "\
srv.hl: call tree of srv, pid 4711, callers first
97.7 KiB (100,000 B) in 1,000 blocks live

live bytes share blocks  function
  86.3 KiB 88.4%    884  ├ _start → main  srv.c:90…
  83.0 KiB 85.0%    850  │ ├ serve  srv.c:40…
  78.1 KiB 80.0%    800  │ │ ├ parse  parse.c:7
  58.6 KiB 60.0%    600  │ │ │ ├ xmalloc  xmalloc.c:3
  19.5 KiB 20.0%    200  │ │ │ └ intern → xmalloc  xmalloc.c:3
  4.88 KiB  5.0%     50  │ │ └ serve itself
  2.93 KiB  3.0%     30  │ ├ setup
     400 B  0.4%      4  │ └ … 4 more
  11.3 KiB 11.6%    116  └ start_thread → worker → std::vector<…>::push_back
";
    assert_eq!(text(&server().tree(), |_| {}), expected);
}

#[test]
fn allocating_functions_first() {
    let expected = "\
srv.hl: call tree of srv, pid 4711, allocating functions first
97.7 KiB (100,000 B) in 1,000 blocks live

live bytes share blocks  function
  78.1 KiB 80.0%    800  ├ xmalloc  xmalloc.c:3
  58.6 KiB 60.0%    600  │ ├ parse ← serve ← main ← _start  parse.c:7
  19.5 KiB 20.0%    200  │ └ intern ← parse ← serve ← main ← _start  parse.c:70
  11.3 KiB 11.6%    116  ├ std::vector<…>::push_back ← worker ← start_thread  in srv
  4.88 KiB  5.0%     50  ├ serve ← main ← _start  srv.c:40…
  2.93 KiB  3.0%     30  ├ setup ← main ← _start  in srv
     400 B  0.4%      4  └ … 4 more
";
    assert_eq!(text(&server().tree().inverted(|_| false), |_| {}), expected);
}

#[test]
fn what_is_cut_is_summed_up() {
    let cut = |view: &mut TreeReport<'_>| (view.depth, view.paint.columns) = (2, 72);
    let expected = "\
srv.hl: call tree of srv, pid 4711, callers first
97.7 KiB (100,000 B) in 1,000 blocks live

live bytes share blocks  function
  86.3 KiB 88.4%    884  ├ _start → main  srv.c:90…
  83.0 KiB 85.0%    850  │ ├ serve  srv.c:40…  … 2 below
  2.93 KiB  3.0%     30  │ ├ setup
     400 B  0.4%      4  │ └ … 4 more
  11.3 KiB 11.6%    116  └ … 1 … → worker → std::vector<…>::push_back
";
    assert_eq!(text(&server().tree(), cut), expected);
    let top = |view: &mut TreeReport<'_>| (view.depth, view.children) = (1, 1);
    let expected = "\
srv.hl: call tree of srv, pid 4711, callers first
97.7 KiB (100,000 B) in 1,000 blocks live

live bytes share blocks  function
  86.3 KiB 88.4%    884  ├ _start → main  srv.c:90…  … 6 below
  11.3 KiB 11.6%    116  └ … 1 more
";
    assert_eq!(text(&server().tree(), top), expected);
}

#[test]
fn a_peak_that_may_be_off_is_told_so() {
    let mut tree = server().tree();
    (tree.nodes[0].total[0].peak_bytes, tree.nodes[0].total[0].peak_blocks) = (100_000, 7);
    let of = |sums: SiteSums| text_with(&tree, &sums, |view| view.measure = Measure::PeakBytes);
    let told = |error, highest| {
        let sums = SiteSums { peak_error: Some(error), peak_highest: Some(highest), ..planted::sums(&tree) };
        of(sums).lines().skip(1).take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    let exact = "97.7 KiB (100,000 B) in 7 blocks at the peak";
    assert_eq!(told(0, 100_000), [exact, ""]);
    let about = "97.7 KiB (100,000 B) ± 4.00 KiB in 7 blocks at the peak";
    assert_eq!(told(4096, 100_000), [about, ""]);
    let other = "In stats it is 99.6 KiB (102,000 B): so much was counted, and here are the blocks that are known of that moment";
    assert_eq!(told(4096, 102_000), [about, other]);
}

#[test]
fn names_are_whole_on_demand() {
    let whole = text(&server().tree(), |view| (view.paint.full_names, view.paint.columns) = (true, 72));
    let name = "start_thread → worker → std::vector<int, std::allocator<int> >::push_back(int&&)";
    assert!(whole.contains(name), "{whole}");
}

#[test]
fn other_figures() {
    let freed = text(&server().tree(), |view| (view.measure, view.least) = (Measure::FreedBytes, 1));
    for line in [
        "157 KiB (160,500 B) in 1,605 blocks freed",
        "freed bytes share blocks  function",
        "    157 KiB  100%  1,605  └ _start → main  srv.c:90…",
    ] {
        assert!(freed.lines().any(|seen| seen == line), "no line {line}\n{freed}");
    }
    let blocks = text(&server().tree(), |view| (view.measure, view.least) = (Measure::LiveBlocks, 100));
    assert!(blocks.contains("        884 88.4% 86.3 KiB  ├ _start → main"), "{blocks}");
    let nothing = text(&Planted::default().tree(), |_| {});
    assert!(nothing.ends_with("\n\nNo block of any byte lives.\n"), "{nothing}");
}

#[test]
fn a_gap_in_the_history_is_told_where_it_matters() {
    let tree = server().tree();
    let mut sums = planted::sums(&tree);
    (sums.frees, sums.frees_missing) = (2_000, 395);
    let with = |measure| text_with(&tree, &sums, |view| view.measure = measure);
    assert!(!with(Measure::LiveBytes).contains("Caution"));
    let caution = "Caution: the ledger no longer holds 395 of 2,000 frees; \
                   these blocks are neither in allocated nor in freed figures\n";
    assert!(with(Measure::AllocatedBytes).contains(caution));
    assert!(with(Measure::FreedBlocks).contains(caution));
}

#[test]
fn every_node_is_a_line_of_json() {
    let tree = server().tree();
    let (sums, identity) = (planted::sums(&tree), identity());
    let mut view = TreeReport {
        ledger: "srv.hl",
        identity: &identity,
        sums: &sums,
        tree: &tree,
        measure: Measure::LiveBytes,
        least: 0,
        depth: 0,
        children: 0,
        limit: 0,
        order: None,
        paint: Paint::default(),
        seen: &Seen::default(),
        wrappers: true,
        left_out: 0,
    };
    let lines = |view: &mut TreeReport<'_>| {
        let mut out = Vec::new();
        view.write(&Form::Json, &mut out).expect("written");
        let text = String::from_utf8(out).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect::<Vec<serde_json::Value>>()
    };
    let all = lines(&mut view);
    let (header, end) = (&all[0], &all[all.len() - 1]);
    assert_eq!((&header["schema"], &header["command"]), (&"heapledger/2".into(), &"tree".into()));
    assert_eq!((&header["by"], &header["pid"]), (&"live_bytes".into(), &4711.into()));
    assert_eq!((&end["shown"], &end["left_out"]), (&tree.nodes.len().into(), &0.into()));
    let nodes = &all[1..all.len() - 1];
    let mut sums = std::collections::HashMap::new();
    for node in nodes {
        let id = node["id"].as_u64();
        *sums.entry(id).or_insert(0) += node["own"]["live_bytes"].as_u64().expect("a number");
        if let Some(parent) = node["parent"].as_u64() {
            assert!(sums.contains_key(&Some(parent)), "{node} comes before what it belongs to");
            *sums.entry(Some(parent)).or_insert(0) += node["live_bytes"].as_u64().expect("a number");
        }
    }
    for node in nodes {
        assert_eq!(node["live_bytes"].as_u64(), sums.get(&node["id"].as_u64()).copied(), "{node}");
    }
    assert_eq!((&nodes[0]["kind"], &nodes[0]["function"]), (&"root".into(), &serde_json::Value::Null));
    let main = nodes.iter().find(|node| node["function"] == "main").expect("a main");
    assert_eq!((&main["file"], &main["line"]), (&"/src/srv.c".into(), &90.into()));
    view.least = 10_000;
    let some = lines(&mut view);
    let end = &some[some.len() - 1];
    assert_eq!(end["shown"].as_u64().expect("a number") + 2, some.len() as u64);
    assert!(end["left_out"].as_u64() > Some(0));
}
