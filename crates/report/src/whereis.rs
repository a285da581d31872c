//! Where addresses belong, as text.

use std::io::{self, Write};

use heapledger_analysis::format::Entry;
use heapledger_analysis::whereis::{Found, Place, Places};
use heapledger_analysis::{NamedStack, Seen};

use crate::units::{Figures, clean, counted};
use crate::{Context, frames, seen};

/// Writes addresses one by one.
///
/// ```text
/// 0x55d0c0f5a0 is in a live block, 16 bytes from its start
/// 0x55d0c0f590 : malloc 100 bytes, actual size 104 (+4), number 7, time 0.001 s, age 3 s
///   By thread 0, 4242 jq
///   1) 0x00040ed8 worker2()
/// Heap      : brk heap
/// Before    : 0x55d0c0f520, calloc 96 bytes, number 6: ends 8 bytes before the block
/// After     : 0x55d0c0f600, malloc 24 bytes, number 9: begins 8 bytes behind the block
/// ```
pub struct WhereisText<'a, W> {
    out: W,
    context: &'a Context,
    threads_recorded: bool,
    begun: bool,
}

fn bytes_of(number: u64) -> String {
    counted(number, "byte", "bytes")
}

impl<'a, W: Write> WhereisText<'a, W> {
    /// A report to `out`.
    pub fn new(out: W, context: &'a Context, threads_recorded: bool) -> WhereisText<'a, W> {
        WhereisText { out, context, threads_recorded, begun: false }
    }

    fn field(&mut self, name: &str, text: &str) -> io::Result<()> {
        let heading = self.context.paint.strong(format!("{name:<10}:"));
        writeln!(self.out, "{heading} {}", clean(text))
    }

    /// Writes an address: with the stack of its block, and the two stacks of each earlier life.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn place(&mut self, place: &Place, stack: &NamedStack, lives: &[[NamedStack; 2]]) -> io::Result<()> {
        let context = self.context;
        if self.begun {
            writeln!(self.out)?;
        }
        self.begun = true;
        let address = context.paint.strong(format!("{:#x}", place.address));
        let said = match place.found {
            Found::Inside(offset) => format!("is in a live block, {} from its start", bytes_of(offset)),
            Found::Behind(by) => {
                format!("is in a live block, {} behind the end of what was asked for", bytes_of(by))
            }
            Found::Freed => "is in no live block; the block that was there is freed".to_owned(),
            Found::Nothing => "is in no block that the ledger knows".to_owned(),
        };
        writeln!(self.out, "{address} {said}")?;
        if let Some(block) = &place.block {
            let time = frames::time(&context.clock, block.time, true);
            let (size, weight) = (frames::size(block), frames::weight(context, block));
            let start = block.address;
            writeln!(self.out, "{start:#010x} : {} {size}{weight}, number {}{time}", block.kind, block.number)?;
            frames::thread(&mut self.out, context, block.thread, self.threads_recorded)?;
            frames::stack(&mut self.out, stack, context.paint)?;
        }
        self.surroundings(place)?;
        for (index, (life, [begun, ended])) in place.lives.iter().zip(lives).enumerate() {
            let block = &life.block;
            let heading = if index == 0 { "Last life" } else { "Before it" };
            let offset = bytes_of(place.address.saturating_sub(block.address));
            let size = frames::size(block);
            self.field(heading, &format!("{} {size} at {:#x}, {offset} from its start", block.kind, block.address))?;
            let time = frames::time(&context.clock, block.time, false);
            writeln!(self.out, "  Allocated by {} as number {}{time}", block.kind, block.number)?;
            frames::thread(&mut self.out, context, block.thread, self.threads_recorded)?;
            frames::stack(&mut self.out, begun, context.paint)?;
            let time = frames::time(&context.clock, life.time, true);
            writeln!(self.out, "  Freed by {} as number {}{time}", life.by, life.number)?;
            frames::thread(&mut self.out, context, life.thread, self.threads_recorded)?;
            frames::stack(&mut self.out, ended, context.paint)?;
        }
        if place.lives_left_out != 0 {
            let left_out = counted(place.lives_left_out, "earlier life", "earlier lives");
            self.field("Earlier", &format!("{left_out} left out (--limit 0 shows all)"))?;
        }
        Ok(())
    }

    fn surroundings(&mut self, place: &Place) -> io::Result<()> {
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
        if let (Some(before), Some(distance)) = (&place.before, place.distance_before()) {
            self.field(
                "Before",
                &format!("{}: ends {} before {what}", short(before), far(self.context.paint.figures(false), distance)),
            )?;
        }
        if let (Some(after), Some(distance)) = (&place.after, place.distance_after()) {
            self.field(
                "After",
                &format!("{}: begins {} behind {what}", short(after), far(self.context.paint.figures(false), distance)),
            )?;
        }
        Ok(())
    }

    /// Writes what is missing, and what was not seen.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(mut self, places: &Places, seen: &Seen) -> io::Result<()> {
        let missing = places.frees_missing;
        if missing != 0 {
            writeln!(self.out, "\nCaution: {}.", seen::missing_frees(false, missing, places.frees_recorded))?;
        }
        seen::write(&mut self.out, seen, self.context.paint)?;
        self.out.flush()
    }
}

/// A distance: to the byte where that can matter.
fn far(figures: Figures, distance: u64) -> String {
    if distance < 1 << 20 { figures.bytes_exact(distance) } else { figures.bytes(distance) }
}

/// `0x55d0c0f520, calloc 96 bytes, number 6`.
fn short(block: &Entry) -> String {
    let size = match block.size {
        Some(size) => bytes_of(size),
        None => "of unknown size".to_owned(),
    };
    format!("{:#x}, {} {size}, number {}", block.address, block.kind, block.number)
}
