//! Blocks and bytes that can be taken from each other.

use heapledger_source::format::Entry;

/// Blocks, their bytes, and how far these may be off if they come from samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amount {
    /// Records.
    pub samples: u64,
    /// Blocks.
    pub blocks: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// The variance of `bytes`, estimated without bias.
    pub(super) variance: f64,
}

impl Amount {
    /// Adds a block.
    #[inline]
    pub fn add(&mut self, entry: &Entry, weight: u64) {
        let size = entry.size.unwrap_or(0);
        self.samples += 1;
        self.blocks = self.blocks.saturating_add(weight);
        self.bytes = self.bytes.saturating_add(size.saturating_mul(weight));
        if weight > 1 {
            let (size, weight) = (size as f64, weight as f64);
            self.variance += size * size * weight * (weight - 1.0);
        }
    }

    /// Adds others.
    pub fn join(&mut self, other: &Amount) {
        self.samples += other.samples;
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.variance += other.variance;
    }

    /// What is left without `part`.
    #[must_use]
    pub fn less(&self, part: &Amount) -> Amount {
        Amount {
            samples: self.samples.saturating_sub(part.samples),
            blocks: self.blocks.saturating_sub(part.blocks),
            bytes: self.bytes.saturating_sub(part.bytes),
            // The sums were made in different orders, so the last bits of what should be nothing may differ.
            variance: if self.samples > part.samples { (self.variance - part.variance).max(0.0) } else { 0.0 },
        }
    }

    /// The standard error of `bytes`; 0 if exact.
    pub fn bytes_error(&self) -> u64 {
        self.variance.sqrt().round() as u64
    }

    /// The standard error of the difference to, or the sum with, other blocks.
    pub fn error_with(&self, other: &Amount) -> u64 {
        (self.variance + other.variance).sqrt().round() as u64
    }
}
