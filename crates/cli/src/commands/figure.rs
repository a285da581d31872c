//! What blocks are added up: `--by`, and of which moment: `--at`.

use anyhow::{Result, bail};
use heapledger_analysis::tree::{Measure, SiteSums};

use super::not_said::{not_said, only_of_all, what};
use super::sessions::FigureAt;
use super::standard::Usage;

/// What is added up.
#[derive(Debug, clap::Args)]
pub(crate) struct FigureArgs {
    /// The figure that is added up
    #[arg(short, long, value_enum, value_name = "FIGURE", default_value_t = By::Bytes)]
    by: By,
    /// Of which moment the live blocks are: the last one, or the one at which most bytes lived
    #[arg(long, value_enum, value_name = "MOMENT", default_value_t = FigureAt::End)]
    pub(crate) at: FigureAt,
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
    /// Freed blocks, with how long they lived: of dump only
    #[value(alias = "lifetimes")]
    Lifetime,
}

impl FigureArgs {
    /// Whether what is asked for can be shown; `is_added_up`: blocks are.
    ///
    /// # Errors
    /// If not: why.
    pub(crate) fn parse(&self, is_added_up: bool) -> Result<()> {
        if !is_added_up && (self.by != By::Bytes || self.at != FigureAt::End) {
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
            (By::Bytes | By::Peak, FigureAt::Peak) | (By::Peak, FigureAt::End) => Measure::PeakBytes,
            (By::Blocks | By::PeakBlocks, FigureAt::Peak) | (By::PeakBlocks, FigureAt::End) => Measure::PeakBlocks,
            (By::Bytes, FigureAt::End | FigureAt::SessionPeak) => Measure::LiveBytes,
            (By::Blocks, FigureAt::End | FigureAt::SessionPeak) => Measure::LiveBlocks,
            (_, FigureAt::Peak) => {
                return Err(Usage::new("--at peak is for --by bytes and --by blocks: what lived then").into());
            }
            (_, FigureAt::SessionPeak) => {
                return Err(Usage::new("--at session-peak is for --by bytes and --by blocks: what lived then").into());
            }
            (By::Allocated, FigureAt::End) => Measure::AllocatedBytes,
            (By::AllocatedBlocks, FigureAt::End) => Measure::AllocatedBlocks,
            (By::Freed, FigureAt::End) => Measure::FreedBytes,
            (By::FreedBlocks | By::Lifetime, FigureAt::End) => Measure::FreedBlocks,
            (By::Temporary, FigureAt::End) => Measure::TemporaryBlocks,
            (By::TemporaryBytes, FigureAt::End) => Measure::TemporaryBytes,
        })
    }

    /// Whether it is asked for how long freed blocks have lived.
    pub(crate) fn lifetimes(&self) -> bool {
        self.by == By::Lifetime
    }

    /// The figure, where one is shown by itself.
    ///
    /// # Errors
    /// As [`FigureArgs::measure`], and if it is asked for lifetimes.
    pub(crate) fn single(&self) -> Result<Measure> {
        match self.lifetimes() {
            true => Err(Usage::new("--by lifetime is for dump --group-by fn: several figures of each").into()),
            false => self.measure(),
        }
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
        if self.lifetimes() && sums.lifetimes.is_none() {
            let which = if sums.sampled.is_some() { "a sampled" } else { "this" };
            bail!("{which} ledger does not say for how long blocks lived");
        }
        Ok(())
    }
}
