//! What blocks are added up: `--by`, and of which moment: `--at`.

use anyhow::{Result, bail};
use heapledger_analysis::tree::{Measure, SiteSums};

use super::standard::Usage;

/// What is added up.
#[derive(Debug, clap::Args)]
pub(crate) struct FigureArgs {
    /// The figure that is added up
    #[arg(short, long, value_enum, value_name = "FIGURE", default_value_t = By::Bytes)]
    by: By,
    /// Of which moment the live blocks are: the last one, or the one at which most bytes lived
    #[arg(long, value_enum, value_name = "MOMENT", default_value_t = At::End)]
    at: At,
}

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum At {
    /// When the ledger ends; of a running program, now
    End,
    /// When the most bytes lived
    Peak,
}

impl At {
    /// Why a ledger does not tell of the peak; `is_of_all`: of all blocks.
    pub(crate) fn not_known(self, is_of_all: bool) -> anyhow::Error {
        if is_of_all { not_said(Measure::PeakBytes) } else { only_of_all(Measure::PeakBytes).into() }
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Bytes of live blocks
    #[value(alias = "live")]
    Bytes,
    /// Live blocks
    #[value(alias = "live-blocks")]
    Blocks,
    /// Bytes of all blocks, live and freed
    Allocated,
    /// The same in blocks: calls
    #[value(alias = "calls")]
    AllocatedBlocks,
    /// Bytes of freed blocks
    Freed,
    /// The same in blocks
    FreedBlocks,
    /// Bytes of blocks that lived when most bytes did
    Peak,
    /// The same in blocks
    PeakBlocks,
    /// Blocks that were freed by the very next event of the thread that had allocated them
    Temporary,
    /// The same in bytes
    TemporaryBytes,
}

impl FigureArgs {
    /// Whether what is asked for can be shown; `is_added_up`: blocks are.
    ///
    /// # Errors
    /// If not: why.
    pub(crate) fn parse(&self, is_added_up: bool) -> Result<()> {
        if !is_added_up && (self.by != By::Bytes || self.at != At::End) {
            return Err(Usage::new("--by and --at are for blocks that are added up: --group-by fn").into());
        }
        self.measure().map(drop)
    }

    /// The figure.
    ///
    /// # Errors
    /// If it is one of the whole run, and a moment was asked for.
    pub(crate) fn measure(&self) -> Result<Measure> {
        Ok(match (self.by, self.at) {
            (By::Bytes | By::Peak, At::Peak) | (By::Peak, At::End) => Measure::PeakBytes,
            (By::Blocks | By::PeakBlocks, At::Peak) | (By::PeakBlocks, At::End) => Measure::PeakBlocks,
            (By::Bytes, At::End) => Measure::LiveBytes,
            (By::Blocks, At::End) => Measure::LiveBlocks,
            (_, At::Peak) => {
                return Err(Usage::new("--at peak is for --by bytes and --by blocks: what lived then").into());
            }
            (By::Allocated, At::End) => Measure::AllocatedBytes,
            (By::AllocatedBlocks, At::End) => Measure::AllocatedBlocks,
            (By::Freed, At::End) => Measure::FreedBytes,
            (By::FreedBlocks, At::End) => Measure::FreedBlocks,
            (By::Temporary, At::End) => Measure::TemporaryBlocks,
            (By::TemporaryBytes, At::End) => Measure::TemporaryBytes,
        })
    }

    /// Whether the figure is known of a ledger.
    ///
    /// # Errors
    /// If it is not: why.
    pub(crate) fn check(&self, sums: &SiteSums) -> Result<()> {
        let measure = self.measure()?;
        let what = what(measure);
        if measure.needs_sums() && (sums.filter.is_some() || sums.by_thread) {
            return Err(only_of_all(measure).into());
        }
        let is_known = sums.is_whole && (!measure.is_of_peak() || sums.peak_error.is_some());
        if measure.needs_sums() && !is_known {
            return Err(not_said(measure));
        }
        if measure.needs_sums() && !measure.is_of_peak() && sums.sampled.is_some() {
            bail!("a sampled ledger does not say {what}");
        }
        Ok(())
    }
}

/// Why a figure cannot be had of some blocks.
pub(crate) fn only_of_all(measure: Measure) -> Usage {
    Usage::new(format!("{} is known by call site, of all blocks: not with a filter or --threads", what(measure)))
}

/// Why a figure cannot be had of a ledger.
pub(crate) fn not_said(measure: Measure) -> anyhow::Error {
    anyhow::anyhow!("this ledger does not say {}", what(measure))
}

/// What the figure tells.
fn what(measure: Measure) -> &'static str {
    match measure {
        Measure::PeakBytes | Measure::PeakBlocks => "what lived at the peak",
        Measure::TemporaryBytes | Measure::TemporaryBlocks => "which blocks were freed at once",
        _ => "what was allocated and freed in all",
    }
}
