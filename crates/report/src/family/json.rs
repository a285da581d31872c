//! A session as JSON. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::{FamilySummary, InheritedTotals, MemberTotals};
use heapledger_source::{Family, FamilyMemory, MemberLedger};
use serde::Serialize;

use super::{FamilyReport, family_seen};
use crate::form::json::{HeaderLine, end, line};
use crate::report::Report;

#[derive(Serialize)]
struct SessionJson<'a> {
    r#type: &'static str,
    session: &'a str,
    run_pid: u32,
    command: &'a [String],
    began_unix_ns: Option<u64>,
    ended_unix_ns: Option<u64>,
    end: Option<String>,
    running: bool,
    processes: u64,
    recorded: u64,
    unrecorded: u64,
    not_seen: u64,
    allocations: u64,
    frees: u64,
    bytes_allocated: u64,
    live_blocks: u64,
    live_bytes: u64,
    peak_of_one_bytes: u64,
    together_at_most_bytes: u64,
    peak: Option<MomentJson>,
    errors: u64,
    failed_calls: u64,
    estimated: bool,
    inherited: InheritedJson,
}

/// What forked processes freed that they had not allocated.
#[derive(Serialize)]
struct InheritedJson {
    frees: u64,
    blocks: u64,
    bytes: u64,
    unknown: u64,
}

impl InheritedJson {
    fn of(totals: &InheritedTotals) -> InheritedJson {
        let InheritedTotals { frees, blocks, bytes, unknown } = *totals;
        InheritedJson { frees, blocks, bytes, unknown }
    }
}

/// Who held how much at a moment.
#[derive(Serialize)]
struct MakerJson {
    pid: u32,
    start_ticks: u64,
    live_bytes: u64,
}

#[derive(Serialize)]
struct MomentJson {
    at_unix_ns: u64,
    live_bytes: u64,
    rss_bytes: u64,
    pss_bytes: Option<u64>,
    processes: u32,
    most: Vec<MakerJson>,
}

impl MomentJson {
    fn of(moment: &FamilyMemory) -> MomentJson {
        let most = moment.most.iter();
        let most = most.map(|(pid, start_ticks, bytes)| MakerJson {
            pid: *pid,
            start_ticks: *start_ticks,
            live_bytes: *bytes,
        });
        MomentJson {
            at_unix_ns: moment.at_unix_ns,
            live_bytes: moment.live_bytes,
            rss_bytes: moment.rss_bytes,
            pss_bytes: moment.pss_bytes,
            processes: moment.processes,
            most: most.collect(),
        }
    }
}

/// A moment in a line of its own.
#[derive(Serialize)]
struct MomentLine {
    r#type: &'static str,
    #[serde(flatten)]
    moment: MomentJson,
}

#[derive(Serialize)]
struct FiguresJson {
    allocations: u64,
    frees: u64,
    bytes_allocated: u64,
    live_blocks: u64,
    live_bytes: u64,
    peak_bytes: u64,
    peak_error_bytes: u64,
    peak_blocks: u64,
    peak_time_ns: Option<u64>,
    errors: u64,
    failed_calls: u64,
    estimated: bool,
}

impl FiguresJson {
    fn of(totals: &MemberTotals) -> FiguresJson {
        FiguresJson {
            allocations: totals.allocations,
            frees: totals.frees,
            bytes_allocated: totals.bytes_allocated,
            live_blocks: totals.live_blocks,
            live_bytes: totals.live_bytes,
            peak_bytes: totals.peak.bytes,
            peak_error_bytes: totals.peak.error_bytes,
            peak_blocks: totals.peak.blocks,
            peak_time_ns: totals.peak.time_ns,
            errors: totals.errors,
            failed_calls: totals.failed_calls,
            estimated: totals.sampled.is_some(),
        }
    }
}

/// One program of a process.
#[derive(Serialize)]
struct ProcessLine<'a> {
    r#type: &'static str,
    pid: u32,
    start_ticks: u64,
    image: u32,
    ppid: Option<u32>,
    depth: usize,
    program: &'a str,
    forked: bool,
    arguments: &'a [String],
    ledger: Option<String>,
    began_unix_ns: Option<u64>,
    ended_unix_ns: Option<u64>,
    end: Option<String>,
    unrecorded: Option<&'a str>,
    /// `None`: it has no ledger that could be read.
    figures: Option<FiguresJson>,
    /// `None`: it was not forked, or blocks were sampled.
    inherited: Option<InheritedJson>,
}

pub(super) fn write(report: &FamilyReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let FamilyReport { session, family, summary, .. } = *report;
    line(out, &HeaderLine::new("stats", session, None))?;
    line(out, &session_line(family, summary))?;
    for moment in &family.memory {
        line(out, &MomentLine { r#type: "memory", moment: MomentJson::of(moment) })?;
    }
    for (index, depth) in summary.tree.walk() {
        let Some(one) = summary.tree.processes.get(index) else { continue };
        let parent = one.parent.and_then(|parent| summary.tree.processes.get(parent));
        for image in &one.images {
            let (Some(member), Some(read)) = (family.members.get(*image), summary.members.get(*image)) else {
                continue;
            };
            let process = &member.process;
            let known = |unix_ns: u64| Some(unix_ns).filter(|unix_ns| *unix_ns != 0);
            let ledger = match &member.ledger {
                MemberLedger::Finished(path) | MemberLedger::Live(path) => Some(path.to_string_lossy().into_owned()),
                _ => None,
            };
            line(
                out,
                &ProcessLine {
                    r#type: "process",
                    pid: one.pid,
                    start_ticks: one.start_ticks,
                    image: process.image,
                    ppid: parent.map(|parent| parent.pid),
                    depth,
                    program: &process.program,
                    forked: process.forked,
                    arguments: &process.arguments,
                    ledger,
                    began_unix_ns: known(process.began_unix_ns),
                    ended_unix_ns: process.ended_unix_ns,
                    end: process.end.map(|end| end.to_string()),
                    unrecorded: process.unrecorded.as_deref(),
                    figures: read.as_ref().map(FiguresJson::of),
                    inherited: summary.inherited.get(*image).and_then(Option::as_ref).map(InheritedJson::of),
                },
            )?;
        }
    }
    end(out, report.ending(), &family_seen(summary))
}

fn session_line<'a>(family: &'a Family, summary: &FamilySummary) -> SessionJson<'a> {
    let totals = &summary.totals;
    SessionJson {
        r#type: "session",
        session: &family.head.session,
        run_pid: family.head.run_pid,
        command: &family.head.command,
        began_unix_ns: Some(summary.began_unix_ns).filter(|began| *began != 0),
        ended_unix_ns: family.ended.as_ref().map(|ended| ended.unix_ns),
        end: family.ended.as_ref().map(|ended| ended.exit.to_string()),
        running: family.is_running(),
        processes: totals.processes,
        recorded: totals.recorded,
        unrecorded: totals.unrecorded,
        not_seen: family.ended.as_ref().map_or(0, |ended| ended.not_seen),
        allocations: totals.allocations,
        frees: totals.frees,
        bytes_allocated: totals.bytes_allocated,
        live_blocks: totals.live_blocks,
        live_bytes: totals.live_bytes,
        peak_of_one_bytes: totals.peak_of_one_bytes,
        together_at_most_bytes: totals.together_at_most_bytes,
        peak: family.peak().map(MomentJson::of),
        errors: totals.errors,
        failed_calls: totals.failed_calls,
        estimated: totals.sampled,
        inherited: InheritedJson::of(&totals.inherited),
    }
}
