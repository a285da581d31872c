//! What became of the blocks between two ledgers, as JSON. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::Estimate;
use heapledger_analysis::diff::{Change, ChangeKind, Diff};
use heapledger_analysis::{NamedFrame, NamedStack, Sampled, Seen};
use heapledger_format::Entry;
use serde::Serialize;

use crate::diff::text::{DiffSide, sampled_in_all};
use crate::dump::BlockLine;
use crate::form::json::{HeaderLine, StackLines, end, frames, line};
use crate::{Context, Ending};

#[derive(Serialize)]
struct AmountJson {
    blocks: u64,
    bytes: u64,
}

fn amount(amount: &Estimate) -> AmountJson {
    AmountJson { blocks: amount.blocks, bytes: amount.bytes }
}

#[derive(Serialize)]
struct ListJson {
    stacks: u64,
    bytes: i64,
}

fn list((stacks, bytes): (u64, i64)) -> ListJson {
    ListJson { stacks, bytes }
}

/// A comparison as JSON.
pub struct DiffJson<W> {
    out: W,
    stacks: StackLines,
}

impl<W: Write> DiffJson<W> {
    /// Writes the first line: what is compared.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut out: W, [a, b]: [&str; 2], sampled: [Option<Sampled>; 2], filter: Option<&str>) -> io::Result<Self> {
        #[derive(Serialize)]
        struct LedgersCompared<'a> {
            before: &'a str,
            r#where: Option<&'a str>,
        }
        let head = HeaderLine::new("diff", b, sampled_in_all(sampled));
        line(&mut out, &head.with(LedgersCompared { before: a, r#where: filter }))?;
        Ok(DiffJson { out, stacks: StackLines::default() })
    }

    /// Writes the totals. `whole` says whether this is the one comparison, or the last one of a process that was
    /// followed, and not one of its steps.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn totals(&mut self, diff: &Diff, sides: [DiffSide<'_>; 2], whole: bool) -> io::Result<()> {
        #[derive(Serialize)]
        struct SideJson {
            #[serde(flatten)]
            amount: AmountJson,
            bytes_error: u64,
            unix_ns: Option<u64>,
        }
        #[derive(Serialize)]
        struct DiffLine {
            r#type: &'static str,
            one_run: bool,
            reversed: bool,
            before: SideJson,
            after: SideJson,
            new: Option<AmountJson>,
            freed: Option<AmountJson>,
            growth_blocks: i64,
            growth_bytes: i64,
            growth_bytes_error: u64,
            grown: ListJson,
            shrunk: ListJson,
            unchanged_stacks: u64,
        }
        let [before, after] = [0, 1].map(|side: usize| SideJson {
            amount: amount(&diff.all[side]),
            bytes_error: diff.all[side].bytes_error(),
            unix_ns: sides[side].unix_ns,
        });
        let object = DiffLine {
            r#type: if whole { "diff" } else { "interval" },
            one_run: diff.born.is_some(),
            reversed: diff.reversed,
            before,
            after,
            new: diff.born.as_ref().map(amount),
            freed: diff.freed.as_ref().map(amount),
            growth_blocks: diff.blocks(),
            growth_bytes: diff.bytes(),
            growth_bytes_error: diff.bytes_error(),
            grown: list(diff.growth()),
            shrunk: list(diff.shrinkage()),
            unchanged_stacks: diff.unchanged,
        };
        line(&mut self.out, &object)?;
        self.out.flush()
    }

    /// Writes one change.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn change(&mut self, change: &Change, stack: &NamedStack) -> io::Result<()> {
        #[derive(Serialize)]
        struct ChangeLine<'a> {
            r#type: &'static str,
            change: &'static str,
            growth_blocks: i64,
            growth_bytes: i64,
            growth_bytes_error: u64,
            within_error: bool,
            before: AmountJson,
            after: AmountJson,
            new: Option<AmountJson>,
            freed: Option<AmountJson>,
            stacks: u64,
            sites: [Option<u32>; 2],
            #[serde(serialize_with = "frames")]
            frames: &'a [NamedFrame],
        }
        let object = ChangeLine {
            r#type: "change",
            change: match change.kind {
                ChangeKind::New => "new",
                ChangeKind::Grown => "grown",
                ChangeKind::Shrunk => "shrunk",
                ChangeKind::Gone => "gone",
            },
            growth_blocks: change.blocks(),
            growth_bytes: change.bytes(),
            growth_bytes_error: change.bytes_error(),
            within_error: change.is_within_error(),
            before: amount(&change.before),
            after: amount(&change.after),
            new: change.born.as_ref().map(amount),
            freed: change.freed.as_ref().map(amount),
            stacks: change.stacks,
            sites: change.sites,
            frames: &stack.frames,
        };
        line(&mut self.out, &object)
    }

    /// Writes one block that is only in the second ledger (`new`) or only in the first.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn block(&mut self, context: &Context, block: &Entry, stack: &NamedStack, new: bool) -> io::Result<()> {
        self.stacks.given(&mut self.out, block.site, stack)?;
        line(&mut self.out, &BlockLine::of(context, block, Some(if new { "new" } else { "freed" })))
    }

    /// Has all that was written so far seen.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes the last line.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(mut self, ending: Ending, seen: &Seen) -> io::Result<()> {
        end(&mut self.out, ending, seen)
    }
}
