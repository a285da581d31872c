//! Exported files, read by the programs that they are for: `cargo xtask viewers`.
//!
//! Twice: files of names that viewers could trip over, which are those that `crates/export/tests/golden.rs` compares with, and
//! files of a real program, whose totals are those of `heapledger stats`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::browser::Browser;
use crate::tools::{command, find, heapledger, products, root};
use crate::{Result, check, process};

mod lines;
mod pages;
mod schemas;

/// A figure by its name, such as `LiveBytes`.
pub type Figures = BTreeMap<String, i64>;

/// What a reader found in a file.
#[derive(Debug, Default)]
pub struct Found {
    /// Sums over all that it shows. Those that it does not show are not here.
    pub figures: Figures,
    /// All that it printed.
    pub text: String,
}

/// A file to read.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The file.
    pub path: PathBuf,
    /// `""`, `"diff"`, `"peak"` or `"threads"`.
    pub variant: String,
    /// What is to be found.
    pub expected: Figures,
    /// Texts that are to be seen.
    pub names: Vec<String>,
}

/// What readers need beside the system's own programs. `None`: it cannot be had here.
pub struct Tools {
    /// A Python with the published messages and schemas.
    pub python: Option<PathBuf>,
    /// Speedscope's released files.
    pub speedscope: Option<PathBuf>,
    /// Chromium.
    pub browser: Option<Browser>,
    /// Where the screenshots of a real program go.
    pub pictures: PathBuf,
}

/// Packages of Python's registry, as they were when the readers were written.
const PYTHON: &[&str] = &["opentelemetry-proto==1.45.2", "perfetto==0.59.1", "protobuf==7.36.2", "jsonschema"];
/// The released viewer, from the registry of node.
const SPEEDSCOPE: &str = "speedscope@1.25.0";

impl Tools {
    /// Brings what can be had.
    pub fn new() -> Result<Tools> {
        let place = place();
        Ok(Tools {
            python: python(&place),
            speedscope: speedscope(&place),
            browser: Browser::start(&place.join("chromium"))?,
            pictures: place.join("pictures"),
        })
    }
}

/// Where all of it lies.
pub fn place() -> PathBuf {
    products().join("viewers")
}

fn python(place: &Path) -> Option<PathBuf> {
    let own = place.join("python");
    let program = own.join("bin/python");
    if !program.is_file() {
        process::run(command("python3").args(["-m", "venv"]).arg(&own)).ok()?.good().ok()?;
    }
    let pip = |words: &[&str]| {
        let mut pip = Command::new(&program);
        process::run(pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]).args(words)).ok()?.good().ok()
    };
    pip(&[&["install"], PYTHON].concat())?;
    Some(program)
}

fn speedscope(place: &Path) -> Option<PathBuf> {
    let own = place.join("node");
    let released = own.join("node_modules/speedscope/dist/release");
    if !released.join("index.html").is_file() {
        fs::create_dir_all(&own).ok()?;
        let words = ["install", "--no-audit", "--no-fund", "--ignore-scripts", SPEEDSCOPE];
        process::run(Command::new("npm").args(words).current_dir(&own)).ok()?.good().ok()?;
    }
    released.join("index.html").is_file().then_some(released)
}

/// A reader of one format.
pub struct Reader {
    /// The format.
    pub format: &'static str,
    /// What it is called.
    pub name: &'static str,
    /// Reads a file; `None` if there is no such reader here.
    pub read: fn(&mut Tools, &Exported) -> Result<Option<Found>>,
}

const fn reader(
    format: &'static str,
    name: &'static str,
    read: fn(&mut Tools, &Exported) -> Result<Option<Found>>,
) -> Reader {
    Reader { format, name, read }
}

/// All readers.
pub const READERS: &[Reader] = &[
    reader("pprof", "go tool pprof -raw", lines::pprof_raw),
    reader("pprof", "go tool pprof -top", lines::pprof_top),
    reader("speedscope", "published schema", schemas::speedscope),
    reader("speedscope", "speedscope in Chromium", pages::speedscope),
    reader("heaptrack", "heaptrack_print", lines::heaptrack_print),
    reader("dhat", "dh_view.html in Chromium", pages::dh_view),
    reader("massif", "ms_print", lines::ms_print),
    reader("folded", "flamegraph.pl", lines::flamegraph),
    reader("difffolded", "flamegraph.pl", lines::flamegraph),
    reader("callgrind", "callgrind_annotate", lines::callgrind_annotate),
    reader("firefox", "types of the format", schemas::firefox),
    reader("perfetto", "published messages", schemas::perfetto),
    reader("otlp", "published messages", schemas::otlp),
];

/// What cannot be had here, and would read some of the files too.
pub const NOT_HERE: &[&str] = &[
    "profiler.firefox.com is a page of its makers' and in no registry: firefox is held against the types of its format",
    "ui.perfetto.dev and trace_processor are in no registry: perfetto is held against the published messages",
    "no viewer of OpenTelemetry's profiles is in a registry: otlp is held against the published messages",
];

/// Files in all formats of names that viewers could trip over, written anew into `into`.
pub fn made(into: &Path) -> Result<Vec<(&'static str, Exported)>> {
    let mut cargo = Command::new(option_env!("CARGO").unwrap_or("cargo"));
    let words = ["test", "--quiet", "--package", "heapledger-export", "--test", "golden", "files_are_those"];
    process::run(cargo.args(words).current_dir(root()).env("HEAPLEDGER_GOLDEN_INTO", into))?.good()?;
    let totals = fs::read_to_string(into.join("totals.txt")).map_err(|error| format!("totals.txt: {error}"))?;
    let total = |line: &str| Some((line.split_once(' ')?.0.to_owned(), line.split_once(' ')?.1.parse().ok()?));
    let totals: Figures = totals.lines().filter_map(total).collect();
    let of = |word: &str| -> Figures {
        totals.iter().filter_map(|(name, value)| Some((name.strip_prefix(word)?.to_owned(), *value))).collect()
    };
    let (plain, old, threads) = (of(""), of("Old"), of("Threads"));
    let grown = plain.iter().map(|(name, value)| (name.clone(), value - old.get(name).copied().unwrap_or(0))).collect();
    let long = format!("long{}end", "x".repeat(10_000));
    let mut all = Vec::new();
    for (format, ending) in ENDINGS {
        for variant in ["", "diff", "peak", "all", "threads"] {
            let word = if variant.is_empty() { String::new() } else { format!(".{variant}") };
            let path = into.join(format!("made{word}.{ending}"));
            let is_own = (*format == "difffolded") == (variant == "diff" && *ending == "folded");
            if !path.is_file() || !is_own {
                continue;
            }
            let (expected, names) = match variant {
                // What has not changed is in no comparison.
                "diff" => (&grown, vec!["main".to_owned()]),
                "threads" => (&threads, vec!["worker".to_owned()]),
                _ => (&plain, vec![long.clone(), "日本語_🦀".to_owned()]),
            };
            all.push((*format, Exported { path, variant: variant.to_owned(), expected: expected.clone(), names }));
        }
    }
    Ok(all)
}

/// How files of the formats end that are not packed.
const ENDINGS: &[(&str, &str)] = &[
    ("pprof", "pb"),
    ("speedscope", "speedscope.json"),
    ("heaptrack", "heaptrack"),
    ("dhat", "dhat.json"),
    ("massif", "massif.out"),
    ("folded", "folded"),
    ("difffolded", "folded"),
    ("callgrind", "callgrind.out"),
    ("firefox", "firefox.json"),
    ("perfetto", "perfetto-trace"),
    ("otlp", "otlp.pb"),
];

/// Files in all formats of a real program, as the command writes them, packed where it packs them.
pub fn real(into: &Path) -> Result<Vec<(&'static str, Exported)>> {
    fs::create_dir_all(into).map_err(|error| format!("{}: {error}", into.display()))?;
    let ledger = into.join("exported.hl");
    // By relative names: what is shown in pictures is the same everywhere.
    fs::copy(root().join("e2e/viewers/exported.cc"), into.join("exported.cc")).map_err(|error| error.to_string())?;
    let mut compiler = command("g++");
    compiler.args(["-g", "-O1", "-pthread", "-o", "exported", "exported.cc"]).current_dir(into);
    process::run(&mut compiler)?.good()?;
    let ours = || {
        let mut ours = command(heapledger());
        ours.current_dir(into).env_remove("DEBUGINFOD_URLS");
        ours
    };
    process::run(ours().args(["run", "--quiet", "--force", "-o"]).arg(&ledger).args(["--", "./exported"]))?.good()?;
    let stats = process::run(ours().args(["stats", "--json"]).arg(&ledger))?.good()?.out();
    let stats: Value = stats
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .find(|line: &Value| line["type"] == "stats")
        .ok_or("no totals")?;
    let figure = |name: &str| stats[name].as_i64().unwrap_or(-1);
    let expected: Figures = [
        ("LiveBytes", "live_bytes"),
        ("LiveBlocks", "live_blocks"),
        ("AllocatedBytes", "bytes_allocated"),
        ("AllocatedBlocks", "allocations"),
        ("FreedBytes", "bytes_freed"),
        ("FreedBlocks", "frees"),
        ("PeakBytes", "peak_bytes"),
        ("PeakBlocks", "peak_blocks"),
    ]
    .into_iter()
    .map(|(name, key)| (name.to_owned(), figure(key)))
    .collect();
    check!(expected.values().all(|value| *value > 0), "figures are missing: {expected:?}");
    let mut all = Vec::new();
    for format in formats()? {
        let variants: &[&str] = match format {
            "difffolded" => &["diff"],
            "dhat" => &["", "peak", "all"],
            "heaptrack" | "folded" | "perfetto" => &["", "peak"],
            _ => &[""],
        };
        for variant in variants {
            let path = into.join(format!("{format}{variant}{}", if format == "heaptrack" { ".zst" } else { "" }));
            let mut export = ours();
            export
                .args(["export", format, "--hide", "^_start$", "--strip-path"])
                .arg(into)
                .arg(&ledger)
                .arg("-o")
                .arg(&path);
            match *variant {
                "peak" => drop(export.args(["--at", "peak"])),
                "all" => drop(export.args(["--by", "allocated"])),
                "diff" => drop(export.arg("--diff").arg(&ledger)),
                _ => {}
            }
            process::run(&mut export)?.good()?;
            let names = vec!["leak".to_owned(), "main".to_owned()];
            all.push((format, Exported { path, variant: (*variant).to_owned(), expected: expected.clone(), names }));
        }
    }
    Ok(all)
}

/// The formats that the command has.
fn formats() -> Result<Vec<&'static str>> {
    let help = process::run(command(heapledger()).args(["export", "--help"]))?.good()?.out();
    let list = help.split_once("\nFormats:\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap_or_default());
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let known = |name: &&str| ENDINGS.iter().find(|(known, _)| known == name).map(|(known, _)| *known);
    let all: Vec<&'static str> = names.iter().filter_map(known).collect();
    check!(all.len() == names.len() && all.len() == ENDINGS.len(), "readers know other formats than {names:?}");
    Ok(all)
}

/// Holds what a reader found against what is to be found.
pub fn judge(exported: &Exported, found: &Found) -> Result {
    check!(!found.figures.is_empty(), "no figure was found");
    for (name, value) in &found.figures {
        // What is known of real programs by other ways is not all that files have.
        let Some(expected) = exported.expected.get(name) else { continue };
        check!(value == expected, "{name} is {value}, and not {expected}");
    }
    for name in &exported.names {
        let shown: String = name.chars().take(20).collect();
        check!(found.text.contains(name.as_str()), "{shown} is not to be seen");
    }
    Ok(())
}

/// A file of a reader's own on what it reads.
fn beside(exported: &Exported, ending: &str) -> Result<PathBuf> {
    let own = place().join("read");
    fs::create_dir_all(&own).map_err(|error| format!("{}: {error}", own.display()))?;
    let name = exported.path.file_name().unwrap_or_default().to_string_lossy();
    Ok(own.join(format!("{name}{ending}")))
}

/// Whether there is a program.
fn is_here(name: &str) -> bool {
    find(&[name]).is_some()
}
