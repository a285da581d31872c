//! What all commands that read ledgers have in common, whatever they show: tried for every one that `heapledger help`
//! lists as such.

mod common;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use common::{Scratch, finish, heapledger, output};
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::{Entry, FreedEntry, Kind, Site, ThreadRow, Ticks};
use heapledger_testing::{Builder, everything};
use serde_json::Value;

/// What stands for a ledger in [`ARGUMENTS`]: of many blocks, and of the same program a little later.
const LEDGER: &str = "x.hl";
const LATER: &str = "later.hl";
/// One of a program that told of itself.
const TOLD: &str = "told.hl";

/// Commands that want other arguments than a ledger, or end with another status. A command that is not here is called
/// with one ledger and has to end with 0.
const ARGUMENTS: &[(&str, &[&str], i32)] = &[
    ("stats", &["--all", LEDGER], 0),
    ("dump", &["--limit", "0", LEDGER], 0),
    ("history", &["--limit", "0", LEDGER], 0),
    ("top", &["--batch", "1", "--group-by", "stack", LEDGER], 0),
    ("check", &["--max-live", "1", "--top", "900", LEDGER], 1),
    ("diff", &["--blocks", "--limit", "0", LEDGER, LATER], 0),
    ("errors", &[TOLD], 0),
    ("timeline", &[TOLD], 0),
    ("whereis", &[LEDGER, "0x1040", "0x1041", "0x1080"], 0),
];

/// Commands that read a ledger and write a file of their own, or read the memory of its program: what is tried here is not for them.
const WRITERS: &[&str] = &["flame", "export", "snapshot", "verify"];

/// More than a pipe holds.
const BLOCKS: u64 = 900;

struct Reader {
    words: Vec<String>,
    status: i32,
    /// Whether it has `--json`.
    json: bool,
    /// What makes its tables CSV, if it has such.
    csv: Option<Vec<&'static str>>,
}

impl Reader {
    fn command(&self, scratch: &Scratch, more: &[&str]) -> Command {
        let mut command = heapledger();
        let (name, rest) = self.words.split_first().expect("a command");
        command.arg(name).args(more).args(rest).current_dir(scratch.cwd());
        for name in ["LC_ALL", "LC_CTYPE", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "DEBUGINFOD_URLS"] {
            command.env_remove(name);
        }
        command.env("LANG", "C.UTF-8").stdin(Stdio::null());
        command
    }

    /// Text, and where there is one JSON.
    fn forms(&self) -> Vec<&'static [&'static str]> {
        if self.json { vec![&[], &["--json"]] } else { vec![&[]] }
    }
}

/// All commands below the heading of those that read.
fn readers() -> Vec<Reader> {
    let help = output(heapledger().arg("help"));
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let list = help.lines().skip_while(|line| !line.starts_with("Reading")).skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> = list.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(ARGUMENTS.iter().all(|(name, ..)| names.contains(name)), "{names:?}: {help}");
    let reader = |name: &&str| {
        let own = ARGUMENTS.iter().find(|(own, ..)| own == name);
        let (words, status) = own.map_or((&[LEDGER][..], 0), |(_, words, status)| (*words, *status));
        let words = [*name].iter().chain(words).map(|word| (*word).to_owned()).collect();
        let own_help = output(heapledger().args([*name, "--help"]));
        let own_help = String::from_utf8_lossy(&own_help.stdout).into_owned();
        let csv = own_help
            .contains("--csv")
            .then(|| if *name == "diff" { vec!["--csv", "--group-by", "fn"] } else { vec!["--csv"] });
        Reader { words, status, json: own_help.contains("--json"), csv }
    };
    names.iter().filter(|name| !WRITERS.contains(name)).map(reader).collect()
}

fn ledger(blocks: u64) -> Builder {
    let mut builder = Builder::new();
    let module = builder.module("/nonexistent/größe\u{1b}[31m", &[7; 20], 0x10_0000, 0x10_0000, 0x20_0000);
    let site = builder.stack(&[(Some(module), 0x1234), (Some(module), 0x5678), (None, 0xdead_beef)]);
    builder.thread(0, 4242, 0x7f00, "tröt", [blocks, blocks, 0]).heap("brk heap", 0x1000, 0x100_0000);
    builder.process("program", "schöner").process("args", "schöner\u{2028}\n--laut");
    for number in 0..blocks {
        let (size, actual, kind) = (Some(24 + number % 7), Some(40), Kind::MALLOC);
        let (thread, heap, time) = (Some(ThreadRow(0)), Some(0), Some(Ticks(number * 10)));
        let block = Entry {
            number,
            address: 0x1000 + number * 64,
            size,
            actual,
            kind,
            site,
            thread,
            heap,
            time,
            ..Entry::NONE
        };
        if number % 3 == 0 {
            let ended =
                FreedEntry { block, number: blocks + number, later: 0, by: Kind::FREE, site, thread, time, core: None };
            builder.freed(ended);
        } else {
            builder.entry(block);
        }
    }
    builder
}

fn prepared(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    ledger(BLOCKS).write(&scratch.cwd().join(LEDGER)).expect("written");
    ledger(BLOCKS + 100).write(&scratch.cwd().join(LATER)).expect("written");
    everything(ByteOrder::Little, WordSize::W64).write(&scratch.cwd().join(TOLD)).expect("written");
    scratch
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// It ended as it should, and said nothing on standard error.
fn assert_quiet(output: &Output, reader: &Reader, what: &str) {
    let error = text(&output.stderr);
    assert!(
        output.status.code() == Some(reader.status) && error.is_empty(),
        "{:?}, {what}: {} {error}",
        reader.words,
        output.status
    );
}

/// JSON lines, the first a header and the last an end.
fn assert_json(bytes: &[u8], what: &str) {
    let text = text(bytes);
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{what}: {error}: {line}")))
        .collect();
    let (first, last) = (lines.first().expect("a first line"), lines.last().expect("a last line"));
    assert!(first["type"] == "header" && first["schema"] == "heapledger/2", "{what}: {first}");
    assert!(last["type"] == "end" && last["notes"].is_array() && lines.len() >= 2, "{what}: {last}");
    assert!(text.ends_with('\n'), "{what}: the last line has no end");
}

#[test]
fn text_and_json_are_what_they_should_be() {
    let scratch = prepared("readers-forms");
    for reader in readers() {
        let plain = output(&mut reader.command(&scratch, &[]));
        assert_quiet(&plain, &reader, "text");
        let shown = text(&plain.stdout);
        assert!(!shown.is_empty() && shown.ends_with('\n'), "{:?}: {shown}", reader.words);
        let odd = shown.chars().find(|letter| letter.is_control() && *letter != '\n');
        assert_eq!(odd, None, "{:?} writes a control character, perhaps out of a name", reader.words);

        let mut forced = reader.command(&scratch, &[]);
        let forced = output(forced.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1"));
        assert_eq!(text(&forced.stdout), shown, "{:?}: NO_COLOR comes first", reader.words);

        let ascii = output(reader.command(&scratch, &[]).env("LANG", "C"));
        assert_quiet(&ascii, &reader, "LANG=C");
        assert!(ascii.stdout.is_ascii() && !ascii.stdout.is_empty(), "{:?}: not ASCII in C", reader.words);

        if reader.json {
            for locale in ["C", "C.UTF-8"] {
                let json = output(reader.command(&scratch, &["--json"]).env("LANG", locale).env("CLICOLOR_FORCE", "1"));
                assert_quiet(&json, &reader, "JSON");
                assert_json(&json.stdout, &format!("{:?} in {locale}", reader.words));
            }
        }
    }
}

#[test]
fn tables_are_csv() {
    let scratch = prepared("readers-csv");
    let mut with_csv = Vec::new();
    for mut reader in readers() {
        let Some(more) = reader.csv.clone() else { continue };
        // Groups are not blocks.
        reader.words.retain(|word| word != "--blocks");
        with_csv.push(reader.words[0].clone());
        let written = output(&mut reader.command(&scratch, &more));
        assert_eq!(written.status.code(), Some(reader.status), "{:?}: {}", reader.words, text(&written.stderr));
        let table = text(&written.stdout);
        let commas = |line: &str| {
            let mut quoted = false;
            line.chars()
                .filter(|letter| {
                    quoted ^= *letter == '"';
                    *letter == ',' && !quoted
                })
                .count()
        };
        let columns = table.lines().next().map(commas).expect("a heading");
        let rows: Vec<&str> = table.lines().skip(1).collect();
        assert!(columns > 1 && !rows.is_empty() && table.ends_with("\r\n"), "{:?}: {table}", reader.words);
        assert!(rows.iter().all(|row| commas(row) == columns), "{:?}: {table}", reader.words);
        let both = output(&mut reader.command(&scratch, &[&more[..], &["--json"]].concat()));
        assert_eq!(both.status.code(), Some(2), "{:?}: --csv and --json", reader.words);
    }
    with_csv.sort();
    assert_eq!(
        with_csv,
        ["diff", "dump", "errors", "heapmap", "history", "stats", "timeline", "top", "tree", "whereis"]
    );
}

#[test]
fn no_size_has_a_unit_where_exact_bytes_are_wanted() {
    const UNITS: [&str; 3] = ["KiB", "MiB", "GiB"];
    let scratch = prepared("readers-bytes");
    let has_unit = |shown: &str| UNITS.iter().any(|unit| shown.contains(unit));
    let mut with_units = BTreeSet::new();
    for mut reader in readers() {
        let name = reader.words[0].clone();
        if has_unit(&text(&output(&mut reader.command(&scratch, &[])).stdout)) {
            with_units.insert(name.clone());
        }
        let shown = text(&output(&mut reader.command(&scratch, &["--bytes"])).stdout);
        assert!(!shown.is_empty() && !has_unit(&shown), "{:?}: {shown}", reader.words);
        // The same by sums.
        let more: &[&[&str]] = match name.as_str() {
            "dump" | "history" => &[&["--group-by", "fn"], &["--group-by", "stack"], &["--columns", "size,actual"]],
            "diff" => {
                reader.words.retain(|word| word != "--blocks");
                &[&[], &["--group-by", "kind"]]
            }
            "stats" => &[&["--where", "size > 1"]],
            "tree" => &[&["--inverted", "--by", "allocated"]],
            _ => &[],
        };
        for more in more {
            let shown = text(&output(&mut reader.command(&scratch, more)).stdout);
            assert!(has_unit(&shown) || more.contains(&"--columns"), "{name} {more:?}: {shown}");
            let output = output(&mut reader.command(&scratch, &[&["--bytes"], *more].concat()));
            assert_quiet(&output, &reader, "exact bytes");
            assert!(!has_unit(&text(&output.stdout)), "{name} {more:?}: {}", text(&output.stdout));
        }
    }
    for name in ["stats", "dump", "tree", "top", "check"] {
        assert!(with_units.contains(name), "{name} had nothing to write with a unit: {with_units:?}");
    }
}

#[test]
fn nobody_has_to_read_to_the_end() {
    let scratch = prepared("readers-head");
    for reader in readers() {
        for form in reader.forms() {
            let mut command = reader.command(&scratch, form);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
            let mut byte = [0];
            // As `| head -c 1` does.
            child.stdout.take().expect("a pipe").read_exact(&mut byte).expect("a byte");
            let ended = finish(child);
            assert_quiet(&ended, &reader, &format!("pipe closed {form:?}"));
        }
    }
}

/// Ways in which nothing can be written to standard output, and what is said then.
const UNWRITABLE: [(Unwritable, &str); 2] = [
    (Unwritable::Full, "No space left on device"),
    (Unwritable::Closed, "standard output is closed: there is nowhere to write to"),
];

#[derive(Clone, Copy, Debug)]
enum Unwritable {
    /// As on a full disk.
    Full,
    /// As with `>&-`.
    Closed,
}

impl Unwritable {
    fn end(self, command: &mut Command) -> Output {
        let child = match self {
            Unwritable::Full => {
                let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
                command.stdout(full).stderr(Stdio::piped()).spawn()
            }
            Unwritable::Closed => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", r#"exec "$@" >&-"#, "sh"]).arg(command.get_program()).args(command.get_args());
                shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
                if let Some(directory) = command.get_current_dir() {
                    shell.current_dir(directory);
                }
                shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
            }
        };
        finish(child.expect("started"))
    }
}

#[test]
fn standard_output_that_is_full_or_closed_is_a_failure() {
    let scratch = prepared("readers-full");
    for reader in readers() {
        for (form, (way, words)) in reader.forms().iter().flat_map(|form| UNWRITABLE.map(|way| (form, way))) {
            let ended = way.end(&mut reader.command(&scratch, form));
            let said = text(&ended.stderr);
            // With these, 1 is an answer: a limit is exceeded, an address is in no block.
            let answers = reader.words.first().is_some_and(|name| ["check", "whereis"].contains(&name.as_str()));
            let failure = if answers { 2 } else { 1 };
            assert_eq!(ended.status.code(), Some(failure), "{way:?} {:?} {form:?}: {said}", reader.words);
            let one = said.starts_with("heapledger: ") && said.lines().count() == 1;
            assert!(
                one && said.contains(words) && !said.contains("os error"),
                "{way:?} {:?} {form:?}: {said}",
                reader.words
            );
        }
    }
}

#[test]
fn so_it_is_for_what_is_no_report() {
    let scratch = prepared("readers-others");
    for words in [
        &[][..],
        &["help"],
        &["dump", "--help"],
        &["--version"],
        &["man"],
        &["header"],
        &["preload-path"],
        &["gdb-script"],
        &["gdb-script", "--print"],
        &["completions", "bash"],
        &["recover", "--list", "."],
    ] {
        let command = || {
            let mut command = heapledger();
            command.args(words).current_dir(scratch.cwd()).env("LANG", "C").stdin(Stdio::null());
            command
        };
        let good = output(&mut command());
        assert!(good.status.success() && good.stdout.is_ascii() && !good.stdout.is_empty(), "{words:?}: {good:?}");
        for (way, said) in UNWRITABLE {
            let ended = way.end(&mut command());
            let all = (ended.status.code(), text(&ended.stderr));
            assert_eq!(all, (Some(1), format!("heapledger: {said}\n")), "{way:?} {words:?}");
        }
    }
}

#[test]
fn ledgers_with_nothing_in_them_and_ledgers_that_end_early() {
    let scratch = prepared("readers-odd");
    let path: PathBuf = scratch.cwd().join(LEDGER);
    let whole = fs::read(&path).expect("read");
    let empty = Builder::new().bytes();
    let (mut shown, readers) = (0, readers());
    for (what, bytes) in [
        ("empty", &empty[..]),
        ("half", &whole[..whole.len() / 2]),
        ("a tenth", &whole[..whole.len() / 10]),
        ("nothing", &[]),
    ] {
        fs::write(&path, bytes).expect("written");
        for reader in &readers {
            for form in reader.forms() {
                let ended = output(&mut reader.command(&scratch, form));
                let said = text(&ended.stderr);
                let code = ended.status.code();
                assert!(
                    code.is_some_and(|code| code <= 2 || code == 3 && reader.words[0] == "check"),
                    "{:?} {form:?} of {what}: {} {said}",
                    reader.words,
                    ended.status
                );
                if said.is_empty() {
                    shown += 1;
                    assert!(!ended.stdout.is_empty(), "{:?} {form:?} of {what} says nothing", reader.words);
                    if !form.is_empty() {
                        assert_json(&ended.stdout, &format!("{:?} of {what}", reader.words));
                    }
                } else {
                    assert!(
                        said.starts_with("heapledger: ") && code != Some(0),
                        "{:?} {form:?} of {what}: {said}",
                        reader.words
                    );
                }
            }
        }
    }
    assert!(shown >= 12, "only {shown} reports");
}

#[test]
fn a_filter_leaves_the_totals_of_ecosmdd_alone() {
    let scratch = Scratch::new("readers-ecos-totals");
    for (name, addresses) in [("a", [0x1000, 0x2000, 0x3000]), ("b", [0x1000, 0x4000, 0x5000])] {
        let mut builder = Builder::new();
        for address in addresses {
            // Blocks at one address are one block.
            let number = address / 0x1000;
            let size = Some(if address == 0x2000 || address == 0x4000 { 20_000 } else { 100 });
            let (kind, thread, heap) = (Kind::MALLOC, Some(ThreadRow(0)), Some(0));
            builder.entry(Entry {
                number,
                address,
                size,
                actual: size,
                kind,
                site: Site::NONE,
                thread,
                heap,
                time: Some(Ticks(0)),
                ..Entry::NONE
            });
        }
        builder.write(&scratch.cwd().join(name)).expect("written");
    }
    let head = "File a : 19K (20200 bytes) used in 3 allocations.\nFile b : 19K (20200 bytes) used in 3 allocations.\n\
        2 new allocations in b but not in a\n2 allocations in a but freed in b\n\n";
    let lists = |new: &[&str], gone: &[&str]| {
        let list = |addresses: &[&str]| addresses.iter().map(|address| format!("{address}\n")).collect::<String>();
        let (new, gone) = (list(new), list(gone));
        format!("New allocations in b but not in a\n{new}\nAllocations in a but freed in b\n{gone}")
    };
    for (filter, new, gone) in [
        (&[][..], &["0x00004000", "0x00005000"][..], &["0x00002000", "0x00003000"][..]),
        (&["-Fsize_min=10240"], &["0x00004000"], &["0x00002000"]),
        (&["--where", "size < 10K"], &["0x00005000"], &["0x00003000"]),
        (&["-Fsize_min=99999"], &[], &[]),
    ] {
        let words = [&["diff", "-f", "%p"], filter, &["a", "b"]].concat();
        let ran = output(heapledger().args(&words).current_dir(scratch.cwd()));
        assert_eq!(text(&ran.stdout), format!("{head}{}", lists(new, gone)), "{words:?}: {}", text(&ran.stderr));
    }
}
