//! Which call sites the summary of `run` tells of.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use anyhow::Result;
use heapledger_analysis::tree::{Measure, SiteSum, SiteSums, Threads};
use heapledger_analysis::{NamedFrame, NamedStack, Names, NamingOptions, Note};
use heapledger_format::record::Options;
use heapledger_format::{CodeId, Site};
use heapledger_report::{RunSite, RunSites, callers_and_levels, nameless, sentence};
use heapledger_source::{Ledger, SourceError};
use heapledger_symbols::{self as symbols, SourceReader, Symbolizer};

use crate::commands::naming::perf_map;

/// How long names may be looked for, beside the time that the program took: nobody waits for a few lines longer than for
/// the program. After that, symbols must do.
const NAMING_PART: u32 = 10;
/// The least and the most of it. The debug information of a small program in C++ takes some 60 ms: what is asked first is which
/// line it was.
const NAMING: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(200)];
/// Call sites that get names, by each figure: those on one line of source are one line here. What others hold that might belong to one
/// of these is said by a mark.
const NAMED: usize = 100;
/// So many code addresses of a stack mostly decide over its line: the wrappers of `malloc`, and three functions with a few in between.
const LINE_CODES: usize = 8;
/// Lines that are shown.
const SHOWN: usize = 3;
/// Of what a line says, others that have no name may hold so little without a mark: a 50th.
const LITTLE: u64 = 50;

/// The sites, with names as far as there is time for them. The program took `span`.
pub(super) fn told(ledger: &Ledger, span: Duration, show: &mut dyn FnMut(f32)) -> Result<RunSites> {
    let sums = SiteSums::of(ledger, Threads::Together, None, show)?;
    let largest = |measure: Measure| {
        // A block of no bytes is one.
        let mut sites: Vec<&SiteSum> = sums.sites.iter().filter(|sum| of(sum, measure).1 > 0).collect();
        sites.sort_by_key(|sum| (std::cmp::Reverse(sum.amounts.get(measure)), sum.site));
        let rest = sites.iter().skip(NAMED).map(|sum| sum.amounts.get(measure)).fold(0, u64::saturating_add);
        sites.truncate(NAMED);
        (measure, sites, rest)
    };
    let whole = |measure: Measure| if sums.is_whole { largest(measure) } else { (measure, Vec::new(), 0) };
    let live = largest(Measure::LiveBytes);
    let peak = whole(Measure::PeakBytes);
    let calls = whole(Measure::AllocatedBlocks);
    let temporary = whole(Measure::TemporaryBlocks);
    let mut options = symbols::Options::default();
    let asks_servers = std::env::var_os("DEBUGINFOD_URLS").is_some();
    options.suggests_servers = !asks_servers;
    let mut symbolizer = Symbolizer::new(options);
    if let Some(map) = perf_map(ledger) {
        symbolizer = symbolizer.with_generated_code(map);
    }
    let mut names = Names::new(ledger, symbolizer, SourceReader::new(None))?;
    let [least, most] = NAMING;
    let naming = (span / NAMING_PART).clamp(least, most);
    let options = NamingOptions { deadline: Some(Instant::now() + naming), ..NamingOptions::default() };
    // All together: if time runs out, none has a line, and names that are the same are one.
    let all = [&live, &peak, &calls, &temporary].into_iter().flat_map(|(_, sites, _)| sites);
    let wanted: BTreeSet<Site> = all.map(|sum| sum.site).collect();
    let named = name_lines(&mut names, wanted, options)?;
    let mut lacking = BTreeSet::new();
    let mut lines = |(measure, sites, rest): (Measure, Vec<&SiteSum>, u64)| -> Result<Vec<RunSite>> {
        let mut lines: Vec<(u64, RunSite, Site)> = Vec::new();
        for sum in sites {
            let name = named.get(&sum.site).cloned().unwrap_or_default();
            let (amount, own) = (sum.amounts.get(measure), of(sum, measure));
            match lines.iter_mut().find(|(_, line, _)| line.name == name) {
                Some((all, line, _)) => {
                    *all = all.saturating_add(amount);
                    line.bytes = line.bytes.saturating_add(own.0);
                    line.blocks = line.blocks.saturating_add(own.1);
                }
                None => lines.push((amount, RunSite { bytes: own.0, blocks: own.1, name, is_least: false }, sum.site)),
            }
        }
        lines.sort_by_key(|(amount, ..)| std::cmp::Reverse(*amount));
        lines.truncate(SHOWN);
        for (_, _, site) in &lines {
            lacking.extend(nameless(&names.stack(*site)?));
        }
        Ok(lines.into_iter().map(|(amount, line, _)| RunSite { is_least: rest > amount / LITTLE, ..line }).collect())
    };
    let (live, peak, calls, temporary) = (lines(live)?, lines(peak)?, lines(calls)?, lines(temporary)?);
    // Whoever asks a server gets names from it in the reports.
    let advice = if asks_servers { None } else { names.advice_on(&lacking).map(Note::Advice) };
    let remedies = advice.into_iter().chain(names.silent_engines().into_iter().map(Note::Engine));
    let remedies = remedies.chain(names.why_no_lines().map(Note::NoScriptLines));
    Ok(RunSites {
        names: remedies.map(|remedy| sentence(&remedy)).collect(),
        live,
        peak,
        calls,
        temporary,
        temporary_blocks: sums.total.temporary_blocks,
        has_peak: sums.is_whole && sums.total.peak_blocks > 0,
        without_stacks: !ledger.header().options.has(Options::STACK),
    })
}

/// How the names of the C library's files begin, and of its loader's.
const C_LIBRARY: [&str; 3] = ["libc.so.", "libc-2.", "ld-linux-"];

/// Names what is in the lines of these sites: all frames from symbol tables, which takes no time, and then from debug information those
/// that a line shows. Not that of the C library: to unpack it takes longer than all else that is done here, and nobody looks for a leak in
/// a line of that. The lines, by site.
fn name_lines(
    names: &mut Names<'_>,
    sites: BTreeSet<Site>,
    options: NamingOptions,
) -> Result<HashMap<Site, String>, SourceError> {
    let mut open =
        sites.into_iter().map(|site| Ok((site, names.codes(site)?))).collect::<Result<Vec<_>, SourceError>>()?;
    let codes = open.iter().flat_map(|(_, codes)| codes.iter().copied());
    names.resolve_codes(codes, NamingOptions { from_symbols: true, ..options }, &mut |_| {})?;
    let mut lines = HashMap::new();
    let mut asked = BTreeSet::new();
    loop {
        let (mut wanted, mut waiting) = (BTreeSet::new(), Vec::new());
        for (site, codes) in open {
            let (stack, line, levels) = stack_of_line(names, &codes)?;
            let mut may_change = false;
            for (code, level) in codes.iter().copied().zip(stack.levels()).take(levels) {
                if !level.iter().any(is_of_c_library) && !asked.contains(&code) && names.is_hasty(code)? {
                    wanted.insert(code);
                    may_change = true;
                }
            }
            if may_change {
                waiting.push((site, codes));
            } else {
                lines.insert(site, line);
            }
        }
        if wanted.is_empty() {
            return Ok(lines);
        }
        // A better name of one may show that the line goes on.
        names.resolve_codes(wanted.iter().copied(), options, &mut |_| {})?;
        asked.append(&mut wanted);
        open = waiting;
    }
}

/// The stack with these code addresses, as far out as decides over its line, that line, and how many of its levels do that. Most are a part of that many, and
/// some have hundreds.
fn stack_of_line(names: &mut Names<'_>, codes: &[CodeId]) -> Result<(NamedStack, String, usize), SourceError> {
    if let Some((inner, outer)) = codes.split_at_checked(LINE_CODES) {
        let stack = names.stack_of(inner)?;
        let tells_modules = stack.frames.iter().any(|frame| frame.module.is_some());
        if let (line, Some(levels)) = callers_and_levels(&stack)
            && tells_modules
        {
            let is_script = |id: &CodeId| names.is_of_no_module(*id);
            let scripts = outer.iter().map(is_script).collect::<Result<Vec<bool>, SourceError>>()?;
            if !scripts.contains(&true) {
                return Ok((stack, line, levels));
            }
        }
    }
    let stack = names.stack_of(codes)?;
    let (line, levels) = callers_and_levels(&stack);
    let levels = levels.unwrap_or_else(|| stack.levels().count());
    Ok((stack, line, levels))
}

fn is_of_c_library(frame: &NamedFrame) -> bool {
    let Some(path) = frame.module.as_deref().map(str::as_bytes) else { return false };
    let file =
        path.iter().rposition(|byte| *byte == b'/').map_or(path, |slash| path.get(slash + 1..).unwrap_or_default());
    C_LIBRARY.iter().any(|begin| file.starts_with(begin.as_bytes()))
}

/// Bytes and blocks of a site, by the figure that is asked about.
fn of(sum: &SiteSum, measure: Measure) -> (u64, u64) {
    let amounts = &sum.amounts;
    match measure {
        Measure::PeakBytes | Measure::PeakBlocks => (amounts.peak_bytes, amounts.peak_blocks),
        Measure::TemporaryBytes | Measure::TemporaryBlocks => (amounts.temporary_bytes, amounts.temporary_blocks),
        Measure::AllocatedBytes | Measure::AllocatedBlocks => {
            (amounts.get(Measure::AllocatedBytes), amounts.get(Measure::AllocatedBlocks))
        }
        _ => (amounts.live_bytes, amounts.live_blocks),
    }
}
