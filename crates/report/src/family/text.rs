//! Totals of a session, as text: one screen, however many processes there are.

use std::fmt::Write as _;
use std::io::{self, Write};

use heapledger_analysis::FamilySummary;
use heapledger_source::{Family, FamilyMemory};

use super::rows::ShownProcesses;
use super::{FamilyReport, end_words, process_name};
use crate::Paint;
use crate::form::fit::Fit;
use crate::form::notes;
use crate::form::units::{clean, count, counted, moment, span};
use crate::stats::text::{Fields, INDENT, quoted};
use crate::timeline::sparks::{narrowed, sparks};

/// Columns of sparks.
const SPARKS: usize = 40;
/// Fewer moments are no curve.
const MOMENTS_MIN: usize = 4;
/// Processes that a peak is told with.
const MAKERS: usize = 4;

pub(super) fn write(report: &FamilyReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let FamilyReport { session, family, summary, paint, .. } = *report;
    let mut out = Fit::new(out, paint);
    writeln!(out, "{}: a session of several processes", paint.strong(clean(session)))?;
    let mut fields = Fields { out: &mut out, paint };
    if let Some(command) = command(family) {
        fields.entry("Command", &command)?;
    }
    fields.line("Run", run(family, summary))?;
    fields.line("Processes", processes(family, summary))?;
    let figures = paint.figures(summary.totals.sampled);
    let totals = &summary.totals;
    let allocations = figures.counted(totals.allocations, "allocation", "allocations");
    let frees = figures.counted(totals.frees, "free", "frees");
    let all = figures.bytes(totals.bytes_allocated);
    fields.line("History", format!("{allocations}, {frees}; {all} allocated in all"))?;
    let blocks = figures.counted(totals.live_blocks, "block", "blocks");
    let when = if totals.running == 0 { "when their processes ended" } else { "now, or when their processes ended" };
    fields.line("Current", format!("{} in {blocks}, {when}", figures.bytes_exact(totals.live_bytes)))?;
    if let Some(inherited) = inherited(summary, paint) {
        fields.line("Inherited", inherited)?;
    }
    fields.field("Peak", &peak(family, summary, paint))?;
    if let Some(curve) = curve(family, paint, INDENT) {
        fields.line("Over time", curve)?;
    }
    if let Some(memory) = memory(family, paint) {
        fields.line("Memory", memory)?;
    }
    if totals.errors != 0 {
        let errors = counted(totals.errors, "error was", "errors were");
        fields.line("Errors", format!("{errors} found: `heapledger errors` shows them"))?;
    }
    if totals.failed_calls != 0 {
        let calls = counted(totals.failed_calls, "call", "calls");
        fields.line("Refused", format!("{calls} gave no block: `heapledger errors` shows them"))?;
    }
    ShownProcesses::of(summary, report.all).write(summary, "--all", paint, fields.out)?;
    notes::write(fields.out, &report.seen, paint)?;
    out.flush()
}

/// What was started, as a shell would want it.
pub(crate) fn command(family: &Family) -> Option<String> {
    let words: Vec<String> = family.head.command.iter().map(|word| quoted(word)).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// When it was, and how it ended.
fn run(family: &Family, summary: &FamilySummary) -> String {
    let began = match summary.began_unix_ns {
        0 => "it is not known when it began".to_owned(),
        began => format!("began {}", moment(began)),
    };
    let after = |unix_ns: u64| match unix_ns.checked_sub(summary.began_unix_ns) {
        Some(ns) if summary.began_unix_ns != 0 => format!(" after {}", span(ns)),
        _ => String::new(),
    };
    match &family.ended {
        Some(ended) => {
            let how = match end_words(Some(ended.exit), false) {
                words if words == "not known" => "ended".to_owned(),
                words => format!("ended with {words}"),
            };
            format!("{began}, {how}{}", after(ended.unix_ns))
        }
        None if family.is_running() => format!("{began}, goes on"),
        None => format!("{began}; how it ended is not known"),
    }
}

pub(super) fn processes(family: &Family, summary: &FamilySummary) -> String {
    let totals = &summary.totals;
    let mut text = count(totals.processes);
    let _ = write!(text, ", {} with a ledger", count(totals.recorded));
    let parts = [
        (totals.running, "running"),
        (totals.unrecorded, "that could not be recorded or read"),
        (family.ended.as_ref().map_or(0, |ended| ended.not_seen), "more that never began to record"),
    ];
    for (number, what) in parts.into_iter().filter(|(number, _)| *number != 0) {
        let _ = write!(text, ", {} {what}", count(number));
    }
    text
}

/// What forked processes freed of blocks that they inherited.
fn inherited(summary: &FamilySummary, paint: Paint) -> Option<String> {
    let totals = &summary.totals.inherited;
    let processes = summary.processes.iter().filter(|one| one.inherited.frees != 0).count() as u64;
    let figures = paint.exact_figures();
    if processes == 0 {
        return None;
    }
    let (blocks, of) = (counted(totals.blocks, "block", "blocks"), counted(processes, "process", "processes"));
    let mut text = format!(
        "{blocks} of parents ({}) freed in {of} that came of them: their copies, which count in no other figure",
        figures.bytes(totals.bytes)
    );
    if totals.unknown != 0 {
        let frees = counted(totals.unknown, "more free", "more frees");
        let _ = write!(text, "; of {frees} no ledger tells whose block that was");
    }
    if totals.of_nothing() != 0 {
        let frees = counted(totals.of_nothing(), "free was", "frees were");
        let _ = write!(text, "; {frees} of what was no block, or of one freed before");
    }
    Some(text)
}

/// The highest sum of all processes, and who made it; where nobody looked at all of them, between what it was.
pub(super) fn peak(family: &Family, summary: &FamilySummary, paint: Paint) -> Vec<String> {
    let figures = paint.figures(summary.totals.sampled);
    let of_one = summary.processes.iter().max_by_key(|one| one.peak_bytes).filter(|one| one.peak_bytes != 0);
    let of_one = of_one.map(|one| {
        format!("of one process at most {} ({})", figures.bytes(one.peak_bytes), clean(&process_name(&one.programs)))
    });
    let Some(moment) = family.peak().filter(|moment| moment.live_bytes >= summary.totals.peak_of_one_bytes) else {
        // Between two looks there may have been more: what one process had at its own peak is certain.
        let most = figures.bytes(summary.totals.together_at_most_bytes);
        let of_one = of_one.unwrap_or_else(|| "of no process is one known".to_owned());
        let why = match family.peak() {
            Some(_) => "looked at too seldom for these processes",
            None => "nobody looked at all processes at once",
        };
        return vec![format!("{of_one}; of all together not known ({why}), at most {most}")];
    };
    let together = figures.bytes_exact(moment.live_bytes);
    let looks = counted(family.memory.len() as u64, "look", "looks");
    let when = after(moment, summary);
    let mut lines = vec![format!("{together} in all processes together{when}, by {looks}")];
    let makers = summary.makers(moment);
    if !makers.is_empty() {
        lines.push(made_by(&makers, moment, summary, paint));
    }
    lines.extend(of_one);
    lines
}

fn after(moment: &FamilyMemory, summary: &FamilySummary) -> String {
    match moment.at_unix_ns.checked_sub(summary.began_unix_ns) {
        Some(ns) if summary.began_unix_ns != 0 => format!(", after {}", span(ns)),
        _ => String::new(),
    }
}

/// `made by cc1 4711 with 61.0 MiB, cc1 4713 with 60.2 MiB and 12 more`.
fn made_by(makers: &[(usize, u64)], moment: &FamilyMemory, summary: &FamilySummary, paint: Paint) -> String {
    let figures = paint.figures(summary.totals.sampled);
    let named = makers.iter().take(MAKERS).filter_map(|(index, bytes)| {
        let (one, totals) = (summary.tree.processes.get(*index)?, summary.processes.get(*index)?);
        let name = process_name(&totals.programs);
        Some(format!("{} {} with {}", clean(&name), one.pid, figures.bytes(*bytes)))
    });
    let named: Vec<String> = named.collect();
    let more = u64::from(moment.processes).saturating_sub(named.len() as u64);
    let more = if more == 0 { String::new() } else { format!(" and {} more", count(more)) };
    format!("made by {}{more}", named.join(", "))
}

/// Live bytes of all processes over time, behind `begin` columns.
pub(super) fn curve(family: &Family, paint: Paint, begin: usize) -> Option<String> {
    let moments = &family.memory;
    let first = moments.first().filter(|_| moments.len() >= MOMENTS_MIN)?.at_unix_ns;
    let length = moments.last()?.at_unix_ns.checked_sub(first)?.max(1);
    let mut columns = vec![None::<u64>; SPARKS];
    for moment in moments {
        let at = moment.at_unix_ns.saturating_sub(first);
        let at = (u128::from(at) * (SPARKS as u128 - 1) / u128::from(length)) as usize;
        if let Some(column) = columns.get_mut(at) {
            *column = (*column).max(Some(moment.live_bytes));
        }
    }
    // Where nobody looked it was as before, as far as anybody knows.
    let mut last = 0;
    let values: Vec<u64> =
        columns.into_iter().map(|column| *column.as_ref().inspect(|own| last = **own).unwrap_or(&last)).collect();
    let most = values.iter().copied().max().unwrap_or(0);
    let signs = sparks(&narrowed(&values, paint, begin), most, paint);
    Some(format!("{signs} live bytes of all processes, {}", span(length)))
}

/// What memory they had at most.
pub(super) fn memory(family: &Family, paint: Paint) -> Option<String> {
    let figures = paint.exact_figures();
    let most_rss = family.memory.iter().map(|moment| moment.rss_bytes).max().filter(|bytes| *bytes != 0)?;
    let most_pss = family.memory.iter().filter_map(|moment| moment.pss_bytes).max();
    let rss = figures.bytes(most_rss);
    Some(match most_pss {
        Some(pss) => format!("at most {} resident (Pss: shared pages count once), {rss} by RSS", figures.bytes(pss)),
        None => format!("at most {rss} by RSS, where pages that processes share count for each of them"),
    })
}
