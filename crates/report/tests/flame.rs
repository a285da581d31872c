//! Flame graphs: nothing gets out of its place, and all figures are there.

mod planted;

use heapledger_analysis::tree::{CallTree, Measure};
use heapledger_report::{FlameFacts, FlameView, flame_html, flame_svg, folded, limited};
use planted::Planted;

/// Names that are traps for every format, as a C++ or a hostile program could have them.
const TRAPS: [&str; 6] = [
    "</script><script>alert(1)</script>",
    "std::map<int, std::less<int> >::operator[](int const&)",
    "a;b",
    "{{js}}",
    "quote\"'&amp;",
    "bell\u{7}\u{1b}[31m\u{ffff}",
];

fn trapped() -> Planted {
    let mut tree = Planted::default();
    for (index, name) in TRAPS.iter().enumerate() {
        tree.child_stack(&["main", name], 1000 * (index as u64 + 1), 300);
    }
    tree
}

fn facts() -> FlameFacts {
    FlameFacts {
        title: "Heap of </title><script>".to_owned(),
        facts: vec!["a <b> fact".to_owned()],
        notes: vec!["a <i> loss.".to_owned()],
        ..FlameFacts::default()
    }
}

fn html(tree: &CallTree, facts: &FlameFacts) -> String {
    let mut out = Vec::new();
    flame_html(&mut out, tree, facts, FlameView::default()).expect("written");
    String::from_utf8(out).expect("text")
}

fn svg(tree: &CallTree, facts: &FlameFacts, view: FlameView) -> String {
    let mut out = Vec::new();
    flame_svg(&mut out, tree, facts, view).expect("written");
    String::from_utf8(out).expect("text")
}

/// The data of a page, as its script reads it.
fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").expect("data");
    let (data, _) = rest.split_once("</script>").expect("an end");
    assert!(!data.contains('<'), "the data could end its element");
    serde_json::from_str(data).expect("JSON")
}

#[test]
fn a_page_holds_every_name_and_no_name_gets_out() {
    let page = html(&trapped().tree(), &facts());
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    assert_eq!(page.matches("</title>").count(), 1);
    assert!(!page.contains("<b> fact") && page.contains("a &lt;b&gt; fact"));
    assert!(page.contains("1 note on completeness</span>") && page.contains("a &lt;i&gt; loss."));
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "the page refers to {outside}");
    }
    let data = data(&page);
    let names: Vec<&str> = data["names"].as_array().expect("names").iter().filter_map(|name| name.as_str()).collect();
    for name in &TRAPS[..5] {
        assert!(names.contains(name), "{name} is not among {names:?}");
    }
    assert!(names.iter().all(|name| !name.contains('\u{1b}')));
}

#[test]
fn the_columns_of_a_page_are_the_tree() {
    let tree = trapped().tree();
    let data = data(&html(&tree, &facts()));
    let column = |name: &str| -> Vec<u64> {
        data[name].as_array().expect("a column").iter().map(|value| value.as_u64().expect("a number")).collect()
    };
    let (up, level, own) = (column("up"), column("level"), column("own"));
    assert_eq!((up.len(), level.len()), (tree.nodes.len(), tree.nodes.len()));
    for (index, node) in tree.nodes.iter().enumerate() {
        assert_eq!(index as u64 - up[index], u64::from(node.parent));
        let name = data["names"][level[index] as usize].as_str();
        if index > 0 && !TRAPS[5..].contains(&&*tree.level(node).name) {
            assert_eq!(name, Some(&*tree.level(node).name));
        }
    }
    let bytes: u64 = own.chunks(9).map(|part| part[1]).sum();
    assert_eq!(bytes, tree.root().value(Measure::LiveBytes));
    assert_eq!(data["old"].as_array().map(Vec::len), Some(0));
}

/// A reader of XML, as strict as is needed here: elements are closed in order, no stray `<` or `&`, no control letters.
fn check_xml(text: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let content = &rest[..at];
        for (index, _) in content.match_indices('&') {
            let entity = content[index..].split(';').next().expect("a part");
            assert!(["&amp", "&lt", "&gt", "&quot", "&#39"].contains(&entity), "an entity {entity}");
        }
        assert!(!content.contains('>') || open.last() == Some(&"style"), "a stray > in {content}");
        let end = rest[at..].find('>').expect("a tag that ends") + at;
        let tag = &rest[at + 1..end];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed");
        } else if !tag.ends_with('/') && !tag.starts_with('?') {
            open.push(tag.split(' ').next().expect("a name"));
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "left open: {open:?}");
    assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control() && letter < '\u{fffe}'));
}

#[test]
fn a_picture_is_well_formed_and_tells_figures() {
    let tree = trapped().tree();
    for inverted in [false, true] {
        for upwards in [false, true] {
            for measure in [Measure::LiveBytes, Measure::FreedBlocks] {
                let picture = svg(&tree, &facts(), FlameView { measure, inverted, upwards, wrappers: false });
                check_xml(&picture);
                assert!(picture.contains("quote&quot;&#39;&amp;amp;"), "{picture}");
                assert!(!picture.contains("<script"));
            }
        }
    }
    let picture = svg(&tree, &facts(), FlameView::default());
    assert!(picture.contains("<title>main\nin /bin/srv\nlive bytes: 20.5 KiB (100%)\nlive blocks: 210 (100%)</title>"));
    assert!(
        picture.contains("width=\"1180.00\"") || picture.contains("width=\"1179.50\""),
        "the root is as wide as all"
    );
    check_xml(&svg(&Planted::default().tree(), &facts(), FlameView::default()));
}

fn two() -> Planted {
    let mut tree = Planted::default();
    tree.both("main;grown", [[9_000, 0], [1_000, 0]]);
    tree.both("main;gone", [[0, 0], [2_000, 0]]);
    tree.both("main;same", [[500, 0], [500, 0]]);
    tree
}

#[test]
fn a_comparison_tells_both_figures() {
    let tree = two().tree();
    let facts = FlameFacts { compared: Some(["old.hl".to_owned(), "new.hl".to_owned()]), ..FlameFacts::default() };
    let picture = svg(&tree, &facts, FlameView::default());
    check_xml(&picture);
    assert!(picture.contains("live bytes: old.hl 1,000 B (28.6%), new.hl 8.79 KiB (94.7%)"), "{picture}");
    // Grown, gone, unchanged.
    let class = |name: &str| {
        let (before, _) = picture.split_once(&format!(">{name}</text>")).expect(name);
        before.rsplit("class=\"").next().and_then(|rest| rest.split('"').next()).map(str::to_owned)
    };
    let classes = ["grown", "gone", "same"].map(class);
    assert_eq!(classes.map(|class| class.expect("a class")), ["u4", "d4", "g"]);
    let data = data(&html(&tree, &facts));
    assert_eq!(data["compared"], serde_json::json!(["old.hl", "new.hl"]));
    let sums = ["own", "old"].map(|side| {
        let all = data[side].as_array().expect("figures");
        all.chunks(9).map(|part| part[1].as_u64().expect("a number")).sum::<u64>()
    });
    assert_eq!(sums, [9_500, 3_500]);
}

#[test]
fn stacks_in_lines() {
    let lines = |tree: &CallTree, measure, compared| {
        let mut out = Vec::new();
        folded(&mut out, tree, measure, compared).expect("written");
        String::from_utf8(out).expect("text")
    };
    let text = lines(&trapped().tree(), Measure::LiveBytes, false);
    assert_eq!(text.lines().count(), TRAPS.len());
    assert!(text.contains("main;a:b 3000\n"), "{text}");
    let sum: u64 =
        text.lines().map(|line| line.rsplit(' ').next().expect("a count").parse::<u64>().expect("a number")).sum();
    assert_eq!(sum, 21_000);
    assert!(text.lines().all(|line| line.matches(';').count() == 1), "{text}");
    assert_eq!(
        lines(&two().tree(), Measure::LiveBytes, true),
        "main;grown 1000 9000\nmain;gone 2000 0\nmain;same 500 500\n"
    );
    assert_eq!(lines(&two().tree(), Measure::FreedBytes, false), "");
}

#[test]
fn a_tree_that_is_too_large_loses_what_is_least() {
    let mut planted = Planted::default();
    for index in 0..500u64 {
        planted.stack(&format!("main;f{index}"), 100 * (index + 1), 0);
    }
    let tree = planted.tree();
    let (whole, part) = limited(tree.clone(), 1000);
    assert_eq!((whole.nodes.len(), part), (tree.nodes.len(), 0.0));
    let (small, part) = limited(tree.clone(), 100);
    assert!((50..=100).contains(&small.nodes.len()), "{} nodes", small.nodes.len());
    assert!(part > 0.0 && part < 0.01);
    assert_eq!(small.root().total, tree.root().total);
    assert!(small.levels.iter().any(|level| &*level.name == "f499"));
}

#[test]
fn bytes_are_exact_where_that_is_wanted() {
    let tree = trapped().tree();
    let [with_units, exact] = [false, true].map(|exact_bytes| FlameFacts { exact_bytes, ..facts() });
    let view = FlameView::default();
    assert!(svg(&tree, &with_units, view).contains("KiB"));
    let picture = svg(&tree, &exact, view);
    assert!(!picture.contains("KiB") && picture.contains(" B ("), "{picture}");
    assert!(html(&tree, &exact).contains("\"exactBytes\":true"));
    assert!(html(&tree, &with_units).contains("\"exactBytes\":false"));
}
