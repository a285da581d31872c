//! What heaptrack, DHAT and massif say of the same programs: `cargo xtask judges`.
//!
//! Equal where definitions agree. Each known difference has a name in [`Difference`] and is printed where it is seen; any other one
//! is a failure. All programs have one thread: of several, heaptrack takes a block for a temporary one if it is the last of the
//! process, and we if it is the last of its thread. heaptrack and valgrind are Debian's.
//!
//! | judge | figure | ours |
//! |---|---|---|
//! | heaptrack, the lines it ends with | allocations, temporary ones, leaked ones | of one thread: the same definitions, a realloc is one allocation and one free |
//! | DHAT, `Total` and `At t-gmax` | bytes and blocks in all, bytes at the peak | the same |
//! | massif, `--peak-inaccuracy=0` | bytes at its peak | its peak is that of bytes with what it thinks malloc adds |

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::process::{Ran, run_within};
use heapledger_e2e::programs::PATIENCE;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, victim};
use serde_json::Value;

/// Why two tools may say different things of one program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Difference {
    /// One block of heaptrack's own, which its library asks for when it starts.
    OwnStart,
    /// `realloc(p, 0)` frees, and heaptrack does not see that: such a block leaks, and is never a temporary one.
    ReallocToNothing,
    /// What heaptrack is made of uses the C++ library, which has its memory for exceptions before heaptrack sees anything.
    BeforeStart,
    /// DHAT counts a block of no bytes as one byte.
    NoBytes,
    /// massif's peak is the one of bytes and what it adds to each block: its own may lie at another moment.
    OtherMoment,
    /// The program sees another environment, and has blocks for it: Python keeps all of it. The loader does so for `LD_PRELOAD`.
    Environment,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Difference::OwnStart => "one block of heaptrack's own start",
            Difference::BeforeStart => "the C++ library's own block, from before heaptrack's start",
            Difference::ReallocToNothing => "realloc(p, 0), which heaptrack takes for no free",
            Difference::NoBytes => "blocks of no bytes are one byte to DHAT",
            Difference::OtherMoment => "massif's peak counts what it adds to blocks, and is another moment",
            Difference::Environment => "another environment, which the program keeps",
        })
    }
}

/// Figures of heaptrack's.
const TEMPORARY: &str = "temporary blocks";
const LEAKED: &str = "leaked blocks";
/// Blocks and bytes that another environment may come to.
const ENVIRONMENT: (u64, u64) = (24, 4096);

/// A program, and whether it keeps its environment.
struct Subject {
    name: String,
    path: PathBuf,
    words: Vec<String>,
    environment: Vec<(&'static str, &'static str)>,
    /// What of it is known to be otherwise by heaptrack, by how much, and why.
    known: &'static [(&'static str, u64, Difference)],
}

/// What we say.
struct Ours {
    allocations: u64,
    bytes: u64,
    peak: u64,
    live: u64,
    temporary: u64,
    no_bytes: u64,
}

impl Subject {
    fn ours(&self, scratch: &Scratch) -> Result<Ours> {
        // All frees are held, so that blocks of no bytes can be counted.
        let mut run = under_run(scratch, "ours", &["--history", "4000000"], &self.path, &self.words);
        run_cleanly(scratch, run.envs(self.environment.iter().copied()))?.good()?;
        let ledger = scratch.path("ours.hl");
        let stats = Stats::of(&ledger)?;
        let root = read("tree", &ledger, &["--limit", "1"])?.into_iter().nth(1).ok_or("no root")?;
        let of_size_0 = read("history", &ledger, &["--where", "size == 0 and event == allocation"])?;
        let no_bytes = of_size_0.iter().filter(|line| line["type"] == "event").count() as u64;
        let number = |key: &str| stats.number(key);
        check!(number("peak_error_bytes") == 0, "{}: more than one thread", self.name);
        Ok(Ours {
            allocations: number("allocations"),
            bytes: number("bytes_allocated"),
            peak: number("peak_bytes"),
            live: number("live_blocks"),
            temporary: root["temporary_blocks"].as_u64().ok_or("no temporary blocks")?,
            no_bytes,
        })
    }

    /// Runs it under a judge.
    fn under(&self, scratch: &Scratch, judge: &Path, words: &[&str]) -> Result<Ran> {
        let mut run = command(judge);
        run.args(words).arg(&self.path).args(&self.words).envs(self.environment.iter().copied());
        run_within(run.current_dir(scratch.work()), PATIENCE)?.good()
    }

    fn may_keep_environment(&self) -> bool {
        !self.environment.is_empty()
    }

    /// Holds `said` against `ours`; `known` is by how much they may differ, and why.
    fn judge(&self, judge: &str, figure: &str, ours: u64, said: u64, known: &[(u64, Difference)]) -> Result {
        let of = if figure.contains("bytes") { ENVIRONMENT.1 } else { ENVIRONMENT.0 };
        let off = said.abs_diff(ours);
        let why = known.iter().find(|(most, _)| off == *most);
        let why = match why {
            _ if off == 0 => "equal".to_owned(),
            Some((_, why)) => why.to_string(),
            None if self.may_keep_environment() && off <= of => Difference::Environment.to_string(),
            None => return Err(format!("{}: {judge} says {said} {figure}, we say {ours}", self.name)),
        };
        println!("| {} | {judge} | {figure} | {ours} | {said} | {why} |", self.name);
        Ok(())
    }

    fn heaptrack(&self, scratch: &Scratch, ours: &Ours, judge: &Path) -> Result {
        let out = scratch.path("heaptrack").to_string_lossy().into_owned();
        let ran = self.under(scratch, judge, &["-o", &out])?;
        let text = format!("{}{}", ran.out(), ran.err());
        let number = |words: &str| -> Result<u64> {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(words));
            line.and_then(|rest| rest.trim().parse().ok()).ok_or_else(|| format!("heaptrack says no {words} {text}"))
        };
        let own = [(1, Difference::OwnStart)];
        let known = |figure: &str| -> Vec<(u64, Difference)> {
            self.known.iter().filter(|(of, ..)| *of == figure).map(|(_, most, why)| (*most, *why)).collect()
        };
        self.judge("heaptrack", "allocations", ours.allocations, number("allocations:")?, &own)?;
        self.judge("heaptrack", TEMPORARY, ours.temporary, number("temporary allocations:")?, &known(TEMPORARY))?;
        self.judge("heaptrack", LEAKED, ours.live, number("leaked allocations:")?, &known(LEAKED))
    }

    fn dhat(&self, scratch: &Scratch, ours: &Ours, judge: &Path) -> Result {
        let out = format!("--dhat-out-file={}", scratch.path("dhat").display());
        let text = self.under(scratch, judge, &["--tool=dhat", &out])?.err();
        let [bytes, blocks] = two_numbers(&text, "Total:")?;
        let [peak, _] = two_numbers(&text, "At t-gmax:")?;
        let no_bytes = [(ours.no_bytes, Difference::NoBytes)];
        self.judge("DHAT", "bytes in all", ours.bytes, bytes, &no_bytes)?;
        self.judge("DHAT", "blocks in all", ours.allocations, blocks, &[])?;
        // Of those of no bytes only what lives then counts.
        let within = ours.no_bytes.min(peak.saturating_sub(ours.peak));
        self.judge("DHAT", "bytes at the peak", ours.peak, peak, &[(within, Difference::NoBytes)])
    }

    fn massif(&self, scratch: &Scratch, ours: &Ours, judge: &Path) -> Result {
        let file = scratch.path("massif");
        let out = format!("--massif-out-file={}", file.display());
        self.under(scratch, judge, &["--tool=massif", "--peak-inaccuracy=0", &out])?;
        let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
        let number = |line: &str, key: &str| line.strip_prefix(key).and_then(|text| text.parse::<u64>().ok());
        let (mut at, mut peak) = ([0, 0], None);
        for line in text.lines() {
            match (number(line, "mem_heap_B="), number(line, "mem_heap_extra_B=")) {
                (Some(bytes), _) => at[0] = bytes,
                (_, Some(extra)) => at[1] = extra,
                _ if line == "heap_tree=peak" => peak = Some(at),
                _ => {}
            }
        }
        let [bytes, extra] = peak.ok_or("massif tells of no peak")?;
        // At our peak there were no more bytes with what it adds than at its own; and at its own no more bytes than at ours.
        let room = if self.may_keep_environment() { ENVIRONMENT.1 } else { 0 };
        check!(
            bytes <= ours.peak + room && ours.peak <= bytes + extra + room,
            "{}: massif says {bytes} bytes at its peak and {extra} more, we say {}",
            self.name,
            ours.peak
        );
        let off = bytes.abs_diff(ours.peak);
        self.judge("massif", "bytes at the peak", ours.peak, bytes, &[(off, Difference::OtherMoment)])
    }
}

/// `Total:     17,994,613 bytes in 8,156 blocks`.
fn two_numbers(text: &str, words: &str) -> Result<[u64; 2]> {
    let line = text.lines().find_map(|line| line.split_once(words)).ok_or_else(|| format!("no {words} in {text}"))?.1;
    let mut numbers = line.split_whitespace().filter_map(|word| word.replace(',', "").parse().ok());
    numbers.next().zip(numbers.next()).map(|(one, two)| [one, two]).ok_or_else(|| line.to_owned())
}

fn subjects(scratch: &Scratch) -> Result<Vec<Subject>> {
    let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut all = Vec::new();
    let planted = victim::named("planted_peak")?.build()?;
    for (steps, seed) in [("10", "1"), ("300", "2"), ("2000", "3"), ("5000", "4"), ("20000", "5")] {
        let (name, path, words) =
            (format!("planted_peak 1 {steps} {seed}"), planted.clone(), strings(&["1", steps, seed]));
        all.push(Subject { name, path, words, environment: Vec::new(), known: &[] });
    }
    // How often `realloc_chain` frees by `realloc(p, 0)`.
    const TO_NOTHING: u64 = 100;
    for (name, words, known) in [
        (
            "realloc_chain",
            &[][..],
            &[
                (TEMPORARY, TO_NOTHING, Difference::ReallocToNothing),
                (LEAKED, TO_NOTHING, Difference::ReallocToNothing),
            ][..],
        ),
        ("made_shared", &[], &[(LEAKED, 1, Difference::BeforeStart)]),
        ("bench_paths", &["burst", "20", "30000"], &[]),
    ] {
        let path = victim::named(name)?.build()?;
        all.push(Subject { name: name.to_owned(), path, words: strings(words), environment: Vec::new(), known });
    }
    let json = scratch.path("input.json");
    let rows: Vec<Value> = (0..500).map(|row| serde_json::json!({"id": row, "name": format!("name {row}")})).collect();
    fs::write(&json, Value::from(rows).to_string()).map_err(|error| error.to_string())?;
    let json = json.to_string_lossy().into_owned();
    const SQL: &str = "create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 2000) \
                       insert into t select x, printf('row %d', x) from c; create index i on t(b); select count(*) from t;";
    const PYTHON: &str = "kept = [str(i) * 3 for i in range(20000)]; del kept[::2]; d = {i: [i] for i in range(500)}";
    let python = vec![("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "0")];
    for (name, words, environment) in [
        ("jq", strings(&["map(.id) | add", &json]), Vec::new()),
        ("sqlite3", strings(&["-batch", ":memory:", SQL]), Vec::new()),
        ("/usr/bin/python3", strings(&["-S", "-c", PYTHON]), python),
    ] {
        match find(&[name]) {
            Some(path) => all.push(Subject {
                name: name.rsplit('/').next().unwrap_or(name).to_owned(),
                path,
                words,
                environment,
                known: &[],
            }),
            None => println!("{name} is not installed"),
        }
    }
    Ok(all)
}

fn judged() -> Result<u64> {
    let scratch = Scratch::new();
    let (heaptrack, valgrind) = (find(&["heaptrack"]), find(&["valgrind"]));
    if heaptrack.is_none() && valgrind.is_none() {
        return Err("neither heaptrack nor valgrind is installed".to_owned());
    }
    println!("| program | judge | figure | heapledger | judge says | |\n|---|---|---|---:|---:|---|");
    let mut failures = 0;
    for subject in subjects(&scratch)? {
        let own = Scratch::new();
        let ours = subject.ours(&own)?;
        let mut told = |result: Result| {
            if let Err(problem) = result {
                failures += 1;
                println!("| {} | DIFFERS | {problem} | | | |", subject.name);
            }
        };
        if let Some(heaptrack) = &heaptrack {
            told(subject.heaptrack(&own, &ours, heaptrack));
        }
        if let Some(valgrind) = &valgrind {
            told(subject.dhat(&own, &ours, valgrind));
            told(subject.massif(&own, &ours, valgrind));
        }
    }
    Ok(failures)
}

fn main() -> ExitCode {
    match judged() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failures) => {
            eprintln!("{failures} differences that nobody has explained");
            ExitCode::FAILURE
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
