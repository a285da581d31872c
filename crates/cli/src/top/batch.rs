//! Looks as text or for programs, one after the other.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use heapledger_analysis::watch::{Chooser, LookRow, Mark, Reader, Readings, View};
use heapledger_analysis::{Identity, Sampling, Seen};
use heapledger_launch::finished;
use heapledger_report::{Look, LookReport, Namer, ending_words, look_columns, row_label};

use super::Watched;
use crate::commands::TopArgs;
use crate::commands::present::Steps;

/// How long the finished ledger of a program that has just ended is waited for.
const FINISH_PATIENCE: Duration = Duration::from_secs(2);

/// Prints so many looks; 0: until the program ends.
pub(super) fn run(args: &TopArgs, watched: &Watched, looks: u64) -> Result<()> {
    let ledger = &watched.reader;
    let mut readings = Readings::default();
    let reader = Reader::new(ledger, watched.began);
    let mut namer = Namer::new(watched.naming.quiet_names(&watched.namer)?, watched.holders.clone(), watched.paint);
    let names = watched.naming.quiet_names(ledger)?;
    let mut chooser = Chooser::new(ledger, watched.filter.clone(), watched.holders.clone(), names);
    let view = View::new(args.group_by, args.sort);
    let paint = watched.paint;
    let room = if paint.columns == 0 { usize::MAX } else { paint.columns };
    let sampled = Sampling::of(ledger).from(0);
    let name = args.ledger.ledger.to_string_lossy();
    let form = args.form.get();
    let mut out = Steps::new(form, &args.ledger.view);
    let (mut shown, mut found, mut in_flight) = (0, false, 0);
    loop {
        let began = Instant::now();
        let totals = reader.totals(SystemTime::now())?;
        let running = totals.identity.running;
        readings.add_totals(Box::new(totals));
        let sample = Arc::new(chooser.sample(&reader, readings.mark.as_ref(), SystemTime::now())?);
        readings.add_sample(Arc::clone(&sample), &chooser.text());
        if !running && shown > 0 {
            readings.ending = Some(ending(ledger));
        }
        let sites = readings.sites_to_name();
        readings.names.add(namer.sites(&sites)?);
        let table = readings.table(&view, &|id| row_label(&readings, id));
        let look = Look::of(&readings, view.by, table.len(), args.ledger.view.bytes);
        found |= look.chosen.blocks != 0;
        in_flight += sample.in_flight;
        shown += 1;
        let is_last = shown == looks || !running;
        let limit = if args.limit == 0 { usize::MAX } else { args.limit };
        let rows: Vec<LookRow> = table.into_iter().take(limit).map(|(_, row)| row).collect();
        let columns = look_columns(view.by, false, readings.motion(), room, look.figures);
        let seen = Seen::default();
        let (look, rows, columns) = (&look, &rows, &columns);
        let mut report = LookReport { ledger: &name, sampled, look, rows, columns, paint, in_flight, seen };
        out.step(&mut report)?;
        if is_last {
            if !found {
                args.filter.tell_unknown(ledger, &mut args.naming.no_names(ledger)?)?;
            }
            report.seen = Seen::of(ledger, in_flight)?;
            return out.end(&mut report);
        }
        if args.mark && readings.mark.is_none() {
            readings.set_mark(Some(Mark::at(sample)), &chooser.text());
        }
        std::thread::sleep(watched.interval.saturating_sub(began.elapsed()));
    }
}

/// How the program ended, once `run` has written that down.
fn ending(ledger: &heapledger_source::Ledger) -> String {
    let began = Instant::now();
    loop {
        if let Some(finished) = finished::of(ledger) {
            return ending_words(&Identity::of(&finished));
        }
        if began.elapsed() > FINISH_PATIENCE {
            return String::new();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
