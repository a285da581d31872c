//! The tree of processes as lines of a table, as many as fit on a screen.

use std::io::{self, Write};

use heapledger_analysis::{AlikeProcesses, FamilySummary, InheritedTotals, alike};

use super::{end_words, process_name};
use crate::form::units::{count, counted, span};
use crate::{Cell, Column, Paint, Table, TableForm, TableStyle};

/// Lines of a tree that a person did not ask for all of; with so few processes each has one.
const LINES: usize = 12;

/// A name is cut behind so many characters: programs write whole command lines there.
const NAME_CHARS: usize = 60;

fn short(name: String) -> String {
    if name.chars().count() <= NAME_CHARS {
        return name;
    }
    name.chars().take(NAME_CHARS - 1).chain(['…']).collect()
}

/// Lines that are shown, and what is left out.
#[derive(Debug)]
pub(super) struct ShownProcesses {
    lines: Vec<AlikeProcesses>,
    /// Which of them are shown.
    shown: Vec<bool>,
}

impl ShownProcesses {
    /// Lines of the tree; `all`: one for each process, and none left out.
    pub(super) fn of(summary: &FamilySummary, all: bool) -> ShownProcesses {
        Self::of_lines(summary, if all { usize::MAX } else { LINES })
    }

    /// At most so many lines.
    pub(super) fn of_lines(summary: &FamilySummary, most: usize) -> ShownProcesses {
        let lines = alike(summary, summary.processes.len() <= most);
        let mut shown = vec![lines.len() <= most; lines.len()];
        if !shown.iter().all(|shown| *shown) {
            let mut by_weight: Vec<usize> = (0..lines.len()).collect();
            let weight =
                |line: &AlikeProcesses| (line.totals.peak_bytes.max(line.totals.live_bytes), line.totals.errors);
            by_weight.sort_by_key(|index| lines.get(*index).map(|line| std::cmp::Reverse(weight(line))));
            let mut left = most;
            for index in by_weight {
                // With it those above it, without which nobody knows where it stands.
                let mut with = Vec::new();
                let mut next = Some(index);
                while let Some(index) = next.filter(|index| shown.get(*index) == Some(&false)) {
                    with.push(index);
                    next = lines.get(index).and_then(|line| line.parent);
                }
                // Very deep ones stand below the nearest that is shown.
                with.truncate(if with.len() > left.div_ceil(2) { left.min(1) } else { with.len() });
                left -= with.len();
                for index in with {
                    if let Some(shown) = shown.get_mut(index) {
                        *shown = true;
                    }
                }
            }
        }
        ShownProcesses { lines, shown }
    }

    /// Writes the table, and how many processes are in none of its lines; `how` shows all of them.
    pub(super) fn write(
        &self,
        summary: &FamilySummary,
        how: &str,
        paint: Paint,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut columns = vec![
            Column::text("process"),
            Column::number("pid"),
            Column::number("after"),
            Column::number("lasted"),
            Column::number("peak"),
            Column::number("at end"),
            Column::number("blocks"),
        ];
        // Only where processes were forked, and freed what they had not allocated.
        let with_inherited = summary.totals.inherited.frees != 0;
        columns.extend(with_inherited.then(|| Column::number("inherited freed")));
        columns.push(Column::word("ended"));
        let style = TableStyle { width: paint.columns.saturating_sub(2), paint: Paint { columns: 0, ..paint } };
        let mut table = Table::new(Vec::new(), TableForm::Text(style), columns)?;
        for (index, line) in self.lines.iter().enumerate().filter(|(index, _)| self.is_shown(*index)) {
            table.row(&self.row(index, line, summary, paint))?;
        }
        for line in String::from_utf8_lossy(&table.end()?).lines() {
            writeln!(out, "  {}", line.trim_end())?;
        }
        let hidden = || self.lines.iter().zip(&self.shown).filter(|(_, shown)| !**shown).map(|(line, _)| line);
        let processes: usize = hidden().map(|line| line.processes.len()).sum();
        if processes != 0 {
            let most = hidden().map(|line| line.totals.peak_bytes).max().unwrap_or(0);
            let figures = paint.figures(summary.totals.sampled);
            let peaks = figures.bytes(most);
            writeln!(out, "  {} more processes with peaks up to {peaks} (--all shows each)", count(processes as u64))?;
        } else if self.lines.iter().any(AlikeProcesses::is_several) {
            writeln!(out, "  {}", paint.faint(format!("({how} shows each process)")))?;
        }
        Ok(())
    }

    fn is_shown(&self, index: usize) -> bool {
        self.shown.get(index) == Some(&true)
    }

    fn row(&self, index: usize, line: &AlikeProcesses, summary: &FamilySummary, paint: Paint) -> Vec<Cell> {
        let totals = &line.totals;
        let several = line.is_several();
        let name = short(process_name(&totals.programs));
        let name = if several { format!("{name} × {}", count(line.processes.len() as u64)) } else { name };
        let pid = line.processes.first().filter(|_| !several).and_then(|index| summary.tree.processes.get(*index));
        let known = totals.recorded != 0;
        let figures = paint.figures(totals.sampled);
        let bytes = |number: u64, most: &str| match known {
            true => Cell::Text(format!("{most}{}", figures.bytes(number))),
            false => Cell::Nothing,
        };
        let after = totals.began_unix_ns.checked_sub(summary.began_unix_ns).filter(|_| totals.began_unix_ns != 0);
        let most = if several { "≤ " } else { "" };
        let lasted_sign = if totals.lasted_at_least { "≥ " } else { most };
        let lasted = totals.lasted_ns.map(|ns| Cell::Text(format!("{lasted_sign}{}", span(ns))));
        let mut end = end_words(totals.end, totals.running);
        if several && totals.end.is_none() && !totals.running {
            "in several ways".clone_into(&mut end);
        }
        if totals.unrecorded != 0 && !known {
            end = format!("{end}, not recorded");
        }
        if totals.errors != 0 {
            end = format!("{end}, {}", counted(totals.errors, "error", "errors"));
        }
        let mut cells = vec![
            Cell::Text(format!("{}{name}", self.branches(index, line, paint))),
            pid.map_or(Cell::Nothing, |one| Cell::Plain(one.pid.into())),
            after.map_or(Cell::Nothing, |ns| Cell::Text(span(ns))),
            lasted.unwrap_or(Cell::Nothing),
            bytes(totals.peak_bytes, most),
            bytes(totals.live_bytes, ""),
            if known { Cell::Count(totals.live_blocks) } else { Cell::Nothing },
        ];
        if summary.totals.inherited.frees != 0 {
            cells.push(inherited_cell(&totals.inherited, paint));
        }
        cells.push(Cell::Text(end));
        cells
    }

    /// The lines of a tree in front of a name. Where lines between it and the next one above are not shown, how many.
    fn branches(&self, index: usize, line: &AlikeProcesses, paint: Paint) -> String {
        const DEPTH_DRAWN: usize = 12;
        let signs = paint.signs();
        let mut parts = Vec::new();
        let (mut at, mut next, mut hidden) = (index, line.parent, 0usize);
        while let Some(parent) = next {
            next = self.lines.get(parent).and_then(|line| line.parent);
            if !self.is_shown(parent) {
                hidden += usize::from(parts.is_empty());
                at = parent;
                continue;
            }
            parts.push(match (parts.is_empty(), self.has_later_sibling(at, parent)) {
                (true, true) => format!("{}{} ", signs.branch, signs.horizontal),
                (true, false) => format!("{}{} ", signs.last, signs.horizontal),
                (false, true) => format!("{}  ", signs.vertical),
                (false, false) => "   ".to_owned(),
            });
            at = parent;
        }
        let deep = parts.len().saturating_sub(DEPTH_DRAWN);
        parts.truncate(DEPTH_DRAWN);
        let more = |number: usize| if number == 0 { String::new() } else { format!("{}{number} ", signs.ellipsis) };
        let drawn: String = parts.iter().rev().map(String::as_str).collect();
        more(deep) + &drawn + &more(hidden)
    }

    fn has_later_sibling(&self, index: usize, parent: usize) -> bool {
        let behind = self.lines.iter().enumerate().skip(index + 1);
        let mut below = behind.take_while(|(_, line)| line.parent.is_some_and(|above| above >= parent));
        below.any(|(later, line)| line.parent == Some(parent) && self.is_shown(later))
    }
}

/// `1,204 (96.1 KiB)`: what was freed of parents' blocks, of how many bytes as far as their ledgers tell.
fn inherited_cell(totals: &InheritedTotals, paint: Paint) -> Cell {
    let figures = paint.exact_figures();
    match (totals.frees, totals.blocks) {
        (0, _) => Cell::Nothing,
        (frees, 0) => Cell::Text(count(frees)),
        (frees, _) => Cell::Text(format!("{} ({})", count(frees), figures.bytes(totals.bytes))),
    }
}
