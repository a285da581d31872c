//! The options of the recorder, from their one table, for the commands that begin a recording.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use heapledger_format::session::{Key, LABELS_BYTES_MAX};
use heapledger_launch::options::{OPTIONS, Settings};
use heapledger_launch::output::is_descriptor;

/// Adds those that are wanted, and the hidden one for another library.
pub(super) fn augment(mut command: Command, is_wanted: fn(Key) -> bool) -> Command {
    for option in OPTIONS.iter().filter(|option| is_wanted(option.key)) {
        let argument = Arg::new(option.key.name()).long(option.flag).help(option.help).hide(option.hidden);
        let argument = if option.key == Key::Label { argument.action(ArgAction::Append) } else { argument };
        command = command.arg(match option.value {
            Some(value) => {
                let parser = OsStringValueParser::new().try_map(|value| option.read(&value));
                argument.value_name(value).value_parser(parser)
            }
            None => argument.action(ArgAction::SetTrue),
        });
    }
    command.arg(
        Arg::new("preload")
            .long("preload")
            .value_name("PATH")
            .hide(true)
            .value_parser(clap::value_parser!(PathBuf))
            .help("Use this preload library instead of the built-in one; HEAPLEDGER_PRELOAD does the same"),
    )
}

/// `--force`, of commands that have a ledger written by a name.
pub(crate) fn force() -> Arg {
    Arg::new("force").long("force").action(ArgAction::SetTrue).help(
        "Replace the output file, also a symbolic link, which is not followed; otherwise a free name is found by adding .1, .2 …",
    )
}

/// Reads a ledger's name, or a pattern of it. Reading commands take `-` for standard input: a file of that name would be hard to ask for, and a ledger
/// is no stream.
pub(crate) fn output_file() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|name| match name {
        name if name == "-" => {
            Err("a ledger is a file, and cannot go to standard output; './-' is a file of this name")
        }
        name if is_descriptor(Path::new(&name)) => {
            Err("a ledger is a file, and cannot go to standard output, or to what else is open")
        }
        name => Ok(name),
    })
}

/// The same as a path.
pub(crate) fn output_path() -> impl TypedValueParser<Value = PathBuf> {
    output_file().map(PathBuf::from)
}

/// What was typed of them.
pub(super) fn settings(matches: &ArgMatches, is_wanted: fn(Key) -> bool) -> Result<Settings, clap::Error> {
    let mut settings = Settings::default();
    for option in OPTIONS.iter().filter(|option| is_wanted(option.key)) {
        let values: Vec<OsString> = match option.value {
            Some(_) => matches.get_many(option.key.name()).unwrap_or_default().cloned().collect(),
            None => matches.get_flag(option.key.name()).then(|| "1".into()).into_iter().collect(),
        };
        values.into_iter().for_each(|value| settings.set(option.key, value));
    }
    if settings.labels_bytes() > LABELS_BYTES_MAX {
        let problem = format!("all --label together have more than {LABELS_BYTES_MAX} bytes");
        return Err(clap::Error::raw(ErrorKind::ValueValidation, problem));
    }
    Ok(settings)
}
