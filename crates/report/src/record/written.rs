//! A record as a format or `ecosmdd` shows it.

use std::borrow::Cow;
use std::io::{self, Write};

use heapledger_analysis::fields::{Field, Unit};
use heapledger_analysis::query::Subject;
use heapledger_analysis::{Event, EventKind, NamedFrame, NamedStack};
use heapledger_format::{Entry, Kind, LabelId, ThreadRow, Ticks};
use heapledger_source::Thread;

use crate::form::units::clean;
use crate::record::conversions::{Conversion, Format, FormatPart, OfLevel};
use crate::record::frames::{Context, full_name, place};

/// What is written where the ledger does not say.
const UNKNOWN: &str = "?";
/// What is written where the ledger says that there is none: no label, no mark before. As in columns.
const NOTHING: &str = "-";

/// A live block, or one half of its life: what happened, when, by whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) subject: Subject<'a>,
    pub(crate) block: &'a Entry,
    pub(crate) by: Kind,
    pub(crate) number: u64,
    pub(crate) time: Option<Ticks>,
    pub(crate) thread: Option<ThreadRow>,
    pub(crate) freed: bool,
    pub(crate) stack: &'a NamedStack,
}

impl<'a> Record<'a> {
    pub(crate) fn of_block(block: &'a Entry, stack: &'a NamedStack) -> Record<'a> {
        let Entry { number, time, thread, kind: by, .. } = *block;
        Record { subject: Subject::live(block), block, by, number, time, thread, freed: false, stack }
    }

    pub(crate) fn of_event(event: &'a Event, stack: &'a NamedStack) -> Record<'a> {
        let (by, freed) = match &event.kind {
            EventKind::Allocation { freed } => (event.block.kind, freed.is_some()),
            EventKind::Free(entry) => (entry.by, false),
        };
        let (number, time, thread) = (event.number(), event.time(), event.thread());
        Record { subject: Subject::from(event), block: &event.block, by, number, time, thread, freed, stack }
    }

    pub(crate) fn overhead(&self) -> Option<u64> {
        Field::Overhead.figure(&self.subject)
    }
}

/// A function as `ecosmdd` calls it: `malloc()`, `new(nothrow)[]`.
pub(crate) fn function(kind: Kind) -> Cow<'static, str> {
    match kind.name() {
        None => kind.to_string().into(),
        Some(name) if !kind.allocates() && !kind.frees() || kind == Kind::UNSEEN => name.into(),
        Some(name) if name.starts_with("new") || name.starts_with("delete") => match name.split_once("[]") {
            Some((word, rest)) => format!("{word}{rest}[]").into(),
            None => name.into(),
        },
        Some(name) => format!("{name}()").into(),
    }
}

/// What is shown of each level: the innermost line that is not passed over.
pub(crate) fn levels(stack: &NamedStack) -> impl Iterator<Item = &NamedFrame> {
    stack.levels().filter_map(|level| level.iter().find(|frame| !frame.passed_over))
}

/// A source line without what moves the cursor.
pub(crate) fn source_line(text: &str) -> String {
    clean(text.trim_end().replace('\t', "    ").as_str()).into_owned()
}

fn number(out: &mut dyn Write, number: Option<u64>) -> io::Result<()> {
    match number {
        Some(number) => write!(out, "{number}"),
        None => out.write_all(UNKNOWN.as_bytes()),
    }
}

/// Writes a record as a format says, and a line end.
pub(crate) fn write(out: &mut dyn Write, format: &Format, context: &Context, record: &Record<'_>) -> io::Result<()> {
    let levels: Vec<&NamedFrame> = if format.needs_stack() { levels(record.stack).collect() } else { Vec::new() };
    let thread: Option<&Thread> = record.thread.and_then(|row| context.threads.get(&row));
    for part in &format.parts {
        let field = match part {
            FormatPart::Text(text) => {
                out.write_all(text.as_bytes())?;
                continue;
            }
            FormatPart::Conversion(field, _) => *field,
        };
        match field {
            Conversion::Of(field) => match (field.unit(), field.figure(&record.subject)) {
                (Unit::Address, Some(address)) => write!(out, "{address:#010x}")?,
                (Unit::Kind, _) => out.write_all(function(record.by).as_bytes())?,
                _ if field.is_told() => {
                    let is_known = field.unit() != Unit::Label || record.block.label != LabelId::UNKNOWN;
                    let nothing = if is_known { NOTHING } else { UNKNOWN };
                    let text = context.told.text_of(field, &record.subject).unwrap_or(Cow::Borrowed(nothing));
                    out.write_all(clean(&text).as_bytes())?;
                }
                (Unit::Weight, _) => number(out, Some(context.sampling.weight(record.block)))?,
                (_, figure) => number(out, figure)?,
            },
            Conversion::Handle => match thread {
                Some(thread) => write!(out, "{:#010x}", thread.handle)?,
                None => out.write_all(UNKNOWN.as_bytes())?,
            },
            Conversion::ThreadName => {
                let name = thread.map_or(Cow::Borrowed(UNKNOWN), |thread| clean(&thread.name));
                out.write_all(name.as_bytes())?;
            }
            Conversion::Level(of, level) => {
                of_level(out, of, levels.get(level as usize - 1).copied())?;
            }
        }
    }
    out.write_all(b"\n")
}

/// Stacks are shorter than the ledger's limit more often than not. The return address behind the last one is 0, as it
/// is in a target's own records; of nothing else is anything known.
fn of_level(out: &mut dyn Write, of: OfLevel, frame: Option<&NamedFrame>) -> io::Result<()> {
    let text = match (of, frame) {
        (OfLevel::Address, None) => Some("0x00000000".to_owned()),
        (OfLevel::Address, Some(frame)) => frame.address.map(|address| format!("{address:#010x}")),
        (OfLevel::Function, Some(frame)) => Some(full_name(frame)),
        (OfLevel::Place, Some(frame)) => place(frame),
        (OfLevel::Source, Some(frame)) => frame.source.as_deref().map(source_line),
        (_, None) => None,
    };
    out.write_all(text.as_deref().unwrap_or(UNKNOWN).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_called_as_in_ecosmdd() {
        for (kind, name) in [
            (Kind::MALLOC, "malloc()"),
            (Kind::CALLOC, "calloc()"),
            (Kind::REALLOC, "realloc()"),
            (Kind::NEW, "new"),
            (Kind::NEW_ARRAY, "new[]"),
            (Kind::NEW_NOTHROW, "new(nothrow)"),
            (Kind::NEW_ARRAY_NOTHROW, "new(nothrow)[]"),
            (Kind::NEW_ARRAY_ALIGN_NOTHROW, "new(align,nothrow)[]"),
            (Kind::FREE, "free()"),
            (Kind::DELETE, "delete"),
            (Kind::DELETE_ARRAY, "delete[]"),
            (Kind::DELETE_ARRAY_SIZED, "delete(size)[]"),
            (Kind::UNSEEN, "unseen free"),
            (Kind(60), "kind 60"),
        ] {
            assert_eq!(function(kind), name);
        }
    }
}
