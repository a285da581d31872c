//! `cargo xtask children`: what it costs that children are recorded, and whether a build of thousands of processes bears it.
//! `docs/benchmarks.md` says what is measured.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::bench::machine;
use crate::step::{Ledgers, Result, cargo, root, run as run_command, target};

const USAGE: &str = "\
cargo xtask children [ROUNDS]
  ROUNDS             how often each is run in each way, in turn (default 7)";

/// Children of one parent, one after the other.
const CHILDREN: &str = "400";
/// Files of the build; each makes four processes: a shell's child, the compiler's driver, the compiler, the assembler.
const FILES: usize = 500;
/// How often a program alone is run.
const ALONE: usize = 40;

/// Ways to run a program: as it is, and under `run` with these options.
const WAYS: [(&str, Option<&[&str]>); 4] = [
    ("plain", None),
    ("`run`", Some(&[])),
    ("`--children`", Some(&["--children"])),
    ("`--children=other`, not chosen", Some(&["--children=other"])),
];

/// Where it is measured.
struct Place {
    heapledger: PathBuf,
    directory: PathBuf,
    ledgers: Ledgers,
}

impl Place {
    fn new() -> Result<Place> {
        let (ledgers, directory) = (Ledgers::new("children")?, target().join("bench/children"));
        let place = Place { heapledger: target().join("release/heapledger"), directory, ledgers };
        place.empty()?;
        Ok(place)
    }

    fn empty(&self) -> Result {
        let _ = fs::remove_dir_all(&self.directory);
        fs::create_dir_all(&self.directory).map_err(|error| format!("{}: {error}", self.directory.display()))
    }

    /// A command in one of the ways.
    fn command(&self, way: Option<&[&str]>, words: &[&str]) -> Command {
        let mut command = match way {
            None => Command::new(words.first().copied().unwrap_or_default()),
            Some(options) => {
                let mut run = Command::new(&self.heapledger);
                run.args(["run", "-q", "--force", "-o", "out"]).args(options);
                run.arg("--ledger-dir").arg(self.ledgers.path()).arg("--").args(words.first());
                run
            }
        };
        command.args(words.iter().skip(1)).current_dir(&self.directory).stdin(Stdio::null());
        command
    }

    /// What a command prints, and what it took.
    fn output(&self, way: Option<&[&str]>, words: &[&str]) -> Result<(String, Took)> {
        let out = self.directory.join("out");
        // One ledger, or a directory of them.
        let _ = fs::remove_file(&out).or_else(|_| fs::remove_dir_all(&out));
        let (began, used) = (Instant::now(), used_by_children());
        let mut command = self.command(way, words);
        let output = command.output().map_err(|error| format!("{words:?}: {error}"))?;
        let took = Took { wall: began.elapsed().as_secs_f64(), used: used_by_children() - used };
        if !output.status.success() {
            return Err(format!("{words:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
        }
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), took))
    }

    /// How many ledgers a session has, and bytes of each.
    fn finished(&self) -> (u64, u64) {
        let items = fs::read_dir(self.directory.join("out")).into_iter().flatten().flatten();
        let ledgers = items.filter(|item| item.path().extension().is_some_and(|end| end == "hl"));
        let bytes: Vec<u64> = ledgers.filter_map(|item| Some(item.metadata().ok()?.len())).collect();
        let count = bytes.len() as u64;
        (count, bytes.iter().sum::<u64>().checked_div(count).unwrap_or(0))
    }
}

/// Seconds from begin to end; and of processors, those of `run` and of everything that it started included.
struct Took {
    wall: f64,
    used: f64,
}

/// Seconds of processors that children which have ended have used, theirs included: fields 16 and 17 of `/proc/self/stat`, in hundredths.
fn used_by_children() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    fields.skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The least and the median.
fn least(mut figures: Vec<f64>) -> (f64, f64) {
    figures.sort_by(f64::total_cmp);
    (figures.first().copied().unwrap_or(f64::NAN), figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN))
}

/// Measures, and prints two tables.
pub(crate) fn run(words: &[&str]) -> Result {
    let rounds = match words {
        [] => 7,
        [word] => word.parse::<u32>().ok().filter(|rounds| *rounds > 0).ok_or(USAGE)?,
        _ => return Err(USAGE.into()),
    };
    println!("building …");
    run_command(&mut cargo(&["build", "--release", "--package", "heapledger-cli"]))?;
    let (load, place) = (machine::load(), Place::new()?);
    one_by_one(&place, rounds)?;
    a_build(&place, rounds.min(3))?;
    let _ = fs::remove_dir_all(&place.directory);
    println!(
        "\nleast of all rounds, median in brackets; {}; load {load} before, {} after",
        machine::description(),
        machine::load()
    );
    Ok(())
}

/// A child that does next to nothing, by fork and by exec.
fn one_by_one(place: &Place, rounds: u32) -> Result {
    let program = place.directory.join("maker");
    run_command(Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(root().join("xtask/src/children.c")))?;
    let program = program.to_string_lossy().into_owned();
    let kinds: [(&str, &[&str]); 2] = [
        ("fork, malloc, free, `_exit`", &["fork", CHILDREN]),
        ("`posix_spawn` of `true`", &["spawn", CHILDREN, "/bin/true"]),
    ];
    println!("\n| a child, ms from begin to end (processor time) | {} |", WAYS.map(|(name, _)| name).join(" | "));
    println!("|---|---|---|---|---|");
    for (name, arguments) in kinds {
        let mut figures: [[Vec<f64>; 2]; WAYS.len()] = Default::default();
        let mut finished = (0, 0);
        for _ in 0..rounds {
            for ((_, way), columns) in WAYS.iter().zip(&mut figures) {
                let (told, _) = place.output(*way, &[&[program.as_str()], arguments].concat())?;
                for (column, word) in columns.iter_mut().zip(told.split_whitespace()) {
                    column.extend(word.parse::<f64>().map(|us| us / 1e3));
                }
                if *way == Some(&["--children"][..]) {
                    finished = place.finished();
                }
            }
        }
        let cell = |[wall, used]: [Vec<f64>; 2]| format!("{:.2} ({:.2})", least(wall).0, least(used).0);
        println!("| {name} | {} |", figures.map(cell).join(" | "));
        println!("| … {} ledgers, bytes of each finished | | | {} | |", finished.0, finished.1);
    }
    Ok(())
}

/// A build of many small files, and what its programs pay when each runs alone.
fn a_build(place: &Place, rounds: u32) -> Result {
    place.empty()?;
    let mut rules = String::from("all:");
    (0..FILES).for_each(|file| rules.push_str(&format!(" {file}.o")));
    rules.push_str("\n%.o: %.c\n\t@true; gcc -c -o $@ $<\n");
    let write = |name: &str, text: &str| {
        fs::write(place.directory.join(name), text).map_err(|error| format!("{name}: {error}"))
    };
    write("Makefile", &rules)?;
    for file in 0..FILES {
        write(&format!("{file}.c"), &format!("int f{file}(int x) {{ return x + {file}; }}\n"))?;
    }
    let clean = || -> Result {
        let items = fs::read_dir(&place.directory).map_err(|error| error.to_string())?.flatten();
        items.map(|item| item.path()).filter(|path| path.extension().is_some_and(|end| end == "o")).for_each(|path| {
            let _ = fs::remove_file(path);
        });
        Ok(())
    };
    let mut figures: [[Vec<f64>; 2]; WAYS.len()] = Default::default();
    let mut ledgers = 0;
    for _ in 0..rounds {
        for ((_, way), [wall, used]) in WAYS.iter().zip(&mut figures) {
            clean()?;
            let took = place.output(*way, &["make", "-j2"])?.1;
            wall.push(took.wall);
            used.push(took.used);
            if *way == Some(&["--children"][..]) {
                ledgers = place.finished().0;
            }
        }
    }
    let figures = figures.map(|both| both.map(|figures| least(figures).0));
    println!("\n| `make -j2` of {FILES} files, {ledgers} ledgers | s | of processors, s |\n|---|---|---|");
    for ((name, _), [wall, used]) in WAYS.iter().zip(figures) {
        println!("| {name} | {wall:.2} | {used:.2} |");
    }
    let [[plain, plain_used], _, [children, children_used], _] = figures;
    let (paid, paid_used) = alone(place)?;
    // Two at a time.
    let (paid, paid_used) = (paid * FILES as f64 / 2.0, paid_used * FILES as f64);
    let part = |all: f64, plain: f64, paid: f64| (all - plain - paid) / plain * 100.0;
    println!("| its programs, each alone, would add | {paid:.2} | {paid_used:.2} |");
    println!(
        "| so `--children` adds beyond that, of the plain time | {:.0} % | {:.0} % |",
        part(children, plain, paid),
        part(children_used, plain_used, paid_used)
    );
    Ok(())
}

/// What the programs which compile a file pay when they alone are recorded, what `run` itself takes to begin and to end left out: what
/// `--children` adds to one compilation that nothing else runs beside. Seconds, and those of processors.
fn alone(place: &Place) -> Result<(f64, f64)> {
    let command = ["gcc", "-c", "-o", "alone.o", "0.c"];
    let (mut with, mut without, mut used) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..ALONE {
        // Of both `run` itself takes the same.
        let (recorded, other) =
            (place.output(Some(&["--children"]), &command)?.1, place.output(Some(&["--children=other"]), &command)?.1);
        used += recorded.used - other.used;
        with.push(recorded.wall);
        without.push(other.wall);
    }
    // Hundredths of a second are told: only the sum says something.
    Ok((least(with).1 - least(without).1, used / ALONE as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_the_least_and_the_median() {
        assert_eq!(least(vec![3.0, 1.0, 2.0]), (1.0, 2.0));
        assert!(run(&["x"]).is_err() && run(&["0"]).is_err() && run(&["1", "2"]).is_err());
        assert!(root().join("xtask/src/children.c").is_file());
    }
}
