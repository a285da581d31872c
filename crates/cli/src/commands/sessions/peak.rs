//! What lived in the processes of a session when all together had most.

use std::collections::HashMap;

use anyhow::Result;
use heapledger_analysis::query::Evaluator;
use heapledger_analysis::tree::{SiteSums, Threads};
use heapledger_analysis::{FamilyCurve, FamilyNote};
use heapledger_format::Ticks;
use heapledger_source::{Family, Ledger, Member};

use super::went_on;
use crate::commands::standard::Usage;

/// Where a process is known to have held so much, and this part of it is missing, its history does not reach back: the clock of the
/// recorder goes in steps, and `run` needs a while to look at all of them.
const MISSING_PART: u64 = 100;

/// The moment at which the processes of a session together had the most that `run` saw, and what is found of it.
pub(crate) struct SessionPeak {
    at_unix_ns: u64,
    at_ns: u64,
    processes: u64,
    live_bytes: u64,
    /// What those that held most held, by number and start.
    most: HashMap<(u32, u64), u64>,
    known_bytes: u64,
    too_late: u64,
}

impl SessionPeak {
    /// That of a session.
    ///
    /// # Errors
    /// If `run` never looked at all of them.
    pub(crate) fn of(family: &Family) -> Result<SessionPeak> {
        let curve = FamilyCurve::of(family);
        let Some(moment) = curve.peak() else {
            return Err(Usage::new("--at session-peak: nobody looked at all processes of the session together").into());
        };
        Ok(SessionPeak {
            at_unix_ns: moment.at_unix_ns,
            at_ns: curve.at_ns(moment),
            processes: moment.processes.into(),
            live_bytes: moment.live_bytes,
            most: moment.most.iter().map(|(pid, start, bytes)| ((*pid, *start), *bytes)).collect(),
            known_bytes: 0,
            too_late: 0,
        })
    }

    /// The moment by the clock of a ledger; `None` if its program was not there then.
    fn in_ticks(&self, member: &Member, ledger: &Ledger) -> Option<Ticks> {
        let header = ledger.header();
        if member.process.ended_unix_ns.is_some_and(|ended| ended < self.at_unix_ns) {
            return None;
        }
        let since_ns = self.at_unix_ns.checked_sub(header.start_unix_ns).filter(|_| header.start_unix_ns != 0)?;
        since_ns.checked_div(header.tick_ns.into()).map(Ticks)
    }

    fn add_up(
        &mut self,
        member: &Member,
        ledger: &Ledger,
        threads: Threads,
        filter: &mut Evaluator<'_>,
    ) -> Result<SiteSums> {
        let Some(at) = self.in_ticks(member, ledger) else { return Ok(SiteSums::default()) };
        let sums = SiteSums::living_at(ledger, threads, Some(filter), at)?;
        let known = sums.total.live_bytes;
        self.known_bytes = self.known_bytes.saturating_add(known);
        let held = self.most.get(&(member.process.pid, member.process.start_ticks));
        let is_short = held.is_none_or(|held| held.saturating_sub(known) > held / MISSING_PART);
        self.too_late += u64::from(sums.frees_missing > 0 && is_short);
        Ok(sums)
    }

    /// What is to be said of it, when all ledgers were added up.
    pub(crate) fn note(&self) -> FamilyNote {
        FamilyNote::SessionPeak {
            at_ns: self.at_ns,
            processes: self.processes,
            live_bytes: self.live_bytes,
            known_bytes: self.known_bytes,
            too_late: self.too_late,
        }
    }
}

/// What is to be shown of one process: what lives, or what lived when the session had most.
///
/// # Errors
/// If its ledger can no longer be read.
pub(crate) fn added_up(
    peak: Option<&mut SessionPeak>,
    member: &Member,
    ledger: &Ledger,
    threads: Threads,
    filter: &mut Evaluator<'_>,
) -> Result<SiteSums> {
    if let Some(peak) = peak {
        return peak.add_up(member, ledger, threads, filter);
    }
    let mut sums = SiteSums::of(ledger, threads, Some(filter), &mut |_| ())?;
    if went_on(member) {
        sums.end_all();
    }
    Ok(sums)
}
