//! `heapledger run`: looks at the program, starts it with the recorder in it, stays beside it, finishes its ledger.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context, Result, ensure};

use self::end::Outcome;
use self::keep::Hold;
use self::options::VARIABLE;
use self::wait::{Ended, Signals};
use crate::args::RunArgs;
use crate::{detect, exec, live, locate, output, say};

mod end;
mod keep;
pub(crate) mod options;
mod summary;
mod wait;

/// Exit code if we fail ourselves.
const OWN_FAILURE: u8 = 125;

/// Most bytes of the options, less what the process id takes: the recorder reads no further.
const VARIABLE_MAX: usize = 4096 - 32;

/// How this process is to end.
pub(crate) enum End {
    /// With an exit code.
    Code(u8),
    /// By a signal, as the program did.
    Signal(i32),
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> End {
        match (status.code(), status.signal()) {
            (Some(code), _) => End::Code(u8::try_from(code).unwrap_or(OWN_FAILURE)),
            (None, Some(signal)) => End::Signal(signal),
            (None, None) => End::Code(OWN_FAILURE),
        }
    }
}

/// Where the recorder of one run writes.
struct Session {
    /// The directory of ledgers.
    directory: PathBuf,
    /// Which are ours.
    name: String,
    /// The library that is preloaded.
    library: PathBuf,
}

/// Runs the program. What goes wrong on our side before it starts is said, and ends with 125.
pub(crate) fn run(arguments: RunArgs) -> End {
    run_or_fail(arguments).unwrap_or_else(|problem| {
        say(&format!("{problem:#}"));
        End::Code(OWN_FAILURE)
    })
}

fn run_or_fail(mut arguments: RunArgs) -> Result<End> {
    if let Some(variable) = std::env::var_os(VARIABLE) {
        for odd in arguments.settings.add_environment(&variable) {
            say(&format!("{VARIABLE} in the environment: {odd}; ignored"));
        }
    }
    let name = arguments.command.first().cloned().unwrap_or_default();
    let program = match exec::find(&name) {
        Ok(program) => program,
        Err(reason) => return Ok(refused(&name, reason)),
    };
    let short = locate::short_name(&name).to_owned();
    output::check(&output::expand(&arguments.output, &output::Names { program: &short, pid: 0, index: None })?)?;

    let verdict = detect::examine(&program, &arguments.command, &|name| exec::find(name).ok());
    if verdict.why.is_some() {
        say(&verdict.to_string());
    }
    let tracked = verdict.why.is_none_or(|why| why.partly());
    let session = if tracked { Some(begin(&mut arguments)?) } else { None };
    let environment = match &session {
        Some(session) => exec::with_preload(&session.library),
        None => std::env::vars_os().collect(),
    };

    let signals = Signals::catch()?;
    let settings = session.as_ref().map(|_| arguments.settings.clone());
    let hold = session.as_ref().map(|session| Hold::new(&session.directory, &session.name));
    let running = wait::start(&program, &arguments.command, &environment, settings)?;
    let hold = hold.map(|mut hold| {
        hold.watch();
        hold
    });
    let ended = running.wait(&signals)?;
    signals.drain();
    Ok(conclude(&arguments, &name, ended, session.zip(hold), signals))
}

/// The program is no more: what it left is put in order and reported.
fn conclude(
    arguments: &RunArgs,
    name: &OsStr,
    ended: Ended,
    session: Option<(Session, Hold)>,
    signals: Signals,
) -> End {
    if let Some(reason) = ended.refused {
        return refused(name, reason);
    }
    let end = End::from(ended.status);
    if let Some((session, hold)) = session {
        let outcome = Outcome { name, status: ended.status, span: ended.span };
        end::finish(arguments, &session, hold, &outcome, signals);
    }
    end
}

/// Says why the program was not executed, in the words of a shell.
fn refused(name: &OsStr, reason: nix::errno::Errno) -> End {
    let name = name.display();
    match reason {
        nix::errno::Errno::ENOENT => say(&format!("{name}: there is no such program")),
        other => say(&format!("{name} cannot be executed: {}", other.desc())),
    }
    End::Code(exec::exit_code(reason))
}

/// Makes everything ready for the recorder, and tells it.
fn begin(arguments: &mut RunArgs) -> Result<Session> {
    let library = locate::library(arguments.preload.as_deref())?;
    let settings = &mut arguments.settings;
    let base = live::prepare(settings.get("dir"))?;
    let name = random_name()?;
    settings.set("dir", base.clone().into());
    settings.set("session", name.clone().into());
    ensure!(settings.variable().len() <= VARIABLE_MAX, "the options of the recorder, paths included, are too long");
    Ok(Session { directory: live::directory_in(&base), name, library })
}

/// 16 hexadecimal digits that nobody else has.
fn random_name() -> Result<String> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("no random numbers")?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

/// Removes a file that is not needed any more; that it is not there is as good.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}
