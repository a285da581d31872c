//! What lived in the processes of a session when all together had most.

use std::collections::HashMap;

use anyhow::Result;
use heapledger_analysis::query::Evaluator;
use heapledger_analysis::tree::{SiteSums, Threads};
use heapledger_analysis::{FamilyCurve, FamilyNote};
use heapledger_format::Ticks;
use heapledger_source::{Family, Ledger, Member};

use crate::commands::standard::Usage;

/// Where a process is known to have held so much, and this part of it is missing, its history does not reach back: the clock of the
/// recorder goes in steps, and `run` needs a while to look at all of them.
const MISSING_PART: u64 = 100;

/// A moment of which blocks are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FigureAt {
    /// When the ledger ends; of a running program, now
    End,
    /// When the most bytes lived; of a session, of each process its own
    Peak,
    /// Of a session: when all its processes together had the most that `run` saw
    SessionPeak,
}

impl FigureAt {
    /// Whether what is asked for is of one ledger.
    ///
    /// # Errors
    /// If it is of the moment at which a session had most.
    pub(crate) fn of_one_process(self) -> Result<()> {
        if self == FigureAt::SessionPeak {
            return Err(Usage::new(
                "--at session-peak is of a session of several processes; of one process: --at peak",
            )
            .into());
        }
        Ok(())
    }

    /// The moment at which `family` had most, if it is asked for that.
    ///
    /// # Errors
    /// If nobody looked at all of its processes.
    pub(crate) fn session_peak(self, family: &Family) -> Result<Option<SessionPeak>> {
        (self == FigureAt::SessionPeak).then(|| SessionPeak::of(family)).transpose()
    }
}

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

    /// What lived in one process then.
    ///
    /// # Errors
    /// If its ledger can no longer be read.
    pub(super) fn add_up(
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
