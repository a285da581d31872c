//! Where a file goes that a command writes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use heapledger_analysis::Identity;
use heapledger_format::session::ending;
use heapledger_launch::output::{Pending, numbered_before_ending, unwritten};
use heapledger_report::{Paint, clean};
use heapledger_source::Ledger;

use crate::terminal::stdout;

/// Where it goes.
pub(super) enum Target {
    Stdout,
    /// A file that was asked for: it is replaced.
    Named(PathBuf),
    /// A file that we name: none is replaced.
    Free(PathBuf),
}

impl Target {
    /// Has it written there. Of a file its name, its size and `what` is in it are said.
    pub(super) fn write(
        self,
        what: &str,
        exact_bytes: bool,
        mut write: impl FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        match self {
            Target::Stdout => Ok(write(&mut BufWriter::new(stdout()))?),
            // A device, or a pipe that has a name, is written to; a file is replaced when the new one is complete.
            Target::Named(path) if fs::metadata(&path).is_ok_and(|meta| !meta.is_file()) => {
                let result = File::create(&path).and_then(|file| write(&mut BufWriter::new(file)));
                Ok(result.map_err(|error| unwritten(&path, &error))?)
            }
            Target::Named(path) => {
                let replace = |pending: Pending| pending.place(true, &mut BTreeSet::new());
                place(&path, replace, what, exact_bytes, write)
            }
            Target::Free(path) => {
                let numbered = (0..).map(|number| numbered_before_ending(&path, number));
                place(&path, |pending| pending.place_at_first(numbered), what, exact_bytes, write)
            }
        }
    }
}

/// Writes a file; `put` gives it its name when it is complete.
fn place(
    path: &Path,
    put: impl FnOnce(Pending) -> io::Result<PathBuf>,
    what: &str,
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
    crate::say(&format!("{} ({}, {what})", clean(&path.to_string_lossy()), size));
    Ok(())
}

/// `heapledger.jq.4711` for `heapledger.jq.4711.hl`, and for process 4711; the last part of its path for a session, which has no one
/// ledger; `.diff` behind it for a comparison.
pub(super) fn free_stem(asked: &OsStr, ledger: Option<&Ledger>, diff: bool) -> String {
    let own = Path::new(asked);
    let stem = if own.is_file() || ledger.is_none() {
        let name = own.file_name().unwrap_or(OsStr::new("session")).to_string_lossy().into_owned();
        name.strip_suffix(ending::FINISHED).or(name.strip_suffix(ending::LIVE)).unwrap_or(&name).to_owned()
    } else {
        let program = ledger.and_then(|ledger| Identity::of(ledger).program);
        let program = program.unwrap_or_else(|| "program".to_owned()).replace('/', "_");
        format!("heapledger.{program}.{}", asked.to_string_lossy())
    };
    if diff { format!("{stem}.diff") } else { stem }
}
