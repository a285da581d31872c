//! The live blocks of a ledger as lines of libwebsockets, oldest first.

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Result, bail};
use heapledger_analysis::Seen;
use heapledger_format::Site;
use heapledger_format::bytes::WordSize;
use heapledger_logs::lws::LoggedTrace;
use heapledger_lws::{Width, line};
use heapledger_report::{clean, counted, sentence};
use heapledger_source::{Ledger, Module};

use super::{EncodeArgs, written_as};
use crate::commands::opening::{OpeningArgs, open_target};
use crate::say;
use crate::terminal::stdout;

/// Frames of a call site, and whether some are left out.
type LineFrames = (Vec<u64>, bool);

/// Writes them. Whether all could be written, and there were some.
pub(super) fn write(args: &EncodeArgs, target: &std::ffi::OsStr) -> Result<bool> {
    let ledger = open_target(target, &OpeningArgs { from: args.from, ..OpeningArgs::default() })?;
    let modules = ledger.modules()?;
    let wanted = args.module.as_deref().map(|name| module(&modules, name)).transpose()?;
    let width = if ledger.header().codec.word == WordSize::W32 { Width::W32 } else { args.width.get() };
    let mut blocks: Vec<(u64, u64, Site)> = Vec::new();
    let mut records = ledger.records();
    while let Some(chunk) = records.next_chunk()? {
        blocks.extend(chunk.iter().map(|entry| (entry.number, entry.size.unwrap_or(0), entry.site)));
    }
    blocks.sort_unstable_by_key(|(number, ..)| *number);
    let mut known: HashMap<Site, LineFrames> = HashMap::new();
    let mut out = BufWriter::new(stdout());
    let (mut written, mut failed, mut elsewhere) = (0u64, 0u64, 0u64);
    for (_, size, site) in blocks {
        let (frames, is_part) = match known.get(&site) {
            Some(known) => known.clone(),
            None => {
                let made = frames(&ledger, &modules, wanted, site)?;
                known.entry(site).or_insert(made).clone()
            }
        };
        elsewhere += u64::from(is_part);
        let trace = LoggedTrace { frames, size, dialect: None, high_lost: false, lenient: None };
        let text =
            if args.plain { plain(&trace) } else { written_as(&trace, width).map_err(|error| error.to_string()) };
        match text {
            Ok(text) => writeln!(out, "{text}")?,
            Err(reason) => {
                failed += 1;
                if failed == 1 {
                    say(&format!("a block of {size} bytes was not encoded: {reason}"));
                }
                continue;
            }
        }
        written += 1;
    }
    out.flush()?;
    let in_flight = records.in_flight();
    for note in Seen::of(&ledger, in_flight)?.notes {
        say(&clean(&sentence(&note)));
    }
    if failed > 1 {
        say(&format!("{} were not encoded", counted(failed, "block", "blocks")));
    }
    if elsewhere != 0 {
        say(&format!("frames of other modules are left out of {}", counted(elsewhere, "line", "lines")));
    }
    if written == 0 && failed == 0 {
        say(&format!("no block lives in {}", Path::new(target).display()));
    }
    Ok(written != 0 && failed == 0)
}

fn plain(trace: &LoggedTrace) -> Result<String, String> {
    let mut text = String::new();
    line::write_plain(&trace.frames, trace.size, &mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

/// The row of the module whose file is called so, or whose path is that.
fn module(modules: &[Module], name: &str) -> Result<u16> {
    let is_it = |module: &&Module| module.path == Path::new(name) || module.path.file_name() == Some(name.as_ref());
    match modules.iter().find(is_it) {
        Some(module) => Ok(module.row),
        None if modules.is_empty() => bail!("the ledger knows no modules: its addresses are those of the device"),
        None => bail!("no module of the ledger is called {name}"),
    }
}

/// The frames of a call site, innermost first: as they were in memory, or of one module as they are in its file.
fn frames(ledger: &Ledger, modules: &[Module], wanted: Option<u16>, site: Site) -> Result<LineFrames> {
    let (mut frames, mut is_part) = (Vec::new(), false);
    for id in ledger.stack(site)?.codes {
        let Some(code) = ledger.code(id)? else { continue };
        match wanted {
            Some(row) if code.module == Some(row) => frames.push(code.offset),
            Some(_) => is_part = true,
            None => {
                let bias = code.module.and_then(|row| modules.iter().find(|module| module.row == row));
                frames.push(code.offset.wrapping_add(bias.map_or(0, |module| module.bias)));
            }
        }
    }
    Ok((frames, is_part))
}
