//! What records stand for in a ledger into which only samples were entered.

use heapledger_format::Entry;
use heapledger_format::sample::SampleRule;
use heapledger_source::Ledger;

/// How blocks were chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// Mean bytes between two samples; 0: every block was entered.
    pub interval_bytes: u64,
    /// What weights are rounded by.
    pub seed: u64,
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
        let SampleRule { interval, seed } = ledger.sample_rule();
        Sampling { interval_bytes: interval, seed }
    }

    /// Whether figures are estimates.
    pub fn is_on(self) -> bool {
        self.interval_bytes != 0
    }

    /// For how many blocks of its size this one stands.
    #[inline]
    pub fn weight(self, entry: &Entry) -> u64 {
        entry.weight(SampleRule { interval: self.interval_bytes, seed: self.seed })
    }

    /// What estimates from `samples` blocks come from; `None` if they are exact.
    pub fn from(self, samples: u64) -> Option<Sampled> {
        self.is_on().then_some(Sampled { interval_bytes: self.interval_bytes, samples })
    }
}
