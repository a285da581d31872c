//! Totals as JSON. Described in `docs/json.md`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use heapledger_analysis::{NamedFrame, Note, Summary};
use heapledger_format::TallyCounter;
use heapledger_format::record::Options;
use heapledger_source::{Module, Taken, ThreadState};
use serde::Serialize;

use super::StatsReport;
use super::accounts::{self, AccountJson, HeapFiguresJson};
use crate::Ending;
use crate::form::json::{HeaderLine, Hex, end, frames, line};
use crate::stats::json_parts::{CallSitesJson, MemoryJson, SampledTotalsJson, StacksJson};

#[derive(Serialize)]
struct Allocated {
    calls: Option<u64>,
    live_blocks: u64,
    live_bytes: u64,
}

#[derive(Serialize)]
struct Freed {
    calls: u64,
}

#[derive(Serialize)]
struct ThreadTotalsJson<'a> {
    row: Option<u32>,
    id: Option<u32>,
    handle: Option<Hex>,
    name: Option<&'a str>,
    state: Option<&'static str>,
    started_ns: Option<u64>,
    ended_by_ns: Option<u64>,
    allocations: Option<u64>,
    frees: Option<u64>,
    bytes_allocated: Option<u64>,
    live_blocks: u64,
    live_bytes: u64,
}

#[derive(Serialize)]
struct HeapJson<'a> {
    row: u32,
    name: &'a str,
    low: Hex,
    high: Hex,
    parts_bytes: Option<u64>,
    live_blocks: Option<u64>,
    live_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    figures: Option<HeapFiguresJson>,
}

#[derive(Serialize)]
struct ModuleJson {
    row: u16,
    path: String,
    build_id: String,
    low: Hex,
    high: Hex,
    bias: Hex,
    generation: u32,
}

#[derive(Serialize)]
struct TopJson<'a> {
    site: u32,
    samples: u64,
    blocks: u64,
    bytes: u64,
    #[serde(serialize_with = "frames")]
    frames: &'a [NamedFrame],
}

#[derive(Serialize)]
struct OptionsJson {
    actual: bool,
    time: bool,
    thread: bool,
    stack: bool,
    history: bool,
    heap: bool,
    depth_limit: u16,
    history_capacity: u64,
    history_entries: u64,
}

#[derive(Serialize)]
struct LedgerJson {
    bytes: u64,
    file_bytes: u64,
    private_bytes: Option<u64>,
    site_bytes: u64,
    finished: bool,
    full: bool,
}

#[derive(Serialize)]
struct ProcessJson<'a> {
    program: Option<&'a str>,
    args: &'a [String],
    pid: Option<u32>,
    exe: Option<&'a str>,
    cwd: Option<&'a str>,
    image: u64,
    running: bool,
    copied: bool,
    copied_unix_ns: Option<u64>,
    exit: Option<u64>,
    signal: Option<u64>,
    replaced: bool,
    start_unix_ns: Option<u64>,
    wall_ns: Option<u64>,
    snapshot: Option<SnapshotJson>,
    labels: BTreeMap<&'a str, &'a str>,
    host: Option<&'a str>,
    machine_id: Option<&'a str>,
    container: Option<&'a str>,
    moment: Option<&'a str>,
}

#[derive(Serialize)]
struct SnapshotJson {
    unix_ns: u64,
    held_ns: Option<u64>,
    in_flight: u64,
}

impl SnapshotJson {
    fn of(taken: Taken) -> SnapshotJson {
        SnapshotJson { unix_ns: taken.unix_ns, held_ns: taken.held_ns, in_flight: taken.in_flight }
    }
}

#[derive(Serialize)]
struct StatsLine<'a> {
    r#type: &'static str,
    allocations: u64,
    frees: u64,
    bytes_allocated: u64,
    bytes_freed: u64,
    failed_calls: Option<u64>,
    live_blocks: u64,
    live_bytes: u64,
    actual_bytes: Option<u64>,
    headers_bytes: Option<u64>,
    sizes_unknown: u64,
    peak_bytes: Option<u64>,
    peak_blocks: Option<u64>,
    peak_time_ns: Option<u64>,
    peak_error_bytes: Option<u64>,
    unknown_frees: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inherited_frees: Option<u64>,
    in_flight: u64,
    unaccounted: Option<i64>,
    sampled: Option<SampledTotalsJson>,
    call_sites: Option<CallSitesJson>,
    stacks: Option<StacksJson>,
    memory: Option<MemoryJson>,
    allocated_by: BTreeMap<String, Allocated>,
    freed_by: BTreeMap<String, Freed>,
    losses: Option<BTreeMap<&'static str, u64>>,
    counters: Option<BTreeMap<&'static str, u64>>,
    top_sites: Vec<TopJson<'a>>,
    top_sites_at_peak: bool,
    threads: Vec<ThreadTotalsJson<'a>>,
    heaps: Vec<HeapJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accounts: Vec<AccountJson>,
    modules: Vec<ModuleJson>,
    options: OptionsJson,
    ledger: LedgerJson,
    process: ProcessJson<'a>,
}

/// Writes the totals: all of them.
pub(super) fn write(report: &StatsReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let StatsReport { ledger, summary, top, modules, .. } = *report;
    let more = totals_asked(summary);
    line(out, &HeaderLine::new("stats", ledger, summary.sampled).with(more))?;
    // What is of the whole program only is null where a part is asked for.
    let whole = summary.chosen.is_none();
    let peak = summary.peak;
    let losses = summary.seen.notes.iter().filter_map(|note| match note {
        Note::Loss(counter, count) => Some((counter.name(), *count)),
        Note::HistoryWithoutRoom(count) => Some((TallyCounter::HistoryLost.name(), *count)),
        Note::ScannedStacks(count) => Some((TallyCounter::StacksGuessed.name(), *count)),
        _ => None,
    });
    let allocating =
        summary.kinds.iter().filter(|kind| kind.begun.is_some_and(|begun| begun != 0) || kind.live_blocks != 0);
    let freeing = summary.kinds.iter().filter(|kind| kind.ended != 0);
    let tops = summary.sites.top.iter().zip(top);
    let object = StatsLine {
        r#type: "stats",
        allocations: summary.allocations,
        frees: summary.frees,
        bytes_allocated: summary.bytes_allocated,
        bytes_freed: summary.bytes_freed,
        failed_calls: whole.then_some(summary.failed_calls),
        live_blocks: summary.live_blocks,
        live_bytes: summary.live_bytes,
        actual_bytes: summary.actual_bytes,
        headers_bytes: summary.headers_bytes,
        sizes_unknown: summary.sizes_unknown,
        peak_bytes: whole.then_some(peak.bytes),
        peak_blocks: whole.then_some(peak.blocks),
        peak_time_ns: peak.time_ns.filter(|_| whole),
        peak_error_bytes: whole.then_some(peak.error_bytes),
        unknown_frees: whole.then_some(summary.unknown_frees),
        inherited_frees: summary.inherited_frees.filter(|_| whole),
        in_flight: summary.in_flight,
        unaccounted: whole.then_some(summary.unaccounted),
        sampled: SampledTotalsJson::of(summary),
        call_sites: whole.then(|| CallSitesJson::of(&summary.sites)),
        stacks: whole.then(|| StacksJson::of(&summary.unwinding)),
        memory: whole.then(|| MemoryJson::of(summary)),
        allocated_by: allocating
            .map(|kind| {
                let (calls, live_blocks, live_bytes) = (kind.begun, kind.live_blocks, kind.live_bytes);
                (kind.kind.to_string(), Allocated { calls, live_blocks, live_bytes })
            })
            .collect(),
        freed_by: freeing.map(|kind| (kind.kind.to_string(), Freed { calls: kind.ended })).collect(),
        losses: whole.then(|| losses.collect()),
        counters: whole.then(|| summary.counters.iter().map(|(counter, count)| (counter.name(), *count)).collect()),
        top_sites: tops
            .map(|(totals, stack)| TopJson {
                site: totals.site.0,
                samples: totals.samples,
                blocks: totals.blocks,
                bytes: totals.bytes,
                frames: &stack.frames,
            })
            .collect(),
        top_sites_at_peak: summary.sites.at_peak,
        threads: threads(summary),
        heaps: heaps(summary),
        accounts: accounts::json(summary),
        modules: modules.iter().map(module).collect(),
        options: options(summary),
        ledger: LedgerJson {
            bytes: summary.storage.ledger_bytes,
            file_bytes: summary.storage.file_bytes,
            private_bytes: summary.storage.private_bytes,
            site_bytes: summary.sites.bytes,
            finished: summary.identity.finished,
            full: summary.identity.full,
        },
        process: process(summary),
    };
    line(out, &object)?;
    end(out, Ending { shown: 1, left_out: 0, in_flight: summary.in_flight }, &summary.seen)
}

/// What the first line has besides: which blocks were asked for, and whether all freed ones of them are known.
#[derive(Serialize)]
struct TotalsAsked<'a> {
    r#where: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    complete: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frees_missing: Option<u64>,
}

fn totals_asked(summary: &Summary) -> TotalsAsked<'_> {
    let chosen = summary.chosen.as_ref();
    TotalsAsked {
        r#where: chosen.map(|chosen| chosen.filter.as_str()),
        complete: chosen.map(|chosen| chosen.frees_missing == 0),
        frees_missing: chosen.map(|chosen| chosen.frees_missing),
    }
}

fn threads(summary: &Summary) -> Vec<ThreadTotalsJson<'_>> {
    let threads = summary.threads.iter().map(|totals| {
        let thread = totals.thread.as_ref();
        let all = thread.filter(|_| summary.chosen.is_none());
        ThreadTotalsJson {
            row: thread.map(|thread| thread.row.0),
            id: thread.map(|thread| thread.id),
            handle: thread.map(|thread| Hex(thread.handle)),
            name: thread.map(|thread| thread.name.as_str()),
            state: thread.map(|thread| match thread.state {
                ThreadState::Alive => "alive",
                ThreadState::AtExit => "at_exit",
                ThreadState::Gone => "gone",
            }),
            started_ns: thread.and_then(|thread| summary.clock.ns(thread.started)),
            ended_by_ns: thread.and_then(|thread| summary.thread_ended_by_ns(thread)),
            allocations: all.map(|thread| thread.allocations),
            frees: all.map(|thread| thread.frees),
            bytes_allocated: all.map(|thread| thread.bytes_allocated),
            live_blocks: totals.live_blocks,
            live_bytes: totals.live_bytes,
        }
    });
    threads.collect()
}

fn heaps(summary: &Summary) -> Vec<HeapJson<'_>> {
    let recorded = summary.options.has(Options::HEAP);
    let heaps = summary.heaps.iter().map(|totals| HeapJson {
        row: totals.heap.row,
        name: &totals.heap.name,
        low: Hex(totals.heap.low),
        high: Hex(totals.heap.high),
        parts_bytes: totals.parts_bytes,
        live_blocks: recorded.then_some(totals.live_blocks),
        live_bytes: recorded.then_some(totals.live_bytes),
        figures: totals.heap.figures.as_ref().map(HeapFiguresJson::of),
    });
    heaps.collect()
}

fn module(module: &Module) -> ModuleJson {
    ModuleJson {
        row: module.row,
        path: module.path.to_string_lossy().into_owned(),
        build_id: module.build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
        low: Hex(module.low),
        high: Hex(module.high),
        bias: Hex(module.bias),
        generation: module.generation,
    }
}

fn options(summary: &Summary) -> OptionsJson {
    let has = |option| summary.options.has(option);
    OptionsJson {
        actual: has(Options::ACTUAL_SIZE),
        time: has(Options::TIME),
        thread: has(Options::THREAD),
        stack: has(Options::STACK),
        history: has(Options::HISTORY),
        heap: has(Options::HEAP),
        depth_limit: summary.depth_limit,
        history_capacity: summary.history_capacity,
        history_entries: summary.history_entries,
    }
}

fn process(summary: &Summary) -> ProcessJson<'_> {
    let identity = &summary.identity;
    ProcessJson {
        program: identity.program.as_deref(),
        args: &identity.args,
        pid: identity.pid,
        exe: identity.exe.as_deref(),
        cwd: identity.cwd.as_deref(),
        image: identity.image,
        running: identity.running,
        copied: identity.copied,
        copied_unix_ns: identity.copied_unix_ns,
        exit: identity.exit,
        signal: identity.signal,
        replaced: identity.replaced,
        start_unix_ns: summary.clock.start_unix_ns(),
        wall_ns: identity.wall_ns,
        snapshot: identity.taken.map(SnapshotJson::of),
        labels: identity.run.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
        host: identity.run.host.as_deref(),
        machine_id: identity.run.machine_id.as_deref(),
        container: identity.run.container.as_deref(),
        moment: identity.run.moment.as_deref(),
    }
}
