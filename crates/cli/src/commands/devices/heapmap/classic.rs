//! Each line of the log by itself, in the shape of libwebsockets' `heapmap.sh`: size, functions and lines, an empty line; and
//! the sum at the end.

use std::io::Write;

use anyhow::Result;
use heapledger_analysis::query::Scope;
use heapledger_analysis::{NamedFrame, Selection};
use heapledger_report::{Form, clean};

use crate::commands::dump::DumpArgs;
use crate::commands::{Opened, SourceText, find_names};
use crate::terminal::Paging;

/// Writes them.
pub(super) fn show(args: &DumpArgs, opened: Opened) -> Result<()> {
    let Opened { ledger, context, .. } = opened;
    args.naming.check(&[&ledger])?;
    let keys = args.sort.get(&ledger)?;
    let mut filter = args.filter.evaluator(&ledger, context.clock, Scope::Blocks, args.naming.no_names(&ledger)?)?;
    let selection = Selection::matching(&ledger, Some(&mut filter), &keys, 0, &mut |_| {})?;
    let mut names = filter.into_names();
    find_names(&mut names, selection.blocks.sites(), SourceText::NotShown)?;
    let mut out = args.ledger.view.output(&Form::Text, Paging::Never);
    let mut total = 0u64;
    for block in selection.blocks.iter() {
        let size = block.size.unwrap_or(0);
        total = total.wrapping_add(size);
        writeln!(out, "{size}")?;
        for level in names.stack(block.site)?.levels() {
            writeln!(out, "{}", level.first().map(place).unwrap_or_default())?;
        }
        writeln!(out)?;
    }
    writeln!(out, "\n# Total instrumented allocation {total}")?;
    out.flush()?;
    Ok(())
}

/// `function at file:line`, as addr2line has it.
fn place(frame: &NamedFrame) -> String {
    match (&frame.function, &frame.file) {
        (None, None) => "?? ??:0".to_owned(),
        (function, file) => {
            let function = function.as_deref().unwrap_or("??");
            let file = file.as_deref().unwrap_or("??");
            let line = frame.line.map_or_else(|| "?".to_owned(), |line| line.to_string());
            clean(&format!("{function} at {file}:{line}")).into_owned()
        }
    }
}
