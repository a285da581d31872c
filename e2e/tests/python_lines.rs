//! Lines of Python in stacks (`run --python`), against what Python says of its own frames.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use heapledger_e2e::ledger::Stats;
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, python};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, skip};
use serde_json::Value;

/// Versions whose lines stacks can have.
const VERSIONS: [&str; 3] = ["python3.11", "python3.12", "python3.13"];

/// The innermost lines of a stack, by function and line, and how many there are in all.
type Callers = (Vec<(String, u64)>, usize);

/// Those that are here.
fn pythons() -> Vec<(&'static str, PathBuf)> {
    let found: Vec<_> = VERSIONS.iter().filter_map(|version| Some((*version, python(version)?))).collect();
    for version in VERSIONS.iter().filter(|version| !found.iter().any(|(there, _)| there == *version)) {
        skip(version, "it is not installed");
    }
    found
}

fn program(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(name).to_string_lossy().into_owned()
}

/// A frame of Python as a ledger has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    file: String,
    function: String,
    line: u64,
}

/// The frames of Python of a stack, innermost first.
fn lines_of(frames: &Value) -> Vec<Line> {
    let all = frames.as_array().into_iter().flatten();
    let scripted = all.filter(|frame| frame["module"].is_null() && frame["address"].is_null());
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let line = |frame: &Value| Line {
        file: text(&frame["file"]),
        function: text(&frame["function"]),
        line: frame["line"].as_u64().unwrap_or(0),
    };
    scripted.map(line).collect()
}

/// Live blocks of such sizes: their sizes, and the stacks that allocated them.
fn blocks(ledger: &Path, least: u64, most: u64) -> Result<Vec<(u64, Rc<Stack>)>> {
    let mut dump = command(heapledger());
    dump.args(["dump", "--json", "--where", &format!("size >= {least} && size <= {most}")]).arg(ledger);
    let text = process::run(&mut dump)?.good()?.out();
    let (mut stacks, mut blocks) = (BTreeMap::new(), Vec::new());
    for line in text.lines() {
        let mut line: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        let site = line["site"].as_u64().unwrap_or(0);
        match line["type"].as_str() {
            Some("site") => {
                let frames = line["frames"].take();
                stacks.insert(site, Rc::new(Stack { lines: lines_of(&frames), frames }));
            }
            Some("block") => {
                let stack = stacks.get(&site).ok_or_else(|| format!("no stack was told before {line}"))?;
                blocks.push((line["size"].as_u64().unwrap_or(0), Rc::clone(stack)));
            }
            _ => {}
        }
    }
    Ok(blocks)
}

/// A stack: the frames of Python, and all of them.
#[derive(Debug)]
struct Stack {
    lines: Vec<Line>,
    frames: Value,
}

/// Runs a program of ours: what it printed, and its ledger.
fn recorded(
    scratch: &Scratch,
    python: &Path,
    before: &[&str],
    words: &[&str],
    objects: bool,
) -> Result<(String, PathBuf)> {
    let words: Vec<String> = before.iter().chain(words).map(|word| (*word).to_owned()).collect();
    let mut command = under_run(scratch, "x", &["--python"], python, &words);
    if objects {
        command.env("PYTHONMALLOC", "malloc");
    }
    Ok((process::run(&mut command)?.out(), scratch.path("x.hl")))
}

/// Holds blocks against what the program says of its own lines: how many of which size came from where, and by which calls.
fn compare(said: &str, ledger: &Path) -> Result {
    let mut expected: BTreeMap<(u64, Line), u64> = BTreeMap::new();
    let mut callers: BTreeMap<(u64, Line), BTreeSet<Callers>> = BTreeMap::new();
    for line in said.lines().filter(|line| line.starts_with('{')) {
        let place: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let own = Line {
            file: text(&place["file"]),
            function: text(&place["function"]),
            line: place["line"].as_u64().unwrap_or(0),
        };
        let outer = place["callers"].as_array().into_iter().flatten();
        let outer = outer.map(|caller| (text(&caller[0]), caller[1].as_u64().unwrap_or(0))).collect();
        let key = (place["bytes"].as_u64().unwrap_or(0), own);
        *expected.entry(key.clone()).or_default() += place["blocks"].as_u64().unwrap_or(0);
        callers.entry(key).or_default().insert((outer, place["depth"].as_u64().unwrap_or(0) as usize));
    }
    check!(expected.len() > 25, "the program told of {} places only: {said}", expected.len());
    let sizes: BTreeSet<u64> = expected.keys().map(|(size, _)| *size).collect();
    let mut found: BTreeMap<(u64, Line), u64> = BTreeMap::new();
    let (least, most) = (sizes.first().copied().unwrap_or(0), sizes.last().copied().unwrap_or(0));
    for (size, stack) in blocks(ledger, least, most)?.into_iter().filter(|(size, _)| sizes.contains(size)) {
        let Some((own, outer)) = stack.lines.split_first() else {
            return Err(format!("no line of {size} bytes: {}", stack.frames));
        };
        let key = (size, own.clone());
        *found.entry(key.clone()).or_default() += 1;
        let outer: Vec<_> = outer.iter().map(|line| (line.function.clone(), line.line)).collect();
        let said = callers.get(&key).ok_or_else(|| format!("{size} bytes are not of {own:?}"))?;
        let is_said = said.iter().any(|(inner, depth)| *depth == outer.len() && outer.starts_with(inner));
        check!(is_said, "{key:?} was called by {outer:?}, not by any of {said:?}");
    }
    check!(found == expected, "blocks: {found:#?}\nthe program says: {expected:#?}");
    Ok(())
}

fn nothing_was_left_out(ledger: &Path) -> Result {
    let stats = Stats::of(ledger)?;
    for counter in ["scripts_lost", "scripts_cut"] {
        check!(stats.0["counters"][counter].as_u64().unwrap_or(0) == 0, "{counter}: {}", stats.0["counters"]);
    }
    Ok(())
}

/// Functions, classes, generators, comprehensions, coroutines, recursion, threads, calls from C, code without a file: each block is
/// of the line that Python tells, under the callers that it tells.
#[test]
fn lines_are_those_that_python_tells() -> Result {
    for (version, python) in pythons() {
        for objects in [false, true] {
            let scratch = Scratch::new();
            let (said, ledger) = recorded(&scratch, &python, &[], &[&program("lines.py")], objects)?;
            compare(&said, &ledger).map_err(|error| format!("{version}, objects by malloc: {objects}: {error}"))?;
            nothing_was_left_out(&ledger).map_err(|error| format!("{version}: {error}"))?;
        }
    }
    Ok(())
}

/// SIGKILL leaves them as they were.
#[test]
fn lines_of_a_killed_program_are_there() -> Result {
    for (version, python) in pythons() {
        let scratch = Scratch::new();
        let (said, ledger) = recorded(&scratch, &python, &[], &[&program("lines.py"), "die"], false)?;
        compare(&said, &ledger).map_err(|error| format!("{version}: {error}"))?;
    }
    Ok(())
}

/// Code objects are freed, and their memory is used for others, in several threads: each block's size says its line.
#[test]
fn code_that_comes_and_goes_has_no_wrong_line() -> Result {
    const OWN: u64 = 20_000;
    for (version, python) in pythons() {
        let scratch = Scratch::new();
        let (_, ledger) = recorded(&scratch, &python, &[], &[&program("stress.py"), "300"], false)?;
        let mut compared = 0;
        for (size, stack) in blocks(&ledger, 2_000, 25_000)? {
            let Stack { lines, frames } = &*stack;
            let is_marked = frames[0]["module"].as_str().is_some_and(|path| path.contains("libffi"));
            let Some(Line { file, line, .. }) = lines.first().filter(|_| is_marked) else {
                check!(!is_marked, "{version}: {size} bytes have no line: {frames}");
                continue;
            };
            let number = file.strip_prefix("<made ").and_then(|rest| rest.strip_suffix('>')?.parse::<u64>().ok());
            let expected = match (number, file.as_str()) {
                (Some(number), _) => 2_000 + 256 * number + line,
                (None, "<string>") => 2_000 + 256 * 50 + line,
                (None, _) => OWN + line,
            };
            check!(size == expected, "{version}: {size} bytes in {file}:{line}");
            compared += 1;
        }
        check!(compared > 10_000, "{version}: {compared} blocks only");
        nothing_was_left_out(&ledger).map_err(|error| format!("{version}: {error}"))?;
    }
    Ok(())
}

/// Between the functions of C: what Python calls stands inside of its line, what called Python outside.
#[test]
fn lines_stand_among_the_functions_of_c() -> Result {
    for (version, python) in pythons() {
        let scratch = Scratch::new();
        let text = "import ctypes\nkeep = []\ndef item(n):\n    keep.append(bytearray(70_001))\n    return n\n\
                    def load():\n    return sorted([2, 1], key=item)\nload()\nimport os\nos._exit(0)\n";
        let script = scratch.path("app.py");
        fs::write(&script, text).map_err(|error| error.to_string())?;
        let (_, ledger) = recorded(&scratch, &python, &[], &[&script.to_string_lossy()], false)?;
        let all = blocks(&ledger, 70_002, 70_002)?;
        let Stack { lines, frames } = &**all.first().map(|(_, stack)| stack).ok_or("no such block")?;
        let functions: Vec<&str> = lines.iter().map(|line| line.function.as_str()).collect();
        check!(functions == ["item", "load", "<module>"], "{version}: {functions:?}");
        let numbers: Vec<u64> = lines.iter().map(|line| line.line).collect();
        check!(numbers == [4, 7, 8], "{version}: {numbers:?}");
        let all = frames.as_array().cloned().unwrap_or_default();
        let at = |name: &str| all.iter().position(|frame| frame["function"].as_str() == Some(name));
        let loops: Vec<usize> = (0..all.len())
            .filter(|index| {
                all[*index]["function"].as_str().is_some_and(|name| name.starts_with("_PyEval_EvalFrameDefault"))
            })
            .collect();
        let (item, load, module) = (at("item"), at("load"), at("<module>"));
        check!(item > at("PyByteArray_Resize") && at("PyByteArray_Resize").is_some(), "{version}: {frames}");
        // `sorted` calls back: its functions lie between, and one call of the loop runs `item`, another both others.
        check!(load > item.map(|item| item + 2) && module == load.map(|load| load + 1), "{version}: {frames}");
        check!(loops.len() == 2 && Some(loops[0]) == item.map(|item| item + 1), "{version}: {loops:?} in {frames}");
        check!(Some(loops[1]) == module.map(|module| module + 1), "{version}: {loops:?} in {frames}");
    }
    Ok(())
}

/// Forked children with ledgers of their own.
#[test]
fn forked_children_have_lines() -> Result {
    for (version, python) in pythons() {
        let scratch = Scratch::new();
        let session = scratch.path("family");
        let mut run = command(heapledger());
        run.args(["run", "-q", "--children", "--python", "--wait", "--ledger-dir"]).arg(scratch.live());
        process::run(run.arg("-o").arg(&session).arg("--").arg(&python).arg(program("forks.py")))?.good()?;
        let mut found: BTreeMap<(u64, String), u64> = BTreeMap::new();
        let ledgers = fs::read_dir(&session).map_err(|error| error.to_string())?.flatten().map(|entry| entry.path());
        for ledger in ledgers.filter(|path| path.extension().is_some_and(|end| end == "hl")) {
            for (size, stack) in blocks(&ledger, 29_999, 49_999)? {
                let of = stack.lines.first().map_or(String::new(), |line| format!("{}:{}", line.function, line.line));
                *found.entry((size, of)).or_default() += 1;
            }
        }
        let text = fs::read_to_string(program("forks.py")).map_err(|error| error.to_string())?;
        let line =
            |what: &str| text.lines().position(|line| line.trim_start().starts_with(what)).map_or(0, |at| at + 1);
        let mut expected = BTreeMap::from([((29_999, format!("<module>:{}", line("libc.malloc(29_999)"))), 1)]);
        for number in 0..4 {
            expected.insert((30_000 + number, format!("child:{}", line("libc.malloc(30_000"))), 1);
            expected.insert((40_000 + number, format!("deeper:{}", line("libc.malloc(40_000"))), 1);
        }
        check!(found == expected, "{version}: {found:?}");
    }
    Ok(())
}

/// Where there can be none, the summary says why, and the program runs as ever.
#[test]
fn older_pythons_are_refused() -> Result {
    let Some(old) = ["python3.10", "python3.9", "python3.8"].into_iter().find_map(python) else {
        skip("python3.10", "it is not installed");
        return Ok(());
    };
    let scratch = Scratch::new();
    let mut run = command(heapledger());
    run.args(["run", "--python", "--ledger-dir"]).arg(scratch.live()).arg("-o").arg(scratch.path("x.hl")).arg("--");
    let ran =
        process::run(run.arg(&old).args(["-c", "kept = [bytearray(70001) for i in range(9)]; print(len(kept))"]))?;
    let ran = ran.good()?;
    check!(ran.out() == "9\n", "{}", ran.out());
    check!(ran.err().contains("no lines of Python: it is older than 3.11"), "{}", ran.err());
    Ok(())
}

/// With `-X perf` Python calls its loop anew for each function, and each has a name of its own among the code: not twice.
#[test]
fn no_function_stands_twice() -> Result {
    let Some(python) = ["python3.12", "python3.13"].into_iter().find_map(python) else {
        skip("python3.12", "it is not installed");
        return Ok(());
    };
    let scratch = Scratch::new();
    let script = scratch.path("app.py");
    let text = "kept = []\ndef load(i):\n    kept.append(bytearray(70001))\ndef take():\n    for i in range(5): load(i)\ntake()\n\
                import os\nprint(os.getpid(), flush=True)\nos._exit(0)\n";
    fs::write(&script, text).map_err(|error| error.to_string())?;
    let (said, ledger) = recorded(&scratch, &python, &["-X", "perf"], &[&script.to_string_lossy()], false)?;
    let map = PathBuf::from(format!("/tmp/perf-{}.map", said.trim()));
    let all = blocks(&ledger, 70_002, 70_002)?;
    let _ = fs::remove_file(map);
    let Stack { lines, frames } = &**all.first().map(|(_, stack)| stack).ok_or("no such block")?;
    let named: Vec<_> = lines.iter().map(|line| (line.function.as_str(), line.line)).collect();
    check!(named == [("load", 3), ("take", 5), ("<module>", 6)], "{named:?}");
    let twice = frames
        .as_array()
        .into_iter()
        .flatten()
        .filter(|frame| frame["raw"].as_str().is_some_and(|raw| raw.starts_with("py::")));
    check!(twice.count() == 0, "{frames}");
    Ok(())
}

/// Modules are imported by Python's own code, which trees leave out.
#[test]
fn imports_are_wrappers() -> Result {
    let Some((version, python)) = pythons().into_iter().next() else { return Ok(()) };
    let scratch = Scratch::new();
    let module = scratch.path("imported.py");
    fs::write(&module, "kept = bytearray(3_000_000)\n").map_err(|error| error.to_string())?;
    let script = scratch.path("app.py");
    fs::write(&script, "import imported\nimport os\nos._exit(0)\n").map_err(|error| error.to_string())?;
    let (_, ledger) = recorded(&scratch, &python, &[], &[&script.to_string_lossy()], false)?;
    let tree = |more: &[&str]| -> Result<String> {
        Ok(process::run(command(heapledger()).arg("tree").args(more).arg(&ledger))?.good()?.out())
    };
    let (plain, whole) = (tree(&[])?, tree(&["--wrappers"])?);
    check!(!plain.contains("_load_unlocked") && plain.contains("<module>"), "{version}: {plain}");
    check!(whole.contains("_load_unlocked"), "{version}: {whole}");
    Ok(())
}
