//! `cargo xtask scale`: what reading large ledgers takes, and how it grows from 1 to 20 million blocks.
//! `docs/benchmarks.md` says what is measured.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::bench::machine;
use crate::step::{Result, cargo, output, root, run as run_command, seconds, target};

const USAGE: &str = "\
cargo xtask scale [--rounds N] [--processors LIST] [--keep] [MILLIONS]...
  --rounds N         how often each command is run; the fastest counts (default 3)
  --processors LIST  of which processors the commands may use, as for taskset (default 0,1)
  --keep             leave the ledgers in target/scale
  MILLIONS           live blocks, in millions (default 1 2 5 10 20); a quarter as many are freed and remembered";

const MILLIONS: &[u64] = &[1, 2, 5, 10, 20];
/// Threads of the program that is recorded.
const THREADS: &str = "4";
/// Most seconds for a command.
const LIMIT_S: &str = "600";

/// A command that is measured: its name in the table, its words, and what it reads.
struct Reader {
    name: &'static str,
    words: &'static [&'static str],
    form: Form,
}

/// What a command reads.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Finished,
    Unfinished,
    /// A snapshot and the finished ledger of the same run.
    Both,
}

const fn reader(name: &'static str, words: &'static [&'static str], form: Form) -> Reader {
    Reader { name, words, form }
}

const READERS: &[Reader] = &[
    reader("stats", &["stats"], Form::Finished),
    reader("stats, unfinished", &["stats"], Form::Unfinished),
    reader("dump by size", &["dump", "--limit", "20", "--sort", "size"], Form::Finished),
    reader("dump by stack", &["dump", "--top", "20", "--group-by", "stack"], Form::Finished),
    reader(
        "dump --where",
        &["dump", "--limit", "20", "--where", "size >= 100 and fn ~ \"function_1\""],
        Form::Finished,
    ),
    reader("dump, all", &["dump", "--limit", "0", "-f", "%p"], Form::Finished),
    reader("history", &["history", "--limit", "100"], Form::Finished),
    reader("history, all", &["history", "--limit", "0", "-f", "%s"], Form::Finished),
    reader("history of two, all", &["history", "--limit", "0", "-f", "%s"], Form::Both),
    reader("tree", &["tree"], Form::Finished),
    reader("flame", &["flame", "--format", "html", "--output", "-"], Form::Finished),
    reader("check", &["check", "--max-live", "1T", "--max-leaked", "1T"], Form::Finished),
    reader("diff", &["diff"], Form::Both),
    reader("diff --blocks", &["diff", "--blocks", "--limit", "20"], Form::Both),
    reader("diff by function", &["diff", "--group-by", "fn"], Form::Both),
];

struct Request {
    rounds: usize,
    processors: String,
    keep: bool,
    millions: Vec<u64>,
}

impl Request {
    fn parse(words: &[&str]) -> Result<Request> {
        let mut request = Request { rounds: 3, processors: "0,1".into(), keep: false, millions: vec![] };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let number = |word: &str| word.parse::<u64>().ok().filter(|number| *number > 0);
            match *word {
                "--keep" => request.keep = true,
                "--rounds" => {
                    let rounds = words.next().and_then(|word| number(word));
                    request.rounds = rounds.ok_or_else(|| format!("--rounds takes a number\n{USAGE}"))? as usize;
                }
                "--processors" => {
                    request.processors =
                        (*words.next().ok_or_else(|| format!("--processors takes a list\n{USAGE}"))?).into();
                }
                word => request.millions.push(number(word).ok_or_else(|| format!("{word:?} is no number\n{USAGE}"))?),
            }
        }
        if request.millions.is_empty() {
            request.millions = MILLIONS.to_vec();
        }
        Ok(request)
    }
}

/// What a command took.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Taken {
    wall_us: u64,
    cpu_us: u64,
    peak_kib: u64,
}

impl Taken {
    /// Reads the line of `bench_time`.
    fn parse(line: &str) -> Result<Taken> {
        let figure = |name: &str| {
            let word = line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            word.and_then(|word| word.parse::<u64>().ok()).ok_or_else(|| format!("the timer says {line:?}"))
        };
        if figure("status")? != 0 {
            return Err("it failed".into());
        }
        Ok(Taken {
            wall_us: figure("wall")?,
            cpu_us: figure("user")? + figure("sys")?,
            peak_kib: figure("maxrss_kib")?,
        })
    }

    fn cell(&self) -> String {
        let [wall, cpu] = [self.wall_us, self.cpu_us].map(|us| us as f64 / 1e6);
        format!("{wall:.2} s ({cpu:.2}), {} MiB", self.peak_kib / 1024)
    }
}

struct Place {
    directory: PathBuf,
    /// Where unfinished ledgers go: in memory, as those of `run`.
    live: PathBuf,
    heapledger: PathBuf,
    preload: PathBuf,
    program: PathBuf,
    timer: PathBuf,
    processors: String,
}

impl Place {
    fn build(processors: String) -> Result<Place> {
        println!("building …");
        run_command(&mut cargo(&["build", "--release", "--package", "heapledger-cli"]))?;
        run_command(&mut cargo(&["build", "--release", "--package", "heapledger-preload"]))?;
        let directory = target().join("scale");
        fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let compile = |name: &str| {
            let product = directory.join(name);
            let mut gcc = Command::new("gcc");
            gcc.args(["-O2", "-g", "-pthread", "-o"]).arg(&product);
            output(gcc.arg(root().join("victims").join(format!("{name}.c"))))?;
            Ok::<_, String>(product)
        };
        Ok(Place {
            heapledger: target().join("release/heapledger"),
            preload: target().join("release/libheapledger_preload.so"),
            program: compile("bench_scale")?,
            timer: compile("bench_time")?,
            live: match Path::new("/dev/shm") {
                memory if memory.is_dir() => memory.join(format!("heapledger-scale-{}", std::process::id())),
                _ => directory.join("live"),
            },
            directory,
            processors,
        })
    }

    /// Runs `heapledger WORDS`, and says what it took; what it printed is of no interest.
    fn measure(&self, words: &[&str], files: &[&Path]) -> Result<Taken> {
        let figures = self.directory.join("figures");
        let mut timer = Command::new(&self.timer);
        timer.arg(&figures).arg(LIMIT_S).args(["taskset", "-c", &self.processors]).arg(&self.heapledger);
        timer.args(words).args(files).env_remove("LD_LIBRARY_PATH");
        let ran = timer.output().map_err(|error| format!("{}: {error}", self.timer.display()))?;
        let complaint = String::from_utf8_lossy(&ran.stderr).lines().next().unwrap_or_default().to_owned();
        let line = fs::read_to_string(&figures).map_err(|error| error.to_string())?;
        Taken::parse(&line).map_err(|problem| format!("heapledger {}: {problem}: {complaint}", words.join(" ")))
    }

    /// Fails unless a ledger holds what the program did: a full disk makes the history shorter, and all figures with it.
    fn verify(&self, ledger: &Path, millions: u64) -> Result {
        let json = output(Command::new(&self.heapledger).args(["stats", "--json"]).arg(ledger))?;
        let figure = |name: &str| -> Option<u64> {
            let rest = json.split_once(&format!("\"{name}\":"))?.1;
            rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
        };
        // Threads that ended early leave a few places of the ring unused.
        let (live, history) = (millions * 1_000_000, millions * 250_000 / 100 * 99);
        match (figure("live_blocks"), figure("history_entries")) {
            (Some(blocks), Some(entries)) if blocks >= live && entries >= history => Ok(()),
            found => Err(format!(
                "the ledger of {millions} million blocks is not complete: {found:?}; is there room for it?"
            )),
        }
    }

    /// Runs the program with the library in front of it, and returns its unfinished ledger.
    fn record(&self, millions: u64) -> Result<PathBuf> {
        let base = self.live.clone();
        let _ = fs::remove_dir_all(&base);
        fs::create_dir_all(&base).map_err(|error| format!("{}: {error}", base.display()))?;
        let (live, freed) = (millions * 1_000_000, millions * 250_000);
        let options = format!("dir={},max-ledger={},history={freed}", base.display(), 16u64 << 30);
        let mut program = Command::new(&self.program);
        program.args([&live.to_string(), &freed.to_string(), THREADS]);
        run_command(program.env("LD_PRELOAD", &self.preload).env("HEAPLEDGER", options))?;
        let find = |directory: &Path| -> Option<PathBuf> {
            let items = fs::read_dir(directory).ok()?.flatten().map(|item| item.path());
            items.filter(|path| path.is_dir() || path.extension().is_some_and(|ending| ending == "hlive")).max()
        };
        find(&base).and_then(|directory| find(&directory)).ok_or_else(|| "the program left no ledger".to_owned())
    }
}

/// Measures, and prints a table.
pub(crate) fn run(words: &[&str]) -> Result {
    let request = Request::parse(words)?;
    let began = Instant::now();
    let load = machine::load();
    let place = Place::build(request.processors.clone())?;
    let mut rows: Vec<(String, Vec<String>)> = vec![("unpacked".into(), vec![]), ("in the file".into(), vec![])];
    rows.extend([("finishing".into(), vec![]), ("snapshot, unfinished".into(), vec![])]);
    rows.extend(READERS.iter().map(|reader| (reader.name.to_owned(), vec![])));
    for millions in &request.millions {
        println!("{millions} million blocks …");
        let unfinished = place.record(*millions)?;
        let fastest = |reader: &Reader, files: &[&Path]| -> Result<Taken> {
            let first = place.measure(reader.words, files)?;
            let further = (1..request.rounds).map(|_| place.measure(reader.words, files));
            further
                .into_iter()
                .try_fold(first, |best, next| next.map(|next| if next.wall_us < best.wall_us { next } else { best }))
        };
        let mut unfinished_cells = HashMap::new();
        for reader in READERS.iter().filter(|reader| reader.form == Form::Unfinished) {
            unfinished_cells.insert(reader.name, fastest(reader, &[&unfinished])?.cell());
        }
        let results = place.directory.join("results");
        let _ = fs::remove_dir_all(&results);
        fs::create_dir_all(&results).map_err(|error| format!("{}: {error}", results.display()))?;
        let snapshot = place.directory.join("snapshot.hl");
        let _ = fs::remove_file(&snapshot);
        let copying = place.measure(&["snapshot", "--output", &snapshot.to_string_lossy()], &[&unfinished])?;
        let finishing = place.measure(&["recover", "-o", &results.to_string_lossy()], &[&unfinished])?;
        let found = fs::read_dir(&results).map_err(|error| error.to_string())?.flatten().map(|item| item.path()).next();
        let finished = place.directory.join(format!("{millions}-million.hl"));
        let found = found.ok_or("nothing was finished")?;
        fs::rename(&found, &finished).map_err(|error| format!("{}: {error}", found.display()))?;
        place.verify(&finished, *millions)?;
        let file_bytes = fs::metadata(&finished).map_err(|error| error.to_string())?.len();
        let unpacked = millions * 1_000_000 * 32 + millions * 250_000 * 64;
        let mut column = vec![format!("{} MiB", unpacked >> 20), format!("{} MiB", file_bytes >> 20)];
        column.extend([finishing.cell(), copying.cell()]);
        for reader in READERS {
            column.push(match reader.form {
                Form::Unfinished => unfinished_cells.remove(reader.name).unwrap_or_default(),
                Form::Finished => fastest(reader, &[&finished])?.cell(),
                Form::Both => fastest(reader, &[&snapshot, &finished])?.cell(),
            });
        }
        let _ = fs::remove_file(&snapshot);
        rows.iter_mut().zip(column).for_each(|((_, cells), cell)| cells.push(cell));
        if !request.keep {
            fs::remove_file(&finished).map_err(|error| format!("{}: {error}", finished.display()))?;
        }
    }
    let _ = fs::remove_dir_all(&place.live);
    print!("\n{}", table(&request.millions, &rows));
    println!(
        "\n{}\nmeasured in {}, on processors {}; load of the machine {load} before, {} after",
        machine::description(),
        seconds(began.elapsed()),
        request.processors,
        machine::load()
    );
    Ok(())
}

/// As in the documentation.
fn table(millions: &[u64], rows: &[(String, Vec<String>)]) -> String {
    let heads: Vec<String> = millions.iter().map(|millions| format!(" {millions} million |")).collect();
    let mut text = format!("| |{}\n|---|{}\n", heads.concat(), "---|".repeat(millions.len()));
    for (name, cells) in rows {
        text += &format!("| {name} | {} |\n", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_figures_are_read() {
        let request = Request::parse(&["--rounds", "2", "1", "20"]).expect("good");
        assert_eq!((request.rounds, request.millions), (2, vec![1, 20]));
        assert!(Request::parse(&["--rounds"]).is_err() && Request::parse(&["x"]).is_err());
        let taken = Taken::parse("user=1500000 sys=500000 wall=1000000 maxrss_kib=20480 status=0").expect("good");
        assert_eq!(taken.cell(), "1.00 s (2.00), 20 MiB");
        assert!(Taken::parse("user=1 sys=1 wall=1 maxrss_kib=1 status=256").is_err());
        assert_eq!(table(&[1], &[("x".into(), vec!["y".into()])]), "| | 1 million |\n|---|---|\n| x | y |\n");
    }
}
