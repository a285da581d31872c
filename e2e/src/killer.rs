//! SIGKILL at random moments, of the program, of `run` and of `recover`: whatever was completed is in the ledger.
//!
//! The victim (`victims/kill_truth.c`) keeps what it has allocated in a file that it maps, so the truth outlives it.

pub mod family;
mod truth;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{self, PATIENCE, Running, children, kill};
use crate::scratch::Scratch;
use crate::tools::{command, heapledger};
use crate::tracked::under_run;
use crate::{Result, check, victim};
use truth::{FILE_BYTES, Truth};

/// Who is killed, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The program, from its first moment on; `run` finishes its ledger.
    Program,
    /// `run`, then the program; `recover` at once.
    Run,
    /// The program, then `run` while it finishes; `recover`.
    Finishing,
    /// `run` and the program; then `recover` while it finishes; `recover` again.
    Recover,
    /// The whole group at once, as by an OOM killer; `recover`.
    All,
    /// The live file is removed; then the program is killed; `run` finishes from what it holds.
    Removed,
    /// The program, while `recover` looks again and again; `run` finishes, and nobody else.
    Beside,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 7] =
        [Way::Program, Way::Run, Way::Finishing, Way::Recover, Way::All, Way::Removed, Way::Beside];

    /// For a table.
    pub fn words(self) -> &'static str {
        match self {
            Way::Program => "the program",
            Way::Run => "run, then the program",
            Way::Finishing => "the program, then run while it finishes",
            Way::Recover => "run and the program, then recover while it finishes",
            Way::All => "run and the program at once",
            Way::Removed => "the live file removed, then the program killed",
            Way::Beside => "the program, with recover running beside run",
        }
    }
}

/// What came of one way.
#[derive(Debug)]
pub struct Row {
    way: &'static str,
    rounds: u64,
    kills: u64,
    at_stake: u64,
    blocks: u64,
    /// What was lost, or else went wrong: a sentence for each.
    pub lost: Vec<String>,
}

impl Row {
    /// The head of a table of them.
    pub const HEAD: &str = "| killed | rounds | kills | ledgers with something to lose | blocks in them | lost |\n\
        |---|---:|---:|---:|---:|---:|";

    fn of(way: &'static str) -> Row {
        Row { way, rounds: 0, kills: 0, at_stake: 0, blocks: 0, lost: Vec::new() }
    }

    /// Kills.
    pub fn kills(&self) -> u64 {
        self.kills
    }

    /// Ledgers that had something in them.
    pub fn at_stake(&self) -> u64 {
        self.at_stake
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { way, rounds, kills, at_stake, blocks, lost } = self;
        write!(f, "| {way} | {rounds} | {kills} | {at_stake} | {blocks} | {} |", lost.len())
    }
}

/// Numbers of chance.
struct Chance(u64);

impl Chance {
    /// A moment within so many milliseconds, in microseconds: most of them early, where starts and ends are.
    fn moment(&mut self, within_ms: u64) -> Duration {
        let mut next = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % (within_ms * 1000).max(1)
        };
        Duration::from_micros(next().min(next()))
    }
}

/// Kills in one way, so many times or until so much time is over.
pub fn kill_in(way: Way, rounds: u64, within: Duration, seed: u64) -> Result<Row> {
    let program = victim::named("kill_truth")?.build()?;
    heapledger();
    let mut row = Row::of(way.words());
    let mut chance = Chance(seed ^ ((way as u64 + 1) << 32));
    let begun = Instant::now();
    while row.rounds < rounds && (begun.elapsed() < within || row.rounds == 0) {
        row.rounds += 1;
        let mut round = Round::new(&program)?;
        let found = round.kill(way, &mut chance).and_then(|()| round.look());
        row.kills += round.kills;
        match found {
            Ok(live) => {
                row.at_stake += u64::from(live > 0);
                row.blocks += live as u64;
            }
            Err(problem) => row.lost.push(format!("{}, round {}: {problem}", way.words(), row.rounds)),
        }
    }
    Ok(row)
}

/// One start, and what is killed.
struct Round {
    scratch: Scratch,
    program: PathBuf,
    truth: PathBuf,
    kills: u64,
}

impl Round {
    fn new(program: &Path) -> Result<Round> {
        let scratch = Scratch::new();
        let truth = scratch.path("truth");
        let file = fs::File::create(&truth).map_err(|error| error.to_string())?;
        file.set_len(FILE_BYTES).map_err(|error| error.to_string())?;
        Ok(Round { scratch, program: program.to_owned(), truth, kills: 0 })
    }

    fn start(&self) -> Result<Running> {
        let words = [self.truth.to_string_lossy().into_owned()];
        process::start(under_run(&self.scratch, "x", &[], &self.program, &words).stdin(Stdio::null()))
    }

    fn kill(&mut self, way: Way, chance: &mut Chance) -> Result {
        let mut run = self.start()?;
        let pid = child(&mut run)?;
        match way {
            Way::Program => {
                thread::sleep(chance.moment(60));
                self.end(pid);
                run.finish(PATIENCE)?;
            }
            Way::Run => {
                thread::sleep(chance.moment(60));
                self.end(run.pid());
                thread::sleep(chance.moment(60));
                self.end(pid);
                run.finish(PATIENCE)?;
                self.recover()?;
            }
            Way::Finishing => {
                thread::sleep(Duration::from_millis(20) + chance.moment(60));
                self.end(pid);
                thread::sleep(chance.moment(25));
                self.end(run.pid());
                run.finish(PATIENCE)?;
                self.recover()?;
            }
            Way::Recover => {
                thread::sleep(Duration::from_millis(20) + chance.moment(60));
                self.group(&run);
                run.finish(PATIENCE)?;
                let recover = process::start(self.recovery().stdin(Stdio::null()))?;
                thread::sleep(chance.moment(30));
                self.end(recover.pid());
                recover.finish(PATIENCE)?;
                self.recover()?;
            }
            Way::All => {
                thread::sleep(chance.moment(100));
                self.group(&run);
                run.finish(PATIENCE)?;
                self.recover()?;
            }
            Way::Removed => {
                let live = held(&mut run)?;
                thread::sleep(chance.moment(30));
                fs::remove_file(live).map_err(|error| error.to_string())?;
                thread::sleep(chance.moment(60));
                self.end(pid);
                run.finish(PATIENCE)?;
            }
            Way::Beside => {
                thread::sleep(Duration::from_millis(10) + chance.moment(40));
                let recover = process::start(self.recovery().stdin(Stdio::null()))?;
                thread::sleep(chance.moment(10));
                self.end(pid);
                process::run(&mut self.recovery())?;
                recover.finish(PATIENCE)?;
                run.finish(PATIENCE)?;
                let own = self.scratch.path("x.hl");
                check!(own.exists() || self.finished().is_empty(), "recover has taken the ledger of a run that lives");
            }
        }
        Ok(())
    }

    /// Kills a process, which may be gone.
    fn end(&mut self, pid: u32) {
        self.kills += u64::from(kill(pid.into(), "KILL").is_ok());
    }

    /// Kills `run` and the program in one call.
    fn group(&mut self, run: &Running) {
        self.kills += u64::from(kill(-i64::from(run.pid()), "KILL").is_ok());
    }

    fn recovery(&self) -> std::process::Command {
        let mut recover = command(heapledger());
        recover.arg("recover").arg(self.scratch.live()).arg("-o").arg(self.scratch.work());
        recover
    }

    fn recover(&self) -> Result {
        process::run(&mut self.recovery())?.good().map(drop)
    }

    /// Finished ledgers, whoever has finished them.
    fn finished(&self) -> Vec<PathBuf> {
        let is_ledger = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "hl");
        self.scratch.finished().into_iter().filter(|path| is_ledger(path) && path.is_file()).collect()
    }

    /// Holds what is there now against the truth; returns how many blocks there were to lose.
    fn look(&self) -> Result<usize> {
        let truth = Truth::read(&self.truth)?;
        let finished = self.finished();
        check!(!finished.is_empty() || truth.live() == 0, "no ledger, and {} blocks were live", truth.live());
        // Two, if it was killed between the ledger's getting its name and the live file's losing its own.
        for ledger in &finished {
            truth.compare(ledger)?;
        }
        // And nothing else is left, unless it may still be at work.
        self.recover()?;
        let left = self.scratch.unfinished();
        check!(left.is_empty() || truth.live() == 0, "left among the ledgers: {left:?}");
        let halves = fs::read_dir(self.scratch.work()).map_err(|error| error.to_string())?.flatten();
        let halves: Vec<PathBuf> = halves.map(|item| item.path()).filter(|path| path.is_dir()).collect();
        check!(halves.is_empty(), "left half written: {halves:?}");
        check!(self.finished().len() == finished.len(), "recover has found one more");
        Ok(truth.live())
    }
}

/// The program that `run` has started.
fn child(run: &mut Running) -> Result<u32> {
    let begun = Instant::now();
    loop {
        if let Some(pid) = children(run.pid()).first() {
            return Ok(*pid);
        }
        check!(run.runs() && begun.elapsed() < PATIENCE, "run has started nothing");
        thread::yield_now();
    }
}

/// The live file, once `run` holds it.
fn held(run: &mut Running) -> Result<PathBuf> {
    let begun = Instant::now();
    loop {
        if let Some(live) = process::held_ledgers(run.pid()).pop() {
            return Ok(live);
        }
        check!(run.runs() && begun.elapsed() < PATIENCE, "run holds no ledger");
        thread::sleep(Duration::from_millis(1));
    }
}
