//! The one list of formats. Command, help, documentation and tests follow it.

use std::io::{self, Write};

use heapledger_analysis::tree::Measure;

use crate::columns::has_column;
use crate::profile::Profile;
use crate::{Compression, callgrind, dhat, firefox, folded, heaptrack, massif, otlp, perfetto, pprof, speedscope};

/// Whether a format can hold the comparison of two ledgers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It cannot.
    Never,
    /// It can.
    Possible,
    /// It holds nothing else.
    Always,
}

/// A format.
#[derive(Clone, Copy, Debug)]
pub struct ExportFormat {
    /// What it is asked for by.
    pub name: &'static str,
    /// What it is, and who shows it, in a line.
    pub about: &'static str,
    /// How names of its files end.
    pub ending: &'static str,
    /// How its files are always packed; `None` if the name decides.
    pub packed: Option<Compression>,
    /// Whether two ledgers can be compared in it.
    pub comparison: Comparison,
    /// Whether the sizes of the live blocks are needed.
    pub needs_sizes: bool,
    /// What it has no place for, a half sentence.
    pub untold: &'static str,
    /// Whether it can show a figure first, or hold it if it holds only one.
    pub(crate) holds: fn(Measure) -> bool,
    /// What is to be said of the file that a profile becomes.
    pub(crate) remarks: fn(&Profile) -> Vec<String>,
    /// Writes it.
    pub(crate) write: fn(&Profile, &mut dyn Write) -> io::Result<()>,
}

/// All formats, those first that are asked for most.
pub static FORMATS: &[ExportFormat] = &[
    pprof::FORMAT,
    speedscope::FORMAT,
    heaptrack::FORMAT,
    dhat::FORMAT,
    massif::FORMAT,
    folded::FORMAT,
    folded::COMPARED,
    callgrind::FORMAT,
    firefox::FORMAT,
    perfetto::FORMAT,
    otlp::FORMAT,
];

/// The format of a name.
pub fn format_named(name: &str) -> Option<&'static ExportFormat> {
    FORMATS.iter().find(|format| format.name == name)
}

impl ExportFormat {
    /// Whether it can show `measure` first, or hold it if it holds only one figure.
    pub fn holds(&self, measure: Measure) -> bool {
        (self.holds)(measure)
    }

    /// What is to be said of the file that `profile` becomes: what is an estimate, or left out.
    pub fn remarks(&self, profile: &Profile) -> Vec<String> {
        (self.remarks)(profile)
    }

    /// Writes `profile`, not packed.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
        (self.write)(profile, out)
    }
}

/// Figures that stand beside each other: see [`crate::columns`].
pub(crate) fn any_column(measure: Measure) -> bool {
    has_column(measure)
}

/// All figures.
pub(crate) fn any(_: Measure) -> bool {
    true
}

/// Nothing is to be said.
pub(crate) fn no_remarks(_: &Profile) -> Vec<String> {
    Vec::new()
}
