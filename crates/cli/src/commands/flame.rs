//! `heapledger flame`: a flame graph in one file.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use heapledger_analysis::Note;
use heapledger_report::{FlameReport, Form, Report, ReportError, clean, counted, limited, sentence};

use super::form::FormArgs;
use super::opening::OpeningArgs;
use super::standard::ExecutableArgs;
use super::tree::{Grown, ShapeArgs};
use super::unless_pipe_closed;

mod facts;
mod made;
mod session;
mod target;

use made::{Flamed, flamed};
use target::{Flames, form_wanted};

/// Nodes of a page or picture. More than these are more than a screen can show, and a page must stay quick.
const NODES_MAX: usize = 200_000;

/// Arguments of `flame`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "heapledger flame [OPTIONS] [EXECUTABLE] <FILE|PID>")]
#[command(after_help = "\
The page is one file that needs nothing from elsewhere: click to zoom, search,
switch between live, allocated, freed, peak and temporary, turn it upside down.
--by, --at, --inverted and --upwards say how it opens. The picture (SVG) is the
same without a script.
`folded` is the stacks in lines, for other tools.

Without -o the file gets the ledger's name, in the working directory, and
replaces none.

Examples:
  heapledger flame heapledger.jq.4711.hl
  heapledger flame --by blocks --inverted -o leak.svg 4711
  heapledger flame --at peak heapledger.jq.4711.hl
  heapledger flame --diff monday.hl tuesday.hl -o grown.html
  heapledger flame --json 4711 | jq 'select(.live_bytes > 1e6).functions'
  heapledger flame --format folded heapledger.jq.4711.hl | sort | head")]
pub(crate) struct FlameArgs {
    /// A ledger, the process id of a program that is being recorded (it is not stopped), a log of a device, or the directory
    /// of a session of several processes
    #[arg(value_name = "FILE|PID")]
    pub(crate) ledger: OsString,
    #[command(flatten)]
    pub(crate) executable: ExecutableArgs,
    /// Compare with this older ledger: what has grown is red, what has shrunk blue
    #[arg(long, value_name = "OLD")]
    pub(crate) diff: Option<OsString>,
    /// Where it goes; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) form: FormArgs<Flames>,
    /// Root at the bottom
    #[arg(short, long)]
    pub(crate) upwards: bool,
    /// Write bytes exactly, without units
    #[arg(long)]
    pub(crate) bytes: bool,
    /// Show functions with all that they are instantiated with and take, not `std::map<…>::operator[]`; beside the pointer
    /// it always stands
    #[arg(long, help_heading = "Names of functions")]
    pub(crate) full_names: bool,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    #[command(flatten)]
    pub(crate) opening: OpeningArgs,
}

/// Writes a flame graph of a ledger.
pub(crate) fn run(mut args: FlameArgs) -> Result<()> {
    args.executable.put_apart(&mut args.ledger, &mut args.shape.naming)?;
    unless_pipe_closed(show(&args))
}

fn show(args: &FlameArgs) -> Result<()> {
    args.shape.filter.parse()?;
    let named = args.output.as_deref().filter(|path| *path != Path::new("-"));
    let form = form_wanted(args.form.given(), named)?;
    if args.output.as_deref() == Some(Path::new("-")) && form == Form::Html && io::stdout().is_terminal() {
        bail!("a page is nothing for a terminal; leave -o away or name a file");
    }
    let measure = args.shape.figure.measure()?;
    // A page has all functions, and a box that shows them.
    let wrappers = args.shape.wrappers || form == Form::Html;
    let names: Vec<&OsStr> =
        [Some(&args.ledger), args.diff.as_ref()].into_iter().flatten().map(|name| &**name).collect();
    let Flamed { target, grown, mut facts, identity } = flamed(args, &names, &form, wrappers)?;
    // Of a core dump: which moment it is of; of a session: which of each process.
    let says_how = |note: &&Note| matches!(note, Note::FoundBy(_) | Note::Family(_));
    for note in grown.seen.notes.iter().filter(says_how) {
        crate::say(&clean(&sentence(note)));
    }
    // Lines for other tools have no room for it.
    if let Some(gap) = facts.gap.as_ref().filter(|_| form == Form::Folded && measure.needs_history()) {
        crate::say(gap);
    }
    let Grown { tree, sums, seen } = grown;
    let whole = tree.nodes.len();
    let (tree, pruned) = match form {
        Form::Folded | Form::Json => (tree, 0.0),
        _ => limited(tree, NODES_MAX),
    };
    if pruned > 0.0 {
        facts.facts.push(format!(
            "The tree had {whole} places; those with no more than {:.4}% of anything count for their callers.",
            pruned * 100.0
        ));
    }
    let shown: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    let view = facts::view(args, measure);
    let (tree, sums, seen) = (&tree, &sums[0], &seen);
    let mut report = FlameReport { tree, facts: &facts, view, ledgers: &shown, identity: &identity, sums, seen };
    let write = |out: &mut dyn Write| {
        report.write(&form, out).map_err(|error| match error {
            ReportError::Write(error) => error,
            other => io::Error::other(other),
        })
    };
    let places = counted(tree.nodes.len() as u64 - 1, "place", "places");
    target.write(&format!("{places} in the call tree"), args.bytes, write)
}
