//! What `run --children` says when its program has ended: one screen, however many processes there were.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use heapledger_analysis::{AlikeProcesses, FamilySummary, alike};
use heapledger_source::Family;

use super::rows::ShownProcesses;
use super::{process_name, text};
use crate::form::fit::Fit;
use crate::form::notes::sentence;
use crate::form::units::{clean, count, counted};
use crate::run::first_line;
use crate::{Paint, ProgramEnd, RunSite, family_seen};

/// Columns before what a line says.
const INDENT: usize = 15;
/// Notes that are shown; `stats` has all.
const NOTES: usize = 3;
/// Lines of the tree, and of programs that hold most at their ends.
const TREE_LINES: usize = 8;
const HOLDERS: usize = 3;

/// All that the summary tells.
#[derive(Debug)]
pub struct FamilyRun<'a> {
    /// The program that was started, as it was called, without directories.
    pub name: &'a str,
    /// How it ended.
    pub end: ProgramEnd,
    /// How long it ran.
    pub span: Duration,
    /// The session.
    pub family: &'a Family,
    /// What it comes to.
    pub summary: &'a FamilySummary,
    /// The session's directory, as it can be typed into a shell.
    pub path: &'a str,
    /// Bytes of its files.
    pub bytes: u64,
    /// The largest call sites of the process that held most at its end, if they were looked for: the process as an index of
    /// [`heapledger_source::ProcessTree::processes`].
    pub sites: Option<(usize, &'a [RunSite])>,
    /// How wide it may be, and whether bytes are written exactly.
    pub paint: Paint,
}

impl Display for FamilyRun<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (family, summary, totals) = (self.family, self.summary, &self.summary.totals);
        let figures = self.paint.figures(totals.sampled);
        let lines = |text: &str| self.paint.lines(text, INDENT, INDENT);
        writeln!(f, "{}", first_line(self.paint, self.name, &self.end, self.span))?;
        writeln!(f, "  processes    {}", lines(&text::processes(family, summary)))?;
        if totals.allocations == 0 {
            writeln!(f, "  allocated    nothing")?;
        } else {
            let blocks = figures.counted(totals.allocations, "block", "blocks");
            let (all, freed) = (figures.bytes(totals.bytes_allocated), figures.count(totals.frees));
            writeln!(f, "  allocated    {}", lines(&format!("{blocks}, {all} in all; {freed} freed")))?;
            if let Some(curve) = text::curve(family, self.paint, INDENT) {
                writeln!(f, "  over time    {}", lines(&curve))?;
            }
            for (index, line) in text::peak(family, summary, self.paint).iter().enumerate() {
                let name = if index == 0 { "peak" } else { "" };
                writeln!(f, "  {name:<12} {}", lines(line))?;
            }
            if let Some(memory) = text::memory(family, self.paint) {
                writeln!(f, "  memory       {}", lines(&memory))?;
            }
            self.live(f)?;
        }
        if summary.processes.len() > 1 {
            let mut table = Vec::new();
            let shown = ShownProcesses::of_lines(summary, TREE_LINES);
            let mut fit = Fit::new(&mut table, self.paint);
            shown.write(summary, "stats --all", self.paint, &mut fit).map_err(|_| fmt::Error)?;
            std::io::Write::flush(&mut fit).map_err(|_| fmt::Error)?;
            f.write_str(&String::from_utf8_lossy(&table))?;
        }
        let notes = family_seen(summary).notes;
        for note in notes.iter().take(NOTES) {
            writeln!(f, "  incomplete   {}", lines(&clean(&sentence(note))))?;
        }
        if let Some(more) = notes.len().checked_sub(NOTES).filter(|more| *more > 0) {
            writeln!(f, "  incomplete   and {}", counted(more as u64, "more note", "more notes"))?;
        }
        if totals.errors > 0 {
            let found = counted(totals.errors, "error was", "errors were");
            writeln!(f, "  errors       {}", lines(&format!("{found} found: heapledger errors {}", self.path)))?;
        }
        if totals.failed_calls > 0 {
            let calls = counted(totals.failed_calls, "call", "calls");
            writeln!(
                f,
                "  refused      {}",
                lines(&format!("{calls} gave no block: heapledger errors {}", self.path))
            )?;
        }
        let ledgers = summary.members.iter().flatten().count() as u64;
        let (ledgers, bytes) = (counted(ledgers, "ledger", "ledgers"), self.paint.exact_figures().bytes(self.bytes));
        writeln!(f, "  session      {}", lines(&format!("{} ({ledgers}, {bytes})", self.path)))?;
        writeln!(f, "{}", self.paint.command("next", "heapledger stats", self.path, INDENT))
    }
}

impl FamilyRun<'_> {
    /// Who held what at the end.
    fn live(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let totals = &self.summary.totals;
        let figures = self.paint.figures(totals.sampled);
        if totals.live_blocks == 0 {
            return writeln!(f, "  live at end  {}", figures.nothing());
        }
        let mut holders: Vec<AlikeProcesses> = alike(self.summary, false);
        holders.retain(|line| line.totals.live_blocks != 0);
        holders.sort_by_key(|line| std::cmp::Reverse((line.totals.live_bytes, line.totals.live_blocks)));
        let (live, blocks) = (figures.bytes(totals.live_bytes), figures.counted(totals.live_blocks, "block", "blocks"));
        let lines = |text: &str| self.paint.lines(text, INDENT, INDENT);
        writeln!(f, "  live at end  {}", lines(&format!("{live} in {blocks}; most of it in:")))?;
        for line in holders.iter().take(HOLDERS) {
            let one = line.processes.first().filter(|_| !line.is_several());
            let pid = one.and_then(|index| self.summary.tree.processes.get(*index)).map(|one| format!(" {}", one.pid));
            let many = line.is_several().then(|| format!(" × {}", count(line.processes.len() as u64)));
            let name = format!("{}{}", process_name(&line.totals.programs), pid.or(many).unwrap_or_default());
            self.held(f, line.totals.live_bytes, line.totals.live_blocks, &name)?;
        }
        let Some((index, sites)) = self.sites.filter(|(_, sites)| !sites.is_empty()) else { return Ok(()) };
        let (one, own) = (self.summary.tree.processes.get(index), self.summary.processes.get(index));
        if let (Some(one), Some(own)) = (one, own) {
            let name = process_name(&own.programs);
            writeln!(f, "  the most in  {}", lines(&format!("{} {}; its biggest call sites:", clean(&name), one.pid)))?;
        }
        sites.iter().try_for_each(|site| self.held(f, site.bytes, site.blocks, &site.name))
    }

    fn held(&self, f: &mut Formatter<'_>, bytes: u64, blocks: u64, name: &str) -> fmt::Result {
        let figures = self.paint.figures(self.summary.totals.sampled);
        let (bytes, blocks) = (figures.bytes(bytes), figures.counted(blocks, "block", "blocks"));
        writeln!(f, "{}", self.paint.fitted(&format!("    {bytes:>10} in {blocks:<14} {}", clean(name))))
    }
}

/// The process that held most at its end: whose call sites are worth a line. `None` if none held anything.
pub fn largest_holder(summary: &FamilySummary) -> Option<usize> {
    let holders = summary.processes.iter().enumerate().filter(|(_, one)| one.live_blocks != 0);
    holders.max_by_key(|(_, one)| (one.live_bytes, one.live_blocks)).map(|(index, _)| index)
}
