//! The live blocks of a ledger as lines of libwebsockets, oldest first.

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use heapledger_analysis::Seen;
use heapledger_format::Site;
use heapledger_format::bytes::WordSize;
use heapledger_logs::lws::LoggedTrace;
use heapledger_lws::{DEPTH_MAX, Width, extension, line};
use heapledger_report::{clean, counted, sentence};

use super::frames::{Cut, LineFrames, frames, module};
use super::{EncodeArgs, written_as};
use crate::commands::opening::{OpeningArgs, open_target};
use crate::say;
use crate::terminal::stdout;

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
    // What the program writes of itself has no more in words either.
    let most = if width == Width::W32 && !args.plain { DEPTH_MAX } else { extension::DEPTH_MAX };
    let (mut written, mut failed, mut elsewhere, mut cut) = (0u64, 0u64, 0u64, Cut { lines: 0, most, deepest: 0 });
    for (_, size, site) in blocks {
        let LineFrames { frames, is_part, cut_from } = match known.get(&site) {
            Some(known) => known.clone(),
            None => {
                let made = frames(&ledger, &modules, wanted, site)?.cut_to(most);
                known.entry(site).or_insert(made).clone()
            }
        };
        elsewhere += u64::from(is_part);
        cut.note(cut_from);
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
    cut.tell();
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
