//! Where a flame graph goes, and in which form if only its name says that.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use heapledger_analysis::Identity;
use heapledger_analysis::tree::CallTree;
use heapledger_format::session::ending;
use heapledger_launch::output::{Pending, numbered_before_ending, unwritten};
use heapledger_report::{Form, Paint, clean};
use heapledger_source::Ledger;

use crate::commands::form::Forms;

/// Forms of flame graphs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flames;

impl Forms for Flames {
    const ALL: &'static [Form] = &[Form::Html, Form::Svg, Form::Folded, Form::Json];
}

/// The form that was given, else that of the file that was named.
pub(super) fn form_wanted(given: Option<&Form>, named: Option<&Path>) -> Result<Form> {
    match (given, named) {
        (Some(form), _) => Ok(form.clone()),
        (None, Some(path)) => form_of(path).with_context(|| {
            format!("{} could be anything: name it .html, .svg, .folded or .json, or give --format", path.display())
        }),
        (None, None) => Ok(Form::Html),
    }
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
pub(super) enum Target {
    Stdout,
    /// A file that was asked for: it is replaced.
    Named(PathBuf),
    /// A file that we name: none is replaced.
    Free(PathBuf),
}

impl Target {
    /// Has it written there.
    pub(super) fn write(
        self,
        tree: &CallTree,
        exact_bytes: bool,
        mut write: impl FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        match self {
            Target::Stdout => Ok(write(&mut BufWriter::new(io::stdout().lock()))?),
            // A device, or a pipe that has a name, is written to; a file is replaced when the new one is complete.
            Target::Named(path) if fs::metadata(&path).is_ok_and(|meta| !meta.is_file()) => {
                let result = File::create(&path).and_then(|file| write(&mut BufWriter::new(file)));
                Ok(result.map_err(|error| unwritten(&path, &error))?)
            }
            Target::Named(path) => {
                let replace = |pending: Pending| pending.place(true, &mut BTreeSet::new());
                place(&path, replace, tree, exact_bytes, write)
            }
            Target::Free(path) => {
                let numbered = (0..).map(|number| numbered_before_ending(&path, number));
                place(&path, |pending| pending.place_at_first(numbered), tree, exact_bytes, write)
            }
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
        write(&mut BufWriter::new(pending.create()?))?;
        put(pending)
    };
    let path = placed().map_err(|error| unwritten(path, &error))?;
    let size = fs::metadata(&path).map_or(0, |meta| meta.len());
    let size = Paint { exact_bytes, ..Paint::default() }.exact_figures().bytes(size);
    let places = heapledger_report::counted(tree.nodes.len() as u64 - 1, "place", "places");
    crate::say(&format!("{} ({}, {places} in the call tree)", clean(&path.to_string_lossy()), size));
    Ok(())
}

/// `heapledger.jq.4711.html` for `heapledger.jq.4711.hl`, and for process 4711.
pub(super) fn free_name(asked: &OsStr, ledger: &Ledger, diff: bool, form: &Form) -> PathBuf {
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
