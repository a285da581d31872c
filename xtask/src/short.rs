//! `cargo xtask short`: what `heapledger run` itself adds to a program that ends at once.
//! `docs/benchmarks.md` says what is measured.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::bench::machine;
use crate::step::{Ledgers, Result, cargo, run as run_command, target};

const USAGE: &str = "\
cargo xtask short [ROUNDS]
  ROUNDS             how often each program runs in each way, in turn (default 15)";

/// Programs that end at once; one that is not installed is left out.
const PROGRAMS: &[&[&str]] =
    &[&["/bin/true"], &["jq", "-n", "1"], &["/usr/bin/python3", "-c", "pass"], &["g++", "--version"]];

/// Milliseconds that a command takes. `None` if it cannot be started.
fn took_ms(words: &[&str], directory: &Path, ledgers: &Path) -> Option<f64> {
    let (program, arguments) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("HEAPLEDGER", format!("dir={}", ledgers.display()));
    let began = Instant::now();
    command.status().ok()?;
    Some(began.elapsed().as_secs_f64() * 1e3)
}

/// The fastest and the median.
fn cell(figures: &mut [f64]) -> String {
    figures.sort_by(f64::total_cmp);
    let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
    format!("{:.1} ms ({:.1})", at(0), at(figures.len() / 2))
}

/// Measures, and prints a table.
pub(crate) fn run(words: &[&str]) -> Result {
    let rounds = match words {
        [] => 15,
        [word] => word.parse::<u32>().ok().filter(|rounds| *rounds > 0).ok_or(USAGE)?,
        _ => return Err(USAGE.into()),
    };
    println!("building …");
    run_command(&mut cargo(&["build", "--release", "--package", "heapledger-cli"]))?;
    let (load, heapledger) = (machine::load(), target().join("release/heapledger"));
    let heapledger = heapledger.to_string_lossy().into_owned();
    let (directory, ledgers) = (target().join("bench/short"), Ledgers::new("short")?);
    println!("\n| | alone | `run --quiet` | `run` |\n|---|---|---|---|");
    for program in PROGRAMS {
        let mut columns: [Vec<f64>; 3] = Default::default();
        for _ in 0..rounds {
            let _ = fs::remove_dir_all(&directory);
            fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
            let ways: [&[&str]; 3] = [&[], &[&heapledger, "run", "--quiet", "--"], &[&heapledger, "run", "--"]];
            for (column, way) in columns.iter_mut().zip(ways) {
                column.extend(took_ms(&[way, program].concat(), &directory, ledgers.path()));
            }
        }
        if columns[0].is_empty() {
            continue;
        }
        let cells = columns.map(|mut column| cell(&mut column));
        println!("| `{}` | {} |", program.join(" "), cells.join(" | "));
    }
    let _ = fs::remove_dir_all(&directory);
    println!(
        "\nfastest of {rounds}, median in brackets; {}; load {load} before, {} after",
        machine::description(),
        machine::load()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_the_fastest_and_the_median() {
        assert_eq!(cell(&mut [3.0, 1.0, 2.0]), "1.0 ms (2.0)");
        assert!(took_ms(&["/no/such/program"], Path::new("/"), Path::new("/")).is_none());
        assert!(run(&["x"]).is_err() && run(&["0"]).is_err());
    }
}
