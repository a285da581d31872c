//! A process that runs, compared with itself by call stack.

use std::time::SystemTime;

use anyhow::Result;
use heapledger_analysis::diff::{Census, Diff, Keep, moment_unix_ns};
use heapledger_analysis::query::Evaluator;
use heapledger_analysis::{Names, Seen};
use heapledger_report::{Compared, DiffReport, DiffSide};

use super::{Followed, INTERVAL_STACKS, now_unix_ns};
use crate::commands::diff::DiffArgs;
use crate::commands::diff::stacks::{STACKS, by_side, name};
use crate::commands::present::Steps;
use crate::commands::{Opened, Progress};

/// What lived at a moment.
struct StacksRead {
    census: Census,
    unix_ns: Option<u64>,
}

/// A process whose stacks are compared.
pub(in crate::commands::diff) struct StacksFollowed<'a> {
    args: &'a DiffArgs,
    opened: &'a Opened,
    filter: Evaluator<'a>,
    names: [Names<'a>; 2],
    first: StacksRead,
    last: Option<StacksRead>,
}

impl<'a> StacksFollowed<'a> {
    /// Begins with what lives now.
    pub(in crate::commands::diff) fn begin(args: &'a DiffArgs, opened: &'a Opened) -> Result<StacksFollowed<'a>> {
        let ledger = &opened.ledger;
        let mut filter = args.filter_for(opened, opened)?;
        let names = [args.names(ledger)?, args.names(ledger)?];
        let mut progress = Progress::new("reading");
        let unix_ns = moment_unix_ns(ledger, SystemTime::now());
        filter.prepare_blocks(&mut |_| ())?;
        let census = Census::of(ledger, Some(&mut filter), Keep::Numbers, &mut |part| progress.show(part))?;
        Ok(StacksFollowed { args, opened, filter, names, first: StacksRead { census, unix_ns }, last: None })
    }

    /// Hands out the comparison with what lived at one moment.
    fn report(
        &mut self,
        diff: &Diff,
        moments: [Option<u64>; 2],
        limit: usize,
        seen: Option<Seen>,
        show: impl FnOnce(&mut DiffReport<'_>) -> Result<()>,
    ) -> Result<()> {
        let (args, opened) = (self.args, self.opened);
        name(args, &mut self.names, diff, limit)?;
        let seen = seen.map_or_else(|| Seen::of(&opened.ledger, 0), Ok)?;
        let sides = moments.map(|unix_ns| DiffSide { ledger: &opened.context.ledger, unix_ns, peak_error: None });
        let filter = Some(self.filter.text()).filter(|_| !self.filter.is_all());
        let compared = Compared { diff, sides, filter, paint: opened.context.paint };
        show(&mut DiffReport { compared, limit, frames: args.frames, names: by_side(&mut self.names), seen })
    }
}

impl Followed for StacksFollowed<'_> {
    fn step(&mut self, is_last: bool, out: &mut Steps<'_>) -> Result<()> {
        let ledger = &self.opened.ledger;
        let now = now_unix_ns(ledger);
        let earlier = self.last.as_ref().unwrap_or(&self.first);
        let moments = [earlier.unix_ns, now];
        self.filter.refresh()?;
        let keep = if is_last { Keep::Sums } else { Keep::Numbers };
        let (diff, census) = Diff::since(&earlier.census, ledger, Some(&mut self.filter), keep, &mut |_| ())?;
        self.last = Some(StacksRead { census, unix_ns: now });
        let limit = self.args.limit(INTERVAL_STACKS);
        self.report(&diff, moments, limit, Some(Seen::default()), |report| out.step(report))
    }

    fn end(mut self, out: Steps<'_>) -> Result<()> {
        let ledger = &self.opened.ledger;
        self.filter.refresh()?;
        let (diff, _) = Diff::since(&self.first.census, ledger, Some(&mut self.filter), Keep::Sums, &mut |_| ())?;
        let moments = [self.first.unix_ns, now_unix_ns(ledger)];
        let limit = self.args.limit(STACKS);
        self.report(&diff, moments, limit, None, |report| out.end(report))
    }
}
