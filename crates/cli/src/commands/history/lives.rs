//! Every life of an address: `history --addr`.

use anyhow::Result;
use heapledger_analysis::query::Scope;
use heapledger_analysis::{Lives, Seen, Wanted};
use heapledger_report::LivesReport;
use heapledger_source::Ledger;

use super::{HistoryArgs, inherited, names};
use crate::commands::{Opened, Progress, refresh};

/// Shows every life of an address.
pub(super) fn show(args: &HistoryArgs, earlier: &[Ledger], opened: Opened, address: u64) -> Result<()> {
    let Opened { ledger, mut context, threads_recorded } = opened;
    let all: Vec<&Ledger> = earlier.iter().chain([&ledger]).collect();
    let mut filter = args.filter.evaluator(&ledger, context.clock, Scope::Events, args.naming.no_names(&ledger)?)?;
    let limit = args.limit();
    let wanted = Wanted { keys: None, reverse: args.sort.is_reversed(), limit, filter: Some(&mut filter) };
    let mut progress = Progress::new("reading");
    let lives = Lives::of(&all, address, wanted, &mut |part| progress.show(part))?;
    drop(progress);
    refresh(&ledger, &mut context)?;
    let shown = lives.chains.iter().flat_map(|chain| &chain.lives);
    let sites = shown.flat_map(|life| [Some(life.block.site), life.end.map(|end| end.site)]).flatten();
    let mut names = names(args, filter, sites)?;
    if lives.total == 0 {
        args.filter.tell_unknown(&ledger, &mut names)?;
    }
    let seen = Seen::of(&ledger, lives.in_flight)?;
    let mut report =
        LivesReport { context: &context, threads_recorded, address, lives: &lives, names: &mut names, seen };
    args.ledger.view.present(args.form.get(), &mut report)?;
    inherited::tell(&ledger, address)
}
