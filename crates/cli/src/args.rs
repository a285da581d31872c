//! The command line: what can be typed, and what is said when it was typed wrongly.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, FromArgMatches, Parser};

use crate::commands::Command;
use crate::{ecosmdd, help, terminal};

pub(crate) use self::attach::AttachArgs;
pub(crate) use self::recorder::{output_file, output_path};
pub(crate) use self::run::{OUTPUT, RunArgs};

mod attach;
mod recorder;
mod run;

/// Exit code of wrong usage.
pub(crate) const USAGE: u8 = 2;

/// What is shown to somebody who types `heapledger` and nothing else.
const TEACH: &str = "\
heapledger: a heap profiler for Linux programs; the record survives `kill -9`

Run any program under it, unchanged and without special rights; when it ends, or is
killed, the ledger says who holds which memory, and who freed what:

  heapledger run -- jq . big.json         run a program; leaves heapledger.jq.PID.hl here
  heapledger stats heapledger.jq.PID.hl   totals, peak, threads, heaps
  heapledger dump heapledger.jq.PID.hl    what is still allocated, with function and line

The commands also take the process id of a program that runs under heapledger now;
one that was started without it can be recorded from now on:
  heapledger attach PID
  heapledger stats PID

`heapledger help` lists all commands, `heapledger help run` all options of run.
";

/// In one line, for `-V`: the number, and the commit where that is known (`build.rs`).
const VERSION: &str = env!("HEAPLEDGER_VERSION");
/// And what is inside, for `--version`.
const LONG_VERSION: &str = concat!(env!("HEAPLEDGER_VERSION"), "\nfeatures: ", env!("HEAPLEDGER_FEATURES"));

/// A heap profiler for Linux programs: find leaks, growth and hot allocation sites
#[derive(Debug, Parser)]
#[command(name = "heapledger", version = VERSION, long_version = LONG_VERSION, disable_help_subcommand = false)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Arguments of `recover`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A ledger is left unfinished when `heapledger run` itself was killed, when
finishing it was given up, or when the library was preloaded by hand. It lies in
a directory heapledger-UID in /dev/shm, $XDG_RUNTIME_DIR, $TMPDIR or /tmp, or in
the one given to --ledger-dir, or as dir= in the variable HEAPLEDGER: then only
that one is looked into.

Examples:
  heapledger recover --list
  heapledger recover
  heapledger recover /dev/shm/heapledger-1000 -o results")]
pub(crate) struct RecoverArgs {
    /// Unfinished ledgers, or directories that hold some [default: all places where `run` puts them]
    #[arg(value_name = "DIR|FILE")]
    pub(crate) places: Vec<PathBuf>,
    /// Directory for the finished ledgers, created if missing; or NAME.hl for a single ledger [default: that of their session if they
    /// are of run --children, else the working directory]
    #[arg(short, long, value_name = "DIR", value_parser = output_path())]
    pub(crate) output: Option<PathBuf>,
    /// List unfinished ledgers and change nothing
    #[arg(long)]
    pub(crate) list: bool,
}

/// Letters of what was typed that an error repeats.
const TYPED: usize = 200;

/// Reads the command line, or says what is wrong with it: then the exit code.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Cli, ExitCode> {
    let arguments = ecosmdd::translated(arguments.collect());
    if arguments.len() <= 1 {
        return Err(show(TEACH));
    }
    let parsed = of_run(&arguments).unwrap_or_else(|| {
        let first = arguments.get(1).map(|first| first.as_encoded_bytes());
        let names_command =
            first.is_some_and(|first| first != b"help" && first.first().is_some_and(u8::is_ascii_alphabetic));
        let command = if names_command { help::plain_command() } else { help::command() };
        command.try_get_matches_from(arguments).and_then(|matches| Cli::from_arg_matches(&matches))
    });
    parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => show(&help::emphasized(&error.to_string())),
        _ => {
            let text = shortened(error).to_string();
            terminal::tell(&format!("heapledger: {}", text.strip_prefix("error: ").unwrap_or(&text)));
            ExitCode::from(USAGE)
        }
    })
}

/// What is typed for `run`, if it can be told without the other commands: to list all that these take would take as long as all else
/// before the program starts. What is wrong with it, and help, is said by who knows them all.
fn of_run(arguments: &[OsString]) -> Option<Result<Cli, clap::Error>> {
    const NAME: &str = "run";
    let own = arguments.get(1..).filter(|own| own.first().is_some_and(|name| name == NAME))?;
    let matches = RunArgs::augment_args(clap::Command::new(NAME)).try_get_matches_from(own).ok()?;
    Some(RunArgs::from_arg_matches(&matches).map(|arguments| Cli { command: Command::Run(arguments) }))
}

/// An error that repeats at most the beginning of what was typed: formats and conditions may be of any length.
fn shortened(mut error: clap::Error) -> clap::Error {
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg, ContextKind::InvalidSubcommand] {
        if let Some(ContextValue::String(typed)) = error.get(kind)
            && let Some((end, _)) = typed.char_indices().nth(TYPED)
        {
            let beginning = format!("{}…", typed.get(..end).unwrap_or_default());
            error.insert(kind, ContextValue::String(beginning));
        }
    }
    error
}

/// Shows what was asked for. The exit code says whether it could be written.
fn show(text: &str) -> ExitCode {
    match terminal::print(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::say(&error.to_string());
            ExitCode::from(crate::FAILURE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        help::command().debug_assert();
    }

    #[test]
    fn run_alone_takes_what_all_commands_together_take() {
        let lines = [
            "heapledger run jq",
            "heapledger run -q --force -o x.hl --depth 7 -- jq -n . --quiet",
            "heapledger run --children=cc1 --wait --max-processes 3 --output %n.session make -j 2",
            "heapledger run --snapshot-when=live>3M --snapshot-when=live>4M --guard=full --errors=report --error-exitcode 3 sh -c true",
            "heapledger run --python --sample 512K --suppress /dev/null python3",
            "heapledger run --suppress /none jq",
            "heapledger run --guard=none jq",
            "heapledger run",
            "heapledger run --help",
            "heapledger run --version",
            "heapledger run --none jq",
            "heapledger run --wait jq",
            "heapledger stats run",
        ];
        let mut alone = 0;
        for line in lines {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let Some(own) = of_run(&words) else { continue };
            alone += 1;
            let all = help::plain_command().try_get_matches_from(words);
            let all = all.and_then(|matches| Cli::from_arg_matches(&matches));
            let [own, all] = [own, all].map(|told| told.map_err(|error| error.to_string()));
            assert_eq!(format!("{own:?}"), format!("{all:?}"), "{line}");
        }
        assert!(alone >= 5, "{alone} of them");
    }

    #[test]
    fn no_line_of_help_is_wider_than_a_terminal() {
        for line in TEACH.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }

    #[test]
    fn no_ledger_is_written_to_standard_output() {
        for command in ["run jq", "attach 1", "snapshot 1", "recover", "convert log", "receive log", "heapmap log"] {
            let words = command.split(' ').take(1).chain(["-o", "-"]).chain(command.split(' ').skip(1));
            let told = Cli::try_parse_from(["heapledger"].into_iter().chain(words)).expect_err("refused");
            assert!(told.exit_code() == 2 && told.to_string().contains("standard output"), "{command}: {told}");
        }
    }
}
