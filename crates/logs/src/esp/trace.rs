//! `heap_trace_dump`: the texts of ESP-IDF from 4.2 on, in whatever a monitor has made of them.
//!
//! Lines are not believed to be whole lines: what is looked for may stand anywhere in one, because time stamps stand in front,
//! and because texts are copied out of pages that have joined their lines.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::words::{around, decimal, decimal_before, frames, hex};

/// A block as the dump shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TracedBlock {
    pub(super) size: u64,
    pub(super) address: u64,
    /// `Internal`, `PSRAM`, or nothing.
    pub(super) memory: Memory,
    pub(super) core: u8,
    pub(super) cycles: u32,
    pub(super) frames: Vec<u64>,
    /// It was freed, as the same line says.
    pub(super) freed: bool,
}

/// Which memory a block lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Internal,
    Psram,
    Unsaid,
}

impl Memory {
    pub(super) const ALL: [Memory; 3] = [Memory::Internal, Memory::Psram, Memory::Unsaid];

    pub(super) fn name(self) -> &'static str {
        match self {
            Memory::Internal => "Internal",
            Memory::Psram => "PSRAM",
            Memory::Unsaid => "memory that was not told",
        }
    }
}

/// What the end of a dump says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TraceSummary {
    /// Bytes and blocks that are alive.
    pub(super) alive: Option<(u64, u64)>,
    pub(super) records: Option<u64>,
    pub(super) allocations: Option<u64>,
    pub(super) frees: Option<u64>,
    pub(super) overflowed: bool,
    pub(super) doubled: bool,
    pub(super) corrupt: bool,
}

/// A part of a dump.
#[derive(Clone, Debug)]
pub(super) enum DumpPart {
    /// It begins: so many records.
    Begins(u64),
    /// A block.
    Block(TracedBlock),
    /// Something that should have been a block.
    BrokenBlock,
    /// Who freed the last block.
    FreedBy(Vec<u64>),
    /// The summary begins.
    Summary,
    /// A line of it, which sets something.
    Says(fn(&mut TraceSummary, [u64; 2]), [u64; 2]),
    /// It is over.
    Ends,
}

/// What begins a dump.
const HEADER: &str = "====== Heap Trace: ";
const OLD_HEADER: &str = " allocations trace (";
const SUMMARY: &str = "====== Heap Trace Summary ======";
const BLOCK: &str = " bytes (@ ";
const FREED_BY: &str = "freed by 0x";
const END: &str = "================================";

/// Takes the parts of a dump out of a line, in order.
pub(super) fn parts(line: &str, each: &mut dyn FnMut(DumpPart)) {
    let mut rest = line;
    while let Some((at, mark)) = first(rest) {
        let (before, behind) = (rest.get(..at).unwrap_or(""), rest.get(at + mark.len()..).unwrap_or(""));
        rest = behind;
        match mark {
            HEADER => each(DumpPart::Begins(decimal(behind).map_or(0, |(records, _)| records))),
            OLD_HEADER => each(DumpPart::Begins(decimal_before(before).unwrap_or(0))),
            SUMMARY => each(DumpPart::Summary),
            END => each(DumpPart::Ends),
            BLOCK => match block(before, behind) {
                Some((block, behind)) => {
                    each(DumpPart::Block(block));
                    rest = behind;
                }
                None => each(DumpPart::BrokenBlock),
            },
            _ => {
                let (by, behind) = frames(rest_from_hex(line, behind));
                each(DumpPart::FreedBy(by));
                rest = behind;
            }
        }
    }
}

/// `0x` belongs to the mark and to the frames.
fn rest_from_hex<'t>(line: &'t str, behind: &'t str) -> &'t str {
    let at = line.len() - behind.len();
    line.get(at.saturating_sub(2)..).unwrap_or(behind)
}

/// Marks of a dump. Of two at one place the earlier one here is meant.
const MARKS: [&str; 6] = [SUMMARY, HEADER, OLD_HEADER, BLOCK, FREED_BY, END];

/// Finds them; made once.
static FINDER: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(MARKS).ok());

/// The first mark in a text.
fn first(text: &str) -> Option<(usize, &'static str)> {
    if let Some(finder) = &*FINDER {
        let found = finder.find(text)?;
        return Some((found.start(), MARKS.get(found.pattern().as_usize())?));
    }
    MARKS.into_iter().filter_map(|mark| Some((text.find(mark)?, mark))).min_by_key(|(at, _)| *at)
}

/// `6` before, `0x3fc9f620, Internal) allocated CPU 0 ccount 0x1a31ac84 caller 0x40376321:0x40376379` behind.
fn block<'t>(before: &str, behind: &'t str) -> Option<(TracedBlock, &'t str)> {
    let size = decimal_before(before)?;
    let (address, rest) = hex(behind)?;
    let (label, rest) = around(rest, ") allocated CPU ")?;
    let memory = match label.trim_start_matches(',').trim() {
        "" => Memory::Unsaid,
        "Internal" => Memory::Internal,
        "PSRAM" => Memory::Psram,
        _ => return None,
    };
    let (core, rest) = decimal(rest)?;
    let (cycles, rest) = hex(rest.strip_prefix(" ccount ")?)?;
    let (frames, rest) = match rest.strip_prefix(" caller ") {
        Some(rest) => frames(rest),
        None => (Vec::new(), rest),
    };
    let word = rest.trim_start();
    let freed = word.starts_with("freed") && !word.starts_with("freed by");
    let (core, cycles) = (u8::try_from(core).ok()?, u32::try_from(cycles).ok()?);
    Some((TracedBlock { size, address, memory, core, cycles, frames, freed }, rest))
}

/// The lines of the summary.
pub(super) fn says(line: &str, each: &mut dyn FnMut(DumpPart)) {
    type Set = fn(&mut TraceSummary, [u64; 2]);
    let mut number_behind = |mark: &str, set: Set| {
        if let Some((number, _)) = around(line, mark).and_then(|(_, rest)| decimal(rest)) {
            each(DumpPart::Says(set, [number, 0]));
        }
    };
    number_behind("records: ", |summary, [number, _]| summary.records = Some(number));
    for mark in ["total allocations: ", "total allocations "] {
        number_behind(mark, |summary, [number, _]| summary.allocations = Some(number));
    }
    for mark in ["total frees: ", "total frees "] {
        number_behind(mark, |summary, [number, _]| summary.frees = Some(number));
    }
    for mark in [" bytes alive in trace (", " bytes 'leaked' in trace ("] {
        if let Some((before, rest)) = around(line, mark)
            && let (Some(bytes), Some((blocks, _))) = (decimal_before(before), decimal(rest))
        {
            each(DumpPart::Says(|summary, [bytes, blocks]| summary.alive = Some((bytes, blocks)), [bytes, blocks]));
        }
    }
    let mut mark = |text: &str, set: Set| {
        if line.contains(text) {
            each(DumpPart::Says(set, [0; 2]));
        }
    };
    mark("uffer has overflowed, so trace data is incomplete", |summary, _| summary.overflowed = true);
    mark("New entries were traced while dumping", |summary, _| summary.doubled = true);
    mark("Error: heap trace linked list is corrupt", |summary, _| summary.corrupt = true);
}
