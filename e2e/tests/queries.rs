//! Questions to ledgers of real programs: filters, orders, sums, tables.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use heapledger_e2e::ledger::{lines, read};
use heapledger_e2e::process::{self, PATIENCE, Ran, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, victim};
use serde_json::Value;

/// A finished ledger of `queries`.
fn ledger(scratch: &Scratch, options: &[&str]) -> Result<PathBuf> {
    let program = victim::named("queries")?.build()?;
    run_cleanly(scratch, &mut under_run(scratch, "x", options, &program, &[]))?.good()?;
    Ok(scratch.path("x.hl"))
}

fn dump(ledger: &Path, words: &[&str]) -> Result<Ran> {
    process::run(command(heapledger()).arg("dump").args(words).arg(ledger))
}

fn of_type<'l>(lines: &'l [Value], name: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["type"] == name).collect()
}

/// How many blocks a filter means.
fn count(ledger: &Path, condition: &str) -> Result<usize> {
    Ok(of_type(&read("dump", ledger, &["--where", condition])?, "block").len())
}

#[test]
fn blocks_are_chosen_by_what_was_recorded_and_by_names() -> Result {
    let scratch = Scratch::new();
    let ledger = ledger(&scratch, &[])?;
    for (condition, blocks) in [
        ("fn == keep_small", 100),
        ("fn ~ '^parse_' and size == 8K", 10),
        ("thread == worker-3 and fn == xmalloc", 10),
        ("thread ~ '^worker' and size < 8K and fn ~ large", 0),
        ("fn == xmalloc", 110),
        ("holder == xmalloc", 0),
        ("holder == parse_large or holder == make_table", 15),
        ("holder in (keep_small, make_table)", 105),
        ("kind == calloc and holder == make_table", 5),
        ("fn == pass_by", 0),
        ("file == queries.c and size == 64", 100),
        ("file ~ 'queries\\.c$' and module ~ queries and actual >= 8192", 10),
        ("not (size != 1000 or kind != calloc) and overhead >= 0", 5),
        ("fn !~ '.' and size == 64", 0),
        ("size == 64 and age > 2d", 0),
        ("size == 64 and age >= 0 and time < 1h and holder == keep_small", 100),
    ] {
        let is = count(&ledger, condition)?;
        check!(is == blocks, "{condition}: {is} blocks, not {blocks}");
    }
    // What is chosen and what is not are all.
    let (all, large, small) =
        (count(&ledger, "size >= 0")?, count(&ledger, "fn ~ large")?, count(&ledger, "not fn ~ large")?);
    check!(all == large + small && large == 10, "{all} blocks are not {large} and {small}");
    let lines =
        read("dump", &ledger, &["-Fsize_min=64", "-Fsize_max=1000", "--where", "kind==calloc or fn==keep_small"])?;
    check!(
        lines[0]["where"] == "size >= 64 and size <= 1000 and (kind == \"calloc\" or fn == \"keep_small\")",
        "what is meant should be told: {}",
        lines[0]
    );
    Ok(())
}

#[test]
fn the_options_of_the_classic_tool_work_attached_and_with_an_executable() -> Result {
    let scratch = Scratch::new();
    let ledger = ledger(&scratch, &[])?;
    let program = victim::named("queries")?.build()?;
    let ran = process::run(
        command(heapledger())
            .args(["dump", "-Fthread=1", "-Fsize_min=4096", "-Ftime_min=0", "-SNs", "--json"])
            .arg(program)
            .arg(&ledger),
    )?
    .good()?;
    let lines = lines("dump", &ran.stdout)?;
    let blocks = of_type(&lines, "block");
    check!(blocks.len() == 10, "{} blocks of the thread", blocks.len());
    check!(blocks.iter().all(|block| block["size"] == 8192 && block["thread"]["name"] == "worker-3"), "{blocks:?}");
    let numbers: Vec<u64> = blocks.iter().filter_map(|block| block["number"].as_u64()).collect();
    check!(numbers.is_sorted(), "the second key is the number: {numbers:?}");
    let lines = read("dump", &ledger, &["--sort", "size:desc,seq:desc", "--limit", "12"])?;
    let sizes: Vec<u64> = of_type(&lines, "block").iter().filter_map(|block| block["size"].as_u64()).collect();
    check!(sizes.len() == 12 && sizes.is_sorted_by(|one, other| one >= other), "{sizes:?}");
    Ok(())
}

#[test]
fn mistakes_are_shown_with_their_place() -> Result {
    let scratch = Scratch::new();
    let full = ledger(&scratch, &[])?;
    for (words, said) in [
        (
            &["--where", "size >= 4K and thraed == 3"][..],
            "\n  size >= 4K and thraed == 3\n                 ^^^^^^\ndid you mean 'thread'?",
        ),
        (&["--where", "fn ~ '('"], "no pattern"),
        (&["--where", ""], "empty"),
        (&["-Fsize=3"], "size_min"),
        (&["-SQ"], "\n  Q\n  ^"),
        (&["--sort", "size,"], "missing"),
        (&["--group-by", "fun"], "did you mean 'fn'?"),
        (&["--group-by", "fn", "-SN"], "--sort"),
        (&["--columns", "addr,colour"], "expected addr"),
        (&["--hide", "["], "--hide"),
    ] {
        let ran = dump(&full, words)?;
        check!(ran.status.code() == Some(2) && ran.stdout.is_empty(), "{words:?} should be refused: {ran}");
        check!(ran.err().starts_with("heapledger: ") && ran.err().contains(said), "{words:?}: {}", ran.err());
    }
    let ran = dump(&full, &["/no/such/program"])?;
    check!(ran.status.code() == Some(2) && ran.err().contains("/no/such/program does not exist"), "{ran}");
    let ran = dump(&full, &["--where", "freed"])?;
    check!(!ran.status.success() && ran.err().contains("history"), "{ran}");
    let scratch = Scratch::new();
    let bare = ledger(&scratch, &["--without", "thread,time,stack,actual,heap"])?;
    for (words, said) in [
        (&["--where", "thread == 1"][..], "no threads"),
        (&["-Fthread=1"], "--without thread"),
        (&["-Ftime_min=3"], "no times"),
        (&["-ST"], "no threads"),
        (&["--sort", "age"], "no times"),
        (&["--where", "size > 3 or holder == main"], "no call stacks"),
        (&["--group-by", "fn"], "no call stacks"),
        (&["--columns", "overhead"], "no actual sizes"),
        (&["--group-by", "label"], "'label' cannot be asked of this ledger: its program gave no label"),
        (&["--where", "size > 1 and label.route == x"], "its program gave no label"),
        (&["--columns", "addr,mark"], "its program set no mark"),
        (&["--sort", "window"], "its program opened no window"),
    ] {
        let ran = dump(&bare, words)?;
        check!(ran.status.code() == Some(1) && ran.stdout.is_empty(), "{words:?} should be refused: {ran}");
        check!(ran.err().contains(said), "{words:?}: {}", ran.err());
    }
    let blocks =
        of_type(&lines("dump", &dump(&bare, &["--json", "--where", "size == 8K"])?.good()?.stdout)?, "block").len();
    check!(blocks == 10, "what is recorded can be asked for: {blocks}");
    Ok(())
}

fn group<'l>(groups: &[&'l Value], key: &str, name: &str) -> Result<&'l Value> {
    let found = groups.iter().find(|group| group["keys"][key] == name);
    found.copied().ok_or_else(|| format!("no group {name} in {groups:?}"))
}

#[test]
fn blocks_are_added_up() -> Result {
    let scratch = Scratch::new();
    let ledger = ledger(&scratch, &[])?;
    let all = read("dump", &ledger, &[])?;
    let all: Vec<u64> = of_type(&all, "block").iter().filter_map(|block| block["size"].as_u64()).collect();
    for by in ["fn", "file", "module", "stack", "thread", "size", "kind", "heap", "thread,kind,fn"] {
        let lines = read("dump", &ledger, &["--group-by", by])?;
        let groups = of_type(&lines, "group");
        let sum = |key: &str| groups.iter().filter_map(|group| group[key].as_u64()).sum::<u64>();
        check!(sum("bytes") == all.iter().sum::<u64>() && sum("blocks") == all.len() as u64, "{by}: {groups:?}");
        check!(lines[0]["bytes"] == sum("bytes") && lines[0]["groups"] == groups.len(), "{by}: {}", lines[0]);
    }
    let lines = read("dump", &ledger, &["--group-by", "fn"])?;
    let groups = of_type(&lines, "group");
    let (small, large) = (group(&groups, "fn", "keep_small")?, group(&groups, "fn", "parse_large")?);
    check!(small["blocks"] == 100 && small["bytes"] == 6400 && small["largest"] == 64, "{small}");
    check!(large["blocks"] == 10 && large["bytes"] == 81920, "{large}");
    check!(large["frames"][0]["function"] == "xmalloc" && large["frames"][1]["function"] == "parse_large", "{large}");
    // The wrapper holds if it is not looked through; the caller of parse_large if that is.
    let lines = read("dump", &ledger, &["--group-by", "fn", "--no-hide"])?;
    check!(group(&of_type(&lines, "group"), "fn", "xmalloc")?["blocks"] == 110, "{lines:?}");
    let lines = read("dump", &ledger, &["--group-by", "fn", "--hide", "^parse_"])?;
    check!(group(&of_type(&lines, "group"), "fn", "work")?["blocks"] == 10, "{lines:?}");
    let lines = read("dump", &ledger, &["--group-by", "size", "--sort", "blocks", "--top", "1"])?;
    let groups = of_type(&lines, "group");
    check!(groups.len() == 1 && groups[0]["keys"]["size"] == 64, "{lines:?}");
    check!(lines.last().is_some_and(|end| end["shown"] == 1 && end["left_out"].as_u64() > Some(1)), "{lines:?}");
    let text = dump(&ledger, &["--group-by", "stack", "--where", "thread == worker-3 and size == 8K"])?.good()?.out();
    let first = text.lines().next().unwrap_or_default();
    check!(first.starts_with("80.0 KiB (100%) in 10 blocks, largest 8.00 KiB, oldest "), "{text}");
    check!(text.contains("parse_large") && text.contains("\n1 group: 10 blocks, 80.0 KiB (81,920 B).\n"), "{text}");
    Ok(())
}

#[test]
fn tables_are_aligned_or_csv_or_json() -> Result {
    let scratch = Scratch::new();
    let ledger = ledger(&scratch, &[])?;
    let words = ["--columns", "size,kind,thread,fn", "--where", "holder == make_table", "--limit", "2"];
    let text = dump(&ledger, &words)?.good()?.out();
    let rows: Vec<&str> = text.lines().take(3).collect();
    let shapes: Vec<String> = rows.iter().map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    check!(shapes[0] == "SIZE KIND THREAD FN" && shapes[1] == "1,000 B calloc 0 queries make_table", "{text}");
    let column = |row: &str, word: &str| row.find(word);
    check!(column(rows[0], "KIND") == column(rows[1], "calloc") && rows[1] == rows[2], "{text}");
    check!(text.contains("2 of 5 blocks, 4.88 KiB (5,000 B); 3 left out"), "{text}");
    let text = dump(&ledger, &[&words[..], &["--csv"]].concat())?.good()?.out();
    check!(
        text == "size,kind,thread,fn\r\n1000,calloc,0 queries,make_table\r\n1000,calloc,0 queries,make_table\r\n",
        "{text}"
    );
    let lines = read("dump", &ledger, &words)?;
    let rows = of_type(&lines, "row");
    check!(rows.len() == 2 && rows[0]["fn"] == "make_table" && rows[0]["thread"]["name"] == "queries", "{lines:?}");
    let text = dump(&ledger, &["--group-by", "fn", "--bytes", "--top", "1"])?.good()?.out();
    check!(text.contains("\n81,920 ") && text.contains("parse_large"), "{text}");
    let largest = read("dump", &ledger, &["--top", "10"])?;
    let sizes: Vec<u64> = of_type(&largest, "block").iter().filter_map(|block| block["size"].as_u64()).collect();
    check!(sizes.len() == 10 && sizes.iter().all(|size| *size >= 8192), "{sizes:?}");
    for words in [&["--csv", "--json"][..], &["--top", "1", "--limit", "1"], &["--columns", "fn", "--group-by", "fn"]] {
        check!(dump(&ledger, words)?.status.code() == Some(2), "{words:?} make no sense together");
    }
    Ok(())
}

#[test]
fn a_running_process_and_a_sampled_one_answer_too() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("standing")?.build()?;
    let mut under = under_run(&scratch, "s", &["--sample", "4K"], &program, &["20000".to_owned()]);
    let mut running = process::start(under.stdin(Stdio::piped()))?;
    until("a child that answers", || {
        process::children(running.pid()).first().is_some_and(|pid| {
            dump(Path::new(&pid.to_string()), &["--json", "--where", "fn == standing_block", "--limit", "1"])
                .is_ok_and(|ran| ran.status.success() && ran.out().contains("\"block\""))
        })
    })?;
    check!(running.runs(), "it should still run");
    // Its input ends, and so does it.
    drop(running.child.stdin.take());
    running.finish(PATIENCE)?.good()?;
    let ledger = scratch.path("s.hl");
    let lines = read("dump", &ledger, &["--group-by", "fn"])?;
    let groups = of_type(&lines, "group");
    let standing = group(&groups, "fn", "standing_block")?;
    let (blocks, samples) = (standing["blocks"].as_u64().unwrap_or(0), standing["samples"].as_u64().unwrap_or(0));
    check!((300..700).contains(&samples), "{samples} samples of 20,000 blocks of 100 bytes, one in 4 KiB");
    check!((14_000..26_000).contains(&blocks), "{blocks} blocks estimated from {samples} samples of 20,000");
    check!(standing["bytes_error"].as_u64() > Some(0), "{standing}");
    let text = dump(&ledger, &["--group-by", "fn"])?.good()?.out();
    check!(text.contains("Sampled   :") && text.contains("  ~") && text.contains('±'), "{text}");
    let text = dump(&ledger, &["--columns", "size,weight", "--limit", "3"])?.good()?.out();
    check!(text.starts_with("Sampled   :") && text.contains('~'), "{text}");
    Ok(())
}
