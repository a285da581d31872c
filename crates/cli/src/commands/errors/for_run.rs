//! What `run` has told of errors while its program goes on: whole reports on standard error, and nothing else.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use heapledger_analysis::{Names, NamingOptions, excuse, is_wrong, sites_of};
use heapledger_report::{Context, ErrorBrief};
use heapledger_source::{FoundError, Labels, Ledger};
use heapledger_symbols::{Options, SourceReader, Symbolizer};

use super::ErrorsArgs;
use crate::commands::present::unwritten;
use crate::terminal;

/// How long debug information is looked through; after that the names of symbols must do. The program may have ended, and
/// somebody waits.
const NAMING: Duration = Duration::from_secs(5);

/// Rows of the table of errors: from one up to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    from: u32,
    to: u32,
}

/// `3..5`
pub(super) fn rows(text: &str) -> Result<Rows, String> {
    let problem = || format!("'{text}' is not of the form 0..2");
    let (from, to) = text.split_once("..").ok_or_else(problem)?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| problem());
    Ok(Rows { from: number(from)?, to: number(to)? })
}

/// Tells of these rows, calls that gave no block apart; says by its exit code how many.
pub(super) fn tell(args: &ErrorsArgs, rows: Rows) -> Result<ExitCode> {
    let suppressions = args.suppress.get()?;
    let opened = args.ledger.open()?;
    let ledger: &Ledger = &opened.ledger;
    let mut errors: Vec<FoundError> = ledger.errors()?;
    errors.retain(|found| (rows.from..rows.to).contains(&found.row) && is_wrong(&found.entry));
    let mut names = Names::new(ledger, Symbolizer::new(Options::default()), SourceReader::new(None))?;
    let options =
        NamingOptions { source_text: true, deadline: Some(Instant::now() + NAMING), ..NamingOptions::default() };
    names.resolve(sites_of(&errors), options, &mut |_| {})?;
    excuse(&mut errors, &suppressions, &mut |site| names.stack(site))?;
    let all = errors.len();
    errors.truncate(args.limit);
    let context = Context { paint: terminal::stderr_paint(false), ..opened.context.clone() };
    let labels = ledger.labels().unwrap_or_else(|_| Labels::default());
    for found in &errors {
        let report = ErrorBrief::of(&context, found, &labels, &mut names).map_err(unwritten)?.report;
        // In one piece: the program writes there, too.
        terminal::tell(&format!("heapledger: {report}\n"));
    }
    if errors.len() == args.limit {
        let more = if all > args.limit { "more have been found, and are" } else { "others are" };
        crate::say(&format!("no further errors are printed: {more} in the ledger"));
    }
    Ok(ExitCode::from(u8::try_from(errors.len()).unwrap_or(u8::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read() {
        assert_eq!(rows("3..5"), Ok(Rows { from: 3, to: 5 }));
        for odd in ["", "3", "..", "3..", "a..5", "-1..2"] {
            assert!(rows(odd).is_err(), "{odd}");
        }
    }
}
