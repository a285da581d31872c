//! What stands around a flame graph.

use heapledger_analysis::tree::{Measure, SiteSums};
use heapledger_analysis::{Clock, Identity, Note, Seen};
use heapledger_source::Family;

use super::FlameFacts;
use crate::form::notes;
use crate::form::units::{Figures, counted};
use crate::stats::text::program;
use crate::tree::text::{history_gap, is_of_session_peak, other_peak, part};

/// A ledger that a flame graph is of.
#[derive(Clone, Copy, Debug)]
pub struct FlameSource<'a> {
    /// What it is called.
    pub ledger: &'a str,
    /// Its program.
    pub identity: &'a Identity,
    /// Its clock.
    pub clock: Clock,
    /// What was added up.
    pub sums: &'a SiteSums,
}

impl FlameFacts {
    /// The facts of one ledger, or of two, the newer one first; with `exact_bytes` sizes have no units.
    pub fn of(sources: &[FlameSource<'_>], seen: &Seen, exact_bytes: bool) -> FlameFacts {
        let mut facts = FlameFacts { exact_bytes, ..FlameFacts::default() };
        let name = |source: &FlameSource<'_>| crate::tree::text::program(source.identity);
        let [old, new] = match sources {
            [new, old, ..] => [old.ledger, new.ledger].map(str::to_owned),
            [] | [_] => Default::default(),
        };
        if let Some(source) = sources.first() {
            facts.title = format!("Heap of {}", name(source));
        }
        if sources.len() > 1 {
            facts.title.push_str(&format!(": {old} → {new}"));
            facts
                .facts
                .push("Red has grown, blue has shrunk; stacks are matched by the names of functions.".to_owned());
            facts.compared = Some([old, new]);
        }
        let mut gaps = Vec::new();
        facts.parts = parts(sources);
        for source in sources {
            let SiteSums { sampled: from, total, .. } = source.sums;
            let figures = Figures { estimated: from.is_some(), exact_bytes };
            facts.estimated |= from.is_some();
            facts.facts.push(format!("{}: {}", source.ledger, {
                let (program, args) = program(source.identity, source.clock);
                program.into_iter().chain(args).collect::<Vec<_>>().join("; ")
            }));
            let blocks = |bytes, blocks| {
                let blocks = figures.counted(total.get(blocks), "block", "blocks");
                format!("{} in {blocks}", figures.bytes_exact(total.get(bytes)))
            };
            let live = blocks(Measure::LiveBytes, Measure::LiveBlocks);
            let freed = blocks(Measure::FreedBytes, Measure::FreedBlocks);
            let all = figures.counted(source.sums.frees, "free", "frees");
            facts.facts.push(if source.sums.is_whole {
                format!("{live} live; {freed} freed")
            } else {
                format!("{live} live; the history holds {freed}, of {all}")
            });
            facts.facts.extend(peak_fact(figures, source.sums));
            facts.facts.extend(source.sums.filter.as_ref().map(|chosen| format!("only where {chosen}")));
            facts.facts.extend(from.map(|from| figures.sampled(from, "of live and freed blocks")));
            let which = if sources.len() > 1 { format!("{}: ", source.ledger) } else { String::new() };
            gaps.extend(history_gap(source.sums).map(|gap| format!("{which}{gap}")));
        }
        facts.gap = (!gaps.is_empty()).then(|| format!("Caution: {}.", gaps.join("; ")));
        facts.note(seen);
        facts
    }

    fn note(&mut self, seen: &Seen) {
        // That names are missing is the usual case, and comes last.
        let is_name = |note: &&Note| matches!(note, Note::Module { .. } | Note::WithoutDebugInfo(_));
        let (names, losses): (Vec<&Note>, Vec<&Note>) = seen.notes.iter().partition(is_name);
        self.incomplete = losses.iter().any(|note| notes::is_loss(note));
        self.notes = losses.into_iter().map(notes::sentence).collect();
        self.names = names.into_iter().map(notes::sentence).collect();
    }
}

/// The facts of a session.
pub fn family_facts(family: &Family, name: &str, sums: &SiteSums, seen: &Seen, exact_bytes: bool) -> FlameFacts {
    let mut facts = FlameFacts { exact_bytes, estimated: sums.sampled.is_some(), ..FlameFacts::default() };
    let program = family.head.command.first().map(|path| path.rsplit('/').next().unwrap_or(path));
    facts.title = format!("Heap of {} and its processes", program.unwrap_or("a session"));
    let figures = Figures { estimated: facts.estimated, exact_bytes };
    let processes = counted(family.tree().processes.len() as u64, "process", "processes");
    let command = crate::family::command(family).map(|command| format!("; {command}")).unwrap_or_default();
    facts.facts.push(format!("{name}: {processes}{command}"));
    let blocks = |bytes, blocks| {
        let blocks = figures.counted(sums.total.get(blocks), "block", "blocks");
        format!("{} in {blocks}", figures.bytes_exact(sums.total.get(bytes)))
    };
    let live = blocks(Measure::LiveBytes, Measure::LiveBlocks);
    let freed = blocks(Measure::FreedBytes, Measure::FreedBlocks);
    facts.facts.push(match is_of_session_peak(seen) {
        true => format!("{live} at the session's peak"),
        false => format!("{live} live when their processes ended; {freed} freed"),
    });
    facts.facts.extend(peak_fact(figures, sums));
    facts.facts.extend(sums.filter.as_ref().map(|chosen| format!("only where {chosen}")));
    facts.facts.extend(sums.sampled.map(|from| figures.sampled(from, "of live and freed blocks")));
    facts.gap = history_gap(sums).map(|gap| format!("Caution: {gap}."));
    facts.note(seen);
    facts
}

/// What lived at the peak, where that may be off, and what else is told of it.
fn peak_fact(figures: Figures, sums: &SiteSums) -> Option<String> {
    let error = sums.peak_error.filter(|error| *error != 0 && sums.is_whole && !figures.estimated)?;
    let bytes = sums.total.get(Measure::PeakBytes);
    let other = other_peak(figures, sums.peak_highest, bytes).map_or_else(String::new, |other| format!(". {other}"));
    Some(format!("{} at the peak{other}", figures.within_exact(bytes, error)))
}

/// What figures of allocated and of freed blocks are of, where a ledger does not hold all frees.
fn parts(sources: &[FlameSource<'_>]) -> Option<[String; 2]> {
    sources.iter().find(|source| source.sums.frees_missing != 0 && !source.sums.is_whole)?;
    let of = |measure| {
        let of_one = |source: &FlameSource<'_>| {
            let part = part(source.sums, measure).unwrap_or_else(|| "of all".to_owned());
            if sources.len() > 1 { format!("{part} ({})", source.ledger) } else { part }
        };
        sources.iter().rev().map(of_one).collect::<Vec<_>>().join(", ")
    };
    Some([Measure::AllocatedBytes, Measure::FreedBytes].map(of))
}
