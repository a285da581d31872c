//! `heapledger completions`: scripts for shells, from the definition of the command line.

use std::collections::BTreeSet;

use anyhow::Result;
use clap_complete::Shell;

use crate::{help, terminal};

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  heapledger completions bash > /etc/bash_completion.d/heapledger
  heapledger completions zsh > ~/.zfunc/_heapledger
  heapledger completions fish > ~/.config/fish/completions/heapledger.fish")]
pub(crate) struct CompletionsArgs {
    /// For which shell
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: Shell,
}

/// Prints the script that completes command lines of heapledger.
pub(crate) fn run(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut help::command(), "heapledger", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if args.shell == Shell::Bash {
        for words in lists(&help::command()) {
            // What stands before the last comma stays as it is.
            let whole = format!("-W \"{words}\" -- \"${{cur}}\"");
            let part = format!("-P \"${{cur%\"${{cur##*,}}\"}}\" -W \"{words}\" -- \"${{cur##*,}}\"");
            script = script.replace(&whole, &part);
        }
    }
    Ok(terminal::print(&script)?)
}

/// The words of which options take a list.
fn lists(command: &clap::Command) -> BTreeSet<String> {
    let is_list = |arg: &&clap::Arg| {
        arg.get_value_names().is_some_and(|names| names.iter().any(|name| ["LIST", "KEYS"].contains(&name.as_str())))
    };
    let words = |arg: &clap::Arg| {
        let words = arg.get_possible_values();
        words.iter().map(|word| word.get_name().to_owned()).collect::<Vec<_>>().join(" ")
    };
    let own = command.get_arguments().filter(is_list).map(words).filter(|words| !words.is_empty());
    own.chain(command.get_subcommands().flat_map(lists)).collect()
}
