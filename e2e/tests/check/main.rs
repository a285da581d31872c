//! `heapledger check` on programs that leak: exit status, reasons, and the forms that CI systems read.
//!
//! | module | what |
//! |---|---|
//! | `limits` | limits that hold or do not, growth, and figures that are known within an error |
//! | `losses` | what was lost, damaged or forgotten is no success |
//! | `kept` | what the C library keeps by design, and what it gave to the program |
//! | `forms` | JUnit, SARIF, GitHub and JSON as CI systems read them |
//! | `standards` | what the standards demand of these forms |

use std::fs;
use std::path::{Path, PathBuf};

use heapledger_e2e::process::{self, Ran};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, victim};

mod standards;

mod forms;
mod kept;
mod limits;
mod losses;

/// The ledger of `leaky` with so many lines.
fn ledger(scratch: &Scratch, name: &str, lines: u32, options: &[&str]) -> Result<PathBuf> {
    let program = victim::named("leaky")?.build()?;
    run_cleanly(scratch, &mut under_run(scratch, name, options, &program, &[lines.to_string()]))?.good()?;
    Ok(scratch.path(&format!("{name}.hl")))
}

fn checked(ledger: &PathBuf, words: &[&str]) -> Result<Ran> {
    process::run(command(heapledger()).arg("check").arg(ledger).args(words))
}

fn expect(ran: &Ran, code: i32, words: &[&str]) -> Result {
    check!(ran.status.code() == Some(code), "the exit code should be {code}: {ran}");
    let said = format!("{}{}", ran.out(), ran.err());
    for word in words {
        check!(said.contains(word), "it should say {word:?}: {said}");
    }
    check!(!said.contains("panicked"), "{said}");
    Ok(())
}

/// A program in C of a text.
fn compiled(scratch: &Scratch, name: &str, text: &str, options: &[&str]) -> Result<PathBuf> {
    let (source, program) = (scratch.path(&format!("{name}.c")), scratch.path(name));
    fs::write(&source, text).map_err(|error| error.to_string())?;
    process::run(command("gcc").args(options).arg("-o").arg(&program).arg(&source))?.good()?;
    Ok(program)
}

/// The ledger of a program without arguments.
fn recorded(scratch: &Scratch, name: &str, options: &[&str], program: &Path) -> Result<PathBuf> {
    run_cleanly(scratch, &mut under_run(scratch, name, options, program, &[]))?.good()?;
    Ok(scratch.path(&format!("{name}.hl")))
}
