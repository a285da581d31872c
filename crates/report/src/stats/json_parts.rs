//! Parts of totals as JSON: call sites, stacks, memory. Described in `docs/json.md`.

use heapledger_analysis::{Sites, Summary, Unwinding};
use serde::Serialize;

use crate::form::json::SampledJson;

/// The same with what totals may be off.
#[derive(Serialize)]
pub(crate) struct SampledTotalsJson {
    #[serde(flatten)]
    sampled: SampledJson,
    live_blocks_error: u64,
    live_bytes_error: u64,
}

impl SampledTotalsJson {
    pub(crate) fn of(summary: &Summary) -> Option<SampledTotalsJson> {
        summary.sampled.map(|sampled| SampledTotalsJson {
            sampled: SampledJson::of(sampled),
            live_blocks_error: summary.live_blocks_error,
            live_bytes_error: summary.live_bytes_error,
        })
    }
}

/// A mean, to a thousandth.
fn rounded(mean: Option<f64>) -> Option<f64> {
    mean.map(|mean| (mean * 1000.0).round() / 1000.0)
}

/// Call sites in all.
#[derive(Serialize)]
pub(crate) struct CallSitesJson {
    distinct: u64,
    live: u64,
    nodes: u64,
    codes: u64,
    mean_frames: Option<f64>,
    ledger_bytes: u64,
    storage_bytes: Option<u64>,
    index_bytes: Option<u64>,
    packed_bytes: Option<u64>,
    bytes_per_stack_ledger: Option<f64>,
    bytes_per_stack_memory: Option<f64>,
    bytes_per_stack_file: Option<f64>,
}

impl CallSitesJson {
    pub(crate) fn of(sites: &Sites) -> CallSitesJson {
        CallSitesJson {
            distinct: sites.distinct,
            live: sites.live,
            nodes: sites.nodes,
            codes: sites.codes,
            mean_frames: rounded(sites.mean_frames),
            ledger_bytes: sites.bytes,
            storage_bytes: sites.storage_bytes,
            index_bytes: sites.private_bytes,
            packed_bytes: sites.packed_bytes,
            bytes_per_stack_ledger: rounded(sites.bytes_per_stack_ledger()),
            bytes_per_stack_memory: rounded(sites.bytes_per_stack_memory()),
            bytes_per_stack_file: rounded(sites.bytes_per_stack_file()),
        }
    }
}

/// How stacks were found.
#[derive(Serialize)]
pub(crate) struct StacksJson {
    frames_verified: u64,
    frames_walked: u64,
    rules_made: u64,
    compared: u64,
    differing: u64,
}

impl StacksJson {
    pub(crate) fn of(unwinding: &Unwinding) -> StacksJson {
        let Unwinding { frames_verified, frames_walked, rules_made, compared, differing } = *unwinding;
        StacksJson { frames_verified, frames_walked, rules_made, compared, differing }
    }
}

/// What the recorder took.
#[derive(Serialize)]
pub(crate) struct MemoryJson {
    ledger_bytes: u64,
    records_bytes: Option<u64>,
    history_bytes: Option<u64>,
    sites_bytes: Option<u64>,
    other_bytes: Option<u64>,
    private_bytes: Option<u64>,
    shadow_bytes: Option<u64>,
    sites_private_bytes: Option<u64>,
    threads_private_bytes: Option<u64>,
    guard_tables_bytes: Option<u64>,
    quarantine_bytes: Option<u64>,
    quarantine_blocks: u64,
    closed_blocks: u64,
    closed_bytes: u64,
    other_private_bytes: Option<u64>,
    blocks: u64,
    bytes_per_block: Option<f64>,
    record_bytes_per_block: Option<f64>,
    shadow_bytes_per_block: Option<f64>,
    thread_states: Option<u64>,
    bytes_per_thread: Option<f64>,
}

impl MemoryJson {
    pub(crate) fn of(summary: &Summary) -> MemoryJson {
        let (memory, storage) = (&summary.memory, &summary.storage);
        let (sections, private) = (memory.sections, memory.private);
        MemoryJson {
            ledger_bytes: storage.ledger_bytes,
            records_bytes: sections.map(|sections| sections.records_bytes),
            history_bytes: sections.map(|sections| sections.history_bytes),
            sites_bytes: sections.map(|sections| sections.sites_bytes),
            other_bytes: sections.map(|sections| sections.other_bytes),
            private_bytes: storage.private_bytes,
            shadow_bytes: private.map(|private| private.shadow_bytes),
            sites_private_bytes: private.map(|private| private.sites_bytes),
            threads_private_bytes: private.map(|private| private.threads_bytes),
            guard_tables_bytes: private.map(|private| private.guard_tables_bytes),
            quarantine_bytes: private.map(|private| private.quarantine_bytes),
            quarantine_blocks: memory.quarantine_blocks,
            closed_blocks: memory.closed.0,
            closed_bytes: memory.closed.1,
            other_private_bytes: private.map(|private| private.other_bytes),
            blocks: memory.blocks,
            bytes_per_block: rounded(memory.bytes_per_block()),
            record_bytes_per_block: rounded(memory.record_bytes_per_block()),
            shadow_bytes_per_block: rounded(memory.shadow_bytes_per_block()),
            thread_states: memory.thread_states,
            bytes_per_thread: rounded(memory.bytes_per_thread()),
        }
    }
}
