//! What is said of a program that ran before it was recorded.

use crate::form::units::span;

/// It ran for so many milliseconds.
pub(crate) fn attached(ms: u64) -> String {
    format!(
        "Recorded since attach, {} after the program's start: blocks from before are not in the ledger, nor are their ends.",
        span(ms.saturating_mul(1_000_000))
    )
}
