//! What somebody has excused: files of suppressions.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use heapledger_analysis::Suppressions;

use crate::whole::read_whole;

/// Far more than anybody writes by hand; generated lists have some hundred KiB.
const BYTES_MAX: u64 = 16 << 20;

/// Help of the option, wherever it is.
pub(crate) const SUPPRESS: &str = "A file of what is excused, one leak:PATTERN, error:PATTERN or KIND:PATTERN (such as \
    double-free) per line; may be given several times";

/// The same where nothing but errors is excused.
pub(crate) const SUPPRESS_ERRORS: &str = "A file of errors that are excused, one error:PATTERN or KIND:PATTERN (such as \
    double-free) per line; repeatable";

/// Arguments of commands that know excuses.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct SuppressArgs {
    #[arg(long, value_name = "FILE", help = SUPPRESS)]
    pub(crate) suppress: Vec<PathBuf>,
}

impl SuppressArgs {
    /// What the files say.
    pub(crate) fn get(&self) -> Result<Suppressions> {
        suppressions(&self.suppress)
    }
}

/// What these files say.
pub(crate) fn suppressions(paths: &[PathBuf]) -> Result<Suppressions> {
    let mut text = String::new();
    for path in paths {
        let shown = || path.display().to_string();
        let own = read_whole(path, BYTES_MAX).with_context(shown)?;
        let own = String::from_utf8(own).context("it is no text").with_context(shown)?;
        // Each by itself first, so that an error tells the line of its own file.
        Suppressions::parse(&own).with_context(shown)?;
        text += &own;
        text.push('\n');
    }
    Ok(Suppressions::parse(&text)?)
}
