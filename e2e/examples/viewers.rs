//! Exported files, read by the programs that they are for. Prints a table of what they found.
//!
//!     cargo xtask viewers [--write]
//!
//! ends with status 1 if one of them finds anything else than what is in the ledger. With `--write` the files that were so read become
//! those that the tests compare with, and the pictures those of the documentation.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use heapledger_e2e::tools::root;
use heapledger_e2e::viewers::{Exported, NOT_HERE, READERS, Tools, judge, made, place, real};
use heapledger_e2e::{Result, check};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let write = words.iter().any(|word| word == "--write");
    match run(write) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all readers found what is to be found.
fn run(write: bool) -> Result<bool> {
    let into = place();
    let golden = into.join("golden");
    let _ = fs::remove_dir_all(&golden);
    let mut tools = Tools::new()?;
    let mut files: Vec<(&str, Exported)> = made(&golden)?;
    files.extend(real(&into.join("real"))?);
    let (mut wrong, mut left_out, mut read) = (0, Vec::new(), 0);
    println!("{:<11} {:<28} {:<26} {:>9} {:>7}  found", "format", "file", "reader", "bytes", "took");
    for (format, exported) in &files {
        let name = exported.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = fs::metadata(&exported.path).map_or(0, |meta| meta.len());
        for reader in READERS.iter().filter(|reader| reader.format == *format) {
            let began = Instant::now();
            let found = match (reader.read)(&mut tools, exported) {
                Ok(None) => {
                    left_out.push(format!("{format}: {} is not here", reader.name));
                    continue;
                }
                Ok(Some(found)) => judge(exported, &found).map(|()| found),
                Err(problem) => Err(problem),
            };
            let took = began.elapsed().as_secs_f64();
            read += 1;
            let told = match found {
                Ok(found) => {
                    let figures = found.figures.iter().map(|(name, value)| format!("{name} {value}"));
                    figures.collect::<Vec<_>>().join(", ")
                }
                Err(problem) => {
                    wrong += 1;
                    format!("WRONG: {problem}")
                }
            };
            println!("{format:<11} {name:<28} {:<26} {bytes:>9} {took:>5.1} s  {told}", reader.name);
        }
    }
    left_out.dedup();
    for what in left_out.iter().map(String::as_str).chain(NOT_HERE.iter().copied()) {
        println!("left out: {what}");
    }
    println!("{read} files read, {wrong} of them wrongly; {} readers are not here", left_out.len());
    if write && wrong == 0 {
        keep(&golden, &root().join("crates/export/tests/golden"))?;
        keep(&tools.pictures, &root().join("docs/pictures"))?;
    }
    Ok(wrong == 0)
}

/// Puts the files of a directory in the place of those of another one.
fn keep(from: &Path, to: &Path) -> Result {
    let fail = |error: std::io::Error| format!("{}: {error}", to.display());
    check!(from.is_dir(), "{} is not there", from.display());
    fs::create_dir_all(to).map_err(fail)?;
    for item in fs::read_dir(from).map_err(fail)? {
        let item = item.map_err(fail)?;
        fs::copy(item.path(), to.join(item.file_name())).map_err(fail)?;
    }
    println!("written: {}", to.display());
    Ok(())
}
