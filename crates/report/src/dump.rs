//! Live blocks, as text.

use std::io::{self, Write};

use heapledger_analysis::format::Entry;
use heapledger_analysis::{NamedStack, Seen};

use crate::units::{count, counted};
use crate::{Context, Ending, frames, seen};

/// Writes blocks one by one.
///
/// ```text
/// 0x000c0f50 : malloc 13 bytes, actual size 24 (+11), number 229605, time 3.960 s, age 12.1 s
///   By thread 3, 4242 worker-3
///   1) 0x00040ed8 worker2()
///      /tmp/mdd/consume.cxx:393
///      "            allocs[index].data.c    = malloc(size);"
/// ```
pub struct DumpText<'a, W> {
    out: W,
    context: &'a Context,
    threads_recorded: bool,
    begun: bool,
}

impl<'a, W: Write> DumpText<'a, W> {
    /// A report to `out`.
    pub fn new(out: W, context: &'a Context, threads_recorded: bool) -> DumpText<'a, W> {
        DumpText { out, context, threads_recorded, begun: false }
    }

    /// Writes one block.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn block(&mut self, block: &Entry, stack: &NamedStack) -> io::Result<()> {
        let context = self.context;
        if self.begun {
            writeln!(self.out)?;
        }
        self.begun = true;
        let address = context.paint.strong(format!("{:#010x}", block.address));
        let time = frames::time(&context.clock, block.time, true);
        writeln!(self.out, "{address} : {} {}, number {}{time}", block.kind, frames::size(block), block.number)?;
        frames::thread(&mut self.out, context, block.thread, self.threads_recorded)?;
        frames::stack(&mut self.out, stack, context.paint)
    }

    /// Writes how many there were, and what was not seen.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(mut self, ending: Ending, total_bytes: u64, seen: &Seen) -> io::Result<()> {
        if self.begun {
            writeln!(self.out)?;
        }
        let all = ending.shown + ending.left_out;
        let blocks = counted(all, "block", "blocks");
        let bytes = crate::bytes_exact(total_bytes);
        if all == 0 {
            writeln!(self.out, "No block is allocated.")?;
        } else if ending.left_out == 0 {
            writeln!(self.out, "{blocks}, {bytes}.")?;
        } else {
            let (shown, left_out) = (count(ending.shown), count(ending.left_out));
            writeln!(self.out, "{shown} of {blocks}, {bytes}; {left_out} left out (--limit 0 shows all).")?;
        }
        seen::write(&mut self.out, seen, self.context.paint)?;
        self.out.flush()
    }
}
