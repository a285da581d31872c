//! `cargo xtask stress` runs this: every victim with threads, signals or forks, again and again.
//!
//!     stress [TIMES] [--jobs N] [--load N] [NAME…]

use std::process::ExitCode;

use heapledger_e2e::Result;
use heapledger_e2e::stress::{self, Plan};

/// Enough to find what goes wrong once in 500 runs, nearly always.
const TIMES: usize = 2000;

fn plan(words: &[String]) -> Result<Plan> {
    let mut plan = Plan { times: TIMES, jobs: 4, loads: 2, names: vec![] };
    let mut words = words.iter();
    let number = |word: &String| word.parse::<usize>().map_err(|_| format!("{word} is no number"));
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a number")).and_then(number);
        match word.as_str() {
            "--jobs" => plan.jobs = value()?.max(1),
            "--load" => plan.loads = value()?,
            word if word.starts_with('-') => return Err(format!("{word}?")),
            times if times.parse::<usize>().is_ok_and(|times| times > 0) => plan.times = number(word)?,
            name => plan.names.push(name.to_owned()),
        }
    }
    Ok(plan)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match plan(&words).and_then(|plan| stress::run(&plan)) {
        Ok(rows) => {
            println!("{}", stress::table(&rows));
            ExitCode::from(u8::from(rows.iter().any(|row| row.failures != 0)))
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}
