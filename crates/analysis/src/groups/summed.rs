//! Groups of what call sites have in all: over the whole run, or at the peak.

use heapledger_source::SourceError;

use super::parts::{Looked, Parts};
use super::{GroupOrder, Groups};
use crate::fields::Field;
use crate::query::Evaluator;
use crate::tree::{Measure, SiteSums};
use crate::{Amount, Holders, Told};

impl Groups {
    /// Adds up what call sites have of a figure. `by`: fields that are known of a call site. `names` means all blocks; it is what
    /// finds names. `lifetimes`: and for how long these blocks have lived, if sums know that.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of_sums(
        (sums, measure, lifetimes): (&SiteSums, Measure, bool),
        by: &[Field],
        names: &mut Evaluator<'_>,
        holders: &Holders,
        order: (&GroupOrder, usize),
        progress: &mut dyn FnMut(f32),
    ) -> Result<Groups, SourceError> {
        let told = Told::default();
        let mut parts = Parts::new(Looked::of(by, &told));
        let other = measure.other();
        let (of_bytes, of_blocks) = if measure.is_bytes() { (measure, other) } else { (other, measure) };
        for sum in &sums.sites {
            let (bytes, blocks) = (sum.amounts.get(of_bytes), sum.amounts.get(of_blocks));
            if (bytes, blocks) != (0, 0) {
                parts.put_sum(sum.site, Amount { samples: 0, blocks, bytes });
            }
        }
        let lifetimes = sums.lifetimes.as_ref().filter(|_| lifetimes);
        let groups = Groups::named((parts, lifetimes), by, names, holders, order, progress)?;
        let (sampled, in_flight) = (sums.sampled, sums.in_flight);
        let of_peak = |figure: Option<u64>| figure.filter(|_| measure.is_of_peak());
        let (peak_error, peak_highest) = (of_peak(sums.peak_error), of_peak(sums.peak_highest));
        Ok(Groups { measure: Some(measure), sampled, in_flight, peak_error, peak_highest, ..groups })
    }
}
