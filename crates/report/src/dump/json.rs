//! Live blocks as JSON, one object a line. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::format::Entry;
use heapledger_analysis::{NamedFrame, NamedStack, Seen, Selection};
use serde::Serialize;

use crate::form::json::{HeaderLine, Hex, ThreadJson, end, frames, heap, line, thread, weight};
use crate::{Context, Ending};

#[derive(Serialize)]
pub(crate) struct BlockLine<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'static str>,
    address: Hex,
    size: Option<u64>,
    actual: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u64>,
    function: String,
    number: u64,
    time_ns: Option<u64>,
    age_ns: Option<u64>,
    thread: Option<ThreadJson<'a>>,
    heap: Option<String>,
    site: u32,
    #[serde(serialize_with = "frames")]
    frames: &'a [NamedFrame],
}

/// Writes the first line of a report of `selection`.
///
/// # Errors
/// If it cannot be written.
pub fn dump_json_header(mut out: impl Write, context: &Context, selection: &Selection) -> io::Result<()> {
    #[derive(Serialize)]
    struct First<'a> {
        #[serde(flatten)]
        header: HeaderLine<'a>,
        r#where: Option<&'a str>,
    }
    let header = HeaderLine::new("dump", &context.ledger, selection.sampled);
    line(&mut out, &First { header, r#where: selection.filter.as_deref() })
}

impl<'a> BlockLine<'a> {
    /// `change` is what became of the block, where that is told.
    pub(crate) fn of(
        context: &'a Context,
        block: &Entry,
        stack: &'a NamedStack,
        change: Option<&'static str>,
    ) -> BlockLine<'a> {
        BlockLine {
            r#type: "block",
            change,
            address: Hex(block.address),
            size: block.size,
            actual: block.actual,
            weight: weight(context, block),
            function: block.kind.to_string(),
            number: block.number,
            time_ns: block.time.and_then(|ticks| context.clock.ns(ticks)),
            age_ns: block.time.and_then(|ticks| context.clock.age_ns(ticks)),
            thread: thread(context, block.thread),
            heap: heap(context, block),
            site: block.site,
            frames: &stack.frames,
        }
    }
}

/// Live blocks as JSON.
pub struct DumpJson<'a, W> {
    out: W,
    context: &'a Context,
}

impl<'a, W: Write> DumpJson<'a, W> {
    /// A report of `selection` to `out`; writes its first line.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut out: W, context: &'a Context, selection: &Selection) -> io::Result<DumpJson<'a, W>> {
        dump_json_header(&mut out, context, selection)?;
        Ok(DumpJson { out, context })
    }

    /// Writes one block.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn block(&mut self, block: &Entry, stack: &NamedStack) -> io::Result<()> {
        line(&mut self.out, &BlockLine::of(self.context, block, stack, None))
    }

    /// Writes the last line.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(mut self, ending: Ending, seen: &Seen) -> io::Result<()> {
        end(&mut self.out, ending, seen)
    }
}
