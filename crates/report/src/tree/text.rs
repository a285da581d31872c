//! A call tree, as text.

use std::io::{self, Write};

use heapledger_analysis::tree::{Amounts, LevelKind, Measure, ProcessLevel, SiteSums, TreeNode};
use heapledger_analysis::{FamilyNote, Identity, Note, Seen};

use crate::form::fit::Fit;
use crate::form::notes::{self, part_of_frees};
use crate::form::units::{Figures, Paint, clean, count, counted, percent};

use super::line::{FigureColumns, Line, NAMES_ROOM, fitted, within};
use super::{TreeReport, walk};

/// Said where wrappers are left out.
const WITHOUT_WRAPPERS: &str = "Without libraries' functions and wrappers: --wrappers shows them";

/// What the figures of `measure` are called.
pub fn measure_name(measure: Measure) -> &'static str {
    match measure {
        Measure::LiveBytes => "live bytes",
        Measure::LiveBlocks => "live blocks",
        Measure::AllocatedBytes => "allocated bytes",
        Measure::AllocatedBlocks => "allocated blocks",
        Measure::FreedBytes => "freed bytes",
        Measure::FreedBlocks => "freed blocks",
        Measure::PeakBytes => "peak bytes",
        Measure::PeakBlocks => "peak blocks",
        Measure::TemporaryBytes => "temporary bytes",
        Measure::TemporaryBlocks => "temporary blocks",
    }
}

/// A figure of `measure` as a person reads it.
pub(crate) fn amount(figures: Figures, measure: Measure, value: u64) -> String {
    if measure.is_bytes() { figures.bytes(value) } else { figures.count(value) }
}

/// A part in percent.
pub(crate) fn share(part: u64, whole: u64) -> String {
    percent(if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
}

/// What the figures leave out, if they depend on the history: one sentence.
pub fn history_gap(sums: &SiteSums) -> Option<String> {
    let figures = Figures { estimated: sums.sampled.is_some(), ..Figures::default() };
    (sums.frees_missing != 0).then(|| {
        if sums.is_whole {
            return format!(
                "{} of {} in no sum by call site, and neither in allocated nor in freed figures",
                figures.count(sums.frees_missing),
                figures.counted(sums.frees, "free is", "frees are"),
            );
        }
        if !sums.frees_recorded {
            return format!(
                "freed blocks were not recorded (--history 0): {} in neither allocated nor freed figures",
                figures.counted(sums.frees_missing, "block is", "blocks are")
            );
        }
        format!(
            "the ledger no longer holds {} of {}; these blocks are neither in allocated nor in freed figures",
            figures.count(sums.frees_missing),
            figures.counted(sums.frees, "free", "frees"),
        )
    })
}

/// What a figure is of, if it depends on the history and that does not hold everything.
pub(crate) fn part(sums: &SiteSums, measure: Measure) -> Option<String> {
    let freed_alone = matches!(measure, Measure::FreedBytes | Measure::FreedBlocks);
    part_of_frees(sums.frees_held(), freed_alone).filter(|_| measure.needs_history() && !sums.is_whole)
}

/// What `stats` says of the peak where the blocks that are shown come to something else: a sentence without its end.
pub(crate) fn other_peak(figures: Figures, highest: Option<u64>, bytes: u64) -> Option<String> {
    let highest = highest.filter(|highest| *highest != bytes && !figures.estimated)?;
    let highest = figures.bytes_exact(highest);
    Some(format!(
        "In stats it is {highest}: so much was counted, and here are the blocks that are known of that moment"
    ))
}

/// Whether what is called live did so when all processes of a session had most.
pub(crate) fn is_of_session_peak(seen: &Seen) -> bool {
    let is_peak = |note: &Note| matches!(note, Note::Family(note) if matches!(**note, FamilyNote::SessionPeak { .. }));
    seen.notes.iter().any(is_peak)
}

/// Totals in one line: `8.99 MiB in 171,768 blocks live`.
fn total(figures: Figures, measure: Measure, node: &TreeNode, view: &TreeReport<'_>) -> String {
    let (bytes, blocks) = if measure.is_bytes() { (measure, measure.other()) } else { (measure.other(), measure) };
    let error = view.sums.peak_error;
    let what = match measure {
        Measure::PeakBytes | Measure::PeakBlocks => "at the peak",
        _ if is_of_session_peak(view.seen) => "at the session's peak",
        _ => measure_name(measure).split(' ').next().unwrap_or_default(),
    };
    format!(
        "{} in {} {what}",
        figures.within_exact(node.value(bytes), error.filter(|_| measure.is_of_peak()).unwrap_or(0)),
        figures.counted(node.value(blocks), "block", "blocks")
    )
}

/// The program: `redis-server, pid 4711`.
pub(crate) fn program(identity: &Identity) -> String {
    let name = identity.program.as_deref().unwrap_or("an unknown program");
    match identity.pid {
        Some(pid) => format!("{name}, pid {pid}"),
        None => name.to_owned(),
    }
}

/// What is below a line and not on lines of its own.
#[derive(Clone, Copy, Default)]
struct Rest {
    nodes: u64,
    value: u64,
    other: u64,
}

impl Rest {
    fn add(&mut self, part: &Amounts, measure: Measure) {
        self.nodes += 1;
        self.value = self.value.saturating_add(part.get(measure));
        self.other = self.other.saturating_add(part.get(measure.other()));
    }
}

/// A line that is still to be written.
enum Work {
    Node { id: u32, prefix: String, last: bool, level: usize },
    Own { node: u32, prefix: String, last: bool },
    Rest { rest: Rest, prefix: String, last: bool },
}

struct Tree<'a> {
    view: &'a TreeReport<'a>,
    children: heapledger_analysis::tree::Children,
    figures: Figures,
    whole: u64,
    lines: Vec<Line>,
}

/// Writes the tree.
pub(super) fn write(out: &mut dyn Write, view: &TreeReport<'_>) -> io::Result<()> {
    let TreeReport { tree, measure, paint, .. } = *view;
    let figures = paint.figures(view.sums.sampled.is_some());
    // Names that are wanted whole go beyond the terminal, too.
    let mut out = Fit::new(out, if paint.full_names { Paint { columns: 0, ..paint } } else { paint });
    let lines = |text: String| paint.lines(&text, 0, 2);
    let direction = if tree.inverted { "allocating functions first" } else { "callers first" };
    let threads = match (tree.processes, tree.by_thread) {
        (Some(ProcessLevel::Process), true) => ", by process and thread",
        (Some(ProcessLevel::Process), false) => ", by process",
        (Some(ProcessLevel::Program), true) => ", by program and thread",
        (Some(ProcessLevel::Program), false) => ", by program",
        (None, true) => ", by thread",
        (None, false) => "",
    };
    let ledger = clean(view.ledger);
    let title = lines(format!("{ledger}: call tree of {}, {direction}{threads}", clean(&program(view.identity))));
    match title.strip_prefix(&*ledger) {
        Some(of) => writeln!(out, "{}{of}", paint.strong(&ledger))?,
        // (Folded, or in other letters.)
        None => writeln!(out, "{title}")?,
    }
    let whole = total(figures, measure, &tree.root(), view);
    let part = part(view.sums, measure).map_or_else(String::new, |part| format!(", {part}"));
    writeln!(out, "{}", lines(format!("{whole}{part}")))?;
    if measure.is_of_peak() {
        let bytes = tree.root().value(Measure::PeakBytes);
        if let Some(other) = other_peak(figures, view.sums.peak_highest, bytes) {
            writeln!(out, "{}", lines(other))?;
        }
    }
    if !view.wrappers {
        writeln!(out, "{}", paint.faint(lines(WITHOUT_WRAPPERS.to_owned())))?;
    }
    if let Some(chosen) = &view.sums.filter {
        writeln!(out, "{}", lines(format!("Only where {}", clean(chosen))))?;
    }
    if let Some(from) = view.sums.sampled {
        writeln!(out, "{}", lines(format!("Sampled: {}", figures.sampled(from, "of live and freed blocks"))))?;
    }
    if let Some(gap) = history_gap(view.sums).filter(|_| measure.needs_history()) {
        writeln!(out, "{}", lines(format!("Caution: {gap}")))?;
    }
    writeln!(out)?;
    let whole = tree.root().value(measure);
    if whole == 0 {
        let at_session_peak = is_of_session_peak(view.seen);
        writeln!(out, "{}", if at_session_peak { "Nothing lived at the session's peak." } else { nothing(measure) })?;
    } else {
        let children = tree.children(walk::rank(view));
        let mut made = Tree { view, children, figures, whole, lines: Vec::new() };
        made.fill();
        made.write(&mut out)?;
    }
    notes::write(&mut out, view.seen, paint)?;
    out.flush()
}

fn nothing(measure: Measure) -> &'static str {
    match measure {
        Measure::LiveBytes => "No block of any byte lives.",
        Measure::LiveBlocks => "No block lives.",
        Measure::AllocatedBytes | Measure::AllocatedBlocks => "There is no block.",
        Measure::FreedBytes | Measure::FreedBlocks => "There is no freed block in the history.",
        Measure::PeakBytes | Measure::PeakBlocks => "Nothing lived at the peak.",
        Measure::TemporaryBytes | Measure::TemporaryBlocks => "No block was freed at once.",
    }
}

impl Tree<'_> {
    fn node(&self, id: u32) -> &TreeNode {
        &self.view.tree.nodes[id as usize]
    }

    fn value(&self, id: u32) -> u64 {
        self.node(id).value(self.view.measure)
    }

    /// Those below that hold anything.
    fn below(&self, id: u32) -> &[u32] {
        let all = self.children.of(id);
        // Greatest first: the empty ones are at the end.
        &all[..all.partition_point(|id| self.value(*id) > 0)]
    }

    fn fill(&mut self) {
        let mut work = Vec::new();
        let mut rest = self.push_below(0, "", 1, &mut work);
        // The tree's own head is no line, so what would be its mark gets a line.
        if work.is_empty() && rest.nodes > 0 {
            work.push(Work::Rest { rest: std::mem::take(&mut rest), prefix: String::new(), last: true });
        }
        while let Some(next) = work.pop() {
            match next {
                Work::Node { id, prefix, last, level } => self.line(id, &prefix, last, level, &mut work),
                Work::Own { node, prefix, last } => {
                    let (own, measure) = (self.node(node).own[0], self.view.measure);
                    let text = format!("{} itself", self.name(node));
                    let rest = Rest { nodes: 0, value: own.get(measure), other: own.get(measure.other()) };
                    self.push_line(rest, &prefix, last, vec![text], String::new());
                }
                Work::Rest { rest, prefix, last } => {
                    let text = format!("… {} more", count(rest.nodes));
                    self.push_line(rest, &prefix, last, vec![text], String::new());
                }
            }
        }
    }

    /// One line: the node, and those that are alone below it.
    fn line(&mut self, id: u32, prefix: &str, last: bool, level: usize, work: &mut Vec<Work>) {
        let (chain, beside) = self.chain(id);
        let end = chain.last().copied().unwrap_or(id);
        let names: Vec<String> = chain.iter().map(|id| self.name(*id)).collect();
        let below = format!("{prefix}{}", if last { "  " } else { "│ " });
        let rest = self.push_below(end, &below, level + 1, work);
        // That of the function which is nearest to the allocation.
        let mut tail = self.place(if self.view.tree.inverted { id } else { end });
        if rest.nodes > 0 {
            tail.push_str(&format!("  … {} below", count(rest.nodes)));
        }
        if beside.nodes > 0 {
            let value = amount(self.figures, self.view.measure, beside.value);
            tail.push_str(&format!("  … {} beside, {value}", count(beside.nodes)));
        }
        let total = Rest { nodes: 0, value: self.value(id), other: self.node(id).value(self.view.measure.other()) };
        self.push_line(total, prefix, last, names, tail);
    }

    /// The node and those below it, as long as there is one that holds all. What others hold beside it may be a tenth
    /// of what would get a line.
    fn chain(&self, id: u32) -> (Vec<u32>, Rest) {
        let TreeReport { measure, least, .. } = *self.view;
        let mut chain = vec![id];
        let mut beside = Rest::default();
        let mut end = id;
        if self.view.tree.level(self.node(id)).kind == LevelKind::Process {
            return (chain, beside);
        }
        while let [first, others @ ..] = self.below(end) {
            let mut more = beside;
            let own = self.node(end).own[0];
            if own.get(measure) > 0 {
                more.add(&own, measure);
            }
            others.iter().for_each(|id| more.add(&self.node(*id).total[0], measure));
            if more.value > least / 10 || self.value(*first) < least {
                break;
            }
            beside = more;
            end = *first;
            chain.push(end);
        }
        (chain, beside)
    }

    /// Puts the lines below a node on the pile, the first on top. Returns what gets no line at all.
    fn push_below(&self, id: u32, prefix: &str, level: usize, work: &mut Vec<Work>) -> Rest {
        let TreeReport { measure, least, depth, children: most, .. } = *self.view;
        let below = self.below(id);
        let own = self.node(id).own[0];
        let mut rest = Rest::default();
        let shown_levels = depth == 0 || level <= depth;
        // What a function allocates itself is one of those below it, unless there is nothing else.
        let mut shown: Vec<(Option<u32>, &Amounts)> =
            below.iter().map(|id| (Some(*id), &self.node(*id).total[0])).collect();
        if own.get(measure) > 0 && !below.is_empty() {
            let at = shown.partition_point(|(_, part)| part.get(measure) >= own.get(measure));
            shown.insert(at, (None, &own));
        }
        let room = if most == 0 { usize::MAX } else { most };
        let kept = shown.iter().take(room).take_while(|(_, part)| shown_levels && part.get(measure) >= least).count();
        shown.drain(kept..).for_each(|(_, part)| rest.add(part, measure));
        if kept == 0 {
            return rest;
        }
        if let Some(order) = self.view.order {
            let key = |(child, part): &(Option<u32>, &'_ Amounts)| (**part, self.name(child.unwrap_or(id)));
            let mut keyed: Vec<_> = shown.drain(..).map(|each| (key(&each), each)).collect();
            keyed.sort_by(|(one, _), (other, _)| order.compare((&one.0, &one.1), (&other.0, &other.1)));
            shown.extend(keyed.into_iter().map(|(_, each)| each));
        }
        let nothing_left = rest.nodes == 0;
        if !nothing_left {
            work.push(Work::Rest { rest, prefix: prefix.to_owned(), last: true });
        }
        for (index, (child, _)) in shown.iter().enumerate().rev() {
            let (prefix, last) = (prefix.to_owned(), nothing_left && index + 1 == kept);
            work.push(match child {
                Some(id) => Work::Node { id: *id, prefix, last, level },
                None => Work::Own { node: id, prefix, last },
            });
        }
        Rest::default()
    }

    fn push_line(&mut self, part: Rest, prefix: &str, last: bool, names: Vec<String>, tail: String) {
        let measure = self.view.measure;
        self.lines.push(Line {
            value: amount(self.figures, measure, part.value),
            share: share(part.value, self.whole),
            other: amount(self.figures, measure.other(), part.other),
            prefix: format!("{prefix}{}", if last { "└ " } else { "├ " }),
            names,
            tail,
        });
    }

    fn name(&self, id: u32) -> String {
        let level = self.view.tree.level(self.node(id));
        match level.kind {
            LevelKind::Function => self.view.paint.function(&level.name).into_owned(),
            _ => clean(&level.name).into_owned(),
        }
    }

    /// `  server.c:7105`; where there is no line, the module if it is another than the caller's.
    fn place(&self, id: u32) -> String {
        let (tree, node) = (self.view.tree, self.node(id));
        let short = |path: &str| clean(path.rsplit('/').next().unwrap_or(path)).into_owned();
        let inlined = if node.inlined { " (inlined)" } else { "" };
        if let Some(file) = tree.file(node) {
            let more = if node.several_lines { "…" } else { "" };
            return match node.line {
                Some(line) => format!("{inlined}  {}:{line}{more}", short(file)),
                None => format!("{inlined}  {}", short(file)),
            };
        }
        let level = tree.level(node);
        let above = &tree.level(&tree.nodes[node.parent as usize]).module;
        match &level.module {
            Some(module) if level.kind == LevelKind::Function && Some(module) != above.as_ref() => {
                format!("  in {}", short(module))
            }
            _ => inlined.to_owned(),
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let TreeReport { measure, paint, tree, .. } = *self.view;
        // `live bytes`, `share`, `blocks`: the third is of the same blocks as the first.
        let other = measure_name(measure.other()).rsplit(' ').next().unwrap_or_default();
        let own = match measure_name(measure) {
            // They did: the line above says when.
            live if is_of_session_peak(self.view.seen) => live.rsplit(' ').next().unwrap_or_default(),
            name => name,
        };
        let heads = [own, "share", other];
        let figures = FigureColumns::of(&self.lines, heads, paint);
        writeln!(out, "{}", paint.strong(format!("{}  function", figures.aligned(heads))))?;
        let shown = if self.view.limit == 0 { self.lines.len() } else { self.view.limit.min(self.lines.len()) };
        for line in &self.lines[..shown] {
            let room = if paint.columns == 0 { usize::MAX } else { figures.room(paint).max(NAMES_ROOM) };
            let prefix = within(&line.prefix, room, paint);
            let (names, tail) = fitted(line, tree.inverted, room, paint);
            let tail = if tail.is_empty() { tail } else { paint.faint(tail) };
            writeln!(out, "{}  {prefix}{names}{tail}", figures.aligned(line.figures()))?;
        }
        if let left_out @ 1.. = (self.lines.len() - shown) as u64 {
            writeln!(out, "… and {} (--limit 0 shows all)", counted(left_out, "more line", "more lines"))?;
        }
        if let Some(note) = figures.left_out(heads) {
            writeln!(out, "{}", paint.lines(&note, 0, 2))?;
        }
        Ok(())
    }
}
