//! Options that all commands that read have in common, tried on ledgers of which every figure is known.

mod common;

use common::{Scratch, heapledger, output};
use heapledger_format::mark::MarkKind;
use heapledger_format::{ByteOrder, Entry, FreedEntry, Kind, LabelId, ThreadRow, Ticks, WordSize};
use heapledger_testing::{Builder, everything};
use serde_json::Value;

const LEDGER: &str = "x.hl";

/// Ten live blocks of 1,000 to 10,000 bytes, of threads in turn, and ten freed ones of 1 to 10 bytes, which another
/// thread freed.
fn ledger() -> Builder {
    numbered(1)
}

/// The same with so much between two numbers.
fn numbered(step: u64) -> Builder {
    let mut builder = Builder::new();
    let module = builder.module("/opt/tool", &[7; 20], 0x10_0000, 0x10_0000, 0x20_0000);
    let made = builder.stack(&[(Some(module), 0x1234), (Some(module), 0x5678)]);
    let ended = builder.stack(&[(Some(module), 0x4321)]);
    builder.heap("brk heap", 0x1000, 0x100_0000).process("program", "tool").process("args", "tool");
    for (row, name) in [(0, "main"), (1, "worker"), (2, "closer")] {
        builder.thread(1, 4242 + row, 0x7f00, name, [10, 10, 0]);
    }
    for index in 0..10u64 {
        let (kind, heap, thread) = (Kind::MALLOC, Some(0), Some(ThreadRow((index % 2) as u32)));
        let size = Some((index + 1) * 1000);
        let (number, address) = (index * step, 0x1000 + index * 0x4000);
        let time = Some(Ticks(index * 1000));
        builder.entry(Entry {
            number,
            address,
            size,
            actual: size,
            kind,
            site: made,
            thread,
            heap,
            time,
            ..Entry::NONE
        });
        let (number, address, size) = ((10 + index) * step, 0x10_0000 + index * 64, Some(index + 1));
        let (kind, time) = (Kind::CALLOC, Some(Ticks((10 + index) * 1000)));
        let block =
            Entry { number, address, size, actual: Some(24), kind, site: made, thread, heap, time, ..Entry::NONE };
        let (number, time) = ((20 + index) * step, Some(Ticks((20 + index) * 1000)));
        builder.freed(FreedEntry {
            block,
            number,
            later: 0,
            by: Kind::FREE,
            site: ended,
            thread: Some(ThreadRow(2)),
            time,
            core: None,
        });
    }
    builder
}

fn prepared(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    ledger().write(&scratch.cwd().join(LEDGER)).expect("written");
    scratch
}

/// Exit status, standard output and standard error.
fn ran(scratch: &Scratch, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = heapledger();
    let ran = output(command.args(words).current_dir(scratch.cwd()).env("LANG", "C.UTF-8"));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
}

/// What was written, of a command that has nothing to complain about.
fn shown(scratch: &Scratch, words: &[&str]) -> String {
    let (code, out, error) = ran(scratch, words);
    assert!(code == Some(0) && error.is_empty(), "{words:?}: {code:?} {error}{out}");
    out
}

fn json(scratch: &Scratch, words: &[&str]) -> Vec<Value> {
    let out = shown(scratch, &[words, &["--json"]].concat());
    out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn totals_of_a_part() {
    let scratch = prepared("options-stats");
    let lines = json(&scratch, &["stats", "--where", "size <= 5000", LEDGER]);
    assert_eq!(lines[0]["where"], "size <= 5000");
    let stats = &lines[1];
    let figures = ["allocations", "frees", "bytes_allocated", "bytes_freed", "live_blocks", "live_bytes"];
    assert_eq!(figures.map(|name| stats[name].as_u64()), [15, 10, 15_055, 55, 5, 15_000].map(Some));
    assert_eq!(stats["allocated_by"]["calloc"]["calls"], 10);
    assert_eq!(stats["allocated_by"]["malloc"]["calls"], 5);
    assert_eq!(stats["freed_by"]["free"]["calls"], 10);
    assert_eq!(stats["threads"][0]["live_bytes"], 9000);
    assert_eq!(stats["heaps"][0]["live_blocks"], 5);
    for name in ["peak_bytes", "failed_calls", "memory", "counters", "losses"] {
        assert!(stats[name].is_null(), "{name} is of the whole program");
    }
    let text = shown(&scratch, &["stats", "-Fthread=1", LEDGER]);
    assert!(text.contains("thread == 1") && !text.contains("Peak") && text.contains(" in 5 blocks\n"), "{text}");
    // Without a filter nothing is left out.
    let whole = json(&scratch, &["stats", LEDGER]);
    assert!(whole[0]["where"].is_null() && whole[1]["peak_bytes"].is_u64() && whole[1]["live_bytes"] == 55_000);
    for words in [&["--format", "ecos", "-Fthread=1"][..], &["--where", "thraed == 1"]] {
        let (code, out, error) = ran(&scratch, &[&["stats"], words, &[LEDGER]].concat());
        assert!(
            code == Some(2) && out.is_empty() && error.starts_with("heapledger: --"),
            "{words:?}: {code:?} {error}"
        );
    }
}

fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split(',').collect()).collect()
}

#[test]
fn events_as_a_table() {
    let scratch = prepared("options-events");
    let columns = "event,number,size,thread,kind,lifetime,alloc_number,free_number,free_thread";
    let text = shown(&scratch, &["history", "--csv", "--columns", columns, "--where", "size < 3", LEDGER]);
    let rows = rows(&text);
    assert_eq!(rows[0].join(","), columns.replace("lifetime", "lifetime_ns"));
    let allocation = ["allocation", "10", "1", "0 main", "calloc", "10000000", "10", "20", "2 closer"];
    let free = ["free", "20", "1", "2 closer", "free", "10000000", "10", "20", "2 closer"];
    assert_eq!((&rows[1][..], &rows[3][..], rows.len()), (&allocation[..], &free[..], 5), "{text}");
    // The order of ecosmdd's letters, of long names, of the largest, and turned round.
    let numbers = |words: &[&str]| {
        let words = [&["history", "-f", "%s", "-Fsize_max=3"], words, &[LEDGER]].concat();
        shown(&scratch, &words).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(numbers(&[]), "10 11 12 20 21 22");
    assert_eq!(numbers(&["-r"]), "22 21 20 12 11 10");
    assert_eq!(numbers(&["-SN"]), "12 22 11 21 10 20");
    assert_eq!(numbers(&["-S", "n", "-r"]), "22 12 21 11 20 10");
    assert_eq!(numbers(&["--sort", "thread:desc,size"]), "22 21 20 11 12 10");
    let (_, out, error) = ran(&scratch, &["history", "-f", "%s", "-Fsize_max=3", "--top", "2", LEDGER]);
    assert_eq!((out.as_str(), error.as_str()), ("12\n22\n", "heapledger: 4 left out (--limit 0 shows all)\n"));
    // Of lives of one address there is one order.
    for words in [&["-SN"][..], &["--csv"], &["--group-by", "fn"], &["--columns", "fn"]] {
        let (code, _, error) = ran(&scratch, &[&["history", "--addr", "0x1000"], words, &[LEDGER]].concat());
        assert!(code == Some(2) && error.contains("--addr shows lives"), "{words:?}: {error}");
    }
    let (code, _, error) = ran(&scratch, &["history", "--columns", "fre_fn", LEDGER]);
    assert!(code == Some(2) && error.contains("did you mean 'free_fn'"), "{error}");
}

#[test]
fn events_added_up() {
    let scratch = prepared("options-event-groups");
    let text = shown(&scratch, &["history", "--csv", "--group-by", "thread", "--sort", "name", LEDGER]);
    let rows: Vec<Vec<&str>> =
        rows(&text).into_iter().skip(1).map(|row| [&row[..1], &row[2..3], &row[5..]].concat()).collect();
    let expected = [
        ["25025", "10", "allocation", "0 main"],
        ["30030", "10", "allocation", "1 worker"],
        ["55", "10", "free", "2 closer"],
    ];
    assert_eq!(rows, expected, "{text}");
    let lines = json(&scratch, &["history", "--group-by", "kind", "--top", "1", "-Fsize_max=10", LEDGER]);
    assert_eq!(
        (&lines[0]["command"], &lines[0]["events"], &lines[0]["complete"]),
        (&"history".into(), &20.into(), &true.into())
    );
    assert_eq!((&lines[1]["keys"]["event"], &lines[1]["events"]), (&"allocation".into(), &10.into()));
    assert_eq!((&lines[2]["shown"], &lines[2]["left_out"]), (&1.into(), &1.into()));
    let (code, _, error) = ran(&scratch, &["dump", "--group-by", "event", LEDGER]);
    assert!(code == Some(1) && error.contains("known of events only"), "{code:?} {error}");
}

#[test]
fn a_table_is_csv_with_every_command() {
    let scratch = prepared("options-csv");
    let table = |words: &[&str]| {
        let (code, text, error) = ran(&scratch, &[words, &["--csv"]].concat());
        let expected = error
            .lines()
            .all(|line| line == "heapledger: /opt/tool is not there." || line.starts_with("heapledger: To see more: "));
        assert!(code.is_some_and(|code| code <= 1) && expected, "{words:?}: {code:?} {error}");
        let rows: Vec<Vec<String>> =
            rows(&text).iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
        let columns = rows[0].len();
        assert!(rows.len() > 1 && rows.iter().all(|row| row.len() == columns), "{words:?}: {text}");
        rows
    };
    let stats = table(&["stats", LEDGER]);
    assert_eq!(stats[1], ["total", "", "", "20", "10", "10", "55000"]);
    assert!(stats.contains(&["thread", "1", "worker", "10", "10", "5", "30000"].map(str::to_owned).to_vec()));
    assert!(stats.contains(&["function", "", "calloc", "10", "0", "0", "0"].map(str::to_owned).to_vec()));
    let chosen = table(&["stats", "-Fthread=1", LEDGER]);
    assert!(chosen.contains(&["thread", "1", "worker", "", "", "5", "30000"].map(str::to_owned).to_vec()));
    let tree = table(&["tree", "--sort", "name", LEDGER]);
    assert_eq!(
        (&tree[0][0], &tree[0][1], &tree[1][6], &tree[1][7]),
        (&"depth".into(), &"path".into(), &"55000".into(), &"10".into())
    );
    let deepest = tree.last().expect("a row");
    assert_eq!(deepest[1].split(';').count().to_string(), deepest[0], "{deepest:?}");
    assert_eq!(table(&["tree", "--limit", "0", LEDGER]), table(&["tree", LEDGER]));
    let (_, text, error) = ran(&scratch, &["tree", "--csv", "--limit", "2", LEDGER]);
    assert!(text.lines().count() == 3 && error.contains("left out (--limit 0 shows all)"), "{text}{error}");
    let top = table(&["top", "--batch", "2", "-i", "0.1", "--group-by", "thread", LEDGER]);
    assert_eq!((top[0][2].as_str(), top[1][0].as_str(), top[1][3].as_str()), ("thread", "1", "30000"));
    let (code, _, error) = ran(&scratch, &["top", "--csv", LEDGER]);
    assert!(code == Some(2) && error.contains("--csv needs --batch"), "{error}");
    let places = table(&["whereis", LEDGER, "0x1004", "0x100000", "0x9"]);
    let found: Vec<&str> = places.iter().map(|row| row[1].as_str()).collect();
    assert_eq!(found, ["found", "block", "freed", "earlier", "nothing"]);
    assert_eq!((places[1][2].as_str(), places[1][4].as_str(), places[3][12].as_str()), ("4", "1000", "20"));
}

#[test]
fn stacks_of_a_flame_graph_are_json() {
    let scratch = prepared("options-flame");
    let lines = json(&scratch, &["flame", LEDGER]);
    let stacks: Vec<&Value> = lines.iter().filter(|line| line["type"] == "stack").collect();
    let sum = |name: &str| stacks.iter().filter_map(|line| line[name].as_u64()).sum::<u64>();
    assert_eq!((sum("live_bytes"), sum("freed_blocks"), sum("allocated_bytes")), (55_000, 10, 55_055));
    assert!(
        stacks[0]["functions"].as_array().is_some_and(|names| names.len() == 2) && stacks[0].get("before").is_none()
    );
    assert_eq!(lines.last().map(|end| &end["shown"]), Some(&stacks.len().into()));
    let compared = json(&scratch, &["flame", "--diff", LEDGER, "--threads", LEDGER]);
    assert_eq!(
        (&compared[0]["before"], &compared[1]["before"]["live_bytes"]),
        (&LEDGER.into(), &compared[1]["live_bytes"])
    );
    assert_eq!(compared[1]["thread"], "thread 0, 4242 main");
    // By the name of the file, too; and the folded stacks are the same ones.
    let (code, _, said) = ran(&scratch, &["flame", "-o", "x.json", LEDGER]);
    assert!(code == Some(0) && said.contains("x.json"), "{said}");
    let written = std::fs::read_to_string(scratch.cwd().join("x.json")).expect("a file");
    assert_eq!(written.lines().count(), lines.len());
    let folded = shown(&scratch, &["flame", "--format", "folded", LEDGER]);
    assert_eq!(folded.lines().count(), stacks.iter().filter(|stack| stack["live_bytes"] != 0).count());
}

#[test]
fn names_that_do_not_occur_are_told() {
    let scratch = prepared("options-unknown");
    for (condition, said) in [
        ("thread == \"wrker\"", "no thread of this ledger is named \"wrker\"; did you mean \"worker\"?"),
        ("thread == xyzzy", "no thread of this ledger is named \"xyzzy\"; there are \"closer\", \"main\", \"worker\""),
        (
            "thread in (main, nobody) and size > 1G",
            "no thread of this ledger is named \"nobody\"; there are \"closer\", \"main\", \"worker\"",
        ),
        ("thread == 17", "no thread of this ledger has row 17; `stats` lists them with their rows"),
        ("thread ~ \"^io\"", "no thread of this ledger matches \"^io\"; there are \"closer\", \"main\", \"worker\""),
        ("module == \"tol\"", "no module of this ledger is \"tol\"; did you mean \"tool\"?"),
        ("fn == keep", "no function of this ledger is named \"keep\""),
        ("file == \"keep.c\"", "no source file of this ledger is \"keep.c\""),
        ("not (thread != wrker)", "no thread of this ledger is named \"wrker\"; did you mean \"worker\"?"),
        // These occur, though in no such block; and of what is negated nothing is expected.
        ("thread == closer", ""),
        ("module ~ \"/opt\" and size > 1G", ""),
        ("thread != wrker and size > 1G", ""),
        ("size > 1G", ""),
    ] {
        for words in [
            &["dump", "-f", "%p"][..],
            &["dump", "--csv", "--columns", "size"],
            &["dump", "--json"],
            &["dump", "--csv", "--group-by", "size"],
            &["diff", LEDGER, "--csv", "--group-by", "size"],
            &["check", "--max-live", "1G", "--max-live-blocks", "0"],
        ] {
            let (code, _, error) = ran(&scratch, &[words, &["--where", condition, LEDGER]].concat());
            let error: Vec<&str> = error
                .lines()
                .filter(|line| !line.ends_with("is not there.") && !line.starts_with("heapledger: To see more: "))
                .collect();
            let expected = if said.is_empty() { String::new() } else { format!("heapledger: {said}") };
            assert_eq!((code, error.join("\n")), (Some(0), expected), "{words:?} {condition}");
        }
    }
    for words in [
        &["history", "-f", "%p"][..],
        &["history", "--csv"],
        &["history", "--group-by", "fn", "--csv"],
        &["history", "--addr", "0x1000"],
        &["stats"],
        &["stats", "--json"],
        &["tree"],
        &["top", "--batch", "1"],
        &["flame", "--json"],
        &["diff", LEDGER],
    ] {
        let (code, _, error) = ran(&scratch, &[words, &["--where", "thread == wrker", LEDGER]].concat());
        assert!(
            code == Some(0) && error.starts_with("heapledger: no thread of this ledger is named \"wrker\"; did"),
            "{words:?}: {error}"
        );
    }
}

#[test]
fn a_program_is_found_by_what_it_was_started_as() {
    let scratch = Scratch::new("options-started");
    let mut builder = ledger();
    builder.process("exe", "/opt/tool").process("arg", "/usr/bin/linked-tool").process("arg", "--serve");
    builder.write(&scratch.cwd().join(LEDGER)).expect("written");
    for (condition, found) in [
        ("module == linked-tool", true),
        ("module == tool", true),
        ("module ~ \"linked\"", true),
        ("module == serve", false),
        ("module != linked-tool", false),
    ] {
        let (_, out, _) = ran(&scratch, &["dump", "-f", "%p", "--where", condition, LEDGER]);
        assert_eq!(out.lines().count(), if found { 10 } else { 0 }, "{condition}");
    }
}

#[test]
fn limit_is_in_order_and_top_is_the_largest() {
    let scratch = prepared("options-top");
    let lines =
        |words: &[&str]| ran(&scratch, &[words, &[LEDGER]].concat()).1.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&["dump", "-f", "%n", "--limit", "2"]), ["1000", "2000"]);
    assert_eq!(lines(&["dump", "-f", "%n", "--top", "2"]), ["10000", "9000"]);
    assert_eq!(lines(&["dump", "-f", "%n", "--top", "2", "-Sn"]), ["1000", "2000"]);
    assert_eq!(lines(&["dump", "-f", "%n", "--top", "2", "--reverse"]), ["1000", "2000"]);
    assert_eq!(lines(&["history", "-f", "%n", "--top", "2", "--reverse"]), ["1", "1"]);
    assert_eq!(lines(&["history", "-f", "%n", "--limit", "2"]), ["1000", "2000"]);
    assert_eq!(lines(&["history", "-f", "%n", "--top", "2"]), ["10000", "9000"]);
    let all = |words: &[&str]| lines(words).len();
    for command in [
        &["dump", "-f", "%n"][..],
        &["history", "-f", "%n"],
        &["dump", "--csv"],
        &["history", "--csv"],
        &["dump", "--group-by", "size", "--csv"],
        &["history", "--group-by", "size", "--csv"],
        &["tree", "--csv"],
        &["stats", "--csv"],
        &["top", "--batch", "1", "--csv", "--group-by", "thread"],
    ] {
        // A tree has no largest lines: it has so many children below each.
        let largest = if command[0] == "tree" { "--children" } else { "--top" };
        for option in ["--limit", largest] {
            let none = all(&[command, &[option, "0"]].concat());
            assert_eq!(none, all(command), "{command:?}: 0 is all, and so is nothing");
            assert!(
                all(&[command, &[option, "1"]].concat()) < none || command[0] == "stats" || command[0] == "tree",
                "{command:?} {option}"
            );
        }
    }
    for words in [&["check", "--max-live", "1"][..], &["whereis"]] {
        for option in ["--limit", "--top"] {
            let address: &[&str] = if words[0] == "whereis" { &["0x1000"] } else { &[] };
            let (code, _, error) = ran(&scratch, &[words, &[option, "0", LEDGER], address].concat());
            assert!(code.is_some_and(|code| code <= 1) && error.is_empty(), "{words:?} {option}: {error}");
        }
    }
    assert_eq!(lines(&["diff", "--blocks", "-f", "%n", "--top", "2", "--where", "size > 1", LEDGER]).len(), 8);
}

/// The same ledger of a program that tells of its blocks: labels by their numbers, marks behind the blocks 30 and 60 and one for
/// thread 1 behind 70, and two windows that overlap.
fn told(name: &str) -> Scratch {
    let (scratch, mut builder) = (Scratch::new(name), numbered(10));
    let route = builder.label(LabelId::NONE, "route", "/a");
    let user = builder.label(route, "user", "7");
    builder.label(user, "route", "/b");
    builder.each_block(|block| block.label = LabelId(block.number as u32 / 10 % 4));
    let marks = [
        (15, MarkKind::WindowStarts, "", None, 1),
        (35, MarkKind::Mark, "warm", None, 0),
        (36, MarkKind::WindowStarts, "", None, 2),
        (45, MarkKind::WindowStops, "", None, 1),
        (65, MarkKind::Mark, "load", None, 0),
        (75, MarkKind::Mark, "own", Some(1), 0),
        (77, MarkKind::WindowStops, "", None, 2),
    ];
    builder.told(&["requests", "batch"], &marks).write(&scratch.cwd().join(LEDGER)).expect("written");
    scratch
}

#[test]
fn what_a_program_tells_of_its_blocks_is_added_up_and_chosen() {
    let scratch = told("options-told-groups");
    let sums = |by: &str| -> Vec<(String, u64)> {
        let lines = json(&scratch, &["dump", "--group-by", by, "--sort", "name", LEDGER]);
        let groups = lines.iter().filter(|line| line["type"] == "group");
        groups.map(|group| (group["keys"][by].to_string(), group["bytes"].as_u64().expect("bytes"))).collect()
    };
    let expect = |by: &str, expected: &[(&str, u64)]| {
        let expected: Vec<(String, u64)> = expected.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
        assert_eq!(sums(by), expected, "{by}");
    };
    expect(
        "label",
        &[("null", 15_000), ("\"route=/a\"", 18_000), ("\"route=/b user=7\"", 12_000), ("\"user=7 route=/a\"", 10_000)],
    );
    expect("label.route", &[("null", 15_000), ("\"/a\"", 28_000), ("\"/b\"", 12_000)]);
    expect("mark", &[("null", 10_000), ("\"load\"", 17_000), ("\"own\"", 10_000), ("\"warm\"", 18_000)]);
    let both = "\"batch, requests\"";
    expect("window", &[("null", 22_000), ("\"batch\"", 21_000), (both, 5_000), ("\"requests\"", 7_000)]);
    expect("account", &[("\"0 main / brk heap\"", 25_000), ("\"1 worker / brk heap\"", 30_000)]);
    let text = shown(&scratch, &["dump", "--group-by", "label.route,label.user", LEDGER]);
    let first = text.lines().take(2).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let first: Vec<String> = first.collect();
    assert!(first[0].ends_with("LABEL.ROUTE LABEL.USER") && first[1].ends_with("/a (no label.user)"), "{text}");

    for (condition, blocks) in [
        ("label.route == /a", 5),
        ("label.route in (\"/a\", \"/b\")", 7),
        ("label.route != /a", 5),
        ("label.route ~ \"^/\"", 7),
        ("label.user == 7", 4),
        ("label == \"user=7\"", 4),
        ("label == \"user=7 route=/a\"", 2),
        ("label ~ \"^route=/b$\"", 2),
        ("not label ~ .", 3),
        ("mark == warm and window == batch", 3),
        ("window == requests", 3),
        ("since == load", 3),
    ] {
        let lines = json(&scratch, &["dump", "--where", condition, LEDGER]);
        assert_eq!(lines.iter().filter(|line| line["type"] == "block").count(), blocks, "{condition}");
    }
    let (code, _, error) = ran(&scratch, &["dump", "--where", "label.route == \"/c\"", LEDGER]);
    assert_eq!(code, Some(0));
    assert!(error.starts_with("heapledger: no label.route of this ledger is named \"/c\"; "), "{error}");
    for option in ["--group-by", "--columns", "--sort"] {
        let (code, out, error) = ran(&scratch, &["dump", option, "label.rout", LEDGER]);
        assert!(code != Some(0) && out.is_empty(), "{option}: {out}");
        assert!(
            error.contains("'label.rout' cannot be asked of this ledger: its labels have the keys route, user\n"),
            "{error}"
        );
    }
    for (option, asked) in [("--group-by", "label"), ("--columns", "mark"), ("--sort", "window")] {
        let (code, out, error) = ran(&prepared("options-told-nothing"), &["dump", option, asked, LEDGER]);
        assert!(code != Some(0) && out.is_empty() && error.contains("its program "), "{option}: {error}");
    }
}

#[test]
fn what_a_program_tells_of_its_blocks_is_shown() {
    let scratch = told("options-told-shown");
    let table = shown(
        &scratch,
        &["dump", "--sort", "label.route:desc,number", "--csv", "--columns", "number,label,mark,window", LEDGER],
    );
    let expected = "number,label,mark,window\n30,route=/b user=7,,requests\n70,route=/b user=7,load,batch\n10,route=/a,,\n\
         20,user=7 route=/a,,requests\n50,route=/a,warm,batch\n60,user=7 route=/a,warm,batch\n90,route=/a,own,\n0,,,\n\
         40,,warm,\"batch, requests\"\n80,,load,\n";
    assert_eq!(table.replace('\r', ""), expected);
    let order = |keys: &str| shown(&scratch, &["dump", "--sort", keys, "-f", "%s", LEDGER]).replace('\n', " ");
    assert_eq!(order("label,number"), "0 40 80 10 50 90 30 70 20 60 ");
    assert_eq!(order("mark:desc,number"), "90 70 80 40 50 60 0 10 20 30 ");
    let lines = shown(&scratch, &["dump", "--where", "number in (40, 70)", "-f", "%s %L after %M", LEDGER]);
    assert_eq!(lines, "40 - after warm\n70 route=/b user=7 after load\n");
    let text = shown(&scratch, &["dump", "--where", "number == 30", LEDGER]);
    assert!(text.contains("\n  Labelled route=/b user=7\n"), "{text}");

    let lines = json(&scratch, &["dump", "--where", "number in (30, 40)", LEDGER]);
    let blocks: Vec<&Value> = lines.iter().filter(|line| line["type"] == "block").collect();
    let told = |block: &Value| serde_json::json!([block["label"], block["mark"], block["window"]]);
    assert_eq!(told(blocks[0]), serde_json::json!([{ "route": "/b", "user": "7" }, null, ["requests"]]));
    assert_eq!(told(blocks[1]), serde_json::json!([{}, "warm", ["batch", "requests"]]));
    let plain = json(&prepared("options-told-plain"), &["dump", LEDGER]);
    assert!(plain.iter().all(|line| ["label", "mark", "window"].iter().all(|key| line.get(*key).is_none())));

    // A free is of the moment when it came; its block's label stays.
    let words =
        ["history", "--where", "thread == 2 and size <= 2", "--csv", "--columns", "event,number,label,mark", LEDGER];
    assert_eq!(
        shown(&scratch, &words).replace('\r', ""),
        "event,number,label,mark\nfree,200,user=7 route=/a,load\nfree,210,route=/b user=7,load\n"
    );
    let lines = json(&scratch, &["history", "--group-by", "label.user", "--where", "event == free", LEDGER]);
    let bytes = lines.iter().filter(|line| line["type"] == "group").map(|group| group["bytes"].as_u64());
    assert_eq!(bytes.collect::<Vec<_>>(), [33, 22].map(Some));
}

#[test]
fn accounts_are_rows_of_totals_as_csv() {
    let scratch = Scratch::new("options-accounts");
    everything(ByteOrder::Little, WordSize::W64).write(&scratch.cwd().join(LEDGER)).expect("written");
    let (code, out, _) = ran(&scratch, &["stats", "--csv", LEDGER]);
    // Two blocks were freed by another thread, which has not added them to the account yet.
    assert!(code == Some(0) && out.contains("\naccount,0,main / brk,40,22,18,4900\r\n"), "{out}");
}
