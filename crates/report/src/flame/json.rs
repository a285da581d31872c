//! Stacks with their figures as JSON, a stack a line. Described in `docs/json.md`.

use std::io::{self, Write};

use heapledger_analysis::tree::{CallTree, LevelKind, SiteSums};
use heapledger_analysis::{Identity, Seen};
use serde::Serialize;

use crate::Ending;
use crate::form::json::{HeaderLine, end, line};
use crate::tree::json::AmountsJson;

/// What stands in the first line, and in the last one.
#[derive(Clone, Copy, Debug)]
pub struct FlameJson<'a> {
    /// What the ledgers are called: the one shown, or the newer one of two, and then the older one.
    pub ledgers: &'a [&'a str],
    /// The program.
    pub identity: &'a Identity,
    /// What was added up, of the first ledger.
    pub sums: &'a SiteSums,
    /// What was not seen.
    pub seen: &'a Seen,
}

#[derive(Serialize)]
struct First<'a> {
    #[serde(flatten)]
    header: HeaderLine<'a>,
    before: Option<&'a str>,
    r#where: Option<&'a str>,
    program: Option<&'a str>,
    pid: Option<u32>,
    inverted: bool,
    by_thread: bool,
    complete: bool,
    frees: u64,
    frees_missing: u64,
}

#[derive(Serialize)]
struct StackLine<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<&'a str>,
    functions: &'a [&'a str],
    guessed: bool,
    #[serde(flatten)]
    figures: AmountsJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<AmountsJson>,
}

/// Writes each stack that holds anything, or held anything in the older ledger.
///
/// # Errors
/// If it cannot be written.
pub fn flame_json(mut out: impl Write, tree: &CallTree, report: &FlameJson<'_>) -> io::Result<()> {
    let FlameJson { ledgers, identity, sums, seen } = *report;
    let before = ledgers.get(1).copied();
    let first = First {
        header: HeaderLine::new("flame", ledgers.first().copied().unwrap_or_default(), sums.sampled),
        before,
        r#where: sums.filter.as_deref(),
        program: identity.program.as_deref(),
        pid: identity.pid,
        inverted: tree.inverted,
        by_thread: tree.by_thread,
        complete: sums.frees_missing == 0,
        frees: sums.frees,
        frees_missing: sums.frees_missing,
    };
    line(&mut out, &first)?;
    let children = tree.children(|node| node.level);
    let (mut path, mut waiting, mut shown): (Vec<&str>, _, _) = (Vec::new(), vec![0u32], 0);
    let mut guessed: Vec<bool> = Vec::new();
    let mut thread = None;
    while let Some(id) = waiting.pop() {
        let node = &tree.nodes[id as usize];
        let level = tree.level(node);
        let above = (node.depth as usize).saturating_sub(1 + usize::from(tree.by_thread));
        path.truncate(above);
        guessed.truncate(above);
        match level.kind {
            _ if id == 0 => {}
            LevelKind::Thread => thread = Some(&*level.name),
            _ => {
                path.push(level.plain_name());
                guessed.push(level.guesses_callers());
            }
        }
        let [new, old] = node.own;
        if id != 0 && !(new.is_zero() && old.is_zero()) {
            let object = StackLine {
                r#type: "stack",
                thread,
                functions: &path,
                guessed: guessed.contains(&true),
                figures: AmountsJson::of(&new),
                before: before.map(|_| AmountsJson::of(&old)),
            };
            line(&mut out, &object)?;
            shown += 1;
        }
        waiting.extend(children.of(id).iter().rev());
    }
    end(&mut out, Ending { shown, left_out: 0, in_flight: sums.in_flight }, seen)
}
