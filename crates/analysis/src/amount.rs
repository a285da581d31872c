//! Blocks and their bytes, added up: [`Amount`], and with what it may be off by if it comes from samples, [`Estimate`].

use std::ops::Deref;

use heapledger_format::Entry;

/// Blocks and their bytes. In a sampled ledger: what its records stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Records.
    pub samples: u64,
    /// Blocks.
    pub blocks: u64,
    /// Bytes asked for.
    pub bytes: u64,
}

impl Amount {
    /// Adds a block that stands for `weight` of its size.
    #[inline]
    pub fn add(&mut self, entry: &Entry, weight: u64) {
        self.samples += 1;
        self.blocks = self.blocks.saturating_add(weight);
        self.bytes = self.bytes.saturating_add(entry.size.unwrap_or(0).saturating_mul(weight));
    }

    /// Adds others.
    pub fn join(&mut self, other: Amount) {
        self.samples += other.samples;
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// What is left without `part`.
    #[must_use]
    pub fn less(&self, part: Amount) -> Amount {
        Amount {
            samples: self.samples.saturating_sub(part.samples),
            blocks: self.blocks.saturating_sub(part.blocks),
            bytes: self.bytes.saturating_sub(part.bytes),
        }
    }
}

/// An amount, and how far it may be off: the variances of its figures, estimated without bias as
/// `heapledger_format::sample` tells.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    amount: Amount,
    blocks_variance: f64,
    bytes_variance: f64,
}

impl Deref for Estimate {
    type Target = Amount;

    fn deref(&self) -> &Amount {
        &self.amount
    }
}

/// One that is exact.
impl From<Amount> for Estimate {
    fn from(amount: Amount) -> Estimate {
        Estimate { amount, ..Estimate::default() }
    }
}

impl Estimate {
    /// Adds a block that stands for `weight` of its size.
    #[inline]
    pub fn add(&mut self, entry: &Entry, weight: u64) {
        self.amount.add(entry, weight);
        if weight > 1 {
            let (size, weight) = (entry.size.unwrap_or(0) as f64, weight as f64);
            self.blocks_variance += weight * (weight - 1.0);
            self.bytes_variance += size * size * weight * (weight - 1.0);
        }
    }

    /// Adds others.
    pub fn join(&mut self, other: &Estimate) {
        self.amount.join(other.amount);
        self.blocks_variance += other.blocks_variance;
        self.bytes_variance += other.bytes_variance;
    }

    /// What is left without `part`.
    #[must_use]
    pub fn less(&self, part: &Estimate) -> Estimate {
        // The sums were made in different orders, so the last bits of what should be nothing may differ.
        let is_left = self.samples > part.samples;
        let left = |all: f64, part: f64| if is_left { (all - part).max(0.0) } else { 0.0 };
        Estimate {
            amount: self.amount.less(part.amount),
            blocks_variance: left(self.blocks_variance, part.blocks_variance),
            bytes_variance: left(self.bytes_variance, part.bytes_variance),
        }
    }

    /// The standard error of the blocks; 0 if exact.
    pub fn blocks_error(&self) -> u64 {
        rounded(self.blocks_variance)
    }

    /// The standard error of the bytes; 0 if exact.
    pub fn bytes_error(&self) -> u64 {
        rounded(self.bytes_variance)
    }

    /// The standard error of the bytes' difference to, or sum with, those of other blocks.
    pub fn error_with(&self, other: &Estimate) -> u64 {
        rounded(self.bytes_variance + other.bytes_variance)
    }
}

fn rounded(variance: f64) -> u64 {
    variance.sqrt().round() as u64
}

/// The sum at `index`, made if it is not there.
#[inline]
pub(crate) fn at<S: Copy + Default>(sums: &mut Vec<S>, index: usize) -> &mut S {
    if index >= sums.len() {
        sums.resize((index + 1).max(sums.len() * 2), S::default());
    }
    &mut sums[index]
}

/// Adds sums to those at the same index.
pub(crate) fn join_all<S>(own: &mut Vec<S>, mut other: Vec<S>, join: impl Fn(&mut S, &S)) {
    if other.len() > own.len() {
        std::mem::swap(own, &mut other);
    }
    own.iter_mut().zip(&other).for_each(|(own, other)| join(own, other));
}
