//! What became of the blocks between two ledgers, as text.

use std::io::{self, Write};

use heapledger_analysis::Estimate;
use heapledger_analysis::diff::{Change, ChangeKind, Diff, OnlyHere};
use heapledger_analysis::{NamedFrame, NamedStack, Sampled, Seen};
use heapledger_format::Entry;

use crate::Context;
use crate::dump::text::block_text;
use crate::form::fit::{Fit, width};
use crate::form::notes;
use crate::form::units::{Figures, Paint, clean, count, counted, growth_counted, span};
use crate::record::frames::{callers, from_holder, place, short_name};

/// One of the two ledgers.
#[derive(Clone, Copy, Debug)]
pub struct DiffSide<'a> {
    /// What it is called.
    pub ledger: &'a str,
    /// Of what moment it is, in nanoseconds since 1970, if that is known.
    pub unix_ns: Option<u64>,
}

/// Writes a comparison part by part.
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
pub struct DiffText<W: Write> {
    out: Fit<W>,
    paint: Paint,
    figures: Figures,
    /// Frames shown of a stack, 0 for all.
    frames: usize,
    /// Columns of bytes and blocks.
    widths: [usize; 2],
}

/// The samples of both ledgers together.
pub(crate) fn sampled_in_all(both: [Option<Sampled>; 2]) -> Option<Sampled> {
    let all = both.into_iter().flatten();
    all.reduce(|one, other| Sampled { samples: one.samples + other.samples, ..one })
}

/// Columns before what belongs to a change.
const INDENT: usize = 4;
/// Widest column of functions.
const FUNCTION_WIDTH: usize = 44;

impl<W: Write> DiffText<W> {
    /// A report of `diff` to `out`, with so many frames of each stack (0: all).
    pub fn new(out: W, diff: &Diff, frames: usize, paint: Paint) -> DiffText<W> {
        DiffText {
            out: Fit::new(out, paint),
            paint,
            figures: paint.figures(diff.is_estimated()),
            frames,
            widths: [0; 2],
        }
    }

    /// Writes totals: of both, what is new, what was freed, and by how much it grew.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn totals(&mut self, diff: &Diff, [a, b]: [DiffSide<'_>; 2]) -> io::Result<()> {
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
            let used = figures.bytes_with_error(amount.bytes, amount.bytes_error());
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

    /// By how many bytes it grew, as this report writes them.
    pub fn growth(&self, diff: &Diff) -> String {
        self.figures.growth(diff.bytes())
    }

    /// Writes which blocks are meant.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn filter(&mut self, filter: &str) -> io::Result<()> {
        self.field("Only", &clean(filter))
    }

    fn field(&mut self, name: &str, text: &str) -> io::Result<()> {
        let name = self.paint.strong(format!("{name:<10}:"));
        writeln!(self.out, "{name} {}", self.paint.lines(text, 12, 12))
    }

    /// Begins a list: `Grown    : 3 stacks, +60.1 KiB`; the changes that follow are aligned.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn list<'c>(
        &mut self,
        name: &str,
        (stacks, bytes): (u64, i64),
        shown: impl Iterator<Item = &'c Change>,
    ) -> io::Result<()> {
        self.align(shown);
        writeln!(self.out)?;
        self.field(name, &format!("{}, {}", counted(stacks, "stack", "stacks"), self.figures.growth(bytes)))
    }

    /// Makes columns wide enough for these.
    pub fn align<'c>(&mut self, shown: impl Iterator<Item = &'c Change>) {
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

    /// Writes a change: its line, and with `details` what it was before, and the stack.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn change(&mut self, change: &Change, stack: &NamedStack, details: bool) -> io::Result<()> {
        let [bytes, blocks] = self.columns(change);
        let [bytes_width, blocks_width] = self.widths;
        let uncertain = if change.is_within_error() {
            format!(" (no more than chance: ± {})", self.figures.known().bytes(change.bytes_error()))
        } else {
            String::new()
        };
        let fill = bytes_width.saturating_sub(bytes.chars().count());
        let bytes = self.paint.strong(bytes);
        let who = self.paint.strong(callers(stack));
        writeln!(self.out, "{:fill$}{bytes}  {blocks:>blocks_width$}  {who}{uncertain}", "")?;
        if !details {
            return Ok(());
        }
        writeln!(self.out, "{:INDENT$}{}", "", self.paint.lines(&self.history(change), INDENT, INDENT))?;
        self.stack(stack)
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

    fn stack(&mut self, stack: &NamedStack) -> io::Result<()> {
        let limit = if self.frames == 0 { usize::MAX } else { self.frames };
        let all = if self.frames == 0 { stack.frames.as_slice() } else { from_holder(stack) };
        // One frame more is shown rather than a line that says so.
        let shown = if all.len() <= limit.saturating_add(1) { all.len() } else { limit };
        let frames: Vec<FrameLine> = all.iter().take(shown).map(|frame| FrameLine::of(frame, self.paint)).collect();
        let digits = shown.to_string().len() + 1;
        let room = match self.paint.columns {
            0 => usize::MAX,
            columns => columns.saturating_sub(INDENT + digits + 1),
        };
        let usual = |width: &usize| *width <= FUNCTION_WIDTH.min(room / 2);
        let column = frames.iter().map(FrameLine::width).filter(usual).max().unwrap_or(0);
        for (index, frame) in frames.iter().enumerate() {
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
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn left_out(&mut self, stacks: u64, bytes: i64) -> io::Result<()> {
        let stacks = counted(stacks, "more stack", "more stacks");
        writeln!(self.out, "… and {stacks}, {} (--limit 0 shows all)", self.figures.growth(bytes))
    }

    /// Begins a list of blocks.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn blocks(&mut self, heading: &str) -> io::Result<()> {
        writeln!(self.out, "\n{}", self.paint.strong(self.paint.lines(heading, 0, 2)))
    }

    /// Writes one block.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn block(
        &mut self,
        context: &Context,
        threads_recorded: bool,
        block: &Entry,
        stack: &NamedStack,
    ) -> io::Result<()> {
        block_text(&mut self.out, context, threads_recorded, block, stack)
    }

    /// Says how many blocks of a list were left out.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn blocks_left_out(&mut self, blocks: &OnlyHere) -> io::Result<()> {
        match blocks.left_out() {
            0 if blocks.blocks.is_empty() => writeln!(self.out, "none"),
            0 => Ok(()),
            left => writeln!(self.out, "… and {} more (--limit 0 shows all)", count(left)),
        }
    }

    /// One sentence of any text.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", self.paint.lines(text, 0, 2))?;
        self.out.flush()
    }

    /// Writes what the two ledgers could not show.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(mut self, seen: &Seen) -> io::Result<()> {
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
            name: paint.printed(&short_name(frame)).into_owned(),
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
