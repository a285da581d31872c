//! `cargo xtask watching`: what it costs a recorded program that `heapledger top` watches it.
//! `docs/benchmarks.md` says what is measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::bench::machine;
use crate::step::{Result, cargo, output, root, run as run_command, seconds, target};

const USAGE: &str = "\
cargo xtask watching [ROUNDS]
  ROUNDS             how often the program runs without and with a watcher, in turn (default 7)";

/// Pairs of malloc and free of a run: a few seconds.
const PAIRS: &str = "16000000";
/// How soon a program that was started must have its ledger.
const PATIENCE: Duration = Duration::from_secs(10);

struct Place {
    heapledger: PathBuf,
    preload: PathBuf,
    program: PathBuf,
    live: PathBuf,
}

/// The first unfinished ledger below a directory.
fn find_ledger(directory: &Path) -> Option<PathBuf> {
    let items = fs::read_dir(directory).ok()?.flatten().map(|item| item.path());
    let mut found = items.filter_map(|path| {
        let is_ledger = path.extension().is_some_and(|ending| ending == "hlive");
        if path.is_dir() { find_ledger(&path) } else { Some(path).filter(|_| is_ledger) }
    });
    found.next()
}

/// The processor time of the program's loop, as it prints it.
fn cpu_ns(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().find_map(|word| word.strip_prefix("cpu_ns="))?.parse().ok()
}

impl Place {
    fn build() -> Result<Place> {
        println!("building …");
        for package in ["heapledger-cli", "heapledger-preload"] {
            run_command(&mut cargo(&["build", "--release", "--package", package]))?;
        }
        let directory = target().join("bench");
        fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let program = directory.join("watched");
        let mut gcc = Command::new("gcc");
        output(gcc.args(["-O2", "-g", "-o"]).arg(&program).arg(root().join("victims/bench_paths.c")))?;
        let live = match Path::new("/dev/shm") {
            memory if memory.is_dir() => memory.join(format!("heapledger-watching-{}", std::process::id())),
            _ => directory.join("live"),
        };
        let release = target().join("release");
        let (heapledger, preload) = (release.join("heapledger"), release.join("libheapledger_preload.so"));
        Ok(Place { heapledger, preload, program, live })
    }

    fn watch(&self) -> Result<Child> {
        let began = Instant::now();
        let ledger = loop {
            match find_ledger(&self.live) {
                Some(ledger) => break ledger,
                None if began.elapsed() > PATIENCE => return Err("the program has no ledger".into()),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let mut top = Command::new(&self.heapledger);
        top.args(["top", "--batch", "0", "--interval", "1"]).arg(ledger).stdout(Stdio::null()).stderr(Stdio::null());
        top.spawn().map_err(|error| format!("top: {error}"))
    }

    /// Processor time of the program's loop.
    fn measure(&self, watched: bool) -> Result<u64> {
        let _ = fs::remove_dir_all(&self.live);
        fs::create_dir_all(&self.live).map_err(|error| format!("{}: {error}", self.live.display()))?;
        let mut program = Command::new(&self.program);
        program.args(["burst", "20", PAIRS, "time"]).stdout(Stdio::piped());
        program.env("LD_PRELOAD", &self.preload).env("HEAPLEDGER", format!("dir={}", self.live.display()));
        let program = program.spawn().map_err(|error| format!("{}: {error}", self.program.display()))?;
        let watcher = if watched { Some(self.watch()?) } else { None };
        let ended = program.wait_with_output().map_err(|error| error.to_string())?;
        if let Some(mut watcher) = watcher {
            let still_looks = watcher.try_wait().map_err(|error| error.to_string())?.is_none();
            let _ = watcher.kill();
            let _ = watcher.wait();
            // It ends with the program; one that ended long before has watched nothing.
            if !still_looks {
                return Err("top ended before the program".into());
            }
        }
        cpu_ns(&String::from_utf8_lossy(&ended.stdout)).ok_or_else(|| "the program says nothing".into())
    }
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Measures, and prints the median of the rounds' ratios.
pub(crate) fn run(words: &[&str]) -> Result {
    let rounds = match words {
        [] => 7,
        [word] => word.parse::<u32>().ok().filter(|rounds| *rounds > 0).ok_or(USAGE)?,
        _ => return Err(USAGE.into()),
    };
    let began = Instant::now();
    let load = machine::load();
    let place = Place::build()?;
    let (mut ratios, mut alone_all) = (vec![], vec![]);
    for round in 0..rounds {
        // In turn, so that neither is always the first.
        let first = place.measure(round % 2 == 0)? as f64;
        let second = place.measure(round % 2 != 0)? as f64;
        let (watched, alone) = if round % 2 == 0 { (first, second) } else { (second, first) };
        println!("round {}: {:.3} s alone, {:.3} s watched", round + 1, alone / 1e9, watched / 1e9);
        ratios.push(watched / alone);
        alone_all.push(alone);
    }
    let _ = fs::remove_dir_all(&place.live);
    let (fewest, most) =
        ratios.iter().fold((f64::MAX, f64::MIN), |(low, high), ratio| (low.min(*ratio), high.max(*ratio)));
    let fastest = alone_all.iter().fold(f64::MAX, |fastest, alone| fastest.min(*alone));
    let slowest = alone_all.iter().fold(0f64, |slowest, alone| slowest.max(*alone));
    println!(
        "\na watched program takes {:.3} of the time (median of {rounds}; {fewest:.3} to {most:.3}); runs alone differ by {:.3}\n\
         {}\nmeasured in {}; load of the machine {load} before, {} after",
        median(&mut ratios),
        slowest / fastest,
        machine::description(),
        seconds(began.elapsed()),
        machine::load()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        assert_eq!(cpu_ns("operations=3 cpu_ns=77\n"), Some(77));
        assert_eq!(cpu_ns("burst, depth 20"), None);
        assert!((median(&mut [3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!(run(&["x"]).is_err() && run(&["0"]).is_err());
    }
}
