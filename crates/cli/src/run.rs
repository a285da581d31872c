//! `heapledger run`: looks at the program, starts it with the recorder in it, stays beside it, finishes its ledger.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use anyhow::{Result, anyhow};
use nix::errno::Errno;

use heapledger_format::session::{Key, VARIABLE, guard};
use heapledger_launch::deep::deep;
use heapledger_launch::detect::{self, Why};
use heapledger_launch::door::Door;
use heapledger_launch::end::Left;
use heapledger_launch::entered::Reports;
use heapledger_launch::family::FamilyOutcome;
use heapledger_launch::start::{Session, Unready};
use heapledger_launch::sys::SharedNumber;
use heapledger_launch::threshold::{Threshold, Thresholds};
use heapledger_launch::wait::{self, Signals, Start};
use heapledger_launch::{LaunchError, OWN_FAILURE, exec, live, locate, memory, output, sys};

pub(crate) use self::end::signal_name;

use self::end::Outcome;
use self::reports::{ErrorReports, ErrorsTold};
use self::thresholds::Snapshots;
use crate::args::RunArgs;
use crate::say;
use crate::text::shell;

mod end;
mod family;
mod over_time;
pub(crate) mod reports;
mod sites;
pub(crate) mod thresholds;

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

/// What is known before the program starts.
struct Plan {
    arguments: RunArgs,
    /// The program's name, as typed.
    name: OsString,
    start: Start,
    /// `None`: it runs untracked.
    session: Option<Session>,
}

/// Runs the program. What was asked for by name and cannot be had is said, and ends with 125 before it starts; whatever
/// else goes wrong on our side is said, and it runs.
pub(crate) fn run(arguments: RunArgs) -> End {
    // Exceeding a limit on file sizes would be a signal; the program gets what was set before.
    sys::ignore(libc::SIGXFSZ);
    memory::keep();
    let before = std::panic::take_hook();
    run_if_we_cannot(&arguments);
    let plan = deep(|| plan(arguments));
    std::panic::set_hook(before);
    match plan {
        Ok(plan) => carry_out(plan),
        Err(end) => end,
    }
}

/// Until the program starts, a mistake of ours that would end this process makes it the program instead.
fn run_if_we_cannot(arguments: &RunArgs) {
    let (command, require) = (arguments.command.clone(), arguments.require);
    std::panic::set_hook(Box::new(move |mistake| {
        let name = command.first().map_or(OsStr::new(""), OsString::as_os_str);
        let message = mistake.to_string();
        let message = message.lines().last().unwrap_or_default();
        if require {
            say(&format!("a mistake of heapledger's own ({message}), and --require was given"));
            sys::exit_now(i32::from(OWN_FAILURE));
        }
        say(&format!("a mistake of heapledger's own ({message}): {} runs untracked", name.display()));
        let environment: Vec<_> = std::env::vars_os().collect();
        let start = exec::find_or_try(name).map(|program| Start::new(&program, &command, &environment, None));
        let reason = match start {
            Ok(Ok(start)) => start.in_place(),
            Ok(Err(_)) => Errno::EINVAL,
            Err(reason) => reason,
        };
        refused(name, reason);
        sys::exit_now(i32::from(exec::exit_code(reason)));
    }));
}

/// Says a problem of ours that keeps the program from being started.
fn failed(problem: &anyhow::Error) -> End {
    say(&format!("{problem:#}"));
    End::Code(OWN_FAILURE)
}

/// Finds out all that can be found out before the program starts; or how that ends.
fn plan(mut arguments: RunArgs) -> Result<Plan, End> {
    if let Some(variable) = std::env::var_os(VARIABLE) {
        for odd in arguments.settings.add_environment(&variable) {
            say(&format!("{VARIABLE} in the environment: {odd}; ignored"));
        }
    }
    for (flag, level) in arguments.settings.idle().iter().filter(|_| !arguments.quiet) {
        say(&format!("--{flag} does nothing without --guard={level}"));
    }
    let name = arguments.command.first().cloned().unwrap_or_default();
    let program = exec::find_or_try(&name).map_err(|reason| refused(&name, reason))?;
    place_output(&mut arguments, &name).map_err(|problem| failed(&problem))?;

    let verdict = detect::examine(&program, &arguments.command, &|name| exec::find(name).ok());
    if verdict.why.is_some() {
        say(&verdict.to_string());
    }
    let mut session = None;
    let can_be_seen = verdict.why.as_ref().is_none_or(Why::partly);
    if can_be_seen || verdict.why.is_some_and(|why| why.may_become_another()) {
        match Session::begin(&mut arguments.settings, arguments.preload.as_deref()) {
            Ok(begun) => session = Some(Session { expected: can_be_seen, ..begun }),
            Err(Unready { why, asked: true }) => return Err(failed(&why.into())),
            Err(Unready { why, .. }) if can_be_seen => say(&format!("{why}: {} runs untracked", name.display())),
            Err(_) => {}
        }
    }
    if !session.as_ref().is_some_and(|session| session.expected) && arguments.require {
        return Err(failed(&anyhow!("{} is not started, because --require was given", name.display())));
    }
    let environment = match &session {
        Some(session) => exec::with_preload(&session.libraries),
        None => std::env::vars_os().collect(),
    };
    let settings = session.as_ref().map(|_| arguments.settings.clone());
    let start = Start::new(&program, &arguments.command, &environment, settings);
    Ok(Plan { start: start.map_err(|problem| failed(&problem.into()))?, arguments, name, session })
}

/// Starts the program, stays beside it, and puts in order what it leaves.
fn carry_out(plan: Plan) -> End {
    let Plan { arguments, name, start, mut session } = plan;
    let signals = Signals::catch();
    let running = match start.beside() {
        Ok(running) => running,
        Err((start, reason)) => {
            let tracked = session.take().is_some(); // nobody is there to hold its ledgers
            return without_us(&arguments, &name, start, &reason, tracked);
        }
    };
    let mut snapshots = Snapshots::beside(&arguments);
    let mut take = |passed| snapshots.take(passed);
    let limits = arguments.snapshot_when.iter().copied().map(Threshold::new).collect();
    let thresholds = Thresholds::new(limits, &mut take);
    let mut printed = ErrorReports::of(&arguments);
    let mut reports = Reports::new(arguments.errors_told() == ErrorsTold::Report, &mut printed);
    // Blocks that are guarded can be looked at from outside.
    let is_guarded = arguments.settings.get(Key::Guard).is_some_and(|level| level != guard::OFF);
    let door = session.as_ref().filter(|_| is_guarded).and_then(|session| Door::open(&session.name, running.pid));
    let mut arguments = arguments;
    let family = session.as_ref().and_then(|session| family::begin(&mut arguments, session, running.pid));
    let keeper = session.as_mut().map(|session| &mut session.keeper);
    let ended = running.wait(&signals, keeper, thresholds, &mut reports, door.as_ref());
    drop(door);
    drop(snapshots);
    if let Some(session) = &mut session {
        reports.end(&mut session.keeper);
    }
    drop(printed);
    signals.drain();
    let family = family.map(|watch| family::end(watch, &arguments, ended.status, &signals));
    if let Some(problem) = &ended.unknown {
        say(&format!("how the program ended is not to be found out: {problem}"));
    }
    if let Some(reason) = ended.refused {
        family.iter().for_each(FamilyOutcome::remove_if_empty);
        return refused(&name, reason);
    }
    if let Some(session) = session {
        let left = deep(|| Left::by(session));
        let errors = SharedNumber::new();
        let outcome = Outcome { name: &name, ended: &ended, errors: &errors, family: family.as_ref() };
        let finish = |at| end::finish(&arguments, &left, &outcome, signals, at);
        if let Some(status) = wait::aside(&signals, finish) {
            deep(|| end::say_failed(&left, status));
        }
        if let (Some(code), Some(_), 1..) = (arguments.error_exitcode, ended.status.code(), errors.get()) {
            return End::Code(code);
        }
    }
    End::from(ended.status)
}

/// No process can be started beside this one (`ulimit -u`, no memory): then this one becomes the program.
fn without_us(arguments: &RunArgs, name: &OsStr, start: Start, reason: &io::Error, tracked: bool) -> End {
    let name = name.display();
    let reason = match reason.raw_os_error() {
        Some(libc::EAGAIN) => "the limit of processes is reached",
        Some(other) => Errno::from_raw(other).desc(),
        None => "this one has several threads",
    };
    if arguments.require {
        return failed(&anyhow!("no process can be started ({reason}), and --require was given"));
    }
    let place = shell(Path::new(&arguments.output));
    let later = match (tracked, arguments.output_is_asked_for) {
        (false, _) => String::new(),
        (true, false) => "; `heapledger recover` finishes its ledger".to_owned(),
        (true, true) => format!("; its ledger is not written to {place}: `heapledger recover` finishes it"),
    };
    say(&format!("no process can be started ({reason}): {name} takes the place of this one{later}"));
    let reason = start.in_place();
    refused(arguments.command.first().map_or(OsStr::new(""), |name| name), reason)
}

/// What the kernel gives at most.
const PID_MAX: u32 = 1 << 22;

/// Makes sure that the finished ledger can be written: where it was asked for, or else, if the working directory is not
/// for that, in another place.
fn place_output(arguments: &mut RunArgs, name: &OsStr) -> Result<()> {
    let short = locate::short_name(name).to_owned();
    let writable = |pattern: &OsStr| {
        // No number of a process is longer.
        let path = output::expand(pattern, &output::PatternNames { program: &short, pid: PID_MAX, index: None })?;
        output::check_by_making(&path)
    };
    let Err(problem) = writable(&arguments.output) else { return Ok(()) };
    if arguments.children.is_some() && matches!(problem, LaunchError::IsDirectory(_)) {
        return Ok(()); // another one is made beside it, unless nothing is in it
    }
    if arguments.output_is_asked_for {
        return Err(problem.into());
    }
    let patterns = live::lasting().into_iter().map(|place| output::below(&place, &arguments.output));
    if let Some((place, pattern)) = patterns.into_iter().find(|(_, pattern)| writable(pattern).is_ok()) {
        say(&format!("{problem}; the ledger goes to {}", place.display()));
        arguments.output = pattern;
    }
    // Else it stays unfinished in memory, which is said when it is.
    Ok(())
}

/// Says why the program was not executed, in the words of a shell.
fn refused(name: &OsStr, reason: Errno) -> End {
    let name = name.display();
    match reason {
        Errno::ENOENT => say(&format!("{name}: there is no such program")),
        other => say(&format!("{name} cannot be executed: {}", other.desc())),
    }
    End::Code(exec::exit_code(reason))
}
