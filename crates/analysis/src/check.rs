//! Limits, and whether a program kept them.

use std::collections::HashMap;

use crate::{FreesHeld, NamedStack, SiteTotals};
use heapledger_format::Site;

mod evidence;
mod parts;
mod range;
mod together;

use evidence::without_stack;
use range::Range;

pub use evidence::Evidence;
pub use parts::{MatchingBlocks, allocated_by_site, grown, peak_by_site};
pub use range::{Doubt, Verdict};
pub use together::{CheckedProgram, PeakTogether, together};

/// What has a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Bytes of the blocks that live.
    Live,
    /// The blocks that live.
    LiveBlocks,
    /// Bytes of the blocks that lived when the program had ended, without those that are excused.
    Leaked,
    /// The highest that bytes of live blocks were.
    Peak,
    /// Blocks that were allocated.
    Allocations,
    /// Bytes that were allocated.
    Allocated,
    /// By how much bytes of live blocks are more than in the baseline.
    LiveGrowth,
    /// By how much the peak is higher than in the baseline.
    PeakGrowth,
    /// Errors that were found: what was done to blocks, and not calls that gave none.
    Errors,
}

impl Figure {
    /// All of them, in the order of reports.
    pub const ALL: [Figure; 9] = [
        Figure::Live,
        Figure::LiveBlocks,
        Figure::Leaked,
        Figure::Peak,
        Figure::Allocations,
        Figure::Allocated,
        Figure::LiveGrowth,
        Figure::PeakGrowth,
        Figure::Errors,
    ];

    /// Whether it counts bytes, not blocks or errors.
    pub fn is_bytes(self) -> bool {
        !matches!(self, Figure::LiveBlocks | Figure::Allocations | Figure::Errors)
    }

    /// Whether it is of blocks that live now, or did at the end.
    pub fn is_of_live_blocks(self) -> bool {
        matches!(self, Figure::Live | Figure::LiveBlocks)
    }

    /// Whether it is a comparison with a baseline.
    pub fn is_growth(self) -> bool {
        matches!(self, Figure::LiveGrowth | Figure::PeakGrowth)
    }
}

/// How much more than a baseline is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Growth {
    /// So many bytes.
    Bytes(u64),
    /// So many hundredths of what the baseline has.
    Percent(f64),
}

/// The limits, as far as there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Of [`Figure::Live`].
    pub live: Option<u64>,
    /// Of [`Figure::LiveBlocks`].
    pub live_blocks: Option<u64>,
    /// Of [`Figure::Leaked`]. 0: not one block, however small.
    pub leaked: Option<u64>,
    /// Of [`Figure::Peak`].
    pub peak: Option<u64>,
    /// Of [`Figure::Allocations`].
    pub allocations: Option<u64>,
    /// Of [`Figure::Allocated`].
    pub allocated: Option<u64>,
    /// Of [`Figure::LiveGrowth`] and [`Figure::PeakGrowth`].
    pub growth: Option<Growth>,
    /// Of [`Figure::Errors`].
    pub errors: Option<u64>,
}

/// A stack that has part in a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Responsible {
    /// Its blocks and bytes. For a growth, by how much they are more than in the baseline.
    pub totals: SiteTotals,
    /// Its frames.
    pub stack: NamedStack,
    /// How many stacks these are that differ in nothing that a line shows; `stack` is the one with most part in it.
    pub stacks: u64,
}

impl Responsible {
    /// Another stack that comes to the same line.
    pub fn add(&mut self, totals: &SiteTotals) {
        self.totals.samples = self.totals.samples.saturating_add(totals.samples);
        self.totals.blocks = self.totals.blocks.saturating_add(totals.blocks);
        self.totals.bytes = self.totals.bytes.saturating_add(totals.bytes);
        self.stacks += 1;
    }
}

/// The part that one of several processes has in a figure of all together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessShare {
    /// What the process is called.
    pub process: String,
    /// The figure of the process alone.
    pub found: u64,
    /// For bytes of blocks: how many blocks.
    pub blocks: Option<u64>,
}

/// One limit, and what was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What has the limit.
    pub figure: Figure,
    /// The limit; of a growth, the most that the figure itself may be.
    pub limit: u64,
    /// What it is.
    pub found: u64,
    /// The least that it may be.
    pub least: u64,
    /// The most that it may be; `None` if nobody knows.
    pub most: Option<u64>,
    /// What it is in the baseline.
    pub before: Option<u64>,
    /// For bytes of blocks: how many blocks.
    pub blocks: Option<u64>,
    /// Whether the limit holds.
    pub verdict: Verdict,
    /// If that is not known: why not.
    pub doubts: Vec<Doubt>,
    /// Whatever makes the figure other than it is, also where that does not matter.
    pub reasons: Vec<Doubt>,
    /// The stacks with the greatest part in it, greatest first; empty if it holds, or if none is known.
    pub responsible: Vec<Responsible>,
    /// Of several processes together: those with the greatest part in it, greatest first. The stacks are the first one's.
    pub processes: Vec<ProcessShare>,
    /// Of which frees these are, if they are of freed blocks too.
    pub of_frees: Option<FreesHeld>,
    /// Whether those responsible are so for what lived at the peak, and not for what lives now.
    pub at_peak: bool,
}

impl Finding {
    fn of(figure: Figure, limit: u64, range: &Range, blocks: Option<u64>) -> Finding {
        let (verdict, doubts) = range.verdict(limit);
        Finding {
            figure,
            limit,
            found: range.found,
            least: range.least(),
            most: range.most(),
            before: None,
            blocks,
            verdict,
            doubts,
            reasons: range.reasons(),
            responsible: Vec::new(),
            processes: Vec::new(),
            of_frees: None,
            at_peak: false,
        }
    }
}

impl Finding {
    /// The same of a process that became another program: what lived then went with its memory, and nothing of it lives.
    #[must_use]
    pub fn after_exec(self) -> Finding {
        if !self.figure.is_of_live_blocks() {
            return self;
        }
        let (doubts, reasons, blocks) = (Vec::new(), Vec::new(), self.blocks.map(|_| 0));
        Finding { found: 0, least: 0, most: Some(0), blocks, verdict: Verdict::Holds, doubts, reasons, ..self }
    }
}

/// What is held against a program of the blocks that it did not free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaked {
    /// Stacks that are not excused, most bytes first.
    pub sites: Vec<SiteTotals>,
    /// Their blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is excused: by which pattern, blocks, bytes.
    pub excused: Vec<(String, u64, u64)>,
    /// Blocks and bytes that count and might be excused, if it were known who allocated them.
    pub without_stack: (u64, u64),
}

impl Leaked {
    /// Takes those of the live blocks apart that `excuse` names a reason for; without one, nothing is excused.
    pub fn of(evidence: &Evidence, excuse: Option<&mut dyn FnMut(Site) -> Option<String>>) -> Leaked {
        let ((blocks, bytes), sites) = (evidence.live(), evidence.sites());
        let mut leaked = Leaked { blocks, bytes, ..Leaked::default() };
        let Some(excuse) = excuse else {
            leaked.sites = sites.to_vec();
            return leaked;
        };
        leaked.without_stack = without_stack(blocks, bytes, sites);
        let mut excused: HashMap<String, (u64, u64)> = HashMap::new();
        for site in sites {
            let Some(reason) = excuse(site.site) else {
                leaked.sites.push(*site);
                continue;
            };
            let (blocks, bytes) = excused.entry(reason).or_default();
            *blocks += site.blocks;
            *bytes += site.bytes;
            leaked.blocks = leaked.blocks.saturating_sub(site.blocks);
            leaked.bytes = leaked.bytes.saturating_sub(site.bytes);
        }
        leaked.excused = excused.into_iter().map(|(reason, (blocks, bytes))| (reason, blocks, bytes)).collect();
        leaked.excused.sort_by(|a, b| (b.2, &a.0).cmp(&(a.2, &b.0)));
        leaked
    }
}

/// Holds the figures against the limits. `leaked` must be there if it has a limit, `baseline` if growth has.
pub fn check(
    evidence: &Evidence,
    limits: &Limits,
    leaked: Option<&Leaked>,
    baseline: Option<&Evidence>,
) -> Vec<Finding> {
    let (summary, (live_blocks, _)) = (&evidence.summary, evidence.live());
    let of = |figure, limit: Option<u64>, blocks| {
        limit.map(|limit| Finding::of(figure, limit, &evidence.range(figure), blocks))
    };
    let mut findings = Vec::new();
    findings.extend(of(Figure::Live, limits.live, Some(live_blocks)));
    findings.extend(of(Figure::LiveBlocks, limits.live_blocks, None));
    if let (Some(leaked), Some(limit)) = (leaked, limits.leaked) {
        let mut finding =
            Finding::of(Figure::Leaked, limit, &evidence.range_of_leaked(leaked, Figure::Live), Some(leaked.blocks));
        if limit == 0 {
            // One block is one block, however many it stands for and however small it is.
            (finding.verdict, finding.doubts) = evidence.range_of_leaked(leaked, Figure::LiveBlocks).verdict(0);
        }
        findings.push(finding);
    }
    findings.extend(of(Figure::Peak, limits.peak, Some(summary.peak.blocks)));
    findings.extend(of(Figure::Allocations, limits.allocations, None));
    findings.extend(of(Figure::Allocated, limits.allocated, Some(summary.allocations)));
    if let (Some(baseline), Some(growth)) = (baseline, limits.growth) {
        for figure in [Figure::LiveGrowth, Figure::PeakGrowth] {
            let (before, now) = (baseline.range(figure), evidence.range(figure));
            let (more, times) = match growth {
                Growth::Bytes(bytes) => (bytes, 1.0),
                Growth::Percent(percent) => ((before.found as f64 * percent / 100.0) as u64, 1.0 + percent / 100.0),
            };
            let (limit, before_bytes) = (before.found.saturating_add(more), before.found);
            let mut finding = Finding::of(figure, limit, &now.against(&before, times), None);
            finding.before = Some(before_bytes);
            findings.push(finding);
        }
    }
    findings.extend(of(Figure::Errors, limits.errors, None));
    findings
}
