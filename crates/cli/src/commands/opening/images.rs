//! Ledgers that are no logs: one of several in an image of memory, and what is said of the others.

use std::ffi::OsStr;

use heapledger_source::{ImageOptions, Ledger, LedgerAt, SourceError};

use super::OpeningArgs;
use super::log_files::numbered;
use crate::say;

/// Opens what was named, if it is no log.
pub(crate) fn open_no_log(target: &OsStr, opening: &OpeningArgs) -> Result<Ledger, SourceError> {
    let (path, which) = numbered(target);
    if which.is_none() && opening.base.is_none() {
        return Ledger::open_target(target);
    }
    Ledger::open_with(&path, ImageOptions { base: opening.base, which })
}

/// Says which other ledgers lie in the same image of memory, unless one was asked for.
pub(crate) fn mention_others(ledger: &Ledger, target: &OsStr) {
    if numbered(target).1.is_some() {
        return;
    }
    let Some(found) = ledger.found().filter(|found| !found.ledgers.is_empty()) else { return };
    let shown = found.image.display();
    let name = |(number, one): (usize, &LedgerAt)| {
        let program = one.program.as_deref().unwrap_or("an unknown program");
        format!("{shown}@{number}: {program} at {:#x}", one.address)
    };
    let names: Vec<String> = (1..).zip(&found.ledgers).map(name).collect();
    say(&format!("{shown} holds {} ledgers, and the first is shown ({})", found.ledgers.len(), names.join("; ")));
}
