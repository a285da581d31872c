//! In which form a flame graph is written if only its name says that, where it goes, and what it is called.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use heapledger_report::Form;
use heapledger_source::Ledger;

use super::FlameArgs;
use crate::commands::form::Forms;
use crate::commands::target::{Target, free_stem};

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

/// Where it goes: to a file, unless standard output is named, or it is what another program reads.
pub(super) fn target(args: &FlameArgs, form: &Form, ledger: &Ledger) -> Target {
    target_named(args, form, free_stem(&args.ledger, Some(ledger), args.diff.is_some()))
}

/// The same, where the file is called `stem` if nobody named one: `heapledger.jq.4711.html` for `heapledger.jq.4711.hl`, and for
/// process 4711.
pub(super) fn target_named(args: &FlameArgs, form: &Form, stem: String) -> Target {
    match (&args.output, form) {
        (Some(path), _) if path == Path::new("-") => Target::Stdout,
        (Some(path), _) => Target::Named(path.clone()),
        (None, Form::Folded | Form::Json) => Target::Stdout,
        (None, _) => Target::Free(PathBuf::from(format!("{stem}.{}", form.words().0))),
    }
}
