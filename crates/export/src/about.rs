//! What a file says of the program and of the ledger.

use std::borrow::Cow;

use heapledger_analysis::tree::Measure;
use heapledger_report::clean;

/// Which figures are known beside those of live blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownFigures {
    /// Those of freed blocks, and with them of all that were allocated.
    pub freed: bool,
    /// Those of the peak.
    pub peak: bool,
    /// Those of blocks that were freed at once.
    pub temporary: bool,
    /// For how many events blocks have lived.
    pub lifetimes: bool,
}

impl KnownFigures {
    /// Whether a figure is known.
    pub fn has(self, measure: Measure) -> bool {
        match measure {
            Measure::LiveBytes | Measure::LiveBlocks => true,
            Measure::PeakBytes | Measure::PeakBlocks => self.peak,
            Measure::TemporaryBytes | Measure::TemporaryBlocks => self.temporary,
            _ => self.freed,
        }
    }
}

/// What a file says of the program and of the ledger, as far as its format has a place for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileAbout {
    /// The ledger, and the older one of a comparison, as they were named.
    pub ledgers: Vec<String>,
    /// The program's name.
    pub program: Option<String>,
    /// Its executable.
    pub exe: Option<String>,
    /// What it was called with, its own name first.
    pub args: Vec<String>,
    /// Its process id.
    pub pid: Option<u32>,
    /// The machine.
    pub host: Option<String>,
    /// Labels of the run.
    pub labels: Vec<(String, String)>,
    /// When the ledger began, in nanoseconds since 1970.
    pub start_unix_ns: Option<u64>,
    /// How long was recorded, in nanoseconds.
    pub span_ns: Option<u64>,
    /// When most bytes lived, in nanoseconds since the ledger began.
    pub peak_ns: Option<u64>,
    /// How many events there were: allocations, frees and what stands for both.
    pub events: u64,
    /// How many of these came before most bytes lived.
    pub peak_events: u64,
    /// Mean bytes between two samples; 0: every block was entered.
    pub sample_interval: u64,
    /// Which blocks are meant, in the language of filters; `None` if all are.
    pub filter: Option<String>,
    /// Which figures there are.
    pub known: KnownFigures,
    /// The figure that was asked for.
    pub measure: Measure,
    /// Whether threads are told apart.
    pub by_thread: bool,
    /// What the figures leave out, a sentence each.
    pub notes: Vec<String>,
}

/// Who wrote the file.
pub(crate) const TOOL: &str = concat!("heapledger ", env!("CARGO_PKG_VERSION"));

impl ProfileAbout {
    /// Whether two ledgers are compared.
    pub fn is_comparison(&self) -> bool {
        self.ledgers.len() > 1
    }

    /// The program, in a word.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        clean(self.program.as_deref().unwrap_or("program"))
    }

    /// The command line on one line; the program's name if it is not known.
    pub(crate) fn command(&self) -> String {
        let text = if self.args.is_empty() { self.name().into_owned() } else { self.args.join(" ") };
        clean(&text).into_owned()
    }

    /// What is to be said of the ledger where a format has a place for remarks, a line each.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut lines = vec![format!("{TOOL}: {} of {}", self.ledgers.join(", compared with "), self.command())];
        lines.extend(self.filter.iter().map(|filter| format!("only blocks with {filter}")));
        if self.sample_interval != 0 {
            lines.push(format!("estimates: on average one sample for each {} bytes allocated", self.sample_interval));
        }
        lines.extend(self.labels.iter().map(|(key, value)| format!("label {key}={value}")));
        lines.extend(self.notes.iter().cloned());
        lines.into_iter().map(|line| clean(&line).into_owned()).collect()
    }
}
