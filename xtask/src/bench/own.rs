//! `cargo xtask bench crate`: what the crate costs a program that is built with it (`e2e/crate_costs`), beside its peers and the
//! preload library. Instructions of a pair at depth 20, counted by callgrind; the time in which a JSON text is parsed.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::figures::median;
use super::goals::{self, Goal};
use super::kit::find;
use super::{machine, report};
use crate::step::{Ledgers, Result, cargo, output, root, run, target};

const USAGE: &str = "\
cargo xtask bench crate [--quick] [--rounds N]
  --quick     a tenth of the text, 3 rounds
  --rounds N  how often each program parses the text (default 5)";

/// A way of looking at a program's heap: the program of `e2e/crate_costs`, or `plain` under the preload library.
struct Way {
    name: &'static str,
    program: &'static str,
    is_preloaded: bool,
    /// Pairs that callgrind counts: fewer where one takes some ten thousand instructions.
    pairs: u64,
    is_slow: bool,
}

const fn way(program: &'static str) -> Way {
    Way { name: program, program, is_preloaded: false, pairs: 8000, is_slow: false }
}

const WAYS: &[Way] = &[
    way("plain"),
    way("off"),
    way("counting"),
    way("stats_alloc"),
    way("sampled"),
    way("tracking"),
    Way { name: "preload", is_preloaded: true, ..way("plain") },
    Way { pairs: 400, is_slow: true, ..way("dhat") },
];

/// Blocks that an object of the text comes to: three names, a text, a vector, its text, the map's node. (As `dhat` counts them.)
const BLOCKS_OF_AN_OBJECT: u64 = 7;
/// What adds less than this part of the plain time cannot be told from chance, and nothing is measured by it.
const CHANCE: f64 = 0.05;

/// What was found out about a way.
#[derive(Clone, Copy, Default)]
struct Found {
    /// Instructions of a pair, in a release build, and in a debug build with the one line that the documentation advises.
    pair: f64,
    pair_debug: Option<f64>,
    /// Seconds.
    json: f64,
}

struct Bench {
    valgrind: PathBuf,
    preload: PathBuf,
    ledgers: Ledgers,
    objects: u64,
    rounds: usize,
}

/// Measures, and prints what was measured.
pub(super) fn bench(words: &[&str]) -> Result {
    let (mut rounds, mut quick) = (None, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--quick" => quick = true,
            "--rounds" => {
                let number = words.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
                rounds = Some(number.ok_or_else(|| format!("--rounds takes a number\n{USAGE}"))?);
            }
            other => return Err(format!("there is no option {other}\n{USAGE}")),
        }
    }
    let valgrind = find(&["valgrind"]).ok_or("valgrind is not installed, whose callgrind counts instructions")?;
    run(&mut cargo(&["build", "--release", "--package", "heapledger-preload"]))?;
    for profile in ["release", "dev"] {
        run(&mut programs(profile))?;
    }
    let bench = Bench {
        valgrind,
        preload: target().join("release/libheapledger_preload.so"),
        ledgers: Ledgers::new("bench-crate")?,
        objects: if quick { 28_600 } else { 286_000 },
        rounds: rounds.unwrap_or(if quick { 3 } else { 5 }),
    };
    let load = machine::load();
    println!("{}", machine::description());
    let found = bench.all()?;
    print!("{}", bench.table(&found));
    print!("{}", report::goal_lines(&goals(&found)));
    println!("\nload of the machine {load} before, {} after (the runs themselves make about 1)", machine::load());
    Ok(())
}

/// Builds the programs as their users do: nothing of how this repository is built is taken over.
fn programs(profile: &str) -> Command {
    let mut cargo = cargo(&["build", "--quiet", "--locked", "--profile", profile, "--target-dir"]);
    cargo.arg(built()).current_dir(root().join("e2e/crate_costs"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PROFILE_") || text.ends_with("RUSTFLAGS") || text == "CARGO_TARGET_DIR" {
            cargo.env_remove(&name);
        }
    }
    cargo
}

fn built() -> PathBuf {
    target().join("crate_costs")
}

impl Bench {
    fn command(&self, way: &Way, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("HEAPLEDGER", format!("dir={}", self.ledgers.path().display()));
        if way.is_preloaded {
            command.env("LD_PRELOAD", &self.preload);
        }
        command
    }

    fn all(&self) -> Result<Vec<(&'static Way, Found)>> {
        let mut found = Vec::new();
        for way in WAYS {
            let pair = self.pair(way, "release")?;
            let pair_debug = if way.is_slow { None } else { Some(self.pair(way, "debug")?) };
            found.push((way, Found { pair, pair_debug, json: 0.0 }));
            println!("{}: instructions counted", way.name);
        }
        // In turn, as a machine's speed drifts: each is compared with the plain run of its own round.
        let mut seconds: Vec<Vec<f64>> = vec![vec![]; WAYS.len()];
        for round in 0..self.rounds {
            for (way, seconds) in WAYS.iter().zip(&mut seconds) {
                seconds.push(self.json(way)?);
            }
            println!("round {} of {}", round + 1, self.rounds);
        }
        let plain = seconds.first().cloned().unwrap_or_default();
        let plain_median = median(plain.clone());
        for ((_, found), seconds) in found.iter_mut().zip(seconds) {
            let ratios = seconds.iter().zip(&plain).map(|(own, plain)| own / plain).collect();
            found.json = median(ratios) * plain_median;
        }
        Ok(found)
    }

    /// Instructions of a pair: the difference of two runs of different length.
    fn pair(&self, way: &Way, profile: &str) -> Result<f64> {
        let count = |pairs: u64| {
            let counts = self.ledgers.path().join("callgrind.out");
            let mut run = self.command(way, &self.valgrind);
            run.args(["--quiet", "--tool=callgrind"]).arg(format!("--callgrind-out-file={}", counts.display()));
            run.arg(built().join(profile).join(way.program)).args(["pairs", &pairs.to_string()]);
            output(&mut run)?;
            let text = std::fs::read_to_string(&counts).map_err(|error| format!("{}: {error}", counts.display()))?;
            let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
            total.and_then(|total| total.trim().parse::<f64>().ok()).ok_or("callgrind has counted nothing".to_owned())
        };
        Ok((count(way.pairs * 3 / 2)? - count(way.pairs / 2)?) / way.pairs as f64)
    }

    /// Seconds in which the text is parsed and all of it freed.
    fn json(&self, way: &Way) -> Result<f64> {
        let mut run = self.command(way, &built().join("release").join(way.program));
        let text = output(run.args(["json", &self.objects.to_string()]))?;
        let nanoseconds = text.trim().parse::<f64>().map_err(|error| format!("{}: {error}", way.name))?;
        Ok(nanoseconds / 1e9)
    }

    fn table(&self, found: &[(&Way, Found)]) -> String {
        let plain = found.first().map_or(Found::default(), |(_, plain)| *plain);
        let blocks = self.objects * BLOCKS_OF_AN_OBJECT;
        let mut table = format!(
            "\n{:<12} {:>12} {:>12}   {:>12}\n",
            "",
            "pair",
            "debug build",
            format!("{:.1} M blocks", blocks as f64 / 1e6)
        );
        for (way, found) in found {
            let debug = found.pair_debug.map_or_else(|| "-".to_owned(), |pair| format!("{pair:.0}"));
            let ratio = found.json / plain.json;
            table +=
                &format!("{:<12} {:>12.0} {debug:>12}   {:>10.3} s  {ratio:.2}\n", way.name, found.pair, found.json);
        }
        table += "instructions of a block of 8 bytes taken and given back at depth 20; seconds, and times plain's\n\n";
        table
    }
}

/// What was aimed at.
fn goals(found: &[(&Way, Found)]) -> Vec<Goal> {
    let of = |name: &str| found.iter().find(|(way, _)| way.name == name).map(|(_, found)| *found).unwrap_or_default();
    let plain = of("plain");
    let pair = |name: &str| of(name).pair - plain.pair;
    let debug = |name: &str| of(name).pair_debug.unwrap_or(0.0) - plain.pair_debug.unwrap_or(0.0);
    let time = |name: &str| of(name).json / plain.json - 1.0;
    let most = |what: &str, limit: f64, measured: f64| goals::at_most(what, limit, "", Some(measured), "");
    let most_time = |what: &str, limit: f64, measured: Option<f64>| goals::at_most(what, limit, "", measured, "");
    let times = |one: &str, other: &str| (time(other) > CHANCE).then(|| time(one) / time(other));
    let least = |what: &str, limit: f64, measured: f64| goals::at_least(what, limit, "", Some(measured), "");
    vec![
        most("tracking adds, of what the preload library adds: instructions", 1.05, pair("tracking") / pair("preload")),
        most("the same in a debug build, of that in a release build", 1.1, debug("tracking") / pair("tracking")),
        least("dhat adds, of what tracking adds: instructions", 20.0, pair("dhat") / pair("tracking")),
        goals::at_least("the same: time", 12.0, "", times("dhat", "tracking"), ""),
        most_time("counting adds, of what stats_alloc adds: time", 1.0, times("counting", "stats_alloc")),
        most("off: times plain", 1.02, 1.0 + time("off")),
        most("sampled(512K): times plain", 1.05, 1.0 + time("sampled")),
    ]
}
