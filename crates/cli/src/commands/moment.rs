//! Of which moment figures are: `--at`.

use anyhow::Result;
use heapledger_analysis::tree::Measure;
use heapledger_source::Family;

use super::not_said::{not_said, only_of_all};
use super::sessions::SessionPeak;
use super::standard::Usage;

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

/// A moment of which blocks are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FigureAt {
    /// When the ledger ends; of a running program, now
    End,
    /// When the most bytes lived; of a session, of each process its own
    Peak,
    /// Of a session: when all its processes together had the most that `run` saw
    SessionPeak,
}

impl FigureAt {
    /// Whether what is asked for is of one ledger.
    ///
    /// # Errors
    /// If it is of the moment at which a session had most.
    pub(crate) fn of_one_process(self) -> Result<()> {
        if self == FigureAt::SessionPeak {
            return Err(Usage::new(
                "--at session-peak is of a session of several processes; of one process: --at peak",
            )
            .into());
        }
        Ok(())
    }

    /// The moment at which `family` had most, if it is asked for that.
    ///
    /// # Errors
    /// If nobody looked at all of its processes.
    pub(crate) fn session_peak(self, family: &Family) -> Result<Option<SessionPeak>> {
        (self == FigureAt::SessionPeak).then(|| SessionPeak::of(family)).transpose()
    }
}
