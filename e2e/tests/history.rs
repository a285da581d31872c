//! Histories of real programs: lives of an address, several ledgers of one run, formats, and what headers inlined.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use heapledger_e2e::c_programs::built;
use heapledger_e2e::ledger::read;
use heapledger_e2e::process::{self, PATIENCE, Ran, Running, children, kill, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, victim};
use serde_json::Value;

fn recorded(scratch: &Scratch, name: &str, options: &[&str]) -> Result<PathBuf> {
    let program = victim::named(name)?.build()?;
    run_cleanly(scratch, &mut under_run(scratch, name, options, &program, &[]))?.good()?;
    Ok(scratch.path(&format!("{name}.hl")))
}

fn ask(arguments: &[&str], ledgers: &[&Path]) -> Result<Ran> {
    process::run(command(heapledger()).args(arguments).args(ledgers))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The innermost function of frames.
fn function(line: &Value) -> String {
    text(&line["frames"][0]["function"])
}

#[test]
fn lives_of_an_address() -> Result {
    let scratch = Scratch::new();
    let ledger = recorded(&scratch, "address_lives", &["--history", "65536"])?;
    let lines = read("history", &ledger, &[])?;
    let first = lines.iter().find(|line| line["event"] == "allocation" && function(line) == "first");
    let address = text(&first.ok_or("no block of first()")?["address"]);
    let lives = read("history", &ledger, &["--addr", &address])?;
    check!(lives[0]["address"] == address.as_str() && lives[0]["complete"] == true, "it begins with {}", lives[0]);
    let told: Vec<String> = lives
        .iter()
        .filter(|line| line["type"] == "life")
        .map(|life| {
            let end = if life["free"].is_null() { "lives".to_owned() } else { function(&life["free"]) };
            format!("{} {} {} {end}", life["chain"], life["contains"], function(&life["allocation"]))
        })
        .collect();
    let chain = ["1 true first grow", "1 false grow grow_more", "1 false grow_more lives", "2 true second end_second"];
    check!(told.starts_with(&chain.map(str::to_owned)), "the lives are {told:?}");
    let blocks: Vec<&Value> = lives.iter().filter(|line| line["type"] == "life").collect();
    check!(blocks[0]["moved_to"] == blocks[1]["address"], "moved to {}", blocks[0]["moved_to"]);
    check!(blocks[1]["moved_from"] == address.as_str(), "moved from {}", blocks[1]["moved_from"]);
    check!(blocks[0]["free"]["number"] == blocks[1]["allocation"]["number"], "the halves have two numbers");

    // From within the block, and from where it was moved to.
    let inside = u64::from_str_radix(address.trim_start_matches("0x"), 16).map_err(|error| error.to_string())? + 999;
    let same = read("history", &ledger, &["--addr", &inside.to_string()])?;
    check!(same.len() >= chain.len() && same[1]["contains"] == true, "from within: {}", same[1]);
    let moved = read("history", &ledger, &["--addr", &text(&blocks[2]["address"])])?;
    check!(function(&moved[1]["allocation"]) == "first" && moved[1]["contains"] == false, "from its end: {}", moved[1]);

    let ran = ask(&["history", "--addr", &address], &[&ledger])?.good()?;
    for words in ["malloc 1,000 B", "  Moved     : realloc, number ", "by the call above, from 0x", " end_second\n"] {
        check!(ran.out().contains(words), "{words:?} is not in {}", ran.out());
    }
    let ran = ask(&["history", "--addr", &address, "-r", "--limit", "1", "-f", "%a by %f1"], &[&ledger])?.good()?;
    check!(ran.out().lines().count() % 2 == 0, "an allocation and a free each: {}", ran.out());
    let none = ask(&["history", "--addr", "1"], &[&ledger])?.good()?;
    check!(none.out().starts_with("No block that the ledger knows has contained 0x00000001."), "{none}");
    Ok(())
}

fn stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T"))
}

/// Copies the ledger of a stopped program, and lets it go on.
fn copy(scratch: &Scratch, pid: u32, name: &str) -> Result<PathBuf> {
    until("the program has stopped itself", || stopped(pid))?;
    let live = scratch.unfinished().into_iter().next().ok_or("no ledger")?;
    let copy = scratch.path(name);
    process::run(Command::new("cp").arg("--sparse=always").arg(live).arg(&copy))?.good()?;
    kill(pid.into(), "CONT")?;
    Ok(copy)
}

/// Numbers and kinds of events of these ledgers, as they come, and the first line.
fn events(ledgers: &[&Path], more: &[&str]) -> Result<(Vec<(u64, String)>, Value)> {
    let (last, earlier) = ledgers.split_last().ok_or("no ledger")?;
    let mut arguments: Vec<&str> = earlier.iter().filter_map(|path| path.to_str()).collect();
    arguments.extend(more);
    let lines = read("history", last, &arguments)?;
    let events = lines.iter().filter(|line| line["type"] == "event");
    let told = |line: &Value| (line["number"].as_u64().unwrap_or(0), text(&line["event"]));
    Ok((events.map(told).collect(), lines[0].clone()))
}

#[test]
fn several_ledgers_are_one_history() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("address_lives")?.build()?;
    let mut command = under_run(&scratch, "x", &["--history", "1024"], &program, &["stop".into()]);
    let running: Running = process::start(command.stdin(std::process::Stdio::null()))?;
    until("the program runs", || children(running.pid()).first().is_some_and(|pid| stopped(*pid)))?;
    let pid = *children(running.pid()).first().ok_or("no child")?;
    let first = copy(&scratch, pid, "one")?;
    until("it goes on", || !stopped(pid) || !scratch.unfinished().is_empty())?;
    std::thread::sleep(std::time::Duration::from_millis(200));
    let second = copy(&scratch, pid, "two")?;
    running.finish(PATIENCE)?.good()?;
    let last = scratch.path("x.hl");

    let (alone, told) = events(&[&second], &[])?;
    check!(told["complete"] == false && told["frees_missing"].as_u64() >= Some(500), "the second alone: {told}");
    let (both, told) = events(&[&first, &second], &[])?;
    check!(told["complete"] == true && told["frees_missing"] == 0, "the first two: {told}");
    check!(both.len() > alone.len() + 1000, "{} events of both, {} of the second", both.len(), alone.len());
    let distinct: BTreeSet<&(u64, String)> = both.iter().collect();
    check!(distinct.len() == both.len(), "{} of {} events are there twice", both.len() - distinct.len(), both.len());
    let frees = both.iter().filter(|(_, event)| event == "free").count();
    check!(frees >= 1700, "only {frees} frees");
    check!(events(&[&second, &program, &first], &[]).is_err(), "an executable in the middle is accepted");
    check!(events(&[&program, &second, &first], &[])?.0 == both, "their order on the command line matters");
    let (reversed, _) = events(&[&first, &second], &["--reverse"])?;
    check!(reversed.iter().rev().eq(&both), "backwards it is another history");
    let (some, _) = events(&[&first, &second], &["--limit", "100"])?;
    check!(both.starts_with(&some) && some.len() == 100, "the first 100 are others");

    let (all, told) = events(&[&first, &second, &last], &[])?;
    let missing = told["frees_missing"].as_u64().unwrap_or(0);
    check!((1900..=2100).contains(&missing), "of the last 3,000 frees about 1,000 are there: {told}");
    check!(told["gaps"][0] == 0 && told["gaps"][1] == 0 && told["gaps"][2] == missing, "{told}");
    let here = all.iter().filter(|(_, event)| event == "free").count() as u64;
    check!((here + missing).abs_diff(4_700) < 50, "{here} frees are there and {missing} are not");
    let ran = ask(&["history", "--limit", "1"], &[&first, &second, &last])?.good()?;
    check!(ran.out().starts_with("Caution: history is incomplete: "), "{ran}");
    check!(ran.out().contains(" frees between ") && ran.out().contains("/two and "), "{}", ran.out());
    let ran = ask(&["history", "--limit", "1"], &[&last, &first])?.good()?;
    check!(ran.err().contains("in the order of time: ") && ran.err().trim_end().ends_with("x.hl"), "{ran}");
    let ran = ask(&["history", "--format", "ecos", "-r", "-f%a %p, %n bytes, seqno %s"], &[&first, &last])?.good()?;
    check!(ran.out().starts_with("Caution: history is incomplete.\n\nfree() 0x"), "{ran}");

    let other = recorded(&scratch, "inlined_header", &[])?;
    let refused = ask(&["history"], &[&first, &other])?;
    check!(refused.status.code() == Some(1) && refused.err().contains("they are of different runs"), "{refused}");
    Ok(())
}

#[test]
fn formats_say_what_json_says() -> Result {
    let scratch = Scratch::new();
    // Of all frees more than one frame, so that there is something to be shown of a second one.
    let ledger = recorded(&scratch, "address_lives", &["--history", "65536", "--free-depth", "whole"])?;
    let format = r"-f%p\t%n\t%m\t%s\t%a\t%t\t%N\t%b1\t%f1\t%l1\t%b2\t%f2\t%W";
    for (command, kind) in [("dump", "block"), ("history", "event")] {
        let ran = ask(&[command, format], &[&ledger])?.good()?;
        let lines = read(command, &ledger, &[])?;
        let lines: Vec<&Value> = lines.iter().filter(|line| line["type"] == kind).collect();
        let known = |value: &Value| if value.is_null() { "?".to_owned() } else { text(value) };
        let mut compared = 0;
        for (shown, line) in ran.out().lines().zip(&lines) {
            let (inner, outer) = (&line["frames"][0], &line["frames"][1]);
            check!(inner["inlined"] == false && inner["function"].is_string(), "an odd frame: {inner}");
            let expected = [
                known(&line["address"]),
                known(&line["size"]),
                known(&line["actual"]),
                known(&line["number"]),
                format!("{}()", known(&line["function"])),
                known(&line["thread"]["row"]),
                known(&line["thread"]["name"]),
                known(&inner["address"]),
                known(&inner["function"]),
                known(&inner["source"]),
                known(&outer["address"]),
                known(&outer["function"]),
                "1".to_owned(),
            ];
            check!(shown == expected.join("\t"), "{command} says {shown:?} and not {expected:?}");
            compared += 1;
        }
        check!(compared == lines.len() && compared > 0, "{compared} lines, {} in JSON", lines.len());
    }
    for (arguments, code, words) in [
        (&["dump", "-f", "%p %q"][..], 2, "%q is no conversion; there are "),
        (&["dump", "-f", "%p %q"], 2, "\n  %p %q\n     ^^\n"),
        (&["history", "-f", "%b9999"], 1, "this ledger has stacks of 512 levels at most\n  %b9999\n  ^^^^^^\n"),
        (&["dump", "-f", "%p", "--json"], 2, "cannot be used with"),
        (&["history", "--addr", "main"], 2, "'main' is no address; addresses look like 0x"),
        (&["history", "--addr", "0x+5"], 2, "'0x+5' is no address; "),
        (&["history", "--addr", "+5"], 2, "'+5' is no address; "),
        (&["dump", "-Fptr_min=+5"], 2, "'+5' is no address; "),
    ] {
        let ran = ask(arguments, &[&ledger])?;
        check!(ran.status.code() == Some(code) && ran.err().contains(words), "{arguments:?}: {ran}\n{}", ran.err());
        check!(ran.out().is_empty(), "{arguments:?} writes {}", ran.out());
    }
    let bare = recorded(&scratch, "inlined_header", &["--without", "time,thread,stack,actual"])?;
    for (format, words) in [("%T", "times"), ("%t", "threads"), ("%f1", "call stacks"), ("%m", "actual sizes")] {
        let ran = ask(&["dump", "-f", format], &[&bare])?;
        let told = format!("{words} are not recorded in this ledger\n  {format}\n");
        check!(ran.status.code() == Some(1) && ran.err().contains(&told), "{format}: {}", ran.err());
    }
    Ok(())
}

/// Of each free of `churn`, how many frames its stack has.
fn depths(ledger: &Path) -> Result<Vec<usize>> {
    let lines = read("history", ledger, &["--where", "event=free and size=64"])?;
    let frames = |line: &Value| line["frames"].as_array().map(Vec::len);
    Ok(lines.iter().filter(|line| line["type"] == "event").filter_map(frames).collect())
}

#[test]
fn of_a_free_the_caller_is_kept_unless_more_is_asked_for() -> Result {
    let scratch = Scratch::new();
    for (options, said, expected) in [
        (&[][..], Some("1"), 1..=1),
        (&["--free-depth", "0"], Some("0"), 0..=0),
        (&["--free-depth=2"], Some("2"), 2..=2),
        (&["--free-depth=1", "--unwind=slow"], Some("1"), 1..=1),
        (&["--free-depth=3", "--unwind=slow"], Some("3"), 3..=3),
        (&["--free-depth=whole/1"], None, 4..=20),
        (&["--free-depth=whole"], None, 4..=20),
        (&["--free-depth=1", "--guard=light"], None, 4..=20),
    ] {
        let ledger = recorded(&scratch, "address_lives", &[options, &["--force"]].concat())?;
        let depths = depths(&ledger)?;
        check!(depths.len() == 4700, "{options:?}: {} frees", depths.len());
        check!(depths.iter().all(|depth| expected.contains(depth)), "{options:?}: frames {:?}", &depths[..9]);
        let header = &read("history", &ledger, &[])?[0];
        let free_depth = header["free_depth"].as_str();
        check!(free_depth == said, "{options:?}: the header says {free_depth:?}");
        let text = ask(&["history", "--limit", "9", "--where", "event=free and size=64"], &[&ledger])?.good()?;
        let marks = text.out().matches(" not recorded: see run --free-depth)").count();
        check!(marks == if said.is_some() { 9 } else { 0 }, "{options:?}: {marks} marks in {}", text.out());
        // A cut that was asked for is no loss.
        check!(!text.out().contains("Not seen"), "{options:?}: {}", text.out());
        // What a stack is cut to is not the allocations' business.
        let begins = read("history", &ledger, &["--where", "event=allocation and size=64"])?;
        let whole = |line: &&Value| line["frames"].as_array().is_some_and(|frames| frames.len() >= 4);
        check!(begins.iter().filter(whole).count() == 4700, "{options:?}: stacks of allocations are cut");
    }
    let some = recorded(&scratch, "address_lives", &["--force", "--free-depth=whole/10"])?;
    let depths = depths(&some)?;
    let whole = depths.iter().filter(|depth| **depth >= 4).count();
    check!(depths.len() == 4700 && (469..=471).contains(&whole), "{whole} of {} are whole", depths.len());
    check!(depths.iter().all(|depth| *depth == 1 || *depth >= 4), "neither the caller nor all");
    Ok(())
}

/// What a program changes while it runs, stage by stage: what is in force, and how many frames the stacks of its frees have.
const STAGES: [(&str, std::ops::RangeInclusive<usize>); 8] = [
    ("1", 1..=1),
    ("whole", 5..=20),
    ("2", 2..=2),
    // From here on two windows ask for whole stacks, one after the other and both at a time, whatever the depth is.
    ("whole", 5..=20),
    ("whole", 5..=20),
    ("whole", 5..=20),
    ("0", 0..=0),
    ("1", 1..=1),
];

#[test]
fn what_is_taken_of_frees_changes_while_the_program_runs() -> Result {
    let scratch = Scratch::new();
    let strict = ["-std=gnu11", "-O1", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-Werror", "-pthread"];
    let program = built(&scratch, "gcc", "free_depth.c", "free_depth", &strict)?;
    check!(process::run(&mut command(&program))?.good()?.out() == "absent\n", "alone");
    let run = |name: &str, options: &[&str], word: &str| -> Result<PathBuf> {
        let ran = process::run(&mut under_run(&scratch, name, options, &program, &[word.to_owned()]))?.good()?;
        check!(ran.out() == format!("{name}\n"), "{ran}");
        Ok(scratch.path(&format!("{name}.hl")))
    };
    let ledger = run("changed", &["--history", "4194304"], "")?;
    let header = &read("history", &ledger, &[])?[0];
    check!(header["free_depth"] == "1", "at first: {}", header["free_depth"]);
    let changes = header["free_depth_changes"].as_array().cloned().unwrap_or_default();
    let depths: Vec<_> = changes.iter().filter_map(|change| change["free_depth"].as_str()).collect();
    let expected = [&["whole", "2", "1", "whole", "0", "1", "whole/5"][..], &["1", "whole"].repeat(100)].concat();
    check!(depths == expected, "{} changes: {:?}", depths.len(), &depths[..depths.len().min(12)]);
    for pair in changes.windows(2) {
        let [before, after] = pair else { continue };
        let rises = |key: &str| before[key].as_u64().zip(after[key].as_u64()).is_some_and(|(one, two)| one <= two);
        check!(rises("number") && rises("time_ns"), "{before} before {after}");
    }
    let of_size = |size: usize| format!("event=free and size={size}");
    for (number, (depth, frames)) in STAGES.iter().enumerate() {
        let filter = of_size(1001 + number);
        let lines = read("history", &ledger, &["--where", &filter])?;
        let counts: Vec<_> =
            lines.iter().filter(|line| line["type"] == "event").filter_map(|line| line["frames"].as_array()).collect();
        check!(counts.len() == 10, "stage {number}: {} frees", counts.len());
        check!(counts.iter().all(|found| frames.contains(&found.len())), "stage {number}, {depth}: {counts:?}");
        let text = ask(&["history", "--where", &filter], &[&ledger])?.good()?;
        let marks = text.out().matches(" not recorded: see run --free-depth)").count();
        check!(marks == if *depth == "whole" { 0 } else { 10 }, "stage {number}, {depth}: {marks} in {}", text.out());
    }
    let some = read("history", &ledger, &["--where", &of_size(1009)])?;
    let whole = some.iter().filter_map(|line| line["frames"].as_array()).filter(|frames| frames.len() > 4).count();
    check!(whole == 2, "{whole} of ten are whole, where one in five is");
    // While another thread changes it a stack is one or the other.
    let lines = read("history", &ledger, &["--where", &of_size(77)])?;
    let counts = lines.iter().filter_map(|line| line["frames"].as_array()).map(Vec::len);
    let (cut, whole): (Vec<_>, Vec<_>) = counts.partition(|frames| *frames == 1);
    check!(whole.iter().all(|frames| *frames >= 3), "neither the caller nor all");
    check!(cut.len() >= 200 && whole.len() >= 200, "{} are cut, {} whole", cut.len(), whole.len());
    let named = ask(&["dump", "--since", "whole"], &[&ledger])?;
    check!(named.status.code() != Some(0), "a change is no mark of the program's: {named}");

    let guarded = run("guarded", &["--guard=light"], "guarded")?;
    let header = &read("history", &guarded, &[])?[0];
    check!(header["free_depth"].is_null() && header["free_depth_changes"].is_null(), "guarded: {header}");
    for size in [1001, 1002] {
        let lines = read("history", &guarded, &["--where", &of_size(size)])?;
        let counts: Vec<_> = lines.iter().filter_map(|line| line["frames"].as_array()).map(Vec::len).collect();
        check!(counts.len() == 10 && counts.iter().all(|frames| *frames >= 5), "guarded, {size}: {counts:?}");
    }
    Ok(())
}

#[test]
fn headers_are_passed_over() -> Result {
    let scratch = Scratch::new();
    let ledger = recorded(&scratch, "inlined_header", &[])?;
    let of_tom = |more: &[&str]| -> Result<String> {
        let mut arguments = vec!["dump", "-Fsize_min=100", "-Fsize_max=100", "-f", "%f1 %w1 %f2"];
        arguments.extend(more);
        let ran = ask(&arguments, &[&ledger])?.good()?;
        let first = ran.out().lines().next().unwrap_or_default().to_owned();
        Ok(first)
    };
    for (more, function, file) in [
        (&[][..], "own ", "victims/inlined_header.c:8 main"),
        (&["-n"], "dick ", "victims/include/harry.h:6 main"),
        (&["-I", "*.h"], "own ", "victims/inlined_header.c:8 main"),
        (&["-I*.c"], "dick ", "victims/include/harry.h:6 main"),
        (&["-I*.[ch]"], "tom ", "victims/inlined_header.c:14 main"),
    ] {
        let seen = of_tom(more)?;
        check!(seen.starts_with(function) && seen.ends_with(file), "{more:?}: {seen}");
    }
    let plain = ask(&["dump", "--where", "size == 100", "--limit", "1"], &[&ledger])?.good()?.out();
    let all = ask(&["dump", "--where", "size == 100", "--limit", "1", "-n"], &[&ledger])?.good()?.out();
    check!(!plain.contains(" dick (inlined)") && all.contains(" dick (inlined)\n"), "{plain}\n{all}");
    check!(all.lines().filter(|line| line.trim_start().starts_with("2) ")).all(|line| line.contains(" main")), "{all}");
    let told = ask(&["dump", "-Adeepthought-elf"], &[&ledger])?.good()?;
    let words = "heapledger: -A deepthought-elf is not needed: no objdump is run, and the ledger says that its program is \
                 for x86-64\n";
    check!(told.err() == words, "{}", told.err());
    Ok(())
}

#[test]
fn a_history_that_is_shorter_than_was_asked_for_says_so() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("address_lives")?.build()?;
    let options = ["--history", "20000000", "--max-ledger", "64M"];
    let ran = run_cleanly(&scratch, &mut under_run(&scratch, "x", &options, &program, &[]))?.good()?;
    check!(ran.stderr.is_empty(), "-q says {}", ran.err());
    let ledger = scratch.path("x.hl");
    let ran = ask(&["stats"], &[&ledger])?.good()?;
    let told = "The history has room for 131,072 frees, not for the 20,000,000 asked for: it gets at most an eighth of the \
                ledger. For all of them: --max-ledger 9766M.";
    let flat = ran.out().split_whitespace().collect::<Vec<_>>().join(" ");
    check!(flat.contains(told), "{}", ran.out());
    let lines = read("history", &ledger, &["--limit", "1"])?;
    let notes = lines.last().and_then(|end| end["notes"].as_array()).ok_or("no notes")?;
    check!(notes.iter().any(|note| note["kind"] == "history_cut"), "{notes:?}");
    // What is said with the summary of `run`, and what it says to type is enough.
    let mut loud = command(heapledger());
    loud.args(["run", "-o"]).arg(scratch.path("y.hl")).arg("--ledger-dir").arg(scratch.live());
    loud.args(["--history", "100000", "--max-ledger", "1M", "--"]).arg(&program).current_dir(scratch.work());
    let ran = process::run(&mut loud)?.good()?;
    let flat = ran.err().split_whitespace().collect::<Vec<_>>().join(" ");
    check!(flat.contains("not for the 100,032 asked for: ") && flat.contains("--max-ledger 49M"), "{}", ran.err());
    let bare = recorded(&scratch, "address_lives", &["--history", "100000", "--max-ledger", "49M"])?;
    check!(!ask(&["stats"], &[&bare])?.good()?.out().contains("asked for"), "49M is not enough");
    let refused = ask(&["run", "--history", "67108865", "--", "/bin/true"], &[])?;
    check!(refused.status.code() == Some(2) && refused.err().contains("67108864 freed blocks at most"), "{refused}");
    Ok(())
}

/// Threads that allocate and free all the time.
const BUSY: &str = "#include <pthread.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    static void *work(void *none) { for (;;) { free(malloc(1000)); usleep(2000); } return none; }\n\
    int main(void) { pthread_t thread; for (int i = 0; i < 4; i++) pthread_create(&thread, 0, work, 0); pause(); }\n";

#[test]
fn what_is_freed_while_a_history_is_read_is_not_missing() -> Result {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("busy.c"), BUSY).map_err(|error| error.to_string())?;
    let program = scratch.path("busy");
    process::run(command("gcc").args(["-pthread", "-o"]).arg(&program).arg(scratch.path("busy.c")))?.good()?;
    for (ring, is_whole) in [("262144", true), ("256", false)] {
        let mut command = under_run(&scratch, ring, &["--history", ring], &program, &[]);
        let running = process::start(command.stdin(std::process::Stdio::null()))?;
        until("the program runs", || children(running.pid()).first().is_some_and(|pid| !stopped(*pid)))?;
        let pid = *children(running.pid()).first().ok_or("no child")?;
        std::thread::sleep(std::time::Duration::from_millis(700));
        let target = pid.to_string();
        for arguments in [&["history", "--json"][..], &["history", "--json", "--addr", "0x1000"]] {
            for _ in 0..4 {
                let ran = ask(&[arguments, &[target.as_str()]].concat(), &[])?.good()?;
                let head: Value =
                    ran.out().lines().next().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
                check!(head["complete"] == is_whole, "with room for {ring}: {arguments:?} {head}");
                check!((head["frees_missing"] == 0) == is_whole, "with room for {ring}: {arguments:?} {head}");
            }
        }
        kill(pid.into(), "KILL")?;
        running.finish(PATIENCE)?;
    }
    Ok(())
}
