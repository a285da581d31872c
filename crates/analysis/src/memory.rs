//! What the recorder took of the program's machine, and what for.

use heapledger_format::{GlobalCounter, SectionKind};
use heapledger_source::{Ledger, SourceError};

/// Memory of the recorder beside the ledger, by what it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Private {
    /// The address index: from an address to its record.
    pub shadow_bytes: u64,
    /// Hash tables of the call sites.
    pub sites_bytes: u64,
    /// States of threads.
    pub threads_bytes: u64,
    /// Tables of the guard: where its blocks begin and lie.
    pub guard_tables_bytes: u64,
    /// Freed blocks that wait before their memory is used again.
    pub quarantine_bytes: u64,
    /// Everything else.
    pub other_bytes: u64,
}

/// Storage of the ledger while its program ran, by what it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// Records, with the exact figures of huge blocks.
    pub records_bytes: u64,
    /// The history of frees.
    pub history_bytes: u64,
    /// Call sites and code addresses.
    pub sites_bytes: u64,
    /// Everything else: header, threads, modules, totals.
    pub other_bytes: u64,
}

/// What a recording takes. Parts that the ledger does not tell are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Storage of the ledger.
    pub sections: Option<Sections>,
    /// Memory beside it.
    pub private: Option<Private>,
    /// Freed blocks that wait in the guard's quarantine.
    pub quarantine_blocks: u64,
    /// Freed blocks whose pages are closed, and bytes of addresses that these take. There is no memory behind them.
    pub closed: (u64, u64),
    /// Most records that there were at a time: storage is not given back when blocks are freed.
    pub blocks: u64,
    /// States of threads: about as many as there were threads at a time.
    pub thread_states: Option<u64>,
}

impl Memory {
    /// That of `ledger`; `live` blocks were found in it.
    pub(crate) fn of(ledger: &Ledger, live: u64) -> Result<Memory, SourceError> {
        let storage = ledger.storage()?;
        let section = |kind| ledger.section_storage(kind);
        let bytes = |kinds: &[SectionKind]| {
            kinds.iter().try_fold(Some(0u64), |sum, kind| {
                let there = ledger.header().section(*kind).is_some();
                let part = section(*kind)?.map(|storage| storage.bytes).or((!there).then_some(0));
                Ok::<_, SourceError>(sum.zip(part).map(|(sum, part)| sum.saturating_add(part)))
            })
        };
        let records = bytes(&[SectionKind::Records, SectionKind::Wide])?;
        let history = bytes(&[SectionKind::History])?;
        let sites = bytes(&[SectionKind::Sites, SectionKind::Pcs])?;
        let sections = records.zip(history).zip(sites).map(|((records_bytes, history_bytes), sites_bytes)| Sections {
            records_bytes,
            history_bytes,
            sites_bytes,
            other_bytes: [records_bytes, history_bytes, sites_bytes]
                .into_iter()
                .fold(storage.ledger_bytes, u64::saturating_sub),
        });
        let header = ledger.current_header()?;
        let shadow_bytes = header.global(GlobalCounter::ShadowBytes);
        let sites_bytes = header.global(GlobalCounter::SitesPrivateBytes);
        let threads_bytes = header.global(GlobalCounter::ThreadsPrivateBytes);
        let guard_tables_bytes = header.global(GlobalCounter::GuardTablesBytes);
        let quarantine_bytes = header.global(GlobalCounter::GuardWaitingBytes);
        let parts = [shadow_bytes, sites_bytes, threads_bytes, guard_tables_bytes, quarantine_bytes];
        let other_bytes = parts.into_iter().fold(storage.private_bytes.unwrap_or(0), u64::saturating_sub);
        let private = parts.iter().any(|bytes| *bytes != 0).then_some(Private {
            shadow_bytes,
            sites_bytes,
            threads_bytes,
            guard_tables_bytes,
            quarantine_bytes,
            other_bytes,
        });
        // Peaks of a sampled ledger are in blocks, not in records; there, what was handed out must do.
        let slots = section(SectionKind::Records)?.map_or(0, |storage| storage.used);
        let most = if ledger.sample_interval() == 0 { header.global(GlobalCounter::PeakBlocks) } else { slots };
        let thread_states = section(SectionKind::Tallies)?.map(|storage| storage.used);
        let quarantine_blocks = header.global(GlobalCounter::GuardWaitingBlocks);
        let closed = (header.global(GlobalCounter::GuardClosedBlocks), header.global(GlobalCounter::GuardClosedBytes));
        Ok(Memory { sections, private, quarantine_blocks, closed, blocks: most.max(live), thread_states })
    }

    fn per_block(&self, bytes: Option<u64>) -> Option<f64> {
        (self.blocks != 0).then_some(bytes? as f64 / self.blocks as f64)
    }

    /// Bytes of a record, with what is ready for more, for each of the most blocks.
    pub fn record_bytes_per_block(&self) -> Option<f64> {
        self.per_block(self.sections.map(|sections| sections.records_bytes))
    }

    /// Bytes of the address index for each of the most blocks.
    pub fn shadow_bytes_per_block(&self) -> Option<f64> {
        self.per_block(self.private.map(|private| private.shadow_bytes))
    }

    /// Both together.
    pub fn bytes_per_block(&self) -> Option<f64> {
        self.record_bytes_per_block().zip(self.shadow_bytes_per_block()).map(|(record, shadow)| record + shadow)
    }

    /// Bytes of a thread's state.
    pub fn bytes_per_thread(&self) -> Option<f64> {
        let states = self.thread_states.filter(|states| *states != 0)?;
        Some(self.private?.threads_bytes as f64 / states as f64)
    }
}
