//! What records stand for in a ledger into which only samples were entered.

use heapledger_source::Ledger;
use heapledger_source::format::Entry;

/// How blocks were chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// Mean bytes between two samples; 0: every block was entered.
    pub interval_bytes: u64,
}

/// What the estimates of one report come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Mean bytes between two samples.
    pub interval_bytes: u64,
    /// Blocks of the ledger that were looked at.
    pub samples: u64,
}

impl Sampling {
    /// That of `ledger`.
    pub fn of(ledger: &Ledger) -> Sampling {
        Sampling { interval_bytes: ledger.sample_interval() }
    }

    /// Whether figures are estimates.
    pub fn is_on(self) -> bool {
        self.interval_bytes != 0
    }

    /// For how many blocks of its size this one stands.
    #[inline]
    pub fn weight(self, entry: &Entry) -> u64 {
        entry.weight(self.interval_bytes)
    }

    /// What estimates from `samples` blocks come from; `None` if they are exact.
    pub fn from(self, samples: u64) -> Option<Sampled> {
        self.is_on().then_some(Sampled { interval_bytes: self.interval_bytes, samples })
    }
}

/// Blocks, their bytes, and the samples that these are reckoned from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) samples: u64,
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
}

impl Sum {
    #[inline]
    pub(crate) fn add(&mut self, entry: &Entry, weight: u64) {
        self.samples += 1;
        self.blocks = self.blocks.saturating_add(weight);
        self.bytes = self.bytes.saturating_add(entry.size.unwrap_or(0).saturating_mul(weight));
    }

    pub(crate) fn join(&mut self, other: Sum) {
        self.samples += other.samples;
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// How far such sums may be off: their variances, estimated without bias as `heapledger_format::sample` tells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    blocks: f64,
    bytes: f64,
}

impl Spread {
    #[inline]
    pub(crate) fn add(&mut self, entry: &Entry, weight: u64) {
        if weight > 1 {
            let (size, weight) = (entry.size.unwrap_or(0) as f64, weight as f64);
            self.blocks += weight * (weight - 1.0);
            self.bytes += size * size * weight * (weight - 1.0);
        }
    }

    pub(crate) fn join(&mut self, other: Spread) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }

    /// The standard error of the number of blocks.
    pub(crate) fn blocks_error(&self) -> u64 {
        self.blocks.sqrt().round() as u64
    }

    /// The standard error of the bytes.
    pub(crate) fn bytes_error(&self) -> u64 {
        self.bytes.sqrt().round() as u64
    }
}
