//! The same of a program with children, each of which is recorded: `run --children`.

use std::fs::{self, FileTimes};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::truth::{FILE_BYTES, Truth};
use super::{Chance, Row, child};
use crate::process::{self, PATIENCE, Running, kill};
use crate::scratch::Scratch;
use crate::tools::{command, heapledger};
use crate::{Result, check, victim};

/// The program and its children.
const PROCESSES: usize = 4;
/// Where each writes its number, behind its slots.
const PID_BYTES: u64 = 8;

/// Who is killed first. In the end nobody is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyWay {
    /// A child; then the others.
    Child,
    /// The program that was started, whose children go on; then they.
    Parent,
    /// `run`; then the others.
    Run,
    /// Everybody at once.
    All,
    /// Children and program, then `run` while it finishes.
    Finishing,
}

impl FamilyWay {
    /// All of them.
    pub const ALL: [FamilyWay; 5] =
        [FamilyWay::Child, FamilyWay::Parent, FamilyWay::Run, FamilyWay::All, FamilyWay::Finishing];

    /// For a table.
    pub fn words(self) -> &'static str {
        match self {
            FamilyWay::Child => "of a family: a child",
            FamilyWay::Parent => "of a family: the parent",
            FamilyWay::Run => "of a family: run, then all others",
            FamilyWay::All => "of a family: all at once",
            FamilyWay::Finishing => "of a family: all, then run while it finishes",
        }
    }
}

/// Kills in one way, so many times or until so much time is over.
///
/// # Errors
/// If nothing can be started.
pub fn kill_in(way: FamilyWay, rounds: u64, within: Duration, seed: u64) -> Result<Row> {
    let program = victim::named("kill_truth")?.build()?;
    heapledger();
    let mut row = Row::of(way.words());
    let mut chance = Chance(seed ^ ((way as u64 + 101) << 32));
    let begun = Instant::now();
    while row.rounds < rounds && (begun.elapsed() < within || row.rounds == 0) {
        row.rounds += 1;
        let mut round = FamilyRound::new()?;
        let found = round.kill(&program, way, &mut chance).and_then(|()| round.look());
        row.kills += round.kills;
        match found {
            Ok(live) => {
                row.at_stake += live.iter().filter(|live| **live > 0).count() as u64;
                row.blocks += live.iter().sum::<usize>() as u64;
            }
            Err(problem) => row.lost.push(format!("{}, round {}: {problem}", way.words(), row.rounds)),
        }
    }
    Ok(row)
}

struct FamilyRound {
    scratch: Scratch,
    truths: Vec<PathBuf>,
    kills: u64,
}

impl FamilyRound {
    fn new() -> Result<FamilyRound> {
        let scratch = Scratch::new();
        let truths: Vec<PathBuf> = (0..PROCESSES).map(|number| scratch.path(&format!("truth{number}"))).collect();
        for truth in &truths {
            let file = fs::File::create(truth).map_err(|error| error.to_string())?;
            file.set_len(FILE_BYTES + PID_BYTES).map_err(|error| error.to_string())?;
        }
        Ok(FamilyRound { scratch, truths, kills: 0 })
    }

    fn start(&self, program: &Path) -> Result<Running> {
        let mut command = command(heapledger());
        command.args(["run", "-q", "--children", "-o"]).arg(self.scratch.path("s"));
        command.arg("--ledger-dir").arg(self.scratch.live()).arg("--").arg(program).args(&self.truths);
        process::start(command.stdin(Stdio::null()).current_dir(self.scratch.work()))
    }

    /// The number of the process that writes this file; `None` if it got no further than to its birth.
    fn pid_of(truth: &Path) -> Option<u32> {
        let bytes = fs::read(truth).ok()?;
        let word = bytes.get(FILE_BYTES as usize..)?.try_into().ok()?;
        u32::try_from(u64::from_le_bytes(word)).ok().filter(|pid| *pid != 0)
    }

    fn end(&mut self, pid: u32) {
        self.kills += u64::from(kill(pid.into(), "KILL").is_ok());
    }

    /// Everybody who is left, but for `run`.
    fn end_all(&mut self, parent: u32) {
        self.end(parent);
        // One that was just born may not have written its number.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(20) {
            for truth in &self.truths {
                let _ = Self::pid_of(truth).map(|pid| kill(pid.into(), "KILL"));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn kill(&mut self, program: &Path, way: FamilyWay, chance: &mut Chance) -> Result {
        let mut run = self.start(program)?;
        let parent = child(&mut run)?;
        thread::sleep(chance.moment(100));
        match way {
            FamilyWay::Child => {
                if let Some(pid) = self.truths.get(1).and_then(|truth| Self::pid_of(truth)) {
                    self.end(pid);
                }
                thread::sleep(chance.moment(60));
            }
            FamilyWay::Parent => {
                self.end(parent);
                thread::sleep(chance.moment(60));
            }
            FamilyWay::Run => {
                self.end(run.pid());
                thread::sleep(chance.moment(60));
            }
            FamilyWay::All => self.kills += u64::from(kill(-i64::from(run.pid()), "KILL").is_ok()),
            FamilyWay::Finishing => {
                self.end_all(parent);
                thread::sleep(chance.moment(25));
                self.end(run.pid());
            }
        }
        self.end_all(parent);
        run.finish(PATIENCE)?;
        self.recover()
    }

    fn recover(&self) -> Result {
        let mut recover = command(heapledger());
        recover.arg("recover").arg(self.scratch.live()).arg("-o").arg(self.scratch.work());
        process::run(&mut recover)?.good().map(drop)
    }

    /// Holds each ledger against its process's truth; how many blocks there were to lose in each.
    fn look(&self) -> Result<Vec<usize>> {
        let session = self.scratch.path("s");
        let names = |place: &Path| -> Vec<PathBuf> {
            fs::read_dir(place).into_iter().flatten().flatten().map(|item| item.path()).collect()
        };
        let is_ledger = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "hl");
        let mut live = Vec::new();
        for truth in &self.truths {
            let known = Truth::read(truth)?;
            live.push(known.live());
            let Some(pid) = Self::pid_of(truth) else { continue };
            let of = |path: &PathBuf| {
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                is_ledger(path) && name.split(['.', '-']).any(|part| part == pid.to_string())
            };
            let places = names(&session).into_iter().chain(self.scratch.finished());
            let finished: Vec<PathBuf> = places.filter(of).collect();
            check!(!finished.is_empty() || known.live() == 0, "no ledger of {pid}, and {} blocks lived", known.live());
            for ledger in &finished {
                known.compare(ledger).map_err(|problem| format!("{}: {problem}", ledger.display()))?;
            }
        }
        // What was killed while it made its ledger is left alone for a minute: it might still be at it.
        let left = self.scratch.unfinished();
        for path in &left {
            let long_ago = FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(600));
            fs::File::open(path).and_then(|file| file.set_times(long_ago)).map_err(|error| error.to_string())?;
        }
        if !left.is_empty() {
            self.recover()?;
        }
        let left = self.scratch.unfinished();
        check!(left.is_empty(), "left among the ledgers: {left:?}");
        let halves: Vec<PathBuf> = names(&session).into_iter().filter(|path| path.is_dir()).collect();
        check!(halves.is_empty(), "left half written: {halves:?}");
        Ok(live)
    }
}
