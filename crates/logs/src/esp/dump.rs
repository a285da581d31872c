//! A dump that is being read, and the ledger of it.

use std::collections::BTreeMap;
use std::io;

use heapledger_format::{Entry, FreedEntry, Kind, Site};

use super::trace::{DumpPart, Memory, TraceSummary, TracedBlock};
use crate::counted;
use crate::draft::{Cores, DraftShape, LedgerDraft};

/// Most blocks of a dump: no chip has so many.
const BLOCKS_MAX: usize = 4 << 20;

#[derive(Clone, Copy, Debug)]
struct DumpedBlock {
    size: u64,
    address: u64,
    memory: Memory,
    core: u8,
    cycles: u32,
    site: Site,
    /// Who freed it, if it was freed.
    freed: Option<Site>,
}

/// A dump that is being read.
#[derive(Debug)]
pub(super) struct TraceDump {
    draft: LedgerDraft,
    blocks: Vec<DumpedBlock>,
    /// The line that it begins in.
    pub(super) line: u64,
    /// How many records its first line tells of.
    announced: Option<u64>,
    summary: TraceSummary,
    in_summary: bool,
    ended: bool,
    broken: u64,
    dropped: u64,
}

impl TraceDump {
    /// One that begins in that line.
    pub(super) fn new(line: u64, announced: Option<u64>) -> TraceDump {
        let shape = DraftShape {
            addresses: true,
            heaps: true,
            history: true,
            cores: Cores::OfAllocations,
            ..DraftShape::default()
        };
        TraceDump {
            draft: LedgerDraft::new(shape),
            blocks: Vec::new(),
            line,
            announced,
            summary: TraceSummary::default(),
            in_summary: false,
            ended: false,
            broken: 0,
            dropped: 0,
        }
    }

    /// Takes a part. False if it belongs to another dump.
    pub(super) fn take(&mut self, part: DumpPart) -> bool {
        match part {
            DumpPart::Begins(_) => return false,
            DumpPart::Block(_) | DumpPart::BrokenBlock if self.in_summary => return false,
            DumpPart::Block(block) => self.block(&block),
            DumpPart::BrokenBlock => self.broken += 1,
            DumpPart::FreedBy(frames) => {
                let site = self.draft.stack(&frames);
                if let Some(last) = self.blocks.last_mut() {
                    last.freed = Some(site);
                }
            }
            DumpPart::Summary => self.in_summary = true,
            DumpPart::Says(set, numbers) => set(&mut self.summary, numbers),
            DumpPart::Ends => self.ended |= self.in_summary,
        }
        true
    }

    fn block(&mut self, block: &TracedBlock) {
        if self.blocks.len() >= BLOCKS_MAX {
            self.dropped += 1;
            return;
        }
        let site = self.draft.stack(&block.frames);
        self.blocks.push(DumpedBlock {
            size: block.size,
            address: block.address,
            memory: block.memory,
            core: block.core,
            cycles: block.cycles,
            site,
            freed: block.freed.then_some(Site::NONE),
        });
    }

    /// Whether anything was read that is a dump's own.
    pub(super) fn is_any(&self) -> bool {
        !self.blocks.is_empty()
            || self.announced.is_some() && (self.in_summary || self.summary != TraceSummary::default())
    }

    /// Whether its last line was read.
    pub(super) fn is_over(&self) -> bool {
        self.ended
    }

    /// The block at or before an address: its address and its size.
    pub(super) fn block_before(&self, address: u64) -> Option<(u64, u64, Site)> {
        let before = self.blocks.iter().filter(|block| block.address <= address);
        // Of several at one address the last one counts.
        before.rev().max_by_key(|block| block.address).map(|block| (block.address, block.size, block.site))
    }

    /// The ledger, still to be told of other things.
    pub(super) fn draft(mut self) -> io::Result<LedgerDraft> {
        self.tell();
        let mut heaps: [Option<u8>; 3] = [None; 3];
        for memory in Memory::ALL {
            if self.blocks.iter().any(|block| block.memory == memory) {
                heaps[memory as usize] = self.draft.heap(memory.name(), [u64::MAX, 0], 0);
            }
        }
        // Freed blocks that are not ended yet, by address: their place among the allocations is told by the next block there.
        let mut ending: BTreeMap<u64, (Entry, Site)> = BTreeMap::new();
        for block in std::mem::take(&mut self.blocks) {
            let end = block.address.saturating_add(block.size.max(1));
            let over: Vec<u64> = ending
                .range(..end)
                .rev()
                .take(OVERLAPS)
                .filter(|(address, (entry, _))| address.saturating_add(entry.size.unwrap_or(0).max(1)) > block.address)
                .map(|(address, _)| *address)
                .collect();
            for address in over {
                if let Some(freed) = ending.remove(&address) {
                    Self::end(&mut self.draft, freed)?;
                }
            }
            let entry = Entry {
                number: self.draft.number(),
                address: block.address,
                size: Some(block.size),
                kind: Kind::HEAP_CAPS_MALLOC,
                site: block.site,
                heap: heaps[block.memory as usize],
                core: Some(block.core),
                cycles: Some(block.cycles),
                ..Entry::NONE
            };
            match block.freed {
                None => self.draft.block(&entry)?,
                Some(site) => drop(ending.insert(block.address, (entry, site))),
            }
        }
        for freed in ending.into_values() {
            Self::end(&mut self.draft, freed)?;
        }
        Ok(self.draft)
    }

    fn end(draft: &mut LedgerDraft, (block, site): (Entry, Site)) -> io::Result<()> {
        let number = draft.number();
        let freed = FreedEntry {
            block,
            number,
            later: 0,
            by: Kind::HEAP_CAPS_FREE,
            site,
            thread: None,
            time: None,
            core: None,
        };
        draft.freed(&freed)
    }

    /// What is missing, and where the summary says something else than the records.
    fn tell(&mut self) {
        let live = self.blocks.iter().filter(|block| block.freed.is_none());
        let (bytes, blocks) =
            live.fold((0u64, 0u64), |(bytes, blocks), block| (bytes.saturating_add(block.size), blocks + 1));
        let (records, summary) = (self.blocks.len() as u64, self.summary);
        let mut missing = Vec::new();
        if self.announced.is_none() {
            missing.push("The dump's first line is missing, and perhaps records.".to_owned());
        }
        if let Some(announced) = self.announced.filter(|announced| *announced != records) {
            let are = if records == 1 { "is" } else { "are" };
            missing.push(format!(
                "The dump tells of {}, and {records} {are} there.",
                counted(announced, "record", "records")
            ));
        }
        if let Some((told, told_blocks)) = summary.alive.filter(|alive| *alive != (bytes, blocks)) {
            missing.push(format!(
                "The dump's summary says {told} bytes alive in {}; the records that are there make {bytes} bytes in {blocks}.",
                counted(told_blocks, "block", "blocks")
            ));
        }
        if summary.alive.is_none() {
            missing.push("The dump was cut: its summary is missing.".to_owned());
        }
        if self.broken != 0 {
            missing.push(format!(
                "{} of the dump could not be read, cut by other text.",
                counted(self.broken, "record", "records")
            ));
        }
        if self.dropped != 0 {
            missing.push(format!("{} of the dump found no room.", counted(self.dropped, "record", "records")));
        }
        if summary.overflowed {
            let dropped = summary.allocations.unwrap_or(0).saturating_sub(records);
            missing.push(format!(
                "The trace's buffer overflowed on the device: {} dropped, live blocks perhaps among them.",
                counted(dropped, "record was", "records were")
            ));
        }
        if summary.corrupt {
            missing.push("The device found its list of records damaged while it wrote the dump.".to_owned());
        }
        for sentence in missing {
            self.draft.missing(&sentence);
        }
        if summary.doubled {
            self.draft.remark("Blocks were traced while the dump was written: some may be in it twice.");
        }
        if let (Some(allocations), Some(frees)) = (summary.allocations, summary.frees) {
            self.draft.process("trace_allocations", &allocations.to_string());
            self.draft.process("trace_frees", &frees.to_string());
        }
        if self.blocks.iter().any(|block| block.freed.is_some()) {
            self.draft.remark("A dump does not say when blocks were freed: each free stands before the next block at its address, else at the end.");
        }
    }
}

/// So many freed blocks are looked at that one may lie over.
const OVERLAPS: usize = 64;
