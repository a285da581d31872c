//! What a flame graph says of the ledgers that it is of.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::time::SystemTime;

use anyhow::Result;
use heapledger_analysis::tree::Measure;
use heapledger_analysis::{Clock, HeapTimeline, Identity};
use heapledger_report::{FlameFacts, FlameSource, FlameView};
use heapledger_source::Ledger;

use super::FlameArgs;
use crate::commands::tree::Grown;

/// The facts of these ledgers, by these names.
pub(super) fn facts(names: &[&OsStr], ledgers: &[Ledger], grown: &Grown, args: &FlameArgs) -> Result<FlameFacts> {
    let mut sources = Vec::new();
    let short = |name: &&OsStr| {
        let file = Path::new(name).file_name().unwrap_or(name);
        file.to_string_lossy().into_owned()
    };
    let mut shown: Vec<String> = names.iter().map(short).collect();
    // Two of one name in two directories.
    if shown.iter().collect::<BTreeSet<_>>().len() < shown.len() {
        shown = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    }
    let identities: Vec<Identity> = ledgers.iter().map(Identity::of).collect();
    for (((name, ledger), identity), sums) in shown.iter().zip(ledgers).zip(&identities).zip(&grown.sums) {
        let clock = Clock::new(ledger, SystemTime::now())?;
        sources.push(FlameSource { ledger: name, identity, clock, sums });
    }
    let of_all = FlameFacts::of(&sources, &grown.seen, args.bytes);
    let mut facts = FlameFacts { full_names: args.full_names, ..of_all };
    if let ([ledger], [source]) = (ledgers, &sources[..]) {
        facts.curve = Some(HeapTimeline::of(ledger, &source.clock)?);
    }
    Ok(facts)
}

/// How it is first shown.
pub(super) fn view(args: &FlameArgs, measure: Measure) -> FlameView {
    let (inverted, wrappers) = (args.shape.inverted, args.shape.wrappers);
    FlameView { measure, inverted, upwards: args.upwards, wrappers }
}
