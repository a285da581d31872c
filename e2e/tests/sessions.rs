//! Sessions of several processes, made of ledgers that were recorded one by one: whatever is said of all of them is what is said of
//! each, added up; and the page of all of them in a real browser.

use std::fs;
use std::path::Path;

use heapledger_e2e::browser::Browser;
use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::process::{self, Ran};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, skip, victim};
use heapledger_source::{FamilyEnded, FamilyHead, FamilyLine, FamilyProcess, FamilyWriter, Ledger, MemberEnd};
use serde_json::Value;

/// Records the victims one after the other, as children of the first, into a session of this name.
fn session(scratch: &Scratch, name: &str, victims: &[&str]) -> Result<Vec<Stats>> {
    let failed = |error: std::io::Error| error.to_string();
    let directory = scratch.path(name);
    fs::create_dir(&directory).map_err(failed)?;
    let head = FamilyHead::new("0123456789abcdef", 0, 1, vec!["first".into()], "test");
    let mut writer = FamilyWriter::create(&directory, &head).map_err(failed)?;
    let (mut all, mut first) = (Vec::new(), 1);
    for victim in victims {
        let program = victim::named(victim)?.build()?;
        run_cleanly(scratch, &mut under_run(scratch, "one", &[], &program, &[]))?;
        let ledger = Ledger::open(scratch.path("one.hl")).map_err(|error| error.to_string())?;
        let process = ledger.process();
        let pid = process.pid().unwrap_or_default();
        let file = format!("{victim}.{pid}.hl");
        fs::rename(scratch.path("one.hl"), directory.join(&file)).map_err(failed)?;
        let line = FamilyProcess {
            pid,
            ppid: first,
            start_ticks: process.start_ticks().unwrap_or_default(),
            program: (*victim).to_owned(),
            began_unix_ns: ledger.header().start_unix_ns,
            ledger: Some(file.clone()),
            end: Some(MemberEnd::Exit(0)),
            ..FamilyProcess::default()
        };
        writer.append(&FamilyLine::Process(line)).map_err(failed)?;
        if first == 1 {
            first = pid;
        }
        all.push(Stats::of(directory.join(&file))?);
    }
    let ended = FamilyEnded { exit: MemberEnd::Exit(0), ..FamilyEnded::default() };
    writer.append(&FamilyLine::Ended(ended)).map_err(failed)?;
    Ok(all)
}

fn tell(scratch: &Scratch, words: &[&str]) -> Result<Ran> {
    process::run(command(heapledger()).args(words).current_dir(scratch.work()))
}

fn lines(scratch: &Scratch, words: &[&str]) -> Result<Vec<Value>> {
    let ran = tell(scratch, words)?.good()?;
    ran.out().lines().map(|line| serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))).collect()
}

const VICTIMS: [&str; 4] = ["odd_names", "leaky", "odd_names", "growing"];

#[test]
fn what_is_said_of_all_is_the_sum_of_what_is_said_of_each() -> Result {
    let scratch = Scratch::new();
    let stats = session(&scratch, "build", &VICTIMS)?;
    let sum = |figure: &str| stats.iter().map(|stats| stats.number(figure)).sum::<u64>();
    let all = lines(&scratch, &["stats", "build", "--json"])?;
    for figure in ["allocations", "frees", "bytes_allocated", "live_blocks", "live_bytes"] {
        check!(all[1][figure] == sum(figure), "{figure}: {} of all, {} of each", all[1][figure], sum(figure));
    }
    let highest = stats.iter().map(|stats| stats.number("peak_bytes")).max();
    check!(all[1]["peak_of_one_bytes"].as_u64() == highest, "{}", all[1]);
    let processes: Vec<&Value> = all.iter().filter(|line| line["type"] == "process").collect();
    check!(processes.len() == VICTIMS.len() && processes[1]["depth"] == 1, "{processes:?}");
    for (by, tops) in [("process", 4), ("program", 3)] {
        for more in [&[][..], &["--inverted"], &["--threads"], &["--at", "peak"]] {
            let tree = lines(&scratch, &[&["tree", "build", "--json", "--group-by", by], more].concat())?;
            let root = &tree[1];
            check!(root["live_bytes"] == sum("live_bytes"), "{by} {more:?}: {root}");
            check!(root["allocated_blocks"] == sum("allocations"), "{by} {more:?}: {root}");
            let found = tree.iter().filter(|line| line["kind"] == "process").count();
            check!(found == tops, "{by} {more:?}: {found}");
            if !more.contains(&"--threads") {
                check!(root["peak_bytes"] == sum("peak_bytes"), "{by} {more:?}: {root}");
            }
        }
    }
    // The functions have names, whichever process they are of.
    let text = tell(&scratch, &["tree", "build", "--min", "0"])?.good()?.out();
    for part in ["odd_names.cc:17", "leaky ", "growing "] {
        check!(text.contains(part), "no {part} in\n{text}");
    }
    let folded = tell(&scratch, &["export", "folded", "build", "-o", "-"])?.good()?.out();
    let exported: u64 = folded.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum();
    check!(exported == sum("live_bytes"), "{exported}");
    Ok(())
}

#[test]
fn a_leak_in_one_of_eight_is_found_at_once() -> Result {
    let scratch = Scratch::new();
    let workers = [["cross_free"; 4].as_slice(), &["leaky"], &["cross_free"; 3]].concat();
    let stats = session(&scratch, "workers", &workers)?;
    let leaky = stats[4].inner("process", "pid");
    let ran = tell(&scratch, &["check", "workers", "--max-leaked", "0"])?;
    check!(ran.status.code() == Some(1), "{ran}");
    check!(ran.out().contains(&format!("EXCEEDED leaky {leaky}: not freed at the end")), "{ran}");
    check!(ran.out().contains("7 processes hold all limits"), "{ran}");
    let junit = tell(&scratch, &["check", "workers", "--max-leaked", "0", "--format", "junit"])?.out();
    check!(junit.matches("<testsuite ").count() == 9 && junit.matches("<failure ").count() == 1, "{junit}");
    let shown = tell(&scratch, &["stats", &format!("workers:{leaky}")])?.good()?.out();
    check!(shown.contains(&format!("leaky, pid {leaky}")), "{shown}");
    let ran = tell(&scratch, &["tree", "workers", "--exe", &process_of_nobody()])?;
    check!(ran.status.code() == Some(2) && ran.err().contains("no process of the session"), "{ran}");
    Ok(())
}

/// A program that no victim has loaded.
fn process_of_nobody() -> String {
    heapledger().to_string_lossy().into_owned()
}

#[test]
fn a_page_has_processes_on_top_whichever_way_up() -> Result {
    let scratch = Scratch::new();
    let stats = session(&scratch, "build", &VICTIMS)?;
    let Some(mut browser) = Browser::start(&scratch.path("profile"))? else {
        skip("the page of a session", "there is no chromium");
        return Ok(());
    };
    tell(&scratch, &["flame", "build"])?.good()?;
    let page = scratch.path("build.html");
    check!(Path::new(&page).exists(), "no page");
    browser.look(1280, 800, false)?;
    let text = |id: &str| format!("document.getElementById('{id}').textContent");
    let live: u64 = stats.iter().map(|stats| stats.number("live_blocks")).sum();
    let tops = |browser: &mut Browser| -> Result<Vec<String>> {
        let mut names = Vec::new();
        let side = |browser: &mut Browser, side: &str| {
            let expression = format!("document.getElementById('graph').getBoundingClientRect().{side}");
            Ok::<f64, String>(browser.value(&expression)?.as_f64().unwrap_or(0.0).ceil())
        };
        let (left, right, top) = (side(browser, "left")?, side(browser, "right")?, side(browser, "top")?);
        // The second row is that below the whole.
        let mut x = left + 3.0;
        while x < right {
            browser.point(x, top + 28.0)?;
            let name = browser.text("document.querySelector('#detail .name').textContent")?;
            if names.last() != Some(&name) {
                names.push(name);
            }
            x += 40.0;
        }
        Ok(names)
    };
    for hash in ["", "#inverted=1"] {
        browser.open(&page, hash)?;
        let total = browser.text(&text("total"))?;
        check!(total.contains(&format!(" in {live} blocks live")), "{hash}: {total}");
        let names = tops(&mut browser)?;
        let is_process = |name: &&String| VICTIMS.iter().any(|victim| name.starts_with(&format!("{victim} ")));
        check!(names.iter().filter(is_process).count() >= 2, "{hash}: {names:?}");
        check!(browser.problems()?.is_empty(), "{hash}: {:?}", browser.problems()?);
    }
    Ok(())
}

#[test]
fn one_process_is_as_its_ledger_is() -> Result {
    let scratch = Scratch::new();
    let stats = session(&scratch, "build", &["odd_names", "leaky"])?;
    let pid = stats[1].inner("process", "pid");
    let file = format!("build/leaky.{pid}.hl");
    for (name, more) in [("dump", &["--group-by", "fn"][..]), ("history", &[]), ("timeline", &[]), ("tree", &[])] {
        let mut own = read(name, scratch.path(&file), more)?;
        let mut chosen = read(name, scratch.path(&format!("build:{pid}")), more)?;
        for lines in [&mut own, &mut chosen] {
            lines[0]["ledger"] = Value::Null;
        }
        check!(own == chosen, "{name}: {own:?} {chosen:?}");
    }
    Ok(())
}

/// Runs `tides` with so long a history, so that each process has freed `number` blocks since all together held most.
fn tides(scratch: &Scratch, name: &str, history: &str, number: &str) -> Result<std::path::PathBuf> {
    let session = scratch.path(name);
    let mut command = command(heapledger());
    command.args(["run", "-q", "--children", "--history", history, "-o"]).arg(&session);
    command.arg("--ledger-dir").arg(scratch.live()).arg("--").arg(victim::named("tides")?.build()?);
    command.arg(number).arg(session.join("session.jsonl")).current_dir(scratch.work());
    process::run(&mut command)?.good()?;
    Ok(session)
}

/// A function, and the bytes and blocks below it.
type Held = (String, u64, u64);

/// Those of some functions, and what the report says of the moment.
fn at_session_peak(scratch: &Scratch, session: &Path) -> Result<(Vec<Held>, Value)> {
    let all = lines(scratch, &["tree", "--json", "--at", "session-peak", &session.to_string_lossy()])?;
    let named =
        |line: &&Value| ["kept", "at_the_peak", "before_it", "after_it"].iter().any(|name| line["function"] == **name);
    let mut held: Vec<Held> = all
        .iter()
        .filter(named)
        .map(|line| {
            let number = |key: &str| line[key].as_u64().unwrap_or_default();
            (line["function"].as_str().unwrap_or_default().to_owned(), number("live_bytes"), number("live_blocks"))
        })
        .collect();
    held.sort();
    let end = all.last().ok_or("no end")?;
    let note = end["notes"].as_array().and_then(|notes| notes.iter().find(|note| note["kind"] == "session_peak"));
    Ok((held, note.cloned().ok_or_else(|| format!("no word on the moment: {end}"))?))
}

#[test]
fn what_lived_when_all_together_held_most_is_known_as_far_as_histories_reach() -> Result {
    const BLOCK: u64 = 100 << 10;
    let scratch = Scratch::new();
    let session = tides(&scratch, "whole", "65536", "0")?;
    let (held, note) = at_session_peak(&scratch, &session)?;
    let of = |name: &str, blocks: u64| (name.to_owned(), blocks * BLOCK, blocks);
    let truth = [of("at_the_peak", 200), of("at_the_peak", 500), of("before_it", 50), of("kept", 80)];
    check!(held == truth, "{held:?}; {note}");
    let text = note["text"].as_str().unwrap_or_default();
    check!(text.contains("3 processes") && text.matches("81.1 MiB").count() == 2, "{text}");
    check!(!text.contains("too little"), "{text}");
    for command in ["flame", "export"] {
        let words = match command {
            "flame" => vec!["flame", "--format", "folded", "--at", "session-peak", "whole", "-o", "-"],
            _ => vec!["export", "folded", "--at", "session-peak", "whole", "-o", "-"],
        };
        let out = tell(&scratch, &words)?.good()?.out();
        let sum: u64 = out.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum();
        check!((830 * BLOCK..831 * BLOCK).contains(&sum), "{command}: {sum}\n{out}");
    }
    let text = tell(&scratch, &["tree", "--at", "session-peak", "whole"])?.good()?.out();
    check!(text.contains("blocks at the session's peak\n") && !text.contains("live bytes"), "{text}");
    // What was freed long before the end is not in a short history.
    let session = tides(&scratch, "short", "1000", "20000")?;
    let (held, note) = at_session_peak(&scratch, &session)?;
    check!(held == [of("kept", 80)], "{held:?}");
    let text = note["text"].as_str().unwrap_or_default();
    check!(text.contains("3 processes freed since") && text.contains("too little"), "{text}");
    // Of one process there is no such moment, and some figures have none.
    for words in [
        vec!["tree", "--at", "session-peak", "--by", "allocated", "whole"],
        vec!["dump", "--group-by", "fn", "--at", "session-peak", "whole"],
        vec!["tree", "--at", "session-peak", "--process", "tides", "whole"],
    ] {
        let ran = tell(&scratch, &words)?;
        check!(!ran.status.success() && ran.err().contains("heapledger: "), "{words:?}: {ran}");
    }
    Ok(())
}

#[test]
fn a_session_without_errors_has_a_whole_report_of_them() -> Result {
    let scratch = Scratch::new();
    session(&scratch, "s", &["leaky"])?;
    let said = lines(&scratch, &["errors", "--json", "s"])?;
    let types: Vec<&str> = said.iter().filter_map(|line| line["type"].as_str()).collect();
    check!(types == ["header", "end"] && said[1]["shown"] == 0, "{said:?}");
    Ok(())
}
