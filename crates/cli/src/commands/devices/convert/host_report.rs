//! What ESP-IDF's own script prints of a trace to a host.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use heapledger_analysis::NamedFrame;
use heapledger_logs::draft::{DraftShape, LedgerDraft};
use heapledger_logs::sysview::{HostForm, HostTrace};
use heapledger_report::clean;
use heapledger_source::Ledger;

use super::ConvertArgs;
use crate::commands::SourceText;
use crate::commands::opening::files_of_cores;
use crate::say;
use crate::terminal::stdout;

/// Writes it to standard output.
pub(super) fn write(args: &ConvertArgs) -> Result<()> {
    let path = Path::new(&args.log);
    let failed = || format!("{} cannot be read", path.display());
    let files = match files_of_cores(&args.log)? {
        Some(files) => files,
        None => vec![BufReader::new(File::open(path).with_context(failed)?)],
    };
    let form = if args.json { HostForm::Json } else { HostForm::Text };
    let trace = HostTrace::read(files, form).with_context(failed)?;
    if !trace.is_any() {
        bail!("{} is no stream of SystemView with heap events", path.display());
    }
    let mut out = BufWriter::new(stdout());
    let missing = if args.json {
        trace.json(&mut out)?
    } else if args.naming.exe.is_empty() {
        trace.report(&mut |_| Vec::new(), &mut out)?
    } else {
        named(args, path, trace, &mut out)?
    };
    out.flush()?;
    missing.iter().for_each(|sentence| say(&clean(sentence)));
    Ok(())
}

/// The report with the places of frames.
fn named(args: &ConvertArgs, path: &Path, trace: HostTrace, out: &mut dyn Write) -> Result<Vec<String>> {
    // Names are those of a ledger: one that has these stacks and nothing else.
    let mut draft = LedgerDraft::new(DraftShape::default());
    let sites: Vec<_> = trace.stacks().iter().map(|stack| (stack.clone(), draft.stack(stack))).collect();
    let ledger = Ledger::of_file(draft.finish()?, path)?;
    args.naming.check(&[&ledger])?;
    let mut names = args.naming.name(&ledger, sites.iter().map(|(_, site)| *site), SourceText::NotShown)?;
    let mut named = std::collections::HashMap::new();
    for (stack, site) in sites {
        let levels = names.stack(site)?;
        named.insert(
            stack,
            levels.levels().map(|level| level.first().map(place).unwrap_or_default()).collect::<Vec<_>>(),
        );
    }
    Ok(trace.report(&mut |stack| named.get(stack).cloned().unwrap_or_default(), out)?)
}

/// `file:line`, as addr2line has it.
fn place(frame: &NamedFrame) -> String {
    match (&frame.file, frame.line) {
        (Some(file), line) => {
            clean(&format!("{file}:{}", line.map_or_else(|| "?".to_owned(), |line| line.to_string()))).into_owned()
        }
        (None, _) => frame.address.map_or_else(|| "??:0".to_owned(), |address| format!("{address:#x}")),
    }
}
