//! System calls that fail, one in each run: of `heapledger run`, and of the recorder inside the program.
//!
//! The program must end as without us, with the same output; and there is a ledger with the same count of blocks, or a
//! sentence. What fails is chosen and counted by `faults/inject.c`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use crate::process::{self, Ran};
use crate::scratch::Scratch;
use crate::tools::{command, heapledger, is_fresh, products, root};
use crate::{Result, check};

/// So much is waited for one run: a lost program is told from a slow machine.
const PATIENCE: Duration = crate::process::PATIENCE;

/// What a call says that fails: no memory, no right, interrupted, try again, no descriptor, no room, no such call.
pub const ERRORS: &[(i32, &str)] =
    &[(12, "ENOMEM"), (13, "EACCES"), (4, "EINTR"), (11, "EAGAIN"), (24, "EMFILE"), (28, "ENOSPC"), (38, "ENOSYS")];

/// Whose call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The command line's own.
    Run,
    /// That of the library inside the program.
    Recorder,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Who::Run => "run",
            Who::Recorder => "recorder",
        })
    }
}

/// One call that fails.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Whose.
    pub who: Who,
    /// Its number.
    pub number: u32,
    /// The how manieth of them.
    pub nth: u64,
    /// What it says.
    pub error: i32,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = ERRORS.iter().find(|(error, _)| *error == self.error).map_or("?", |(_, name)| name);
        write!(f, "{} {} of {}: {error}", call_name(self.number), self.nth, self.who)
    }
}

/// What came of it, if nothing was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call was not made this time.
    NotMet,
    /// The ledger is as without it.
    Whole,
    /// A sentence says what is missing.
    Said,
}

/// What is run, and what it does when nothing fails: a program that allocates as often each time.
pub struct Bench {
    scratch: Scratch,
    words: Vec<String>,
    plain: Ran,
    blocks: String,
    usual: Vec<String>,
    /// How often each call is made.
    pub counts: BTreeMap<(Who, u32), u64>,
}

impl Bench {
    /// Runs it without us, and with us and nothing that fails.
    pub fn new(program: &Path, arguments: &[&str]) -> Result<Bench> {
        let mut words = vec![program.to_string_lossy().into_owned()];
        words.extend(arguments.iter().map(|word| (*word).to_owned()));
        let plain = process::run(command(program).args(arguments))?;
        let mut bench = Bench {
            scratch: Scratch::new(),
            words,
            plain,
            blocks: String::new(),
            usual: Vec::new(),
            counts: BTreeMap::new(),
        };
        // The first one also writes the library, which the others find.
        for _ in 0..2 {
            let (ran, counted) = bench.run("run", 0, 0, 0)?;
            check!(ran.status == bench.plain.status && ran.stdout == bench.plain.stdout, "nothing failed: {ran}");
            bench.blocks = blocks(&ran).ok_or_else(|| format!("no summary: {ran}"))?;
            bench.usual = ran.err().lines().map(without_figures).collect();
            bench.counts = counts(&counted);
        }
        Ok(bench)
    }

    fn run(&self, who: &str, number: u32, nth: u64, error: i32) -> Result<(Ran, String)> {
        let counted = self.scratch.path("counted");
        for left in self.scratch.finished().iter().chain(&self.scratch.unfinished()).chain([&counted]) {
            let _ = fs::remove_file(left);
        }
        let mut command = command(injector()?);
        command.arg(&counted).arg(who).args([number.to_string(), nth.to_string(), error.to_string()]);
        command.arg(heapledger()).args(["run", "-o", "x.hl", "--ledger-dir"]).arg(self.scratch.live()).arg("--");
        command.args(&self.words).current_dir(self.scratch.work());
        let ran = process::run_within(&mut command, PATIENCE)?;
        Ok((ran, fs::read_to_string(&counted).unwrap_or_default()))
    }

    /// Lets a call fail.
    ///
    /// # Errors
    /// If the program does not end as without us, or something is missing and nothing says so.
    pub fn inject(&self, fault: Fault) -> Result<Outcome> {
        let (ran, counted) = self.run(&fault.who.to_string(), fault.number, fault.nth, fault.error)?;
        // The output and the place are asked for by name: what is not to be had is refused before the program starts.
        let refusals = ["the ledger cannot be written to", "no ledger can be made in"];
        let refused = ran.status.code() == Some(125) && ran.stdout.is_empty();
        if refused && ran.err().lines().count() == 1 && refusals.iter().any(|words| ran.err().contains(words)) {
            return Ok(Outcome::Said);
        }
        let same = ran.status == self.plain.status && ran.stdout == self.plain.stdout;
        check!(same, "{fault}: the program ends otherwise than without us: {ran}");
        if !counted.lines().any(|line| line == "failed") {
            return Ok(Outcome::NotMet);
        }
        let told = ran.err().lines().any(|line| !self.usual.contains(&without_figures(line)));
        if blocks(&ran).as_ref() == Some(&self.blocks) && self.scratch.path("x.hl").exists() && !told {
            return Ok(Outcome::Whole);
        }
        check!(told, "{fault}: something is missing, and nothing says so: {ran}");
        Ok(Outcome::Said)
    }
}

/// What the summary says of the number of blocks.
fn blocks(ran: &Ran) -> Option<String> {
    let line = ran.err().lines().find_map(|line| line.trim().strip_prefix("allocated ").map(str::to_owned))?;
    Some(
        line.split(',').take_while(|part| !part.contains("block")).collect::<Vec<_>>().join(",")
            + line.split("block").next()?,
    )
}

/// A line as it is in all runs.
fn without_figures(line: &str) -> String {
    let words = line.split_whitespace().map(|word| word.trim_matches(|at: char| !at.is_alphabetic()));
    let units = ["B", "KiB", "MiB", "s", "ms", "µs", "block", "blocks"];
    words.filter(|word| !word.is_empty() && !units.contains(word)).collect::<Vec<_>>().join(" ")
}

fn counts(text: &str) -> BTreeMap<(Who, u32), u64> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let who = match words.next()? {
            "run" => Who::Run,
            "recorder" => Who::Recorder,
            _ => return None,
        };
        Some(((who, words.next()?.parse().ok()?), words.next()?.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// The program that lets calls fail.
fn injector() -> Result<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock();
    let source = root().join("e2e/faults/inject.c");
    let product = products().join("inject");
    if !is_fresh(&product, std::slice::from_ref(&source)) {
        let part = product.with_extension(format!("{}.part", std::process::id()));
        process::run(command("gcc").args(["-O1", "-o"]).arg(&part).arg(&source))?.good()?;
        fs::rename(&part, &product).map_err(|error| error.to_string())?;
    }
    Ok(product)
}

/// A call's name, as far as the system's headers are here to tell.
pub fn call_name(number: u32) -> String {
    const HEADER: &str = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h";
    let text = fs::read_to_string(HEADER).unwrap_or_default();
    let named = text.lines().find_map(|line| {
        let (name, value) = line.strip_prefix("#define __NR_")?.split_once(' ')?;
        (value.trim().parse() == Ok(number)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("call {number}"))
}
