//! `cargo xtask children`: what it costs that children are recorded, and whether a build of thousands of processes bears it.
//! `docs/benchmarks.md` says what is measured.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::bench::machine;
use crate::step::{Ledgers, Result, cargo, root, run as run_command, target};

const USAGE: &str = "\
cargo xtask children [ROUNDS [BUILDS]]
  ROUNDS             how often children are made in each way, in turn (default 7)
  BUILDS             how often the build is made in each way (default 3); 0: not at all";

/// Children of one parent, one after the other.
const CHILDREN: &str = "400";
/// Files of the build; each makes four processes: a shell's child, the compiler's driver, the compiler, the assembler.
const FILES: usize = 500;
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

    /// Removes what a build has made.
    fn clean(&self) -> Result {
        let own = self.directory.join("own");
        let _ = fs::remove_dir_all(&own);
        fs::create_dir_all(&own).map_err(|error| format!("{}: {error}", own.display()))?;
        let items = fs::read_dir(&self.directory).map_err(|error| error.to_string())?.flatten();
        for item in items.filter(|item| item.path().extension().is_some_and(|end| end == "o")) {
            let _ = fs::remove_file(item.path());
        }
        Ok(())
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

/// How often children are made, and the build.
fn rounds_of(words: &[&str]) -> Option<(u32, u32)> {
    let number = |at: usize, default: u32| words.get(at).map_or(Some(default), |word| word.parse().ok());
    let (rounds, of_builds) = (number(0, 7)?, number(1, 3)?);
    (rounds > 0 && words.len() <= 2).then_some((rounds, of_builds))
}

/// Measures, and prints two tables.
pub(crate) fn run(words: &[&str]) -> Result {
    let (rounds, of_builds) = rounds_of(words).ok_or(USAGE)?;
    println!("building …");
    run_command(&mut cargo(&["build", "--release", "--package", "heapledger-cli"]))?;
    let (load, place) = (machine::load(), Place::new()?);
    one_by_one(&place, rounds)?;
    if of_builds > 0 {
        a_build(&place, of_builds)?;
    }
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

/// One way to run the build: its name, how `make` is run, and variables of the Makefile's.
struct Build {
    name: &'static str,
    way: Option<&'static [&'static str]>,
    variables: Vec<String>,
}

/// The same build in [`WAYS`]; with a `run` around each of its processes; and with one around each compilation, which records all of it or,
/// but for `run`'s own work, nothing.
fn builds(place: &Place) -> [Build; 7] {
    let own = |options: &str, output: &str, separator: &str| {
        let ledgers = place.ledgers.path().display();
        let run = place.heapledger.display();
        format!("{run} run -q --force {options} --ledger-dir {ledgers} -o own/{output}.%p --")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(separator)
    };
    let [plain, alone, children, other] = WAYS.map(|(name, way)| Build { name, way, variables: Vec::new() });
    let each = vec![
        // The shell of each rule, by its path; the driver; what the driver starts.
        format!("SHELL={}", place.heapledger.display()),
        format!(".SHELLFLAGS={} /bin/sh -c", own("", "sh", " ").split_once(' ').map_or("", |(_, rest)| rest)),
        format!("RUN={}", own("", "gcc", " ")),
        format!("WRAPPER=-wrapper {}", own("", "%n", ",")),
    ];
    let compilation = |options: &str| vec![format!("RUN={}", own(options, "gcc", " "))];
    let plainly = |name, variables| Build { name, way: None, variables };
    [
        plain,
        alone,
        children,
        other,
        plainly("each of its processes under a `run` of its own", each),
        plainly("each compilation under a `run --children` of its own", compilation("--children")),
        plainly("the same, `--children=other`", compilation("--children=other")),
    ]
}

/// A build of many small files, and what its programs pay when each runs alone.
fn a_build(place: &Place, rounds: u32) -> Result {
    place.empty()?;
    let mut rules = String::from("all:");
    (0..FILES).for_each(|file| rules.push_str(&format!(" {file}.o")));
    rules.push_str("\n%.o: %.c\n\t@true; $(RUN) gcc $(WRAPPER) -c -o $@ $<\n");
    let write = |name: &str, text: &str| {
        fs::write(place.directory.join(name), text).map_err(|error| format!("{name}: {error}"))
    };
    write("Makefile", &rules)?;
    for file in 0..FILES {
        write(&format!("{file}.c"), &format!("int f{file}(int x) {{ return x + {file}; }}\n"))?;
    }
    let mut builds = builds(place).map(|build| (build, [Vec::new(), Vec::new()]));
    let mut ledgers = Vec::new();
    for _ in 0..rounds {
        for (build, [wall, used]) in &mut builds {
            place.clean()?;
            let words: Vec<&str> =
                ["make", "-j2"].into_iter().chain(build.variables.iter().map(String::as_str)).collect();
            let took = place.output(build.way, &words)?.1;
            wall.push(took.wall);
            used.push(took.used);
            if build.way == Some(&["--children"][..]) {
                ledgers.push(place.finished().0);
            }
        }
    }
    let ledgers = ledgers.first().copied().unwrap_or_default();
    println!("\n| `make -j2` of {FILES} files, {ledgers} ledgers | s | of processors, s |\n|---|---|---|");
    let figures = builds.map(|(build, both)| {
        let [wall, used] = both.map(|figures| least(figures).0);
        println!("| {} | {wall:.2} | {used:.2} |", build.name);
        Took { wall, used }
    });
    let [plain, _, children, other, each, compilations, nothing] = figures;
    let row = |name: &str, beyond: &dyn Fn(fn(&Took) -> f64) -> f64| {
        let part = |of: fn(&Took) -> f64| beyond(of) / of(&plain) * 100.0;
        println!("| {name} | {:.0} % | {:.0} % |", part(|took| took.wall), part(|took| took.used));
    };
    row("`--children` adds beyond a `run` for each process, of the plain time", &|of| of(&children) - of(&each));
    row("and beyond what recording each compilation by itself adds, `run`'s own work left out", &|of| {
        of(&children) - of(&other) - (of(&compilations) - of(&nothing))
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_the_least_and_the_median() {
        assert_eq!(least(vec![3.0, 1.0, 2.0]), (1.0, 2.0));
        let of = |words: &[&str]| rounds_of(words);
        assert!(
            of(&["x"]).is_none() && of(&["0"]).is_none() && of(&["1", "x"]).is_none() && of(&["1", "2", "3"]).is_none()
        );
        assert_eq!((of(&[]), of(&["5"]), of(&["5", "0"])), (Some((7, 3)), Some((5, 3)), Some((5, 0))));
        assert!(root().join("xtask/src/children.c").is_file());
    }
}
