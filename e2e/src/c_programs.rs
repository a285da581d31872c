//! Programs in C and C++ that call the C API: built from `e2e/c_api`, and run under `heapledger run`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::scratch::Scratch;
use crate::tools::root;
use crate::tracked::under_run;
use crate::{Result, process};

/// Compiles one of the programs.
pub fn built(scratch: &Scratch, compiler: &str, source: &str, name: &str, options: &[&str]) -> Result<PathBuf> {
    let program = scratch.path(name);
    let mut compile = Command::new(compiler);
    compile.args(["-g", "-pthread", "-I"]).arg(root().join("crates/api/include")).args(options);
    compile.arg("-o").arg(&program).arg(root().join("e2e/c_api").join(source));
    process::run(&mut compile)?.good()?;
    Ok(program)
}

/// What a program says under `run`, and the ledger.
pub fn recorded(
    scratch: &Scratch,
    name: &str,
    options: &[&str],
    program: &Path,
    words: &[&str],
) -> Result<(String, PathBuf)> {
    let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
    let ran = process::run(&mut under_run(scratch, name, options, program, &words))?.good()?;
    Ok((ran.out(), scratch.path(&format!("{name}.hl"))))
}
