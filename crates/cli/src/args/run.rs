//! Arguments of `run`: its own, and those of the recorder, which come from one table.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use heapledger_format::family::CHILDREN_BYTES_MAX;
use heapledger_format::session::Key;
use heapledger_launch::family::{FamilyEnd, PROCESSES_MAX};
use heapledger_launch::options::{OPTIONS, Settings};

use super::recorder;
use crate::commands::standard::{SUPPRESS_ERRORS, suppressions};
use crate::run::reports::ErrorsTold;
use crate::run::thresholds;

/// Where the ledger goes if nobody says otherwise.
pub(crate) const OUTPUT: &str = "heapledger.%n.%p.hl";

/// What a person must know before anything else.
const PASSING: &str = "\
The program runs as it would without us: same arguments, environment, streams,
exit status and signals. What was seen is printed on stderr when it has ended.";

/// Where the ledgers of several processes go.
pub(crate) const FAMILY_OUTPUT: &str = "heapledger.%n.%p.session";

const EXAMPLES: &str = "\
Examples:
  heapledger run -- jq . big.json
  heapledger run --children -o build -- make -j8
  heapledger run -o work.hl --depth 64 -- python3 script.py
  heapledger run --sample 512K -q -- redis-server --port 7777";

/// Arguments of `run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunArgs {
    /// The program and its arguments, as typed.
    pub(crate) command: Vec<OsString>,
    /// Where the finished ledger goes; with `%p` and the like.
    pub(crate) output: OsString,
    /// Whether somebody said so.
    pub(crate) output_is_asked_for: bool,
    /// Whether an existing file may be overwritten.
    pub(crate) force: bool,
    /// Whether the program is not to be started if it cannot be recorded.
    pub(crate) require: bool,
    /// No summary.
    pub(crate) quiet: bool,
    /// Exact bytes in the summary.
    pub(crate) bytes: bool,
    /// Another preload library than the one inside this program.
    pub(crate) preload: Option<PathBuf>,
    /// Whether the ledger is to say which machine it is of.
    pub(crate) machine_id: bool,
    /// Limits on live bytes: when they are passed, a snapshot is taken.
    pub(crate) snapshot_when: Vec<u64>,
    /// How errors are told; the usual way if nobody says so.
    pub(crate) errors: Option<ErrorsTold>,
    /// With what to end if the program itself ended well and errors were found.
    pub(crate) error_exitcode: Option<u8>,
    /// Files of errors that are excused.
    pub(crate) suppress: Vec<PathBuf>,
    /// Which child processes are recorded, too, each in a ledger of its own.
    pub(crate) children: Option<OsString>,
    /// Until when that goes on.
    pub(crate) children_end: FamilyEnd,
    /// Most of them.
    pub(crate) max_processes: u64,
    /// The recorder's options.
    pub(crate) settings: Settings,
}

impl Args for RunArgs {
    fn augment_args(command: Command) -> Command {
        let mut command = command
            .override_usage("heapledger run [OPTIONS] [--] PROGRAM [ARGUMENTS]…")
            .after_help(format!(
                "{PASSING}\n\n`heapledger run --help` also tells how to preload the library by hand.\n\n{EXAMPLES}"
            ))
            .after_long_help(after_long_help())
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
            .arg(Arg::new("require").long("require").action(ArgAction::SetTrue).help(
                "End with 125 if the program cannot be recorded; otherwise it runs untracked, and a sentence says why",
            ))
            .arg(
                Arg::new("quiet")
                    .short('q')
                    .long("quiet")
                    .action(ArgAction::SetTrue)
                    .help("Print nothing at the end, unless something went wrong"),
            )
            .arg(
                Arg::new("bytes")
                    .long("bytes")
                    .action(ArgAction::SetTrue)
                    .help("Write bytes exactly at the end, without units"),
            );
        command = command.arg(
            Arg::new("snapshot-when")
                .long("snapshot-when")
                .value_name("CONDITION")
                .action(ArgAction::Append)
                .value_parser(thresholds::parse)
                .help(
                    "Take a snapshot when the program holds more than so much: 'live > 1G'; again when it does so after it has fallen by an eighth, up to 16 times; repeatable. Looks 20 times a second",
                ),
        );
        command = children_arguments(errors_arguments(command));
        command = command.arg(
            Arg::new("machine-id")
                .long("machine-id")
                .action(ArgAction::SetTrue)
                .help("Note in the ledger which machine this is, by a hash of /etc/machine-id, beside its name"),
        );
        recorder::augment(command, |_| true).arg(
            Arg::new("command")
                .value_name("PROGRAM")
                .value_parser(OsStringValueParser::new())
                .num_args(1..)
                .required(true)
                .trailing_var_arg(true)
                .help("The program and its arguments; options of run end here"),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// What is done about errors that the program makes.
fn errors_arguments(command: Command) -> Command {
    command
        .arg(
            Arg::new("errors")
                .long("errors")
                .value_name("HOW")
                .value_parser(clap::value_parser!(ErrorsTold))
                .help("What is said of errors, double frees and the like [default: report, with -q quiet]"),
        )
        .arg(
            Arg::new("error-exitcode")
                .long("error-exitcode")
                .value_name("N")
                .value_parser(clap::value_parser!(u8).range(1..))
                .help("End with N if errors were found and the program ended by itself, whatever its status"),
        )
        .arg(
            Arg::new("suppress")
                .long("suppress")
                .value_name("FILE")
                .action(ArgAction::Append)
                .value_parser(clap::value_parser!(PathBuf))
                .help(SUPPRESS_ERRORS),
        )
}

/// What is done about the processes that the program begins.
fn children_arguments(command: Command) -> Command {
    command
        .arg(
            Arg::new("children")
                .long("children")
                .value_name("PATTERNS")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("*")
                .overrides_with("children")
                .value_parser(OsStringValueParser::new().try_map(patterns))
                .help(
                    "Record child processes, too, forked ones and programs that they start, each in a ledger of its own in the \
                     directory --output; only programs of certain names if some are given: 'cc1plus|python*'",
                ),
        )
        .arg(
            Arg::new("wait")
                .long("wait")
                .action(ArgAction::SetTrue)
                .requires("children")
                .help("With --children: wait until all of them have ended, not just the program"),
        )
        .arg(
            Arg::new("max-processes")
                .long("max-processes")
                .value_name("N")
                .requires("children")
                .value_parser(clap::value_parser!(u64).range(1..))
                .help("With --children: record so many of them at most [default: 10000]"),
        )
}

/// Patterns of names, which the recorder has little room for.
fn patterns(text: OsString) -> Result<OsString, String> {
    match text.len() {
        0 => Err("a name or pattern is missing".to_owned()),
        1..=CHILDREN_BYTES_MAX => Ok(text),
        more => Err(format!("patterns take {CHILDREN_BYTES_MAX} bytes at most, these are {more}")),
    }
}

impl RunArgs {
    /// How errors are told: not at all where a summary is not wanted either.
    pub(crate) fn errors_told(&self) -> ErrorsTold {
        self.errors.unwrap_or(if self.quiet { ErrorsTold::Quiet } else { ErrorsTold::Report })
    }
}

fn after_long_help() -> String {
    let mut out = format!(
        "{PASSING}\n\n\
         Exit status: the program's own; if it died of a signal, so does run. 125: what\n\
         was asked for (--output, --ledger-dir, --require) is not possible; 126: the\n\
         program cannot be executed; 127: there is no such program. With\n\
         `--error-exitcode N`, N: errors were found, and the program ended by itself.\n\n\
         Preloaded by hand, without run, the library reads the same options from one\n\
         environment variable:\n\n  \
         LD_PRELOAD=…/libheapledger_preload.so HEAPLEDGER=depth=64,history=1000 PROGRAM\n\n\
         Its items, separated by commas (a comma inside a value is written %2C, a percent\n\
         sign %25):\n\n"
    );
    for option in OPTIONS.iter().filter(|option| !option.hidden) {
        out += &format!("  {:<18} as --{}\n", option.item(), option.flag);
    }
    out += "\nThere, sizes are in bytes and lists are joined by +. What is set already is used\n\
            by run too, unless a flag says otherwise.\n\n";
    out + EXAMPLES
}

impl FromArgMatches for RunArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut settings = recorder::settings(matches, |_| true)?;
        let suppress: Vec<PathBuf> = matches.get_many("suppress").unwrap_or_default().cloned().collect();
        // Read before the program runs, so that a mistake is told at once.
        if let Err(problem) = suppressions(&suppress) {
            return Err(clap::Error::raw(ErrorKind::ValueValidation, format!("--suppress: {problem:#}\n")));
        }
        let children: Option<OsString> = matches.get_one("children").cloned();
        if let Some(patterns) = &children {
            settings.set(Key::Children, patterns.clone());
        }
        let require = matches.get_flag("require");
        if require {
            settings.set(Key::Require, "1".into());
        }
        let usual = if children.is_some() { FAMILY_OUTPUT } else { OUTPUT };
        let output_is_asked_for = matches.value_source("output") == Some(ValueSource::CommandLine);
        let output = matches.get_one::<OsString>("output").filter(|_| output_is_asked_for).cloned();
        Ok(RunArgs {
            command: matches.get_many::<OsString>("command").unwrap_or_default().cloned().collect(),
            output: output.unwrap_or_else(|| usual.into()),
            output_is_asked_for,
            force: matches.get_flag("force"),
            require,
            quiet: matches.get_flag("quiet"),
            bytes: matches.get_flag("bytes"),
            preload: matches.get_one::<PathBuf>("preload").cloned(),
            machine_id: matches.get_flag("machine-id"),
            errors: matches.get_one::<ErrorsTold>("errors").copied(),
            error_exitcode: matches.get_one::<u8>("error-exitcode").copied(),
            suppress,
            children_end: if matches.get_flag("wait") { FamilyEnd::WithLastProcess } else { FamilyEnd::WithProgram },
            max_processes: matches.get_one("max-processes").copied().unwrap_or(PROCESSES_MAX),
            children,
            snapshot_when: matches.get_many("snapshot-when").unwrap_or_default().copied().collect(),
            settings,
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
    use crate::args::{Cli, Command as Chosen};
    use clap::{CommandFactory, Parser};
    use heapledger_format::session::Key;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    fn parse<T: AsRef<OsStr>>(arguments: &[T]) -> Result<RunArgs, clap::Error> {
        let whole = ["heapledger".as_ref(), "run".as_ref()].into_iter().chain(arguments.iter().map(AsRef::as_ref));
        match Cli::try_parse_from(whole)?.command {
            Chosen::Run(arguments) => Ok(arguments),
            _ => panic!("another command"),
        }
    }

    #[test]
    fn options_end_at_the_program() {
        for line in [
            &["jq", "-q", "--output", "x", "--", "--help", "-h", "--version"][..],
            &["--", "jq", "-q", "--output", "x", "--", "--help", "-h", "--version"][..],
        ] {
            let run = parse(line).expect("parses");
            assert_eq!(run.command, ["jq", "-q", "--output", "x", "--", "--help", "-h", "--version"]);
            assert!(!run.quiet);
            assert_eq!(run.output, OUTPUT);
        }
    }

    #[test]
    fn own_options_come_first() {
        let line = ["-q", "--output=a.hl", "--force", "--depth", "9", "--max-ledger=1G", "--", "-odd", "--", "-q"];
        let run = parse(&line).expect("parses");
        assert!(run.quiet && run.force && !run.bytes);
        assert_eq!(run.output, "a.hl");
        assert_eq!(run.command, ["-odd", "--", "-q"]);
        assert_eq!(run.settings.get(Key::Depth), Some(OsStr::new("9")));
        assert_eq!(run.settings.get(Key::MaxLedger), Some(OsStr::new("1073741824")));
        assert_eq!(run.settings.get(Key::History), None);
        assert_eq!(run.settings.get(Key::CheckStacks), None);
        let run =
            parse(&["--check-stacks", "--sample", "512K", "--unwind=fast", "--fallback", "2", "jq"]).expect("parses");
        assert_eq!(run.command, ["jq"]);
        assert_eq!(run.settings.variable(), "sample=524288,unwind=fast,fallback=2,check-stacks=1");
    }

    /// The options as they stand in the documentation: one row each.
    fn table() -> String {
        let mut out = String::from("| `run` | `HEAPLEDGER` | |\n|---|---|---|\n");
        for option in OPTIONS.iter().filter(|option| !option.hidden) {
            let (flag, key) = match option.value {
                Some(value) => (format!("--{} {value}", option.flag), format!("{}=", option.key.name())),
                None => (format!("--{}", option.flag), option.item()),
            };
            out += &format!("| `{flag}` | `{key}` | {} |\n", option.help);
        }
        out
    }

    #[test]
    fn help_environment_and_documentation_list_the_same() {
        let mut command = Cli::command();
        let run = command.find_subcommand_mut("run").expect("run");
        let help = run.render_long_help().to_string();
        let documented = include_str!("../../README.md");
        assert!(documented.contains(&table()), "crates/cli/README.md must hold this table:\n{}", table());
        let mut settings = Settings::default();
        for option in OPTIONS {
            let argument = run.get_arguments().find(|argument| argument.get_long() == Some(option.flag));
            let shown = argument.and_then(|argument| argument.get_help()).map(ToString::to_string);
            assert_eq!(shown.as_deref(), Some(option.help), "--{}", option.flag);
            for text in [format!("{}=", option.key.name()), format!("--{}", option.flag)] {
                assert_eq!(help.contains(&text), !option.hidden, "{text} in the help");
            }
            let sample = ["/tmp", "1M", "5", "1", "stack", "tables", "service=api", "full", "advice", "ce"];
            let read = sample.iter().find_map(|value| option.read(OsStr::new(value)).ok()).expect("a value that fits");
            settings.set(option.key, read);
        }
        let variable = settings.variable();
        let mut again = Settings::default();
        assert_eq!(again.add_environment(&variable), Vec::<String>::new());
        assert_eq!(again, settings);
    }

    #[test]
    fn arguments_are_bytes() {
        let odd = OsStr::from_bytes(b"\xff\x01 \n");
        let run = parse(&[OsStr::new("cat"), odd, OsStr::new(""), odd]).expect("parses");
        assert_eq!(run.command, [OsStr::new("cat"), odd, OsStr::new(""), odd]);
    }

    #[test]
    fn wrong_usage_is_refused() {
        for line in [
            &["--bogus", "jq"][..],
            &[],
            &["--depth", "0", "jq"],
            &["--unwind=x", "jq"],
            &["-o"],
            &["-o", "-", "jq"],
            &["-o", "/dev/stdout", "jq"],
            &["--output=-", "jq"],
            &["--"],
            &["--sample", "2T", "jq"],
            &["--check-stacks=1", "jq"],
            &["--fallback", "x", "jq"],
        ] {
            assert_eq!(parse(line).expect_err("refused").exit_code(), 2, "{line:?}");
        }
    }
}
