//! The definition of the command line as help, completions and manual pages are made from it, and how help looks.

use clap::{Command, CommandFactory};

use crate::args::Cli;
use crate::terminal::{self, Color};

/// Columns that help takes at most: longer lines are hard to read.
const WIDTH: usize = 100;

/// Commands by what they are for. What stands in none of these reads ledgers.
const RECORDING: &[&str] = &["run", "attach", "recover", "snapshot"];
const LOGS: &[&str] = &["convert", "receive", "decode", "encode"];
const MINOR: &[&str] = &["header", "sdk", "preload-path", "gdb-script", "completions", "man", "help"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum CommandGroup {
    Recording,
    Reading,
    Logs,
    Minor,
}

fn group_of(name: &str) -> CommandGroup {
    match name {
        _ if RECORDING.contains(&name) => CommandGroup::Recording,
        _ if LOGS.contains(&name) => CommandGroup::Logs,
        _ if MINOR.contains(&name) => CommandGroup::Minor,
        _ => CommandGroup::Reading,
    }
}

/// Where to begin: the end of `heapledger help`, and examples of the manual page.
const EXAMPLES: &str = "\
Examples:
  heapledger run -- jq . big.json        leaves the ledger heapledger.jq.PID.hl
  heapledger stats heapledger.jq.PID.hl  totals, peak, threads, heaps
  heapledger dump heapledger.jq.PID.hl   what is still allocated, and by what
  heapledger stats PID                   totals of a program that is running";

/// The command line, without the help of all commands together: who runs one command need not wait for that.
pub(crate) fn plain_command() -> Command {
    Cli::command().term_width(terminal::width().min(WIDTH))
}

/// The command line, with the help of all commands.
pub(crate) fn command() -> Command {
    let mut command = plain_command();
    // `help` is added when it is built.
    command.build();
    let list = list(&command);
    command
        .help_template("{about-with-newline}\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}")
        .after_help(format!("{list}\n{EXAMPLES}"))
}

/// The commands with what they do, by what they are for.
fn list(command: &Command) -> String {
    let all: Vec<(&str, String)> = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .map(|sub| (sub.get_name(), sub.get_about().map(ToString::to_string).unwrap_or_default()))
        .collect();
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for (group, heading) in [
        (CommandGroup::Recording, "Recording"),
        (CommandGroup::Reading, "Reading ledgers, finished or of running processes"),
        (CommandGroup::Logs, "Logs of devices, which all of these read in place of a ledger"),
        (CommandGroup::Minor, "Minor commands"),
    ] {
        out += &format!("{heading}:\n");
        for (name, about) in all.iter().filter(|(name, _)| group_of(name) == group) {
            out += &format!("  {name:<width$}  {about}\n");
        }
        out += "\n";
    }
    out + "`heapledger help COMMAND` shows all options.\n"
}

/// Help as a terminal shows it: headings stand out.
pub(crate) fn emphasized(text: &str) -> String {
    let paint = Color::Auto.paint(false);
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let words = line.trim_end();
        let heading = words.strip_suffix(':').is_some_and(|heading| !heading.is_empty() && !heading.contains(':'));
        if !words.starts_with(char::is_whitespace) && heading {
            out += &paint.strong(words);
            out += &line[words.len()..];
        } else if let Some(rest) = line.strip_prefix("Usage:") {
            out += &paint.strong("Usage:");
            out += rest;
        } else {
            out += line;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help of every command, short and long, in so many columns.
    fn all_help(columns: usize) -> Vec<(String, String)> {
        let mut command = command().term_width(columns);
        let mut all = vec![("heapledger".to_owned(), command.render_help().to_string())];
        let subs: Vec<Command> = command.get_subcommands().cloned().collect();
        for sub in subs.into_iter().filter(|sub| sub.get_name() != "help") {
            let name = sub.get_name().to_owned();
            let mut sub = sub.term_width(columns);
            all.push((name.clone(), sub.render_help().to_string()));
            all.push((name, sub.render_long_help().to_string()));
        }
        all
    }

    #[test]
    fn help_fits_and_has_examples() {
        for columns in [80, 100] {
            for (name, help) in all_help(columns) {
                for line in help.lines() {
                    assert!(line.chars().count() <= columns, "{name}, {columns} columns: {line}");
                }
                assert!(help.contains("Examples:\n"), "{name} has no examples: {help}");
                assert!(help.contains("Usage: heapledger"), "{name}: {help}");
            }
        }
    }

    /// What is wrapped within a column or an example is hard to read.
    #[test]
    fn what_stands_below_the_options_is_narrow() {
        for sub in command().get_subcommands() {
            for text in [sub.get_after_help(), sub.get_after_long_help()].into_iter().flatten() {
                for line in text.to_string().lines() {
                    assert!(line.chars().count() <= 80, "{}: {line}", sub.get_name());
                }
            }
        }
    }

    /// What a command has of its own stands in no group of what all have, which comes behind it, and all of it is explained.
    #[test]
    fn own_options_come_first() {
        const OF_ALL: [(&str, &[&str]); 3] = [
            ("How text is shown", &["bytes", "color", "no_pager"]),
            ("Logs and images of memory", &["from", "base"]),
            ("Sessions of several processes", &["pid", "process"]),
        ];
        for sub in command().get_subcommands() {
            let name = sub.get_name();
            for arg in sub.get_arguments().filter(|arg| !arg.is_hide_set()) {
                assert!(arg.get_help().is_some_and(|help| !help.to_string().is_empty()), "{name} {arg}: what is it?");
                assert!(!arg.is_positional() || arg.get_help_heading().is_none(), "{name} {arg} is in a group");
                let group = OF_ALL.iter().find(|(heading, _)| arg.get_help_heading() == Some(heading));
                assert!(group.is_none_or(|(_, all)| all.contains(&arg.get_id().as_str())), "{name} {arg}: {group:?}");
            }
            let headings: Vec<&str> = sub.get_arguments().filter_map(clap::Arg::get_help_heading).collect();
            let place = |heading: &str| headings.iter().position(|there| *there == heading);
            let (filters, sessions) = (place("Filters"), place("Sessions of several processes"));
            assert!(filters.zip(sessions).is_none_or(|(filters, sessions)| filters < sessions), "{name}: {headings:?}");
        }
    }

    #[test]
    fn examples_can_be_typed() {
        for (name, help) in all_help(100) {
            let examples = help.split("Examples:\n").nth(1).unwrap_or_default();
            let first = examples.lines().next().unwrap_or_default();
            assert!(first.starts_with("  heapledger "), "{name}: {first}");
            if name != "heapledger" {
                assert!(examples.contains(&format!("heapledger {name}")), "{name}: {examples}");
            }
        }
    }

    #[test]
    fn every_command_has_one_place() {
        let list = list(&command());
        for sub in command().get_subcommands() {
            let lines = list.lines().filter(|line| line.split_whitespace().next() == Some(sub.get_name())).count();
            assert_eq!(lines, 1, "{}: {list}", sub.get_name());
        }
    }
}
