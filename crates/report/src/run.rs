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
        writeln!(f, "heapledger: {name} {} after {}", ending(&self.end), span(nanoseconds(self.span)))?;
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
            writeln!(f, "  before exec  {}{others}", first.path)?;
        }
        let path = &self.ledger.path;
        if own.errors > 0 {
            let found = counted(own.errors, "error was", "errors were");
            writeln!(f, "  errors       {found} found: heapledger errors {path}")?;
        }
        if own.failed_calls > 0 {
            let calls = counted(own.failed_calls, "call", "calls");
            writeln!(f, "  refused      {calls} gave no block: heapledger errors {path}")?;
        }
        writeln!(f, "  ledger       {path} ({})", figures.known().bytes(self.ledger.bytes))?;
        writeln!(f, "  next         heapledger {} {path}", self.next())
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
            writeln!(f, "  over time    {}", self.paint.lines(&sparks.shown(self.paint), INDENT, INDENT))?;
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
mod tests {
    use super::*;

    fn summary<'a>(figures: &'a RunFigures, ledger: &'a RunLedger) -> RunSummary<'a> {
        let (end, span) = (ProgramEnd::Status(0), Duration::from_millis(1240));
        RunSummary { name: "jq", end, span, figures, ledger, earlier: &[], children: 0, paint: Paint::default() }
    }

    fn shown(end: ProgramEnd, figures: &RunFigures, children: u64) -> String {
        let ledger = RunLedger { path: "heapledger.jq.42.hl".into(), bytes: 1 << 20 };
        RunSummary { end, children, ..summary(figures, &ledger) }.to_string()
    }

    #[test]
    fn the_summary_is_calm() {
        let site = |name: &str| RunSite { bytes: 2048, blocks: 3, name: name.into(), is_least: false };
        let figures = RunFigures {
            allocations: 1_234_567,
            frees: 1_234_560,
            bytes_allocated: 45 << 20,
            peak_bytes: 12 << 20,
            peak_blocks: 45_678,
            peak_ns: Some(980_000_000),
            live_blocks: 7,
            live_bytes: 4300,
            sites: RunSites {
                live: vec![site("jv_mem_alloc (jv_alloc.c:130) < jvp_string_alloc < jv_string_sized"), site("main")],
                peak: vec![RunSite { bytes: 8 << 20, blocks: 1, is_least: true, ..site("grow (jv.c:7) < main") }],
                calls: vec![RunSite { blocks: 1_000_000, ..site("jv_string (jv.c:9)") }],
                temporary: vec![RunSite { blocks: 900_000, ..site("jv_string (jv.c:9)") }],
                temporary_blocks: 987_654,
                has_peak: true,
                without_stacks: false,
                names: vec!["To see more: `apt install jq-dbgsym`.".into()],
            },
            losses: vec!["12 stacks were cut at the depth limit.".into()],
            ..RunFigures::default()
        };
        let text = shown(ProgramEnd::Status(0), &figures, 2);
        let wanted = "\
heapledger: jq ended with status 0 after 1.24 s
  allocated    1,234,567 blocks, 45.0 MiB in all; 1,234,560 freed
  most calls   1,000,000 (81.0%) jv_string (jv.c:9)
  temporary    987,654 (80.0%) freed by their thread's next event; most by jv_string (jv.c:9)
  peak         12.0 MiB in 45,678 blocks, after 980 ms; held by:
    ≥ 8.00 MiB in 1 block        grow (jv.c:7) < main
  live at end  4.20 KiB in 7 blocks; the biggest call sites:
      2.00 KiB in 3 blocks       jv_mem_alloc (jv_alloc.c:130) < jvp_string_alloc < jv_string_sized
      2.00 KiB in 3 blocks       main
  incomplete   12 stacks were cut at the depth limit.
  names        To see more: `apt install jq-dbgsym`.
  children     2 child processes were not watched; `heapledger run --children` records them, too
  ledger       heapledger.jq.42.hl (1.00 MiB)
  next         heapledger flame --at peak heapledger.jq.42.hl
";
        assert_eq!(text, wanted);
        let sites = RunSites { has_peak: true, without_stacks: true, ..RunSites::default() };
        let stackless = RunFigures { allocations: 7, peak_bytes: 700, sites, ..RunFigures::default() };
        assert!(
            shown(ProgramEnd::Status(0), &stackless, 0)
                .ends_with("  next         heapledger stats heapledger.jq.42.hl\n")
        );
        let nothing = shown(ProgramEnd::Status(0), &RunFigures::default(), 0);
        assert!(nothing.contains("  allocated    nothing\n  ledger "), "{nothing}");
        let told = |errors| shown(ProgramEnd::Status(0), &RunFigures::default().with_errors(errors), 0);
        assert!(told(2).contains("  errors       2 errors were found: heapledger errors "));
        assert!(
            told(1).contains("  errors       1 error was found: heapledger errors ") && !told(0).contains("errors")
        );
        let refused = shown(ProgramEnd::Status(0), &RunFigures { failed_calls: 1, ..RunFigures::default() }, 0);
        assert!(refused.contains("  refused      1 call gave no block: heapledger errors "), "{refused}");
    }

    #[test]
    fn bytes_are_exact_where_that_is_wanted() {
        let ledger = RunLedger { path: "jq.hl".into(), bytes: 1 << 20 };
        let figures = RunFigures {
            bytes_allocated: 45 << 20,
            peak_bytes: 12 << 20,
            peak_error: 4096,
            live_blocks: 7,
            live_bytes: 4300,
            sites: RunSites {
                live: vec![RunSite { bytes: 2048, blocks: 3, name: "main".into(), is_least: false }],
                ..RunSites::default()
            },
            ..RunFigures::default()
        };
        let paint = Paint { exact_bytes: true, ..Paint::default() };
        let text = RunSummary { paint, ..summary(&figures, &ledger) }.to_string();
        assert!(text.contains(", 47,185,920 B in all;"), "{text}");
        assert!(text.contains("peak         12,582,912 B ± 4,096 B in about"), "{text}");
        assert!(text.contains("live at end  4,300 B in 7 blocks"), "{text}");
        assert!(text.contains("\n       2,048 B in 3 blocks "), "{text}");
        assert!(text.contains("jq.hl (1,048,576 B)") && !text.contains("iB"), "{text}");
    }

    #[test]
    fn estimates_are_marked_and_columns_aligned() {
        let site = |bytes, blocks, name: &str| RunSite { bytes, blocks, name: name.into(), is_least: false };
        let figures = RunFigures {
            sampled: Some(Sampled { interval_bytes: 512 << 10, samples: 1_234 }),
            allocations: 1_234_567,
            frees: 1_000_000,
            bytes_allocated: 4500 << 20,
            peak_bytes: 700 << 20,
            peak_blocks: 345_678,
            peak_error: 64 << 10,
            live_blocks: 234_567,
            live_bytes: 650 << 20,
            live_error: 20 << 20,
            sites: RunSites {
                live: vec![site(512 << 20, 1_134_567, "main"), site(1023, 7, "helper < main")],
                ..RunSites::default()
            },
            ..RunFigures::default()
        };
        let text = shown(ProgramEnd::Status(0), &figures, 0);
        let wanted = "\
heapledger: jq ended with status 0 after 1.24 s
  sampled      one block in 512 KiB; figures marked ~ are estimates (Poisson, unbiased), of live blocks from 1,234 samples
  allocated    ~1,234,567 blocks, ~4.39 GiB in all; ~1,000,000 freed
  peak         ~700 MiB in ~345,678 blocks
  live at end  ~650 MiB ± 3.1% in ~234,567 blocks; the biggest call sites:
      ~512 MiB in ~1,134,567 blocks main
      ~1,023 B in ~7 blocks         helper < main
  ledger       heapledger.jq.42.hl (1.00 MiB)
  next         heapledger tree heapledger.jq.42.hl
";
        assert_eq!(text, wanted);
        let nothing = RunFigures { sampled: figures.sampled, ..RunFigures::default() };
        assert!(shown(ProgramEnd::Status(0), &nothing, 0).contains("  live at end  no sample\n"));
    }

    #[test]
    fn a_program_that_did_little_is_told_from_its_children() {
        let text = shown(
            ProgramEnd::Signal { name: "SIGTERM".into(), core_dumped: false },
            &RunFigures { allocations: 9, ..RunFigures::default() },
            1,
        );
        assert!(text.starts_with("heapledger: jq was killed by SIGTERM after"));
        assert!(
            text.contains(
                "1 child process was not watched; this program itself did little; `heapledger run --children`"
            ),
            "{text}"
        );
        assert!(text.contains("live at end  nothing"));
        assert!(!text.contains("incomplete"));
        let text = shown(ProgramEnd::Status(0), &RunFigures { allocations: 9_000, ..RunFigures::default() }, 2);
        assert!(
            text.contains("  children     2 child processes were not watched; `heapledger run --children`"),
            "{text}"
        );
    }
}
