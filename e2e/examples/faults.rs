//! Lets each system call of `run` and of the recorder fail in turn, and prints what came of it: `cargo xtask faults`.
//!
//! Arguments: how many calls of a kind at most (the first ones and the last ones; 0: all of them), then names of errors
//! (all, if there are none), then programs (`sh`, or names of victims that allocate as often each time).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use heapledger_e2e::Result;
use heapledger_e2e::faults::{Bench, ERRORS, Fault, Outcome, call_name};
use heapledger_e2e::victim;

/// Calls of a kind, unless told otherwise.
const CALLS: u64 = 6;
/// So many at a time.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    match sweep() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            println!("{wrong} went wrong");
            ExitCode::FAILURE
        }
        Err(problem) => {
            println!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Injected, whole, said, wrong.
type Row = [u32; 4];

fn sweep() -> Result<u32> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let calls = words.iter().find_map(|word| word.parse().ok()).unwrap_or(CALLS);
    let named = |name: &str| words.iter().any(|word| word == name);
    let some = ERRORS.iter().any(|(_, name)| named(name));
    let errors: Vec<i32> = ERRORS.iter().filter(|(_, name)| !some || named(name)).map(|(error, _)| *error).collect();
    let mut programs: Vec<(PathBuf, Vec<&str>)> = Vec::new();
    for word in words.iter().filter(|word| word.parse::<u64>().is_err() && !ERRORS.iter().any(|(_, name)| name == word))
    {
        programs.push(match word.as_str() {
            "sh" => ("/bin/sh".into(), vec!["-c", "echo out; exit 7"]),
            victim => (victim::named(victim)?.build()?, vec![]),
        });
    }
    if programs.is_empty() {
        programs.push((victim::named("realloc_chain")?.build()?, vec![]));
    }
    let mut wrong = 0;
    for (program, arguments) in programs {
        println!("{} {}", program.display(), arguments.join(" "));
        let table = of_program(&program, &arguments, calls, &errors)?;
        println!("{:<10} {:<18} {:>8} {:>8} {:>8} {:>8}", "whose", "call", "failed", "whole", "said", "wrong");
        let mut sum = [0; 4];
        for ((who, number), row) in &table {
            let [failed, whole, said, bad] = row;
            println!("{who:<10} {:<18} {failed:>8} {whole:>8} {said:>8} {bad:>8}", call_name(*number));
            sum.iter_mut().zip(row).for_each(|(sum, part)| *sum += part);
        }
        println!("{:<10} {:<18} {:>8} {:>8} {:>8} {:>8}", "all", "", sum[0], sum[1], sum[2], sum[3]);
        wrong += sum[3];
    }
    Ok(wrong)
}

type Table = BTreeMap<(String, u32), Row>;

fn of_program(program: &std::path::Path, arguments: &[&str], calls: u64, errors: &[i32]) -> Result<Table> {
    let benches = (0..WORKERS).map(|_| Bench::new(program, arguments)).collect::<Result<Vec<_>>>()?;
    let mut faults = Vec::new();
    for ((who, number), count) in &benches[0].counts {
        for nth in 1..=*count {
            if calls == 0 || nth <= calls.div_ceil(2) || nth > count - calls.min(*count) / 2 {
                faults.extend(errors.iter().map(|error| Fault { who: *who, number: *number, nth, error: *error }));
            }
        }
    }
    let (next, table) = (AtomicUsize::new(0), Mutex::new(Table::new()));
    std::thread::scope(|scope| {
        for bench in &benches {
            scope.spawn(|| {
                while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = bench.inject(*fault);
                    let mut table = table.lock().expect("no other worker has failed");
                    let row = table.entry((fault.who.to_string(), fault.number)).or_default();
                    match outcome {
                        Ok(Outcome::NotMet) => continue,
                        Ok(Outcome::Whole) => row[1] += 1,
                        Ok(Outcome::Said) => row[2] += 1,
                        Err(problem) => {
                            row[3] += 1;
                            println!("{problem}");
                        }
                    }
                    row[0] += 1;
                }
            });
        }
    });
    Ok(table.into_inner().expect("no worker has failed"))
}
