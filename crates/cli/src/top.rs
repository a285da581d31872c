//! `top`: a ledger that is looked at again and again, on a screen or as text.
//!
//! Who does what: one thread reads the ledger (`reader`), one finds names, the first one shows what these two send, and
//! waits for keys (`screen`). Reading and naming may take as long as they like: the screen never waits for them. What is
//! to be seen is reckoned in `analysis` (`watch`) and put into words in `report` (`top`), for the screen and for `batch`.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use heapledger_analysis::Holders;
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Filter, Scope};
#[cfg(test)]
use heapledger_report::Namer;
use heapledger_report::Paint;
use heapledger_source::Ledger;

use crate::commands::opening::{member_path, mention_others, open_no_log, whole_session};
use crate::commands::standard::Usage;
use crate::commands::{NamingArgs, TopArgs};

mod batch;
mod session;

#[cfg(feature = "tui")]
mod reader;
#[cfg(feature = "tui")]
mod screen;

// The one that the tests of the report are made with.
#[cfg(test)]
#[cfg_attr(not(feature = "tui"), allow(dead_code, reason = "what only the screen needs"))]
#[path = "../../report/src/top/testing.rs"]
mod testing;

/// A ledger that is watched: opened twice, for the thread that reads and for the one that names.
struct Watched {
    reader: Ledger,
    namer: Ledger,
    began: Instant,
    interval: Duration,
    filter: Filter,
    holders: Holders,
    naming: NamingArgs,
    paint: Paint,
}

/// Shows the ledger of `args`, until somebody has seen enough.
pub(crate) fn run(args: &TopArgs) -> Result<()> {
    if args.form.get().is_for_programs() && args.batch.is_none() {
        let (name, _) = args.form.get().words();
        return Err(Usage::new(format!("--{name} needs --batch N: the number of looks to write")).into());
    }
    if whole_session(&args.ledger.ledger, &args.ledger.view.opening.members)?.is_some() {
        let watched = session::WatchedSession::new(args)?;
        return match args.batch {
            Some(looks) => session::batch(watched, looks),
            #[cfg(feature = "tui")]
            None => screen::session::run(watched),
            #[cfg(not(feature = "tui"))]
            None => {
                anyhow::bail!("this heapledger was built without its screen; `heapledger top --batch 1` prints a look")
            }
        };
    }
    let (filter, holders) = (args.filter.parse()?, args.filter.holders()?);
    let target = &args.ledger.ledger;
    let watched = || -> Result<Watched> {
        let opening = &args.ledger.view.opening;
        let member = member_path(target, &opening.members)?;
        let target = member.as_deref().unwrap_or(target);
        let reader = open_no_log(target, opening)?;
        // By its path, a process may have gone on as another program in between.
        let namer = open_no_log(target, opening)?;
        ensure!(reader.header().id == namer.header().id, "the ledger has just been replaced; try again");
        mention_others(&reader, target);
        filter.check(&reader, Scope::Blocks)?;
        args.naming.check(&[&reader])?;
        if args.group_by == Field::Thread {
            Field::Thread.check_in(&reader, Scope::Blocks)?;
        }
        let interval = Duration::from_secs_f64(args.interval);
        // Machines get names whole.
        let full_names = args.ledger.view.full_names || args.form.get().is_for_programs();
        let paint = Paint { full_names, ..args.ledger.paint() };
        let (began, naming) = (Instant::now(), args.naming.clone());
        Ok(Watched { reader, namer, began, interval, filter, holders, naming, paint })
    };
    match args.batch {
        Some(looks) => batch::run(args, &watched()?, looks),
        #[cfg(feature = "tui")]
        None => screen::run(args, watched),
        #[cfg(not(feature = "tui"))]
        None => anyhow::bail!("this heapledger was built without its screen; `heapledger top --batch 1` prints a look"),
    }
}
