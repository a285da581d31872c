//! `heapledger attach`: a program that was started without us is recorded from now on.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use heapledger_format::session::{Key, VARIABLE, VARIABLE_BYTES_MAX, at_exit};
use heapledger_launch::attach::ending::{AttachedEnd, Awaited, finish_for, live_ledger};
use heapledger_launch::attach::{Attached, age, attach};
use heapledger_launch::finish::{Finisher, Written, abandon_when_told};
use heapledger_launch::options::Settings;
use heapledger_launch::output::{PatternNames, check_by_making, expand, without_variables};
use heapledger_launch::{LaunchError, live, locate};

use crate::args::AttachArgs;
use crate::run::signal_name;
use crate::terminal::Progress;
use crate::text::shell;
use crate::{say, say_lines, terminal};

/// Begins it.
pub(crate) fn run(mut arguments: AttachArgs) -> Result<()> {
    if let Some(variable) = std::env::var_os(VARIABLE) {
        for odd in arguments.settings.add_environment(&variable) {
            say(&format!("{VARIABLE} in the environment: {odd}; ignored"));
        }
    }
    let process = arguments.process;
    let age = age(process).unwrap_or_default();
    let library = locate::library(arguments.preload.as_deref())?;
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim_end().to_owned();
    let output = if is_ours(process) { Some(output(&arguments, &name)?) } else { None };
    let mut settings = arguments.settings.clone();
    prepare(&mut settings, output.as_deref())?;
    settings.set(Key::Attached, age.as_millis().to_string().into());
    let words = settings.variable();
    if words.len() > VARIABLE_BYTES_MAX {
        return Err(LaunchError::OptionsTooLong.into());
    }
    let awaited = arguments.wait.then(|| Awaited::of(process));
    let attached = attach(process, &library, words.as_encoded_bytes())?;
    let live = if arguments.wait { live_ledger(process) } else { None };
    tell(&arguments, &name, output.as_deref(), attached);
    let Some(awaited) = awaited else { return Ok(()) };
    let end = awaited.wait().with_context(|| format!("process {process} cannot be waited for"))?;
    let written = match (&live, &output) {
        (Some(live), Some(output)) => written_for(live, output, end, &arguments)?,
        _ => None,
    };
    if let Some(wanted) = written.as_ref().and_then(|written| written.instead_of.as_ref()) {
        say(&format!("{} was there already: this ledger has another name", wanted.display()));
    }
    // While it is there, whatever has the other name is of another run.
    let by_itself = output.filter(|_| !live.is_some_and(|live| live.exists()));
    tell_end(&arguments, &name, written.map(|written| written.path).or(by_itself).as_deref(), end);
    Ok(())
}

/// Writes the ledger of a program that could not do it itself.
fn written_for(live: &Path, output: &Path, end: AttachedEnd, arguments: &AttachArgs) -> Result<Option<Written>> {
    abandon_when_told();
    let mut finisher = Finisher { force: arguments.force, ..Finisher::new(without_variables(output)) };
    let mut progress = Progress::of_ours("writing the ledger", arguments.quiet);
    let written = finish_for(live, &mut finisher, end, &mut |done, of| progress.bytes(done, of));
    drop(progress);
    written.with_context(|| format!("the unfinished ledger is kept: heapledger recover {} -o DIR", shell(live)))
}

/// Whether the program can write where we can.
fn is_ours(process: i32) -> bool {
    let user = |path: PathBuf| fs::metadata(path).map(|meta| meta.uid()).ok();
    user(format!("/proc/{process}").into()) == user("/proc/self".into())
}

/// Where the program writes its ledger at its end: the whole path, since it works elsewhere.
fn output(arguments: &AttachArgs, name: &str) -> Result<PathBuf> {
    let pid = u32::try_from(arguments.process).unwrap_or(0);
    let names = PatternNames { program: name.as_ref(), pid, index: None };
    let path = std::path::absolute(expand(&arguments.output, &names)?)?;
    check_by_making(&path)?;
    if arguments.force {
        // The program replaces what is there when it writes.
        return Ok(path);
    }
    let free = (0..).map(|number| match number {
        0 => path.clone(),
        number => {
            let mut numbered = OsString::from(&path);
            numbered.push(format!(".{number}"));
            numbered.into()
        }
    });
    Ok(free.into_iter().find(|path| fs::symlink_metadata(path).is_err()).unwrap_or(path))
}

/// What the recorder is told beside what was asked for.
fn prepare(settings: &mut Settings, output: Option<&Path>) -> Result<()> {
    if settings.get(Key::Dir).is_some() {
        // It is made, and looked at, before the program is touched.
        live::prepare(settings.get(Key::Dir), None)?;
    }
    match output {
        Some(path) => {
            settings.set(Key::Output, path.into());
            settings.set(Key::AtExit, at_exit::FINISH.into());
        }
        None => settings.set(Key::AtExit, at_exit::KEEP.into()),
    }
    Ok(())
}

fn tell(arguments: &AttachArgs, name: &str, output: Option<&Path>, attached: Attached) {
    let process = arguments.process;
    if !attached.sees_later_libraries {
        say(
            "libraries that the program loads from now on are not seen: the loader's list of modules is not as expected",
        );
    }
    if attached.not_rebound > 0 {
        say(&format!(
            "{} of the program cannot be changed: calls through that are not seen",
            heapledger_report::counted(attached.not_rebound, "word", "words")
        ));
    }
    if arguments.quiet {
        return;
    }
    let mut end = output.map_or_else(
        || "at its end:  heapledger recover (it is another user's)".to_owned(),
        |path| format!("at its end:  {}", shell(path)),
    );
    if output.is_some() && !arguments.wait {
        end.push_str("\n  if killed:   heapledger recover, also after an exec; with --wait that is done here");
    }
    say_lines(&format!(
        "{} ({process}) is recorded from now on; what it allocated before is not in the ledger\n  now:         \
         heapledger top {process}, or stats, dump, tree {process}\n  {end}",
        heapledger_report::clean(name)
    ));
}

/// The program has ended, or has become another one.
fn tell_end(arguments: &AttachArgs, name: &str, output: Option<&Path>, end: AttachedEnd) {
    let (name, process) = (heapledger_report::clean(name), arguments.process);
    let end = match end {
        AttachedEnd::Exit(status) => format!("has ended with status {status}"),
        AttachedEnd::Signal(signal) => format!("was ended by {}", signal_name(signal)),
        AttachedEnd::Exec => "has become another program (exec), which is not recorded".to_owned(),
        AttachedEnd::Ended => "has ended".to_owned(),
    };
    match output.filter(|path| path.exists()) {
        Some(_) if arguments.quiet => {}
        Some(path) => {
            let path = shell(path);
            terminal::tell(&format!("heapledger: {name} ({process}) {end}; look: heapledger stats {path}\n"));
        }
        None => say_lines(&format!(
            "{name} ({process}) {end}; its ledger is unfinished\n  to finish it: heapledger recover"
        )),
    }
}
