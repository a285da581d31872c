//! What became of the blocks between two ledgers, as text.

use std::io::{self, Write};

use heapledger_analysis::Estimate;
use heapledger_analysis::diff::{Change, ChangeKind, OnlyHere};
use heapledger_analysis::{NamedFrame, NamedStack, Sampled, Seen};

use super::{Compared, DiffReport, add_notes};
use crate::form::fit::{Fit, width};
use crate::form::notes;
use crate::form::units::{Figures, Paint, clean, count, counted, growth_counted, moment, span};
use crate::record::frames::{callers, from_holder, name_of, place};
use crate::{ReportError, Stacks};

/// Frames of a stack that are shown to a person who did not say how many.
const FRAMES: usize = 5;
/// Columns before what belongs to a change.
const INDENT: usize = 4;
/// Widest column of functions.
const FUNCTION_WIDTH: usize = 44;

/// The samples of both ledgers together.
pub(super) fn sampled_in_all(both: [Option<Sampled>; 2]) -> Option<Sampled> {
    let all = both.into_iter().flatten();
    all.reduce(|one, other| Sampled { samples: one.samples + other.samples, ..one })
}

/// Writes a comparison, alone or behind so many intervals.
///
/// ```text
/// A         : redis.0.hl, 1.46 MiB (1,532,048 B) in 2,543 blocks
/// B         : redis.1.hl, 1.51 MiB (1,588,769 B) in 2,683 blocks, 10.0 s later
/// New       : 231 blocks, 71.2 KiB, in B but not in A
/// Freed     : 91 blocks, 15.8 KiB, in A but freed in B
/// Growth    : +55.4 KiB (+56,721 B), +140 blocks; by number, within one run
///
/// Grown     : 3 stacks, +60.1 KiB
/// +48.0 KiB  +100 blocks  createObject (object.c:44) < lpushCommand < call
///     62.0 KiB in 130 blocks now, 14.0 KiB in 30 blocks before; 120 new, 20 freed
///     1) createObject  object.c:44
///     2) lpushCommand  t_list.c:391
/// ```
pub(super) fn write(report: &mut DiffReport<'_>, out: &mut dyn Write, intervals: u64) -> Result<(), ReportError> {
    let diff = report.compared.diff;
    let mut text = DiffText::new(out, &report.compared);
    if intervals == 0 {
        text.filter()?
    } else {
        text.line("In all:")?
    }
    text.totals()?;
    let lists = diff.largest(report.limit);
    for (heading, list, sum) in [("Grown", &lists[0], diff.growth()), ("Shrunk", &lists[1], diff.shrinkage())] {
        if list.is_empty() {
            continue;
        }
        text.list(heading, sum, list)?;
        for change in list {
            let stack = stack(&mut report.names, change)?;
            text.change(change, &stack)?;
            text.details(change, &stack, report.frames)?;
        }
        let bytes = list.iter().map(|change| change.bytes()).fold(0, i64::saturating_add);
        if let left @ 1.. = sum.0 - list.len() as u64 {
            text.left_out(left, sum.1.saturating_sub(bytes))?;
        }
    }
    if diff.changes.is_empty() {
        text.line("\nNo stack holds more or less than before.")?;
    }
    add_notes(&mut report.seen, &mut report.names);
    Ok(text.end(&report.seen)?)
}

/// Writes what grew in an interval, which has this number: a line, and a line for each stack.
pub(super) fn interval(report: &mut DiffReport<'_>, out: &mut dyn Write, number: u64) -> Result<(), ReportError> {
    let Compared { diff, sides, .. } = report.compared;
    let mut text = DiffText::new(out, &report.compared);
    if number == 1 {
        text.filter()?;
    }
    let [from, to] = sides.map(|side| side.unix_ns);
    let length = span(from.zip(to).map_or(0, |(from, to)| to.saturating_sub(from)));
    let when = to.map(moment).unwrap_or_default();
    let mark = if diff.is_estimated() { "~" } else { "" };
    let blocks = |amount: Option<Estimate>| count(amount.unwrap_or_default().blocks);
    let (new, freed) = (blocks(diff.born), blocks(diff.freed));
    let (bytes, growth) = (text.figures.growth(diff.bytes()), growth_counted(diff.blocks(), "block", "blocks"));
    text.line(&format!("{when}  {bytes}, {mark}{growth} in {length} ({mark}{new} new, {mark}{freed} freed)"))?;
    let lists = diff.largest(report.limit);
    text.align(lists.iter().flatten().copied());
    for change in lists.iter().flatten() {
        let stack = stack(&mut report.names, change)?;
        text.change(change, &stack)?;
        if report.frames.is_some() {
            text.details(change, &stack, report.frames)?;
        }
    }
    Ok(text.line("")?)
}

/// The functions of a change, as the ledger that has it knows them.
pub(super) fn stack(names: &mut [&mut dyn Stacks; 2], change: &Change) -> Result<NamedStack, ReportError> {
    let (side, site) = change.named_by();
    Ok(names[side].stack(site)?)
}

/// A comparison in the making.
pub(super) struct DiffText<'t> {
    pub(super) out: Fit<&'t mut dyn Write>,
    compared: Compared<'t>,
    paint: Paint,
    figures: Figures,
    /// Columns of bytes and blocks.
    widths: [usize; 2],
}

impl<'t> DiffText<'t> {
    pub(super) fn new(out: &'t mut dyn Write, compared: &Compared<'t>) -> DiffText<'t> {
        let (compared, paint) = (*compared, compared.paint);
        let figures = paint.figures(compared.diff.is_estimated());
        DiffText { out: Fit::new(out, paint), compared, paint, figures, widths: [0; 2] }
    }

    /// Writes totals: of both, what is new, what was freed, and by how much it grew.
    pub(super) fn totals(&mut self) -> io::Result<()> {
        let Compared { diff, sides: [a, b], .. } = self.compared;
        if let Some(from) = sampled_in_all(diff.sampled) {
            self.field("Sampled", &self.figures.sampled(from, "of live blocks"))?;
        }
        let later = a.unix_ns.zip(b.unix_ns).map_or_else(String::new, |(a, b)| match b.checked_sub(a) {
            Some(0) => String::new(),
            Some(ns) => format!(", {} later", span(ns)),
            None => format!(", {} earlier", span(a - b)),
        });
        for (name, side, amount, sampled, when) in
            [("A", a, diff.all[0], diff.sampled[0], ""), ("B", b, diff.all[1], diff.sampled[1], later.as_str())]
        {
            let figures = self.paint.figures(sampled.is_some());
            let used = match side.peak_error {
                Some(error) => figures.within_exact(amount.bytes, error),
                None => figures.bytes_with_error(amount.bytes, amount.bytes_error()),
            };
            let blocks = figures.counted(amount.blocks, "block", "blocks");
            self.field(name, &format!("{}, {used} in {blocks}{when}", clean(side.ledger)))?;
        }
        if let Some((born, freed)) = diff.born.zip(diff.freed) {
            let amount = |amount: Estimate| {
                let blocks = self.figures.counted(amount.blocks, "block", "blocks");
                format!("{blocks}, {}", self.figures.bytes(amount.bytes))
            };
            let (born, freed) = (amount(born), amount(freed));
            self.field("New", &format!("{born}, in B but not in A"))?;
            self.field("Freed", &format!("{freed}, in A but freed in B"))?;
        }
        let how = if diff.born.is_some() { "by number, within one run" } else { "by stack, across runs" };
        let (bytes, blocks) = (diff.bytes(), growth_counted(diff.blocks(), "block", "blocks"));
        let growth = self.figures.growth_exact(bytes);
        let text = if self.figures.estimated {
            format!("{growth} ± {}, ~{blocks}", self.figures.known().bytes(diff.bytes_error()))
        } else {
            format!("{growth}, {blocks}")
        };
        self.field("Growth", &format!("{text}; {how}"))?;
        if diff.reversed {
            self.field("Caution", "A is the later of the two: what is new here was freed, and what is freed is new")?;
        }
        Ok(())
    }

    /// Writes which blocks are meant, if not all.
    pub(super) fn filter(&mut self) -> io::Result<()> {
        self.compared.filter.map_or(Ok(()), |filter| self.field("Only", &clean(filter)))
    }

    fn field(&mut self, name: &str, text: &str) -> io::Result<()> {
        let name = self.paint.strong(format!("{name:<10}:"));
        writeln!(self.out, "{name} {}", self.paint.lines(text, 12, 12))
    }

    /// Begins a list: `Grown    : 3 stacks, +60.1 KiB`; the changes that follow are aligned.
    fn list(&mut self, name: &str, (stacks, bytes): (u64, i64), shown: &[&Change]) -> io::Result<()> {
        self.align(shown.iter().copied());
        writeln!(self.out)?;
        self.field(name, &format!("{}, {}", counted(stacks, "stack", "stacks"), self.figures.growth(bytes)))
    }

    /// Makes columns wide enough for these.
    fn align<'c>(&mut self, shown: impl Iterator<Item = &'c Change>) {
        self.widths = shown.fold([0; 2], |widths, change| {
            let [bytes, blocks] = self.columns(change);
            [widths[0].max(bytes.chars().count()), widths[1].max(blocks.chars().count())]
        });
    }

    fn columns(&self, change: &Change) -> [String; 2] {
        let mark = if self.figures.estimated { "~" } else { "" };
        let blocks = growth_counted(change.blocks(), "block", "blocks");
        [self.figures.growth(change.bytes()), format!("{mark}{blocks}")]
    }

    /// Writes the line of a change.
    fn change(&mut self, change: &Change, stack: &NamedStack) -> io::Result<()> {
        let [bytes, blocks] = self.columns(change);
        let [bytes_width, blocks_width] = self.widths;
        let uncertain = if change.is_within_error() {
            format!(" (no more than chance: ± {})", self.figures.known().bytes(change.bytes_error()))
        } else {
            String::new()
        };
        let fill = bytes_width.saturating_sub(bytes.chars().count());
        let bytes = self.paint.strong(bytes);
        let who = self.paint.strong(callers(stack, self.paint));
        writeln!(self.out, "{:fill$}{bytes}  {blocks:>blocks_width$}  {who}{uncertain}", "")
    }

    /// Writes what it was before, and so many frames of its stack.
    fn details(&mut self, change: &Change, stack: &NamedStack, frames: Option<usize>) -> io::Result<()> {
        writeln!(self.out, "{:INDENT$}{}", "", self.paint.lines(&self.history(change), INDENT, INDENT))?;
        self.stack(stack, frames.unwrap_or(FRAMES))
    }

    fn history(&self, change: &Change) -> String {
        let held = |amount: &Estimate| {
            let blocks = self.figures.counted(amount.blocks, "block", "blocks");
            format!("{} in {blocks}", self.figures.bytes(amount.bytes))
        };
        let mut text = match change.kind {
            ChangeKind::New => "new, none before".to_owned(),
            ChangeKind::Gone => format!("{} before, none now", held(&change.before)),
            ChangeKind::Grown | ChangeKind::Shrunk => {
                format!("{} now, {} before", held(&change.after), held(&change.before))
            }
        };
        if let Some((born, freed)) = change.born.zip(change.freed)
            && born.samples != 0
            && freed.samples != 0
        {
            let [born, freed] = [born, freed].map(|amount| self.figures.count(amount.blocks));
            text.push_str(&format!("; {born} new, {freed} freed"));
        }
        if change.stacks > 1 {
            text.push_str(&format!("; {} stacks of the same functions, the largest:", count(change.stacks)));
        }
        text
    }

    fn stack(&mut self, stack: &NamedStack, frames: usize) -> io::Result<()> {
        let limit = if frames == 0 { usize::MAX } else { frames };
        let all = if frames == 0 { stack.frames.as_slice() } else { from_holder(stack) };
        // One frame more is shown rather than a line that says so.
        let shown = if all.len() <= limit.saturating_add(1) { all.len() } else { limit };
        let lines: Vec<FrameLine> = all.iter().take(shown).map(|frame| FrameLine::of(frame, self.paint)).collect();
        let digits = shown.to_string().len() + 1;
        let room = match self.paint.columns {
            0 => usize::MAX,
            columns => columns.saturating_sub(INDENT + digits + 1),
        };
        let usual = |width: &usize| *width <= FUNCTION_WIDTH.min(room / 2);
        let column = lines.iter().map(FrameLine::width).filter(usual).max().unwrap_or(0);
        for (index, frame) in lines.iter().enumerate() {
            let (number, line) = (format!("{})", index + 1), frame.fitted(column, room, self.paint));
            writeln!(self.out, "{:INDENT$}{number:>digits$} {}", "", line.trim_end())?;
        }
        let left = all.len() - shown;
        if left > 0 {
            writeln!(
                self.out,
                "{:INDENT$}{:digits$} … {} (--frames 0 shows all)",
                "",
                "",
                counted(left as u64, "more frame", "more frames")
            )?;
        }
        if stack.damaged {
            writeln!(self.out, "{:INDENT$}(the rest of this stack is damaged)", "")?;
        }
        Ok(())
    }

    /// Says how many changes of a list were left out, and how many bytes these are.
    fn left_out(&mut self, stacks: u64, bytes: i64) -> io::Result<()> {
        let stacks = counted(stacks, "more stack", "more stacks");
        writeln!(self.out, "… and {stacks}, {} (--limit 0 shows all)", self.figures.growth(bytes))
    }

    /// Begins a list of blocks.
    pub(super) fn heading(&mut self, heading: &str) -> io::Result<()> {
        writeln!(self.out, "\n{}", self.paint.strong(self.paint.lines(heading, 0, 2)))
    }

    /// Says how many blocks of a list were left out.
    pub(super) fn blocks_left_out(&mut self, blocks: &OnlyHere) -> io::Result<()> {
        match blocks.left_out() {
            0 if blocks.blocks.is_empty() => writeln!(self.out, "none"),
            0 => Ok(()),
            left => writeln!(self.out, "… and {} more (--limit 0 shows all)", count(left)),
        }
    }

    /// One sentence of any text.
    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", self.paint.lines(text, 0, 2))?;
        self.out.flush()
    }

    /// Writes what the two ledgers could not show.
    pub(super) fn end(mut self, seen: &Seen) -> io::Result<()> {
        notes::write(&mut self.out, seen, self.paint)?;
        self.out.flush()
    }
}

/// A frame of a stack, as it is printed.
struct FrameLine {
    name: String,
    inlined: &'static str,
    place: String,
}

impl FrameLine {
    fn of(frame: &NamedFrame, paint: Paint) -> FrameLine {
        let place = match (place(frame), &frame.module) {
            (Some(place), _) => place,
            (None, Some(module)) if frame.function.is_some() => {
                format!("in {}", clean(module.rsplit('/').next().unwrap_or(module)))
            }
            _ => String::new(),
        };
        FrameLine {
            name: paint.printed(&name_of(frame, paint)).into_owned(),
            inlined: match (frame.inlined, frame.guessed) {
                (true, true) => " (inlined, guessed)",
                (true, false) => " (inlined)",
                (false, true) => " (guessed)",
                (false, false) => "",
            },
            place: paint.printed(&place).into_owned(),
        }
    }

    fn width(&self) -> usize {
        width(&self.name) + self.inlined.len()
    }

    /// The name in a column, and behind it the place. A name that is too long gives up its end, a path its beginning.
    fn fitted(&self, column: usize, room: usize, paint: Paint) -> String {
        let for_place = if self.place.is_empty() { 0 } else { (width(&self.place) + 2).min(room / 2) };
        let for_name = room.saturating_sub(for_place).max(column).saturating_sub(self.inlined.len());
        let name = format!("{}{}", paint.cut(&self.name, for_name), self.inlined);
        let fill = column.saturating_sub(width(&name));
        let place = paint.cut_front(&self.place, room.saturating_sub(width(&name) + fill + 2));
        format!("{name}{:fill$}  {place}", "")
    }
}
