//! What `run` says when its program has ended: a few lines.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use heapledger_analysis::{self as analysis, Note, Sampled};
use heapledger_format::TallyCounter;

use crate::RunSparks;
use crate::form::notes::sentence;
use crate::form::units::{Figures, Paint, count, counted, percent, span};

/// Columns before what a line says.
const INDENT: usize = 15;
/// A program with fewer allocations than this "did little": perhaps its children did the work.
const LITTLE: u64 = 1000;
/// Notes that are shown; `stats` has all.
const NOTES: usize = 2;
/// Counts that are no loss worth a line here: every program has some, or it is the nature of a ring.
const USUAL: &[TallyCounter] =
    &[TallyCounter::UnknownFrees, TallyCounter::HistoryLost, TallyCounter::StacksGuessed, TallyCounter::ThreadsUnnamed];

/// Of allocations, a part of temporary blocks that is told: a tenth.
const MANY_TEMPORARY: u64 = 10;

/// A call site: what it is of, and its functions in a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSite {
    /// Bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// What it is called.
    pub name: String,
    /// More may belong to it: others that were not named hold as much as matters.
    pub is_least: bool,
}

/// The call sites to tell of, the greatest first; those on one line of source are one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSites {
    /// Who holds what lives.
    pub live: Vec<RunSite>,
    /// Who held what lived at the peak.
    pub peak: Vec<RunSite>,
    /// Who made most blocks.
    pub calls: Vec<RunSite>,
    /// Who made most of the temporary ones.
    pub temporary: Vec<RunSite>,
    /// Blocks that were freed by the very next event of their thread.
    pub temporary_blocks: u64,
    /// Whether it is known who held the peak.
    pub has_peak: bool,
    /// No stacks were recorded: there is no tree of calls.
    pub without_stacks: bool,
    /// What can be done about functions without names, a sentence each.
    pub names: Vec<String>,
}

/// The figures of one ledger.
#[derive(Debug, Default)]
pub struct RunFigures {
    /// What figures come from if they are estimates.
    sampled: Option<Sampled>,
    /// What the last program is called.
    program: String,
    allocations: u64,
    frees: u64,
    bytes_allocated: u64,
    peak_bytes: u64,
    peak_blocks: u64,
    peak_error: u64,
    peak_ns: Option<u64>,
    live_blocks: u64,
    live_bytes: u64,
    live_error: u64,
    sites: RunSites,
    /// How it grew.
    sparks: Option<RunSparks>,
    losses: Vec<String>,
    /// Calls that gave no block: no mistakes, but perhaps not what was expected.
    failed_calls: u64,
    /// What the program did wrong with its blocks.
    errors: u64,
}

impl RunFigures {
    /// Those of a summary, with its call sites; without these there are still the figures.
    pub fn new(program: String, summary: &analysis::Summary, sites: RunSites) -> RunFigures {
        let usual = summary.seen.clone().without(USUAL);
        let losses = usual.notes.iter().filter(|note| !matches!(note, Note::Module { .. })).map(sentence).collect();
        RunFigures {
            sampled: summary.sampled,
            program,
            allocations: summary.allocations,
            frees: summary.frees,
            bytes_allocated: summary.bytes_allocated,
            peak_bytes: summary.peak.bytes,
            peak_blocks: summary.peak.blocks,
            peak_error: summary.peak.error_bytes,
            peak_ns: summary.peak.time_ns,
            live_blocks: summary.live_blocks,
            live_bytes: summary.live_bytes,
            live_error: summary.live_bytes_error,
            sites,
            sparks: None,
            losses,
            failed_calls: summary.failed_calls,
            errors: 0,
        }
    }

    /// With how it grew, if that is known.
    #[must_use]
    pub fn with_sparks(self, sparks: Option<RunSparks>) -> RunFigures {
        RunFigures { sparks, ..self }
    }

    /// With so many errors that were found, calls that gave no block apart.
    #[must_use]
    pub fn with_errors(self, errors: u64) -> RunFigures {
        RunFigures { errors, ..self }
    }
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// With this status.
    Status(i32),
    /// By a signal: its name, or `signal 64`.
    Signal {
        /// What it is called.
        name: String,
        /// Whether there is a core dump.
        core_dumped: bool,
    },
    /// Nobody knows.
    Unknown,
}

/// A finished ledger.
#[derive(Clone, Debug)]
pub struct RunLedger {
    /// Its path, as it can be typed into a shell.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// All that the summary tells.
pub struct RunSummary<'a> {
    /// The program, as it was called, without directories.
    pub name: &'a str,
    /// How it ended.
    pub end: ProgramEnd,
    /// How long it ran.
    pub span: Duration,
    /// The figures.
    pub figures: &'a RunFigures,
    /// The ledger.
    pub ledger: &'a RunLedger,
    /// Ledgers of what the process was before it became this program, the latest first.
    pub earlier: &'a [RunLedger],
    /// Child processes that were not watched.
    pub children: u64,
    /// How wide it may be, and whether bytes are written exactly.
    pub paint: Paint,
}

impl Display for RunSummary<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let own = self.figures;
        let name = self.name;
        let now = Some(&own.program).filter(|now| !self.earlier.is_empty() && !now.is_empty() && *now != name);
        let name = now.map_or_else(|| name.to_owned(), |now| format!("{now}, which {name} became,"));
        writeln!(f, "{}", first_line(self.paint, &name, &self.end, self.span))?;
        let figures = self.paint.figures(own.sampled.is_some());
        let lines = |text: &str| self.paint.lines(text, INDENT, INDENT);
        if let Some(from) = own.sampled {
            writeln!(f, "  sampled      {}", lines(&figures.sampled(from, "of live blocks")))?;
        }
        if own.allocations == 0 && own.live_blocks == 0 && own.sampled.is_none() {
            writeln!(f, "  allocated    nothing")?;
        } else {
            self.blocks(f, figures)?;
        }
        for loss in own.losses.iter().take(NOTES) {
            writeln!(f, "  incomplete   {}", lines(loss))?;
        }
        if let Some(more) = own.losses.len().checked_sub(NOTES).filter(|more| *more > 0) {
            writeln!(f, "  incomplete   and {}", counted(more as u64, "more note", "more notes"))?;
        }
        for remedy in &own.sites.names {
            writeln!(f, "  names        {}", lines(remedy))?;
        }
        if self.children > 0 {
            let processes = counted(self.children, "child process was", "child processes were");
            let little = if own.allocations < LITTLE { "; this program itself did little" } else { "" };
            let remedy = "`heapledger run --children` records them, too";
            writeln!(f, "  children     {}", lines(&format!("{processes} not watched{little}; {remedy}")))?;
        }
        if let Some((first, others)) = self.earlier.split_last() {
            let others =
                if others.is_empty() { String::new() } else { format!(" and {} more", count(others.len() as u64)) };
            writeln!(f, "  before exec  {}", lines(&format!("{}{others}", first.path)))?;
        }
        let path = &self.ledger.path;
        if own.errors > 0 {
            let found = counted(own.errors, "error was", "errors were");
            writeln!(f, "  errors       {}", lines(&format!("{found} found: heapledger errors {path}")))?;
        }
        if own.failed_calls > 0 {
            let calls = counted(own.failed_calls, "call", "calls");
            writeln!(f, "  refused      {}", lines(&format!("{calls} gave no block: heapledger errors {path}")))?;
        }
        writeln!(f, "  ledger       {}", lines(&format!("{path} ({})", figures.known().bytes(self.ledger.bytes))))?;
        writeln!(f, "{}", self.paint.command("next", &format!("heapledger {}", self.next()), path, INDENT))
    }
}

impl RunSummary<'_> {
    /// What was allocated, what lived at the peak, and what lives at the end.
    fn blocks(&self, f: &mut Formatter<'_>, figures: Figures) -> fmt::Result {
        let own = self.figures;
        let lines = |text: &str| self.paint.lines(text, INDENT, INDENT);
        let allocated = figures.counted(own.allocations, "block", "blocks");
        let freed = figures.count(own.frees);
        let allocated = format!("{allocated}, {} in all; {freed} freed", figures.bytes(own.bytes_allocated));
        writeln!(f, "  allocated    {}", lines(&allocated))?;
        if own.allocations >= LITTLE
            && let Some(most) = own.sites.calls.first()
        {
            let part = percent(most.blocks as f64 / own.allocations as f64);
            let least = if most.is_least { "at least " } else { "" };
            let text = format!("  most calls   {least}{} ({part}) {}", figures.count(most.blocks), most.name);
            writeln!(f, "{}", self.paint.fitted(&text))?;
        }
        if own.sites.temporary_blocks >= (own.allocations / MANY_TEMPORARY).max(LITTLE) {
            let part = percent(own.sites.temporary_blocks as f64 / own.allocations as f64);
            let blocks = figures.count(own.sites.temporary_blocks);
            let most = own.sites.temporary.first().map_or_else(String::new, |site| format!("; most by {}", site.name));
            let text = format!("  temporary    {blocks} ({part}) freed by their thread's next event{most}");
            writeln!(f, "{}", self.paint.fitted(&text))?;
        }
        if let Some(sparks) = &own.sparks {
            writeln!(f, "  over time    {}", self.paint.lines(&sparks.shown(self.paint, INDENT), INDENT, INDENT))?;
        }
        let blocks = figures.counted(own.peak_blocks, "block", "blocks");
        // What threads have not reported yet is little beside what an estimate may be off.
        let peak = if figures.estimated {
            figures.bytes(own.peak_bytes)
        } else {
            figures.within(own.peak_bytes, own.peak_error)
        };
        let after = own.peak_ns.map(|ns| format!(", after {}", span(ns))).unwrap_or_default();
        // As in `stats`: what is inexact and no estimate is said in a word.
        let about = if figures.estimated || own.peak_error == 0 { "" } else { "about " };
        // What lives at the end is told of below, and need not be told twice.
        let is_end = own.sites.peak == own.sites.live;
        let held = if own.sites.peak.is_empty() || is_end { "" } else { "; held by:" };
        writeln!(f, "  peak         {}", lines(&format!("{peak} in {about}{blocks}{after}{held}")))?;
        if !is_end {
            self.sites(f, &own.sites.peak)?;
        }
        if own.live_blocks == 0 {
            writeln!(f, "  live at end  {}", figures.nothing())?;
        } else {
            let blocks = figures.counted(own.live_blocks, "block", "blocks");
            let live = if figures.estimated {
                figures.bytes_with_error(own.live_bytes, own.live_error)
            } else {
                figures.bytes(own.live_bytes)
            };
            let held = if own.sites.live.is_empty() { "" } else { "; the biggest call sites:" };
            writeln!(f, "  live at end  {}", lines(&format!("{live} in {blocks}{held}")))?;
        }
        self.sites(f, &own.sites.live)
    }

    /// The command that shows more of what is worth a look.
    fn next(&self) -> &'static str {
        let own = self.figures;
        // Much lives at the end: that is a leak, or what a program has that was killed.
        let much_lives = own.live_bytes >= own.peak_bytes / 4;
        match own.sites.has_peak {
            // What is wrong comes first: it names the place, and its status is for a script.
            _ if own.errors > 0 => "check --max-errors 0",
            _ if own.allocations == 0 || own.sites.without_stacks => "stats",
            _ if much_lives && own.live_blocks > 0 => "tree",
            true => "flame --at peak",
            false => "tree --by allocated",
        }
    }

    /// Call sites, a line each.
    fn sites(&self, f: &mut Formatter<'_>, sites: &[RunSite]) -> fmt::Result {
        let figures = self.paint.figures(self.figures.sampled.is_some());
        let held = sites.iter().map(|site| {
            let least = if site.is_least { "≥ " } else { "" };
            (format!("{least}{}", figures.bytes(site.bytes)), figures.counted(site.blocks, "block", "blocks"))
        });
        let held: Vec<(String, String)> = held.collect();
        // Columns as wide as usual figures, wider if there are others.
        let width = |least: usize, text: fn(&(String, String)) -> &String| {
            held.iter().map(|held| text(held).chars().count()).fold(least, usize::max)
        };
        let (bytes_width, blocks_width) = (width(10, |held| &held.0), width(14, |held| &held.1));
        for ((bytes, blocks), site) in held.iter().zip(sites) {
            let line = format!("    {bytes:>bytes_width$} in {blocks:<blocks_width$} {}", site.name);
            writeln!(f, "{}", self.paint.fitted(&line))?;
        }
        Ok(())
    }
}

/// How a program ended, and after what time.
pub(crate) fn first_line(paint: Paint, name: &str, end: &ProgramEnd, after: Duration) -> String {
    paint.lines(&format!("heapledger: {name} {} after {}", ending(end), span(nanoseconds(after))), 0, 2)
}

pub(crate) fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn ending(end: &ProgramEnd) -> String {
    match end {
        ProgramEnd::Status(status) => format!("ended with status {status}"),
        ProgramEnd::Signal { name, core_dumped } => {
            format!("was killed by {name}{}", if *core_dumped { ", core dumped," } else { "" })
        }
        ProgramEnd::Unknown => "ended".into(),
    }
}

#[cfg(test)]
mod tests;
