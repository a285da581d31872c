//! Reports of made ledgers.

use std::path::Path;
use std::time::SystemTime;

use heapledger_analysis::source::{Ledger, SourceError};
use heapledger_analysis::symbols::{self, SourceReader, Symbolizer};
use heapledger_analysis::{Clock, Events, Names, NamingOptions, Sampling, Seen, Selection, Sort, Summary};
use heapledger_report::{
    Context, DumpJson, DumpText, Ending, HistoryJson, HistoryText, Paint, StatsOptions, stats_json, stats_text,
};

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
        sampling: Sampling::of(&ledger),
        paint: Paint::default(),
    };
    let names = |sites: &mut dyn Iterator<Item = u32>| {
        let symbolizer = Symbolizer::new(symbols::Options::default());
        let mut names = Names::new(&ledger, symbolizer, SourceReader::new(None))?;
        names.resolve(sites, NamingOptions { source_text: true, deadline: None }, &mut |_| {})?;
        Ok::<_, SourceError>(names)
    };
    let mut out: [Vec<u8>; 6] = Default::default();
    let [stats, stats_lines, dump, dump_lines, history, history_lines] = &mut out;

    let mut summary = Summary::of(&ledger, clock, 3, &mut |_| {})?;
    let mut named = names(&mut summary.sites.top.iter().map(|totals| totals.site))?;
    let top = summary.sites.top.iter().map(|totals| named.stack(totals.site)).collect::<Result<Vec<_>, _>>()?;
    summary.seen.notes.extend(named.notes());
    let options = StatsOptions { threads: 2, paint: Paint::default() };
    stats_text(stats, "a ledger", &summary, &top, options).expect("written");
    stats_json(stats_lines, "a ledger", &summary, &top, &ledger.modules()?).expect("written");

    let selection = Selection::of(&ledger, Sort::Address, false, 5, &mut |_| {})?;
    let mut named = names(&mut selection.blocks.sites())?;
    let mut text = DumpText::new(dump, &context, true, &selection).expect("written");
    let mut json = DumpJson::new(dump_lines, &context, &selection).expect("written");
    for block in &selection.blocks {
        let stack = named.stack(block.site)?;
        text.block(&block, &stack).expect("written");
        json.block(&block, &stack).expect("written");
    }
    let mut seen = Seen::of(&ledger, selection.in_flight)?;
    seen.notes.extend(named.notes());
    let shown = selection.blocks.len() as u64;
    let ending = Ending { shown, left_out: selection.left_out(), in_flight: selection.in_flight };
    text.end(ending, &selection, &seen).expect("written");
    json.end(ending, &seen).expect("written");

    let events = Events::of(&ledger, true, 5, &mut |_| {})?;
    let mut named = names(&mut events.events.iter().map(|event| event.site()))?;
    let mut text = HistoryText::new(history, &context, true, &events).expect("written");
    let mut json = HistoryJson::new(history_lines, &context, &events).expect("written");
    for event in &events.events {
        let stack = named.stack(event.site())?;
        text.event(&event, &stack).expect("written");
        json.event(&event, &stack).expect("written");
    }
    let shown = events.events.len() as u64;
    let ending = Ending { shown, left_out: events.left_out(), in_flight: events.in_flight };
    text.end(ending, &events, &seen).expect("written");
    json.end(ending, &seen).expect("written");
    Ok(out.map(|bytes| String::from_utf8(bytes).expect("text")))
}
