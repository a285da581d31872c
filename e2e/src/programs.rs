//! Real programs with real work, and their inputs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::counts::Counts;
use crate::inputs::{BASH, JAVA, NODE, PERL, PYTHON, SQL, c_source, cxx_source, json, repository, xml};
use crate::ledger::{Stats, check_nothing_wrong, check_totals};
use crate::process::{self, Ran};
use crate::scratch::Scratch;
use crate::tools::{command, find};
use crate::tracked::{by_hand, recover, under_run};
use crate::victim::counter;
use crate::{Result, check};

/// How long one of them may take, under us and heaptrack and on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(900);

/// A program and what it is told to do.
#[derive(Clone, Debug)]
pub struct Program {
    /// A short name.
    pub name: &'static str,
    path: PathBuf,
    arguments: Vec<String>,
    /// What is set in its environment.
    pub environment: Vec<(&'static str, String)>,
    /// Losses that it may have, by name.
    pub losses: Vec<String>,
}

/// How much work there is: a test is quick, the script takes its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// A second without us.
    Quick,
    /// Several seconds without us.
    Large,
}

impl Load {
    fn times(self, quick: usize, large: usize) -> usize {
        if self == Load::Quick { quick } else { large }
    }
}

/// Names of all programs that [`prepare`] knows.
pub const NAMES: &[&str] = &["jq", "python3", "perl", "sqlite3", "xmllint", "git", "cc1", "cc1plus", "node"];

/// And those that are run for what they say alone: one ends while its threads allocate, so no two counts of it agree; the other's
/// work is done by its children.
pub const UNCOUNTED: &[&str] = &["java", "bash"];

/// Makes the input of a program in `scratch`. `None` if the program is not installed.
pub fn prepare(name: &str, scratch: &Scratch, load: Load) -> Result<Option<Program>> {
    let mut environment: Vec<(&'static str, &str)> = vec![("LC_ALL", "C.UTF-8")];
    let (found, arguments): (_, Vec<String>) = match name {
        "jq" => {
            let input = write(scratch, "input.json", &json(load.times(40_000, 400_000)))?;
            let filter = "[.[] | select(.age > 30)] | group_by(.city) | map({city: .[0].city, n: length, \
                          names: (map(.name) | sort | .[:3])})";
            (find(&["jq"]), vec![filter.into(), input])
        }
        "python3" => {
            environment.extend([("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "0")]);
            let input = write(scratch, "input.json", &json(load.times(5_000, 100_000)))?;
            let script = write(scratch, "work.py", PYTHON)?;
            (find(&["/usr/bin/python3"]), vec![script, input])
        }
        "perl" => {
            environment.extend([("PERL_HASH_SEED", "0"), ("PERL_PERTURB_KEYS", "0")]);
            let script = write(scratch, "work.pl", PERL)?;
            (find(&["perl"]), vec![script, load.times(60_000, 1_000_000).to_string()])
        }
        "sqlite3" => {
            let script = write(scratch, "work.sql", &SQL.replace("ROWS", &load.times(40_000, 1_000_000).to_string()))?;
            (find(&["sqlite3"]), vec!["-batch".into(), ":memory:".into(), format!(".read {script}")])
        }
        "xmllint" => {
            let input = write(scratch, "input.xml", &xml(load.times(20_000, 400_000)))?;
            (find(&["xmllint"]), vec!["--xpath".into(), "count(//item[@n mod 7 = 0]/name)".into(), input])
        }
        "git" => {
            environment.extend([
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("HOME", "/nonexistent"),
                ("GIT_PAGER", "cat"),
                ("GIT_AUTHOR_DATE", "@1700000000 +0000"),
                ("GIT_COMMITTER_DATE", "@1700000000 +0000"),
            ]);
            let repository = repository(scratch, load.times(40, 400))?;
            let arguments = ["--no-pager", "-C", &repository, "log", "-p", "--stat", "-M", "--no-ext-diff"];
            (find(&["/usr/bin/git", "git"]), arguments.map(str::to_owned).into())
        }
        "cc1" => {
            let input = write(scratch, "input.c", &c_source(load.times(60, 1_500)))?;
            let output = scratch.path("input.s").to_string_lossy().into_owned();
            (compiler("gcc", "cc1"), ["-quiet", "-O1", "-g", &input, "-o", &output].map(str::to_owned).into())
        }
        "cc1plus" => {
            let input = write(scratch, "input.cc", &cxx_source(load.times(4, 30)))?;
            let preprocessed = scratch.path("input.ii").to_string_lossy().into_owned();
            process::run(command("g++").args(["-std=c++17", "-E", &input, "-o", &preprocessed]))?.good()?;
            let output = scratch.path("input.s").to_string_lossy().into_owned();
            let arguments = ["-quiet", "-std=c++17", "-O1", "-g", "-fpreprocessed", &preprocessed, "-o", &output];
            (compiler("g++", "cc1plus"), arguments.map(str::to_owned).into())
        }
        "node" => {
            let input = write(scratch, "input.json", &json(load.times(5_000, 50_000)))?;
            let script = write(scratch, "work.js", NODE)?;
            (find(&["node"]), vec![script, input])
        }
        "java" => {
            let script = write(scratch, "Work.java", JAVA)?;
            // The compiler of the same kit runs first, in the same process.
            let arguments = ["-Xmx256m", "-XX:+UseSerialGC", &script];
            (find(&["javac"]).and_then(|_| find(&["java"])), arguments.map(str::to_owned).into())
        }
        "bash" => {
            let (input, script) = (write(scratch, "input.c", &c_source(20))?, write(scratch, "work.sh", BASH)?);
            (find(&["bash"]), vec![script, input, load.times(20, 200).to_string()])
        }
        other => return Err(format!("there is no program {other}")),
    };
    let name = NAMES.iter().chain(UNCOUNTED).find(|own| **own == name).copied().unwrap_or_default();
    // V8's built-in code, and what it makes at run time, has no tables, and not always frame pointers.
    let losses: &[&str] = if name == "node" || name == "java" { &["stacks_guessed", "stacks_broken"] } else { &[] };
    let losses = losses.iter().map(|name| (*name).to_owned()).collect();
    Ok(found.map(|path| Program { name, path, arguments, environment: strings(environment), losses }))
}

fn strings(pairs: Vec<(&'static str, &str)>) -> Vec<(&'static str, String)> {
    pairs.into_iter().map(|(name, value)| (name, value.to_owned())).collect()
}

impl Program {
    /// Runs it without us.
    pub fn plain(&self, scratch: &Scratch) -> Result<Ran> {
        self.finish(command(&self.path).args(&self.arguments).current_dir(scratch.work()))
    }

    /// Runs it under `heapledger run`; the ledger is `NAME.hl`.
    pub fn under_run(&self, scratch: &Scratch, options: &[&str]) -> Result<(Ran, PathBuf)> {
        let ran = self.finish(&mut under_run(scratch, self.name, options, &self.path, &self.arguments))?;
        Ok((ran, scratch.path(&format!("{}.hl", self.name))))
    }

    /// Runs it with the counting library behind ours.
    pub fn counted(&self, scratch: &Scratch) -> Result<(Ran, Stats, Counts)> {
        let counter = counter()?;
        let base = scratch.path("counts");
        let mut command = by_hand(scratch, &[&counter], &self.path, &self.arguments);
        let ran = self.finish(command.env("COUNTER_OUT", &base))?;
        let stats = Stats::of(recover(scratch)?.last().ok_or("there is no ledger")?)?;
        let counts = Counts::of(&base, &stats)?;
        Ok((ran, stats, counts))
    }

    /// What heaptrack says: calls to allocation functions. `None` if it is not installed.
    pub fn heaptrack(&self, scratch: &Scratch) -> Result<Option<u64>> {
        let (Some(heaptrack), Some(print)) = (find(&["heaptrack"]), find(&["heaptrack_print"])) else {
            return Ok(None);
        };
        let out = scratch.path("heaptrack");
        let mut command = command(heaptrack);
        self.finish(command.arg("-o").arg(&out).arg(&self.path).args(&self.arguments).current_dir(scratch.work()))?;
        let written = ["heaptrack.zst", "heaptrack.gz"].map(|name| scratch.path(name));
        let file = written.iter().find(|path| path.exists()).ok_or("heaptrack has written nothing")?;
        let mut command = crate::tools::command(print);
        command.args(["-p", "0", "-a", "0", "-T", "0", "-l", "0", "-f"]).arg(file);
        let text = process::run_within(&mut command, PATIENCE)?.good()?.out();
        const WORDS: &str = "calls to allocation functions: ";
        let line = text.lines().find_map(|line| line.strip_prefix(WORDS)).ok_or("heaptrack_print says no total")?;
        let digits: String = line.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().map(Some).map_err(|_| line.to_owned())
    }

    fn finish(&self, command: &mut Command) -> Result<Ran> {
        process::run_within(command.envs(self.environment.iter().map(|(name, value)| (name, value))), PATIENCE)
    }
}

/// What was found out about one program.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Allocations in the ledger.
    pub allocations: u64,
    /// Frees in the ledger.
    pub frees: u64,
    /// Live at the end.
    pub live: u64,
    /// What the counting library has counted, in a run of its own.
    pub counted: (u64, u64),
    /// What the ledger of that run says.
    pub beside_counter: (u64, u64),
    /// What heaptrack says.
    pub heaptrack: Option<u64>,
    /// Time without us and with us, in seconds.
    pub seconds: (f32, f32),
    /// The call site that holds most.
    pub top: String,
}

/// Everything that the issue asks for about one program: same output, equal counts, agreeing totals.
pub fn examine(program: &Program, scratch: &Scratch, heaptrack: bool) -> Result<Row> {
    let plain = program.plain(scratch)?;
    check!(plain.status.success(), "it fails without us: {plain}");
    let (tracked, ledger) = program.under_run(scratch, &[])?;
    plain.compare(&tracked)?;
    let stats = Stats::of(&ledger)?;
    check_totals(&stats, &program.losses)?;
    check_nothing_wrong(&ledger, &[])?;
    let (ran, own, counts) = program.counted(scratch)?;
    plain.compare(&ran)?;
    counts.check(&own, 0).map_err(|problem| format!("counting library: {problem}"))?;
    check_totals(&own, &program.losses)?;
    let heaptrack = if heaptrack { program.heaptrack(scratch)? } else { None };
    let allocations = stats.number("allocations");
    if let Some(figure) = heaptrack {
        let off = figure.abs_diff(allocations) as f64 / allocations as f64;
        check!(off <= 0.001, "heaptrack says {figure} allocations, the ledger {allocations}: {:.3} % off", off * 100.0);
    }
    Ok(Row {
        name: program.name.to_owned(),
        allocations,
        frees: stats.number("frees"),
        live: stats.number("live_blocks"),
        counted: (counts.allocations(), counts.frees()),
        beside_counter: (own.number("allocations"), own.number("frees")),
        heaptrack,
        seconds: (plain.span.as_secs_f32(), tracked.span.as_secs_f32()),
        top: top(&stats),
    })
}

/// The call site that holds most: its innermost functions, or modules where there are no names.
pub fn top(stats: &Stats) -> String {
    let site = &stats.0["top_sites"][0];
    if site.is_null() {
        return "nothing is live".to_owned();
    }
    let frames = site["frames"].as_array().map_or(&[][..], Vec::as_slice);
    let name = |frame: &serde_json::Value| match (frame["function"].as_str(), frame["module"].as_str()) {
        (Some(function), _) => function.to_owned(),
        (None, Some(module)) => format!("{}+{}", module.rsplit('/').next().unwrap_or(module), frame["offset"]),
        (None, None) => frame["address"].to_string(),
    };
    let names: Vec<String> = frames.iter().take(4).map(name).collect();
    format!("{} bytes in {} blocks: {}", site["bytes"], site["blocks"], names.join(" < ")).replace('"', "")
}

/// redis-server on a socket in a scratch directory.
pub struct Redis {
    server: process::Running,
    socket: PathBuf,
}

impl Redis {
    /// Starts it, with threads for its input and output. `command` is how to start the program with arguments.
    pub fn start(scratch: &Scratch, command: impl FnOnce(&Path, &[String]) -> Command) -> Result<Option<Redis>> {
        let (Some(server), Some(_)) = (find(&["redis-server"]), find(&["redis-benchmark"])) else { return Ok(None) };
        let socket = scratch.path("redis.sock");
        let text = socket.to_string_lossy().into_owned();
        let arguments =
            ["--port", "0", "--unixsocket", &text, "--save", "", "--io-threads", "4", "--io-threads-do-reads", "yes"];
        let mut command = command(&server, &arguments.map(str::to_owned));
        let server = process::start(command.stdin(std::process::Stdio::null()))?;
        let redis = Redis { server, socket };
        process::until("redis answers", || redis.ask(&["ping"]).is_ok_and(|ran| ran.out().trim() == "PONG"))?;
        Ok(Some(redis))
    }

    fn ask(&self, words: &[&str]) -> Result<Ran> {
        process::run(command("redis-cli").arg("-s").arg(&self.socket).args(words))
    }

    /// A load, which runs until it is done or the server is gone.
    pub fn benchmark(&self, requests: usize) -> Result<process::Running> {
        let mut command = command("redis-benchmark");
        command.arg("-s").arg(&self.socket).args(["-n", &requests.to_string(), "-c", "50", "-P", "8", "-r", "100000"]);
        process::start(command.args(["-q", "-t", "set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100,mset"]))
    }

    /// The process that we started: the server itself, or `heapledger run`.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Keys that it holds.
    pub fn keys(&self) -> Result<String> {
        Ok(self.ask(&["dbsize"])?.out())
    }

    /// Ends it as an administrator would.
    pub fn shut_down(self) -> Result<Ran> {
        let _ = self.ask(&["shutdown", "nosave"]);
        self.server.finish(PATIENCE)
    }

    /// Waits until it has been killed.
    pub fn gone(self) -> Result<Ran> {
        self.server.finish(PATIENCE)
    }
}

fn write(scratch: &Scratch, name: &str, text: &str) -> Result<String> {
    let path = scratch.path(name);
    fs::write(&path, text).map_err(|error| error.to_string())?;
    Ok(path.to_string_lossy().into_owned())
}

fn compiler(driver: &str, program: &str) -> Option<PathBuf> {
    let ran = process::run(command(driver).arg(format!("-print-prog-name={program}"))).ok()?;
    Some(PathBuf::from(ran.out().trim())).filter(|path| path.is_absolute())
}
