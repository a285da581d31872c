//! Totals of a session of several processes.

use std::time::SystemTime;

use anyhow::Result;
use heapledger_analysis::FamilySummary;
use heapledger_report::{FamilyReport, Form};
use heapledger_source::Family;

use super::StatsArgs;
use crate::commands::Progress;
use crate::commands::figure::At;
use crate::commands::standard::Usage;

/// Reading all ledgers once takes about this part of the time, if there are forked processes.
const READ: f32 = 0.7;

/// Shows the tree of processes of `family`, and their sums.
pub(super) fn show(args: &StatsArgs, family: &Family) -> Result<()> {
    let one = "a session as a whole has none; for one process: SESSION:PID";
    if args.filter.parse()?.expr().is_some() {
        return Err(Usage::new(format!("--where and -F choose blocks, of which {one}")).into());
    }
    if args.at == At::Peak {
        return Err(
            Usage::new(format!("--at peak shows call sites, of which {one}; `heapledger tree --at peak`")).into()
        );
    }
    if *args.form.get() == Form::Ecos {
        return Err(Usage::new("--format ecos is of one program: SESSION:PID").into());
    }
    let mut progress = Progress::new("reading");
    let mut summary = FamilySummary::of(family, SystemTime::now(), &mut |part| progress.show(part * READ));
    summary.add_inherited(family, &mut |part| progress.show(READ + part * (1.0 - READ)));
    drop(progress);
    let name = args.ledger.ledger.to_string_lossy();
    let mut report = FamilyReport::new(&name, family, &summary, args.ledger.paint());
    report.all = args.all;
    args.ledger.view.present(args.form.get(), &mut report)
}
