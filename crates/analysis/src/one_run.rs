//! Whether several ledgers tell of one run.

use std::fmt;

use heapledger_format::GlobalCounter;
use heapledger_format::session::process as key;
use heapledger_source::Ledger;

/// Two ledgers that are not of one run, by their places in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOneRun {
    /// One of them.
    pub first: usize,
    /// The other.
    pub second: usize,
    /// Whether they tell of one process that became another program by `exec`.
    pub by_exec: bool,
}

impl fmt::Display for NotOneRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotOneRun { first, second, by_exec } = *self;
        let reason = if by_exec { "of two programs of one process, which called exec" } else { "of different runs" };
        write!(f, "ledgers {} and {} are {reason}", first + 1, second + 1)
    }
}

impl std::error::Error for NotOneRun {}

/// The places of `ledgers` in the order in which they were taken, if all are of one run.
///
/// A recorder gives each ledger an id when it begins; copies of a ledger, and what is made of it, keep it. How far a
/// ledger had got is told by the sequence numbers that it had handed out.
///
/// # Errors
/// If two are not of one run.
pub fn in_order(ledgers: &[Ledger]) -> Result<Vec<usize>, NotOneRun> {
    let Some(one) = ledgers.first() else { return Ok(Vec::new()) };
    for (second, other) in ledgers.iter().enumerate().skip(1) {
        let (a, b) = (one.header(), other.header());
        if (a.id, a.start_unix_ns, a.tick_ns) != (b.id, b.start_unix_ns, b.tick_ns) {
            let session = one.process().get(key::SESSION);
            let by_exec = session.is_some() && session == other.process().get(key::SESSION);
            return Err(NotOneRun { first: 0, second, by_exec });
        }
    }
    let mut order: Vec<usize> = (0..ledgers.len()).collect();
    order.sort_by_key(|place| {
        let ledger = ledgers.get(*place);
        let header = ledger.map(|ledger| ledger.current_header().unwrap_or_else(|_| ledger.header().clone()));
        let figure = |counter| header.as_ref().map_or(0, |header| header.global(counter));
        (figure(GlobalCounter::NextNumber), figure(GlobalCounter::LastTime))
    });
    Ok(order)
}
