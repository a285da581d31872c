//! Libraries with the crate `heapledger` inside (`e2e/own_books`), loaded and unloaded, and programs with it that load others.

use std::path::{Path, PathBuf};
use std::process::Command;

use heapledger_e2e::ledger::{Blocks, Stats, check_totals};
use heapledger_e2e::own_books::programs;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, root};
use heapledger_e2e::{Result, check, process};

const ROUNDS: &str = "200";

/// Compiles a file of `e2e/own_books` with these options; returns what came of it.
fn compiled(scratch: &Scratch, source: &str, name: &str, options: &[&str]) -> Result<PathBuf> {
    let product = scratch.path(name);
    let mut gcc = command("gcc");
    gcc.args(["-O1", "-g", "-pthread"]).args(options).arg("-o").arg(&product);
    process::run(gcc.arg(root().join("e2e/own_books").join(source)))?.good()?;
    Ok(product)
}

/// Runs a host of libraries to its end: how often they were used, and its finished ledger.
fn run_host(scratch: &Scratch, host: &Path, libraries: &[PathBuf]) -> Result<(usize, PathBuf)> {
    let mut run: Command = command(host);
    run.arg(ROUNDS).args(libraries).current_dir(scratch.work());
    run.env("HEAPLEDGER", format!("dir={}", scratch.live().display()));
    let said = process::run(&mut run)?.good()?.out();
    check!(scratch.unfinished().is_empty(), "left behind: {:?}", scratch.unfinished());
    let finished = scratch.finished();
    let ledgers: Vec<_> = finished.iter().filter(|path| path.extension().is_some_and(|end| end == "hl")).collect();
    let [ledger] = ledgers[..] else { return Err(format!("not one ledger: {finished:?}")) };
    check_totals(&Stats::of(ledger)?, &[])?;
    Ok((said.trim().parse().map_err(|error| format!("{said}: {error}"))?, ledger.clone()))
}

/// Copies of the library with the crate: of different names, so they are different ones for the loader.
fn copies(scratch: &Scratch, profile: &'static str, count: usize) -> Result<Vec<PathBuf>> {
    let library = programs(profile)?.join("libown_library.so");
    (0..count)
        .map(|copy| {
            let path = scratch.path(&format!("libcopy{copy}.so"));
            std::fs::copy(&library, &path).map(|_| path).map_err(|error| format!("{}: {error}", library.display()))
        })
        .collect()
}

/// How many live blocks of a size there are; each has a function of this name in its stack, and the host's beginning.
fn count_blocks(ledger: &Path, size: u64, function: &str) -> Result<usize> {
    let blocks = Blocks::live(ledger)?;
    let found: Vec<_> = blocks.blocks.iter().filter(|block| block.size == size).collect();
    for block in &found {
        let frames = &blocks.stacks[&block.site];
        check!(
            frames.iter().any(|frame| frame.names[0].contains(function)),
            "{size} bytes not by {function}: {frames:?}"
        );
    }
    Ok(found.len())
}

#[test]
fn a_library_with_the_crate_is_loaded_and_unloaded() -> Result {
    for profile in ["dev", "release"] {
        let scratch = Scratch::new();
        let host = compiled(&scratch, "loads.c", "loads", &[])?;
        let (uses, ledger) = run_host(&scratch, &host, &copies(&scratch, profile, 1)?)?;
        let kept = count_blocks(&ledger, 1_234, "own_library::keeps")?;
        check!(kept == uses, "{kept} blocks of {uses}");
    }
    Ok(())
}

#[test]
fn a_program_with_the_crate_loads_libraries_with_it() -> Result {
    let scratch = Scratch::new();
    let host = programs("dev")?.join("loads");
    // More than one: they come and go in any order.
    let (uses, ledger) = run_host(&scratch, &host, &copies(&scratch, "dev", 3)?)?;
    // There is one recorder in a process, which the libraries tell of their own blocks.
    let kept = count_blocks(&ledger, 1_234, "own_library::keeps")?;
    check!(kept == uses, "{kept} blocks of {uses}");
    Ok(())
}

#[test]
fn a_program_with_the_crate_loads_others_and_has_their_stacks() -> Result {
    let scratch = Scratch::new();
    let host = programs("release")?.join("loads");
    let one = compiled(&scratch, "plugin.c", "libone.so", &["-shared", "-fPIC"])?;
    let other = compiled(&scratch, "plugin.c", "libother.so", &["-shared", "-fPIC", "-DOTHER"])?;
    let (uses, ledger) = run_host(&scratch, &host, &[one, other])?;
    let kept = count_blocks(&ledger, 4_321, "deep_")?;
    // The other one calls twice, and threads use each as often as not.
    check!(kept > uses && kept < 2 * uses, "{kept} blocks of {uses}");
    Ok(())
}
