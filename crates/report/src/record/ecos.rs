//! Reports in the shape of `ecosmdd`, which eCos users know.
//!
//! The shape has no place for what a report could not see; whoever writes one says that elsewhere.

use std::io::{self, Write};

use heapledger_analysis::{Event, NamedStack};
use heapledger_format::{Entry, Site};
use heapledger_source::SourceError;

use crate::dump::text::address_text;
use crate::form::units::clean;
use crate::record::frames::Context;
use crate::record::frames::place;
use crate::record::written::{self, Record, function, source_line};
use crate::{Form, ReportError, Stacks};

/// Writes records one by one, of live blocks or of what happened, and nothing else.
///
/// ```text
/// 0x000c0f50 : malloc() 13 bytes, actual size 32 (+19), seqno 229605, time 3960
///   By thread 3, 0x000739b0 thread_0
///   1) backtrace 0x00040ed8 function worker2()
///      /tmp/mdd/consume.cxx:393
///      "            allocs[index].data.c    = malloc(size);"
/// ```
pub struct Records<'a> {
    out: &'a mut dyn Write,
    context: &'a Context,
    form: &'a Form,
}

impl<'a> Records<'a> {
    /// Records of that form, [`Form::Ecos`] or [`Form::Lines`], to `out`.
    pub fn new(out: &'a mut dyn Write, context: &'a Context, form: &'a Form) -> Records<'a> {
        Records { out, context, form }
    }

    /// Writes a line that belongs to no record: a heading.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    /// Writes the caution with which a history begins that is not complete, unless the form has none.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn caution(&mut self) -> io::Result<()> {
        match self.form {
            Form::Lines { cautioned: false, .. } => Ok(()),
            _ => self.line("Caution: history is incomplete.\n"),
        }
    }

    /// Writes a live block.
    ///
    /// # Errors
    /// If it cannot be written, or if its stack cannot be read.
    pub fn block(&mut self, block: &Entry, stacks: &mut dyn Stacks) -> Result<(), ReportError> {
        let stack = self.stack(block.site, stacks)?;
        let record = Record::of_block(block, &stack);
        match self.form {
            Form::Lines { template, .. } => written::write(self.out, template, self.context, &record)?,
            _ => {
                let (function, size) = (function(record.by), size(&record));
                let (address, rest) = (address_text(block.address), rest(&record));
                writeln!(self.out, "{address} : {function} {size}{rest}")?;
                by(self.out, self.context, &record)?;
            }
        }
        Ok(())
    }

    /// Writes what happened.
    ///
    /// # Errors
    /// If it cannot be written, or if its stack cannot be read.
    pub fn event(&mut self, event: &Event, stacks: &mut dyn Stacks) -> Result<(), ReportError> {
        let stack = self.stack(event.site(), stacks)?;
        let record = Record::of_event(event, &stack);
        match self.form {
            Form::Lines { template, .. } => written::write(self.out, template, self.context, &record)?,
            _ => {
                let (function, size) = (function(record.by), size(&record));
                let freed = if record.freed { " (freed)" } else { "" };
                let (address, rest) = (address_text(event.block.address), rest(&record));
                writeln!(self.out, "{function} {size}: {address}{freed} {rest}")?;
                by(self.out, self.context, &record)?;
            }
        }
        Ok(())
    }

    fn stack(&self, site: Site, stacks: &mut dyn Stacks) -> Result<NamedStack, SourceError> {
        if self.form.needs_stack() { stacks.stack(site) } else { Ok(NamedStack::default()) }
    }
}

fn size(record: &Record<'_>) -> String {
    record.block.size.map_or_else(|| "unknown bytes".to_owned(), |size| format!("{size} bytes"))
}

/// `, actual size 32 (+19), seqno 229605, time 3960`.
fn rest(record: &Record<'_>) -> String {
    let actual = record.block.actual.zip(record.overhead());
    let actual = actual.map(|(actual, more)| format!(", actual size {actual} (+{more})")).unwrap_or_default();
    let time = record.time.map(|ticks| format!(", time {ticks}")).unwrap_or_default();
    format!("{actual}, seqno {}{time}", record.number)
}

/// The thread and the stack.
fn by(out: &mut dyn Write, context: &Context, record: &Record<'_>) -> io::Result<()> {
    if let Some(row) = record.thread {
        match context.threads.get(&row) {
            Some(thread) => writeln!(out, "  By thread {row}, {:#010x} {}", thread.handle, clean(&thread.name))?,
            None => writeln!(out, "  By thread {row}")?,
        }
    }
    for (index, frame) in written::levels(record.stack).enumerate() {
        let level = format!("{})", index + 1);
        let address = frame.address.unwrap_or(0);
        match &frame.function {
            Some(name) => writeln!(out, "  {level} backtrace {address:#010x} function {}", clean(name))?,
            None => writeln!(out, "  {level} backtrace return address {address:#010x}")?,
        }
        let pad = level.len() + 2;
        if let Some(place) = place(frame) {
            writeln!(out, "{:pad$} {place}", "")?;
        }
        if let Some(source) = &frame.source {
            writeln!(out, "{:pad$} \"{}\"", "", source_line(source))?;
        }
    }
    Ok(())
}

/// One of the two ledgers that `diff` compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EcosSide {
    /// What it is called.
    pub name: String,
    /// Live blocks.
    pub blocks: u64,
    /// Bytes asked for in them.
    pub bytes: u64,
}

/// Writes with what `diff` begins. Behind it come the new blocks under [`diff_new`], and those that are gone under
/// [`diff_gone`].
///
/// # Errors
/// If it cannot be written.
pub fn diff_head(mut out: impl Write, sides: [&EcosSide; 2], new: u64, gone: u64) -> io::Result<()> {
    for side in sides {
        let (name, kib) = (clean(&side.name), side.bytes / 1024);
        writeln!(out, "File {name} : {kib}K ({} bytes) used in {} allocations.", side.bytes, side.blocks)?;
    }
    let [first, second] = sides.map(|side| clean(&side.name));
    writeln!(out, "{new} new allocations in {second} but not in {first}")?;
    writeln!(out, "{gone} allocations in {first} but freed in {second}\n")
}

/// The heading of the blocks that only the second ledger has.
pub fn diff_new(sides: [&EcosSide; 2]) -> String {
    let [first, second] = sides.map(|side| clean(&side.name));
    format!("New allocations in {second} but not in {first}")
}

/// The heading of the blocks that only the first ledger has.
pub fn diff_gone(sides: [&EcosSide; 2]) -> String {
    let [first, second] = sides.map(|side| clean(&side.name));
    format!("Allocations in {first} but freed in {second}")
}
