//! `heapledger flame`: a flame graph in one file.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use heapledger_analysis::tree::CallTree;
use heapledger_analysis::{Clock, Identity, Note};
use heapledger_report::{
    FlameFacts, FlameReport, FlameSource, FlameView, Form, Paint, Report, ReportError, clean, limited, sentence,
};
use heapledger_source::Ledger;

use super::form::{Flames, FormArgs};
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
    #[command(flatten)]
    pub(crate) form: FormArgs<Flames>,
    /// What comes first is at the bottom
    #[arg(short, long)]
    pub(crate) upwards: bool,
    /// Write bytes exactly, without units
    #[arg(long)]
    pub(crate) bytes: bool,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
}

/// The form that the name of a file asks for.
fn form_of(path: &Path) -> Option<Form> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    match ending.as_str() {
        "html" | "htm" => Some(Form::Html),
        "svg" => Some(Form::Svg),
        "json" | "jsonl" => Some(Form::Json),
        "folded" | "collapsed" | "txt" => Some(Form::Folded),
        _ => None,
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
    let form = match (args.form.given(), named) {
        (Some(form), _) => form.clone(),
        (None, Some(path)) => form_of(path).with_context(|| {
            format!("{} could be anything: name it .html, .svg, .folded or .json, or give --format", path.display())
        })?,
        (None, None) => Form::Html,
    };
    let names: Vec<&OsStr> =
        [Some(&args.ledger), args.diff.as_ref()].into_iter().flatten().map(|name| &**name).collect();
    let ledgers = names.iter().map(|name| Ledger::open_target(name)).collect::<Result<Vec<_>, _>>()?;
    let target = match (&args.output, &form) {
        (Some(_), _) if named.is_none() => Target::Stdout,
        (Some(path), _) => Target::Named(path.clone()),
        (None, Form::Folded | Form::Json) => Target::Stdout,
        (None, _) => Target::Free(free_name(&args.ledger, &ledgers[0], args.diff.is_some(), &form)),
    };
    if let (Target::Stdout, Form::Html) = (&target, &form)
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
    if let Some(gap) = facts.gap.as_ref().filter(|_| form == Form::Folded && args.shape.by.measure().needs_history()) {
        crate::say(gap);
    }
    let Grown { tree, sums, seen } = grown;
    let whole = tree.nodes.len();
    let (tree, pruned) = match form {
        Form::Folded | Form::Json => (tree, 0.0),
        _ => limited(tree, NODES_MAX),
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
    let view = FlameView { measure: args.shape.by.measure(), inverted: args.shape.inverted, upwards: args.upwards };
    let (tree, facts, sums, seen) = (&tree, &facts, &sums[0], &seen);
    let mut report = FlameReport { tree, facts, view, ledgers: &shown, identity: &identity, sums, seen };
    let mut write = |out: &mut dyn Write| {
        report.write(&form, out).map_err(|error| match error {
            ReportError::Write(error) => error,
            other => io::Error::other(other),
        })
    };
    match target {
        Target::Stdout => Ok(write(&mut BufWriter::new(io::stdout().lock()))?),
        // A device, or a pipe that has a name, is written to; a file is replaced when the new one is complete.
        Target::Named(path) if fs::metadata(&path).is_ok_and(|meta| !meta.is_file()) => {
            let result = File::create(&path).and_then(|file| write(&mut BufWriter::new(file)));
            Ok(result.map_err(|error| unwritten(&path, &error))?)
        }
        Target::Named(path) => {
            let replace = |pending: Pending| pending.place(true, &mut BTreeSet::new());
            place(&path, replace, tree, args.bytes, write)
        }
        Target::Free(path) => {
            let numbered = (0..).map(|number| numbered_before_ending(&path, number));
            place(&path, |pending| pending.place_at_first(numbered), tree, args.bytes, write)
        }
    }
}

/// Writes a file; `put` gives it its name when it is complete.
fn place(
    path: &Path,
    put: impl FnOnce(Pending) -> io::Result<PathBuf>,
    tree: &CallTree,
    exact_bytes: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let placed = || {
        let pending = Pending::new(path.to_owned())?;
        write(&mut BufWriter::new(File::create(pending.temporary())?))?;
        put(pending)
    };
    let path = placed().map_err(|error| unwritten(path, &error))?;
    let size = fs::metadata(&path).map_or(0, |meta| meta.len());
    let size = Paint { exact_bytes, ..Paint::default() }.exact_figures().bytes(size);
    let places = heapledger_report::counted(tree.nodes.len() as u64 - 1, "place", "places");
    crate::say(&format!("{} ({}, {places} in the call tree)", clean(&path.to_string_lossy()), size));
    Ok(())
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
fn free_name(asked: &OsStr, ledger: &Ledger, diff: bool, form: &Form) -> PathBuf {
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
    PathBuf::from(format!("{stem}{diff}.{}", form.words().0))
}
