//! The preload library offers exactly the functions that it replaces and those of the C API, and needs next to nothing of others.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::step::{Result, cargo, output, root, run, target};

/// The list of replaced functions.
const LIST: &str = "crates/preload/src/hooked.rs";
/// The list of functions of the C API.
const API: &str = "crates/api/src/list.rs";

/// What the library may take from others, all of it only if it is there: the loader's list of modules, glibc's or musl's; what the program
/// has written down for it; and what is looked for by name where there is no such list, in static programs.
const IMPORTED: &[&str] = &["_r_debug", "_dl_debug_addr", "heapledger_options", "_dl_find_object", "__libc_stack_end"];

/// Builds the library and compares.
pub(crate) fn check() -> Result {
    run(&mut cargo(&["build", "--release", "--package", "heapledger-preload"]))?;
    let library = target().join("release/libheapledger_preload.so");
    let exported = names(&library, "--defined-only")?;
    let (replaced, api) = (listed()?, api()?);
    let listed: BTreeSet<_> = replaced.union(&api).cloned().collect();
    let missing: Vec<_> = listed.difference(&exported).collect();
    let extra: Vec<_> = exported.difference(&listed).collect();
    if !missing.is_empty() || !extra.is_empty() {
        return Err(format!(
            "exported symbols differ from {LIST} and {API}: missing {missing:?}, not in the list {extra:?}"
        ));
    }
    let mut needed = names(&library, "--undefined-only")?;
    needed.retain(|name| !IMPORTED.contains(&name.as_str()));
    if !needed.is_empty() {
        return Err(format!("the preload library wants symbols of others: {needed:?}"));
    }
    let (replaced, api) = (replaced.len(), api.len());
    println!(
        "{replaced} replaced functions and {api} of the C API are exported, all of them from the lists; none is imported"
    );
    Ok(())
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

/// The names between quotation marks in lines such as `call_stub Malloc = "malloc": …`.
fn listed() -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join(LIST)).map_err(|error| format!("{LIST}: {error}"))?;
    // A stub may have arguments of its own, in quotation marks too.
    let rows = text.lines().filter_map(|line| line.trim_start().split_once(" = \""));
    let rows = rows.filter(|(stub, _)| stub.split([' ', '(']).next().is_some_and(is_stub));
    Ok(rows.filter_map(|(_, rest)| Some(rest.split('"').next()?.to_owned())).collect())
}

fn is_stub(word: &str) -> bool {
    word.ends_with("_stub")
}
