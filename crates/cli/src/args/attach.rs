//! Arguments of `attach`: its own, and those of the recorder's that make sense for a program that runs already.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use heapledger_format::session::Key;
use heapledger_launch::options::Settings;

use super::{OUTPUT, recorder};

const AFTER: &str = "\
The program need not have been started by heapledger, and goes on; no debugger
is needed. One of its threads is made to open the library, at a place where a
signal handler could do it; the calls of what it has loaded are led there then.
What it allocated before is not in the ledger, nor are the ends of such blocks.
When the program ends it writes its ledger itself, to FILE. If a signal ends it
or it becomes another program (exec), `attach --wait` does, or `recover`.
Its child processes are not recorded.

Not possible: static programs, musl, glibc before 2.35, sanitizers, a program
with an allocator of its own inside, one that filters its system calls; where
`kernel.yama.ptrace_scope` is 1, only as root. Blocks cannot be guarded.

Examples:
  heapledger attach 4711
  heapledger attach --sample 512K -o /tmp/server.hl \"$(pidof -s redis-server)\"
  heapledger top 4711";

/// Arguments of `attach`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttachArgs {
    /// The process.
    pub(crate) process: i32,
    /// Where the finished ledger goes; with `%p` and the like.
    pub(crate) output: OsString,
    /// Whether somebody said so.
    pub(crate) output_is_asked_for: bool,
    /// Whether a file of that name is replaced.
    pub(crate) force: bool,
    /// Whether to stay until the program ends.
    pub(crate) wait: bool,
    /// Nothing is said, unless something is wrong.
    pub(crate) quiet: bool,
    /// Another library than the one inside this program.
    pub(crate) preload: Option<PathBuf>,
    /// The recorder's options.
    pub(crate) settings: Settings,
}

/// Blocks that were allocated before have nothing around them, and nobody can tell them from others.
fn is_possible(key: Key) -> bool {
    !key.is_of_guard()
}

fn unguarded(_: &str) -> Result<String, String> {
    Err("blocks from before have no guard: start the program with `heapledger run --guard`".to_owned())
}

impl Args for AttachArgs {
    fn augment_args(command: Command) -> Command {
        let command = command
            .after_help(AFTER)
            .arg(
                Arg::new("process")
                    .value_name("PID")
                    .required(true)
                    .value_parser(clap::value_parser!(i32).range(1..))
                    .help("The process id of a program that runs"),
            )
            .arg(
                Arg::new("output")
                    .short('o')
                    .long("output")
                    .value_name("FILE")
                    .value_parser(recorder::output_file())
                    .default_value(OUTPUT)
                    .help(
                        "Where the ledger goes; %n: program, %p: process id, %h: host, %t: seconds since 1970, %%: %",
                    ),
            )
            .arg(recorder::force())
            .arg(
                Arg::new("wait")
                    .short('w')
                    .long("wait")
                    .action(ArgAction::SetTrue)
                    .help("Wait until the program has ended, say how and where its ledger is; write that if a signal or an exec ended it"),
            )
            .arg(
                Arg::new("quiet")
                    .short('q')
                    .long("quiet")
                    .action(ArgAction::SetTrue)
                    .help("Print nothing, unless something went wrong"),
            )
            .arg(Arg::new("guard").long("guard").hide(true).value_name("LEVEL").value_parser(unguarded));
        recorder::augment(command, is_possible)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for AttachArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(AttachArgs {
            process: matches.get_one("process").copied().unwrap_or(0),
            output: matches.get_one("output").cloned().unwrap_or_else(|| OUTPUT.into()),
            output_is_asked_for: matches.value_source("output") == Some(ValueSource::CommandLine),
            force: matches.get_flag("force"),
            wait: matches.get_flag("wait"),
            quiet: matches.get_flag("quiet"),
            preload: matches.get_one("preload").cloned(),
            settings: recorder::settings(matches, is_possible)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use crate::commands::Command as Chosen;
    use clap::Parser;
    use std::ffi::OsStr;

    fn parse(line: &[&str]) -> Result<AttachArgs, clap::Error> {
        match Cli::try_parse_from(["heapledger", "attach"].iter().chain(line))?.command {
            Chosen::Attach(arguments) => Ok(arguments),
            _ => panic!("another command"),
        }
    }

    #[test]
    fn options_of_the_recorder_are_taken_as_by_run() {
        let attach = parse(&["--depth", "9", "--sample=512K", "-o", "x.hl", "--force", "-w", "4711"]).expect("parses");
        assert_eq!((attach.process, attach.wait, attach.quiet), (4711, true, false));
        assert!(attach.output_is_asked_for && attach.output == "x.hl" && attach.force);
        assert_eq!(attach.settings.get(Key::Depth), Some(OsStr::new("9")));
        assert_eq!(attach.settings.variable(), "depth=9,sample=524288");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for line in [
            &["--guard", "full", "1"][..],
            &["--guard=light", "1"],
            &["-o", "-", "1"],
            &["-o", "/dev/stdout", "1"],
            &["0"],
            &["-1"],
            &["x"],
            &[],
            &["--fill-new", "ce", "1"],
        ] {
            assert_eq!(parse(line).expect_err("refused").exit_code(), 2, "{line:?}");
        }
        let told = parse(&["--guard", "full", "1"]).expect_err("refused").to_string();
        assert!(told.contains("run --guard"), "{told}");
    }
}
