//! Looks as text or JSON, for logs and programs.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use heapledger_analysis::watch::{Mark, Reader};
use heapledger_analysis::{Sampling, Seen};
use heapledger_report::{Form, LookRow, LooksCsv, LooksJson, look_text};

use super::chooser::Chooser;
use super::namer::Namer;
use super::view::{Data, View, columns};
use super::{Watched, finished};
use crate::commands::TopArgs;
use crate::commands::present::tell_notes;
use crate::terminal::{Output, Paging};

/// How long the finished ledger of a program that has just ended is waited for.
const FINISH_PATIENCE: Duration = Duration::from_secs(2);

enum Out {
    Text(Output),
    Json(LooksJson<Output>),
    Csv(LooksCsv<Output>),
}

/// Prints so many looks; 0: until the program ends.
pub(super) fn run(args: &TopArgs, watched: &Watched, looks: u64) -> Result<()> {
    let ledger = &watched.reader;
    let mut data = Data::new(args.ledger.view.bytes);
    let reader = Reader::new(ledger, watched.began);
    let mut namer = Namer::new(watched.naming.quiet_names(&watched.namer)?, watched.holders.clone());
    let names = watched.naming.quiet_names(ledger)?;
    let mut chooser = Chooser::new(ledger, watched.filter.clone(), watched.holders.clone(), names);
    let view = View {
        group: args.group_by,
        sort: args.sort,
        reverse: false,
        wrappers: false,
        filter: String::new(),
        within: Vec::new(),
    };
    let paint = args.ledger.paint();
    let width = paint.columns;
    let sampling = Sampling::of(ledger);
    let name = args.ledger.ledger.to_string_lossy();
    let mut out = match args.form.get() {
        Form::Json => Out::Json(LooksJson::new(Output::data(), &name, sampling.from(0))?),
        Form::Csv => Out::Csv(LooksCsv::new(Output::data(), view.group.name())?),
        _ => Out::Text(Output::text(Paging::Never, args.ledger.view.color.is_on())),
    };
    let mut mark: Option<Mark> = None;
    let mut in_flight = 0;
    let (mut shown, mut found) = (0, false);
    loop {
        let began = Instant::now();
        let totals = reader.totals(SystemTime::now())?;
        let running = totals.identity.running;
        data.readings.add_totals(Box::new(totals));
        let sample = Arc::new(chooser.sample(&reader, mark.as_ref())?);
        data.readings.add_sample(Arc::clone(&sample), &chooser.text());
        data.readings.set_mark(mark.clone(), &chooser.text());
        if !running && shown > 0 {
            data.ending = Some(ending(ledger));
        }
        name_new(&mut data, &mut namer)?;
        let table = data.table(&view);
        let look = data.look(view.group, table.len());
        found |= look.chosen.blocks != 0;
        let limit = if args.limit == 0 { usize::MAX } else { args.limit };
        let rows: Vec<LookRow> = table.into_iter().take(limit).map(|(_, row)| row).collect();
        in_flight += data.readings.samples.last().map_or(0, |sample| sample.in_flight);
        match &mut out {
            Out::Json(json) => json.look(&look, &rows)?,
            Out::Csv(csv) => csv.look(&look, &rows)?,
            Out::Text(text) => {
                if shown > 0 {
                    writeln!(text)?;
                }
                let columns = columns(
                    view.group,
                    false,
                    data.motion(),
                    if width == 0 { usize::MAX } else { width },
                    look.figures,
                );
                look_text(text, &look, &columns, &rows, width, paint)?;
                text.flush()?;
            }
        }
        if args.mark && mark.is_none() {
            mark = Some(Mark::at(sample));
        }
        shown += 1;
        if shown == looks || !running {
            break;
        }
        std::thread::sleep(watched.interval.saturating_sub(began.elapsed()));
    }
    if !found {
        args.filter.tell_unknown(ledger, &mut args.naming.no_names(ledger)?)?;
    }
    match out {
        Out::Json(json) => json.end(in_flight, &Seen::of(ledger, in_flight)?)?,
        Out::Csv(_) => tell_notes(&Seen::of(ledger, in_flight)?),
        Out::Text(_) => {}
    }
    Ok(())
}

/// Finds the names of sites that came since the last look.
fn name_new(data: &mut Data, namer: &mut Namer<'_>) -> Result<()> {
    let Some(sample) = data.readings.samples.last().cloned() else { return Ok(()) };
    let mut sites: Vec<u32> = sample.cells.iter().map(|cell| cell.key.site).collect();
    sites.dedup();
    sites.retain(|site| data.names.site(*site).is_none());
    data.names.add(namer.sites(&sites)?);
    Ok(())
}

/// How the program ended, once `run` has written that down.
fn ending(ledger: &heapledger_source::Ledger) -> String {
    let began = Instant::now();
    loop {
        if let Some(identity) = finished::identity_of(ledger) {
            return super::view::ending_words(&identity);
        }
        if began.elapsed() > FINISH_PATIENCE {
            return String::new();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
