//! Why figures cannot be had.

use heapledger_analysis::tree::Measure;

use super::standard::Usage;

/// Why a figure cannot be had of some blocks.
pub(crate) fn only_of_all(measure: Measure) -> Usage {
    Usage::new(format!("{} is known by call site, of all blocks: not with a filter or --threads", what(measure)))
}

/// Why a figure cannot be had of a ledger.
pub(crate) fn not_said(measure: Measure) -> anyhow::Error {
    anyhow::anyhow!("this ledger does not say {}", what(measure))
}

/// What the figure tells.
pub(super) fn what(measure: Measure) -> &'static str {
    match measure {
        Measure::PeakBytes | Measure::PeakBlocks => "what lived at the peak",
        Measure::TemporaryBytes | Measure::TemporaryBlocks => "which blocks were freed at once",
        _ => "what was allocated and freed in all",
    }
}
