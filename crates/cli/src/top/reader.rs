//! The thread that reads the ledger: figures at every interval, all records as often as that is cheap.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use heapledger_analysis::query::Filter;
use heapledger_analysis::watch::{Chooser, Mark, Reader, Sample, Totals};
use heapledger_analysis::{Holders, Identity};
use heapledger_launch::finished;
use heapledger_report::ending_words;
use heapledger_source::{Ledger, SourceError, Tallies};

use crate::commands::NamingArgs;

/// Reading all records takes at most one part in so many of the time.
const PART: u32 = 10;
/// How long after a program's end its finished ledger is looked for, and how often.
const FINISH_PATIENCE: Duration = Duration::from_secs(120);
const FINISH_INTERVAL: Duration = Duration::from_millis(500);
/// Looks without any change before another program in the same process is looked for.
const IDLE_LOOKS: u32 = 2;

/// What the reader is told.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Order {
    /// Everything from now on is young.
    Mark,
    /// No mark any more.
    Unmark,
    /// How often to look.
    Interval(Duration),
    /// Only blocks that this means.
    Where(Filter),
    /// Stop looking, or go on.
    Pause(bool),
}

/// What the reader says.
pub(super) enum Report {
    Totals(Box<Totals>),
    /// All records, and the condition for those that were added up.
    Sample {
        sample: Arc<Sample>,
        mark: Option<Mark>,
        condition: String,
    },
    /// This cannot be done, or means nothing, and why.
    Refused(String),
    /// It has ended, in these words if any are known.
    Ended(String),
    /// It can no longer be read.
    Failed(SourceError),
}

/// Reads until nobody listens any more. `pid`: the ledger was asked for by process.
pub(super) fn read(
    ledger: &Ledger,
    pid: Option<u32>,
    (filter, holders, naming): (Filter, Holders, NamingArgs),
    (began, interval): (Instant, Duration),
    orders: &Receiver<Order>,
    tell: &dyn Fn(Report) -> bool,
) {
    let chooser = match naming.quiet_names(ledger) {
        Ok(names) => Chooser::new(ledger, filter, holders, names),
        Err(problem) => {
            tell(Report::Failed(problem));
            return;
        }
    };
    let reading = Reading {
        ledger,
        pid,
        reader: Reader::new(ledger, began),
        chooser,
        interval,
        mark: None,
        paused: false,
        is_new: true,
        ended: None,
        told: String::new(),
        idle: 0,
        allocations: None,
        last: None,
    };
    if let Err(problem) = reading.go_on(orders, tell) {
        tell(Report::Failed(problem));
        // Orders go on to come and find somebody.
        while orders.recv().is_ok() {}
    }
}

struct Reading<'a> {
    ledger: &'a Ledger,
    pid: Option<u32>,
    reader: Reader<'a>,
    chooser: Chooser<'a>,
    interval: Duration,
    mark: Option<Mark>,
    paused: bool,
    /// Nothing was read yet of the blocks that are meant now.
    is_new: bool,
    ended: Option<Instant>,
    told: String,
    idle: u32,
    allocations: Option<(u64, u64)>,
    /// The last reading, and the totals before it.
    last: Option<(Tallies, Arc<Sample>)>,
}

impl Reading<'_> {
    fn go_on(mut self, orders: &Receiver<Order>, tell: &dyn Fn(Report) -> bool) -> Result<(), SourceError> {
        let mut look_at = Instant::now();
        let mut read_at = look_at;
        loop {
            let now = Instant::now();
            let due = |at: Instant| at <= now;
            if !self.paused && self.ended.is_none() && due(look_at) {
                let totals = self.reader.totals(SystemTime::now())?;
                let running = totals.identity.running;
                self.note_idleness(&totals);
                let told = tell(Report::Totals(Box::new(totals)));
                look_at = now + self.interval;
                if !running {
                    self.ended = Some(now);
                    read_at = now;
                    tell(Report::Ended(ending_words(&self.reader.totals(SystemTime::now())?.identity)));
                }
                if !told {
                    return Ok(());
                }
            }
            if !self.paused && due(read_at) {
                let sample = self.sample()?;
                let took = Duration::from_nanos(sample.took_ns);
                let is_nothing = sample.live.blocks == 0;
                let condition = self.chooser.text();
                if !tell(Report::Sample { sample, mark: self.mark.clone(), condition }) {
                    return Ok(());
                }
                if std::mem::take(&mut self.is_new)
                    && is_nothing
                    && let Some(unknown) = self.chooser.unknown()?.first()
                {
                    tell(Report::Refused(unknown.to_string()));
                }
                read_at = now + self.interval.max(took * PART);
            }
            let next = match self.ended {
                Some(since)
                    if self.told.is_empty() && !self.ledger.is_finished() && since.elapsed() < FINISH_PATIENCE =>
                {
                    self.look_for_ending(tell);
                    Some(now + FINISH_INTERVAL)
                }
                Some(_) => None,
                None if self.paused => None,
                None => Some(look_at.min(read_at)),
            };
            if self.ended.is_some() {
                read_at = now + Duration::from_secs(86_400);
            }
            let order = match next {
                None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(next) => orders.recv_timeout(next.saturating_duration_since(Instant::now())),
            };
            match order {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(order) => {
                    if self.obey(order, tell)? {
                        (look_at, read_at) = (Instant::now(), Instant::now());
                    }
                }
            }
        }
    }

    /// All records, or what was read last if nothing was allocated or freed since before that.
    fn sample(&mut self) -> Result<Arc<Sample>, SourceError> {
        let tallies = self.ledger.tallies()?;
        let last = self.last.take().filter(|(before, sample)| {
            // Ages go on where nothing else does.
            self.chooser.is_all() && *before == tallies && sample.in_flight == 0
        });
        let sample = Arc::new(match last {
            Some((_, sample)) => sample.again(self.reader.now_ns()),
            None => self.chooser.sample(&self.reader, self.mark.as_ref(), SystemTime::now())?,
        });
        self.last = Some((tallies, Arc::clone(&sample)));
        Ok(sample)
    }

    /// Does what it is told; true if that asks for a look at once.
    fn obey(&mut self, order: Order, tell: &dyn Fn(Report) -> bool) -> Result<bool, SourceError> {
        match order {
            Order::Mark => {
                let sample = self.chooser.sample(&self.reader, None, SystemTime::now())?;
                (self.mark, self.last) = (Some(Mark::at(Arc::new(sample))), None);
            }
            Order::Unmark => (self.mark, self.last) = (None, None),
            Order::Where(filter) => match self.chooser.choose(filter) {
                Ok(()) => (self.last, self.is_new) = (None, true),
                Err(problem) => {
                    tell(Report::Refused(problem));
                }
            },
            Order::Interval(interval) => self.interval = interval,
            Order::Pause(paused) => self.paused = paused,
        }
        Ok(!self.paused)
    }

    /// A process may go on as another program: then its ledger does not change any more, and there is a new one.
    fn note_idleness(&mut self, totals: &Totals) {
        let now = (totals.allocations, totals.frees);
        self.idle = if self.allocations == Some(now) { self.idle + 1 } else { 0 };
        self.allocations = Some(now);
        if let Some(pid) = self.pid.filter(|_| self.idle >= IDLE_LOOKS) {
            self.idle = 0;
            if Ledger::open_process(pid).is_ok_and(|other| other.header().id != self.ledger.header().id) {
                self.told = "went on as another program; start top again to see that one".to_owned();
            }
        }
    }

    fn look_for_ending(&mut self, tell: &dyn Fn(Report) -> bool) {
        if let Some(finished) = finished::of(self.ledger) {
            self.told = ending_words(&Identity::of(&finished));
            tell(Report::Ended(self.told.clone()));
        }
    }
}
