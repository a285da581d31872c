//! A session that goes on, looked at again and again: which processes run, what they hold, and by how much that is more than at the last look.
//! Only counters are read, of those that run: a look at hundreds of processes takes some milliseconds.

use std::collections::HashMap;
use std::path::PathBuf;

use heapledger_format::TallyCounter;
use heapledger_source::{Family, Member, ProcessKey, SourceError};

/// One program of a process in a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessLook {
    /// What names it.
    pub key: ProcessKey,
    /// What it is called.
    pub program: String,
    /// When it began, in nanoseconds since 1970; 0 if nobody knows.
    pub began_unix_ns: u64,
    /// Bytes of blocks that live.
    pub live_bytes: u64,
    /// Such blocks.
    pub live_blocks: u64,
    /// By how many bytes they are more than at the look before; of one that began since, all of them.
    pub growth_bytes: i64,
    /// Blocks allocated since the look before.
    pub allocations: u64,
    /// Whether it runs; else it ended since the look before.
    pub running: bool,
}

/// A look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FamilyLook {
    /// Those that run and those that ended since the look before, most live bytes first.
    pub rows: Vec<ProcessLook>,
    /// Programs that have ended, in all.
    pub ended: u64,
    /// Live bytes of those that run.
    pub live_bytes: u64,
    /// Whether the session goes on.
    pub goes_on: bool,
}

/// What is known from look to look.
#[derive(Debug)]
pub struct FamilyLooks {
    path: PathBuf,
    /// Live bytes and allocations at the last look, of those that ran.
    before: HashMap<ProcessKey, (u64, u64)>,
}

impl FamilyLooks {
    /// Nothing has been looked at yet.
    pub fn new(path: PathBuf) -> FamilyLooks {
        FamilyLooks { path, before: HashMap::new() }
    }

    /// The next look.
    ///
    /// # Errors
    /// If the session's file can no longer be read.
    pub fn look(&mut self) -> Result<FamilyLook, SourceError> {
        let family = Family::open(&self.path)?;
        let mut look = FamilyLook { goes_on: family.is_running(), ..FamilyLook::default() };
        let mut now = HashMap::new();
        for member in &family.members {
            let key = member.process.key();
            let before = self.before.get(&key).copied();
            if !member.is_unended() && before.is_none() {
                look.ended += 1;
                continue;
            }
            // One whose ledger comes or goes just now is there at the next look.
            let Some(row) = read(member, before) else { continue };
            if row.running {
                let allocations = before.map_or(0, |(_, allocations)| allocations).saturating_add(row.allocations);
                now.insert(key, (row.live_bytes, allocations));
                look.live_bytes = look.live_bytes.saturating_add(row.live_bytes);
            } else {
                look.ended += 1;
            }
            if row.running || before.is_some() {
                look.rows.push(row);
            }
        }
        look.rows.sort_by_key(|row| (std::cmp::Reverse(row.live_bytes), row.key));
        self.before = now;
        Ok(look)
    }
}

fn read(member: &Member, before: Option<(u64, u64)>) -> Option<ProcessLook> {
    let ledger = member.open().ok()??;
    let tallies = ledger.tallies().ok()?;
    let get = |counter| tallies.get(counter);
    let left = |all, gone| get(all).saturating_sub(get(gone));
    let live_bytes = left(TallyCounter::BytesAllocated, TallyCounter::BytesFreed);
    let allocations = get(TallyCounter::Allocations);
    let (bytes_before, allocations_before) = before.unwrap_or_default();
    Some(ProcessLook {
        key: member.process.key(),
        program: member.process.program.clone(),
        began_unix_ns: member.process.began_unix_ns,
        live_bytes,
        live_blocks: left(TallyCounter::Allocations, TallyCounter::Frees),
        growth_bytes: live_bytes.cast_signed().wrapping_sub(bytes_before.cast_signed()),
        allocations: allocations.saturating_sub(allocations_before),
        running: ledger.is_running(),
    })
}
