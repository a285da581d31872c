//! `heapledger flame`: a flame graph in one file.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use heapledger_analysis::source::Ledger;
use heapledger_analysis::tree::CallTree;
use heapledger_analysis::{Clock, Identity, Note};
use heapledger_report::{
    FlameFacts, FlameJson, FlameSource, FlameView, Paint, clean, flame_html, flame_json, flame_svg, folded, limited,
    sentence,
};

use super::tree::{Grown, ShapeArgs};
use super::unless_pipe_closed;
use heapledger_format::session::ending;
use heapledger_launch::output::{Pending, numbered_before_ending, unwritten};

/// Nodes of a page or picture. More than these are more than a screen can show, and a page must stay quick.
const NODES_MAX: usize = 200_000;

/// Arguments of `flame`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The page is one file that needs nothing from elsewhere: click to zoom, search,
switch between live, allocated and freed, turn it upside down. --by, --inverted
and --upwards say how it opens. The picture (SVG) is the same without a script.
`folded` is the stacks in lines, for other tools.

Without -o the file gets the ledger's name, in the working directory, and
replaces none.

Examples:
  heapledger flame heapledger.jq.4711.hl
  heapledger flame --by blocks --inverted -o leak.svg 4711
  heapledger flame --diff monday.hl tuesday.hl -o grown.html
  heapledger flame --json 4711 | jq 'select(.live_bytes > 1e6).functions'
  heapledger flame --format folded heapledger.jq.4711.hl | sort | head")]
pub(crate) struct FlameArgs {
    /// A ledger, or the number of a process that is being recorded (it is not stopped)
    #[arg(value_name = "FILE|PID")]
    pub(crate) ledger: OsString,
    /// Compare with this older ledger: what has grown is red, what has shrunk blue
    #[arg(long, value_name = "OLD")]
    pub(crate) diff: Option<OsString>,
    /// Where it goes; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// What is written [default: by the name of the file; else html]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// What comes first is at the bottom
    #[arg(short, long)]
    pub(crate) upwards: bool,
    /// Write bytes exactly, without units
    #[arg(long)]
    pub(crate) bytes: bool,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// A page, to look around in
    Html,
    /// A picture
    Svg,
    /// Stacks, a line each
    Folded,
    /// Stacks with all figures, a JSON object each, as described in docs/json.md
    Json,
}

impl Format {
    fn of(path: &Path) -> Option<Format> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "html" | "htm" => Some(Format::Html),
            "svg" => Some(Format::Svg),
            "json" | "jsonl" => Some(Format::Json),
            "folded" | "collapsed" | "txt" => Some(Format::Folded),
            _ => None,
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Format::Html => "html",
            Format::Svg => "svg",
            Format::Folded => "folded",
            Format::Json => "json",
        }
    }
}

/// Where it goes.
enum Target {
    Stdout,
    /// A file that was asked for: it is replaced.
    Named(PathBuf),
    /// A file that we name: none is replaced.
    Free(PathBuf),
}

/// Writes a flame graph of a ledger.
pub(crate) fn run(args: &FlameArgs) -> Result<()> {
    unless_pipe_closed(show(args))
}

fn show(args: &FlameArgs) -> Result<()> {
    args.shape.filter.parse()?;
    let named = args.output.as_deref().filter(|path| *path != Path::new("-"));
    let format = match (args.format, named) {
        _ if args.json => Format::Json,
        (Some(format), _) => format,
        (None, Some(path)) => Format::of(path).with_context(|| {
            format!("{} could be anything: name it .html, .svg, .folded or .json, or give --format", path.display())
        })?,
        (None, None) => Format::Html,
    };
    let names: Vec<&OsStr> =
        [Some(&args.ledger), args.diff.as_ref()].into_iter().flatten().map(|name| &**name).collect();
    let ledgers = names.iter().map(|name| Ledger::open_target(name)).collect::<Result<Vec<_>, _>>()?;
    let target = match (&args.output, format) {
        (Some(_), _) if named.is_none() => Target::Stdout,
        (Some(path), _) => Target::Named(path.clone()),
        (None, Format::Folded | Format::Json) => Target::Stdout,
        (None, _) => Target::Free(free_name(&args.ledger, &ledgers[0], args.diff.is_some(), format)),
    };
    if let (Target::Stdout, Format::Html) = (&target, format)
        && io::stdout().is_terminal()
    {
        bail!("a page is nothing for a terminal; leave -o away or name a file");
    }
    let grown = args.shape.grow(&ledgers.iter().collect::<Vec<_>>())?;
    let facts = facts(&names, &ledgers, &grown, args.bytes)?;
    // Of a core dump: which moment it is of.
    for note in grown.seen.notes.iter().filter(|note| matches!(note, Note::FoundBy(_))) {
        crate::say(&clean(&sentence(note)));
    }
    // Lines for other tools have no room for it.
    if let Some(gap) =
        facts.gap.as_ref().filter(|_| format == Format::Folded && args.shape.by.measure().needs_history())
    {
        crate::say(gap);
    }
    let Grown { tree, sums, seen } = grown;
    let whole = tree.nodes.len();
    let (tree, pruned) = match format {
        Format::Folded | Format::Json => (tree, 0.0),
        Format::Html | Format::Svg => limited(tree, NODES_MAX),
    };
    let mut facts = facts;
    if pruned > 0.0 {
        facts.facts.push(format!(
            "The tree had {whole} places; those with no more than {:.4}% of anything count for their callers.",
            pruned * 100.0
        ));
    }
    let shown: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    let identity = Identity::of(&ledgers[0]);
    let report = FlameJson { ledgers: &shown, identity: &identity, sums: &sums[0], seen: &seen };
    let write = |out: &mut dyn Write| write(out, args, format, &tree, &facts, &report);
    match target {
        Target::Stdout => Ok(write(&mut BufWriter::new(io::stdout().lock()))?),
        // A device, or a pipe that has a name, is written to; a file is replaced when the new one is complete.
        Target::Named(path) if fs::metadata(&path).is_ok_and(|meta| !meta.is_file()) => {
            let result = File::create(&path).and_then(|file| write(&mut BufWriter::new(file)));
            Ok(result.map_err(|error| unwritten(&path, &error))?)
        }
        Target::Named(path) => place(&path, true, &tree, args.bytes, write),
        Target::Free(path) => place(&path, false, &tree, args.bytes, write),
    }
}

/// Writes a file and gives it its name when it is complete.
fn place(
    path: &Path,
    force: bool,
    tree: &CallTree,
    exact_bytes: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let placed = || {
        let pending = Pending::new(path.to_owned())?;
        write(&mut BufWriter::new(File::create(pending.temporary())?))?;
        if force {
            pending.place(true, &mut BTreeSet::new())
        } else {
            pending.place_at_first((0..).map(|number| numbered_before_ending(path, number)))
        }
    };
    let path = placed().map_err(|error| unwritten(path, &error))?;
    let size = fs::metadata(&path).map_or(0, |meta| meta.len());
    let size = Paint { exact_bytes, ..Paint::default() }.figures(false).bytes(size);
    let places = heapledger_report::counted(tree.nodes.len() as u64 - 1, "place", "places");
    crate::say(&format!("{} ({}, {places} in the call tree)", clean(&path.to_string_lossy()), size));
    Ok(())
}

fn write(
    out: &mut dyn Write,
    args: &FlameArgs,
    format: Format,
    tree: &CallTree,
    facts: &FlameFacts,
    report: &FlameJson<'_>,
) -> io::Result<()> {
    let shape = &args.shape;
    let view = FlameView { measure: shape.by.measure(), inverted: shape.inverted, upwards: args.upwards };
    match format {
        Format::Html => flame_html(out, tree, facts, view),
        Format::Svg => flame_svg(out, tree, facts, view),
        Format::Json if shape.inverted => flame_json(out, &tree.inverted(|_| false), report),
        Format::Json => flame_json(out, tree, report),
        Format::Folded if shape.inverted => folded(out, &tree.inverted(|_| false), view.measure, args.diff.is_some()),
        Format::Folded => folded(out, tree, view.measure, args.diff.is_some()),
    }
}

fn facts(names: &[&OsStr], ledgers: &[Ledger], grown: &Grown, exact_bytes: bool) -> Result<FlameFacts> {
    let mut sources = Vec::new();
    let short = |name: &&OsStr| {
        let file = Path::new(name).file_name().unwrap_or(name);
        file.to_string_lossy().into_owned()
    };
    let mut shown: Vec<String> = names.iter().map(short).collect();
    // Two of one name in two directories.
    if shown.iter().collect::<BTreeSet<_>>().len() < shown.len() {
        shown = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    }
    let identities: Vec<Identity> = ledgers.iter().map(Identity::of).collect();
    for (((name, ledger), identity), sums) in shown.iter().zip(ledgers).zip(&identities).zip(&grown.sums) {
        let clock = Clock::new(ledger, SystemTime::now())?;
        sources.push(FlameSource { ledger: name, identity, clock, sums });
    }
    Ok(FlameFacts::of(&sources, &grown.seen, exact_bytes))
}

/// `heapledger.jq.4711.html` for `heapledger.jq.4711.hl`, and for process 4711.
fn free_name(asked: &OsStr, ledger: &Ledger, diff: bool, format: Format) -> PathBuf {
    let own = Path::new(asked);
    let stem = if own.is_file() {
        let name = own.file_name().unwrap_or(asked).to_string_lossy().into_owned();
        name.strip_suffix(ending::FINISHED).or(name.strip_suffix(ending::LIVE)).unwrap_or(&name).to_owned()
    } else {
        let identity = Identity::of(ledger);
        let program = identity.program.unwrap_or_else(|| "program".to_owned()).replace('/', "_");
        format!("heapledger.{program}.{}", asked.to_string_lossy())
    };
    let diff = if diff { ".diff" } else { "" };
    PathBuf::from(format!("{stem}{diff}.{}", format.ending()))
}
