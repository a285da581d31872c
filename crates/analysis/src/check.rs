//! Limits, and whether a program kept them.

use std::collections::HashMap;

use heapledger_source::format::{Entry, TallyCounter};
use heapledger_source::{Ledger, SourceError};

use crate::query::Evaluator;
use crate::sampling::{Sampling, Spread, Sum};
use crate::{NamedStack, Note, Sampled, SiteTotals, Summary};

/// Standard errors by which an estimate must be beyond a limit to be held against a program.
const ERRORS: f64 = 2.0;

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
}

impl Figure {
    /// All of them, in the order of reports.
    pub const ALL: [Figure; 8] = [
        Figure::Live,
        Figure::LiveBlocks,
        Figure::Leaked,
        Figure::Peak,
        Figure::Allocations,
        Figure::Allocated,
        Figure::LiveGrowth,
        Figure::PeakGrowth,
    ];

    /// Whether it counts bytes, not blocks.
    pub fn is_bytes(self) -> bool {
        !matches!(self, Figure::LiveBlocks | Figure::Allocations)
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
}

/// Whether a limit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Holds,
    /// The figure is above the limit, but by less than it may be off.
    Uncertain,
    /// It does not.
    Exceeded,
}

/// A stack that has part in a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Responsible {
    /// Its blocks and bytes. For a growth, by how much they are more than in the baseline.
    pub totals: SiteTotals,
    /// Its frames.
    pub stack: NamedStack,
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
    /// By how much it may be off.
    pub margin: u64,
    /// What it is in the baseline.
    pub before: Option<u64>,
    /// For bytes of blocks: how many blocks.
    pub blocks: Option<u64>,
    /// Whether the limit holds.
    pub verdict: Verdict,
    /// The stacks with the greatest part in it, greatest first; empty if it holds, or if none is known.
    pub responsible: Vec<Responsible>,
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
}

impl Leaked {
    /// Takes those of `sites` apart that `excuse` names a reason for. `others` are blocks without a stack.
    pub fn of(summary: &Summary, sites: &[SiteTotals], mut excuse: impl FnMut(u32) -> Option<String>) -> Leaked {
        let mut leaked = Leaked { blocks: summary.live_blocks, bytes: summary.live_bytes, ..Leaked::default() };
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
pub fn check(summary: &Summary, limits: &Limits, leaked: Option<&Leaked>, baseline: Option<&Summary>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let peak_margin = |summary: &Summary| summary.peak.error_bytes.max(bytes_margin(summary, summary.peak.bytes));
    let mut add = |figure, limit: Option<u64>, found, margin, blocks| {
        if let Some(limit) = limit {
            let verdict = verdict(found, limit, margin);
            let responsible = Vec::new();
            findings.push(Finding { figure, limit, found, margin, before: None, blocks, verdict, responsible });
        }
    };
    let live_margin = errors(summary.live_bytes_error);
    add(Figure::Live, limits.live, summary.live_bytes, live_margin, Some(summary.live_blocks));
    add(Figure::LiveBlocks, limits.live_blocks, summary.live_blocks, errors(summary.live_blocks_error), None);
    if let Some(leaked) = leaked {
        add(Figure::Leaked, limits.leaked, leaked.bytes, live_margin, Some(leaked.blocks));
    }
    add(Figure::Peak, limits.peak, summary.peak.bytes, peak_margin(summary), Some(summary.peak.blocks));
    add(Figure::Allocations, limits.allocations, summary.allocations, allocations_margin(summary), None);
    let allocated = summary.bytes_allocated;
    add(Figure::Allocated, limits.allocated, allocated, bytes_margin(summary, allocated), Some(summary.allocations));
    // One block is one block, however many it stands for and however small it is.
    for finding in findings.iter_mut().filter(|finding| finding.figure == Figure::Leaked && finding.limit == 0) {
        finding.verdict = if finding.blocks == Some(0) { Verdict::Holds } else { Verdict::Exceeded };
    }
    if let (Some(baseline), Some(growth)) = (baseline, limits.growth) {
        let both = [
            (
                Figure::LiveGrowth,
                baseline.live_bytes,
                summary.live_bytes,
                live_margin,
                errors(baseline.live_bytes_error),
            ),
            (Figure::PeakGrowth, baseline.peak.bytes, summary.peak.bytes, peak_margin(summary), peak_margin(baseline)),
        ];
        for (figure, before, found, margin, margin_before) in both {
            let more = match growth {
                Growth::Bytes(bytes) => bytes,
                Growth::Percent(percent) => (before as f64 * percent / 100.0) as u64,
            };
            let limit = before.saturating_add(more);
            let margin = (margin as f64).hypot(margin_before as f64) as u64;
            let (verdict, blocks) = (verdict(found, limit, margin), None);
            let responsible = Vec::new();
            findings.push(Finding { figure, limit, found, margin, before: Some(before), blocks, verdict, responsible });
        }
    }
    findings
}

fn verdict(found: u64, limit: u64, margin: u64) -> Verdict {
    if found <= limit {
        Verdict::Holds
    } else if found - limit <= margin {
        Verdict::Uncertain
    } else {
        Verdict::Exceeded
    }
}

fn errors(error: u64) -> u64 {
    (error as f64 * ERRORS) as u64
}

/// By how much a sum of bytes may be off whose blocks are not at hand: the variance of one byte is at most the interval.
fn bytes_margin(summary: &Summary, bytes: u64) -> u64 {
    let interval = summary.sampled.map_or(0, |Sampled { interval_bytes, .. }| interval_bytes);
    ((bytes as f64 * interval as f64).sqrt() * ERRORS) as u64
}

/// The same for the number of blocks, which are taken to be of the mean size.
fn allocations_margin(summary: &Summary) -> u64 {
    let interval = summary.sampled.map_or(0, |Sampled { interval_bytes, .. }| interval_bytes);
    let mean = (summary.bytes_allocated as f64 / summary.allocations.max(1) as f64).max(1.0);
    ((summary.allocations as f64 * interval as f64 / mean).sqrt() * ERRORS) as u64
}

/// Live blocks of which a filter holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How many.
    pub blocks: u64,
    /// The standard error of that; 0 if exact.
    pub blocks_error: u64,
    /// Bytes asked for in them.
    pub bytes: u64,
    /// The standard error of that; 0 if exact.
    pub bytes_error: u64,
    /// Their call sites, most bytes first.
    pub sites: Vec<SiteTotals>,
}

impl Held {
    /// Those of the filter's ledger.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(ledger: &Ledger, filter: &mut Evaluator<'_>, progress: &mut dyn FnMut(f32)) -> Result<Held, SourceError> {
        #[derive(Default)]
        struct Part {
            sites: HashMap<u32, Sum>,
            spread: Spread,
            undecided: Vec<Entry>,
        }
        impl Part {
            fn add(&mut self, entry: &Entry, weight: u64) {
                self.sites.entry(entry.site).or_default().add(entry, weight);
                self.spread.add(entry, weight);
            }
        }
        filter.prepare_blocks(progress)?;
        let (sampling, known) = (Sampling::of(ledger), &*filter);
        let each = |part: &mut Part, entries: &[Entry]| {
            for entry in entries {
                match known.known(entry) {
                    Some(true) => part.add(entry, sampling.weight(entry)),
                    Some(false) => {}
                    None => part.undecided.push(*entry),
                }
            }
        };
        let scanned = ledger.scan_records(usize::MAX, &Part::default, &each, progress)?;
        let mut all = Part::default();
        for part in scanned.states {
            part.sites.into_iter().for_each(|(site, sum)| all.sites.entry(site).or_default().join(sum));
            all.spread.join(part.spread);
            for entry in part.undecided {
                if filter.block(&entry)? {
                    all.add(&entry, sampling.weight(&entry));
                }
            }
        }
        let mut sum = Sum::default();
        all.sites.values().for_each(|of_site| sum.join(*of_site));
        all.sites.remove(&0);
        Ok(Held {
            blocks: sum.blocks,
            blocks_error: all.spread.blocks_error(),
            bytes: sum.bytes,
            bytes_error: all.spread.bytes_error(),
            sites: sorted(all.sites, true),
        })
    }
}

/// Call sites with most bytes first, or most blocks.
fn sorted(sums: HashMap<u32, Sum>, by_bytes: bool) -> Vec<SiteTotals> {
    let totals = |(site, Sum { samples, blocks, bytes })| SiteTotals { site, samples, blocks, bytes };
    let mut sites: Vec<SiteTotals> = sums.into_iter().map(totals).collect();
    sites.sort_unstable_by_key(|totals| {
        let (first, second) = if by_bytes { (totals.bytes, totals.blocks) } else { (totals.blocks, totals.bytes) };
        (!first, !second, totals.site)
    });
    sites
}

/// What makes figures too small or too large by an amount that nobody knows. With any of these, a limit that seems to
/// hold may not.
pub fn losses(summary: &Summary) -> Vec<&Note> {
    let matters = |note: &&Note| match note {
        Note::Loss(counter, _) => matches!(
            counter,
            TallyCounter::LostNoRecord
                | TallyCounter::LostNoIndex
                | TallyCounter::LostBusy
                | TallyCounter::LostNoThread
                | TallyCounter::FreesBusy
                | TallyCounter::WideLost
        ),
        Note::Damage(_) | Note::Full | Note::Stopped | Note::Busy => true,
        // In a running program calls are under way all the time, and a signal may end it in the middle of one.
        Note::Unaccounted { .. } => !summary.identity.running && summary.identity.signal.is_none(),
        _ => false,
    };
    summary.seen.notes.iter().filter(matters).collect()
}

/// What each call site allocated, as far as its blocks live or their frees are in the history; most bytes first, or
/// most blocks.
///
/// # Errors
/// If the ledger can no longer be read.
pub fn allocated_by_site(ledger: &Ledger, live: &[SiteTotals], by_bytes: bool) -> Result<Vec<SiteTotals>, SourceError> {
    let sampling = Sampling::of(ledger);
    let scanned = ledger.scan_freed(
        usize::MAX,
        &HashMap::<u32, Sum>::new,
        &|sums, freed| {
            for entry in freed {
                sums.entry(entry.block.site).or_default().add(&entry.block, sampling.weight(&entry.block));
            }
        },
        &mut |_| {},
    )?;
    let of_site = |totals: &SiteTotals| Sum { samples: totals.samples, blocks: totals.blocks, bytes: totals.bytes };
    let mut sums: HashMap<u32, Sum> = live.iter().map(|totals| (totals.site, of_site(totals))).collect();
    for (site, sum) in scanned.states.into_iter().flatten().filter(|(site, _)| *site != 0) {
        sums.entry(site).or_default().join(sum);
    }
    Ok(sorted(sums, by_bytes))
}

/// The stacks whose bytes grew most, greatest first: those with the same functions are one, wherever their lines are.
/// `name` gives a stack of the new ledger, `before` has the stacks of the baseline and their bytes.
pub fn grown(
    sites: &[SiteTotals],
    before: &[(NamedStack, SiteTotals)],
    mut name: impl FnMut(u32) -> Result<NamedStack, SourceError>,
) -> Result<Vec<Responsible>, SourceError> {
    let mut old: HashMap<String, (u64, u64)> = HashMap::new();
    for (stack, totals) in before {
        let (blocks, bytes) = old.entry(functions(stack)).or_default();
        *blocks += totals.blocks;
        *bytes += totals.bytes;
    }
    let mut new: HashMap<String, Responsible> = HashMap::new();
    for totals in sites {
        let stack = name(totals.site)?;
        let same = new.entry(functions(&stack)).or_insert_with(|| Responsible {
            totals: SiteTotals { samples: 0, blocks: 0, bytes: 0, ..*totals },
            stack,
        });
        same.totals.samples += totals.samples;
        same.totals.blocks += totals.blocks;
        same.totals.bytes += totals.bytes;
    }
    let mut grown = Vec::new();
    for (functions, mut now) in new {
        let (blocks, bytes) = old.get(&functions).copied().unwrap_or_default();
        if now.totals.bytes > bytes {
            now.totals.bytes -= bytes;
            now.totals.blocks = now.totals.blocks.saturating_sub(blocks);
            grown.push(now);
        }
    }
    grown.sort_unstable_by_key(|responsible| (!responsible.totals.bytes, responsible.totals.site));
    Ok(grown)
}

/// A stack by its functions, or by module and offset where they have no names.
fn functions(stack: &NamedStack) -> String {
    let mut key = String::new();
    for frame in &stack.frames {
        match (&frame.raw_name, &frame.function) {
            (Some(name), _) | (None, Some(name)) => key.push_str(name),
            (None, None) => {
                let module = frame.module.as_deref().map_or("", |path| path.rsplit('/').next().unwrap_or(path));
                key.push_str(module);
                key.push_str(&format!("+{:#x}", frame.offset.or(frame.address).unwrap_or(0)));
            }
        }
        key.push('\n');
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_held_against_its_limit_and_its_error() {
        assert_eq!(verdict(10, 10, 0), Verdict::Holds);
        assert_eq!(verdict(11, 10, 0), Verdict::Exceeded);
        assert_eq!(verdict(11, 10, 1), Verdict::Uncertain);
        assert_eq!(verdict(12, 10, 1), Verdict::Exceeded);
        assert_eq!(verdict(u64::MAX, 0, u64::MAX), Verdict::Uncertain);
    }

    fn totals(site: u32, bytes: u64) -> SiteTotals {
        SiteTotals { site, samples: 1, blocks: 1, bytes }
    }

    fn stack(function: &str, line: u32) -> NamedStack {
        let frame = crate::NamedFrame { function: Some(function.into()), line: Some(line), ..Default::default() };
        NamedStack { frames: vec![frame], damaged: false }
    }

    #[test]
    fn growth_is_by_functions_and_not_by_lines() {
        let before = [(stack("keep", 10), totals(1, 100)), (stack("gone", 5), totals(2, 1000))];
        let now = [totals(7, 80), totals(8, 50), totals(9, 31)];
        let name = |site| Ok(if site == 9 { stack("fresh", 1) } else { stack("keep", site) });
        let grown = grown(&now, &before, name).expect("named");
        let found: Vec<_> =
            grown.iter().map(|one| (one.stack.frames[0].function.as_deref(), one.totals.bytes)).collect();
        assert_eq!(found, [(Some("fresh"), 31), (Some("keep"), 30)]);
    }
}
