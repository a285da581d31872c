//! What the recorder took and how it found stacks, as lines of `stats`.

use std::fmt::Write as _;

use heapledger_analysis::{Memory, Private, Sections, Sites, Summary};

use crate::form::units::{Figures, count, counted, percent};

/// From which peak on the index is told as a share of it.
const SHARE_FROM: u64 = 1 << 20;

/// Memory, in all and by what it is for.
pub(crate) fn debug_data(summary: &Summary, figures: Figures) -> Vec<String> {
    let (storage, memory) = (summary.storage, &summary.memory);
    let outside = match storage.private_bytes {
        Some(bytes) => format!("{} memory outside of the ledger", figures.bytes_exact(bytes)),
        None => "memory outside of the ledger not measured: it ended too soon".to_owned(),
    };
    let mut lines = vec![format!("{} ledger, {outside}", figures.bytes_exact(storage.ledger_bytes))];
    if let Some(Sections { records_bytes, history_bytes, sites_bytes, other_bytes }) = memory.sections {
        lines.push(format!(
            "ledger: {} records, {} history, {} call sites, {} other",
            figures.bytes(records_bytes),
            figures.bytes(history_bytes),
            figures.bytes(sites_bytes),
            figures.bytes(other_bytes)
        ));
    }
    if let Some(private) = memory.private {
        let Private { shadow_bytes, sites_bytes, threads_bytes, other_bytes, .. } = private;
        let mut line = format!("outside: {} address index", figures.bytes(shadow_bytes));
        // The index has pages for a program of any size: beside a few kilobytes a share says nothing.
        if summary.sampled.is_none() && summary.peak.bytes >= SHARE_FROM {
            let part = percent(shadow_bytes as f64 / summary.peak.bytes as f64);
            let _ = write!(line, " ({part} of the peak)");
        }
        let _ = write!(line, ", {} call sites, {}", figures.bytes(sites_bytes), figures.bytes(threads_bytes));
        match memory.thread_states {
            Some(states) => write!(line, " in {}", counted(states, "thread state", "thread states")),
            None => write!(line, " thread states"),
        }
        .and_then(|()| write!(line, ", {} other", figures.bytes(other_bytes)))
        .unwrap_or_default();
        lines.push(line);
        lines.extend(guard(&private, memory, figures));
    }
    let parts = memory.record_bytes_per_block().zip(memory.shadow_bytes_per_block());
    if let Some(((record, shadow), all)) = parts.zip(memory.bytes_per_block()) {
        let (one, many) = if summary.sampled.is_some() { ("sample", "samples") } else { ("block", "blocks") };
        let blocks = counted(memory.blocks, one, many);
        lines.push(format!(
            "{} for each of at most {blocks} at a time: record {}, address index {}",
            mean(all),
            mean(record),
            mean(shadow)
        ));
    }
    lines.push("(debug data is in addition to other overheads)".to_owned());
    lines
}

/// What the guard takes, if there is one, beside what lies around live blocks.
fn guard(private: &Private, memory: &Memory, figures: Figures) -> Option<String> {
    if private.guard_tables_bytes == 0 {
        return None;
    }
    let mut line = format!("guard: {} tables", figures.bytes(private.guard_tables_bytes));
    let freed = |blocks| counted(blocks, "freed block", "freed blocks");
    if memory.quarantine_blocks != 0 {
        let (bytes, blocks) = (figures.bytes(private.quarantine_bytes), freed(memory.quarantine_blocks));
        let _ = write!(line, ", {bytes} in the quarantine of {blocks}");
    }
    let (blocks, bytes) = memory.closed;
    if blocks != 0 {
        let _ = write!(line, ", {} of addresses closed for {}, without memory", figures.bytes(bytes), freed(blocks));
    }
    Some(line)
}

/// Bytes on the average.
fn mean(bytes: f64) -> String {
    if bytes < 1000.0 { format!("{bytes:.1} B") } else { format!("{} B", count(bytes.round() as u64)) }
}

/// How many stacks there are and what they take.
pub(crate) fn call_sites(sites: &Sites, figures: Figures) -> Vec<String> {
    let stacks = counted(sites.distinct, "distinct stack", "distinct stacks");
    let mut first = format!("{stacks}, {} of them with live blocks", count(sites.live));
    if let Some(frames) = sites.mean_frames {
        let _ = write!(first, "; {frames:.1} frames each");
    }
    let mut lines = vec![first];
    if let Some(each) = sites.bytes_per_stack_ledger() {
        lines.push(format!("{} in the ledger, {} for each stack", figures.bytes(sites.bytes), mean(each)));
    }
    if let Some((each, private)) = sites.bytes_per_stack_memory().zip(sites.private_bytes) {
        let all = sites.storage_bytes.unwrap_or(sites.bytes).saturating_add(private);
        lines.push(format!("{} in memory with the index, {} for each stack", figures.bytes(all), mean(each)));
    }
    lines
}

/// How frames were found; `None` if the ledger does not tell.
pub(crate) fn frames(summary: &Summary) -> Option<String> {
    let found = &summary.unwinding;
    let all = found.frames_verified.saturating_add(found.frames_walked);
    (all != 0).then(|| {
        let part = percent(found.frames_verified as f64 / all as f64);
        let verified = counted(found.frames_verified, "frame", "frames");
        let (walked, rules) = (count(found.frames_walked), counted(found.rules_made, "rule", "rules"));
        format!("{verified} verified ({part}), {walked} walked; {rules} made")
    })
}

/// Whether stacks were compared with full walks, and how that went.
pub(crate) fn checked(summary: &Summary) -> Option<String> {
    let found = &summary.unwinding;
    let compared = counted(found.compared, "stack", "stacks");
    let differ = if found.differing == 1 { "differs" } else { "differ" };
    (found.compared != 0).then(|| format!("{compared} compared with a full walk, {} {differ}", count(found.differing)))
}
