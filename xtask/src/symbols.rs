//! The preload library offers exactly the functions that it replaces and those of the C API, the library of calls those that it judges,
//! and they need next to nothing of others.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{Result, cargo, output, root, run, target};

/// The list of replaced functions.
const LIST: &str = "crates/preload/src/hooked.rs";
/// The list of functions of the C API.
const API: &str = "crates/api/src/list.rs";

/// What the preload library has for the one of calls.
const FOR_CALLS: &str = "heapledger_judging";
/// The list of functions whose calls are judged.
const JUDGED: &str = "crates/calls/src/list.rs";

/// What it answers beside these: each function that C can call.
const ANSWERED: &str = "crates/calls/src/heap.rs";

/// What a library may take from others, all of it only if it is there: the loader's list of modules, glibc's or musl's; what the program
/// has written down for it; and what is looked for by name where there is no such list, in static programs.
const IMPORTED: &[&str] = &["_r_debug", "_dl_debug_addr", "heapledger_options", "_dl_find_object", "__libc_stack_end"];

/// Builds the libraries and compares.
pub(crate) fn check() -> Result {
    run(&mut cargo(&["build", "--release", "--package", "heapledger-preload", "--package", "heapledger-calls"]))?;
    let (replaced, api, judged) = (listed(LIST, is_stub)?, api()?, listed(JUDGED, is_judged)?);
    let mut offered: BTreeSet<_> = replaced.union(&api).cloned().collect();
    offered.insert(FOR_CALLS.to_owned());
    compare("libheapledger_preload.so", &offered, &format!("{LIST} and {API}"))?;
    let of_calls: BTreeSet<_> = judged.union(&answered()?).cloned().collect();
    let calls = compare("libheapledger_calls.so", &of_calls, &format!("{JUDGED} and {ANSWERED}"))?;
    calls_none_of_its_own(&calls, &of_calls)?;
    let (replaced, api, judged) = (replaced.len(), api.len(), judged.len());
    println!(
        "{replaced} replaced functions, {api} of the C API and {judged} whose calls are judged are exported, all of them from the lists; \
         none is imported"
    );
    Ok(())
}

/// Whether a library offers this and nothing else, and what it needs. Returns its path.
fn compare(library: &str, listed: &BTreeSet<String>, lists: &str) -> Result<PathBuf> {
    let path = target().join("release").join(library);
    let exported = names(&path, "--defined-only")?;
    let missing: Vec<_> = listed.difference(&exported).collect();
    let extra: Vec<_> = exported.difference(listed).collect();
    if !missing.is_empty() || !extra.is_empty() {
        return Err(format!(
            "exported symbols of {library} differ from {lists}: missing {missing:?}, not in the list {extra:?}"
        ));
    }
    let mut needed = names(&path, "--undefined-only")?;
    needed.retain(|name| !IMPORTED.contains(&name.as_str()));
    if !needed.is_empty() {
        return Err(format!("{library} wants symbols of others: {needed:?}"));
    }
    Ok(path)
}

/// What a compiler makes of copies and comparisons in a library that exports `memcpy` is a call of that, which would be judged as the
/// program's.
fn calls_none_of_its_own(library: &Path, exported: &BTreeSet<String>) -> Result {
    let code = output(Command::new("objdump").args(["--disassemble", "--no-show-raw-insn"]).arg(library))?;
    let jumps = code.lines().filter(|line| line.contains("\tcall ") || line.contains("\tjmp "));
    let called = jumps.filter_map(|line| line.rsplit_once('<')?.1.strip_suffix('>'));
    let own: BTreeSet<_> = called.filter(|name| exported.contains(*name)).collect();
    if own.is_empty() { Ok(()) } else { Err(format!("{} calls its own {own:?}", library.display())) }
}

/// Dynamic symbols, without versions.
fn names(library: &Path, which: &str) -> Result<BTreeSet<String>> {
    let text = output(Command::new("nm").args(["--dynamic", "--format=posix", which]).arg(library))?;
    let names = text.lines().filter_map(|line| line.split_ascii_whitespace().next());
    Ok(names.map(|name| name.split('@').next().unwrap_or(name).to_owned()).collect())
}

/// The names in lines such as `recording::heapledger_version 1 "…"`.
fn api() -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join(API)).map_err(|error| format!("{API}: {error}"))?;
    let rows = text.lines().filter_map(|line| line.trim_start().split_once("::heapledger_"));
    Ok(rows.filter_map(|(_, rest)| Some(format!("heapledger_{}", rest.split(' ').next()?))).collect())
}

/// The names in lines such as `extern "C" fn mallinfo2() -> Figures {`.
fn answered() -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join(ANSWERED)).map_err(|error| format!("{ANSWERED}: {error}"))?;
    let names = text.lines().filter_map(|line| line.strip_prefix("extern \"C\" fn ")?.split('(').next());
    Ok(names.map(str::to_owned).collect())
}

/// The names between quotation marks in lines such as `call_stub Malloc = "malloc": …`.
fn listed(list: &str, is_row: fn(&str) -> bool) -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join(list)).map_err(|error| format!("{list}: {error}"))?;
    // A stub may have arguments of its own, in quotation marks too.
    let rows = text.lines().filter_map(|line| line.trim_start().split_once(" = \""));
    let rows = rows.filter(|(stub, _)| stub.split([' ', '(']).next().is_some_and(is_row));
    Ok(rows.filter_map(|(_, rest)| Some(rest.split('"').next()?.to_owned())).collect())
}

fn is_stub(word: &str) -> bool {
    word.ends_with("_stub")
}

fn is_judged(word: &str) -> bool {
    ["before", "after", "does", "formats", "does_formats"].contains(&word)
}
