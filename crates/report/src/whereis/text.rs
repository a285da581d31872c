//! Where addresses belong, as text.

use std::io::{self, Write};

use heapledger_analysis::query::Subject;
use heapledger_analysis::whereis::{Found, KnownAddress, KnownAddresses};
use heapledger_analysis::{NamedStack, Seen};
use heapledger_format::Entry;

use super::WhereisReport;
use crate::form::fit::Fit;
use crate::form::notes;
use crate::form::units::{Figures, clean, counted, plain_bytes};
use crate::record::frames;
use crate::{Context, ReportError};

/// Writes addresses one by one.
///
/// ```text
/// 0x55d0c0f5a0 is in a live block, 16 B from its start
/// 0x55d0c0f590 : malloc 100 B, actual size 104 (+4), number 7, time 0.001 s, age 3 s
///   By thread 0, 4242 jq
///   1) 0x00040ed8 worker2()
/// Heap      : brk heap
/// Before    : 0x55d0c0f520, calloc 96 B, number 6: ends 8 B before the block
/// After     : 0x55d0c0f600, malloc 24 B, number 9: begins 8 B behind the block
/// ```
pub(super) fn write(report: &mut WhereisReport<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let WhereisReport { context, threads_recorded, places, .. } = *report;
    let mut text = WhereisText { out: Fit::new(out, context.paint), context, threads_recorded, begun: false };
    report.each(|place, stack, lives| text.place(place, stack, lives))?;
    Ok(text.end(places, &report.seen)?)
}

/// A report that is being written.
struct WhereisText<'a, W: Write> {
    out: Fit<W>,
    context: &'a Context,
    threads_recorded: bool,
    begun: bool,
}

impl<'a, W: Write> WhereisText<'a, W> {
    fn field(&mut self, name: &str, text: &str) -> io::Result<()> {
        let heading = self.context.paint.strong(format!("{name:<10}:"));
        writeln!(self.out, "{heading} {}", self.context.paint.lines(&clean(text), 12, 12))
    }

    /// Writes an address: with the stack of its block, and the two stacks of each earlier life.
    fn place(&mut self, place: &KnownAddress, stack: &NamedStack, lives: &[[NamedStack; 2]]) -> io::Result<()> {
        let context = self.context;
        if self.begun {
            writeln!(self.out)?;
        }
        self.begun = true;
        let address = context.paint.strong(format!("{:#x}", place.address));
        let said = match place.found {
            Found::Inside(offset) => format!("is in a live block, {} from its start", plain_bytes(offset)),
            Found::Behind(by) => {
                format!("is in a live block, {} behind the end of what was asked for", plain_bytes(by))
            }
            Found::Freed => "is in no live block; the block that was there is freed".to_owned(),
            Found::Nothing => "is in no block that the ledger knows".to_owned(),
        };
        writeln!(self.out, "{address} {said}")?;
        if let Some(block) = &place.block {
            let time = frames::time_and_age(&context.clock, block.time) + &frames::core(&Subject::live(block));
            let (size, weight) = (frames::size(block), frames::weight(context, block));
            let start = block.address;
            let text = format!("{start:#010x} : {} {size}{weight}, number {}{time}", block.kind, block.number);
            writeln!(self.out, "{}", context.paint.lines(&text, 0, 2))?;
            frames::thread(&mut self.out, context, block.thread, self.threads_recorded)?;
            frames::stack(&mut self.out, stack, context.paint)?;
        }
        self.surroundings(place)?;
        for (index, (life, [begun, ended])) in place.lives.iter().zip(lives).enumerate() {
            let block = &life.block;
            let heading = if index == 0 { "Last life" } else { "Before it" };
            let offset = plain_bytes(place.address.saturating_sub(block.address));
            let size = frames::size(block);
            self.field(heading, &format!("{} {size} at {:#x}, {offset} from its start", block.kind, block.address))?;
            let time = frames::time(&context.clock, block.time) + &frames::core(&Subject::live(block));
            let text = format!("Allocated by {} as number {}{time}", block.kind, block.number);
            writeln!(self.out, "  {}", context.paint.lines(&text, 2, 4))?;
            frames::thread(&mut self.out, context, block.thread, self.threads_recorded)?;
            frames::stack(&mut self.out, begun, context.paint)?;
            let time = frames::time_and_age(&context.clock, life.time) + &frames::core(&Subject::free(life));
            let text = format!("Freed by {} as number {}{time}", life.by, life.number);
            writeln!(self.out, "  {}", context.paint.lines(&text, 2, 4))?;
            frames::thread(&mut self.out, context, life.thread, self.threads_recorded)?;
            frames::stack_of_end(&mut self.out, (Some(life.number), ended), context)?;
        }
        if place.lives_left_out != 0 {
            let left_out = counted(place.lives_left_out, "earlier life", "earlier lives");
            self.field("Earlier", &format!("{left_out} left out (--limit 0 shows all)"))?;
        }
        Ok(())
    }

    fn surroundings(&mut self, place: &KnownAddress) -> io::Result<()> {
        if let Some(heap) = &place.heap {
            let range = if place.block.is_some() { "" } else { ", in its range" };
            self.field("Heap", &format!("{}{range}", heap.name))?;
        }
        if let Some(module) = &place.module {
            let offset = place.address.saturating_sub(module.bias);
            self.field("Module", &format!("{}, at {offset:#x} of it", module.path.display()))?;
        }
        if let Some(mapping) = &place.mapping {
            let name = match (&mapping.stack_of, mapping.name.as_str()) {
                (Some(thread), _) => format!("stack of thread {thread}"),
                (None, "") => "memory without a name".to_owned(),
                (None, name) => name.to_owned(),
            };
            let (low, high) = (mapping.low, mapping.high);
            self.field("Mapping", &format!("{name}, {low:#x} to {high:#x}, {}", mapping.rights))?;
        }
        let what = if place.block.is_some() { "the block" } else { "it" };
        let heap = place.block.and_then(|block| block.heap);
        let is_near = |neighbour: &Entry, distance: u64| {
            distance <= NEAR && heap.zip(neighbour.heap).is_none_or(|(own, other)| own == other)
        };
        let mut any = false;
        if let (Some(before), Some(distance)) = (&place.before, place.distance_before())
            && is_near(before, distance)
        {
            any = true;
            self.field(
                "Before",
                &format!("{}: ends {} before {what}", short(before), far(self.context.paint.exact_figures(), distance)),
            )?;
        }
        if let (Some(after), Some(distance)) = (&place.after, place.distance_after())
            && is_near(after, distance)
        {
            any = true;
            self.field(
                "After",
                &format!(
                    "{}: begins {} behind {what}",
                    short(after),
                    far(self.context.paint.exact_figures(), distance)
                ),
            )?;
        }
        if !any {
            let range = self.context.paint.exact_figures().bytes(NEAR);
            let heap = if heap.is_some() { " of its heap" } else { "" };
            let other = if place.block.is_some() { "other " } else { "" };
            self.field("Near", &format!("no {other}live block{heap} within {range}"))?;
        }
        Ok(())
    }

    /// Writes what is missing, and what was not seen.
    fn end(mut self, places: &KnownAddresses, seen: &Seen) -> io::Result<()> {
        let missing = places.frees_missing;
        if missing != 0 {
            let caution = format!(
                "Caution: {}.",
                notes::missing_frees(notes::MissingFrees {
                    frees: missing,
                    estimated: false,
                    recorded: places.frees_recorded
                })
            );
            writeln!(self.out, "\n{}", self.context.paint.lines(&caution, 0, 2))?;
        }
        notes::write(&mut self.out, seen, self.context.paint)?;
        self.out.flush()
    }
}

/// How far away a neighbour may be. What is farther has nothing to do with an address.
const NEAR: u64 = 1 << 20;

/// A distance: to the byte, which can matter.
fn far(figures: Figures, distance: u64) -> String {
    figures.bytes_exact(distance)
}

/// `0x55d0c0f520, calloc 96 B, number 6`.
fn short(block: &Entry) -> String {
    let size = match block.size {
        Some(size) => plain_bytes(size),
        None => "of unknown size".to_owned(),
    };
    format!("{:#x}, {} {size}, number {}", block.address, block.kind, block.number)
}
