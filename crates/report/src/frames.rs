//! Blocks, threads and stacks, as parts of reports.

use std::collections::HashMap;
use std::io::{self, Write};

use heapledger_analysis::format::Entry;
use heapledger_analysis::source::{Heap, Thread};
use heapledger_analysis::{Clock, Holders, NamedFrame, NamedStack, Sampling};

use crate::brief::brief;
use crate::units::{Paint, clean, clock, span};

/// What all blocks of one report have in common.
#[derive(Clone, Debug)]
pub struct Context {
    /// What the ledger is called in the report.
    pub ledger: String,
    /// Its clock.
    pub clock: Clock,
    /// Threads by row.
    pub threads: HashMap<u32, Thread>,
    /// Heaps by row.
    pub heaps: HashMap<u32, Heap>,
    /// How blocks were chosen.
    pub sampling: Sampling,
    /// Whether text is emphasized.
    pub paint: Paint,
}

/// `, stands for ~40,330 blocks`, if blocks were sampled.
pub(crate) fn weight(context: &Context, block: &Entry) -> String {
    if context.sampling.is_on() {
        let figures = context.paint.figures(true);
        format!(", stands for {}", figures.counted(context.sampling.weight(block), "block", "blocks"))
    } else {
        String::new()
    }
}

/// `13 bytes, actual size 24 (+11)`; only `13 bytes` if that is all that is known.
pub(crate) fn size(block: &Entry) -> String {
    let size = match block.size {
        Some(1) => "1 byte".to_owned(),
        Some(size) => format!("{size} bytes"),
        None => "unknown size".to_owned(),
    };
    match block.size.zip(block.actual) {
        Some((asked, actual)) => format!("{size}{}", actual_size(asked, actual)),
        None => size,
    }
}

/// `, actual size 24 (+11)`.
pub(crate) fn actual_size(asked: u64, actual: u64) -> String {
    format!(", actual size {actual} (+{})", actual.saturating_sub(asked))
}

/// `, time 3.960 s, age 12.1 s`, as far as it is known.
pub(crate) fn time(at: &Clock, ticks: Option<u64>, with_age: bool) -> String {
    let Some(ticks) = ticks else { return String::new() };
    match (at.ns(ticks), at.age_ns(ticks)) {
        (Some(ns), Some(age)) if with_age => format!(", time {}, age {}", clock(ns), span(age)),
        (Some(ns), _) => format!(", time {}", clock(ns)),
        (None, _) => format!(", time {ticks} ticks"),
    }
}

/// `  By thread 3, 4242 worker-3`, if threads are recorded.
pub(crate) fn thread(out: &mut dyn Write, context: &Context, row: Option<u32>, recorded: bool) -> io::Result<()> {
    match row {
        Some(row) => match context.threads.get(&row) {
            Some(thread) if thread.name.is_empty() => writeln!(out, "  By thread {row}, {}", thread.id),
            Some(thread) => writeln!(out, "  By thread {row}, {} {}", thread.id, clean(&thread.name)),
            None => writeln!(out, "  By thread {row}"),
        },
        None if recorded => writeln!(out, "  By a thread without a row"),
        None => Ok(()),
    }
}

/// The frames of a stack, numbered by return address: what was inlined into a function is at the same address.
pub(crate) fn stack(out: &mut dyn Write, stack: &NamedStack, paint: Paint) -> io::Result<()> {
    let width = stack.levels().count().to_string().len() + 1;
    let pad = " ".repeat(width);
    let frames = stack.levels().enumerate().flat_map(|(index, level)| {
        let shown = level.iter().filter(|frame| !frame.passed_over).enumerate();
        shown.map(move |(line, frame)| ((line == 0).then_some(index + 1), frame))
    });
    for (level, frame) in frames {
        let number = level.map(|level| format!("{level})")).unwrap_or_default();
        writeln!(out, "  {number:>width$} {}", heading(frame, paint))?;
        if let Some(file) = &frame.file {
            match frame.line {
                Some(line) => writeln!(out, "  {pad} {}:{line}", clean(file))?,
                None => writeln!(out, "  {pad} {}", clean(file))?,
            }
        }
        if let Some(source) = &frame.source {
            let text = source.replace('\t', "    ");
            writeln!(out, "  {pad} {}", paint.faint(format!("\"{}\"", clean(text.trim_end()))))?;
        }
    }
    if stack.damaged {
        writeln!(out, "  (the rest of this stack is damaged)")?;
    }
    Ok(())
}

/// `0x7f… function (inlined)`, `0x7f… function+0x12 (in libc.so.6)`, `0x7f… (in libx.so+0x1234)`.
fn heading(frame: &NamedFrame, paint: Paint) -> String {
    let address = frame.address.map_or_else(|| "0x?".to_owned(), |address| format!("{address:#010x}"));
    let module = frame.module.as_deref().map(|path| clean(path.rsplit('/').next().unwrap_or(path)).into_owned());
    match (&frame.function, module) {
        (Some(function), module) => {
            let mut text = format!("{address} {}", paint.strong(clean(function)));
            if let Some(offset) = frame.symbol_offset {
                text.push_str(&format!("+{offset:#x}"));
            }
            if frame.inlined {
                text.push_str(" (inlined)");
            }
            if let Some(module) = module.filter(|_| frame.file.is_none()) {
                text.push_str(&format!(" (in {module})"));
            }
            text
        }
        (None, Some(module)) => format!("{address} (in {module}+{:#x})", frame.offset.unwrap_or(0)),
        (None, None) => format!("{address} (unknown code)"),
    }
}

/// Functions in a line.
const LINE_FRAMES: usize = 3;

/// The innermost frames in one line, from the function that holds the block on: `hash_create (hash.c:7) < main`. What is inside of
/// that are wrappers of `malloc`, which are the same for all. A function and the part of it that the compiler made a
/// function of its own have one name and are one.
pub fn callers(stack: &NamedStack) -> String {
    let holders = Holders::default();
    let wrappers = stack.shown().take_while(|frame| !holders.holds(frame)).count();
    let wrappers = if wrappers == stack.shown().count() { 0 } else { wrappers };
    let mut parts: Vec<String> = Vec::new();
    let mut last = None;
    for frame in stack.shown().skip(wrappers) {
        let name = short_name(frame);
        if last.as_ref() == Some(&name) {
            continue;
        }
        if parts.len() == LINE_FRAMES {
            break;
        }
        let place = frame.file.as_deref().zip(frame.line).filter(|_| parts.is_empty());
        parts.push(match place {
            Some((file, line)) => format!("{name} ({}:{line})", clean(file.rsplit('/').next().unwrap_or(file))),
            None => name.clone(),
        });
        last = Some(name);
    }
    if parts.is_empty() { "code without a stack".to_owned() } else { parts.join(" < ") }
}

/// A function's name without template arguments and parameters, or the next best thing.
pub fn short_name(frame: &NamedFrame) -> String {
    match &frame.function {
        Some(function) => clean(&brief(function)).into_owned(),
        None => full_name(frame),
    }
}

/// A function's name, or the next best thing.
pub(crate) fn full_name(frame: &NamedFrame) -> String {
    let module = frame.module.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
    match (&frame.function, module, frame.offset, frame.address) {
        (Some(function), ..) => clean(function).into_owned(),
        (None, Some(module), Some(offset), _) => format!("{}+{offset:#x}", clean(module)),
        (None, _, _, Some(address)) => format!("{address:#x}"),
        (None, ..) => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(names: &[&str]) -> NamedStack {
        let frame = |name: &&str| NamedFrame {
            address: Some(0x1000),
            function: Some((*name).into()),
            file: Some("/src/hash.c".into()),
            line: Some(7),
            ..NamedFrame::default()
        };
        NamedStack { frames: names.iter().map(frame).collect(), ..NamedStack::default() }
    }

    #[test]
    fn callers_begin_with_who_holds_the_block() {
        for (names, text) in [
            (
                &["zmalloc_usable", "xmalloc", "hash_create", "setup", "main", "_start"][..],
                "hash_create (hash.c:7) < setup < main",
            ),
            (&["hash_create", "main"], "hash_create (hash.c:7) < main"),
            (&["xmalloc", "xcalloc"], "xmalloc (hash.c:7) < xcalloc"),
            (&["xmalloc", "grow", "grow", "main"], "grow (hash.c:7) < main"),
            (&[], "code without a stack"),
        ] {
            assert_eq!(callers(&stack(names)), text);
        }
    }
}
