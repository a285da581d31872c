//! Reports of made ledgers.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use heapledger_analysis::{Clock, Events, Names, NamingOptions, Sampling, Seen, Selection, Sort, Summary, Told};
use heapledger_format::Site;
use heapledger_report::{BlocksReport, Context, EventsReport, Form, Paint, Report, ReportError, StatsReport};
use heapledger_source::{Ledger, SourceError};
use heapledger_symbols::{self as symbols, SourceReader, Symbolizer};

/// `stats`, `dump` and `history`, each as text and as JSON.
pub(crate) fn reports(path: &Path) -> Result<[String; 6], SourceError> {
    let ledger = Ledger::open(path)?;
    let clock = Clock::new(&ledger, SystemTime::UNIX_EPOCH)?;
    let context = Context {
        parts: Vec::new(),
        ledger: "a ledger".to_owned(),
        clock,
        threads: ledger.threads()?.into_iter().map(|thread| (thread.row, thread)).collect(),
        heaps: ledger.heaps()?.into_iter().map(|heap| (heap.row, heap)).collect(),
        told: Arc::new(Told::of(&ledger)?),
        sampling: Sampling::of(&ledger),
        free_depths: ledger.free_depths().expect("marks"),
        paint: Paint::default(),
    };
    let names = |sites: &mut dyn Iterator<Item = Site>| {
        let symbolizer = Symbolizer::new(symbols::Options::default());
        let mut names = Names::new(&ledger, symbolizer, SourceReader::new(None))?;
        names.resolve(sites, NamingOptions { source_text: true, ..NamingOptions::default() }, &mut |_| {})?;
        Ok::<_, SourceError>(names)
    };
    let mut out: [Vec<u8>; 6] = Default::default();
    let [stats, stats_lines, dump, dump_lines, history, history_lines] = &mut out;

    let mut summary = Summary::of(&ledger, clock, 3, &mut |_| {})?;
    let mut named = names(&mut summary.sites.top.iter().map(|totals| totals.site))?;
    let top = summary.sites.top.iter().map(|totals| named.stack(totals.site)).collect::<Result<Vec<_>, _>>()?;
    summary.seen.notes.extend(named.notes());
    let (summary, modules) = (&summary, &ledger.modules()?);
    let paint = Paint::default();
    let mut report = StatsReport { ledger: "a ledger", summary, top: &top, modules, threads: 2, paint };
    report.write(&Form::Text, stats).expect("written");
    report.write(&Form::Json, stats_lines).expect("written");

    let context = &context;
    let selection = &Selection::of(&ledger, Sort::Address, 5, &mut |_| {})?;
    let named = &mut names(&mut selection.blocks.sites())?;
    let seen = Seen::of(&ledger, selection.in_flight)?;
    let threads_recorded = true;
    let mut report = BlocksReport { context, threads_recorded, selection, names: named, seen };
    report.write(&Form::Text, dump).map_err(unread)?;
    report.write(&Form::Json, dump_lines).map_err(unread)?;

    let events = &Events::last(&ledger, 5, &mut |_| {})?;
    let named = &mut names(&mut events.events.iter().map(|event| event.site()))?;
    let seen = Seen::of(&ledger, selection.in_flight)?;
    let mut report = EventsReport { context, threads_recorded, events, names: named, seen };
    report.write(&Form::Text, history).map_err(unread)?;
    report.write(&Form::Json, history_lines).map_err(unread)?;
    Ok(out.map(|bytes| String::from_utf8(bytes).expect("text")))
}

/// Memory can be written to.
fn unread(error: ReportError) -> SourceError {
    match error {
        ReportError::Read(error) => error,
        other => panic!("{other}"),
    }
}
