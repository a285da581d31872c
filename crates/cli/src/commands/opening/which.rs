//! What to type for one process of several.

use std::path::Path;

use heapledger_report::{clean, count, process_name};
use heapledger_source::Member;

/// Processes that an error names.
const NAMED: usize = 8;

/// What to type for one of several.
pub(super) fn which(shown: &str, recorded: &[&Member]) -> String {
    let path = shown.split(" (").next().unwrap_or(shown);
    let named = recorded.iter().take(NAMED).map(|member| {
        let (process, ledger) = (&member.process, member.path().and_then(Path::file_name));
        let file = ledger.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = process_name(std::slice::from_ref(&process.program));
        format!("\n  {path}:{}  {} ({})", process.pid, clean(&name), clean(&file))
    });
    let more = match recorded.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("\n  and {} more: `heapledger stats {path} --all`", count(more as u64)),
    };
    let processes = count(recorded.len() as u64);
    format!(
        "{shown} is a session of {processes} recorded processes, and this takes one: name its ledger, give --pid or \
         --process, or{}{more}",
        named.collect::<String>()
    )
}
